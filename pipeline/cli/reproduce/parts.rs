//! The parts of a reproduction: in which order they are done, and what each leaves.

use std::fs;
use std::path::Path;

use anyhow::{anyhow, bail};
use corpus::race::RaceSplit;

use super::config::ReproduceConfig;
use super::inputs::{Inputs, TestSet};
use super::journal::{Entry, Journal};
use super::report::table3::Task;
use crate::exit::Usage;

/// The text, as documents.
pub(super) const TEXT: &str = "text";
/// The data folder.
pub(super) const DATA: &str = "data";
/// The overlap of test sets and corpus.
pub(super) const CONTAMINATION_FILE: &str = "contamination.json";
/// The result, for programs; beside it lie a table and a page.
pub(super) const REPORT_FILE: &str = "report.json";

/// A part of a reproduction. Sizes are counted as in its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Reading the text, and holding test sets out of it.
    Text,
    /// Curating the corpus.
    Corpus,
    /// Measuring the overlap of test sets and corpus.
    Contamination,
    /// Training a size.
    Train(usize),
    /// Scoring a size on a test set.
    Eval(usize, Task),
    /// Fine-tuning a size on RACE. Seeds are counted as in the configuration, too.
    FineTune { size: usize, seed: usize },
    /// Having what was fine-tuned so answer the questions of a split.
    Race { size: usize, seed: usize, split: RaceSplit },
    /// Making the result of all of it.
    Page,
}

impl Part {
    /// The size that is trained or scored.
    pub(super) fn size(self) -> Option<usize> {
        match self {
            Self::Train(size)
            | Self::Eval(size, _)
            | Self::FineTune { size, .. }
            | Self::Race { size, .. } => Some(size),
            Self::Text | Self::Corpus | Self::Contamination | Self::Page => None,
        }
    }
}

/// All that says what the parts of a reproduction are.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) config: &'a ReproduceConfig,
    pub(super) inputs: &'a Inputs,
    /// The reproduction's folder.
    pub(super) out: &'a Path,
}

