//! What a corpus is made from and how: [`CurationConfig`] as it is written, [`CurationPlan`] as it
//! is meant.
//!
//! A step is on when its table is there and off when it is not:
//!
//! ```toml
//! tokenizer = "gpt2"
//!
//! [[source]]
//! name = "openwebtext"
//! paths = ["openwebtext/"]
//! [source.jsonl]
//!
//! [length]
//! min_tokens = 128
//!
//! [decontamination]
//! test_sets = ["wiki.test.tokens"]
//!
//! [near_duplicates]
//! threshold = 0.7
//! ```

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use corpus::reader::{ModelFamily, OnBadFile, OnBadLine, ReadPolicy, SourceConfig, SourceFormat};
use corpus::tokenizer::{self, Tokenizer};
use corpus::{Existing, Sequences};
use serde::{Deserialize, Serialize};

use crate::decontaminate::DecontaminationConfig;
use crate::dedup::{BandLayout, Candidates, NearDuplicateRule, Threshold};
use crate::filter::{LanguageConfig, LanguageFilter};
use crate::repair::{UnicodeRepair, UnicodeRepairConfig};
use crate::{ConfigProblem, CurationError};

/// A curated corpus, as written in a config file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurationConfig {
    /// Where documents come from; their order is part of the result.
    #[serde(rename = "source")]
    pub sources: Vec<SourceConfig>,
    /// The kind of model that the corpus is for, `gpt2` or `bert`: sources whose `exclude_for`
    /// names it are left out.
    #[serde(default = "gpt2_family")]
    pub model: ModelFamily,
    /// Tokenizer of the shards and of `min_tokens`: `gpt2`, `bert`, or the path of a
    /// `tokenizer.json`.
    #[serde(default = "gpt2")]
    pub tokenizer: String,
    /// What a sequence of the shard is: `documents`, for GPT-2, or `sentences`, for BERT. Where it
    /// is not given, sentences for the tokenizer `bert`, and documents for every other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequences: Option<Sequences>,
    /// What to do with a record that cannot be read: `fail`, `skip` or `replace`.
    #[serde(default)]
    pub on_bad_line: OnBadLine,
    /// What to do with a file that breaks off or is damaged: `fail` or `keep-prefix`. A last line
    /// that ends inside its record is such a file, whatever `on_bad_line` says.
    #[serde(default)]
    pub on_bad_file: OnBadFile,
    /// Whether all but the first of equal texts go.
    #[serde(default = "on")]
    pub exact_duplicates: bool,
    /// Mending of wrongly decoded text, before anything else is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unicode_repair: Option<UnicodeRepairConfig>,
    /// Removal of documents in other languages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<LanguageConfig>,
    /// Removal of short documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<LengthConfig>,
    /// Removal of documents that hold test data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decontamination: Option<DecontaminationConfig>,
    /// Removal of near-duplicates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_duplicates: Option<NearDuplicatesConfig>,
}

/// Table `[length]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LengthConfig {
    /// Least number of tokens of a document; shorter ones go. To keep all lengths, leave the table
    /// out.
    pub min_tokens: NonZeroUsize,
}

/// The paper's limit (section 4.1).
impl Default for LengthConfig {
    fn default() -> Self {
        Self { min_tokens: const { NonZeroUsize::new(128).expect("not zero") } }
    }
}

/// Table `[near_duplicates]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NearDuplicatesConfig {
    /// Jaccard similarity that a pair must exceed: 0.70 to 0.99, in hundredths. Read as an exact
    /// fraction: a pair at exactly this similarity stays.
    pub threshold: f64,
    /// Words of one shingle.
    pub shingle_words: NonZeroUsize,
    /// How thoroughly pairs are searched for.
    pub recall: Recall,
    /// Finds every pair, whatever `recall` says; takes longer and more memory.
    pub exact: bool,
    /// Chooses the hash functions of the search: which few pairs are missed.
    pub seed: u64,
}

/// The paper's threshold (section 4.1); it names neither shingles nor the parameters of the search.
impl Default for NearDuplicatesConfig {
    fn default() -> Self {
        Self {
            threshold: 0.7,
            shingle_words: const { NonZeroUsize::new(5).expect("not zero") },
            recall: Recall::Standard,
            exact: false,
            seed: 1234,
        }
    }
}

