//! Which source the next sample comes from: a fixed sequence in which every source has its share at
//! every moment.
//!
//! Let source `i` have the share `wᵢ` of the samples, `Σ wᵢ = 1`. After any number `n` of samples,
//! `n·wᵢ` of them should be of source `i`, and here it is never off by a whole sample:
//! `|cᵢ(n) − n·wᵢ| < 1` for every source and every `n`. Megatron-LM takes the source that lags
//! farthest behind (`build_blending_indices`). That rule never runs a source ahead by a sample, but
//! lets one fall behind by more where several are due at once: of nine sources with the weights 992,
//! 992, 358, 105, 17 and four times 1, one is 1.47 samples behind after 1,270.
//!
//! What keeps the promise is to look at deadlines. The `j`-th sample of source `i` may not come
//! before place `⌊(j−1)/wᵢ⌋ + 1`, or the source would be a sample ahead, and must have come by place
//! `⌈j/wᵢ⌉`, or it would be a sample behind. Of the samples that may come, the one with the earliest
//! deadline does. Between places `s` and `t` lie at most `(t−s)·wᵢ` such windows of source `i`, so
//! at most `t−s` of all of them, and earliest-deadline-first meets all deadlines whenever no
//! interval holds more windows than places. (The windows are those of Pfair scheduling: Baruah,
//! Cohen, Plaxton, Varvel 1996.) One source may always come: the lags `n·wᵢ − cᵢ` add up to 0, so
//! with the next place one of them is positive.
//!
//! Shares are whole numbers of a period (`shares.rs`), and the arithmetic is exact. After a period
//! every lag is 0 and the sequence begins again, so it is a pure function of a sample's number. To
//! find any place of it without walking there, the counts are noted at regular places of one period
//! or, where that is longer, of the run: at most 65,536 notes, and from the nearest the rest is
//! walked. For `0.7 / 0.3` that is one note of a period of ten. Weights without a short common
//! denominator take notes of the whole run: for 154 million samples 0.8 s and 0.7 MB with two
//! sources, 6.3 s and 6.6 MB with twenty (`benches/sample_order.rs`), and a place is found in some
//! microseconds.

use corpus::{Observer, Unit};

use super::shares::Shares;
use crate::TrainError;

/// Places between two notes, where the sequence is short.
const MIN_SPACING: u64 = 1 << 10;
/// Notes that are made at most.
const MAX_NOTES: u64 = 1 << 16;
/// Places that are walked between two looks at an observer.
const POLL: u64 = 1 << 20;

/// The sequence of sources in a blend.
#[derive(Clone)]
pub struct Blend {
    shares: Shares,
    /// Places between two notes.
    spacing: u64,
    /// Samples of each source before place `0`, `spacing`, `2·spacing`, … of a period.
    notes: Vec<u64>,
}

impl Blend {
    /// One source alone.
    #[must_use]
    pub fn single() -> Self {
        let shares = Shares { parts: vec![1], period: 1 };
        Self { shares, spacing: MIN_SPACING, notes: vec![0] }
    }

    /// The blend of groups of sources for a run of `length` samples: each group's weight is divided
    /// between its sources by theirs. It has no end; a longer run only walks farther for samples
    /// behind `length`.
    ///
    /// # Errors
    ///
    /// [`TrainError::Stopped`] when the observer asks to stop.
    ///
    /// # Panics
    ///
    /// When there is no source, or a weight is not finite and above 0.
    pub fn new(
        groups: &[(f64, Vec<f64>)],
        length: u64,
        observer: &dyn Observer,
    ) -> Result<Self, TrainError> {
        let weights = groups.iter().flat_map(|(weight, sources)| sources.iter().chain([weight]));
        assert!(
            groups.iter().all(|(_, sources)| !sources.is_empty()) && !groups.is_empty(),
            "a blend without sources"
        );
        for &weight in weights {
            assert!(weight.is_finite() && weight > 0.0, "weight {weight}");
        }
        let shares = Shares::new(groups, length);
        let noted = shares.period.min(length);
        let spacing = MIN_SPACING.max(noted.div_ceil(MAX_NOTES).next_power_of_two());
        let mut blend = Self { notes: vec![0; shares.parts.len()], shares, spacing };
        blend.note(noted, observer)?;
        Ok(blend)
    }

    /// Walks the first `length` places of a period and notes the way.
    fn note(&mut self, length: u64, observer: &dyn Observer) -> Result<(), TrainError> {
        observer.begin("blend", Some(length), Unit::Samples);
        let mut notes = std::mem::take(&mut self.notes);
        let mut walk = Walk::start(&self.shares);
        let mut told = 0;
        while walk.place + self.spacing < length {
            for _ in 0..self.spacing {
                walk.step();
            }
            notes.extend_from_slice(&walk.counts);
            if walk.place - told >= POLL {
                if observer.stop_requested() {
                    return Err(TrainError::Stopped);
                }
                observer.advance(walk.place - told);
                told = walk.place;
            }
        }
        observer.finish();
        self.notes = notes;
        Ok(())
    }

    /// Sources of the blend.
    pub fn num_sources(&self) -> usize {
        self.shares.parts.len()
    }

