//! A curated corpus on disk, ready for training.
//!
//! ```text
//! DIR/corpus.bin, corpus.idx   the tokens
//! DIR/manifest.json            what they are, size and checksum of the others; written last
//! DIR/report.json, report.html how the corpus came about
//! DIR/origin.json              what it was made from: configuration, input files, test sets
//! DIR/removed.jsonl            one line per document that was dropped
//! DIR/provenance.jsonl         one line per document that was kept, in shard order
//! DIR/rejects.jsonl            one line per record that could not be read, or only with U+FFFD
//! DIR/tokenizer.json           the tokenizer, where it is none that the program has built in
//! ```
//!
//! A folder under its final name is whole: it is written as `.DIR.partial` beside it and renamed
//! when everything is on disk.

mod manifest;
mod merge;
mod sequences;
mod workplace;
mod writer;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use manifest::MANIFEST_VERSION;
pub use manifest::{DataManifest, SourceSpan, TokenizerIdentity};
pub(crate) use merge::merge_folders;
pub use sequences::Sequences;
use serde::de::DeserializeOwned;
pub use workplace::Workplace;
pub use writer::{DataFolderWriter, Existing};

use crate::observer::{Observer, Unit};
use crate::pending_file::FileSummary;
use crate::shard::{ShardPaths, ShardReader};
use crate::tokenizer::{self, Tokenizer};
use crate::{CorpusError, ShardCheck};

/// Stem of the shard in a data folder.
pub const SHARD: &str = "corpus";
/// Name of the tokenizer's definition in a data folder.
const TOKENIZER: &str = "tokenizer.json";
/// Name of the manifest.
pub const MANIFEST: &str = "manifest.json";
/// Name of the report.
pub const REPORT: &str = "report.json";
/// Name of the list of dropped documents.
pub const REMOVED: &str = "removed.jsonl";
/// Name of the list of kept documents.
pub const PROVENANCE: &str = "provenance.jsonl";

/// A finished data folder.
#[derive(Debug, Clone)]
pub struct DataFolder {
    path: PathBuf,
    manifest: DataManifest,
}

impl DataFolder {
    /// Begins the data folder that will be `path`.
    ///
    /// An empty folder of that name is no obstacle, and a folder that holds other things than a
    /// data folder's is refused whatever `existing` says. What an earlier, killed run left under
    /// the temporary name is removed; a run that is still at work is refused its rival.
    ///
    /// # Errors
    ///
    /// Where the folder exists already, or none can be created.
    pub fn create(path: &Path, existing: Existing) -> Result<DataFolderWriter, CorpusError> {
        DataFolderWriter::create(path, existing)
    }

    /// Whether [`create`](Self::create) would refuse `path`, as far as can be told without making
    /// anything.
    ///
    /// # Errors
    ///
    /// Where it would.
    pub fn check_place(path: &Path, existing: Existing) -> Result<(), CorpusError> {
        writer::check_place(path, existing)
    }

