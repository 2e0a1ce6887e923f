//! What a sample of a model's training looks like.

use serde::{Deserialize, Serialize};

use super::order::SampleOrder;
use super::split::SplitWeights;
use crate::TrainError;
use crate::config::DataConfig;

/// The form of the samples that an architecture is trained on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum SampleForm {
    /// Windows of one stream of tokens, each token predicted from those before it: GPT-2.
    #[default]
    Windows,
    /// Pairs of consecutive segments of a document with some of their tokens masked: BERT.
    SentencePairs(MaskedLmConfig),
    /// Questions, each with all its answers: a BERT that is fine-tuned on RACE.
    Questions,
}

/// `[data.masked_lm]`: how sentences become samples of a masked language model. The defaults are
/// the paper's (section 4.2) and the original implementation's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MaskedLmConfig {
    /// Share of a sample's tokens that are to be predicted; above 0 and below 1.
    pub mask_prob: f64,
    /// Share of the samples that are aimed at a random length below the full one; 0 to 1. As in the
    /// original implementation, one in `round(1 / short_seq_prob)`.
    pub short_seq_prob: f64,
    /// Most words that are masked together; `n` of them are drawn in proportion to `1 / n`.
    pub max_ngram: u8,
}

impl Default for MaskedLmConfig {
    fn default() -> Self {
        Self { mask_prob: 0.15, short_seq_prob: 0.1, max_ngram: 3 }
    }
}

impl MaskedLmConfig {
    /// Refuses values that no sample can be made with.
    fn check(self) -> Result<Self, TrainError> {
        let Self { mask_prob, short_seq_prob, max_ngram } = self;
        for (field, value, holds, expected) in [
            (
                "data.masked_lm.mask_prob",
                mask_prob,
                mask_prob > 0.0 && mask_prob < 1.0,
                "must lie between 0 and 1",
            ),
            (
                "data.masked_lm.short_seq_prob",
                short_seq_prob,
                (0.0..=1.0).contains(&short_seq_prob)
                    && (short_seq_prob == 0.0 || short_seq_prob >= 1e-6),
                "must be 0, or 0.000001 to 1",
            ),
            (
                "data.masked_lm.max_ngram",
                f64::from(max_ngram),
                (1..=16).contains(&max_ngram),
                "must be 1 to 16 words",
            ),
        ] {
            if !holds {
                let (value, expected) = (value.to_string(), expected.to_owned());
                return Err(TrainError::InvalidField { field, value, expected });
            }
        }
        Ok(self)
    }
}

impl DataConfig {
    /// The samples of a left-to-right language model.
    ///
    /// # Errors
    ///
    /// When the configuration says how to mask them.
    pub fn windows(&self) -> Result<SampleForm, TrainError> {
        match self.masked_lm {
            None => Ok(SampleForm::Windows),
            Some(_) => Err(TrainError::InvalidField {
                field: "data.masked_lm",
                value: "given".to_owned(),
                expected: "belongs to [model.bert]; leave it out".to_owned(),
            }),
        }
    }

    /// The samples of a masked language model.
    ///
    /// # Errors
    ///
    /// When a value of `[data.masked_lm]` is impossible.
    pub fn sentence_pairs(&self) -> Result<SampleForm, TrainError> {
        Ok(SampleForm::SentencePairs(self.masked_lm.unwrap_or_default().check()?))
    }

    /// The samples of a model that is fine-tuned on RACE.
    ///
    /// # Errors
    ///
    /// When the configuration says how to mask or divide them, or orders them as the original
    /// implementation does the samples of pre-training.
    pub fn questions(&self) -> Result<SampleForm, TrainError> {
        let refuse = |field, value: &str, expected: &str| {
            let (value, expected) = (value.to_owned(), expected.to_owned());
            Err(TrainError::InvalidField { field, value, expected })
        };
        if self.masked_lm.is_some() {
            let expected = "questions have nothing masked, so it has no place beside \
                            [finetune.race]; leave it out";
            return refuse("data.masked_lm", "given", expected);
        }
        if self.split != SplitWeights::default() {
            let expected = "RACE has the splits train, dev and test of its own; leave it out";
            return refuse("data.split", &self.split.to_string(), expected);
        }
        if self.order == SampleOrder::Megatron {
            let expected = "it is an order of documents; for the questions of [finetune.race] \
                            keyed or sequential is needed";
            return refuse("data.order", "megatron", expected);
        }
        Ok(SampleForm::Questions)
    }
}
