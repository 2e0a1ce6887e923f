//! What a part's result depends on, kept as it is told, so that a change can be named.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_128;

/// All that a part's result depends on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Depends {
    /// Version of the program.
    pub(super) version: String,
    /// Its settings, under the paths that they have in the configuration.
    pub(super) settings: Value,
    /// What is read from elsewhere, by the flag that names it.
    pub(super) inputs: BTreeMap<String, Input>,
    /// What the parts before it hand on, by their keys.
    pub(super) needs: BTreeMap<String, String>,
}

/// Something that is read from elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// What it is called: its path, or what stands in for it. Counts for nothing.
    pub(super) name: String,
    /// What counts of it: a hash, or whether it is there.
    pub(super) content: String,
}

impl Depends {
    /// One value for all that counts.
    pub(super) fn fingerprint(&self, part: &str) -> String {
        let inputs: Map<String, Value> = self
            .inputs
            .iter()
            .map(|(name, input)| (name.clone(), input.content.clone().into()))
            .collect();
        hash(&json!({
            "part": part,
            "version": self.version,
            "settings": self.settings,
            "inputs": inputs,
            "needs": self.needs,
        }))
    }

    /// How `now` differs from this in what is the part's own, in the user's words; nothing of what
    /// the parts before it hand on.
    pub(super) fn own_differences(&self, now: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        if self.version != now.version {
            let (was, is) = (&self.version, &now.version);
            differences.push(format!("the program: was {was}, now {is}"));
        }
        for (name, is) in &now.inputs {
            match self.inputs.get(name) {
                Some(was) if was.content == is.content => {}
                Some(was) if was.name == is.name => {
                    differences.push(format!("{name}: {} has changed", is.name));
                }
                Some(was) => {
                    differences.push(format!("{name}: was {}, now {}", was.name, is.name));
                }
                None => differences.push(format!("{name}: now {}", is.name)),
            }
        }
        let gone = self.inputs.iter().filter(|(name, _)| !now.inputs.contains_key(*name));
        differences.extend(gone.map(|(name, was)| format!("{name}: was {}", was.name)));
        compare("", &self.settings, &now.settings, &mut differences);
        differences
    }

    /// Whether what is the part's own is the same in `now`.
    pub(super) fn is_same_alone(&self, now: &Self) -> bool {
        self.own_differences(now).is_empty()
    }
}

/// The hash of a value's JSON, in hexadecimal.
pub(super) fn hash(value: &Value) -> String {
    format!("{:032x}", xxh3_128(value.to_string().as_bytes()))
}

/// Adds a line for each key whose value differs, by its path.
fn compare(path: &str, was: &Value, is: &Value, differences: &mut Vec<String>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (was, is) {
        _ if was == is => {}
        (Value::Object(was), Value::Object(is)) => {
            for (key, value) in was {
                compare(&below(key), value, is.get(key).unwrap_or(&Value::Null), differences);
            }
            for (key, value) in is.iter().filter(|(key, _)| !was.contains_key(*key)) {
                compare(&below(key), &Value::Null, value, differences);
            }
        }
        (Value::Array(was), Value::Array(is))
            if was.len() == is.len() && was.iter().any(Value::is_object) =>
        {
            for (index, (was, is)) in was.iter().zip(is).enumerate() {
                compare(&below(&index.to_string()), was, is, differences);
            }
        }
        _ => differences.push(format!("{path}: was {}, now {}", shown(was), shown(is))),
    }
}

/// A value as the user writes it.
fn shown(value: &Value) -> String {
    if value.is_null() { "not given".to_owned() } else { value.to_string() }
}
