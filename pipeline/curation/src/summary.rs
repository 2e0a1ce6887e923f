//! What a plan amounts to before a document is read: files, tokenizer, steps, test sets.

use corpus::reader::{OnBadFile, OnBadLine, SourceFormat, Sources};
use corpus::{Sequences, Silent, TokenizerIdentity};
use serde::Serialize;

use crate::decontaminate::{Decontamination, OverlapReport, Rule};
use crate::filter::LanguageConfig;
use crate::input::SkippedFile;
use crate::{CurationError, CurationPlan};

/// What a plan amounts to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanSummary {
    /// Where documents come from, in reading order.
    pub sources: Vec<SourceSummary>,
    /// Names of the sources that are left out, for the model that the corpus is for.
    pub excluded_sources: Vec<String>,
    /// Bytes of all files together, as they lie on disk.
    pub bytes: u64,
    /// Files and folders that are left out though nobody asked for it.
    pub skipped_files: Vec<SkippedFile>,
    /// What is done with a record that cannot be read.
    pub on_bad_line: OnBadLine,
    /// What is done with a file that breaks off.
    pub on_bad_file: OnBadFile,
    /// The tokenizer, with its vocabulary.
    pub tokenizer: TokenizerIdentity,
    /// What a sequence of the shard is.
    pub sequences: Sequences,
    /// Whether wrongly decoded text is mended.
    pub unicode_repair: bool,
    /// The languages that stay; `None` where all do.
    pub language: Option<LanguageConfig>,
    /// Whether all but the first of equal texts go.
    pub exact_duplicates: bool,
    /// Least number of tokens of a document; `None` where all lengths stay.
    pub min_tokens: Option<u64>,
    /// The test sets and how they are kept out; `None` where they are not.
    pub decontamination: Option<DecontaminationSummary>,
    /// The near-duplicate rule; `None` where near-duplicates stay.
    pub near_duplicates: Option<NearDuplicatesSummary>,
}

/// A source and its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceSummary {
    /// Name by which reports call it.
    pub name: String,
    /// How documents lie in its files: `jsonl`, `parquet` or `text`.
    pub format: &'static str,
    /// The files, in reading order.
    pub files: Vec<FileSize>,
    /// Their bytes together, as they lie on disk.
    pub bytes: u64,
}

/// A file and its size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileSize {
    /// The file.
    pub file: String,
    /// Its size on disk.
    pub bytes: u64,
}

/// What is kept out of a corpus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DecontaminationSummary {
    /// The rules that are on, in the order in which they judge.
    pub rules: Vec<RuleSummary>,
    /// The test sets.
    pub test_sets: Vec<TestSetSummary>,
    /// Titles that the rule `title` compares; `None` where it is off.
    pub titles: Option<u64>,
}

/// A rule that is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RuleSummary {
    /// Its name.
    pub rule: Rule,
    /// Words of one n-gram; `None` for a rule that looks at none.
    pub ngram_words: Option<u64>,
}

/// A test set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TestSetSummary {
    /// The file.
    pub file: String,
    /// Articles or records.
    pub items: u64,
    /// Its n-grams, for each number of words that a rule asks for.
    pub ngrams: Vec<NGramCount>,
}

/// The n-grams of a test set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NGramCount {
    /// Words of one n-gram.
    pub ngram_words: u64,
    /// Positions at which one begins.
    pub positions: u64,
    /// Number of distinct ones.
    pub distinct: u64,
}

/// How near-duplicates are found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct NearDuplicatesSummary {
    /// Jaccard similarity that a pair must exceed.
    pub threshold: f64,
    /// Words of one shingle.
    pub shingle_words: u64,
    /// Bands of a signature; `None` where every pair is found.
    pub bands: Option<u64>,
    /// Rows of each band; `None` where every pair is found.
    pub rows: Option<u64>,
    /// Chance that a pair at the threshold is found.
    pub recall_at_threshold: f64,
    /// Chooses the hash functions.
    pub seed: u64,
}