    /// Share of a source in the samples.
    ///
    /// # Panics
    ///
    /// When there is no such source.
    pub fn share(&self, source: usize) -> f64 {
        self.shares.parts[source] as f64 / self.shares.period as f64
    }

    /// Samples of each source among the first `length`.
    pub fn counts(&self, length: u64) -> Vec<u64> {
        let draws = self.draws(length);
        let walked = draws.earlier.iter().zip(&draws.walk.counts);
        walked.map(|(earlier, here)| earlier + here).collect()
    }

    /// The samples from place `place` on, without end: for each its source, and how many samples of
    /// that source come before it.
    pub fn draws(&self, place: u64) -> Draws<'_> {
        let (periods, place) = (place / self.shares.period, place % self.shares.period);
        let num_sources = self.num_sources();
        let note = ((place / self.spacing) as usize).min(self.notes.len() / num_sources - 1);
        let counts = &self.notes[note * num_sources..(note + 1) * num_sources];
        let mut walk = Walk::from(&self.shares, note as u64 * self.spacing, counts);
        while walk.place < place {
            walk.step();
        }
        let earlier = self.shares.parts.iter().map(|part| periods * part).collect();
        Draws { walk, earlier }
    }

    /// The most samples of which none is a source's more than `available` of it.
    pub fn longest_without_repeat(&self, available: &[u64]) -> u64 {
        let fits = |length: u64| {
            self.counts(length).iter().zip(available).all(|(taken, there)| taken <= there)
        };
        // A count is off by less than one sample, so that no longer beginning can fit than this.
        let beyond = self.shares.parts.iter().zip(available).map(|(&part, &there)| {
            let period = u128::from(self.shares.period);
            (u128::from(there) + 1) * period / u128::from(part) + 1
        });
        let beyond = beyond.min().and_then(|beyond| u64::try_from(beyond).ok());
        let (mut low, mut high) = (0, beyond.unwrap_or(u64::MAX));
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) { low = middle } else { high = middle - 1 }
        }
        low
    }
}

/// Not the notes, of which there are many.
impl std::fmt::Debug for Blend {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Blend").field("shares", &self.shares).finish_non_exhaustive()
    }
}

/// The endless sequence of samples from one place on; see [`Blend::draws`].
#[derive(Debug, Clone)]
pub struct Draws<'b> {
    walk: Walk<'b>,
    /// Samples of each source in the periods before.
    earlier: Vec<u64>,
}

/// A sample of a blend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// The source that it comes from.
    pub source: usize,
    /// Samples of that source before it.
    pub position: u64,
}

impl Iterator for Draws<'_> {
    type Item = Draw;

    fn next(&mut self) -> Option<Draw> {
        let shares = self.walk.shares;
        if self.walk.place == shares.period {
            for (earlier, part) in self.earlier.iter_mut().zip(&shares.parts) {
                *earlier += part;
            }
            self.walk = Walk::start(shares);
        }
        let source = self.walk.step();
        Some(Draw { source, position: self.earlier[source] + self.walk.counts[source] - 1 })
    }
}

/// A place in a period, and what is needed to find the next.
#[derive(Debug, Clone)]
struct Walk<'b> {
    shares: &'b Shares,
    place: u64,
    /// Samples of each source so far.
    counts: Vec<u64>,
    sources: Vec<Source>,
}

/// How a source stands.
#[derive(Debug, Clone, Copy)]
struct Source {
    /// `place · part − count · period`: how far it lags behind its share, in fractions of a sample.
    lag: i64,
    /// `⌊(count + 1) · period / part⌋`, and the remainder of that division.
    deadline: (u64, u64),
}

impl Source {
    /// The place by which its next sample must have come.
    fn last_place(self) -> u64 {
        self.deadline.0 + u64::from(self.deadline.1 > 0)
    }
}

impl<'b> Walk<'b> {
    fn start(shares: &'b Shares) -> Self {
        Self::from(shares, 0, &vec![0; shares.parts.len()])
    }

    fn from(shares: &'b Shares, place: u64, counts: &[u64]) -> Self {
        let sources = shares.parts.iter().zip(counts).map(|(&part, &count)| {
            let (part, period) = (i128::from(part), i128::from(shares.period));
            let due = (i128::from(count) + 1) * period;
            Source {
                lag: (i128::from(place) * part - i128::from(count) * period) as i64,
                deadline: ((due / part) as u64, (due % part) as u64),
            }
        });
        Self { shares, place, counts: counts.to_vec(), sources: sources.collect() }
    }

    /// Goes to the next place of the period; returns the source of the sample in between.
    fn step(&mut self) -> usize {
        let mut next = 0;
        let mut earliest = u64::MAX;
        for (index, (source, &part)) in self.sources.iter_mut().zip(&self.shares.parts).enumerate()
        {
            source.lag += part as i64;
            let last_place = source.last_place();
            if source.lag > 0 && last_place < earliest {
                (next, earliest) = (index, last_place);
            }
        }
        let (part, period) = (self.shares.parts[next], self.shares.period);
        let source = &mut self.sources[next];
        source.lag -= period as i64;
        let (whole, rest) = source.deadline;
        let rest = rest + period % part;
        let carry = u64::from(rest >= part);
        source.deadline = (whole + period / part + carry, rest - carry * part);
        self.counts[next] += 1;
        self.place += 1;
        next
    }
}
