//! One sample: sentences cut in two, swapped or not, truncated, framed and masked.
//!
//! Source: `build_training_sample` of Megatron-LM v1.0, whose second task is the order of the
//! segments (Lan et al., *ALBERT*, 2019, [arXiv 1909.11942](https://arxiv.org/abs/1909.11942)), as
//! the paper has it (section 4.2).

use crate::data::keyed_draws::KeyedDraws;
use crate::data::masking::Masking;

/// A masked pair of segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairSample {
    /// `[CLS] A [SEP] B [SEP]` with its masks, padded.
    pub tokens: Vec<u32>,
    /// The same without masks.
    pub targets: Vec<u32>,
    /// Places of the tokens that are to be predicted, in ascending order.
    pub predicted: Vec<usize>,
    /// Place of the first token of `B`.
    pub second_segment: usize,
    /// Tokens before the padding.
    pub length: usize,
    /// Whether `A` stood behind `B` in the document.
    pub is_swapped: bool,
}

impl PairSample {
    /// The sample of the sentences whose tokens are `tokens` one after another, each ending at its
    /// place of `ends`, aimed at `target_length` tokens and padded to `seq_length`.
    ///
    /// # Panics
    ///
    /// When there are not two sentences, or `seq_length` is less than `target_length` and the three
    /// special tokens.
    #[must_use]
    pub fn new(
        tokens: &[u32],
        ends: &[usize],
        target_length: usize,
        seq_length: usize,
        masking: &Masking,
        draws: &mut KeyedDraws,
    ) -> Self {
        assert!(ends.len() > 1, "a pair of two sentences or more");
        let vocabulary = masking.vocabulary();
        // With two sentences there is one cut only, and nothing to draw.
        let in_first = match ends.len() {
            2 => 1,
            sentences => 1 + draws.below(sentences as u32 - 1) as usize,
        };
        let (first, second) = tokens.split_at(ends[in_first - 1]);
        let is_swapped = draws.uniform() < 0.5;
        let (a, b) = if is_swapped { (second, first) } else { (first, second) };
        let (a, b) = truncated(a, b, target_length, draws);

        let mut targets = Vec::with_capacity(seq_length);
        targets.push(vocabulary.cls);
        targets.extend_from_slice(a);
        targets.push(vocabulary.sep);
        let second_segment = targets.len();
        targets.extend_from_slice(b);
        targets.push(vocabulary.sep);
        let length = targets.len();
        assert!(length <= seq_length, "{length} tokens in a sample of {seq_length}");

        let mut tokens = targets.clone();
        let budget = masking.budget(length, target_length);
        let predicted = masking.mask(&mut tokens, budget, draws);
        for tokens in [&mut tokens, &mut targets] {
            tokens.resize(seq_length, vocabulary.pad);
        }
        Self { tokens, targets, predicted, second_segment, length, is_swapped }
    }
}

/// Both segments with `most` tokens together: of the longer one, of `b` where they are alike, a token
/// goes from a random end until they fit.
fn truncated<'t>(
    mut a: &'t [u32],
    mut b: &'t [u32],
    most: usize,
    draws: &mut KeyedDraws,
) -> (&'t [u32], &'t [u32]) {
    while a.len() + b.len() > most {
        let longer = if a.len() > b.len() { &mut a } else { &mut b };
        *longer = match draws.uniform() < 0.5 {
            true => &longer[1..],
            false => &longer[..longer.len() - 1],
        };
    }
    (a, b)
}