impl CurationPlan {
    /// What the plan amounts to: lists the input files and reads the test sets, but no document.
    ///
    /// # Errors
    ///
    /// Where a source or a test set cannot be used.
    pub fn summary(&self) -> Result<PlanSummary, CurationError> {
        let sources = Sources::open(&self.sources, self.read_policy)?;
        let test_sets = self.decontamination.as_ref();
        let test_sets =
            test_sets.map(|config| Decontamination::open(config, &Silent)).transpose()?;
        Ok(PlanSummary {
            sources: self.sources_of(&sources),
            excluded_sources: self.excluded_sources.iter().map(|it| it.name.clone()).collect(),
            bytes: sources.total_bytes(),
            skipped_files: sources.skipped().iter().map(SkippedFile::from).collect(),
            on_bad_line: self.read_policy.on_bad_line,
            on_bad_file: self.read_policy.on_bad_file,
            tokenizer: TokenizerIdentity::of(self.tokenizer.as_ref()),
            sequences: self.sequences,
            unicode_repair: self.unicode_repair.is_some(),
            language: self.config.language.clone(),
            exact_duplicates: self.exact_duplicates,
            min_tokens: self.min_tokens.map(|tokens| tokens.get() as u64),
            decontamination: test_sets.as_ref().map(DecontaminationSummary::of),
            near_duplicates: self.near_duplicates.as_ref().map(|rule| NearDuplicatesSummary {
                threshold: rule.threshold.value(),
                shingle_words: rule.shingle_words.get() as u64,
                bands: rule.candidates.layout().map(|layout| layout.bands as u64),
                rows: rule.candidates.layout().map(|layout| layout.rows as u64),
                recall_at_threshold: rule
                    .candidates
                    .layout()
                    .map_or(1.0, |layout| layout.chance_to_meet(rule.threshold.value())),
                seed: rule.seed,
            }),
        })
    }

    fn sources_of(&self, listed: &Sources) -> Vec<SourceSummary> {
        let summaries = self.sources.iter().map(|source| {
            let files: Vec<FileSize> = listed
                .files()
                .filter(|file| file.source == source.name)
                .map(|file| FileSize { file: file.path.display().to_string(), bytes: file.bytes })
                .collect();
            SourceSummary {
                name: source.name.clone(),
                format: match source.format {
                    SourceFormat::Jsonl(_) => "jsonl",
                    SourceFormat::Text(_) => "text",
                    SourceFormat::Parquet(_) => "parquet",
                },
                bytes: files.iter().map(|file| file.bytes).sum(),
                files,
            }
        });
        summaries.collect()
    }
}

impl NGramCount {
    /// The n-grams of the test set of this number.
    fn of(overlap: &OverlapReport, test_set: usize) -> Self {
        let test_set = &overlap.test_sets[test_set];
        Self {
            ngram_words: overlap.ngram_words as u64,
            positions: test_set.ngrams,
            distinct: test_set.distinct_ngrams,
        }
    }
}

impl DecontaminationSummary {
    fn of(test_sets: &Decontamination) -> Self {
        let overlaps = test_sets.overlap(&test_sets.nothing_seen());
        let ngram_words = |rule: Rule| {
            let overlap = overlaps.iter().find(|overlap| overlap.rules.contains(&rule))?;
            Some(overlap.ngram_words as u64)
        };
        let rules = test_sets.rules().into_iter();
        Self {
            rules: rules.map(|rule| RuleSummary { rule, ngram_words: ngram_words(rule) }).collect(),
            test_sets: test_sets
                .items()
                .chunk_by(|one, next| one.file == next.file)
                .enumerate()
                .map(|(number, items)| TestSetSummary {
                    file: items[0].file.display().to_string(),
                    items: items.len() as u64,
                    ngrams: overlaps
                        .iter()
                        .map(|overlap| NGramCount::of(overlap, number))
                        .collect(),
                })
                .collect(),
            titles: test_sets.num_titles().map(|titles| titles as u64),
        }
    }
}
