//! `pipeline doctor`: what this machine has for the three stages, with a line of advice each.
//!
//! It only looks: it reads what the system tells, loads no library, starts no work, and what it
//! finds is never a failure.

mod cuda;
mod findings;
mod libraries;

pub(crate) use self::findings::kernels as vector_kernels;

use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::{GlobalArgs, output};

/// Tell what this machine has: cores, vector instructions, memory, disk, CUDA and NCCL.
///
/// One line of advice each: how many ranks have a core of their own, how large a model fits.
/// Nothing found or missing is an error.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {}

/// One thing that was looked at.
struct Finding {
    /// Its key in the JSON form.
    key: &'static str,
    /// Its name in the table.
    title: &'static str,
    /// What was found, for people.
    found: String,
    /// What follows from it.
    advice: String,
    /// What was found, for programs.
    values: Value,
}

pub(crate) fn run(_: &DoctorArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let findings = [
        findings::cores(),
        findings::vector_instructions(),
        findings::memory(),
        findings::disk(),
        cuda::driver(),
        cuda::compiler(),
        cuda::nccl(),
        findings::backend(),
    ];
    if global.json {
        output::json(&findings.iter().map(Finding::to_json).collect::<Map<_, _>>())?;
    } else {
        output::text(&findings.iter().map(Finding::to_text).collect::<String>())?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Finding {
    fn to_json(&self) -> (String, Value) {
        let mut value = self.values.clone();
        value["advice"] = json!(self.advice);
        (self.key.to_owned(), value)
    }

    fn to_text(&self) -> String {
        format!("{:<21}{}\n{:<21}{}\n", self.title, self.found, "", self.advice)
    }
}
