//! How documents are divided into training, validation and test: the original implementation's
//! rule, bit for bit.
//!
//! Documents, not tokens, are divided, in the order of the data folder. The rounding is Python's
//! (half to even), so that a split made here is the split that any other Megatron-style trainer
//! makes of the same folder.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::TrainError;

/// Weights of training, validation and test, as they were written: `"969,30,1"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SplitWeights {
    written: String,
    shares: [f64; 3],
}

/// The documents of each part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitDocuments {
    /// Documents to train on.
    pub train: Range<u64>,
    /// Documents of the validation loss.
    pub validation: Range<u64>,
    /// Documents that training never reads.
    pub test: Range<u64>,
}

impl SplitWeights {
    /// Divides `documents` documents.
    ///
    /// The boundaries are the running sums of `round(share · documents)`, half to even; what the
    /// last one exceeds the number of documents by is then taken from every boundary but the first.
    /// Small corpora lose parts silently by this rule (ten documents at `969,30,1` are `10 + 0 +
    /// 0`): whoever needs a part has to check that it is not empty.
    pub fn divide(&self, documents: u64) -> SplitDocuments {
        let mut ends = [0_i64; 3];
        let mut end = 0;
        for (slot, share) in ends.iter_mut().zip(self.shares) {
            end += (share * documents as f64).round_ties_even() as i64;
            *slot = end;
        }
        let excess = end - documents as i64;
        // Upstream's first boundary can fall to -1 here (shares 0, 1/2, 1/2 of three documents); it
        // is 0 then.
        let [train, validation, test] = ends.map(|end| (end - excess).max(0) as u64);
        SplitDocuments {
            train: 0..train,
            validation: train..validation.max(train),
            test: validation.max(train)..test,
        }
    }
}

impl FromStr for SplitWeights {
    type Err = TrainError;

    fn from_str(written: &str) -> Result<Self, TrainError> {
        let refuse = |reason| TrainError::Split { written: written.to_owned(), reason };
        let parts: Vec<&str> = written.split([',', '/']).map(str::trim).collect();
        if parts.len() > 3 {
            return Err(refuse(format!("{} weights, at most 3 are possible", parts.len())));
        }
        let mut weights = [0.0_f64; 3];
        for (weight, part) in weights.iter_mut().zip(&parts) {
            *weight = part.parse().map_err(|_| refuse(format!("`{part}` is no number")))?;
            if !weight.is_finite() || *weight < 0.0 {
                return Err(refuse(format!("`{part}` is no weight; it must be 0 or more")));
            }
        }
        let sum: f64 = weights.iter().sum();
        if !(sum > 0.0 && sum.is_finite()) {
            return Err(refuse("the weights have no positive sum".to_owned()));
        }
        Ok(Self { written: written.to_owned(), shares: weights.map(|weight| weight / sum) })
    }
}

impl Default for SplitWeights {
    /// `969,30,1`: the paper holds 3% of the documents out for validation; the original
    /// implementation's default.
    fn default() -> Self {
        Self { written: "969,30,1".to_owned(), shares: [0.969, 0.03, 0.001] }
    }
}

impl fmt::Display for SplitWeights {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.written)
    }
}

impl TryFrom<String> for SplitWeights {
    type Error = TrainError;

    fn try_from(written: String) -> Result<Self, TrainError> {
        written.parse()
    }
}

impl From<SplitWeights> for String {
    fn from(weights: SplitWeights) -> Self {
        weights.written
    }
}
