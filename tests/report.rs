//! What `pipeline reproduce` tells: verdicts, charts, page, table and CSV.
//!
//! The report's modules are included as they are, since they belong to the program, which is no
//! library, and know nothing of the rest of it. The numbers of these tests are made up.

#[allow(
    dead_code,
    unused_imports,
    reason = "the program calls more of it than the tests do, and other parts"
)]
#[path = "../pipeline/cli/reproduce/report/mod.rs"]
mod told;

mod charts;
mod csv;
mod figure7;
mod markup;
mod numbers;
mod page;
mod race;
mod sample;
mod verdicts;
