//! What a reproduction is, as it is written: one TOML file for the whole road from text to table.
//!
//! ```toml
//! experiment = "table3"
//! title = "Table 3 on two cores"
//!
//! [text]                       # text that the machine has; a corpus of one's own has [[data.source]]
//! max_bytes = 15_000_000
//!
//! [data.length]                # as in configs/data, without sources and test sets
//! [data.near_duplicates]
//!
//! [train.batch]                # as in configs/train, without the model
//! # ...
//!
//! [[size]]
//! name = "small"
//! paper = "355M"
//! [size.model.gpt2]
//! # ...
//!
//! [eval]                       # as in configs/eval
//! overlap = 256
//! ```
//!
//! All sizes share one section `[train]`: that they are trained alike is not a promise but the form.

use std::collections::HashSet;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use corpus::reader::{JsonlConfig, ModelFamily, OnBadFile, OnBadLine, SourceConfig, SourceFormat};
use corpus::tokenizer;
use curation::config::{LengthConfig, NearDuplicatesConfig};
use curation::decontaminate::{ArticleConfig, DecontaminationConfig, NGramConfig, TitleConfig};
use curation::filter::LanguageConfig;
use curation::{CurationConfig, UnicodeRepairConfig};
use evaluation::contamination::MAX_NGRAM_WORDS;
use evaluation::{EvalConfig, wikitext103};
use serde::{Deserialize, Serialize};
use training::TrainConfig;
use training::architecture::Architecture;
use training::backend::{Precision, Recompute};
use training::config::{
    BatchConfig, CheckpointConfig, DataConfig, Gpt2Section, LoggingConfig, ModelConfig,
    ParallelConfig, ValidationConfig,
};
use training::optim::{AdamWConfig, LossScaleConfig, ScheduleConfig};

use super::eval_task;
use super::report::{PaperRow, Task};
use crate::exit::Usage;
use crate::machine_text::{self, DOCUMENTS_FILE};

/// A reproduction, as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReproduceConfig {
    /// What is reproduced of the paper.
    pub(super) experiment: Experiment,
    /// What it is, in words: the heading of its page.
    pub(super) title: String,
    /// `[text]`: the text is what the machine has, or a folder of text of the user's, and stands in
    /// for test sets that are not given. Without it the corpus is that of `[[data.source]]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<TextSection>,
    /// `[data]`: how the corpus is curated.
    pub(super) data: DataSection,
    /// `[contamination]`: how the overlap of test sets and corpus is measured.
    #[serde(default)]
    pub(super) contamination: ContaminationSection,
    /// `[train]`: how every size is trained.
    pub(super) train: TrainSection,
    /// `[[size]]`: the models.
    #[serde(rename = "size")]
    pub(super) sizes: Vec<SizeSection>,
    /// `[eval]`: how every size is evaluated.
    #[serde(default)]
    pub(super) eval: EvalConfig,
    /// `[limits]`: what is too much for a machine.
    #[serde(default)]
    pub(super) limits: LimitsSection,
}

/// An experiment of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Experiment {
    /// GPT-2 of several sizes, trained alike, on WikiText103 and LAMBADA.
    Table3,
}

/// `[text]`: text that is on the machine anyway, or a folder of the user's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TextSection {
    /// The most text that is read, in bytes.
    pub(super) max_bytes: NonZeroU64,
}

impl Default for TextSection {
    fn default() -> Self {
        let max_bytes = NonZeroU64::new(machine_text::MAX_BYTES).expect("a demo reads text");
        Self { max_bytes }
    }
}

/// `[data]`: a [`CurationConfig`] without what the reproduction itself knows, the test sets and,
/// where there is a section `[text]`, the source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DataSection {
    /// `[[data.source]]`: the corpus, its paths below the folder that `--text` names.
    #[serde(rename = "source", default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sources: Vec<SourceConfig>,
    /// Tokenizer of the shards: `gpt2`, or the path of a `tokenizer.json`.
    #[serde(default = "gpt2")]
    pub(super) tokenizer: String,
    /// What to do with a record that cannot be read.
    #[serde(default)]
    pub(super) on_bad_line: OnBadLine,
    /// What to do with a file that breaks off.
    #[serde(default)]
    pub(super) on_bad_file: OnBadFile,
    /// Whether all but the first of equal texts go.
    #[serde(default = "on")]
    pub(super) exact_duplicates: bool,
    /// Mending of wrongly decoded text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unicode_repair: Option<UnicodeRepairConfig>,
    /// Removal of documents in other languages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) language: Option<LanguageConfig>,
    /// Removal of short documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) length: Option<LengthConfig>,
    /// The rules by which both test sets are kept out.
    #[serde(default)]
    pub(super) decontamination: DecontaminationSection,
    /// Removal of near-duplicates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) near_duplicates: Option<NearDuplicatesConfig>,
}

