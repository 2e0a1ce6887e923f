//! What every experiment stands on: the machine, the text, what became of its documents, the
//! settings and the parts of the work.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::numerals::{bytes, duration, grouped, share};

/// What an experiment was made with and from; the same for all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ground {
    /// Name of the experiment, as its configuration is called: `table3-tiny`.
    pub(crate) experiment: String,
    /// What the experiment is, in words: the page's heading.
    pub(crate) title: String,
    /// When the report was made: UTC, RFC 3339, as [`utc`](super::utc) writes it.
    pub(crate) date: String,
    /// Version of the program.
    pub(crate) version: String,
    /// The command that does it all again; `None` where it cannot be told.
    pub(crate) command: Option<String>,
    /// Where it ran.
    pub(crate) machine: Machine,
    /// What it was made from.
    pub(crate) text: Text,
    /// What became of the documents; `None` where that part was not done.
    pub(crate) curation: Option<Curation>,
    /// The resolved configuration, with all that it stands for.
    pub(crate) settings: Value,
    /// The parts of the work, in their order.
    pub(crate) parts: Vec<Part>,
    /// What a reader should know before the numbers, in sentences.
    pub(crate) warnings: Vec<String>,
}

/// The machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Name of the processor; `None` where the system does not tell.
    pub(crate) processor: Option<String>,
    /// Cores that the program could use.
    pub(crate) cores: usize,
    /// The instructions that the kernels of training use: `AVX-512`.
    pub(crate) vector_kernels: String,
    /// Memory that the program could fill, in bytes.
    pub(crate) memory_bytes: Option<u64>,
}

/// The raw text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Text {
    /// Whose it is.
    pub(crate) kind: TextKind,
    /// Its folder, or what it is called.
    pub(crate) root: String,
    /// Documents found in it.
    pub(crate) documents: u64,
    /// Bytes of these documents.
    pub(crate) bytes: u64,
    /// Documents of them that were held out to make test sets from.
    pub(crate) held_out_documents: u64,
}

/// Whose a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TextKind {
    /// What the machine has anyway.
    Machine,
    /// What the user named.
    Own,
}

/// What became of the documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Curation {
    /// Documents that went in.
    pub(crate) documents_in: u64,
    /// Documents that were dropped, by reason, in the order in which reasons are tried.
    pub(crate) dropped: Vec<Dropped>,
    /// Documents of the curated corpus.
    pub(crate) documents_kept: u64,
    /// Tokens of the curated corpus, ends of documents among them.
    pub(crate) tokens: u64,
    /// Name of the tokenizer.
    pub(crate) tokenizer: String,
}

/// Documents that were dropped for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Dropped {
    /// The reason, as the curation's report has it.
    pub(crate) reason: String,
    /// Number of documents.
    pub(crate) documents: u64,
}

/// A part of the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Its name, as progress has it.
    pub(crate) name: String,
    /// What became of it.
    pub(crate) state: PartState,
    /// Wall time when it was done, in seconds.
    pub(crate) seconds: Option<f64>,
    /// The most memory that the process had held when it was done, in bytes.
    pub(crate) peak_rss_bytes: Option<u64>,
    /// What it warned of, as it was printed.
    pub(crate) warnings: Vec<String>,
}

/// What became of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PartState {
    /// Done by this call.
    Done,
    /// Done by an earlier call, with the same settings and input.
    Kept,
    /// Not done.
    Missing,
}

impl Ground {
    /// Whether a part of the work was not done.
    pub(super) fn is_missing_a_part(&self) -> bool {
        self.parts.iter().any(|part| part.state == PartState::Missing)
    }

    /// The parts that were not done.
    pub(super) fn missing_parts(&self) -> Vec<&str> {
        let missing = self.parts.iter().filter(|part| part.state == PartState::Missing);
        missing.map(|part| part.name.as_str()).collect()
    }

    /// The machine in one line.
    pub(super) fn machine_sentence(&self) -> String {
        let machine = &self.machine;
        let mut parts = vec![match machine.cores {
            1 => "1 core".to_owned(),
            cores => format!("{cores} cores"),
        }];
        parts.extend(machine.processor.clone());
        parts.push(format!("kernels for {}", machine.vector_kernels));
        parts.extend(machine.memory_bytes.map(|memory| format!("{} of memory", bytes(memory))));
        parts.join(", ")
    }

    /// Time of all parts, those of earlier calls included; none where no part tells.
    pub(super) fn total_seconds(&self) -> Option<f64> {
        let seconds: Vec<f64> = self.parts.iter().filter_map(|part| part.seconds).collect();
        (!seconds.is_empty()).then(|| seconds.iter().sum())
    }

    /// What the corpus was made from, in a sentence or two.
    pub(super) fn text_sentence(&self) -> String {
        let text = &self.text;
        let kind = match text.kind {
            TextKind::Machine => "Text that this machine has anyway",
            TextKind::Own => "Text that the user named",
        };
        let held_out = match text.held_out_documents {
            0 => String::new(),
            1 => " One of them was held out to make the test sets from.".to_owned(),
            count => {
                format!(" {} of them were held out to make the test sets from.", grouped(count))
            }
        };
        format!(
            "{kind}: {} with {} documents, {}.{held_out}",
            text.root,
            grouped(text.documents),
            bytes(text.bytes)
        )
    }

    /// How much of the text is in the corpus, in a sentence.
    pub(super) fn curation_sentence(&self) -> Option<String> {
        let curation = self.curation.as_ref()?;
        Some(format!(
            "{} of {} documents ({}) are in the corpus: {} tokens of {}.",
            grouped(curation.documents_kept),
            grouped(curation.documents_in),
            share(curation.documents_kept, curation.documents_in),
            grouped(curation.tokens),
            curation.tokenizer
        ))
    }

    /// The text and what became of it, for the terminal: names with what is said of them.
    pub(super) fn text_lines(&self) -> Vec<(String, String)> {
        let text = &self.text;
        let kind = match text.kind {
            TextKind::Machine => "text of this machine",
            TextKind::Own => "text of your own",
        };
        let (documents, size) = (grouped(text.documents), bytes(text.bytes));
        let mut lines = vec![(
            "text".to_owned(),
            format!("{kind}, {}: {documents} documents, {size}", text.root),
        )];
        if let Some(curation) = &self.curation {
            let (kept, all) = (curation.documents_kept, curation.documents_in);
            lines.push((
                "curated".to_owned(),
                format!(
                    "{} of {} documents ({}), {} tokens of {}",
                    grouped(kept),
                    grouped(all),
                    share(kept, all),
                    grouped(curation.tokens),
                    curation.tokenizer
                ),
            ));
        }
        lines
    }

    /// The machine and the time, for the terminal.
    pub(super) fn machine_lines(&self) -> Vec<(String, String)> {
        let machine = ("machine".to_owned(), self.machine_sentence());
        let time = self.total_seconds().map(|seconds| ("time".to_owned(), duration(seconds)));
        [machine].into_iter().chain(time).collect()
    }
}

/// Names with what is said of them as rows of one column: a value may be long.
pub(super) fn described(lines: Vec<(String, String)>) -> Vec<Vec<String>> {
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    lines.into_iter().map(|(name, value)| vec![format!("{name:<width$}  {value}")]).collect()
}
