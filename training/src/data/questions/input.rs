//! The folder of RACE that a run is given, and what it trains and validates on of it.

use std::path::{Path, PathBuf};

use corpus::race::{RaceLevel, RaceSet, RaceSplit};
use corpus::{Observer, TokenizerIdentity, tokenizer};
use tracing::info;

use super::Questions;
use crate::TrainError;
use crate::config::{DataConfig, Repeat};
use crate::data::error::DataError;
use crate::data::order::SampleOrder;
use crate::data::record::{DataRecord, InputRecord};
use crate::data::sampler::OrderedSamples;
use crate::data::samples::{Samples, SourceSamples};
use crate::data::training_data::{DataRequest, DataSourceSummary, TrainingData};
use crate::data::weighted_path::WeightedPath;

/// RACE, read: what is trained on, and where a validation is taken, what it is taken on.
#[derive(Debug)]
pub(crate) struct RaceInput {
    path: PathBuf,
    tokenizer: TokenizerIdentity,
    train: RaceSet,
    dev: Option<RaceSet>,
}

impl RaceInput {
    /// Reads the folder that `written` names: its split `train`, and `dev` where `validates`. Their
    /// texts become tokens of `tokenizer` later.
    ///
    /// # Errors
    ///
    /// When it is not one folder without a weight, or no RACE; [`TrainError::Stopped`] when the
    /// observer asks to stop.
    pub(crate) fn open(
        written: &[WeightedPath],
        tokenizer: TokenizerIdentity,
        validates: bool,
        observer: &dyn Observer,
    ) -> Result<Self, TrainError> {
        let [WeightedPath { path, weight: None }] = written else {
            let written = written.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(DataError::RaceMixed { written }.into());
        };
        let read = |split| RaceSet::read(path, split, &RaceLevel::ALL, observer);
        let train = read(RaceSplit::Train)?;
        let dev = validates.then(|| read(RaceSplit::Dev)).transpose()?;
        Ok(Self { path: path.clone(), tokenizer, train, dev })
    }

    /// Questions to train on.
    pub(crate) fn num_questions(&self) -> u64 {
        self.train.num_questions() as u64
    }

    pub(crate) fn tokenizer(&self) -> &TokenizerIdentity {
        &self.tokenizer
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes of RACE what `request` asks for.
    ///
    /// # Errors
    ///
    /// When the tokenizer cannot be opened or is not a masked language model's, or the run takes
    /// more questions than there are and none may be repeated; [`TrainError::Stopped`] when the
    /// observer asks to stop.
    pub(crate) fn prepare(
        self,
        config: &DataConfig,
        request: &DataRequest,
        observer: &dyn Observer,
    ) -> Result<TrainingData, TrainError> {
        let tokenizer = tokenizer::open(&self.tokenizer.name)?;
        let encode =
            |set: &RaceSet| Questions::encode(set, &*tokenizer, request.seq_length, observer);
        let record = self.record();
        let name = format!("{} (train)", self.path.display());
        let Self { train, dev, .. } = self;

        let questions = encode(&train)?;
        drop(train);
        let source = summary(name, &questions, config.repeat, request.num_samples)?;
        let ordered = |questions, order| {
            let samples = Samples::of_sources(vec![SourceSamples::Questions(questions)]);
            OrderedSamples::new(samples, order, request.seed)
        };
        let validation = match (request.validation, dev) {
            (Some(limit), Some(dev)) => {
                let held_out = encode(&dev)?;
                let taken = held_out.len().min(limit);
                Some((ordered(held_out, SampleOrder::Sequential).held_out(), taken))
            }
            _ => None,
        };
        let train = ordered(questions, config.order);
        Ok(TrainingData { train, validation, record, sources: vec![source] })
    }

    /// What the samples of training depend on: what is validated on may change.
    fn record(&self) -> DataRecord {
        let input = InputRecord {
            path: self.path.clone(),
            weight: None,
            fingerprint: Some(format!("RACE train {}", self.train.fingerprint())),
            sources: Vec::new(),
        };
        DataRecord { inputs: vec![input], epochs: Vec::new() }
    }
}

/// The source `source_name`, of which the run takes `needed` questions; tells how often it is gone
/// through, or refuses that.
fn summary(
    source_name: String,
    questions: &Questions,
    repeat: Repeat,
    needed: u64,
) -> Result<DataSourceSummary, TrainError> {
    let present = questions.len();
    let epochs = needed as f64 / present as f64;
    if epochs > 1.0 {
        if repeat == Repeat::Refuse {
            return Err(DataError::Repeats { source_name, present, needed, epochs }.into());
        }
        info!(
            "{source_name}: {epochs:.1} epochs over the run, which takes {needed} questions of \
             {present}"
        );
    }
    Ok(DataSourceSummary {
        source: source_name,
        weight: None,
        tokens: Some(questions.num_tokens()),
        samples: Some(present),
        epochs: Some(epochs),
        documents_skipped: None,
    })
}