/// `[data.decontamination]`: a [`DecontaminationConfig`] without test sets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DecontaminationSection {
    /// A document goes if it covers an item of a test set, or an item covers it; on where no rule
    /// has a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) article: Option<ArticleConfig>,
    /// A document goes if it shares any n-gram with a test set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ngram: Option<NGramConfig>,
    /// A document goes if it has the title of an article of a test set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<TitleConfig>,
}

/// `[contamination]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ContaminationSection {
    /// Words of an n-gram, each number measured by itself.
    pub(super) ngram_words: Vec<NonZeroUsize>,
}

/// The paper's 8-grams, and those around them.
impl Default for ContaminationSection {
    fn default() -> Self {
        Self { ngram_words: (5..=13).filter_map(NonZeroUsize::new).collect() }
    }
}

impl ContaminationSection {
    /// Refuses numbers of words that cannot be measured by.
    fn check(&self) -> anyhow::Result<()> {
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

/// `[train]`: a [`TrainConfig`] without the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrainSection {
    /// Seed of initial weights, sample order and dropout.
    #[serde(default = "default_seed")]
    pub(super) seed: u64,
    /// The numbers of activations and their gradients.
    #[serde(default)]
    pub(super) precision: Precision,
    /// What a forward pass keeps for the backward pass.
    #[serde(default)]
    pub(super) recompute: Recompute,
    /// `[train.batch]`
    pub(super) batch: BatchConfig,
    /// `[train.optimizer]`
    pub(super) optimizer: AdamWConfig,
    /// `[train.schedule]`
    pub(super) schedule: ScheduleConfig,
    /// `[train.loss_scale]`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) loss_scale: Option<LossScaleConfig>,
    /// `[train.parallel]`
    #[serde(default)]
    pub(super) parallel: ParallelConfig,
    /// `[train.data]`
    #[serde(default)]
    pub(super) data: DataConfig,
    /// `[train.validation]`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) validation: Option<ValidationConfig>,
    /// `[train.checkpoint]`
    #[serde(default)]
    pub(super) checkpoint: CheckpointConfig,
    /// `[train.logging]`
    #[serde(default)]
    pub(super) logging: LoggingConfig,
}

/// `[[size]]`: a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SizeSection {
    /// What it is called; its run folder too, so letters, digits, `-`, `_` and `.` it is.
    pub(super) name: String,
    /// The row of the paper's Table 3 that it stands beside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) paper: Option<String>,
    /// `[size.model.…]`
    pub(super) model: SizeModel,
}

/// What a size is: the tables of the paper that are reproduced are those of GPT-2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SizeModel {
    /// `[size.model.gpt2]`
    Gpt2(Gpt2Section),
}

/// `[limits]`: beyond these a reproduction is not begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LimitsSection {
    /// Days that all sizes together may take at the speed of this machine's matrix products.
    pub(super) max_days: f64,
}

impl Default for LimitsSection {
    fn default() -> Self {
        Self { max_days: 60.0 }
    }
}

/// The seed of the original implementation.
fn default_seed() -> u64 {
    1234
}

fn on() -> bool {
    true
}

fn gpt2() -> String {
    "gpt2".to_owned()
}

impl ReproduceConfig {
    /// Checks what the sections have to do with each other, and takes the vocabulary from the
    /// tokenizer where a model does not write it down.
    ///
    /// # Errors
    ///
    /// Wrong usage, with the key.
    pub(super) fn checked(mut self) -> anyhow::Result<Self> {
        self.check_corpus()?;
        self.check_names()?;
        let positive = |number: f64| number.is_finite() && number > 0.0;
        if !positive(self.limits.max_days) {
            bail!(Usage(anyhow!("limits.max_days = {}: must be above 0", self.limits.max_days)));
        }
        self.contamination.check()?;
        let vocabulary = tokenizer::open(&self.data.tokenizer).context("data.tokenizer")?;
        let vocabulary = NonZeroUsize::new(vocabulary.vocab_size());
        // What is wrong with it does not depend on where the text and the test sets lie.
        let data = self.curation_config(Path::new(""), vec![PathBuf::new()]);
        data.validate().context("[data]")?;
        for size in &mut self.sizes {
            let section = size.gpt2_mut();
            section.vocab_size = section.vocab_size.or(vocabulary);
        }
        self.check_alike()?;
        for size in &self.sizes {
            self.check_size(size).with_context(|| format!("size {}", size.name))?;
        }
        Ok(self)
    }

