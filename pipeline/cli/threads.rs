//! How many threads compute.

use anyhow::Context;
use clap::Args;

/// The flag of commands that run a model.
#[derive(Debug, Args)]
pub(crate) struct ThreadArgs {
    /// Threads that compute, shared by all ranks [default: all cores].
    ///
    /// Results are the same bits for any number of them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

impl ThreadArgs {
    /// Starts as many as are asked for. Called once in a process, before anything computes.
    pub(crate) fn start(&self) -> anyhow::Result<()> {
        let Some(threads) = self.threads else { return Ok(()) };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into());
        pool.build_global().context("cannot start the threads")
    }
}
