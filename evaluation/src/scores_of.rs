//! Which evaluation scores belong to: everything that they depend on, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use training::architecture::Architecture;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::EvalError;

/// What the scores of an evaluation depend on. What changes them by no more than rounding, such as
/// batches and ranks, is not part of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScoresOf {
    /// The hash of the weights.
    pub(crate) model: String,
    /// The model's sizes, its activation and the like: equal weights make other numbers by others.
    pub(crate) config: Map<String, Value>,
    /// Where they were found, for the reader: weights that were moved are the same.
    pub(crate) checkpoint: PathBuf,
    /// The hash of the tokenizer.
    pub(crate) tokenizer: String,
    /// What each task's scores depend on, by name; `task` is its own.
    pub(crate) tasks: Vec<Map<String, Value>>,
}

impl ScoresOf {
    /// What makes `theirs` another evaluation, in the user's words; none where nothing does.
    pub(crate) fn difference(&self, theirs: &Self) -> Option<String> {
        if self.model != theirs.model {
            let (theirs, ours) = (theirs.checkpoint.display(), self.checkpoint.display());
            return Some(format!(
                "the checkpoint is {theirs} there and {ours} here, another model"
            ));
        }
        if let Some(difference) = difference_of(&self.config, &theirs.config) {
            return Some(format!("the model's {difference}"));
        }
        if self.tokenizer != theirs.tokenizer {
            return Some("the tokenizer is another one there".to_owned());
        }
        let names = |scores_of: &Self| -> Vec<String> {
            scores_of.tasks.iter().map(|task| text(task.get("task"))).collect()
        };
        let (there, here) = (names(theirs).join(", "), names(self).join(", "));
        if there != here {
            return Some(format!("the task is {there} there and {here} here"));
        }
        let mut tasks = self.tasks.iter().zip(&theirs.tasks);
        tasks.find_map(|(ours, theirs)| difference_of(ours, theirs))
    }

    /// Eight hexadecimal digits by which it is told from most others.
    pub(crate) fn short_hash(&self) -> String {
        let told = (&self.model, &self.config, &self.tokenizer, &self.tasks);
        let told = serde_json::to_vec(&told).expect("names and numbers");
        format!("{:032x}", xxh3_128(&told))[..8].to_owned()
    }
}

/// The xxh3-128 hash of a test file, in hexadecimal.
pub(crate) fn file_hash(path: &Path) -> Result<String, EvalError> {
    let bytes =
        fs::read(path).map_err(|source| EvalError::Read { path: path.to_owned(), source })?;
    Ok(format!("{:032x}", xxh3_128(&bytes)))
}

/// The first field that differs, with both values.
fn difference_of(ours: &Map<String, Value>, theirs: &Map<String, Value>) -> Option<String> {
    let mut names = ours.keys().chain(theirs.keys());
    let name = names.find(|&name| ours.get(name) != theirs.get(name))?;
    let (there, here) = (text(theirs.get(name)), text(ours.get(name)));
    Some(format!("{name} is {there} there and {here} here"))
}

/// The sizes of a model, by name.
pub(crate) fn fields_of(architecture: &Architecture) -> Map<String, Value> {
    // The one field of an enum's value is the variant's.
    let fields = match serde_json::to_value(architecture) {
        Ok(Value::Object(variant)) => variant.into_iter().next().map(|(_, fields)| fields),
        _ => None,
    };
    match fields {
        Some(Value::Object(fields)) => fields,
        _ => unreachable!("an architecture is a table of sizes by its name"),
    }
}

fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "nothing".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
