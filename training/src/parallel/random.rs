//! Randomness by key: every draw is a pure function of what it is for.
//!
//! The generator is Philox4x32-10 (Salmon et al., *Parallel random numbers: as easy as 1, 2, 3*,
//! 2011): ten rounds that turn a 64-bit key and a 128-bit counter into four random words. There is
//! no state to save or to keep in step: a resumed run, a recomputed layer and every split of the
//! model draw the same numbers, because they ask with the same key.
//!
//! | what                | key                                   | counter words                    |
//! |---------------------|---------------------------------------|----------------------------------|
//! | initial weights     | the seed                              | index / 4 (2 words), name hash (2 words) |
//! | dropout             | Philox(seed; step, step, 1, 0)        | element / 4, head and layer, sample, sample and site |
//! | tokens of a text    | Philox(seed; sample, sample, 2, 0)    | position (2 words), 0, 0         |
//! | pairs and masks     | Philox(seed; place, place, 3, 0)      | draw / 4 (2 words), 0, 0         |
//! | the same, held out  | Philox(0; place, place, 4, 0)         | draw / 4 (2 words), 0, 0         |
//!
//! In dropout, `sample` is the index in the global batch, `head` the index among all heads and
//! `element` the place in that sample's and head's tensor. A rank that holds a part of the heads
//! or of the batch thus draws exactly its part of one global mask.

use std::f64::consts::TAU;

/// Four random words for a key and a counter (Philox4x32-10).
#[inline(always)]
#[must_use]
pub fn philox4x32(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    const ROUNDS: usize = 10;
    const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
    // The golden ratio and the square root of 3, minus 1, as fractions of 2^32.
    const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

    let ([mut k0, mut k1], [mut c0, mut c1, mut c2, mut c3]) = (key, counter);
    for _ in 0..ROUNDS {
        let first = u64::from(MULTIPLIERS[0]) * u64::from(c0);
        let second = u64::from(MULTIPLIERS[1]) * u64::from(c2);
        (c0, c1, c2, c3) = (
            (second >> 32) as u32 ^ c1 ^ k0,
            second as u32,
            (first >> 32) as u32 ^ c3 ^ k1,
            first as u32,
        );
        k0 = k0.wrapping_add(WEYL[0]);
        k1 = k1.wrapping_add(WEYL[1]);
    }
    [c0, c1, c2, c3]
}

/// The low and the high word.
pub(crate) fn words(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// Standard normal numbers, one for each index of a stream.
#[derive(Debug, Clone, Copy)]
pub struct KeyedNormal {
    key: [u32; 2],
    stream: [u32; 2],
}

impl KeyedNormal {
    /// The stream `stream` of `seed`; the streams of one seed are independent of each other.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { key: words(seed), stream: words(stream) }
    }

    /// The numbers at `4·block .. 4·block + 4`: the four words of one draw, two by two through the
    /// Box-Muller transform.
    #[must_use]
    pub fn block(&self, block: u64) -> [f64; 4] {
        let [block_low, block_high] = words(block);
        let counter = [block_low, block_high, self.stream[0], self.stream[1]];
        let [a, b, c, d] = philox4x32(self.key, counter);
        let pair = |radius: u32, angle: u32| {
            // Shifted by half a step, so that the logarithm never sees 0.
            let [radius, angle] =
                [radius, angle].map(|word| (f64::from(word) + 0.5) / 4_294_967_296.0);
            let (sin, cos) = (TAU * angle).sin_cos();
            let radius = (-2.0 * radius.ln()).sqrt();
            [radius * cos, radius * sin]
        };
        let ([first, second], [third, fourth]) = (pair(a, b), pair(c, d));
        [first, second, third, fourth]
    }
}

/// Uniform numbers by which tokens are drawn: one for each position of a text.
#[derive(Debug, Clone, Copy)]
pub struct KeyedUniform {
    key: [u32; 2],
}

impl KeyedUniform {
    /// The numbers of text `sample` of those that `seed` gives; they are independent of each other.
    #[must_use]
    pub fn new(seed: u64, sample: u64) -> Self {
        let [sample_low, sample_high] = words(sample);
        let draw = philox4x32(words(seed), [sample_low, sample_high, 2, 0]);
        Self { key: [draw[0], draw[1]] }
    }

