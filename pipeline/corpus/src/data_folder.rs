//! A curated corpus on disk, ready for training.
//!
//! ```text
//! DIR/corpus.bin, corpus.idx   the tokens
//! DIR/manifest.json            what they are, and size and checksum of every other file; written last
//! DIR/report.json              how the corpus came about
//! DIR/removed.jsonl            one line per document that was dropped
//! DIR/provenance.jsonl         one line per document that was kept, in shard order
//! ```
//!
//! A folder under its final name is whole: it is written as `.DIR.partial` beside it and renamed when everything is on
//! disk.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::pending_file::{FileSummary, sync_folder, temporary_sibling};
use crate::reader::SourceConfig;
use crate::shard::{DType, ShardFault, ShardReader, ShardSummary, ShardWriter};
use crate::tokenizer::Tokenizer;
use crate::{CorpusError, ShardCheck};

/// Stem of the shard in a data folder.
const SHARD: &str = "corpus";
/// Name of the manifest.
pub const MANIFEST: &str = "manifest.json";
/// Name of the report.
pub const REPORT: &str = "report.json";
/// Name of the list of dropped documents.
pub const REMOVED: &str = "removed.jsonl";
/// Name of the list of kept documents.
pub const PROVENANCE: &str = "provenance.jsonl";

/// Version of the manifest that this program writes and reads.
const MANIFEST_VERSION: u32 = 1;

/// What a data folder holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataManifest {
    /// Version of this file's form.
    pub version: u32,
    /// The tokenizer that made the tokens.
    pub tokenizer: TokenizerIdentity,
    /// Number of documents.
    pub documents: u64,
    /// Number of tokens, ends of documents among them.
    pub tokens: u64,
    /// Format of a token in the shard.
    pub dtype: DType,
    /// Size and checksum of every file but this one.
    pub files: Vec<FileSummary>,
    /// The sources, as configured.
    pub sources: Vec<SourceConfig>,
    /// The whole resolved configuration.
    pub config: serde_json::Value,
    /// Number of documents dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
}

/// Which tokenizer made the tokens of a shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerIdentity {
    /// Name or path by which it was opened.
    pub name: String,
    /// Size of its vocabulary.
    pub vocab_size: usize,
    /// The token that ends a document.
    pub eod: u32,
    /// Hash of its definition: [`Tokenizer::fingerprint`].
    pub fingerprint: String,
}

impl TokenizerIdentity {
    /// The identity of `tokenizer`.
    pub fn of(tokenizer: &dyn Tokenizer) -> Self {
        Self {
            name: tokenizer.name().to_owned(),
            vocab_size: tokenizer.vocab_size(),
            eod: tokenizer.eod(),
            fingerprint: tokenizer.fingerprint(),
        }
    }
}

impl DataManifest {
    /// The manifest of a shard that `tokenizer` filled; sources, configuration and drop counts are for the caller to add.
    pub fn new(tokenizer: &dyn Tokenizer, shard: &ShardSummary) -> Self {
        Self {
            version: MANIFEST_VERSION,
            tokenizer: TokenizerIdentity::of(tokenizer),
            documents: shard.documents,
            tokens: shard.tokens,
            dtype: shard.dtype,
            files: shard.files.to_vec(),
            sources: Vec::new(),
            config: serde_json::Value::Null,
            dropped: BTreeMap::new(),
        }
    }
}

/// A finished data folder.
#[derive(Debug, Clone)]
pub struct DataFolder {
    path: PathBuf,
    manifest: DataManifest,
}

/// What to do with a data folder that exists under the name of a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// Refuse to begin.
    #[default]
    Refuse,
    /// Put the new one in its place when that is whole.
    Replace,
}

impl DataFolder {
    /// Begins the data folder that will be `path`.
    ///
    /// An empty folder of that name is no obstacle, and a folder that holds other things than a data folder's is refused
    /// whatever `existing` says. What an earlier, killed run left under the temporary name is removed.
    ///
    /// # Errors
    ///
    /// Where the folder exists already, or none can be created.
    pub fn create(path: &Path, existing: Existing) -> Result<DataFolderWriter, CorpusError> {
        check_target(path, existing)?;
        let temporary = temporary_sibling(&absolute(path)?, "partial");
        remove_folder(&temporary)?;
        fs::create_dir_all(&temporary).map_err(CorpusError::io("create", &temporary))?;
        Ok(DataFolderWriter { path: absolute(path)?, temporary, finished: false })
    }

    /// Opens the data folder at `path`: its manifest is read, and every file is there in the size that it says.
    ///
    /// # Errors
    ///
    /// Where the manifest is missing or does not read, or a file disagrees with it.
    pub fn open(path: &Path) -> Result<Self, CorpusError> {
        let manifest_path = path.join(MANIFEST);
        let text = fs::read(&manifest_path).map_err(CorpusError::io("read", &manifest_path))?;
        let json = |source| CorpusError::Json { path: manifest_path.clone(), source };
        check_version(&manifest_path, &serde_json::from_slice(&text).map_err(json)?)?;
        let folder =
            Self { path: path.to_owned(), manifest: serde_json::from_slice(&text).map_err(json)? };
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
        let stem = self.path.join(SHARD);
        let shard = ShardReader::open(&stem)?;
        check(&stem, "documents", self.manifest.documents, shard.num_documents())?;
        check(&stem, "tokens", self.manifest.tokens, shard.num_tokens())?;
        Ok(shard)
    }

