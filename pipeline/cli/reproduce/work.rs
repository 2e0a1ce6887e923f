//! The work: each part in its turn, once. How it is made is told in [`make`](super::make).

use std::fs;
use std::time::Instant;

use anyhow::{Context, anyhow};
use corpus::{CorpusError, Observer, machine};
use curation::CurationError;
use evaluation::EvalError;
use tracing::{info, warn};
use training::TrainError;

use super::depends::Depends;
use super::facts;
use super::journal::{Entry, Journal, Made, Spent, State};
use super::outputs::Fault;
use super::parts::{Part, Parts, REPORT_FILE};
use super::pulse::with_pulse;
use super::report::Report;
use crate::progress::Progress;

/// A reproduction at work.
pub(super) struct Work<'a> {
    pub(super) parts: Parts<'a>,
    pub(super) journal: Journal,
    pub(super) name: &'a str,
    pub(super) progress: &'a Progress,
    /// Whether trainings may be thrown away.
    pub(super) redo: bool,
    /// Keys of the parts that this call has done.
    pub(super) done_now: Vec<String>,
}

/// How a call ended.
pub(super) enum Outcome {
    /// All is done.
    Done(Box<Report>),
    /// A signal stopped it.
    Stopped {
        /// The part that was at work.
        part: String,
        /// Parts that are done.
        done: usize,
        /// Parts in all.
        of: usize,
    },
}

