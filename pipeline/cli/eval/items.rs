//! What an evaluation found of each item, in a file of its own.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use corpus::PendingFile;
use evaluation::EvalReport;
use serde_json::Value;

use crate::exit::Usage;

/// A file of JSONL that appears under its name when it is whole.
#[derive(Debug)]
pub(crate) struct ItemsFile {
    path: PathBuf,
    overwrite: bool,
    file: PendingFile,
}

impl ItemsFile {
    /// Begins the file before the work whose items it will hold, so that one that cannot be written
    /// is refused in time.
    pub(crate) fn begin(path: &Path, overwrite: bool) -> anyhow::Result<Self> {
        Self::check(path, overwrite)?;
        Ok(Self { path: path.to_owned(), overwrite, file: PendingFile::replace(path)? })
    }

    /// Refuses a path at which no file can be made, or another is that must stay.
    pub(crate) fn check(path: &Path, overwrite: bool) -> anyhow::Result<()> {
        let problem = if path.is_dir() {
            "is a folder: name a file in it"
        } else if path.exists() && !overwrite {
            "exists already: choose another name, or pass --overwrite"
        } else if path.exists() && !holds_items(path) {
            "holds no items of an evaluation, so it is not overwritten: choose another name"
        } else {
            return Ok(());
        };
        bail!(Usage(anyhow!("{} {problem}", path.display())))
    }

    /// Writes the items of all tasks and gives the file its name.
    pub(crate) fn finish(mut self, report: &EvalReport) -> anyhow::Result<()> {
        Self::check(&self.path, self.overwrite)?; // hours may lie between the beginning and this
        for result in &report.results {
            let Some(items) = &result.items else {
                bail!(
                    "no items of {} are written to {}: its tokens do not tell which item each \
                     belongs to",
                    result.task,
                    self.path.display()
                );
            };
            self.file.write(|mut file| items.write_jsonl(&mut file))?;
        }
        self.file.sync()?;
        Ok(self.file.commit()?)
    }
}

/// Whether `path` is a regular file whose first line is an item.
fn holds_items(path: &Path) -> bool {
    /// No item comes near this size.
    const MAX_BYTES: u64 = 1 << 20;
    let first_line = || {
        let mut line = String::new();
        BufReader::new(File::open(path).ok()?.take(MAX_BYTES)).read_line(&mut line).ok()?;
        serde_json::from_str::<Value>(&line).ok()
    };
    let is_file = fs::symlink_metadata(path).is_ok_and(|it| it.is_file());
    is_file
        && first_line()
            .is_some_and(|it| ["index", "line", "nll"].iter().all(|key| it.get(key).is_some()))
}
