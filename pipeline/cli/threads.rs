//! How many threads compute.

use std::env;

use anyhow::{Context, anyhow};
use clap::Args;
use corpus::machine;
use tracing::warn;

use crate::exit::Usage;

/// The most that can be asked for.
const MOST: u16 = 1024;

/// Where the number of threads comes from without the flag.
const VARIABLE: &str = "RAYON_NUM_THREADS";

/// The flag of commands that run a model.
#[derive(Debug, Args)]
pub(crate) struct ThreadArgs {
    /// Threads that compute, shared by all ranks [default: RAYON_NUM_THREADS, else all cores].
    ///
    /// Results are the same bits for any number of them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(MOST)))]
    threads: Option<u16>,
}

impl ThreadArgs {
    /// Starts as many as are asked for. Called once in a process, before anything computes.
    pub(crate) fn start(&self) -> anyhow::Result<()> {
        let Some(threads) =
            self.threads.map_or_else(from_environment, |threads| Ok(Some(threads)))?
        else {
            return Ok(());
        };
        let cores = machine::cores();
        if usize::from(threads) > 4 * cores {
            warn!("{threads} threads on {cores} cores: they will mostly wait for each other");
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into());
        pool.build_global().context("cannot start the threads")
    }
}

/// What the variable asks for; nothing where it is not set, empty or 0.
fn from_environment() -> anyhow::Result<Option<u16>> {
    let Some(value) = env::var_os(VARIABLE) else { return Ok(None) };
    match value.to_str().map(str::trim) {
        Some("" | "0") => Ok(None),
        Some(text) if text.parse::<u16>().is_ok_and(|threads| threads <= MOST) => {
            Ok(text.parse().ok())
        }
        _ => Err(anyhow!(Usage(anyhow!(
            "{VARIABLE} = {value:?}: a whole number from 1 to {MOST} is needed"
        )))),
    }
}