impl Parts<'_> {
    /// The parts in their order. One that has no test set, because the text has no passages to make
    /// it of, is not among them once that is known.
    pub(super) fn all(&self, journal: &Journal) -> Vec<Part> {
        let mut parts = Vec::new();
        if self.config.text.is_some() {
            parts.push(Part::Text);
        }
        parts.push(Part::Corpus);
        let tasks: Vec<Task> = self.test_sets(journal).iter().map(|it| it.task).collect();
        if !self.config.experiment.tasks().is_empty() {
            parts.push(Part::Contamination);
        }
        for size in 0..self.config.sizes.len() {
            parts.push(Part::Train(size));
            parts.extend(tasks.iter().map(|&task| Part::Eval(size, task)));
            for seed in 0..self.config.seeds().len() {
                parts.push(Part::FineTune { size, seed });
                let splits = [RaceSplit::Dev, RaceSplit::Test];
                parts.extend(splits.map(|split| Part::Race { size, seed, split }));
            }
        }
        parts.push(Part::Page);
        parts
    }

    /// The test sets of the experiment that there are; before the text is read, all that there may be.
    pub(super) fn test_sets(&self, journal: &Journal) -> Vec<TestSet> {
        let mut test_sets = self.inputs.test_sets(&self.out.join(TEXT));
        if let Some(text) = self.text_entry(journal) {
            let is_there = |set: &TestSet| {
                let name = set.path.file_name();
                let is_of_text =
                    || text.files.iter().any(|file| Path::new(&file.path).file_name() == name);
                self.inputs.test_file(set.task).is_some() || is_of_text()
            };
            test_sets.retain(is_there);
        }
        test_sets
    }

    /// The text that was read: the one that is wanted, though it be set aside, before another.
    fn text_entry<'j>(&self, journal: &'j Journal) -> Option<&'j Entry> {
        let key = self.key(Part::Text);
        let fingerprint = self.fingerprint(Part::Text, journal).ok().flatten();
        let wanted = fingerprint.and_then(|fingerprint| journal.done(&key, &fingerprint));
        wanted.or_else(|| journal.result(&key).and(journal.entry(&key)))
    }

    /// The name under which the journal has a part.
    pub(super) fn key(&self, part: Part) -> String {
        match part {
            Part::Text => "text".to_owned(),
            Part::Corpus => "corpus".to_owned(),
            Part::Contamination => "contamination".to_owned(),
            Part::Train(size) => format!("train.{}", self.size(size)),
            Part::Eval(size, task) => format!("eval.{}.{}", self.size(size), name_of(task)),
            Part::FineTune { size, seed } => {
                format!("finetune.{}.{}", self.size(size), self.seed(seed))
            }
            Part::Race { size, seed, split } => {
                format!("race.{}.{}.{split}", self.size(size), self.seed(seed))
            }
            Part::Page => "page".to_owned(),
        }
    }

    /// What messages call a part.
    pub(super) fn label(&self, part: Part) -> String {
        match part {
            Part::Train(size) => format!("train {}", self.size(size)),
            Part::Eval(size, task) => format!("eval {} {}", self.size(size), name_of(task)),
            Part::FineTune { size, seed } => {
                format!("fine-tune {}, seed {}", self.size(size), self.seed(seed))
            }
            Part::Race { size, seed, split } => {
                format!("race {}, seed {}, {split}", self.size(size), self.seed(seed))
            }
            part => self.key(part),
        }
    }

    /// The run folder of a training, relative to the reproduction's; `None` for other parts.
    pub(super) fn run_folder(&self, part: Part) -> Option<String> {
        match part {
            Part::Train(size) => Some(run_of(self.size(size))),
            Part::FineTune { size, seed } => {
                Some(format!("finetuned/{}/seed-{}", self.size(size), self.seed(seed)))
            }
            _ => None,
        }
    }

    /// The files of a score on RACE, relative to the reproduction's folder: the result, what was
    /// answered to each question, and where that lies until all is answered.
    pub(super) fn race_files(&self, size: usize, seed: usize, split: RaceSplit) -> [String; 3] {
        let (size, seed) = (self.size(size), self.seed(seed));
        let file = |kind| format!("race/{size}/seed-{seed}.{split}.{kind}");
        ["json", "items.jsonl", "partial"].map(file)
    }

    /// A seed of the fine-tunings.
    pub(super) fn seed(&self, seed: usize) -> u64 {
        self.config.seeds()[seed]
    }

    /// The file with the result as a table: `table3.csv`.
    pub(super) fn csv_file(&self) -> String {
        format!("{}.csv", self.config.experiment.name())
    }

    /// The file with the result as a page: `table3.html`.
    pub(super) fn page_file(&self) -> String {
        format!("{}.html", self.config.experiment.name())
    }

    /// The name of a size.
    pub(super) fn size(&self, size: usize) -> &str {
        &self.config.sizes[size].name
    }

    /// What a part leaves in the folder, all relative to it; whatever is there of it is the part's.
    pub(super) fn outputs(&self, part: Part) -> Vec<String> {
        match part {
            Part::Text => vec![TEXT.to_owned()],
            // A curation keeps its stages and the folder it writes beside the finished one.
            Part::Corpus => {
                vec![DATA.to_owned(), format!(".{DATA}.stages"), format!(".{DATA}.partial")]
            }
            Part::Contamination => vec![CONTAMINATION_FILE.to_owned()],
            Part::Train(_) | Part::FineTune { .. } => self.run_folder(part).into_iter().collect(),
            Part::Race { size, seed, split } => self.race_files(size, seed, split).to_vec(),
            Part::Eval(size, task) => {
                let size = self.size(size);
                vec![score_of(size, task), scores_of(size, task)]
            }
            Part::Page => vec![REPORT_FILE.to_owned(), self.csv_file(), self.page_file()],
        }
    }

    /// Refuses to do a part where something lies that it would write.
    ///
    /// # Errors
    ///
    /// Wrong usage, with the path.
    pub(super) fn check_free(&self, part: Part) -> anyhow::Result<()> {
        for path in self.outputs(part).iter().map(|output| self.out.join(output)) {
            if fs::symlink_metadata(&path).is_ok() {
                bail!(Usage(anyhow!(
                    "{} is none of the reproduction's: move it away, or pass --out with another \
                     folder",
                    path.display()
                )));
            }
        }
        Ok(())
    }
}

/// What a task is called in keys, names of files, and where its benchmark is scored.
pub(super) fn name_of(task: Task) -> &'static str {
    match task {
        Task::WikiText103 => evaluation::wikitext103::NAME,
        Task::Lambada => evaluation::lambada::NAME,
    }
}

/// A size's run folder, relative to the reproduction's.
pub(super) fn run_of(size: &str) -> String {
    format!("runs/{size}")
}

/// The file of a size's score, relative to the reproduction's folder.
pub(super) fn score_of(size: &str, task: Task) -> String {
    format!("eval/{size}.{}.json", name_of(task))
}

/// Where what is scored of it lies until all is, relative to the reproduction's folder.
pub(super) fn scores_of(size: &str, task: Task) -> String {
    format!("eval/{size}.{}.partial", name_of(task))
}
