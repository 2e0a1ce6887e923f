//! What a run is: two runs of one identity make the same data folder, byte for byte.
//!
//! Input files go by size and time of change, as build tools take them: reading hundreds of
//! gigabytes to see whether they are still the same would take as long as curating them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use corpus::TokenizerIdentity;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::CurationError;

/// Version of the form of stage files.
const STAGES_VERSION: u32 = 1;

/// Changes that are told one by one.
const CHANGES_SHOWN: usize = 8;

/// What decides the content of a data folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunIdentity {
    /// Version of the program's stage files.
    pub(crate) stages_version: u32,
    /// The resolved configuration.
    pub(crate) config: Value,
    /// The tokenizer that the configuration names.
    pub(crate) tokenizer: TokenizerIdentity,
    /// Every input file, by path: its size, and when it was changed last.
    pub(crate) inputs: BTreeMap<String, FileState>,
    /// Every test set, by path: its size and checksum.
    pub(crate) test_sets: BTreeMap<String, FileState>,
}

/// A file as it was when a run began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileState {
    /// Its size.
    pub(crate) bytes: u64,
    /// What changes with its content: nanoseconds since 1970, or a checksum.
    pub(crate) stamp: String,
}

impl RunIdentity {
    pub(crate) fn new(
        config: Value,
        tokenizer: TokenizerIdentity,
        inputs: BTreeMap<String, FileState>,
        test_sets: BTreeMap<String, FileState>,
    ) -> Self {
        Self { stages_version: STAGES_VERSION, config, tokenizer, inputs, test_sets }
    }

    /// The identity in a file; `None` where the file is not there or is no JSON, as when its writer
    /// was killed: then no part was made either.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, CurationError> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(CurationError::io("read", path)(error)),
        };
        let Ok(value) = serde_json::from_slice::<Value>(&text) else { return Ok(None) };
        Ok(Some(Self::deserialize(&value).unwrap_or_else(|_| Self::of_another_version())))
    }

    /// Stands for what another version of this program wrote, of which nothing can be said.
    fn of_another_version() -> Self {
        let tokenizer = TokenizerIdentity {
            name: String::new(),
            vocab_size: 0,
            eod: 0,
            fingerprint: String::new(),
        };
        Self {
            stages_version: 0,
            config: Value::Null,
            tokenizer,
            inputs: BTreeMap::new(),
            test_sets: BTreeMap::new(),
        }
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), CurationError> {
        let text = serde_json::to_vec_pretty(self)
            .map_err(|source| CurationError::Journal { path: path.to_owned(), source })?;
        fs::write(path, text).map_err(CurationError::io("write", path))
    }

    /// What is no longer as it was, one line each.
    pub(crate) fn changes_since(&self, earlier: &Self) -> String {
        if self.stages_version != earlier.stages_version {
            return "\n  the program: another version of it was at work".to_owned();
        }
        let mut changes = Vec::new();
        compare(&mut changes, "", Some(&earlier.config), Some(&self.config));
        let tokenizer = |it: &Self| serde_json::to_value(&it.tokenizer).unwrap_or_default();
        compare(&mut changes, "tokenizer", Some(&tokenizer(earlier)), Some(&tokenizer(self)));
        compare_files(&mut changes, "input", &earlier.inputs, &self.inputs);
        compare_files(&mut changes, "test set", &earlier.test_sets, &self.test_sets);

        let mut text = String::new();
        for change in changes.iter().take(CHANGES_SHOWN) {
            let _ = write!(text, "\n  {change}");
        }
        if let Some(more @ 1..) = changes.len().checked_sub(CHANGES_SHOWN) {
            let _ = write!(text, "\n  and {more} more");
        }
        text
    }
}

