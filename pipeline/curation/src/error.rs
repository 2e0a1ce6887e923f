//! What can go wrong while a corpus is curated.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use arrow::error::ArrowError;
use corpus::CorpusError;
use corpus::reader::ModelFamily;
use thiserror::Error;

use crate::filter::{DropReason, known_languages};

/// An error of the data stage.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CurationError {
    /// A value of the config cannot be used.
    #[error("{0}")]
    Config(#[from] ConfigProblem),

    /// A source, the tokenizer or the output failed.
    #[error(transparent)]
    Corpus(#[from] CorpusError),

    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb: `read`, `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },

    /// A test set that cannot be read, or with which decontamination would flag nothing.
    #[error("test set {}: {problem}", path.display())]
    TestSet {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and the remedy.
        problem: String,
    },

    /// Every document was dropped.
    #[error("0 of {documents_in} documents kept{}", reasons(dropped, *rejected))]
    NothingKept {
        /// Documents of the input.
        documents_in: u64,
        /// How many were dropped for each reason.
        dropped: BTreeMap<DropReason, u64>,
        /// Records that could not be read and so are no documents.
        rejected: u64,
    },

    /// The output is being made, or was made, of something else.
    #[error(
        "{}: holds {holds}, and what is to be made now differs:{changes}\nMake it as it was begun, choose another \
         name, or pass --overwrite to begin anew",
        out.display()
    )]
    RunChanged {
        /// The output.
        out: PathBuf,
        /// What it holds.
        holds: &'static str,
        /// What differs, a line each.
        changes: String,
    },

    /// The journal of a stage folder.
    #[error("{}: {source}. Remove the folder that it lies in to begin anew", path.display())]
    Journal {
        /// The journal.
        path: PathBuf,
        /// What is wrong with a line of it.
        source: serde_json::Error,
    },

    /// A table in a stage folder.
    #[error("{}: {source}", path.display())]
    StageFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, or with writing it.
        source: ArrowError,
    },

    /// More documents than numbers for them.
    #[error("the sources hold more than 4,294,967,295 documents: curate them in several runs")]
    TooManyDocuments,

    /// A limit on memory into which the corpus does not fit.
    #[error(
        "memory of {} is too little for {threads} threads and {documents} documents, which take {}: raise \
         --max-memory or lower --threads",
        megabytes(*limit),
        megabytes(*needed)
    )]
    TooLittleMemory {
        /// The limit, in bytes.
        limit: u64,
        /// What is needed, in bytes.
        needed: u64,
        /// Documents of the corpus; 0 before they are known.
        documents: u32,
        /// Threads that work.
        threads: usize,
    },

    /// The observer asked to stop.
    #[error("{}", kept(stages.as_deref()))]
    Stopped {
        /// The folder of the stages that are complete, with which the same run goes on; `None`
        /// where none is.
        stages: Option<PathBuf>,
    },
}

/// A value of the config that cannot be used.
#[derive(Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ConfigProblem {
    /// No source at all.
    #[error("no source is configured: add a table [[source]] with name and paths")]
    NoSource,

    /// A source without a weight beside others that have one.
    #[error("source {without} has no weight, and others have: give every source one, or none")]
    SomeWeights {
        /// Name of the source.
        without: String,
    },

    /// Sources that are all left out for the model.
    #[error(
        "every source has {:?} in its exclude_for, so that nothing is left for model = {:?}: name another model, \
         or take it out of the exclude_for of a source",
        model.to_string(),
        model.to_string()
    )]
    NoSourceFor {
        /// The model that the corpus is for.
        model: ModelFamily,
    },

    /// Decontamination against nothing.
    #[error("decontamination.test_sets is empty: name at least one file, or leave the table out")]
    NoTestSet,

    /// Titles to compare with, and none to compare.
    #[error(
        "decontamination.title compares titles, and no source reads any: add title_key = \"title\" to a table \
         [source.jsonl] or title_column to [source.parquet], or leave [decontamination.title] out"
    )]
    NoTitleKey,

    /// A language filter that would drop everything.
    #[error("language.keep is empty: name at least one language, or leave the table out")]
    NoLanguage,

    /// A language that is not told apart.
    #[error(
        "language.keep has {written:?}, which is no language known here: {}",
        known_languages()
    )]
    UnknownLanguage {
        /// The code as written.
        written: String,
    },

    /// A confidence that is none.
    #[error("language.min_confidence = {written} is no confidence: it lies between 0 and 1")]
    Confidence {
        /// The value as written.
        written: f64,
    },

    /// Unicode repair, and a program that was built without it.
    #[error(
        "[unicode_repair] asks for a step that this program was built without: build it with \
         --features unicode-repair, or leave the table out"
    )]
    NoUnicodeRepair,

    /// A threshold for which the search is not made.
    #[error(
        "near_duplicates.threshold = {written} is not usable: the search is laid out for 0.70 to 0.99, in hundredths"
    )]
    Threshold {
        /// The value as written.
        written: f64,
    },
}

impl CurationError {
    /// Whether the stages of the run are still of use once the cause of this error is gone. A
    /// record, a file or a configuration that is mended makes another run.
    pub(crate) fn outlives_a_remedy(&self) -> bool {
        match self {
            Self::Io { .. }
            | Self::StageFile { .. }
            | Self::TooLittleMemory { .. }
            | Self::Stopped { .. } => true,
            Self::Corpus(error) => matches!(
                error,
                CorpusError::Io { .. }
                    | CorpusError::OutputExists { .. }
                    | CorpusError::OutputInUse { .. }
                    | CorpusError::OutputKept { .. }
            ),
            _ => false,
        }
    }

    /// The error of a test set that cannot be used.
    pub(crate) fn test_set(path: &Path, problem: String) -> Self {
        Self::TestSet { path: path.to_owned(), problem }
    }

    /// The error of reading a test set.
    pub(crate) fn of_test_sets(error: CorpusError) -> Self {
        match error {
            CorpusError::TestSet { path, problem } => Self::TestSet { path, problem },
            CorpusError::Stopped => Self::Stopped { stages: None },
            other => Self::Corpus(other),
        }
    }

    /// Maker of [`CurationError::StageFile`] values for `map_err`.
    pub(crate) fn stage_file(path: &Path) -> impl FnOnce(ArrowError) -> Self {
        move |source| Self::StageFile { path: path.to_owned(), source }
    }

    /// The error of a table that has not the columns of `what`.
    pub(crate) fn stage_form(path: &Path, what: &str) -> Self {
        Self::stage_file(path)(ArrowError::SchemaError(format!("no table of {what}")))
    }

    /// Maker of [`CurationError::Io`] values for `map_err`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}

fn kept(stages: Option<&Path>) -> String {
    match stages {
        Some(folder) => format!(
            "what was done is kept in {}. The same command goes on from there",
            folder.display()
        ),
        None => "nothing was done yet, and nothing is left behind".to_owned(),
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{}M", bytes.div_ceil(1 << 20))
}

/// ` (empty 2, null_text 1)`, and nothing where there is nothing to say.
fn reasons(dropped: &BTreeMap<DropReason, u64>, rejected: u64) -> String {
    let mut parts: Vec<String> =
        dropped.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    if rejected > 0 {
        parts.push(format!("unreadable records {rejected}"));
    }
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_kept_names_every_reason() {
        let nothing = |documents_in, dropped: &[(DropReason, u64)], rejected| {
            let dropped = dropped.iter().copied().collect();
            CurationError::NothingKept { documents_in, dropped, rejected }.to_string()
        };
        assert_eq!(
            nothing(3, &[(DropReason::NullText, 1), (DropReason::Empty, 2)], 0),
            "0 of 3 documents kept (empty 2, null_text 1)"
        );
        assert_eq!(nothing(0, &[], 0), "0 of 0 documents kept");
        assert_eq!(nothing(0, &[], 4), "0 of 0 documents kept (unreadable records 4)");
    }
}
