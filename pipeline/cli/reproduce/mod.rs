//! `pipeline reproduce`: an experiment of the paper from raw text to a page of results.

#[allow(dead_code, unused_imports, reason = "the command that makes a report calls it")]
mod report;
