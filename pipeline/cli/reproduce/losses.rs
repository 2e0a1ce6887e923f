//! What a call would throw away: trainings that are paid for.
//!
//! A part that has changed is done again, and its earlier output goes. For a text, a corpus or a
//! score that costs minutes; a training may have taken weeks, and one forgotten flag changes all of
//! them. So a training of which there is a checkpoint goes only where `--redo` says so. What is not
//! known yet (whether a corpus that is curated again comes out the same) is waited for, and the
//! corpus of before is set aside so long.

use std::fs;

use anyhow::anyhow;
use training::checkpoint::CHECKPOINTS;

use super::journal::{Journal, State};
use super::parts::{Part, Parts};
use super::report::numerals::duration;
use crate::exit::Usage;

/// A training that would be thrown away.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Loss {
    pub(super) part: Part,
    /// What messages call it.
    label: String,
    /// Whether it was finished.
    is_done: bool,
    /// Wall time that it took.
    seconds: f64,
    /// Why it would go, in the user's words.
    pub(super) reasons: Vec<String>,
    /// Whether it is its output, and not what it depends on, that is not what it was.
    is_damaged: bool,
}

impl Parts<'_> {
    /// The trainings that would go, as far as that is known.
    ///
    /// # Errors
    ///
    /// Where a setting cannot be told.
    pub(super) fn losses(&self, journal: &Journal) -> anyhow::Result<Vec<Loss>> {
        // Nothing is known of what a text that is not given has changed.
        if self.inputs.text.is_none() {
            return Ok(Vec::new());
        }
        let mut losses = Vec::new();
        for part in self.all(journal) {
            losses.extend(self.loss(part, journal)?);
        }
        Ok(losses)
    }

    /// Whether a training has left something that has a price.
    pub(super) fn has_trained(&self, part: Part, journal: &Journal) -> bool {
        let Some(run) = self.run_folder(part) else { return false };
        if journal.entry(&self.key(part)).is_none() {
            return false;
        }
        let checkpoints = self.out.join(run).join(CHECKPOINTS);
        let Ok(entries) = fs::read_dir(checkpoints) else { return false };
        let names = entries.filter_map(Result::ok).map(|entry| entry.file_name());
        names.into_iter().any(|name| name.to_string_lossy().starts_with("step-"))
    }

    fn loss(&self, part: Part, journal: &Journal) -> anyhow::Result<Option<Loss>> {
        let key = self.key(part);
        let Some(entry) = journal.entry(&key) else { return Ok(None) };
        if !self.has_trained(part, journal) {
            return Ok(None);
        }
        let has_changed = match self.fingerprint(part, journal)? {
            Some(fingerprint) => fingerprint != entry.fingerprint,
            // Its own settings tell whatever the parts before it come to.
            None => !entry.depends.is_same_alone(&self.own(part)?),
        };
        let fault = journal.fault(&key);
        let reasons = match (has_changed, fault) {
            (true, _) => self.changes(part, journal)?,
            (false, Some(fault)) => vec![fault.sentence()],
            (false, None) => return Ok(None),
        };
        Ok(Some(Loss {
            part,
            label: self.label(part),
            is_done: entry.state == State::Done,
            seconds: entry.seconds,
            reasons,
            is_damaged: !has_changed,
        }))
    }

    /// Refuses to throw trainings away.
    ///
    /// # Errors
    ///
    /// Wrong usage, with each of them, why, and what it took.
    pub(super) fn spare(&self, losses: &[Loss]) -> anyhow::Result<()> {
        if losses.is_empty() {
            return Ok(());
        }
        Err(Usage(anyhow!("{}", self.refusal(losses))).into())
    }

    /// Why a call that would throw these trainings away is refused.
    pub(super) fn refusal(&self, losses: &[Loss]) -> String {
        let mut text = format!("trainings in {} would be thrown away:", self.out.display());
        for loss in losses {
            let was = if loss.is_done { "finished" } else { "broken off" };
            let (label, time) = (&loss.label, duration(loss.seconds));
            text.push_str(&format!("\n  {label}, {was}, {time} of work"));
            for reason in &loss.reasons {
                text.push_str(&format!("\n    {reason}"));
            }
        }
        let seconds = losses.iter().map(|loss| loss.seconds).sum();
        text.push_str(&format!("\n  {} of work would be lost.", duration(seconds)));
        if losses.iter().any(|loss| loss.is_damaged) {
            text.push_str(" What is damaged can be put back from a copy.");
        }
        if losses.iter().any(|loss| !loss.is_damaged) {
            text.push_str(
                " To keep it, call with the inputs and settings of before, or with --out and \
                 another folder.",
            );
        }
        text.push_str(" To train again, pass --redo");
        text
    }
}
