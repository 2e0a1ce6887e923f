//! What a run trains and validates on: its data, verified, divided, blended and ordered.
//!
//! Without weights all data is one: every data folder is divided into training, validation and test
//! by itself, the parts are joined, and their samples are drawn in proportion to their size, in one
//! permutation. With weights every source is a stream of its own, with its own split, order and
//! epochs, and the [`Blend`] of the weights says whose turn it is.
//!
//! Validation takes held-out samples in the order of the data, in the same mix, and none twice: with
//! weights as many as can be had in that mix before the first source has no more.

use corpus::{Observer, machine};
use serde::Serialize;
use tracing::{info, warn};

use super::blend::Blend;
use super::error::DataError;
use super::form::SampleForm;
use super::input::{DataInputs, Source};
use super::megatron_index::MegatronIndex;
use super::order::SampleOrder;
use super::record::{DataRecord, InputRecord, SourceRecord};
use super::sampler::OrderedSamples;
use super::sampler::seed_of;
use super::samples::{Samples, SourceSamples};
use super::sentence_pairs::{PairRecipe, SentencePairs, SkippedDocuments};
use super::stream::TokenStream;
use super::windows::Windows;
use crate::TrainError;
use crate::config::{DataConfig, Repeat};

/// What a run needs of its data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataRequest {
    /// What a sample is.
    pub(crate) form: SampleForm,
    /// Inputs per sample.
    pub(crate) seq_length: usize,
    /// Seed of the order.
    pub(crate) seed: u64,
    /// Samples that the run trains on.
    pub(crate) num_samples: u64,
    /// Samples that a validation takes at most; `None` where there is none.
    pub(crate) validation: Option<u64>,
}

/// What a run trains and validates on.
#[derive(Debug)]
pub(crate) struct TrainingData {
    pub(crate) train: OrderedSamples,
    /// The samples of a validation, and how many of them it takes.
    pub(crate) validation: Option<(OrderedSamples, u64)>,
    pub(crate) record: DataRecord,
    pub(crate) sources: Vec<DataSourceSummary>,
}

/// A source of a run's samples, as `--dry-run` shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DataSourceSummary {
    /// The data folder or shard, and the source in it where it is one of several.
    pub source: String,
    /// Its share of the samples; `None` where all data counts by its size.
    pub weight: Option<f64>,
    /// Tokens to train on; `None` where the weight is 0, so that it is not read.
    pub tokens: Option<u64>,
    /// Samples of one epoch.
    pub samples: Option<u64>,
    /// How often the run goes through them.
    pub epochs: Option<f64>,
    /// Documents to train on that give no pair of sentences; `None` where pairs are not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents_skipped: Option<SkippedDocuments>,
}

/// A source with its documents divided.
struct DividedSource {
    name: String,
    /// Tokens of all its documents.
    tokens: u64,
    train: TokenStream,
    validation: TokenStream,
}

/// The sources, as groups with a weight of their own.
struct Mix {
    sources: Vec<DividedSource>,
    /// By group its weight and those of its sources; `None` where nothing has a weight.
    groups: Option<Vec<(f64, Vec<f64>)>>,
    /// The sources with weights of their own in each data folder or shard that is used.
    parts: Vec<Vec<SourceRecord>>,
}

