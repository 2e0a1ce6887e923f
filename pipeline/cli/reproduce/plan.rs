//! What `--dry-run` prints: the parts, which of them are done, and what the others take.

use std::path::PathBuf;

use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;
use serde_json::{Map, Value};

use super::estimate::{Estimate, SizeEstimate, time};
use super::journal::{Journal, State};
use super::parts::{Part, Parts};
use super::report::numerals::scientific;
use crate::output;

/// A reproduction before it is done.
#[derive(Debug, Serialize)]
pub(super) struct Plan<'a> {
    name: &'a str,
    title: &'a str,
    out: PathBuf,
    /// Flags that are lacking, with what they want.
    missing: &'a [String],
    /// Each part with what became of it so far.
    parts: Map<String, Value>,
    #[serde(flatten)]
    estimate: &'a Estimate,
    /// The same for people: key, what is done, and what became of it so far.
    #[serde(skip)]
    lines: Vec<[String; 3]>,
}

impl<'a> Plan<'a> {
    /// The plan of `parts`, of which `journal` tells what is done.
    ///
    /// # Errors
    ///
    /// Where an input cannot be read.
    pub(super) fn of(
        name: &'a str,
        parts: &Parts<'a>,
        journal: &Journal,
        estimate: &'a Estimate,
    ) -> anyhow::Result<Self> {
        let (mut states, mut lines) = (Map::new(), Vec::new());
        for part in parts.all(journal) {
            let (key, state) = (parts.key(part), state(parts, part, journal)?);
            lines.push([key.clone(), parts.describe(part, journal), state.clone()]);
            states.insert(key, state.into());
        }
        Ok(Self {
            name,
            title: &parts.config.title,
            out: parts.out.to_owned(),
            missing: &parts.inputs.missing,
            parts: states,
            estimate,
            lines,
        })
    }

    /// The plan as text: a line for each part and each size, and what this machine has for them.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{} ({}), in {}\n\n", self.title, self.name, self.out.display());
        let width = |column: usize| self.lines.iter().map(|it| it[column].chars().count()).max();
        let [keys, what] = [0, 1].map(|column| width(column).unwrap_or(0));
        for [key, description, state] in &self.lines {
            text.push_str(&format!("{key:<keys$}  {description:<what$}  {state}\n"));
        }
        text.push('\n');
        text.push_str(&output::table(&self.size_rows()));
        text.push('\n');
        for (name, value) in self.machine_rows() {
            text.push_str(&format!("{name:<7}  {value}\n"));
        }
        text
    }

    fn size_rows(&self) -> Vec<Vec<String>> {
        let header = [
            "size",
            "parameters",
            "tokens",
            "epochs",
            "ranks",
            "memory of each",
            "of all",
            "training FLOP",
            "scoring FLOP",
            "at least",
        ];
        let row = |size: &SizeEstimate| {
            let flops = |flops: f64| if flops > 0.0 { scientific(flops) } else { "-".into() };
            vec![
                size.name.clone(),
                HumanCount(size.parameters).to_string(),
                HumanCount(size.tokens).to_string(),
                size.epochs.map_or_else(|| "-".to_owned(), |epochs| format!("{epochs:.2}")),
                size.ranks.to_string(),
                HumanBytes(size.bytes_per_rank).to_string(),
                HumanBytes(size.bytes).to_string(),
                flops(size.training_flops),
                flops(size.evaluation_flops),
                if size.done { "done".to_owned() } else { time(size.days_at_least) },
            ]
        };
        let header = header.map(str::to_owned).to_vec();
        [header].into_iter().chain(self.estimate.sizes.iter().map(row)).collect()
    }

    /// What is there of memory, disk and time, and what is lacking.
    fn machine_rows(&self) -> Vec<(&'static str, String)> {
        let estimate = self.estimate;
        let bytes = |bytes: Option<u64>| {
            bytes.map_or_else(|| "unknown".to_owned(), |bytes| HumanBytes(bytes).to_string())
        };
        let most = estimate.sizes.iter().filter(|size| !size.done).map(|size| size.bytes).max();
        let mut rows = vec![
            (
                "memory",
                format!(
                    "{} at most for training, one size at a time; there is {}",
                    HumanBytes(most.unwrap_or(0)),
                    bytes(estimate.memory_bytes)
                ),
            ),
            (
                "disk",
                format!(
                    "{} for checkpoints, {} for the corpus with the stages of its curation, {} of \
                     it still to be written; free: {}",
                    HumanBytes(estimate.checkpoint_bytes),
                    HumanBytes(estimate.corpus_bytes),
                    HumanBytes(estimate.needed_bytes),
                    bytes(estimate.free_bytes)
                ),
            ),
            (
                "time",
                format!(
                    "about {} at least, were all of it matrix products, which this machine does at \
                     {}; limits.max_days is {}",
                    time(estimate.days_at_least),
                    estimate.speed(),
                    estimate.max_days
                ),
            ),
        ];
        rows.extend(estimate.as_trained().map(|text| ("", text)));
        rows.extend(self.missing.iter().map(|flag| ("lacking", flag.clone())));
        rows
    }
}

/// What became of a part, and what is still to be done of it, and why.
fn state(parts: &Parts<'_>, part: Part, journal: &Journal) -> anyhow::Result<String> {
    let key = parts.key(part);
    let Some(entry) = journal.entry(&key) else { return Ok("to do".to_owned()) };
    // Nothing is known of what a text that is not given has changed.
    if parts.inputs.text.is_none() {
        return Ok(match entry.state {
            State::Begun => "broken off".to_owned(),
            State::Done => "done, as far as can be told without --text".to_owned(),
        });
    }
    let Some(fingerprint) = parts.fingerprint(part, journal)? else {
        // Its own settings tell already.
        if !entry.depends.is_same_alone(&parts.own(part)?) {
            return changed(parts, part, journal);
        }
        return Ok("to do again if a part before it comes out different".to_owned());
    };
    if parts.is_done(part, journal)? {
        return Ok("done".to_owned());
    }
    if journal.done(&key, &fingerprint).is_some() {
        return Ok("done: what was set aside is put back".to_owned());
    }
    if entry.fingerprint != fingerprint {
        return changed(parts, part, journal);
    }
    Ok(match journal.fault(&key) {
        Some(fault) => format!("to do again: {}", fault.sentence()),
        None => "broken off: goes on".to_owned(),
    })
}

/// That a part is to be done again, with what has changed.
fn changed(parts: &Parts<'_>, part: Part, journal: &Journal) -> anyhow::Result<String> {
    let changes = match part {
        // It tells of all parts, and so each of their changes is one of its.
        Part::Page => Vec::new(),
        part => parts.changes(part, journal)?,
    };
    Ok(match changes.is_empty() {
        true => "to do again: changed".to_owned(),
        false => format!("to do again: {}", changes.join("; ")),
    })
}
