//! Windows over one stream of tokens: overlapping ones, and ones that roll over it.
//!
//! # Overlapping windows
//!
//! A model sees at most `window` tokens. Windows start every `overlap` tokens, and each but the
//! first scores only its last `overlap` targets, so that nearly every target is predicted from
//! almost a full window of context. The first token of the stream is never a target; every other
//! one is scored exactly once.
//!
//! The original counts its windows by a formula that runs past the end: the last `window / overlap`
//! or so score nothing. They are part of the count that a report gives, and are not computed.
//!
//! Source: `_LMDataset` of Megatron-LM v1.0 (`tasks/zeroshot_gpt2/datasets.py`).
//!
//! # Rolling windows
//!
//! Windows follow each other, and each scores all that it predicts: the last tokens of a window are
//! predicted from nearly all of it, and the first from hardly anything. Only the last one begins
//! before the end of the window before it, so far that it is full too, and scores what is left.
//!
//! Source: `get_rolling_token_windows` of lm-evaluation-harness (`lm_eval/utils.py`) with a context
//! of one token, as its models call it.

use std::num::NonZeroUsize;

use training::inference::Window;

/// A stream of tokens, cut into overlapping windows.
#[derive(Debug, Clone, Copy)]
pub struct OverlapWindows<'a> {
    tokens: &'a [u32],
    window: usize,
    overlap: usize,
}

impl<'a> OverlapWindows<'a> {
    /// Windows of `window` inputs over `tokens`, one every `overlap` tokens.
    ///
    /// # Panics
    ///
    /// When `overlap` exceeds `window`: targets between two windows would be lost.
    #[must_use]
    pub fn new(tokens: &'a [u32], window: usize, overlap: NonZeroUsize) -> Self {
        assert!(
            overlap.get() <= window,
            "an overlap of {overlap} tokens exceeds the window of {window}"
        );
        Self { tokens, window, overlap: overlap.get() }
    }

    /// Number of targets: every token but the first.
    #[must_use]
    pub fn num_targets(&self) -> usize {
        self.tokens.len().saturating_sub(1)
    }

    /// Number of windows as the original counts them, with those that score nothing.
    #[must_use]
    pub fn num_windows(&self) -> usize {
        self.num_targets().saturating_sub(self.overlap).div_ceil(self.overlap) + 1
    }

    /// Window `index`, without the padding behind the end of the stream; it may score nothing.
    #[must_use]
    pub fn window(&self, index: usize) -> Window<'a> {
        let start = (index * self.overlap).min(self.num_targets());
        let end = (start + self.window).min(self.num_targets());
        let first_scored = if index == 0 { 0 } else { self.window - self.overlap };
        let num_inputs = end - start;
        // One token more than inputs: the last input's target.
        let tokens = &self.tokens[start..self.tokens.len().min(end + 1)];
        Window { tokens, scored: first_scored.min(num_inputs)..num_inputs }
    }

    /// The windows that score something, in order.
    pub fn scoring(self) -> impl Iterator<Item = Window<'a>> {
        (0..self.num_windows())
            .map(move |index| self.window(index))
            .filter(|window| !window.scored.is_empty())
    }
}

/// Rolling windows of at most `window` inputs over `tokens`, of which the first is only there to
/// predict the second from.
///
/// # Panics
///
/// When `window` is 0.
pub fn rolling(tokens: &[u32], window: usize) -> impl Iterator<Item = Window<'_>> {
    assert!(window > 0, "a window has inputs");
    let num_targets = tokens.len().saturating_sub(1);
    (0..num_targets).step_by(window).map(move |first_target| {
        let end = (first_target + window).min(num_targets);
        let start = end.saturating_sub(window);
        Window { tokens: &tokens[start..=end], scored: first_target - start..end - start }
    })
}
