//! What stands behind `--data`, opened: tokenized text, or a folder of RACE.

use std::path::Path;

use corpus::{Observer, TokenizerIdentity};

use super::input::DataInputs;
use super::questions::RaceInput;
use super::training_data::{DataRequest, TrainingData};
use crate::TrainError;
use crate::config::DataConfig;

/// All that a run is given.
#[derive(Debug)]
pub(crate) enum RunData {
    /// Data folders and shards.
    Tokens(DataInputs),
    /// RACE, whose texts a pre-trained model's tokenizer encodes.
    Race(Box<RaceInput>),
}

impl RunData {
    /// The tokenizer of the run.
    pub(crate) fn tokenizer(&self) -> &TokenizerIdentity {
        match self {
            Self::Tokens(inputs) => inputs.tokenizer(),
            Self::Race(race) => race.tokenizer(),
        }
    }

    /// Where the data is, for messages.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Tokens(inputs) => inputs.path(),
            Self::Race(race) => race.path(),
        }
    }

    /// Questions to train on, where the samples are questions.
    pub(crate) fn num_questions(&self) -> Option<u64> {
        match self {
            Self::Tokens(_) => None,
            Self::Race(race) => Some(race.num_questions()),
        }
    }

    /// Makes of the data what `request` asks for.
    ///
    /// # Errors
    ///
    /// As [`TrainingData::prepare`] and [`RaceInput::prepare`].
    pub(crate) fn prepare(
        self,
        config: &DataConfig,
        request: &DataRequest,
        observer: &dyn Observer,
    ) -> Result<TrainingData, TrainError> {
        match self {
            Self::Tokens(inputs) => TrainingData::prepare(&inputs, config, request, observer),
            Self::Race(race) => race.prepare(config, request, observer),
        }
    }
}