impl TrainingData {
    /// Verifies the data and makes of it what `request` asks for.
    ///
    /// # Errors
    ///
    /// When a part that is needed has no whole sample, the data is not what it says, a source ends
    /// before the run and may not be repeated; [`TrainError::Stopped`] when the observer asks to
    /// stop.
    pub(crate) fn prepare(
        inputs: &DataInputs,
        config: &DataConfig,
        request: &DataRequest,
        observer: &dyn Observer,
    ) -> Result<Self, TrainError> {
        inputs.check_form(request.form)?;
        let recipe = inputs.pair_recipe(request.form, request.seq_length)?;
        let mix = Mix::of(inputs, config)?;
        if recipe.is_none() {
            mix.check_sizes(config, request)?;
        }
        let inputs_read = mix.records(inputs, observer)?;

        let blend = mix.blend(request.num_samples, observer)?;
        let drawn = blend.counts(request.num_samples);
        let train = match &recipe {
            None => mix.train_windows(config, request, &drawn, observer)?,
            Some(recipe) => mix.train_pairs(config, request, recipe, &drawn, observer)?,
        };
        let epochs: Vec<f64> =
            train.iter().zip(&drawn).map(|(source, &drawn)| source.epochs(drawn)).collect();
        mix.check_repeats(config.repeat, &train, &drawn, &epochs)?;
        let shuffled = train.iter().filter_map(SourceSamples::shuffled_epochs);
        let record = DataRecord { inputs: inputs_read, epochs: shuffled.collect() };
        let sources = mix.summaries(inputs, &blend, &train, &epochs);

        let train = Samples::of_sources(train);
        Ok(Self {
            train: OrderedSamples::blended(train, config.order, request.seed, blend),
            validation: match request.validation {
                Some(limit) => {
                    Some(mix.validation(config, request, recipe.as_ref(), limit, observer)?)
                }
                None => None,
            },
            record,
            sources,
        })
    }
}

impl Mix {
    /// Divides the documents of every source.
    fn of(inputs: &DataInputs, config: &DataConfig) -> Result<Self, TrainError> {
        let divide = |stream: &TokenStream| {
            let split = config.split.divide(stream.num_documents());
            (stream.part(&split.train), stream.part(&split.validation))
        };
        let mut groups = Vec::new();
        for input in inputs.used() {
            groups.push((input.written.weight.unwrap_or(1.0), input.sources()?));
        }
        let part = |source: &Source| {
            let weight = source.weight;
            source.part.clone().map(|source| SourceRecord { source, weight })
        };
        let parts =
            groups.iter().map(|(_, sources)| sources.iter().filter_map(part).collect()).collect();
        if !inputs.is_weighted() {
            let sources: Vec<Source> =
                groups.into_iter().flat_map(|(_, sources)| sources).collect();
            let (train, validation): (Vec<_>, Vec<_>) =
                sources.iter().map(|source| divide(&source.stream)).unzip();
            let names: Vec<&str> = sources.iter().map(|source| &*source.name).collect();
            let joined = DividedSource {
                name: names.join(", "),
                tokens: sources.iter().map(|source| source.stream.num_tokens()).sum(),
                train: TokenStream::join(train),
                validation: TokenStream::join(validation),
            };
            return Ok(Self { sources: vec![joined], groups: None, parts });
        }
        let weights = groups.iter().map(|(weight, sources)| {
            (*weight, sources.iter().map(|source| source.weight).collect())
        });
        let weights = weights.collect();
        let sources = groups.into_iter().flat_map(|(_, sources)| sources).map(|source| {
            let (train, validation) = divide(&source.stream);
            let tokens = source.stream.num_tokens();
            DividedSource { name: source.name, tokens, train, validation }
        });
        Ok(Self { sources: sources.collect(), groups: Some(weights), parts })
    }

    /// Reads all data once, and writes down what it is.
    fn records(
        &self,
        inputs: &DataInputs,
        observer: &dyn Observer,
    ) -> Result<Vec<InputRecord>, TrainError> {
        let vocab_size = inputs.tokenizer().vocab_size;
        let mut parts = self.parts.iter().cloned();
        let records = inputs.inputs().iter().map(|input| {
            let fingerprint = input.verify(vocab_size, observer)?;
            let sources = fingerprint.as_ref().and_then(|_| parts.next()).unwrap_or_default();
            let (path, weight) = (input.written.path.clone(), input.written.weight);
            Ok(InputRecord { path, weight, fingerprint, sources })
        });
        records.collect()
    }

