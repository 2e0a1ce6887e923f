//! Which flags go with which task.

use anyhow::{anyhow, bail};
use evaluation::PartialScores;

use super::EvalArgs;
use super::task::{ProtocolName, TaskName};
use crate::exit::Usage;

impl EvalArgs {
    /// Refuses flags of other tasks.
    pub(super) fn check_flags(&self) -> anyhow::Result<()> {
        if let TaskName::Contamination = self.task {
            return self.check_flags_of_contamination();
        }
        self.contamination.check_unused()?;
        if let [_, another, ..] = &self.data[..] {
            bail!(Usage(anyhow!(
                "--data {}: only contamination takes several test sets at once",
                another.display()
            )));
        }
        self.check_checkpoints()?;
        if self.out.is_some() && self.out == self.items {
            bail!(Usage(anyhow!("--items: report and items cannot be one file: name another")));
        }
        for model in 0..self.checkpoint.len() {
            if let (Some(items), PartialScores::File { path, .. }) =
                (&self.items, self.partial_scores(model))
                && *items == path
            {
                bail!(Usage(anyhow!(
                    "--items {}: scores are kept there until the evaluation has ended: name another",
                    path.display()
                )));
            }
        }
        let is_lm_eval = matches!(self.protocol, ProtocolName::LmEval);
        let no_overlap = match self.task {
            TaskName::Lambada => Some("lambada has no windows that could overlap"),
            TaskName::Validation => Some("the sequences of validation do not overlap"),
            TaskName::Race => Some("race has no windows that could overlap"),
            TaskName::Wikitext103 if is_lm_eval => {
                Some("the windows of --protocol lm-eval are disjoint, as those of its tables are")
            }
            TaskName::Wikitext103 | TaskName::Contamination => None,
        };
        if let (Some(overlap), Some(problem)) = (self.overlap, no_overlap) {
            bail!(Usage(anyhow!("--overlap {overlap}: {problem}")));
        }
        match self.task {
            TaskName::Validation if is_lm_eval => bail!(Usage(anyhow!(
                "--protocol lm-eval: the harness has no such task as validation"
            ))),
            TaskName::Race if is_lm_eval => {
                bail!(Usage(anyhow!("--protocol lm-eval: race has the original's protocol alone")))
            }
            TaskName::Validation if self.items.is_some() => bail!(Usage(anyhow!(
                "--items: validation packs documents into sequences; none is scored alone"
            ))),
            _ => self.check_split(),
        }
    }

    /// Refuses a part that the task's data does not have.
    fn check_split(&self) -> anyhow::Result<()> {
        let Some(split) = self.split else { return Ok(()) };
        let problem = match self.task {
            TaskName::Validation if split.part().is_some() => return Ok(()),
            TaskName::Race if split.of_race().is_some() => return Ok(()),
            TaskName::Validation => "train, validation or test is needed",
            TaskName::Race => "train, dev or test is needed",
            _ => "only validation has a data folder that is divided, and race three splits",
        };
        bail!(Usage(anyhow!("--split {}: {problem}", split.name())))
    }

    /// Refuses several models where none can vote, and one that would have two votes.
    fn check_checkpoints(&self) -> anyhow::Result<()> {
        let [_, others @ ..] = &self.checkpoint[..] else { return Ok(()) };
        if let (Some(other), false) = (others.first(), matches!(self.task, TaskName::Race)) {
            bail!(Usage(anyhow!(
                "--checkpoint {}: only for race several models can be given, which vote",
                other.display()
            )));
        }
        for (place, path) in self.checkpoint.iter().enumerate() {
            if self.checkpoint[..place].contains(path) {
                bail!(Usage(anyhow!("--checkpoint {}: is given twice", path.display())));
            }
        }
        Ok(())
    }

    /// Refuses flags of other tasks, and flags about how a model is scored where none is.
    fn check_flags_of_contamination(&self) -> anyhow::Result<()> {
        self.check_checkpoints()?;
        let unfit = [
            (self.split.is_some(), "--split: a test set is not divided"),
            (
                self.items.is_some(),
                "--items: contamination lists items and documents in its report",
            ),
            (
                matches!(self.protocol, ProtocolName::LmEval),
                "--protocol lm-eval: contamination is measured, and scored, by the paper's protocol",
            ),
        ];
        if let Some((_, problem)) = unfit.iter().find(|(is_given, _)| *is_given) {
            bail!(Usage(anyhow!("{problem}")));
        }
        let flags = [
            ("--overlap", self.overlap),
            ("--limit", self.limit),
            ("--tp", self.tp),
            ("--dp", self.dp),
        ];
        let given = flags.iter().find(|(_, value)| value.is_some());
        match given.filter(|_| self.checkpoint.is_empty()) {
            None => Ok(()),
            Some((flag, _)) => {
                bail!(Usage(anyhow!("{flag}: contamination scores no model without --checkpoint")))
            }
        }
    }
}
