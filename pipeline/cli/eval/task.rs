//! What `--task` and `--protocol` name.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use evaluation::lambada::{self, Lambada};
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
    /// Loss and perplexity on held-out documents of a data folder, as training measures them.
    Validation,
    /// Share of a test set's 8-grams that occur in a corpus; needs no checkpoint.
    Contamination,
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
    /// The task on the test set `data`, or on the documents `split` of it; for contamination, the
    /// one that scores a test set of its form.
    pub(super) fn on(self, data: PathBuf, protocol: Protocol, split: Option<Part>) -> Task {
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
                part: split.unwrap_or_default(),
            }),
        }
    }
}

/// Whether a test set has an item in each line.
fn is_jsonl(path: &Path) -> bool {
    let endings = ["jsonl", "ndjson", "json"];
    path.extension().is_some_and(|ending| endings.iter().any(|it| ending.eq_ignore_ascii_case(it)))
}