    /// The number at `position`, at least 0 and less than 1, of 53 random bits.
    #[must_use]
    pub fn at(&self, position: u64) -> f64 {
        let [position_low, position_high] = words(position);
        let [low, high, _, _] = philox4x32(self.key, [position_low, position_high, 0, 0]);
        let bits = (u64::from(high) << 32 | u64::from(low)) >> 11;
        bits as f64 / (1_u64 << 53) as f64
    }
}

/// Which dropout masks a forward pass draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropoutKey {
    /// The run's seed.
    pub seed: u64,
    /// The optimizer step, counted from the start of the run.
    pub step: u64,
    /// Index in the global batch of the first sample of this forward pass.
    pub first_sample: u64,
}

/// Where in a layer a mask is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropoutSite {
    /// The sum of the embeddings.
    Embedding = 0,
    /// The attention probabilities, a mask for each head.
    AttentionProbabilities = 1,
    /// The output of the attention block.
    AttentionOutput = 2,
    /// The output of the MLP.
    MlpOutput = 3,
    /// What a sample is as a whole, before a classifier.
    Pooled = 4,
}

/// A family of masks: one for every sample and head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DropoutMask {
    key: [u32; 2],
    site: DropoutSite,
    layer: u16,
    first_sample: u64,
    first_head: u16,
    threshold: u32,
    scale: f32,
}

impl DropoutMask {
    /// The masks of `site` in layer `layer`, which drop an element with probability
    /// `probability`.
    ///
    /// # Panics
    ///
    /// When `probability` is not in `0..1`, or the model has 2^16 layers.
    #[must_use]
    pub fn new(key: &DropoutKey, site: DropoutSite, layer: usize, probability: f64) -> Self {
        assert!((0.0..1.0).contains(&probability), "dropout probability {probability}");
        let [step_low, step_high] = words(key.step);
        let draw = philox4x32(words(key.seed), [step_low, step_high, 1, 0]);
        Self {
            key: [draw[0], draw[1]],
            site,
            layer: u16::try_from(layer).expect("fewer than 65,536 layers"),
            first_sample: key.first_sample,
            first_head: 0,
            threshold: (probability * 4_294_967_296.0) as u32,
            scale: (1.0 / (1.0 - probability)) as f32,
        }
    }

    /// The same masks, for a tensor whose head 0 is head `first_head` of the model.
    ///
    /// # Panics
    ///
    /// When the model has 2^16 heads.
    #[must_use]
    pub fn with_first_head(self, first_head: usize) -> Self {
        let first_head = u16::try_from(first_head).expect("fewer than 65,536 heads");
        Self { first_head, ..self }
    }

    /// What elements `4·block .. 4·block + 4` of the mask of one sample and head are multiplied
    /// with: 0 for a dropped element, else `1 / (1 - probability)`.
    ///
    /// `sample` and `head` are counted from those of the tensor's part that this rank holds.
    #[inline(always)]
    #[must_use]
    pub fn factors(&self, sample: usize, head: usize, block: u32) -> [f32; 4] {
        let sample = self.first_sample + sample as u64;
        let head = u32::from(self.first_head) + head as u32;
        let counter = [
            block,
            head << 16 | u32::from(self.layer),
            sample as u32,
            ((sample >> 32) as u32) << 8 | self.site as u32,
        ];
        philox4x32(self.key, counter)
            .map(|word| if word < self.threshold { 0.0 } else { self.scale })
    }
}

/// Where and how much to drop: what a layer knows about its dropout before it sees a key.
#[derive(Debug, Clone, Copy)]
pub struct KeyedDropout {
    /// The place within the layer.
    pub site: DropoutSite,
    /// The layer, counted from 0.
    pub layer: usize,
    /// The probability that an element is dropped.
    pub probability: f64,
}

impl KeyedDropout {
    /// The masks for `key`; none without a key (evaluation) or when nothing is dropped.
    #[must_use]
    pub fn mask(&self, key: Option<&DropoutKey>) -> Option<DropoutMask> {
        key.filter(|_| self.probability > 0.0)
            .map(|key| DropoutMask::new(key, self.site, self.layer, self.probability))
    }
}
