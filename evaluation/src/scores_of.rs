//! Which evaluation scores belong to: everything that they depend on, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::EvalError;

/// What the scores of an evaluation depend on. What changes them by no more than rounding, such as
/// batches and ranks, is not part of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScoresOf {
    /// The hash of the weights.
    pub(crate) model: String,
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
        self.tasks.iter().zip(&theirs.tasks).find_map(|(ours, theirs)| {
            let name =
                ours.keys().chain(theirs.keys()).find(|&key| ours.get(key) != theirs.get(key));
            name.map(|name| {
                let (there, here) = (text(theirs.get(name)), text(ours.get(name)));
                format!("{name} is {there} there and {here} here")
            })
        })
    }

    /// Eight hexadecimal digits by which it is told from most others.
    pub(crate) fn short_hash(&self) -> String {
        let told = (&self.model, &self.tokenizer, &self.tasks);
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

fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "nothing".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