/// What a part came to.
pub(super) enum Done {
    /// It is done, and came to this.
    With(Made),
    /// It was stopped, and goes on with another call.
    Stopped,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        parts: Parts<'a>,
        journal: Journal,
        name: &'a str,
        progress: &'a Progress,
        redo: bool,
    ) -> Self {
        Self { parts, journal, name, progress, redo, done_now: Vec::new() }
    }

    /// Does all parts that are not done, in their order.
    ///
    /// # Errors
    ///
    /// Where one fails, or a training would be thrown away that may not be; what was done before it
    /// stays.
    pub(super) fn run(&mut self) -> anyhow::Result<Outcome> {
        self.journal.settle(self.parts.out)?;
        let mut index = 0;
        loop {
            // The text tells which test sets there are, and so which parts.
            let all = self.parts.all(&self.journal);
            let Some(&part) = all.get(index) else { break };
            let of = all.len();
            let label = format!("{}/{of} {}", index + 1, self.parts.label(part));
            self.put_back(part, &label)?;
            self.judge(part)?;
            if self.parts.is_done(part, &self.journal)? {
                info!("{label}: done before");
            } else if self.progress.stop_requested() || !self.part(part, &label)? {
                return Ok(Outcome::Stopped { part: self.parts.label(part), done: index, of });
            }
            index += 1;
        }
        let path = self.parts.out.join(REPORT_FILE);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let report = facts::read(self.parts.config.experiment, &bytes).map_err(|error| {
            anyhow!("{}: {error}; delete it to have it made again", path.display())
        })?;
        Ok(Outcome::Done(Box::new(report)))
    }

    /// Does one part, and notes how far it came. Returns whether it is done.
    fn part(&mut self, part: Part, label: &str) -> anyhow::Result<bool> {
        let key = self.parts.key(part);
        let depends = self
            .parts
            .depends(part, &self.journal)?
            .with_context(|| format!("{key} comes before what it needs"))?;
        self.clear(part, &depends, label)?;
        self.journal.begin(&key, depends, self.parts.outputs(part));
        self.journal.write(self.parts.out)?;
        info!("{label}: {}", self.parts.describe(part, &self.journal));

        machine::reset_peak_rss();
        self.progress.take_warnings(); // what came before is of no part
        let started = Instant::now();
        let done = with_pulse(&self.journal, &key, self.parts.out, started, || self.make(part));
        let done = match done {
            Err(error) if is_stop(&error) => Ok(Done::Stopped),
            done => done,
        };
        let made = match &done {
            Ok(Done::With(made)) => Some(made.clone()),
            _ => None,
        };
        let is_done = made.is_some();
        let spent = Spent {
            seconds: started.elapsed().as_secs_f64(),
            peak_rss_bytes: machine::peak_rss_bytes(),
            warnings: self.progress.take_warnings(),
        };
        self.journal.note(&key, spent, made);
        self.journal.write(self.parts.out)?;
        done?;
        if is_done {
            self.done_now.push(key);
        }
        Ok(is_done)
    }

    /// Puts back what was set aside of a part, where that is what this call wants.
    fn put_back(&mut self, part: Part, label: &str) -> anyhow::Result<()> {
        let key = self.parts.key(part);
        let Some(fingerprint) = self.parts.fingerprint(part, &self.journal)? else { return Ok(()) };
        let is_wanted = |entry: &Entry| entry.fingerprint == fingerprint;
        if self.parts.is_done(part, &self.journal)?
            || !self.journal.aside(&key).is_some_and(is_wanted)
        {
            return Ok(());
        }
        if self.journal.put_back(&key, self.parts.out, self.progress)? {
            info!("{label}: what was set aside is what is wanted again");
        }
        Ok(())
    }

    /// Refuses to go on where a training would be thrown away that may not be. Behind the corpus
    /// all is known of it, and nothing needs to be set aside any more.
    fn judge(&mut self, part: Part) -> anyhow::Result<()> {
        if !self.redo {
            self.parts.spare(&self.parts.losses(&self.journal)?)?;
        }
        match part {
            Part::Text | Part::Corpus => Ok(()),
            _ => self.journal.drop_aside(self.parts.out),
        }
    }

    /// Removes what an earlier call left of a part, unless the part goes on from it, or trainings
    /// rest on it. With a changed training or score, the page no longer tells what is there.
    fn clear(&mut self, part: Part, depends: &Depends, label: &str) -> anyhow::Result<()> {
        let key = self.parts.key(part);
        let Some(entry) = self.journal.entry(&key) else {
            // What lies there without the journal knowing of it is somebody else's.
            return self.parts.check_free(part);
        };
        let has_changed = entry.fingerprint != depends.fingerprint(&key);
        if !has_changed && entry.state == State::Begun {
            info!("{label}: goes on where it was broken off");
            return Ok(());
        }
        if has_changed {
            let changes = self.parts.changes(part, &self.journal)?;
            let changes = match changes.is_empty() {
                true => "what it depends on has changed".to_owned(),
                false => changes.join("; "),
            };
            warn!("{label}: is done again: {changes}");
        } else {
            let fault = self.journal.fault(&key).map(Fault::sentence).unwrap_or_default();
            warn!("{label}: is done again: {fault}");
        }
        let is_early = matches!(part, Part::Text | Part::Corpus);
        if has_changed && is_early && self.is_to_be_kept(&key) {
            return self.journal.set_aside(&key, self.parts.out);
        }
        let mut stale = vec![key];
        if has_changed && part.size().is_some() {
            stale.push(self.parts.key(Part::Page));
        }
        for key in stale {
            if let Some(entry) = self.journal.entry(&key) {
                entry.remove_outputs(self.parts.out)?;
                self.journal.forget(&key);
            }
        }
        Ok(())
    }

    /// Whether the output of an early part is to be set aside: trainings rest on it, and it is not
    /// yet known whether they still hold.
    fn is_to_be_kept(&self, key: &str) -> bool {
        let is_whole = self.journal.entry(key).is_some_and(|entry| entry.state == State::Done)
            && self.journal.fault(key).is_none();
        let all = self.parts.all(&self.journal);
        !self.redo
            && is_whole
            && self.journal.aside(key).is_none()
            && all.into_iter().any(|part| self.parts.has_trained(part, &self.journal))
    }
}

/// Whether an error is that a signal has stopped the work.
pub(super) fn is_stop(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(CorpusError::Stopped))
            || matches!(cause.downcast_ref(), Some(CurationError::Stopped { .. }))
            || matches!(cause.downcast_ref(), Some(TrainError::Stopped))
            || matches!(
                cause.downcast_ref(),
                Some(EvalError::Stopped | EvalError::StoppedWithScores { .. })
            )
    })
}
