//! What a run folder remembers of the data, so that a run goes on with the same samples only.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The data of a run: what its samples depend on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataRecord {
    /// What was given, in its order.
    pub inputs: Vec<InputRecord>,
    /// Epochs over which the documents of each source are shuffled, in the order `"megatron"`.
    pub epochs: Vec<u64>,
}

/// A data folder or a shard of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InputRecord {
    /// Where it was. It may move: what is in it counts.
    pub path: PathBuf,
    /// Its weight, as given.
    pub weight: Option<f64>,
    /// Checksums of its tokens and documents; `None` where its weight is 0, so that it is not read.
    pub fingerprint: Option<String>,
    /// The weights of the sources in it, where they have some.
    pub sources: Vec<SourceRecord>,
}

/// A weighted source in a data folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// Its name.
    pub source: String,
    /// Its weight.
    pub weight: f64,
}

impl DataRecord {
    /// The first thing by which the samples of `now` differ from those of this record, in the
    /// user's words; `None` where they are the same.
    #[must_use]
    pub fn difference(&self, now: &Self) -> Option<String> {
        if self.inputs.len() != now.inputs.len() {
            let list = |record: &Self| {
                let paths = record.inputs.iter().map(|input| input.path.display().to_string());
                paths.collect::<Vec<_>>().join(", ")
            };
            return Some(format!("--data was {} and is {}", list(self), list(now)));
        }
        let pairs = self.inputs.iter().zip(&now.inputs);
        if let Some(difference) =
            pairs.into_iter().find_map(|(earlier, now)| earlier.difference(now))
        {
            return Some(difference);
        }
        // Where one of them has none, another setting has changed, and says so itself.
        let both_shuffle = !self.epochs.is_empty() && !now.epochs.is_empty();
        (both_shuffle && self.epochs != now.epochs).then(|| {
            format!(
                "data.order = \"megatron\" had shuffled over {:?} epochs of the sources and would now \
                 over {:?}, for another number of samples; keep schedule.train_steps",
                self.epochs, now.epochs
            )
        })
    }
}

impl InputRecord {
    fn difference(&self, now: &Self) -> Option<String> {
        let path = now.path.display();
        let shown = |weight: Option<f64>| weight.map_or("none".to_owned(), |it| it.to_string());
        if let (Some(earlier), Some(found)) = (&self.fingerprint, &now.fingerprint)
            && earlier != found
        {
            return Some(if self.path == now.path {
                format!("the data folder's content differs: {path}")
            } else {
                format!("--data was {}, and is {path}, of other content", self.path.display())
            });
        }
        if self.weight != now.weight {
            let (earlier, found) = (shown(self.weight), shown(now.weight));
            return Some(format!("the weight of --data {path} was {earlier} and is {found}"));
        }
        if self.sources != now.sources {
            let list = |record: &Self| {
                let weights = record.sources.iter();
                let weights = weights.map(|source| format!("{} {}", source.source, source.weight));
                weights.collect::<Vec<_>>().join(", ")
            };
            return Some(format!(
                "the weights of the sources in {path} were {} and are {}",
                list(self),
                list(now)
            ));
        }
        None
    }
}
