//! Where each value of a configuration comes from, in the user's words.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::DeValue;

use super::layers::{Layers, Place};

/// What a value is called that nobody wrote.
const DEFAULT: &str = "default";

/// The origin of every value that was written: `configs/train/demo.toml:12`, `--set`, `--tp`.
///
/// A value's path is its keys with dots between them, entries of an array counted from 0:
/// `source.0.jsonl.text_key`, as `--set` takes it. An array of plain values is one value.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origins(BTreeMap<String, String>);

impl Origins {
    /// The origins of all values in `table`.
    pub(super) fn of(table: &Spanned<DeValue<'_>>, layers: &Layers<'_>) -> Self {
        let mut origins = Self::default();
        origins.collect(String::new(), table, layers);
        origins
    }

    fn collect(&mut self, path: String, value: &Spanned<DeValue<'_>>, layers: &Layers<'_>) {
        match value.get_ref() {
            DeValue::Table(table) => {
                for (key, value) in table {
                    self.collect(below(&path, key.get_ref()), value, layers);
                }
            }
            DeValue::Array(items) if items.iter().any(|item| item.get_ref().is_table()) => {
                for (index, item) in items.iter().enumerate() {
                    self.collect(below(&path, &index.to_string()), item, layers);
                }
            }
            _ => {
                let origin = match layers.place(value.span().start) {
                    Place::Line { name, line } => format!("{name}:{line}"),
                    Place::Override(written) => written.flag.to_owned(),
                    Place::Defaults => return,
                };
                self.0.insert(path, origin);
            }
        }
    }

    /// Notes that `origin` has given the value at `path`, whatever was written elsewhere.
    pub(crate) fn note(&mut self, path: String, origin: &str) {
        self.0.insert(path, origin.to_owned());
    }

    /// Notes that `origin` has given the value at `path` unless it was written elsewhere.
    pub(crate) fn note_default(&mut self, path: String, origin: &str) {
        self.0.entry(path).or_insert_with(|| origin.to_owned());
    }

    /// The origin of each value of the whole configuration, in its order.
    pub(crate) fn of_values(&self, config: &Value) -> Map<String, Value> {
        let mut sources = Map::new();
        self.add_sources(String::new(), config, &mut sources);
        sources
    }

    fn add_sources(&self, path: String, value: &Value, sources: &mut Map<String, Value>) {
        match value {
            Value::Object(entries) => {
                for (key, value) in entries {
                    self.add_sources(below(&path, key), value, sources);
                }
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                for (index, item) in items.iter().enumerate() {
                    self.add_sources(below(&path, &index.to_string()), item, sources);
                }
            }
            _ => {
                let origin = self.0.get(&path).map_or(DEFAULT, String::as_str);
                sources.insert(path, origin.into());
            }
        }
    }
}

/// The path of `key` in the section at `path`.
fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
