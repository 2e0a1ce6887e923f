//! What a data folder says of itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Sequences, TOKENIZER, check};
use crate::reader::SourceConfig;
use crate::shard::{DType, ShardSummary};
use crate::tokenizer::{Tokenizer, fingerprint_of};
use crate::{CorpusError, FileSummary, PendingFile};

/// Version of the manifest that this program writes and reads.
pub(super) const MANIFEST_VERSION: u32 = 1;

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
    /// What a sequence of the shard is.
    #[serde(default, skip_serializing_if = "Sequences::are_documents")]
    pub sequences: Sequences,
    /// Number of sentences, where they are the sequences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentences: Option<u64>,
    /// Format of a token in the shard.
    pub dtype: DType,
    /// Size and checksum of every file but this one.
    pub files: Vec<FileSummary>,
    /// The sources, as configured.
    pub sources: Vec<SourceConfig>,
    /// Which documents of the shard are of which source, in the order of the shard: what a blend by
    /// weight needs. Folders of earlier versions have none.
    #[serde(default)]
    pub spans: Vec<SourceSpan>,
    /// The whole resolved configuration.
    pub config: serde_json::Value,
    /// Number of documents dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// The tokenizer's definition, until it is written beside the manifest.
    #[serde(skip)]
    pub(super) definition: Option<Arc<str>>,
}

/// Consecutive documents of a shard that are of one source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSpan {
    /// Name of the source.
    pub source: String,
    /// Its weight, as configured.
    pub weight: Option<f64>,
    /// Number of the first document.
    pub first_document: u64,
    /// Number of documents.
    pub documents: u64,
    /// Number of their tokens, ends of documents among them.
    pub tokens: u64,
}

/// Which tokenizer made the tokens of a shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizerIdentity {
    /// `gpt2`, or the path of its file; one that is relative begins in the folder of the manifest.
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

    /// Copies the tokenizer's file into `folder`, where it has one, and returns the identity as a
    /// manifest in that folder has it.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read or written, or is not the tokenizer's any more.
    pub fn kept_in(&self, folder: &Path) -> Result<Self, CorpusError> {
        let path = Path::new(&self.name);
        if !path.is_absolute() {
            return Ok(self.clone());
        }
        let definition = fs::read(path).map_err(CorpusError::io("read", path))?;
        check(path, "fingerprint", &self.fingerprint, fingerprint_of(&definition))?;
        let mut copy = PendingFile::replace(&folder.join(TOKENIZER))?;
        copy.write(|file| file.write_all(&definition))?;
        copy.sync()?;
        copy.commit()?;
        Ok(Self { name: TOKENIZER.to_owned(), ..self.clone() })
    }

    /// Name of the tokenizer's file beside the manifest, where it has one.
    pub fn file_name(&self) -> Option<&'static str> {
        (self.name == TOKENIZER).then_some(TOKENIZER)
    }

    /// The identity with the path of its file made absolute, where it is one that lies in `folder`.
    ///
    /// # Errors
    ///
    /// Where the working folder cannot be told.
    pub fn seen_from(&self, folder: &Path) -> Result<Self, CorpusError> {
        if self.name != TOKENIZER {
            return Ok(self.clone());
        }
        let path = folder.join(TOKENIZER);
        let path = std::path::absolute(&path).map_err(CorpusError::io("resolve", &path))?;
        Ok(Self { name: path.display().to_string(), ..self.clone() })
    }
}

impl DataManifest {
    /// The manifest of a shard that `tokenizer` filled; sources, configuration and drop counts are
    /// for the caller to add.
    pub fn new(tokenizer: &dyn Tokenizer, shard: &ShardSummary) -> Self {
        Self {
            version: MANIFEST_VERSION,
            tokenizer: TokenizerIdentity::of(tokenizer),
            documents: shard.documents,
            tokens: shard.tokens,
            sequences: Sequences::Documents,
            sentences: None,
            dtype: shard.dtype,
            files: shard.files.to_vec(),
            sources: Vec::new(),
            spans: Vec::new(),
            config: serde_json::Value::Null,
            dropped: BTreeMap::new(),
            definition: tokenizer.definition(),
        }
    }

    /// The same for a shard whose sequences are `sequences`.
    #[must_use]
    pub fn with_sequences(self, sequences: Sequences, shard: &ShardSummary) -> Self {
        let sentences = (sequences == Sequences::Sentences).then_some(shard.sequences);
        Self { sequences, sentences, ..self }
    }
}
