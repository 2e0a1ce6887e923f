//! The corpora of a plan, opened: data folders and sources of text.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use corpus::reader::{SourceConfig, SourceFormat, Sources};
use corpus::shard::ShardReader;
use corpus::test_set::source_of;
use corpus::tokenizer::Tokenizer;
use corpus::{CorpusError, DataFolder, MANIFEST, Observer};
use tracing::warn;

use super::plan::{ContaminationPlan, DEFAULT_TEXT_KEY};
use crate::error::EvalError;

/// Something that test sets are looked for in.
pub(super) enum Corpus {
    /// Tokens of a data folder, which its tokenizer turns into text again.
    Folder(TokenCorpus),
    /// Text, read as the data stage reads it.
    Text(TextCorpus),
}

/// A data folder.
pub(super) struct TokenCorpus {
    pub(super) folder: DataFolder,
    pub(super) shard: ShardReader,
    pub(super) tokenizer: Arc<dyn Tokenizer>,
}

/// Files of text.
pub(super) struct TextCorpus {
    pub(super) path: PathBuf,
    pub(super) sources: Sources,
    /// How documents lie in the files.
    pub(super) form: &'static str,
}

impl fmt::Debug for Corpus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.path().display(), self.form())
    }
}

impl Corpus {
    /// Opens all corpora of a plan.
    ///
    /// # Errors
    ///
    /// For a path that does not exist or holds nothing that is read, one that is given twice, and a
    /// data folder whose manifest or tokenizer cannot be used.
    pub(super) fn open_all(plan: &ContaminationPlan) -> Result<Vec<Self>, EvalError> {
        let mut met = HashSet::new();
        let mut corpora = Vec::with_capacity(plan.corpora.len() + plan.sources.len());
        for path in &plan.corpora {
            let corpus = Self::open(path, plan)?;
            for file in corpus.canonical_files() {
                if let Some(twice) = met.replace(file) {
                    return Err(EvalError::CorpusTwice { path: twice });
                }
            }
            corpora.push(corpus);
        }
        // Sources may share a file, each with a text of its own under another key.
        for source in &plan.sources {
            corpora.push(Self::open_source(source.clone(), plan)?);
        }
        Ok(corpora)
    }

    fn open(path: &Path, plan: &ContaminationPlan) -> Result<Self, EvalError> {
        if path.join(MANIFEST).is_file() {
            let folder = DataFolder::open(path)?;
            let (shard, tokenizer) = (folder.shard()?, folder.tokenizer()?);
            if plan.text_key != DEFAULT_TEXT_KEY {
                warn!(
                    "{}: --text-key {} is of no account there: a data folder has tokens, and no keys",
                    path.display(),
                    plan.text_key
                );
            }
            return Ok(Self::Folder(TokenCorpus { folder, shard, tokenizer }));
        }
        if is_bare_shard(path) {
            return Err(EvalError::BareShard { path: path.to_owned() });
        }
        let source = source_of(path, &plan.text_key).map_err(|error| match error {
            source @ CorpusError::UnreadForm { .. } => EvalError::CorpusForm { source },
            other => other.into(),
        })?;
        Self::open_source(source, plan)
    }

    fn open_source(source: SourceConfig, plan: &ContaminationPlan) -> Result<Self, EvalError> {
        let path = source.paths.first().cloned().unwrap_or_default();
        let form = match &source.format {
            SourceFormat::Jsonl(_) => "JSONL",
            SourceFormat::Parquet(_) => "Parquet",
            SourceFormat::Text(_) => "text",
        };
        let sources = Sources::open(&[source], plan.read_policy)?;
        Ok(Self::Text(TextCorpus { path, sources, form }))
    }

    /// Reads a data folder once: tokens that are not those of its manifest would count as clean.
    ///
    /// # Errors
    ///
    /// When it is damaged, or the observer asks to stop.
    pub(super) fn verify(&self, observer: &dyn Observer) -> Result<(), EvalError> {
        if let Self::Folder(corpus) = self {
            corpus.folder.verify(observer)?;
        }
        Ok(())
    }

    /// The path as it was given.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Folder(corpus) => corpus.folder.path(),
            Self::Text(corpus) => &corpus.path,
        }
    }

    /// How its documents lie in it.
    pub(super) fn form(&self) -> &'static str {
        match self {
            Self::Folder(_) => "data folder",
            Self::Text(corpus) => corpus.form,
        }
    }

    /// Bytes that are read of it, as they lie on disk.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Folder(corpus) => corpus.bytes_of(corpus.shard.num_tokens()),
            Self::Text(corpus) => corpus.sources.total_bytes(),
        }
    }

    /// Documents, where they are counted without reading.
    pub(super) fn documents(&self) -> Option<u64> {
        match self {
            Self::Folder(corpus) => Some(corpus.shard.num_documents()),
            Self::Text(_) => None,
        }
    }

    /// Files, where it consists of files of text.
    pub(super) fn files(&self) -> Option<u64> {
        match self {
            Self::Folder(_) => None,
            Self::Text(corpus) => Some(corpus.sources.files().count() as u64),
        }
    }

    /// Its files, or the folder, by paths without links.
    pub(super) fn canonical_files(&self) -> Vec<PathBuf> {
        match self {
            Self::Folder(corpus) => corpus.folder.path().canonicalize().into_iter().collect(),
            Self::Text(corpus) => {
                corpus.sources.files().filter_map(|file| file.path.canonicalize().ok()).collect()
            }
        }
    }
}

/// Whether this is a file of a shard, or a folder that holds one, and no more.
fn is_bare_shard(path: &Path) -> bool {
    let is_of_shard = |path: &Path| path.extension().is_some_and(|it| it == "bin" || it == "idx");
    let entries = || path.read_dir().into_iter().flatten().flatten();
    is_of_shard(path)
        || entries().any(|entry| entry.path().extension().is_some_and(|it| it == "idx"))
}

impl TokenCorpus {
    /// Bytes of so many tokens on disk.
    pub(super) fn bytes_of(&self, tokens: u64) -> u64 {
        tokens * self.shard.dtype().width() as u64
    }

    /// The text of a document.
    ///
    /// # Errors
    ///
    /// Where the shard cannot be read.
    pub(super) fn text(&self, document: u64) -> Result<String, CorpusError> {
        let mut tokens = self.shard.document(document)?;
        if tokens.last() == Some(&self.tokenizer.eod()) {
            tokens.pop();
        }
        Ok(self.tokenizer.decode(&tokens))
    }
}