    /// Reads every file and compares its checksum, and checks that all tokens lie in the vocabulary.
    ///
    /// # Errors
    ///
    /// Where a file is not the one of the manifest, or the shard is broken.
    pub fn verify(&self) -> Result<ShardCheck, CorpusError> {
        let shard = self.shard()?;
        for file in &self.manifest.files {
            let path = self.path.join(&file.name);
            let found = FileSummary::of(&path)?;
            check(&path, "xxh3_128", &file.xxh3_128, &found.xxh3_128)?;
        }
        let stem = self.path.join(SHARD);
        let checked = ShardCheck::of(&stem, &shard)?;
        let vocab_size = self.manifest.tokenizer.vocab_size;
        match checked.max_token {
            Some(found) if found as usize >= vocab_size => Err(CorpusError::Shard {
                path: stem,
                fault: ShardFault::OutsideVocabulary { found, vocab_size },
            }),
            _ => Ok(checked),
        }
    }
}

/// A data folder being written; dropped before [`finish`](Self::finish), it leaves nothing behind.
#[derive(Debug)]
pub struct DataFolderWriter {
    path: PathBuf,
    temporary: PathBuf,
    finished: bool,
}

impl DataFolderWriter {
    /// Where the file of this name lies until the folder is finished.
    pub fn file(&self, name: &str) -> PathBuf {
        self.temporary.join(name)
    }

    /// Begins the folder's shard for tokens below `vocab_size`.
    ///
    /// # Errors
    ///
    /// As [`ShardWriter::create`].
    pub fn shard(&self, vocab_size: usize) -> Result<ShardWriter, CorpusError> {
        ShardWriter::create(&self.file(SHARD), vocab_size)
    }

    /// Writes `value` as the JSON file of this name.
    ///
    /// # Errors
    ///
    /// Where the file cannot be written.
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), CorpusError> {
        let path = self.file(name);
        let mut text = serde_json::to_vec_pretty(value)
            .map_err(|source| CorpusError::Json { path: path.clone(), source })?;
        text.push(b'\n');
        fs::write(&path, text).map_err(CorpusError::io("write", &path))
    }

    /// Completes `manifest` by the files that it does not list yet, writes it last, and gives the folder its name.
    ///
    /// # Errors
    ///
    /// Where something cannot be read, written or renamed.
    pub fn finish(mut self, mut manifest: DataManifest) -> Result<DataFolder, CorpusError> {
        for path in self.other_files(&manifest.files)? {
            manifest.files.push(FileSummary::of(&path)?);
            sync_file(&path)?;
        }
        self.write_json(MANIFEST, &manifest)?;
        sync_file(&self.file(MANIFEST))?;
        sync_folder(Some(&self.temporary))?;

        let replaced = temporary_sibling(&self.path, "replaced");
        remove_folder(&replaced)?;
        if self.path.exists() {
            rename(&self.path, &replaced)?;
        }
        rename(&self.temporary, &self.path)?;
        self.finished = true;
        sync_folder(self.path.parent())?;
        remove_folder(&replaced)?;
        DataFolder::open(&self.path)
    }

    /// Files in the folder that are not in `listed`, by name.
    fn other_files(&self, listed: &[FileSummary]) -> Result<Vec<PathBuf>, CorpusError> {
        let mut paths = Vec::new();
        for entry in
            fs::read_dir(&self.temporary).map_err(CorpusError::io("list", &self.temporary))?
        {
            let entry = entry.map_err(CorpusError::io("list", &self.temporary))?;
            if !listed.iter().any(|file| entry.file_name() == file.name.as_str()) {
                paths.push(entry.path());
            }
        }
        paths.sort();
        Ok(paths)
    }
}

impl Drop for DataFolderWriter {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing is to be done about a folder that cannot be removed, and the first error is the one to report.
            let _ = fs::remove_dir_all(&self.temporary);
        }
    }
}

fn check_target(path: &Path, existing: Existing) -> Result<(), CorpusError> {
    let refuse = |remedy| Err(CorpusError::OutputExists { path: path.to_owned(), remedy });
    if !path.exists() {
        return Ok(());
    }
    if !path.is_dir() {
        return refuse("It is no folder: choose another name");
    }
    let is_empty = fs::read_dir(path).map_err(CorpusError::io("list", path))?.next().is_none();
    match existing {
        _ if is_empty => Ok(()),
        Existing::Refuse => refuse("Choose another name, or pass --overwrite"),
        Existing::Replace if path.join(MANIFEST).is_file() => Ok(()),
        Existing::Replace => {
            refuse("It holds no data folder, so it is not overwritten: choose another name")
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
    Err(CorpusError::ManifestMismatch { path: path.to_owned(), what, expected, found })
}

fn absolute(path: &Path) -> Result<PathBuf, CorpusError> {
    std::path::absolute(path).map_err(CorpusError::io("resolve", path))
}

fn rename(from: &Path, to: &Path) -> Result<(), CorpusError> {
    fs::rename(from, to).map_err(CorpusError::io("rename", from))
}

fn remove_folder(path: &Path) -> Result<(), CorpusError> {
    if path.exists() {
        fs::remove_dir_all(path).map_err(CorpusError::io("remove", path))
    } else {
        Ok(())
    }
}

fn sync_file(path: &Path) -> Result<(), CorpusError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(CorpusError::io("sync", path))
}

#[cfg(test)]
mod tests;