/// Notes the values that differ, with their dotted keys.
fn compare(changes: &mut Vec<String>, key: &str, before: Option<&Value>, now: Option<&Value>) {
    let below = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    match (before, now) {
        (before, now) if before == now => {}
        (Some(Value::Object(before)), Some(Value::Object(now))) => {
            let added = now.keys().filter(|name| !before.contains_key(*name));
            for name in before.keys().chain(added) {
                compare(changes, &below(name), before.get(name), now.get(name));
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(now))) => {
            for place in 0..before.len().max(now.len()) {
                compare(changes, &below(&place.to_string()), before.get(place), now.get(place));
            }
        }
        (before, now) => {
            let shown = |value: Option<&Value>| {
                value.map_or_else(|| "nothing".to_owned(), Value::to_string)
            };
            changes.push(format!("{key}: {} before, {} now", shown(before), shown(now)));
        }
    }
}

fn compare_files(
    changes: &mut Vec<String>,
    what: &str,
    before: &BTreeMap<String, FileState>,
    now: &BTreeMap<String, FileState>,
) {
    for (path, then) in before {
        match now.get(path) {
            None => changes.push(format!("{what} {path}: no longer one")),
            Some(it) if it.bytes != then.bytes => changes
                .push(format!("{what} {path}: {} bytes before, {} now", then.bytes, it.bytes)),
            Some(it) if it != then => changes.push(format!("{what} {path}: changed since")),
            Some(_) => {}
        }
    }
    for path in now.keys().filter(|path| !before.contains_key(*path)) {
        changes.push(format!("{what} {path}: none before"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn identity(config: Value, inputs: &[(&str, u64, &str)]) -> RunIdentity {
        let tokenizer = TokenizerIdentity {
            name: "gpt2".to_owned(),
            vocab_size: 50_257,
            eod: 50_256,
            fingerprint: "f".to_owned(),
        };
        let files = inputs.iter().map(|&(path, bytes, stamp)| {
            (path.to_owned(), FileState { bytes, stamp: stamp.to_owned() })
        });
        RunIdentity::new(config, tokenizer, files.collect(), BTreeMap::new())
    }

    #[test]
    fn every_change_is_named_with_both_values() {
        let earlier = identity(
            json!({"near_duplicates": {"threshold": 0.7}, "source": [{"name": "a"}]}),
            &[("a.jsonl", 10, "1"), ("b.jsonl", 10, "1"), ("c.jsonl", 10, "1")],
        );
        let now = identity(
            json!({"near_duplicates": {"threshold": 0.8, "exact": true}, "source": []}),
            &[("a.jsonl", 12, "2"), ("b.jsonl", 10, "2"), ("d.jsonl", 1, "1")],
        );
        let changes = now.changes_since(&earlier);
        assert_eq!(
            changes.lines().skip(1).map(str::trim).collect::<Vec<_>>(),
            [
                "near_duplicates.threshold: 0.7 before, 0.8 now",
                "near_duplicates.exact: nothing before, true now",
                "source.0: {\"name\":\"a\"} before, nothing now",
                "input a.jsonl: 10 bytes before, 12 now",
                "input b.jsonl: changed since",
                "input c.jsonl: no longer one",
                "input d.jsonl: none before",
            ]
        );
        assert_eq!(earlier.changes_since(&earlier), "");
    }

    #[test]
    fn of_many_changes_the_first_are_named() {
        let many = |stamp: &str| {
            let names: Vec<String> = (10..30).map(|n| format!("{n}.jsonl")).collect();
            let files: Vec<_> = names.iter().map(|name| (name.as_str(), 1, stamp)).collect();
            identity(json!({}), &files)
        };
        let text = many("2").changes_since(&many("1"));
        assert!(text.ends_with("17.jsonl: changed since\n  and 12 more"), "{text}");
    }

    #[test]
    fn a_file_that_does_not_read_is_no_identity() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("origin.json");
        assert!(RunIdentity::read(&path).unwrap().is_none());
        let whole = identity(json!({"a": 1}), &[]);
        whole.write(&path).unwrap();
        assert_eq!(RunIdentity::read(&path).unwrap(), Some(whole));
        fs::write(&path, "{\"stages_ver").unwrap();
        assert!(RunIdentity::read(&path).unwrap().is_none());
    }
}
