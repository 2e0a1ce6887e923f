//! Samples of running text: windows of one stream of tokens.
//!
//! The documents of a source's part are one [`TokenStream`], each document closed by its
//! end-of-document token. Sample `k` is tokens `k·S ..= (k+1)·S` of it, for a sequence length of
//! `S`: `S` inputs and, one place on, `S` targets, so that neighbors share one token. Documents are
//! crossed freely, as in the original implementation: attention and positions are not reset, and
//! the end-of-document token is a target like any other. Up to `S - 1` tokens at the end of the
//! part belong to no sample.
//!
//! In the order `"megatron"` the stream is that of all epochs' documents after their shuffle, and
//! sample `k` its tokens `k·S ..= (k+1)·S`: a number then names a sample of one epoch only, and the
//! stream's last `S - 1` tokens alone are left over.

use std::sync::Arc;

use super::megatron_index::MegatronIndex;
use super::stream::TokenStream;
use crate::TrainError;

/// The windows of one source.
#[derive(Debug, Clone)]
pub struct Windows {
    stream: TokenStream,
    seq_length: usize,
    index: Option<Arc<MegatronIndex>>,
}

impl Windows {
    /// The samples of `seq_length` inputs each of `stream`.
    #[must_use]
    pub fn new(stream: TokenStream, seq_length: usize) -> Self {
        Self { stream, seq_length, index: None }
    }

    /// The samples of `index`, which was built from `stream`.
    #[must_use]
    pub fn with_index(stream: TokenStream, seq_length: usize, index: MegatronIndex) -> Self {
        Self { stream, seq_length, index: Some(Arc::new(index)) }
    }

    /// Whole samples of one epoch.
    pub fn per_epoch(&self) -> u64 {
        self.num_tokens().saturating_sub(1) / self.seq_length as u64
    }

    /// Numbers that name a sample.
    pub fn len(&self) -> u64 {
        self.index.as_ref().map_or_else(|| self.per_epoch(), |index| index.num_samples())
    }

    /// Whether there is no whole sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens of the documents, those behind the last whole sample included.
    pub fn num_tokens(&self) -> u64 {
        self.stream.num_tokens()
    }

    /// Inputs per sample.
    pub fn seq_length(&self) -> usize {
        self.seq_length
    }

    /// The documents.
    pub fn stream(&self) -> &TokenStream {
        &self.stream
    }

    /// The order of the original implementation, where it is this one.
    pub fn index(&self) -> Option<&MegatronIndex> {
        self.index.as_deref()
    }

    /// Appends the `seq_length + 1` tokens of sample `sample` to `out`.
    ///
    /// # Errors
    ///
    /// When a shard cannot be read there.
    ///
    /// # Panics
    ///
    /// When there is no such sample.
    pub fn read(&self, sample: u64, out: &mut Vec<u32>) -> Result<(), TrainError> {
        if let Some(index) = &self.index {
            return Ok(index.read(&self.stream, sample, out)?);
        }
        assert!(sample < self.len(), "sample {sample} of {}", self.len());
        let filled = out.len();
        out.resize(filled + self.seq_length + 1, 0);
        Ok(self.stream.read(sample * self.seq_length as u64, &mut out[filled..])?)
    }
}
