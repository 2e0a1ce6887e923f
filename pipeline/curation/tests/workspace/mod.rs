//! A folder in which a test curates a corpus, and what it finds there afterwards.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::fs;
use std::path::PathBuf;

use corpus::Silent;
use corpus::reader::SourceConfig;
use curation::{CurationConfig, CurationError, CurationReport, curate};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::generate::Random;

/// A folder for one test: `in/` for its input, `out` for the result.
pub(crate) struct Workspace {
    folder: TempDir,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// The texts as one JSONL file with the texts' numbers as ids.
    pub(crate) fn write_texts(&self, texts: &[impl AsRef<str>]) {
        self.write("in/a.jsonl", &jsonl(texts));
    }

    /// The paper's cleaning of everything in `in/`.
    pub(crate) fn config(&self) -> CurationConfig {
        let mut source = SourceConfig::jsonl(self.path("in"));
        source.name = "test".to_owned();
        CurationConfig::of_paper(vec![source])
    }

    pub(crate) fn config_without_length(&self) -> CurationConfig {
        CurationConfig { length: None, ..self.config() }
    }

    pub(crate) fn curate(&self, config: CurationConfig) -> Result<CurationReport, CurationError> {
        curate(&config.validate().unwrap(), &self.path("out"), &Silent)
    }

    pub(crate) fn bytes(&self, file: &str) -> Vec<u8> {
        fs::read(self.path("out").join(file)).unwrap()
    }

    pub(crate) fn json_lines(&self, file: &str) -> Vec<Value> {
        String::from_utf8(self.bytes(file))
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Ids of the kept documents, in the order of the shard.
    pub(crate) fn kept_ids(&self) -> Vec<String> {
        self.json_lines("provenance.jsonl")
            .iter()
            .map(|line| line["id"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Everything but the input that is in the test's folder.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name != "in")
            .collect();
        names.sort();
        names
    }
}

pub(crate) fn jsonl(texts: &[impl AsRef<str>]) -> String {
    texts
        .iter()
        .enumerate()
        .map(|(number, text)| {
            format!("{}\n", json!({"id": number.to_string(), "text": text.as_ref()}))
        })
        .collect()
}

pub(crate) fn words(seed: u64, count: usize) -> String {
    Random::new(seed).words(count).join(" ")
}