    /// A size can be trained, and evaluated once it is.
    fn check_size(&self, size: &SizeSection) -> anyhow::Result<()> {
        self.train_config(size).summary()?;
        let model = Architecture::Gpt2(size.gpt2().with_vocab_size(size.vocab_size()));
        let task = eval_task(Task::WikiText103, wikitext103::NAME, PathBuf::new());
        let plan = self.eval.clone().validate(PathBuf::new(), vec![task])?;
        plan.check(&model)?;
        model.check_tensor_parallel(plan.tensor_parallel_size.get())?;
        Ok(())
    }

    /// Either the machine's text or a corpus of sources.
    fn check_corpus(&self) -> anyhow::Result<()> {
        match (&self.text, self.data.sources.is_empty()) {
            (Some(_), false) => bail!(Usage(anyhow!(
                "[text] and [[data.source]] are both given: a corpus is made of one of them"
            ))),
            (None, true) => bail!(Usage(anyhow!(
                "neither [text] nor [[data.source]] is given: add [text] for text that the machine \
                 has"
            ))),
            _ => Ok(()),
        }
    }

    /// Names of sizes are those of files, and each stands for one; rows are the paper's.
    fn check_names(&self) -> anyhow::Result<()> {
        if self.sizes.is_empty() {
            bail!(Usage(anyhow!("no [[size]] is given: add one with its name and model")));
        }
        let mut names = HashSet::new();
        for SizeSection { name, paper, .. } in &self.sizes {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(is_plain)
            {
                bail!(Usage(anyhow!(
                    "size {name:?}: it is the name of a folder, so it takes letters, digits, `-`, \
                     `_` and `.`, and begins with a letter or a digit"
                )));
            }
            if !names.insert(name.to_lowercase()) {
                bail!(Usage(anyhow!("size {name:?} is given twice: give each a name of its own")));
            }
            let rows = PaperRow::table3();
            let rows: Vec<_> = rows.iter().filter(|row| row.megatron).collect();
            if let Some(paper) = paper
                && !rows.iter().any(|row| row.name == *paper)
            {
                let rows: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
                bail!(Usage(anyhow!(
                    "size {name:?}: paper = {paper:?} is no row of the paper's Table 3; allowed: {}",
                    rows.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Sizes that see other tokens, or count them by another vocabulary, do not compare.
    fn check_alike(&self) -> anyhow::Result<()> {
        let shape = |size: &SizeSection| {
            let section = size.gpt2();
            (section.seq_length, section.vocab_size)
        };
        let first = &self.sizes[0];
        if let Some(other) = self.sizes.iter().find(|size| shape(size) != shape(first)) {
            bail!(Usage(anyhow!(
                "sizes {:?} and {:?} differ in seq_length or vocab_size: they would not see the \
                 same samples",
                first.name,
                other.name
            )));
        }
        Ok(())
    }

    /// How `size` is trained: the section `[train]` with its model.
    pub(super) fn train_config(&self, size: &SizeSection) -> TrainConfig {
        let TrainSection {
            seed,
            precision,
            recompute,
            batch,
            optimizer,
            schedule,
            loss_scale,
            parallel,
            data,
            validation,
            checkpoint,
            logging,
        } = self.train.clone();
        let model = ModelConfig::Gpt2(size.gpt2().clone());
        TrainConfig {
            seed,
            precision,
            recompute,
            model,
            finetune: None,
            batch,
            optimizer,
            schedule,
            loss_scale,
            parallel,
            data,
            validation,
            checkpoint,
            logging,
        }
    }

    /// How the text below `folder` is curated, with `test_sets` kept out.
    pub(super) fn curation_config(&self, folder: &Path, test_sets: Vec<PathBuf>) -> CurationConfig {
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
            model: ModelFamily::Gpt2,
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
        config.decontamination = Some(DecontaminationConfig {
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

impl SizeSection {
    /// The model's sizes.
    pub(super) fn gpt2(&self) -> &Gpt2Section {
        let SizeModel::Gpt2(section) = &self.model;
        section
    }

    /// Tokens of the vocabulary, without padding.
    pub(super) fn vocab_size(&self) -> usize {
        self.gpt2().vocab_size.map_or(0, NonZeroUsize::get) // filled in by `checked`
    }

    fn gpt2_mut(&mut self) -> &mut Gpt2Section {
        let SizeModel::Gpt2(section) = &mut self.model;
        section
    }
}
