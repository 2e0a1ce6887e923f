//! `[data]` and `[contamination]`: how the corpus is curated, and measured against the test sets.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use corpus::reader::{JsonlConfig, OnBadFile, OnBadLine, SourceConfig, SourceFormat};
use curation::config::{LengthConfig, NearDuplicatesConfig};
use curation::decontaminate::{ArticleConfig, DecontaminationConfig, NGramConfig, TitleConfig};
use curation::filter::LanguageConfig;
use curation::{CurationConfig, UnicodeRepairConfig};
use evaluation::contamination::MAX_NGRAM_WORDS;
use serde::{Deserialize, Serialize};

use super::ReproduceConfig;
use crate::exit::Usage;
use crate::machine_text::DOCUMENTS_FILE;

/// `[data]`: a [`CurationConfig`] without what the reproduction itself knows, the test sets and,
/// where there is a section `[text]`, the source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct DataSection {
    /// `[[data.source]]`: the corpus, its paths below the folder that `--text` names.
    #[serde(rename = "source", default, skip_serializing_if = "Vec::is_empty")]
    pub(in super::super) sources: Vec<SourceConfig>,
    /// Tokenizer of the shards: `gpt2`, `bert`, or the path of a `tokenizer.json`.
    #[serde(default = "gpt2")]
    pub(in super::super) tokenizer: String,
    /// What to do with a record that cannot be read.
    #[serde(default)]
    pub(in super::super) on_bad_line: OnBadLine,
    /// What to do with a file that breaks off.
    #[serde(default)]
    pub(in super::super) on_bad_file: OnBadFile,
    /// Whether all but the first of equal texts go.
    #[serde(default = "on")]
    pub(in super::super) exact_duplicates: bool,
    /// Mending of wrongly decoded text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in super::super) unicode_repair: Option<UnicodeRepairConfig>,
    /// Removal of documents in other languages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in super::super) language: Option<LanguageConfig>,
    /// Removal of short documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in super::super) length: Option<LengthConfig>,
    /// The rules by which both test sets are kept out.
    #[serde(default)]
    pub(in super::super) decontamination: DecontaminationSection,
    /// Removal of near-duplicates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in super::super) near_duplicates: Option<NearDuplicatesConfig>,
}

/// `[data.decontamination]`: a [`DecontaminationConfig`] without test sets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct DecontaminationSection {
    /// A document goes if it covers an item of a test set, or an item covers it; on where no rule
    /// has a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in super::super) article: Option<ArticleConfig>,
    /// A document goes if it shares any n-gram with a test set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in super::super) ngram: Option<NGramConfig>,
    /// A document goes if it has the title of an article of a test set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in super::super) title: Option<TitleConfig>,
}

/// `[contamination]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in super::super) struct ContaminationSection {
    /// Words of an n-gram, each number measured by itself.
    pub(in super::super) ngram_words: Vec<NonZeroUsize>,
}

/// The paper's 8-grams, and those around them.
impl Default for ContaminationSection {
    fn default() -> Self {
        Self { ngram_words: (5..=13).filter_map(NonZeroUsize::new).collect() }
    }
}

impl ContaminationSection {
    /// Refuses numbers of words that cannot be measured by.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.ngram_words.is_empty() {
            bail!(Usage(anyhow!("contamination.ngram_words = []: the paper's is [8]")));
        }
        match self.ngram_words.iter().find(|words| words.get() > MAX_NGRAM_WORDS) {
            Some(words) => bail!(Usage(anyhow!(
                "contamination.ngram_words: {words} is too many; at most {MAX_NGRAM_WORDS}"
            ))),
            None => Ok(()),
        }
    }
}

fn on() -> bool {
    true
}

fn gpt2() -> String {
    "gpt2".to_owned()
}

impl ReproduceConfig {
    /// How the text below `folder` is curated, with `test_sets` kept out where there are any.
    pub(in super::super) fn curation_config(
        &self,
        folder: &Path,
        test_sets: Vec<PathBuf>,
    ) -> CurationConfig {
        let DataSection {
            sources,
            tokenizer,
            on_bad_line,
            on_bad_file,
            exact_duplicates,
            unicode_repair,
            language,
            length,
            decontamination,
            near_duplicates,
        } = self.data.clone();
        let DecontaminationSection { article, ngram, title } = decontamination;
        let mut config = CurationConfig {
            sources: if sources.is_empty() { vec![machine_source()] } else { sources },
            model: self.experiment.model_family(),
            tokenizer,
            sequences: None,
            on_bad_line,
            on_bad_file,
            exact_duplicates,
            unicode_repair,
            language,
            length,
            decontamination: None,
            near_duplicates,
        };
        config.resolve_from(folder);
        // Their paths are the command line's, and so relative to the working folder.
        config.decontamination = (!test_sets.is_empty()).then(|| DecontaminationConfig {
            test_sets,
            text_key: "text".to_owned(),
            article,
            ngram,
            title,
        });
        config
    }
}

/// The documents that the part `text` writes.
fn machine_source() -> SourceConfig {
    let format = SourceFormat::Jsonl(JsonlConfig::default());
    SourceConfig { name: "text".to_owned(), ..SourceConfig::new(DOCUMENTS_FILE, format) }
}