/// How thoroughly near-duplicates are searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recall {
    /// 26 bands of 5 rows: finds 99.2% of the pairs at exactly 0.7, and 99.997% at 0.8.
    #[default]
    Standard,
    /// 32 bands of 4 rows: finds 99.98% of the pairs at exactly 0.7, and compares up to twice as
    /// many.
    High,
}

/// A corpus as it is meant: checked, with what the config names by name opened.
pub struct CurationPlan {
    /// Where documents come from.
    pub sources: Vec<SourceConfig>,
    /// Sources that are left out, for the model that the corpus is for.
    pub excluded_sources: Vec<SourceConfig>,
    /// What to do with records and files that cannot be read.
    pub read_policy: ReadPolicy,
    /// Tokenizer of the shards.
    pub tokenizer: Arc<dyn Tokenizer>,
    /// What a sequence of the shard is.
    pub sequences: Sequences,
    /// What mends wrongly decoded text.
    pub unicode_repair: Option<UnicodeRepair>,
    /// The languages that stay.
    pub language: Option<LanguageFilter>,
    /// Least number of tokens of a document.
    pub min_tokens: Option<NonZeroUsize>,
    /// Whether all but the first of equal texts go.
    pub exact_duplicates: bool,
    /// Test sets to keep out, and the rules to find them by.
    pub decontamination: Option<DecontaminationConfig>,
    /// The near-duplicate rule.
    pub near_duplicates: Option<NearDuplicateRule>,
    /// Most memory that the process may hold for itself, in bytes; half of what the machine has
    /// left where this is `None`. Changes nothing of the result.
    pub max_memory: Option<u64>,
    /// What to do where the output exists already: refuse, unless this is changed.
    pub existing: Existing,
    /// The config that was validated, for the manifest.
    pub config: CurationConfig,
}

impl CurationConfig {
    /// The paper's cleaning (section 4.1) of some sources: at least 128 tokens, no near-duplicates
    /// above 0.7. Its decontamination needs test sets, so that step is off.
    #[must_use]
    pub fn of_paper(sources: Vec<SourceConfig>) -> Self {
        Self {
            sources,
            model: gpt2_family(),
            tokenizer: gpt2(),
            sequences: None,
            on_bad_line: OnBadLine::default(),
            on_bad_file: OnBadFile::default(),
            exact_duplicates: true,
            unicode_repair: None,
            language: None,
            length: Some(LengthConfig::default()),
            decontamination: None,
            near_duplicates: Some(NearDuplicatesConfig::default()),
        }
    }

    /// Nothing but tokens of some sources: every step that drops a document with text is off.
    #[must_use]
    pub fn of_text(sources: Vec<SourceConfig>) -> Self {
        Self {
            exact_duplicates: false,
            length: None,
            near_duplicates: None,
            ..Self::of_paper(sources)
        }
    }

    /// Makes relative paths relative to `folder`, such as the one that the config file lies in.
    pub fn resolve_from(&mut self, folder: &Path) {
        for source in &mut self.sources {
            source.resolve_from(folder);
        }
        for test_set in self.decontamination.iter_mut().flat_map(|table| &mut table.test_sets) {
            *test_set = folder.join(&*test_set);
        }
    }

