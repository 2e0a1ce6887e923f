//! Losses of text under a trained model, without gradients.
//!
//! A [`Scorer`] keeps one thread per tensor-parallel rank alive, each with its part of the model, and hands every batch to
//! all of them; so a batch costs no start of threads and no second copy of the weights. A rank that fails ends its peers
//! through the group, and the call that waits for the batch returns the first cause.
//!
//! Only the positions that a caller scores go through the head, which is most of the work where windows overlap.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// Consecutive tokens of a text, of which some are scored as predictions from those before them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window<'a> {
    /// The inputs and, one place later, their targets: position `i` predicts `tokens[i + 1]`.
    pub tokens: &'a [u32],
    /// The positions that are scored, within `0..tokens.len() - 1`.
    pub scored: Range<usize>,
}
