//! Results: a table for people, JSON for programs, on standard output or in a file.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use corpus::PendingFile;
use serde::Serialize;
use serde_json::Value;

use crate::exit::Usage;

/// Prints `text` to standard output; a closed pipe is no error.
pub(crate) fn text(text: &str) -> anyhow::Result<()> {
    match writeln!(io::stdout().lock(), "{}", text.trim_end()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Prints `value` as JSON to standard output.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    text(&serde_json::to_string_pretty(value).context("cannot write the result as JSON")?)
}

/// Writes a file, whole or not at all, in place of one that is there.
pub(crate) fn file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut file = PendingFile::replace(path)?;
    file.write(|file| file.write_all(bytes))?;
    file.sync()?;
    Ok(file.commit()?)
}

/// A JSON file that appears under its name when it is whole.
#[derive(Debug)]
pub(crate) struct ReportFile {
    path: PathBuf,
    overwrite: bool,
    file: PendingFile,
}

impl ReportFile {
    /// Begins the file before the work whose result it will hold, so that one that cannot be
    /// written is refused in time.
    pub(crate) fn begin(path: &Path, overwrite: bool) -> anyhow::Result<Self> {
        Self::check(path, overwrite)?;
        Ok(Self { path: path.to_owned(), overwrite, file: PendingFile::replace(path)? })
    }

    /// Refuses a path at which no file can be made, or another is that must stay.
    pub(crate) fn check(path: &Path, overwrite: bool) -> anyhow::Result<()> {
        if path.is_dir() {
            bail!(Usage(anyhow!("{} is a folder: name a file in it", path.display())));
        }
        if path.exists() && !overwrite {
            bail!(Usage(anyhow!(
                "{} exists already: choose another name, or pass --overwrite",
                path.display()
            )));
        }
        if path.exists() && !is_report(path) {
            bail!(Usage(anyhow!(
                "{} is no report of this program, so it is not overwritten: choose another name",
                path.display()
            )));
        }
        Ok(())
    }

    /// Writes `value` and gives the file its name.
    pub(crate) fn finish(mut self, value: &impl Serialize) -> anyhow::Result<()> {
        Self::check(&self.path, self.overwrite)?; // hours may lie between the beginning and this
        let text =
            serde_json::to_string_pretty(value).context("cannot write the result as JSON")?;
        self.file.write(|file| writeln!(file, "{text}"))?;
        self.file.sync()?;
        Ok(self.file.commit()?)
    }
}

/// Whether `path` is a regular file that holds what [`ReportFile`] wrote for an evaluation or a demo.
fn is_report(path: &Path) -> bool {
    /// No report comes near this size, and nothing larger is read to find out.
    const MAX_BYTES: u64 = 64 << 20;
    let is_small_file =
        fs::symlink_metadata(path).is_ok_and(|it| it.is_file() && it.len() <= MAX_BYTES);
    let read = || serde_json::from_slice::<Value>(&fs::read(path).ok()?).ok();
    is_small_file && read().is_some_and(|it| it.get("results").or(it.get("evaluation")).is_some())
}

/// Lays out rows in columns: the first flush left, the others flush right.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[column] - cell.chars().count());
            match column {
                0 => line.extend([cell.as_str(), &pad]),
                _ => line.extend(["  ", &pad, cell.as_str()]),
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
