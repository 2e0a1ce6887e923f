//! What `--task` and `--protocol` name.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;
use corpus::race::RaceSplit;
use evaluation::lambada::{self, Lambada};
use evaluation::race::{self, Race};
use evaluation::validation::{self, Validation};
use evaluation::wikitext103::{self, WikiText103};
use evaluation::{Protocol, Task};
use training::data::Part;

/// A task, as the command line names it.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum TaskName {
    /// Word perplexity of WikiText103's test split (`wiki.test.tokens`, with `<unk>`).
    Wikitext103,
    /// Guessing the last word of LAMBADA's passages, whole (`strict`) and by its last token; JSONL
    /// with a `text` in each line.
    Lambada,
    /// Loss and perplexity on held-out documents of a data folder, as training measures them: of a
    /// BERT those of masked tokens, and of the order of segments.
    Validation,
    /// Accuracy of a fine-tuned BERT on RACE's questions, of middle and high school and of both; the
    /// folder that holds `train`, `dev` and `test`. Several checkpoints vote.
    Race,
    /// Share of a test set's 8-grams that occur in a corpus; needs no checkpoint.
    Contamination,
}

/// A part of the data, as the command line names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SplitName {
    Train,
    /// Of a data folder.
    Validation,
    /// Of RACE.
    Dev,
    Test,
}

impl SplitName {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Dev => "dev",
            Self::Test => "test",
        }
    }

    /// The part of a data folder; none for RACE's own.
    pub(super) fn part(self) -> Option<Part> {
        match self {
            Self::Train => Some(Part::Train),
            Self::Validation => Some(Part::Validation),
            Self::Dev => None,
            Self::Test => Some(Part::Test),
        }
    }

    /// The split of RACE; none for a data folder's own.
    pub(super) fn of_race(self) -> Option<RaceSplit> {
        match self {
            Self::Train => Some(RaceSplit::Train),
            Self::Validation => None,
            Self::Dev => Some(RaceSplit::Dev),
            Self::Test => Some(RaceSplit::Test),
        }
    }
}

impl FromStr for SplitName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Self::Train, Self::Validation, Self::Dev, Self::Test];
        all.into_iter().find(|it| it.name() == name).ok_or_else(|| {
            "train, validation or test is needed, or for race train, dev or test".to_owned()
        })
    }
}

/// A protocol, as the command line names it.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum ProtocolName {
    /// Megatron-LM v1.0's, as in the paper: of wikitext103 one stream of `wiki.test.tokens`.
    Megatron,
    /// lm-evaluation-harness's, to compare with its tables: of wikitext103 the pages of
    /// `wiki.test.raw`, of lambada the task `lambada_openai`.
    LmEval,
}

impl From<ProtocolName> for Protocol {
    fn from(name: ProtocolName) -> Self {
        match name {
            ProtocolName::Megatron => Self::Megatron,
            ProtocolName::LmEval => Self::LmEval,
        }
    }
}

impl TaskName {
    /// The task on the test set `data`, or on the part `split` of it; for contamination, the one that
    /// scores a test set of its form.
    pub(super) fn on(self, data: PathBuf, protocol: Protocol, split: Option<SplitName>) -> Task {
        match self {
            Self::Wikitext103 => {
                let name = wikitext103::NAME.to_owned();
                Task::WikiText103(WikiText103 { name, data, protocol })
            }
            Self::Lambada => {
                let name = lambada::NAME.to_owned();
                Task::Lambada(Lambada { name, data, protocol })
            }
            Self::Contamination if is_jsonl(&data) => Self::Lambada.on(data, protocol, split),
            Self::Contamination => Self::Wikitext103.on(data, protocol, split),
            Self::Validation => Task::Validation(Validation {
                name: validation::NAME.to_owned(),
                data,
                part: split.and_then(SplitName::part).unwrap_or_default(),
            }),
            Self::Race => Task::Race(Race {
                name: race::NAME.to_owned(),
                data,
                split: split.and_then(SplitName::of_race).unwrap_or(RaceSplit::Test),
            }),
        }
    }
}

/// Whether a test set has an item in each line.
fn is_jsonl(path: &Path) -> bool {
    let endings = ["jsonl", "ndjson", "json"];
    path.extension().is_some_and(|ending| endings.iter().any(|it| ending.eq_ignore_ascii_case(it)))
}
