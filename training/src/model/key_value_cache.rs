//! What a model keeps of the positions that it has seen.

use super::Gpt2Config;
use crate::backend::IncrementalKernels;

/// Keys and values of every layer, for texts of the same length side by side.
///
/// Made by [`Gpt2::cache`](super::Gpt2::cache) and filled by
/// [`Gpt2::forward_cached`](super::Gpt2::forward_cached).
#[derive(Debug)]
pub struct KeyValueCache<B: IncrementalKernels> {
    layers: Vec<B::KeyValues>,
    rows: usize,
    length: usize,
}

impl<B: IncrementalKernels> KeyValueCache<B> {
    pub(super) fn new(layers: Vec<B::KeyValues>, rows: usize) -> Self {
        Self { layers, rows, length: 0 }
    }

    /// Texts side by side.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Positions of each text that are kept.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Makes text `i` go on from what text `rows[i]` was: several from one, or fewer than before.
    ///
    /// # Panics
    ///
    /// When there is no such text.
    pub fn select_rows(&mut self, rows: &[usize]) {
        self.rows = rows.len();
        for layer in &mut self.layers {
            B::select_rows(layer, rows);
        }
    }

    /// The layers, each about to receive `positions` more.
    pub(super) fn extend(&mut self, positions: usize) -> impl Iterator<Item = &mut B::KeyValues> {
        self.length += positions;
        self.layers.iter_mut()
    }
}

impl Gpt2Config {
    /// Bytes of the keys and values of `capacity` positions of `rows` texts, of the whole model:
    /// two vectors of `hidden_size` numbers for each layer and position.
    #[must_use]
    pub fn key_value_bytes(&self, rows: usize, capacity: usize) -> u64 {
        let numbers = [2, self.num_layers, self.hidden_size, rows, capacity];
        numbers.iter().fold(size_of::<f32>() as u64, |bytes, &n| bytes.saturating_mul(n as u64))
    }
}
