//! What a reproduction found, gathered from what its parts left.

mod figure7;
mod race;
mod runs;
mod table3;

use std::fs;
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use corpus::machine;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::config::Experiment;
use super::inputs::TextInput;
use super::journal::{Journal, State};
use super::parts::{Part, Parts};
use super::report::figure7::Figure7Report;
use super::report::race::RaceReport;
use super::report::table3::Table3Report;
use super::report::{Curation, Dropped, Ground, Machine, PartState, Report, Text, TextKind, utc};
use crate::doctor;

/// The report of all that was found, where every part but the page is done. `done_now` are the keys
/// of the parts that this call has done.
///
/// # Errors
///
/// Where the output of a part cannot be read.
pub(super) fn report(
    parts: &Parts<'_>,
    journal: &Journal,
    name: &str,
    done_now: &[String],
) -> anyhow::Result<Report> {
    let ground = ground(parts, journal, name, done_now)?;
    Ok(match parts.config.experiment {
        Experiment::Table3 => {
            Report::Table3(Box::new(Table3Report::of(table3::gather(parts, journal, ground)?)))
        }
        Experiment::Figure7 => {
            Report::Figure7(Box::new(Figure7Report::of(figure7::gather(parts, journal, ground)?)))
        }
        Experiment::Race => {
            Report::Race(Box::new(RaceReport::of(race::gather(parts, journal, ground)?)))
        }
    })
}

/// The report that was written as `json`.
///
/// # Errors
///
/// Where it is none of the experiment's.
pub(super) fn read(experiment: Experiment, json: &[u8]) -> serde_json::Result<Report> {
    Ok(match experiment {
        Experiment::Table3 => Report::Table3(serde_json::from_slice(json)?),
        Experiment::Figure7 => Report::Figure7(serde_json::from_slice(json)?),
        Experiment::Race => Report::Race(serde_json::from_slice(json)?),
    })
}

/// What every experiment stands on.
fn ground(
    parts: &Parts<'_>,
    journal: &Journal,
    name: &str,
    done_now: &[String],
) -> anyhow::Result<Ground> {
    let config = parts.config;
    let corpus = result(parts, journal, Part::Corpus)?;
    let mut warnings = text_warnings(parts, journal)?;
    warnings.extend(field::<Vec<String>>(corpus, "warnings")?);
    Ok(Ground {
        experiment: name.to_owned(),
        title: config.title.clone(),
        date: utc(SystemTime::now()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: Some(command()),
        machine: this_machine(),
        text: text_of(parts, journal)?,
        curation: Some(Curation {
            documents_in: field(corpus, "documents_in")?,
            dropped: dropped(corpus)?,
            documents_kept: field(corpus, "documents_kept")?,
            tokens: field(corpus, "tokens")?,
            tokenizer: config.data.tokenizer.clone(),
        }),
        settings: serde_json::to_value(config)?,
        parts: parts_of(parts, journal, done_now),
        warnings,
    })
}

/// The result of a part that is done.
fn result<'a>(parts: &Parts<'_>, journal: &'a Journal, part: Part) -> anyhow::Result<&'a Value> {
    let key = parts.key(part);
    journal.result(&key).with_context(|| format!("the part {key} is not done"))
}

/// A value in a result.
fn field<T: DeserializeOwned>(result: &Value, key: &str) -> anyhow::Result<T> {
    T::deserialize(result.get(key).unwrap_or(&Value::Null))
        .with_context(|| format!("the journal's {key:?}"))
}

/// The command line, as a shell reads it.
fn command() -> String {
    let quoted = |arg: std::ffi::OsString| {
        let arg = arg.to_string_lossy().into_owned();
        let is_plain = |c: char| c.is_alphanumeric() || "-_./=,:@+%".contains(c);
        match !arg.is_empty() && arg.chars().all(is_plain) {
            true => arg,
            false => format!("'{}'", arg.replace('\'', "'\\''")),
        }
    };
    let args: Vec<_> = std::env::args_os().skip(1).map(quoted).collect();
    format!("pipeline {}", args.join(" "))
}

fn this_machine() -> Machine {
    Machine {
        processor: processor(),
        cores: machine::cores(),
        vector_kernels: doctor::vector_kernels().to_owned(),
        memory_bytes: machine::memory_bytes(),
    }
}

/// The processor's name, where Linux tells it.
fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("model name"))?;
    Some(line.trim_start_matches([' ', '\t', ':']).trim().to_owned())
}

fn text_of(parts: &Parts<'_>, journal: &Journal) -> anyhow::Result<Text> {
    let corpus = result(parts, journal, Part::Corpus)?;
    Ok(match &parts.inputs.text {
        Some(TextInput::Documents { root, .. }) => {
            let text = result(parts, journal, Part::Text)?;
            let held_out: u64 = field(text, "num_held_out")?;
            Text {
                kind: if root.is_registry { TextKind::Machine } else { TextKind::Own },
                root: root.path.display().to_string(),
                documents: field::<u64>(text, "num_documents")? + held_out,
                bytes: field(text, "bytes")?,
                held_out_documents: held_out,
            }
        }
        Some(TextInput::Corpus { folder }) => Text {
            kind: TextKind::Own,
            root: folder.display().to_string(),
            documents: field(corpus, "documents_in")?,
            bytes: field(corpus, "bytes_in")?,
            held_out_documents: 0,
        },
        None => return Err(anyhow!("there is no text")),
    })
}

/// What a reader should know of the text, where it was read into documents.
fn text_warnings(parts: &Parts<'_>, journal: &Journal) -> anyhow::Result<Vec<String>> {
    let mut warnings = Vec::new();
    let Some(TextInput::Documents { request, .. }) = &parts.inputs.text else {
        return Ok(warnings);
    };
    let text = result(parts, journal, Part::Text)?;
    let unreadable: u64 = field(text, "num_unreadable")?;
    if unreadable > 0 {
        warnings.push(format!("{unreadable} files of the text are no UTF-8 and were left out."));
    }
    if request.lambada && field::<u64>(text, "num_passages")? == 0 {
        warnings.push(
            "LAMBADA is left out: the text has no passage that ends in a word to guess, and \
             --lambada names none."
                .to_owned(),
        );
    }
    Ok(warnings)
}

fn dropped(corpus: &Value) -> anyhow::Result<Vec<Dropped>> {
    let dropped: serde_json::Map<String, Value> = field(corpus, "dropped")?;
    let dropped = dropped.into_iter().map(|(reason, documents)| {
        let documents = documents.as_u64().context("documents dropped")?;
        Ok(Dropped { reason, documents })
    });
    dropped.collect()
}

fn parts_of(parts: &Parts<'_>, journal: &Journal, done_now: &[String]) -> Vec<super::report::Part> {
    let all = parts.all(journal).into_iter().filter(|&part| part != Part::Page);
    all.map(|part| {
        let name = parts.key(part);
        let entry = journal.entry(&name);
        let state = match entry.map(|entry| entry.state) {
            Some(State::Done) if done_now.contains(&name) => PartState::Done,
            Some(State::Done) => PartState::Kept,
            _ => PartState::Missing,
        };
        super::report::Part {
            state,
            seconds: entry.map(|entry| entry.seconds),
            peak_rss_bytes: entry.and_then(|entry| entry.peak_rss_bytes),
            warnings: entry.map(|entry| entry.warnings.clone()).unwrap_or_default(),
            name,
        }
    })
    .collect()
}
