//! Sources over files in a temporary folder.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;

mod any_bytes;
mod blocks;
mod broken;
mod compressed;
mod files;
mod parquet_file;
mod records;

/// A folder of input files.
struct Input {
    folder: TempDir,
}

impl Input {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let input = Self { folder: tempfile::tempdir().unwrap() };
        for (name, bytes) in files {
            let path = input.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        input
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn jsonl(&self, names: &[&str]) -> SourceConfig {
        SourceConfig {
            name: "source".to_owned(),
            paths: names.iter().map(|name| self.path(name)).collect(),
            ..SourceConfig::jsonl("")
        }
    }

    fn text(&self, include: &[&str], exclude: &[&str]) -> SourceConfig {
        let owned =
            |patterns: &[&str]| patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let tree = TextTreeConfig { include: owned(include), exclude: owned(exclude) };
        SourceConfig::new(self.path(""), SourceFormat::Text(tree))
    }

    /// `error`'s message without the folder's name.
    fn message(&self, error: &CorpusError) -> String {
        self.without_folder(error)
    }

    fn without_folder(&self, message: &impl ToString) -> String {
        message.to_string().replace(&self.path("").display().to_string(), "")
    }
}

/// A policy for records; files that break off are errors.
fn lines(on_bad_line: OnBadLine) -> ReadPolicy {
    ReadPolicy { on_bad_line, ..ReadPolicy::default() }
}

fn open(source: SourceConfig, on_bad_line: OnBadLine) -> Sources {
    Sources::open(&[source], lines(on_bad_line)).unwrap()
}

fn items(source: SourceConfig, on_bad_line: OnBadLine) -> Vec<Item> {
    open(source, on_bad_line).collect::<Result<_, _>>().unwrap()
}

fn texts(source: SourceConfig) -> Vec<String> {
    items(source, OnBadLine::Fail)
        .into_iter()
        .map(|item| match item {
            Item::Document(document) => document.text,
            other => panic!("{other:?}"),
        })
        .collect()
}

/// `count` records of some length that differ, one a line.
fn records(count: usize) -> Vec<u8> {
    (0..count)
        .flat_map(|number| {
            let text = format!("document {number}, of number {}. ", number * number % 97).repeat(9);
            format!("{{\"id\": {number}, \"text\": \"{text}\"}}\n").into_bytes()
        })
        .collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// One frame, with the checksum that the `zstd` program writes.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
