//! A configuration's text and the command line over it, as one table whose spans tell the two
//! apart.
//!
//! The texts are thought of as standing one behind the other. A span below the length of the first
//! is a place in it, and one above lies in the override at whose offset it begins: the parser's own
//! bookkeeping then serves messages and origins alike.

use std::borrow::Cow;
use std::ops::Range;

use anyhow::anyhow;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::Override;
use crate::exit::Usage;

/// The texts of one configuration.
pub(super) struct Layers<'a> {
    text: &'a str,
    name: Option<&'a str>,
    overrides: Vec<Placed<'a>>,
}

/// An override and the offset at which its assignment begins.
struct Placed<'a> {
    written: &'a Override,
    start: usize,
}

/// What a place in the texts belongs to.
pub(super) enum Place<'a> {
    /// A line of the configuration, counted from 1.
    Line { name: &'a str, line: usize },
    /// Defaults, which nobody has written.
    Defaults,
    /// An override.
    Override(&'a Override),
}

impl<'a> Layers<'a> {
    /// `overrides` over `text`, which messages call `name`; without a name it holds defaults.
    pub(super) fn new(text: &'a str, name: Option<&'a str>, overrides: &'a [Override]) -> Self {
        let mut start = text.len() + 1; // the end of the text is a place in it
        let overrides = overrides.iter().map(|written| {
            let placed = Placed { written, start };
            start += written.assignment.len() + 1;
            placed
        });
        Self { overrides: overrides.collect(), text, name }
    }

    /// What the text at `offset` belongs to.
    pub(super) fn place(&self, offset: usize) -> Place<'a> {
        if let Some(placed) = self.overrides.iter().rfind(|placed| placed.start <= offset) {
            return Place::Override(placed.written);
        }
        let Some(name) = self.name else { return Place::Defaults };
        let newlines = self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count();
        Place::Line { name, line: newlines + 1 }
    }

    /// Everything as one table.
    pub(super) fn table(&self) -> anyhow::Result<Spanned<DeValue<'a>>> {
        let table = DeTable::parse(self.text).map_err(|error| self.fault(&error))?;
        let span = table.span();
        let mut root = DeValue::Table(table.into_inner());
        for Placed { written, start } in &self.overrides {
            apply(&mut root, &written.assignment, *start)
                .map_err(|problem| Usage(anyhow!("{}: {problem}", written.written)))?;
        }
        Ok(Spanned::new(span, root))
    }

    /// Reads the table as a configuration; an error names its line or its override.
    pub(super) fn deserialize<T: DeserializeOwned>(
        &self,
        table: Spanned<DeValue<'a>>,
    ) -> anyhow::Result<T> {
        T::deserialize(ValueDeserializer::from(table)).map_err(|error| {
            let place = self.place(error.span().map_or(0, |span| span.start));
            if let Place::Override(Override { written, .. }) = place {
                return Usage(anyhow!("{written}: {}", in_plain_words(error.message()))).into();
            }
            self.fault(&error).into()
        })
    }

    /// A fault of the text itself, in one line.
    fn fault(&self, error: &toml::de::Error) -> Usage {
        let name = self.name.unwrap_or("the defaults");
        let fault = in_plain_words(error.message());
        match error.span() {
            Some(span) => {
                let before = self.text.bytes().take(span.start);
                let line = 1 + before.filter(|&byte| byte == b'\n').count();
                Usage(anyhow!("{name}:{line}: {fault}"))
            }
            None => Usage(anyhow!("{name}: {fault}")),
        }
    }
}

/// What stands in messages of the parser, and what a user should read there.
const PLAIN_WORDS: [(&str, &str); 11] = [
    ("invalid type: map", "invalid type: section"),
    ("expected a nonzero usize", "expected a whole number of at least 1"),
    ("expected a nonzero u64", "expected a whole number of at least 1"),
    ("expected usize", "expected a whole number"),
    ("expected u64", "expected a whole number"),
    ("expected f64", "expected a number"),
    ("missing field", "missing key"),
    ("unknown field", "unknown key"),
    ("unknown variant", "unknown choice"),
    ("wanted exactly 1 element, more than 1 element", "several choices where one is wanted"),
    ("wanted exactly 1 element, found 0 elements", "no choice where one is wanted"),
];

/// A message of the parser in one line, without the names of Rust's types.
fn in_plain_words(message: &str) -> String {
    let message = message.trim_end().replace('\n', "; ");
    let fault = PLAIN_WORDS.iter().fold(message, |fault, (from, to)| fault.replace(from, to));
    match fault.split_once("expected struct ") {
        Some((start, _)) => format!("{start}expected a section"),
        None => fault,
    }
}

/// Applies one `section.key=value` whose text begins at `start`; a value that is no TOML is taken
/// as a string.
fn apply<'a>(root: &mut DeValue<'a>, assignment: &'a str, start: usize) -> Result<(), String> {
    let wanted = "write it as section.key=value";
    let (path, text) = assignment.split_once('=').ok_or(wanted)?;
    let path: Vec<&str> = path.trim().split('.').map(str::trim).collect();
    if path.contains(&"") {
        return Err(format!("{wanted}, with no empty key"));
    }
    let span = start..start + assignment.len();
    let value = DeValue::parse(text.trim())
        .map_or_else(|_| DeValue::String(Cow::Borrowed(text.trim())), Spanned::into_inner);
    put(root, &path, 0, moved_to(&span, value))
}

/// Puts `value` at `path`, of which `depth` keys led to `into`; a section that is not there is
/// made.
fn put<'a>(
    into: &mut DeValue<'a>,
    path: &[&'a str],
    depth: usize,
    value: Spanned<DeValue<'a>>,
) -> Result<(), String> {
    let key = path[depth];
    let slot = match into {
        DeValue::Table(table) => {
            let empty = Spanned::new(value.span(), DeValue::Table(DeTable::new()));
            table.entry(Spanned::new(value.span(), Cow::Borrowed(key))).or_insert(empty)
        }
        DeValue::Array(items) => {
            let count = items.len();
            key.parse::<usize>().ok().and_then(|index| items.get_mut(index)).ok_or_else(|| {
                format!("{} has {count} entries, counted from 0", path[..depth].join("."))
            })?
        }
        _ => return Err(format!("{} is a value, not a section", path[..depth].join("."))),
    };
    if depth + 1 == path.len() {
        // With the span, by which an error and an origin will name the override.
        *slot = value;
        return Ok(());
    }
    put(slot.get_mut(), path, depth + 1, value)
}

/// `value` with all its parts at `span`.
fn moved_to<'a>(span: &Range<usize>, value: DeValue<'a>) -> Spanned<DeValue<'a>> {
    let moved = |part: Spanned<DeValue<'a>>| moved_to(span, part.into_inner());
    let value = match value {
        DeValue::Array(items) => DeValue::Array(items.into_iter().map(moved).collect()),
        DeValue::Table(table) => DeValue::Table(
            table
                .into_iter()
                .map(|(key, part)| (Spanned::new(span.clone(), key.into_inner()), moved(part)))
                .collect(),
        ),
        scalar => scalar,
    };
    Spanned::new(span.clone(), value)
}
