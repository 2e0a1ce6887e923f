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
        if self.out.is_some() && self.out == self.items {
            bail!(Usage(anyhow!("--items: report and items cannot be one file: name another")));
        }
        if let (Some(items), PartialScores::File { path, .. }) =
            (&self.items, self.partial_scores())
            && *items == path
        {
            bail!(Usage(anyhow!(
                "--items {}: scores are kept there until the evaluation has ended: name another",
                path.display()
            )));
        }
        let is_lm_eval = matches!(self.protocol, ProtocolName::LmEval);
        let no_overlap = match self.task {
            TaskName::Lambada => Some("lambada has no windows that could overlap"),
            TaskName::Validation => Some("the sequences of validation do not overlap"),
            TaskName::Wikitext103 if is_lm_eval => {
                Some("the windows of --protocol lm-eval are disjoint, as those of its tables are")
            }
            TaskName::Wikitext103 | TaskName::Contamination => None,
        };
        if let (Some(overlap), Some(problem)) = (self.overlap, no_overlap) {
            bail!(Usage(anyhow!("--overlap {overlap}: {problem}")));
        }
        if matches!(self.task, TaskName::Validation) {
            let problem = match &self.items {
                _ if is_lm_eval => "--protocol lm-eval: the harness has no such task as validation",
                Some(_) => {
                    "--items: validation packs documents into sequences; none is scored alone"
                }
                None => return Ok(()),
            };
            bail!(Usage(anyhow!(problem)));
        }
        if let Some(split) = self.split {
            bail!(Usage(anyhow!(
                "--split {}: only validation has a data folder that is divided",
                split.name()
            )));
        }
        Ok(())
    }

    /// Refuses flags of other tasks, and flags about how a model is scored where none is.
    fn check_flags_of_contamination(&self) -> anyhow::Result<()> {
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
        match given.filter(|_| self.checkpoint.is_none()) {
            None => Ok(()),
            Some((flag, _)) => {
                bail!(Usage(anyhow!("{flag}: contamination scores no model without --checkpoint")))
            }
        }
    }
}
