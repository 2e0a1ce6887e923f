//! The endless sequence in which training takes its samples.
//!
//! A [`Blend`] says which source the next sample comes from, and each source goes through its own
//! samples epoch after epoch. Both are functions of a sample's place in the sequence, so that a run
//! goes on anywhere.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::blend::{Blend, Draw};
use super::keyed_draws::DrawKey;
use super::order::{KeyedPermutation, SampleOrder};
use super::samples::{Samples, SourceSamples};
use super::sentence_pairs::PairSample;
use crate::TrainError;

/// Samples in the order of training: source by source as the blend says, each source epoch after
/// epoch without end.
#[derive(Debug, Clone)]
pub struct OrderedSamples {
    samples: Samples,
    order: SampleOrder,
    seed: u64,
    blend: Blend,
    key: DrawKey,
    /// What was counted last; shared by the ranks of a process, which all ask for the same.
    counted: Arc<Mutex<CountedTargets>>,
}

/// How many tokens are to be predicted at some places.
#[derive(Debug, Clone, Default)]
struct CountedTargets {
    places: Range<u64>,
    targets: u64,
}

impl OrderedSamples {
    /// The samples of one source in the order `order` with the run's seed.
    ///
    /// # Panics
    ///
    /// As [`blended`](Self::blended).
    #[must_use]
    pub fn new(samples: Samples, order: SampleOrder, seed: u64) -> Self {
        Self::blended(samples, order, seed, Blend::single())
    }

    /// `samples` as `blend` mixes their sources, each in the order `order` with the run's seed.
    ///
    /// # Panics
    ///
    /// When the blend has other sources than `samples`, or in the order `"megatron"` a source has
    /// no index.
    #[must_use]
    pub fn blended(samples: Samples, order: SampleOrder, seed: u64, blend: Blend) -> Self {
        assert_eq!(samples.sources().len(), blend.num_sources(), "a blend of these sources");
        for source in samples.sources() {
            let is_shuffled = source.shuffled_epochs().is_some();
            assert_eq!(is_shuffled, order == SampleOrder::Megatron, "{order:?}");
        }
        Self { samples, order, seed, blend, key: DrawKey::Run(seed), counted: Arc::default() }
    }

    /// The same samples for who only looks at their loss: what is chosen in them depends on no
    /// seed.
    #[must_use]
    pub fn held_out(self) -> Self {
        Self { key: DrawKey::HeldOut, counted: Arc::default(), ..self }
    }

    /// The samples behind the order.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// The mix of their sources.
    pub fn blend(&self) -> &Blend {
        &self.blend
    }

    /// The numbers of the samples at `places` of the whole training, counted from 0.
    ///
    /// # Panics
    ///
    /// When a source that is due has no sample; and in the order `"megatron"` behind the places that
    /// its index was made for.
    pub fn ids(&self, places: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let count = places.end.saturating_sub(places.start) as usize;
        self.blend.draws(places.start).take(count).map(|draw| self.id_of(draw))
    }

    /// Which sample stands at place `position` of the whole training, counted from 0.
    ///
    /// # Panics
    ///
    /// As [`ids`](Self::ids).
    pub fn sample_at(&self, position: u64) -> u64 {
        self.id_of(self.blend.draws(position).next().expect("a blend has no end"))
    }

    /// The pair of sentences at place `position` of the whole training, whose number is `id`.
    ///
    /// # Errors
    ///
    /// When a shard cannot be read there.
    ///
    /// # Panics
    ///
    /// When the samples are no pairs.
    pub fn pair(&self, id: u64, position: u64) -> Result<PairSample, TrainError> {
        self.samples.read_pair(id, self.key, position)
    }

    /// Targets at `places` that count in the loss: of windows all tokens, of pairs those that are
    /// masked, of questions one each.
    ///
    /// Pairs are made to be counted, on all threads: 5 ms for 1,024 pairs of 512 tokens on two cores
    /// (`benches/sample_order.rs`). The places that were asked for last are remembered.
    ///
    /// # Errors
    ///
    /// When a shard cannot be read there.
    pub fn scored_targets(&self, places: &Range<u64>) -> Result<u64, TrainError> {
        let samples = places.end - places.start;
        match &self.samples.sources()[0] {
            SourceSamples::Windows(windows) => return Ok(samples * windows.seq_length() as u64),
            SourceSamples::Questions(_) => return Ok(samples),
            SourceSamples::SentencePairs(_) => {}
        }
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.places == *places {
            return Ok(counted.targets);
        }
        let ids: Vec<u64> = self.ids(places.clone()).collect();
        let targets = ids.par_iter().enumerate().map(|(place, &id)| {
            let pair = self.pair(id, places.start + place as u64)?;
            Ok(pair.predicted.len() as u64)
        });
        let targets = targets.try_reduce(|| 0, |one, other| Ok::<_, TrainError>(one + other))?;
        *counted = CountedTargets { places: places.clone(), targets };
        Ok(targets)
    }

    fn id_of(&self, Draw { source, position }: Draw) -> u64 {
        let samples = &self.samples.sources()[source];
        let sample = match samples.shuffled_at(position) {
            Some(sample) => sample,
            None => {
                let per_epoch = samples.per_epoch();
                let (epoch, place) = (position / per_epoch, position % per_epoch);
                match self.order {
                    SampleOrder::Keyed => {
                        let seed = seed_of(self.seed, source);
                        KeyedPermutation::new(per_epoch, seed, epoch).at(place)
                    }
                    SampleOrder::Sequential | SampleOrder::Megatron => place,
                }
            }
        };
        self.samples.id_of(source, sample)
    }
}

/// The seed of a source's order: the run's for the first, and one of its own for each other, so that
/// sources of one size are not gone through in step.
pub(super) fn seed_of(seed: u64, source: usize) -> u64 {
    match source {
        0 => seed,
        source => xxh3_64_with_seed(&(source as u64).to_le_bytes(), seed),
    }
}
