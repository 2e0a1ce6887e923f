//! Tables that are plain rows and columns.

use super::super::ground::{Part, PartState};
use super::super::numerals::{bytes, duration, or_dash};

/// A table of text. The first column is a name.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A column of a table.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Whether its cells stand flush right.
    pub(crate) is_number: bool,
}

impl Table {
    /// A table whose columns all hold numbers.
    pub(crate) fn of_numbers(
        columns: impl IntoIterator<Item = String>,
        rows: Vec<Vec<String>>,
    ) -> Self {
        let columns = columns.into_iter().map(|name| Column { name, is_number: true }).collect();
        Self { columns, rows }
    }

    /// A table whose first column holds names, and all others numbers.
    pub(crate) fn named(columns: impl IntoIterator<Item = String>, rows: Vec<Vec<String>>) -> Self {
        let mut table = Self::of_numbers(columns, rows);
        if let Some(first) = table.columns.first_mut() {
            first.is_number = false;
        }
        table
    }

    /// The cells of `row` with their columns.
    pub(crate) fn cells<'t>(
        &'t self,
        row: &'t [String],
    ) -> impl Iterator<Item = (&'t Column, &'t str)> {
        self.columns.iter().zip(row.iter().map(String::as_str))
    }
}

/// The parts of the work.
pub(super) fn parts(parts: &[Part]) -> Table {
    let rows = parts.iter().map(|part| {
        let state = match part.state {
            PartState::Done => "done",
            PartState::Kept => "done by an earlier call",
            PartState::Missing => "not done",
        };
        vec![
            part.name.clone(),
            state.to_owned(),
            or_dash(part.seconds, duration),
            or_dash(part.peak_rss_bytes, bytes),
        ]
    });
    let columns = [
        ("part", false),
        ("state", false),
        ("wall time", true),
        ("peak memory of the process", true),
    ];
    let column = |(name, is_number): (&str, bool)| Column { name: name.to_owned(), is_number };
    Table { columns: columns.map(column).to_vec(), rows: rows.collect() }
}

/// What the parts warned of; the same words of several are told once. `None` where none did.
pub(super) fn warnings(parts: &[Part]) -> Option<Table> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for part in parts {
        for warning in &part.warnings {
            match rows.iter_mut().find(|row| row[1] == *warning) {
                Some(row) => row[0].push_str(&format!(", {}", part.name)),
                None => rows.push(vec![part.name.clone(), warning.clone()]),
            }
        }
    }
    let columns = ["part", "warning"];
    (!rows.is_empty()).then(|| Table {
        columns: columns.map(|name| Column { name: name.to_owned(), is_number: false }).to_vec(),
        rows,
    })
}