    /// Refuses parts that are needed and have no whole sample. The original implementation's order
    /// repeats a source until there is one: a single token will do.
    fn check_sizes(&self, config: &DataConfig, request: &DataRequest) -> Result<(), TrainError> {
        let sample_tokens = request.seq_length as u64 + 1;
        let train_tokens = match config.order {
            SampleOrder::Megatron => 1,
            SampleOrder::Keyed | SampleOrder::Sequential => sample_tokens,
        };
        for source in &self.sources {
            if source.tokens < train_tokens {
                return Err(self.too_small(source, sample_tokens));
            }
            let too_small = |part: &'static str, stream: &TokenStream| {
                let split = config.split.to_string();
                self.part_too_small(source, split, part, stream.num_tokens(), sample_tokens)
            };
            if source.train.num_tokens() < train_tokens {
                return Err(too_small("training", &source.train));
            }
            if request.validation.is_some() && source.validation.num_tokens() < sample_tokens {
                return Err(too_small("validation", &source.validation));
            }
        }
        Ok(())
    }

    fn too_small(&self, source: &DividedSource, needed_tokens: u64) -> TrainError {
        let tokens = source.tokens;
        match self.groups {
            None => TrainError::CorpusTooSmall { tokens, needed_tokens },
            Some(_) => {
                let source_name = source.name.clone();
                DataError::SourceTooSmall { source_name, tokens, needed_tokens }.into()
            }
        }
    }

    fn part_too_small(
        &self,
        source: &DividedSource,
        split: String,
        part: &'static str,
        tokens: u64,
        needed_tokens: u64,
    ) -> TrainError {
        match self.groups {
            None => TrainError::SplitTooSmall { split, part, tokens, needed_tokens },
            Some(_) => {
                let source_name = source.name.clone();
                DataError::SourceSplitTooSmall { source_name, split, part, tokens, needed_tokens }
                    .into()
            }
        }
    }

    /// The mix of a run of `length` samples.
    fn blend(&self, length: u64, observer: &dyn Observer) -> Result<Blend, TrainError> {
        match &self.groups {
            Some(groups) => Blend::new(groups, length, observer),
            None => Ok(Blend::single()),
        }
    }

    /// The training samples of every source, of which the run draws `drawn`.
    fn train_windows(
        &self,
        config: &DataConfig,
        request: &DataRequest,
        drawn: &[u64],
        observer: &dyn Observer,
    ) -> Result<Vec<SourceSamples>, TrainError> {
        let seq_length = request.seq_length;
        let samples =
            self.sources.iter().zip(drawn).enumerate().map(|(place, (source, &drawn))| {
                let stream = source.train.clone();
                if config.order != SampleOrder::Megatron {
                    return Ok(SourceSamples::Windows(Windows::new(stream, seq_length)));
                }
                let seed = megatron_seed(request.seed, place)?;
                let memory = machine::memory_bytes();
                let index =
                    MegatronIndex::build(&stream, seq_length, drawn, seed, memory, observer)?;
                Ok(SourceSamples::Windows(Windows::with_index(stream, seq_length, index)))
            });
        samples.collect()
    }

    /// The training pairs of every source, of which the run draws `drawn`.
    fn train_pairs(
        &self,
        config: &DataConfig,
        request: &DataRequest,
        recipe: &PairRecipe,
        drawn: &[u64],
        observer: &dyn Observer,
    ) -> Result<Vec<SourceSamples>, TrainError> {
        let samples =
            self.sources.iter().zip(drawn).enumerate().map(|(place, (source, &drawn))| {
                let seed = match config.order {
                    SampleOrder::Megatron => megatron_seed(request.seed, place)?,
                    // Of the first source and a seed of 32 bits it is the same one.
                    SampleOrder::Keyed | SampleOrder::Sequential => {
                        seed_of(request.seed, place) as u32
                    }
                };
                let stream = source.train.clone();
                let pairs =
                    SentencePairs::new(stream, recipe, config.order, drawn, seed, observer)?;
                source.check_pairs("training", &pairs, config)?;
                Ok(SourceSamples::SentencePairs(pairs))
            });
        samples.collect()
    }

    /// Tells which sources the run goes through more than once, or refuses them.
    fn check_repeats(
        &self,
        repeat: Repeat,
        samples: &[SourceSamples],
        drawn: &[u64],
        epochs: &[f64],
    ) -> Result<(), TrainError> {
        for (((source, samples), &needed), &epochs) in
            self.sources.iter().zip(samples).zip(drawn).zip(epochs)
        {
            let present = samples.per_epoch();
            if epochs <= 1.0 {
                continue;
            }
            let name = &source.name;
            match (repeat, &self.groups) {
                (Repeat::Refuse, _) => {
                    let source_name = name.clone();
                    return Err(DataError::Repeats { source_name, present, needed, epochs }.into());
                }
                (Repeat::Warn, Some(_)) => warn!(
                    "source {name}: {epochs:.1} epochs over the run, which takes {needed} samples \
                     of its {present}"
                ),
                // Without weights nothing was asked for that could be a mistake.
                (Repeat::Warn, None) => info!(
                    "{name}: {epochs:.1} epochs over the run, which takes {needed} samples of \
                     {present}"
                ),
            }
        }
        Ok(())
    }

    fn summaries(
        &self,
        inputs: &DataInputs,
        blend: &Blend,
        samples: &[SourceSamples],
        epochs: &[f64],
    ) -> Vec<DataSourceSummary> {
        let used = self.sources.iter().zip(samples).zip(epochs).enumerate();
        let used = used.map(|(place, ((source, samples), &epochs))| DataSourceSummary {
            source: source.name.clone(),
            weight: self.groups.as_ref().map(|_| blend.share(place)),
            tokens: Some(samples.num_tokens()),
            samples: Some(samples.per_epoch()),
            epochs: Some(epochs),
            documents_skipped: samples.skipped(),
        });
        let is_unused = |weight: Option<f64>| weight == Some(0.0);
        let unused = inputs.inputs().iter().filter(|input| is_unused(input.written.weight));
        let unused = unused.map(|input| DataSourceSummary {
            source: input.written.path.display().to_string(),
            weight: Some(0.0),
            tokens: None,
            samples: None,
            epochs: None,
            documents_skipped: None,
        });
        used.chain(unused).collect()
    }

    /// The samples of a validation in the mix of the training, and how many of them, at most
    /// `limit`, it takes.
    fn validation(
        &self,
        config: &DataConfig,
        request: &DataRequest,
        recipe: Option<&PairRecipe>,
        limit: u64,
        observer: &dyn Observer,
    ) -> Result<(OrderedSamples, u64), TrainError> {
        let held_out = self.sources.iter().map(|source| {
            let stream = source.validation.clone();
            let Some(recipe) = recipe else {
                return Ok(SourceSamples::Windows(Windows::new(stream, request.seq_length)));
            };
            let pairs = SentencePairs::held_out(stream, recipe, observer)?;
            source.check_pairs("validation", &pairs, config)?;
            Ok(SourceSamples::SentencePairs(pairs))
        });
        let samples = Samples::of_sources(held_out.collect::<Result<_, TrainError>>()?);
        let available: Vec<u64> = samples.sources().iter().map(SourceSamples::len).collect();
        let blend = self.blend(samples.len(), observer)?;
        let longest = blend.longest_without_repeat(&available);
        let taken = longest.min(limit);
        if longest < samples.len() && taken == longest {
            info!(
                "validation takes {longest} of {} held-out samples: in the mix of the weights, the \
                 first source ends there",
                samples.len()
            );
        }
        let order = SampleOrder::Sequential;
        Ok((OrderedSamples::blended(samples, order, request.seed, blend).held_out(), taken))
    }
}

impl DividedSource {
    /// Refuses a part without a pair of sentences, and tells which documents give none.
    fn check_pairs(
        &self,
        part: &'static str,
        pairs: &SentencePairs,
        config: &DataConfig,
    ) -> Result<(), DataError> {
        let (documents, skipped) = (pairs.stream().num_documents(), pairs.map().skipped());
        if pairs.is_empty() {
            return Err(DataError::NoPairs {
                source_name: self.name.clone(),
                part,
                split: config.split.to_string(),
                documents,
                skipped,
            });
        }
        if skipped.total() > 0 {
            warn!(
                "{}: {} of the {documents} documents of the {part} part give no pair of sentences: \
                 {} with fewer than two, {} with one of more than 512 tokens",
                self.name,
                skipped.total(),
                skipped.of_one_sentence,
                skipped.with_long_sentence
            );
        }
        Ok(())
    }
}

/// The seed of a source's order for the original implementation's generator, which takes 32 bits.
/// Megatron-LM gives every source of a blend the run's; here only the first has it.
fn megatron_seed(seed: u64, source: usize) -> Result<u32, DataError> {
    let first = u32::try_from(seed).map_err(|_| DataError::Seed { seed })?;
    Ok(first.wrapping_add(source as u32))
}
