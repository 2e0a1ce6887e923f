//! What stands behind `--data`: a place, and its weight in the blend.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use corpus::ForeignShard;

/// A data folder or a shard, and its weight where one was given.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightedPath {
    /// The data folder; or the shard, by its path without `.bin` or `.idx` or by either file.
    pub path: PathBuf,
    /// Its share of the samples, relative to the weights of the others.
    pub weight: Option<f64>,
}

impl WeightedPath {
    /// `path` without a weight.
    #[must_use]
    pub fn unweighted(path: PathBuf) -> Self {
        Self { path, weight: None }
    }

    /// Reads `PATH` or `PATH:WEIGHT`.
    ///
    /// A path that is there as it is written wins, colons and all. Else what follows the last colon
    /// is a weight if it reads as a number, whatever number that is: whether it is one that a
    /// weight can be is for whoever uses it to say. A path that is no UTF-8 has no weight.
    #[must_use]
    pub fn parse(written: &OsStr) -> Self {
        let path = Path::new(written);
        let whole = || Self::unweighted(path.to_owned());
        if path.exists() || ForeignShard::is_at(path) {
            return whole();
        }
        let Some((path, number)) = written.to_str().and_then(|text| text.rsplit_once(':')) else {
            return whole();
        };
        match number.parse() {
            Ok(weight) if !path.is_empty() => Self { path: path.into(), weight: Some(weight) },
            _ => whole(),
        }
    }
}

impl fmt::Display for WeightedPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.weight {
            Some(weight) => write!(formatter, "{}:{weight}", self.path.display()),
            None => write!(formatter, "{}", self.path.display()),
        }
    }
}