    /// Checks what was written and opens the tokenizer. Reads no document yet.
    ///
    /// # Errors
    ///
    /// [`CurationError::Config`] for a value that cannot be used, [`CurationError::Corpus`] for an
    /// unknown tokenizer.
    pub fn validate(mut self) -> Result<CurationPlan, CurationError> {
        if self.sources.is_empty() {
            return Err(ConfigProblem::NoSource.into());
        }
        let (excluded_sources, sources): (Vec<_>, Vec<_>) = self
            .sources
            .iter()
            .cloned()
            .partition(|source| source.exclude_for.contains(&self.model));
        if sources.is_empty() {
            return Err(ConfigProblem::NoSourceFor { model: self.model }.into());
        }
        let weighted = sources.iter().filter(|source| source.weight.is_some()).count();
        if let Some(without) = sources.iter().find(|source| source.weight.is_none())
            && weighted > 0
        {
            return Err(ConfigProblem::SomeWeights { without: without.name.clone() }.into());
        }
        self.decontamination = self.decontamination.map(DecontaminationConfig::with_a_rule);
        if let Some(table) = &self.decontamination {
            if table.test_sets.is_empty() {
                return Err(ConfigProblem::NoTestSet.into());
            }
            if table.title.is_some() && !sources.iter().any(reads_titles) {
                return Err(ConfigProblem::NoTitleKey.into());
            }
        }
        let near_duplicates =
            self.near_duplicates.as_ref().map(NearDuplicatesConfig::rule).transpose()?;
        let tokenizer = tokenizer::open(&self.tokenizer)?;
        let sequences = self.sequences.unwrap_or(match tokenizer.name() {
            "bert" => Sequences::Sentences,
            _ => Sequences::Documents,
        });
        if self.model == ModelFamily::Bert && sequences == Sequences::Documents {
            tracing::warn!(
                "model = \"bert\", and a sequence of the shard will be a document, as GPT-2 is \
                 trained on: set tokenizer = \"bert\", or sequences = \"sentences\""
            );
        }
        if sequences == Sequences::Sentences {
            tokenizer.masked_vocabulary()?; // nobody else trains on sentences
        }
        Ok(CurationPlan {
            sources,
            excluded_sources,
            read_policy: ReadPolicy {
                on_bad_line: self.on_bad_line,
                on_bad_file: self.on_bad_file,
            },
            tokenizer,
            sequences,
            unicode_repair: self.unicode_repair.as_ref().map(UnicodeRepair::new).transpose()?,
            language: self.language.as_ref().map(LanguageFilter::new).transpose()?,
            min_tokens: self.length.as_ref().map(|length| length.min_tokens),
            exact_duplicates: self.exact_duplicates,
            decontamination: self.decontamination.clone(),
            near_duplicates,
            max_memory: None,
            existing: Existing::Refuse,
            config: self,
        })
    }
}

impl NearDuplicatesConfig {
    fn rule(&self) -> Result<NearDuplicateRule, ConfigProblem> {
        // A decimal fraction has no exact f64; the nearest number of hundredths is what was
        // written.
        let hundredths = (self.threshold * 100.0).round();
        let is_hundredths = (self.threshold * 100.0 - hundredths).abs() < 1e-9;
        if !is_hundredths || !(70.0..=99.0).contains(&hundredths) {
            return Err(ConfigProblem::Threshold { written: self.threshold });
        }
        Ok(NearDuplicateRule {
            shingle_words: self.shingle_words,
            threshold: Threshold::from_hundredths(hundredths as u64),
            candidates: match self.recall {
                _ if self.exact => Candidates::Exact,
                Recall::Standard => Candidates::Bands(BandLayout::STANDARD),
                Recall::High => Candidates::Bands(BandLayout::HIGH),
            },
            seed: self.seed,
        })
    }
}

fn reads_titles(source: &SourceConfig) -> bool {
    match &source.format {
        SourceFormat::Jsonl(keys) => keys.title_key.is_some(),
        SourceFormat::Parquet(columns) => columns.title_column.is_some(),
        SourceFormat::Text(_) => false,
    }
}

fn on() -> bool {
    true
}

fn gpt2_family() -> ModelFamily {
    ModelFamily::Gpt2
}

fn gpt2() -> String {
    "gpt2".to_owned()
}

#[cfg(test)]
mod tests {
    use corpus::reader::JsonlConfig;

    use super::*;
    use crate::decontaminate::TitleConfig;

    fn with_threshold(threshold: f64) -> Result<NearDuplicateRule, ConfigProblem> {
        NearDuplicatesConfig { threshold, ..NearDuplicatesConfig::default() }.rule()
    }

    #[test]
    fn thresholds_are_exact_hundredths() {
        for hundredths in 70..100 {
            let written: f64 = format!("0.{hundredths}").parse().unwrap();
            let rule = with_threshold(written).unwrap();
            assert_eq!(rule.threshold, Threshold::from_hundredths(hundredths));
        }
    }

    #[test]
    fn exact_goes_before_recall() {
        let candidates = |exact, recall| {
            let table = NearDuplicatesConfig { exact, recall, ..NearDuplicatesConfig::default() };
            table.rule().unwrap().candidates
        };
        assert_eq!(candidates(false, Recall::Standard), Candidates::Bands(BandLayout::STANDARD));
        assert_eq!(candidates(false, Recall::High), Candidates::Bands(BandLayout::HIGH));
        assert_eq!(candidates(true, Recall::Standard), Candidates::Exact);
        assert_eq!(candidates(true, Recall::High), Candidates::Exact);
    }

    #[test]
    fn other_thresholds_are_refused_with_what_would_be_right() {
        for written in [0.0, 0.5, 0.699, 0.705, 1.0, 7.0, -0.7, f64::NAN, f64::INFINITY] {
            let error = CurationError::from(with_threshold(written).unwrap_err()).to_string();
            assert!(error.starts_with("near_duplicates.threshold = "), "{error}");
            assert!(error.contains("0.70 to 0.99"), "{error}");
        }
    }

