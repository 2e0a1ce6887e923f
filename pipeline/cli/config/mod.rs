//! Configuration files: TOML, read strictly, with flags and `--set section.key=value` on top.
//!
//! Flags say where and whether, configurations say what. File and command line are read as one
//! table in which every value remembers where its text stands, so that an error points at the line
//! of the file or at the flag that it comes from, and a dry run can say the same of each value
//! ([`Origins`]).

mod layers;
mod origins;

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::layers::Layers;
pub(crate) use self::origins::Origins;
use crate::exit::Usage;

/// A configuration with the origin of its values.
#[derive(Debug)]
pub(crate) struct Resolved<T> {
    /// The configuration, defaults filled in.
    pub(crate) config: T,
    /// Where each value of it comes from.
    pub(crate) origins: Origins,
}

/// A value that the command line puts in the place of the configuration's.
#[derive(Debug, Clone)]
pub(crate) struct Override {
    /// The flag: `--set`, `--tp`.
    flag: &'static str,
    /// The flag with its value as the user wrote them.
    written: String,
    /// `section.key=value`, the value as TOML.
    assignment: String,
}

impl Override {
    /// `--set ASSIGNMENT`.
    pub(crate) fn set(assignment: &str) -> Self {
        Self::set_within("", assignment)
    }

    /// `--set PREFIXassignment`, where a prefix chooses among several configurations.
    pub(crate) fn set_within(prefix: &str, assignment: &str) -> Self {
        Self {
            flag: "--set",
            written: format!("--set {prefix}{assignment}"),
            assignment: assignment.to_owned(),
        }
    }

    /// The value of a flag of its own that stands for `key`; none where the flag is not given.
    pub(crate) fn flag<T: Serialize>(
        flag: &'static str,
        key: &str,
        value: Option<T>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(value) = value else { return Ok(None) };
        // A number, a word or a text reads the same in JSON and in TOML.
        let value = serde_json::to_string(&value).with_context(|| format!("cannot use {flag}"))?;
        Ok(Some(Self {
            flag,
            written: format!("{flag} {}", value.trim_matches('"')),
            assignment: format!("{key}={value}"),
        }))
    }
}

/// Reads the file at `path`, with `overrides` on top in their order.
pub(crate) fn read<T: DeserializeOwned>(
    path: &Path,
    overrides: &[Override],
) -> anyhow::Result<Resolved<T>> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the configuration {}", path.display()))
        .map_err(Usage)?;
    parse(&text, &path.display().to_string(), overrides)
}

/// Reads a configuration from `text`, with `overrides` on top in their order; `name` is what
/// messages call it.
pub(crate) fn parse<T: DeserializeOwned>(
    text: &str,
    name: &str,
    overrides: &[Override],
) -> anyhow::Result<Resolved<T>> {
    resolve(&Layers::new(text, Some(name), overrides))
}

/// Puts `overrides` on top of `defaults`, a configuration that nobody has written.
pub(crate) fn over_defaults<T: DeserializeOwned + Serialize>(
    defaults: &T,
    overrides: &[Override],
) -> anyhow::Result<Resolved<T>> {
    let text = toml::to_string(defaults).context("cannot write down the defaults")?;
    resolve(&Layers::new(&text, None, overrides))
}

fn resolve<T: DeserializeOwned>(layers: &Layers<'_>) -> anyhow::Result<Resolved<T>> {
    let table = layers.table()?;
    let origins = Origins::of(&table, layers);
    let config = layers.deserialize(table)?;
    Ok(Resolved { config, origins })
}
