//! What a reproduction is told as: a table for the terminal, JSON, CSV, and one page.
//!
//! Every experiment has a folder here: what was found (plain data), and what follows from it by
//! rule, so that no judgment is written by hand. Its JSON form is the contract; the table, the CSV
//! and the page show no number that is not in it. What all of them stand on is a [`Ground`].
//!
//! The modules below know nothing of the rest of the program. Tests include them as they are, since
//! the program itself is no library.

pub(crate) mod chart;
mod csv;
mod curve;
mod curves;
mod date;
mod figure;
pub(crate) mod figure7;
mod funnel;
mod ground;
mod model;
pub(crate) mod numerals;
mod page;
pub(crate) mod race;
pub(crate) mod table3;
mod words;

use serde::Serialize;

pub(crate) use curve::{CurvePoint, thinned};
pub(crate) use date::utc;
pub(crate) use ground::{Curation, Dropped, Ground, Machine, Part, PartState, Text, TextKind};
pub(crate) use model::{ModelShape, Training};

use self::figure7::Figure7Report;
use self::race::RaceReport;
use self::table3::Table3Report;

/// The report of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Report {
    /// GPT-2 by size.
    Table3(Box<Table3Report>),
    /// BERT by arrangement and depth.
    Figure7(Box<Figure7Report>),
    /// BERT fine-tuned on RACE.
    Race(Box<RaceReport>),
}

impl Report {
    /// The report as text, laid out by `layout`.
    pub(crate) fn table(&self, layout: Layout) -> String {
        match self {
            Self::Table3(report) => report.table(layout),
            Self::Figure7(report) => report.table(layout),
            Self::Race(report) => report.table(layout),
        }
    }

    /// The report as CSV, its header first.
    pub(crate) fn csv(&self) -> String {
        match self {
            Self::Table3(report) => report.csv(),
            Self::Figure7(report) => report.csv(),
            Self::Race(report) => report.csv(),
        }
    }

    /// The report as an HTML page.
    pub(crate) fn page(&self) -> String {
        match self {
            Self::Table3(report) => report.page(),
            Self::Figure7(report) => report.page(),
            Self::Race(report) => report.page(),
        }
    }
}

/// How rows become columns of text: the program's one way to do so.
pub(crate) type Layout = fn(&[Vec<String>]) -> String;