    #[test]
    fn an_empty_table_means_the_papers_values() {
        let config: CurationConfig = serde_json::from_value(serde_json::json!({
            "source": [{"name": "a", "paths": ["a.jsonl"], "jsonl": {}}],
            "length": {},
            "near_duplicates": {},
        }))
        .unwrap();
        assert_eq!(config, CurationConfig::of_paper(config.sources.clone()));
        assert_eq!(config.length.unwrap().min_tokens.get(), 128);
    }

    #[test]
    fn misspelt_keys_and_zero_are_refused() {
        let source = serde_json::json!([{"name": "a", "paths": ["a.jsonl"], "jsonl": {}}]);
        for (table, value) in [
            ("lenght", serde_json::json!({})),
            ("length", serde_json::json!({"min_token": 128})),
            ("length", serde_json::json!({"min_tokens": 0})),
            ("decontamination", serde_json::json!({"test_sets": [], "artcle": {}})),
            ("decontamination", serde_json::json!({"test_sets": [], "title": {"ngram_words": 8}})),
            ("near_duplicates", serde_json::json!({"recall": "exact"})),
        ] {
            let written = serde_json::json!({"source": source, table: value});
            assert!(serde_json::from_value::<CurationConfig>(written).is_err(), "{table}");
        }
    }

    #[test]
    fn without_a_rule_of_its_own_a_test_set_is_kept_out_by_article() {
        let rules = |table: serde_json::Value| {
            let mut config = CurationConfig::of_paper(vec![SourceConfig::jsonl("a.jsonl")]);
            config.decontamination = Some(serde_json::from_value(table).unwrap());
            let table = config.validate().unwrap().config.decontamination.unwrap();
            (table.article.is_some(), table.ngram.is_some(), table.title.is_some())
        };
        let test_sets = serde_json::json!(["wiki.test.tokens"]);
        assert_eq!(rules(serde_json::json!({"test_sets": test_sets})), (true, false, false));
        let ngram = serde_json::json!({"test_sets": test_sets, "ngram": {}});
        assert_eq!(rules(ngram), (false, true, false));
    }

    #[test]
    fn all_sources_have_a_weight_or_none() {
        let validated = |weights: [Option<f64>; 2]| {
            let sources = weights
                .iter()
                .zip(["a.jsonl", "b.jsonl"])
                .map(|(&weight, path)| SourceConfig { weight, ..SourceConfig::jsonl(path) });
            CurationConfig::of_paper(sources.collect()).validate()
        };
        assert!(validated([None, None]).is_ok());
        assert!(validated([Some(1.0), Some(2.5)]).is_ok());
        let error = validated([Some(1.0), None]).err().unwrap().to_string();
        assert!(error.contains("source b.jsonl has no weight"), "{error}");
    }

    #[test]
    fn titles_are_compared_only_where_a_source_reads_them() {
        let config = |title_key: Option<&str>| {
            let keys =
                JsonlConfig { title_key: title_key.map(str::to_owned), ..JsonlConfig::default() };
            let format = SourceFormat::Jsonl(keys);
            let source = SourceConfig { format, ..SourceConfig::jsonl("a.jsonl") };
            let mut table = DecontaminationConfig::by_article(vec!["wiki.test.tokens".into()]);
            table.title = Some(TitleConfig {});
            let mut config = CurationConfig::of_paper(vec![source]);
            config.decontamination = Some(table);
            config.validate()
        };
        assert!(config(Some("title")).is_ok());
        let error = config(None).err().unwrap().to_string();
        assert!(error.contains("add title_key = \"title\" to a table [source.jsonl]"), "{error}");
    }

    #[test]
    fn relative_paths_are_relative_to_the_config() {
        let mut config = CurationConfig::of_paper(vec![SourceConfig::jsonl("text/a.jsonl")]);
        config.decontamination = Some(DecontaminationConfig::by_article(vec![
            "wiki.test.tokens".into(),
            "/data/wiki".into(),
        ]));
        config.resolve_from(Path::new("/configs"));
        assert_eq!(config.sources[0].paths, [Path::new("/configs/text/a.jsonl")]);
        let test_sets = config.decontamination.unwrap().test_sets;
        assert_eq!(test_sets, [Path::new("/configs/wiki.test.tokens"), Path::new("/data/wiki")]);
    }
}