    /// Opens the data folder at `path`: its manifest is read, and every file is there in the size
    /// that it says.
    ///
    /// # Errors
    ///
    /// Where the manifest is missing or does not read, or a file disagrees with it.
    pub fn open(path: &Path) -> Result<Self, CorpusError> {
        let manifest_path = path.join(MANIFEST);
        check_version(&manifest_path, &read_json(&manifest_path)?)?;
        let folder = Self { path: path.to_owned(), manifest: read_json(&manifest_path)? };
        for file in &folder.manifest.files {
            let path = folder.path.join(&file.name);
            let found = fs::metadata(&path).map_err(CorpusError::io("read", &path))?.len();
            check(&path, "bytes", file.bytes, found)?;
        }
        Ok(folder)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the folder holds.
    pub fn manifest(&self) -> &DataManifest {
        &self.manifest
    }

    /// Opens the shard.
    ///
    /// # Errors
    ///
    /// Where the shard is broken, or is not the one of the manifest.
    pub fn shard(&self) -> Result<ShardReader, CorpusError> {
        let stem = self.stem();
        let shard = ShardReader::open(&stem)?;
        check(&stem, "documents", self.manifest.documents, shard.num_documents())?;
        check(&stem, "tokens", self.manifest.tokens, shard.num_tokens())?;
        if let Some(sentences) = self.manifest.sentences {
            check(&stem, "sentences", sentences, shard.num_sequences())?;
        }
        Ok(shard)
    }

    /// The shard's path without `.bin` or `.idx`.
    fn stem(&self) -> PathBuf {
        self.path.join(SHARD)
    }

    /// Identity of the tokenizer, under a name by which it is found from any folder.
    ///
    /// # Errors
    ///
    /// Where the working folder cannot be told.
    pub fn tokenizer_identity(&self) -> Result<TokenizerIdentity, CorpusError> {
        self.manifest.tokenizer.seen_from(&self.path)
    }

    /// Opens the tokenizer that made the tokens.
    ///
    /// # Errors
    ///
    /// Where it is not there, or another than the manifest says.
    pub fn tokenizer(&self) -> Result<Arc<dyn Tokenizer>, CorpusError> {
        let identity = self.tokenizer_identity()?;
        let tokenizer = tokenizer::open(&identity.name)?;
        let path = Path::new(&identity.name);
        check(path, "fingerprint", &identity.fingerprint, tokenizer.fingerprint())?;
        Ok(tokenizer)
    }

    /// The line of provenance of a document: a JSON object that names its source, file and line.
    /// `None` where the folder does not hold the list, or the list no such line.
    ///
    /// # Errors
    ///
    /// Where the list cannot be read.
    pub fn provenance(&self, document: u64) -> Result<Option<String>, CorpusError> {
        let path = self.path.join(PROVENANCE);
        if !path.exists() {
            return Ok(None);
        }
        let read = || {
            let mut lines = BufReader::with_capacity(1 << 20, File::open(&path)?);
            for _ in 0..document {
                lines.skip_until(b'\n')?;
            }
            let mut line = String::new();
            lines.read_line(&mut line)?;
            Ok(line)
        };
        let line = read().map_err(CorpusError::io("read", &path))?;
        Ok(Some(line).filter(|line| !line.is_empty()))
    }

    /// Reads every file and compares its checksum, and checks that all tokens lie in the
    /// vocabulary.
    ///
    /// # Errors
    ///
    /// Where a file is not the one of the manifest, or the shard is broken; and where the observer
    /// asks to stop.
    pub fn verify(&self, observer: &dyn Observer) -> Result<ShardCheck, CorpusError> {
        let shard = self.shard()?;
        let bytes = self.manifest.files.iter().map(|file| file.bytes).sum();
        observer.begin("verify", Some(bytes), Unit::Bytes);
        let vocab_size = self.manifest.tokenizer.vocab_size;
        let mut tokens = None;
        for file in &self.manifest.files {
            let path = self.path.join(&file.name);
            // The tokens are looked at in the pass that takes their checksum.
            let found = if path == ShardPaths::new(&self.stem()).data {
                let scan = tokens.insert(shard.scan(vocab_size, observer)?);
                scan.file.clone()
            } else {
                FileSummary::observed(&path, observer)?
            };
            check(&path, "xxh3_128", &file.xxh3_128, &found.xxh3_128)?;
        }
        let scan = match tokens {
            Some(scan) => scan,
            None => shard.scan(vocab_size, observer)?, // a manifest that does not list them
        };
        observer.finish();
        match scan.first_outside {
            Some(found) => Err(shard.outside(found, vocab_size)),
            None => Ok(ShardCheck::scanned(&self.stem(), &shard, scan.max_token)),
        }
    }
}

fn check_version(path: &Path, manifest: &serde_json::Value) -> Result<(), CorpusError> {
    let found = &manifest["version"];
    if *found == MANIFEST_VERSION {
        Ok(())
    } else {
        check(path, "version", MANIFEST_VERSION, found)
    }
}

/// Reads a JSON file of a data folder.
fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, CorpusError> {
    let text = fs::read(path).map_err(CorpusError::io("read", path))?;
    serde_json::from_slice(&text)
        .map_err(|source| CorpusError::Json { path: path.to_owned(), source })
}

/// Refuses a file in which `found` differs from what the manifest says.
fn check<E, F>(path: &Path, what: &'static str, expected: E, found: F) -> Result<(), CorpusError>
where
    E: ToString,
    F: ToString,
{
    let (expected, found) = (expected.to_string(), found.to_string());
    if expected == found {
        return Ok(());
    }
    let remedy = "; the file is not as it was written: copy it again, or make its folder again";
    Err(CorpusError::ManifestMismatch { path: path.to_owned(), what, expected, found, remedy })
}

#[cfg(test)]
mod tests;
