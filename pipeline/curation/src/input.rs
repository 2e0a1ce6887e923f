//! What reading said beside documents: files that were left out or broke off, and records that
//! could not be read.

use std::collections::BTreeMap;

use corpus::reader::{BrokenFile, Skipped, Sources};
use serde::{Deserialize, Serialize};

/// Everything of the input that is no document.
pub(crate) struct Input {
    /// Bytes of the input files on disk.
    pub(crate) bytes: u64,
    pub(crate) skipped_files: Vec<SkippedFile>,
    pub(crate) broken: Vec<BrokenFile>,
    /// Files without a record.
    pub(crate) empty_files: Vec<String>,
    /// Records that could not be read and were passed over, by reason.
    pub(crate) rejected: BTreeMap<String, u64>,
    /// Documents in which characters were replaced, by reason.
    pub(crate) replaced: BTreeMap<String, u64>,
    /// Documents whose text the Unicode repair changed.
    pub(crate) unicode_repaired: u64,
}

/// A file or folder that was left out of the input though nobody asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedFile {
    /// The file or folder.
    pub file: String,
    /// Why it was left out.
    pub reason: String,
}

/// A file that breaks off or is damaged, and of which the documents before the break were kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TruncatedFile {
    /// The file.
    pub file: String,
    /// Documents before the break.
    pub documents: u64,
    /// Where its text breaks off, in bytes of the uncompressed text; of a Parquet file, where the
    /// row group begins that cannot be read.
    pub byte_offset: u64,
    /// The line or row that breaks off, counted from 1; `None` where the file is one document.
    pub line: Option<u64>,
    /// What is wrong with the file.
    pub problem: String,
}

impl Input {
    /// What `sources` have said, once they are read to their end.
    pub(crate) fn of(sources: &Sources) -> Self {
        Self {
            bytes: sources.total_bytes(),
            skipped_files: sources.skipped().iter().map(SkippedFile::from).collect(),
            broken: sources.broken().to_vec(),
            empty_files: sources.empty_files().map(|it| it.display().to_string()).collect(),
            rejected: BTreeMap::new(),
            replaced: BTreeMap::new(),
            unicode_repaired: 0,
        }
    }

    /// Adds the records of a part of the input that could not be read, or only by replacing.
    pub(crate) fn add_rejects(
        &mut self,
        rejected: &BTreeMap<String, u64>,
        replaced: &BTreeMap<String, u64>,
    ) {
        for (sum, part) in [(&mut self.rejected, rejected), (&mut self.replaced, replaced)] {
            for (reason, count) in part {
                *sum.entry(reason.clone()).or_default() += count;
            }
        }
    }

    /// The files that break off, for the report.
    pub(crate) fn truncated_files(&self) -> Vec<TruncatedFile> {
        self.broken.iter().map(TruncatedFile::from).collect()
    }

    /// Sentences for the report; the reader has logged them when it met the files.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(SkippedFile { file, reason }) = self.skipped_files.first() {
            let number = self.skipped_files.len();
            warnings.push(format!(
                "{number} files and folders were left out of the input, such as {file} ({reason})"
            ));
        }
        warnings.extend(self.broken.iter().map(BrokenFile::to_string));
        warnings.extend(self.empty_files.iter().map(|file| format!("{file}: holds no record")));
        warnings
    }
}

impl From<&Skipped> for SkippedFile {
    fn from(skipped: &Skipped) -> Self {
        Self { file: skipped.path.display().to_string(), reason: skipped.reason.to_string() }
    }
}

impl From<&BrokenFile> for TruncatedFile {
    fn from(broken: &BrokenFile) -> Self {
        Self {
            file: broken.path.display().to_string(),
            documents: broken.documents,
            byte_offset: broken.byte_offset,
            line: broken.line,
            problem: broken.problem.to_string(),
        }
    }
}
