//! Configuration files: TOML, read strictly, with `--set section.key=value` on top.
//!
//! Flags say where and whether, configurations say what. An unknown key or a wrong type is an error that points at its line.

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::exit::Usage;

/// Reads the file at `path` and applies `overrides` (each `section.key=value`).
pub(crate) fn read<T: DeserializeOwned>(path: &Path, overrides: &[String]) -> anyhow::Result<T> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the configuration {}", path.display()))
        .map_err(Usage)?;
    parse(&text, &path.display().to_string(), overrides)
}

/// Reads a configuration from `text`; `origin` names it in messages.
pub(crate) fn parse<T: DeserializeOwned>(
    text: &str,
    origin: &str,
    overrides: &[String],
) -> anyhow::Result<T> {
    if overrides.is_empty() {
        // From the text itself, since only then does an error know its line.
        return toml::from_str(text).map_err(|error| Usage(anyhow!("{origin}: {error}")).into());
    }
    let mut table: Table =
        toml::from_str(text).map_err(|error| Usage(anyhow!("{origin}: {error}")))?;
    for assignment in overrides {
        set(&mut table, assignment).map_err(Usage)?;
    }
    T::deserialize(table).map_err(|error| {
        let overrides = overrides.join(" --set ");
        Usage(anyhow!("{origin} with --set {overrides}: {}", error.message())).into()
    })
}

/// Applies one `section.key=value`; a value that is no TOML is taken as a string.
fn set(table: &mut Table, assignment: &str) -> anyhow::Result<()> {
    let (path, value) = assignment
        .split_once('=')
        .ok_or_else(|| anyhow!("--set {assignment}: write it as section.key=value"))?;
    let (path, value) = (path.trim(), value.trim());
    let mut keys: Vec<&str> = path.split('.').collect();
    let last = keys
        .pop()
        .filter(|key| !key.is_empty())
        .ok_or_else(|| anyhow!("--set {assignment}: there is no key before the equals sign"))?;
    let mut section = table;
    for key in keys {
        section = section
            .entry(key)
            .or_insert_with(|| Value::Table(Table::new()))
            .as_table_mut()
            .ok_or_else(|| anyhow!("--set {assignment}: {key} is a value, not a section"))?;
    }
    section.insert(last.to_owned(), parse_value(value));
    Ok(())
}

fn parse_value(text: &str) -> Value {
    toml::from_str::<Table>(&format!("value = {text}"))
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}
