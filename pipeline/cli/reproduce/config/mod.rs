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
//! What the experiment has no use for is refused ([`check`]).

mod check;
mod data;
mod finetune;
mod train;

use std::num::{NonZeroU64, NonZeroUsize};

use corpus::reader::ModelFamily;
use evaluation::EvalConfig;
use serde::{Deserialize, Serialize};
use training::config::{BertSection, Gpt2Section, ModelConfig};

use self::data::{ContaminationSection, DataSection};
use self::finetune::FineTuneSection;
use self::train::TrainSection;
use super::report::table3::Task;
use crate::machine_text;

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
    /// `[[size]]`: the models; of one size but in another arrangement, too.
    #[serde(rename = "size")]
    pub(super) sizes: Vec<SizeSection>,
    /// `[finetune]`: how every size is fine-tuned on RACE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) finetune: Option<FineTuneSection>,
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
    /// Table 3: GPT-2 of several sizes, trained alike, on WikiText103 and LAMBADA.
    Table3,
    /// Figure 7: BERT in both arrangements of norms and residuals, at several depths.
    Figure7,
    /// RACE (table 5): BERT, fine-tuned from several seeds.
    Race,
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
    pub(super) model: ModelConfig,
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

impl Experiment {
    /// The name of its table or figure, as files are called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Table3 => "table3",
            Self::Figure7 => "figure7",
            Self::Race => "race",
        }
    }

    /// The test sets that its models are scored on, in the paper's order.
    pub(super) fn tasks(self) -> &'static [Task] {
        match self {
            Self::Table3 => &[Task::WikiText103, Task::Lambada],
            Self::Figure7 | Self::Race => &[],
        }
    }

    /// What its models are.
    fn model_family(self) -> ModelFamily {
        match self {
            Self::Table3 => ModelFamily::Gpt2,
            Self::Figure7 | Self::Race => ModelFamily::Bert,
        }
    }
}

impl SizeSection {
    /// The sizes of a GPT-2; `None` where it is another model.
    pub(super) fn gpt2(&self) -> Option<&Gpt2Section> {
        match &self.model {
            ModelConfig::Gpt2(section) => Some(section),
            ModelConfig::Bert(_) => None,
        }
    }

    /// The sizes of a BERT; `None` where it is another model.
    pub(super) fn bert(&self) -> Option<&BertSection> {
        match &self.model {
            ModelConfig::Gpt2(_) => None,
            ModelConfig::Bert(section) => Some(section),
        }
    }

    /// Tokens that the model sees at most.
    pub(super) fn seq_length(&self) -> NonZeroUsize {
        match &self.model {
            ModelConfig::Gpt2(section) => section.seq_length,
            ModelConfig::Bert(section) => section.seq_length,
        }
    }

    /// Tokens of the vocabulary, without padding.
    pub(super) fn vocab_size(&self) -> usize {
        self.model.vocab_size().map_or(0, NonZeroUsize::get) // filled in by `checked`
    }

    /// The place of that number.
    fn vocab_size_mut(&mut self) -> &mut Option<NonZeroUsize> {
        match &mut self.model {
            ModelConfig::Gpt2(section) => &mut section.vocab_size,
            ModelConfig::Bert(section) => &mut section.vocab_size,
        }
    }
}
