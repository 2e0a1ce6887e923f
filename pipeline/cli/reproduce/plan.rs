//! What `--dry-run` prints: the parts, which of them are done, and what the others take.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};

use super::estimate::Estimate;
use super::journal::{Journal, State};
use super::parts::{Part, Parts};

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
        let mut states = Map::new();
        for part in parts.all(journal) {
            states.insert(parts.key(part), state(parts, part, journal)?.into());
        }
        Ok(Self {
            name,
            title: &parts.config.title,
            out: parts.out.to_owned(),
            missing: &parts.inputs.missing,
            parts: states,
            estimate,
        })
    }
}

/// What became of a part, in a word or two.
fn state(parts: &Parts<'_>, part: Part, journal: &Journal) -> anyhow::Result<&'static str> {
    let Some(entry) = journal.entry(&parts.key(part)) else { return Ok("to do") };
    // Nothing is known of what a text that is not given has changed.
    if parts.inputs.text.is_none() {
        return Ok(match entry.state {
            State::Begun => "broken off",
            State::Done => "done, as far as can be told without --text",
        });
    }
    if parts.is_done(part, journal)? {
        return Ok("done");
    }
    let is_the_same = parts.fingerprint(part, journal)?.as_ref() == Some(&entry.fingerprint);
    Ok(match (entry.state, is_the_same) {
        (State::Begun, true) => "broken off: goes on",
        (State::Done, true) => "to do again: its output is gone",
        (_, false) => "to do again: changed",
    })
}
