//! Causal attention of new positions over all positions so far, whose keys and values are kept.
//!
//! For a query `q` at position `i` and each head: `softmax(q Kᵀ · scale) V` over positions `0..=i`.
//! Each query is computed by itself, with sums over its own positions in their order
//! ([`row_product`](super::row_product)): it comes out the same whether its predecessors came with
//! it or long before.

use rayon::prelude::*;

use super::row_product::add_rows;
use super::softmax::softmax;
use super::vector::Vector;
use crate::backend::KeyValueShape;

/// Keys and values of one layer, in `f32`.
#[derive(Debug, Clone)]
pub struct KeyValues {
    shape: KeyValueShape,
    length: usize,
    /// `[rows, heads, head_size, capacity]`: a query's scores run along the positions.
    keys: Vec<f32>,
    /// `[rows, heads, capacity, head_size]`.
    values: Vec<f32>,
}

impl KeyValues {
    /// Room for `shape`, with no position in it.
    #[must_use]
    pub fn new(shape: KeyValueShape) -> Self {
        let numbers = shape.rows * shape.heads * shape.capacity * shape.head_size;
        Self { shape, length: 0, keys: vec![0.0; numbers], values: vec![0.0; numbers] }
    }

    /// Positions that are kept.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Makes row `i` go on from what row `rows[i]` was.
    ///
    /// # Panics
    ///
    /// When there is no such row.
    pub fn select_rows(&mut self, rows: &[usize]) {
        let shape = KeyValueShape { rows: rows.len(), ..self.shape };
        let mut selected = Self { length: self.length, ..Self::new(shape) };
        let numbers = shape.heads * shape.capacity * shape.head_size;
        for (from, to) in [(&self.keys, &mut selected.keys), (&self.values, &mut selected.values)] {
            to.par_chunks_mut(numbers).zip(rows).for_each(|(to, &row)| {
                to.copy_from_slice(&from[row * numbers..][..numbers]);
            });
        }
        *self = selected;
    }

    /// Appends the keys and values of new positions and lets their queries look at all up to
    /// themselves.
    ///
    /// `query_key_value`, `[rows, seq, 3 · heads · head_size]`, has queries, keys and values side
    /// by side; returns `[rows, seq, heads · head_size]`.
    ///
    /// # Panics
    ///
    /// When there is no room, or shapes disagree.
    pub fn attend(&mut self, vector: Vector, query_key_value: &[f32], scale: f32) -> Vec<f32> {
        let KeyValueShape { rows, heads, head_size, capacity } = self.shape;
        let width = heads * head_size;
        assert!(query_key_value.len().is_multiple_of(rows * 3 * width), "{rows} rows");
        let seq = query_key_value.len() / (rows * 3 * width);
        let before = self.length;
        assert!(before + seq <= capacity, "{before} and {seq} positions in room for {capacity}");
        self.length += seq;

        let numbers = capacity * head_size;
        let contexts: Vec<Vec<f32>> = self
            .keys
            .par_chunks_exact_mut(numbers)
            .zip(self.values.par_chunks_exact_mut(numbers))
            .enumerate()
            .map(|(index, (keys, values))| {
                let (row, head) = (index / heads, index % heads);
                let new = Positions {
                    numbers: &query_key_value[row * seq * 3 * width..][..seq * 3 * width],
                    width,
                    first: head * head_size,
                    head_size,
                };
                let mut head = Head { keys, values, head_size, capacity };
                head.append(&new, before);
                head.contexts(vector, &new, before, scale)
            })
            .collect();

        let mut output = vec![0.0; rows * seq * width];
        let positions = output.chunks_exact_mut(width).enumerate();
        for (position, output) in positions {
            let (row, place) = (position / seq, position % seq);
            for (head, output) in output.chunks_exact_mut(head_size).enumerate() {
                let context = &contexts[row * heads + head];
                output.copy_from_slice(&context[place * head_size..][..head_size]);
            }
        }
        output
    }
}

/// New positions of one row, as one head sees them.
struct Positions<'a> {
    /// `[seq, 3 · width]`.
    numbers: &'a [f32],
    /// Numbers of all heads.
    width: usize,
    /// Where the head begins among them.
    first: usize,
    head_size: usize,
}

impl<'a> Positions<'a> {
    /// The head's query, key and value at each position.
    fn iter(&self) -> impl Iterator<Item = [&'a [f32]; 3]> {
        self.numbers.chunks_exact(3 * self.width).map(|numbers| {
            [0, 1, 2].map(|block| &numbers[block * self.width + self.first..][..self.head_size])
        })
    }
}

/// Keys and values of one row and head.
struct Head<'a> {
    /// `[head_size, capacity]`.
    keys: &'a mut [f32],
    /// `[capacity, head_size]`.
    values: &'a mut [f32],
    head_size: usize,
    capacity: usize,
}

impl Head<'_> {
    fn append(&mut self, new: &Positions<'_>, before: usize) {
        for (place, [_, key, value]) in new.iter().enumerate() {
            let position = before + place;
            let column = self.keys[position..].iter_mut().step_by(self.capacity);
            column.zip(key).for_each(|(kept, &number)| *kept = number);
            self.values[position * self.head_size..][..self.head_size].copy_from_slice(value);
        }
    }

    /// What each new query takes from the positions up to its own, `[seq, head_size]`.
    fn contexts(&self, vector: Vector, new: &Positions<'_>, before: usize, scale: f32) -> Vec<f32> {
        let mut contexts = Vec::new();
        let mut scores = Vec::new();
        for (place, [query, _, _]) in new.iter().enumerate() {
            scores.clear();
            scores.resize(before + place + 1, 0.0);
            add_rows(vector, query, self.keys, self.capacity, &mut scores);
            softmax(vector, &mut scores, scale);
            let start = contexts.len();
            contexts.resize(start + self.head_size, 0.0);
            let context = &mut contexts[start..];
            add_rows(vector, &scores, self.values, self.head_size, context);
        }
        contexts
    }
}
