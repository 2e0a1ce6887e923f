//! Samples: what each number means, over all sources of a run.
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
//!
//! Several sources are numbered one behind the other: source `i` has the numbers from the sum of
//! the sources before it on. One number thus names source and sample, in every epoch and layout.

use std::ops::Range;
use std::sync::Arc;

use corpus::shard::ShardReader;

use super::megatron_index::MegatronIndex;
use super::stream::TokenStream;
use crate::TrainError;

/// The samples of one source.
#[derive(Debug, Clone)]
pub struct SourceSamples {
    stream: TokenStream,
    seq_length: usize,
    index: Option<Arc<MegatronIndex>>,
}

impl SourceSamples {
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

    pub(super) fn read(&self, sample: u64, out: &mut Vec<u32>) -> Result<(), TrainError> {
        if let Some(index) = &self.index {
            return Ok(index.read(&self.stream, sample, out)?);
        }
        assert!(sample < self.len(), "sample {sample} of {}", self.len());
        let filled = out.len();
        out.resize(filled + self.seq_length + 1, 0);
        Ok(self.stream.read(sample * self.seq_length as u64, &mut out[filled..])?)
    }
}

/// The samples of all sources, under one numbering.
#[derive(Debug, Clone)]
pub struct Samples {
    sources: Vec<SourceSamples>,
    /// The first number of each source, and the one behind the last.
    first_ids: Vec<u64>,
    seq_length: usize,
}

impl Samples {
    /// The samples of `seq_length` inputs each in the documents `documents` of one shard.
    ///
    /// # Panics
    ///
    /// When the shard has no such documents.
    #[must_use]
    pub fn new(shard: &Arc<ShardReader>, documents: Range<u64>, seq_length: usize) -> Self {
        let stream = TokenStream::new(shard, documents);
        Self::of_sources(vec![SourceSamples::new(stream, seq_length)])
    }

    /// The samples of several sources.
    ///
    /// # Panics
    ///
    /// When there is no source, they differ in the length of a sample, or their samples are more
    /// than 64 bits can number.
    #[must_use]
    pub fn of_sources(sources: Vec<SourceSamples>) -> Self {
        let seq_length = sources[0].seq_length;
        let mut first_ids = vec![0_u64];
        for source in &sources {
            assert_eq!(source.seq_length, seq_length, "samples of one length");
            let first = first_ids[first_ids.len() - 1];
            first_ids.push(first.checked_add(source.len()).expect("samples in 64 bits"));
        }
        Self { sources, first_ids, seq_length }
    }

    /// Numbers that name a sample.
    pub fn len(&self) -> u64 {
        self.first_ids[self.sources.len()]
    }

    /// Whether there is no whole sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whole samples when each source is gone through once.
    pub fn per_epoch(&self) -> u64 {
        self.sources.iter().map(SourceSamples::per_epoch).sum()
    }

    /// Tokens of the documents, those that belong to no sample included.
    pub fn num_tokens(&self) -> u64 {
        self.sources.iter().map(SourceSamples::num_tokens).sum()
    }

    /// Inputs per sample.
    pub fn seq_length(&self) -> usize {
        self.seq_length
    }

    /// The sources.
    pub fn sources(&self) -> &[SourceSamples] {
        &self.sources
    }

    /// The number of a source's sample.
    pub fn id_of(&self, source: usize, sample: u64) -> u64 {
        self.first_ids[source] + sample
    }

    /// Appends the `seq_length + 1` tokens of sample `id` to `out`.
    ///
    /// # Errors
    ///
    /// When a shard cannot be read there.
    ///
    /// # Panics
    ///
    /// When there is no such sample.
    pub fn read(&self, id: u64, out: &mut Vec<u32>) -> Result<(), TrainError> {
        assert!(id < self.len(), "sample {id} of {}", self.len());
        let source = self.first_ids.partition_point(|&first| first <= id) - 1;
        self.sources[source].read(id - self.first_ids[source], out)
    }

    /// Loss in nats of predicting each token by its frequency in these documents, those of all
    /// sources alike: what a model has to beat to have learned anything about context.
    ///
    /// # Errors
    ///
    /// When a shard cannot be read.
    pub fn unigram_loss(&self) -> Result<f64, TrainError> {
        let mut counts: Vec<u64> = Vec::new();
        for source in &self.sources {
            count_tokens(source.stream(), &mut counts)?;
        }
        let total = self.num_tokens() as f64;
        let shares = counts.iter().filter(|&&count| count > 0).map(|&count| count as f64 / total);
        Ok(shares.map(|share| -share * share.ln()).sum())
    }
}

/// Adds to `counts` how often each token is in `stream`.
fn count_tokens(stream: &TokenStream, counts: &mut Vec<u64>) -> Result<(), TrainError> {
    const BLOCK: u64 = 1 << 16;
    let mut block = Vec::new();
    let mut begin = 0;
    while begin < stream.num_tokens() {
        block.resize(BLOCK.min(stream.num_tokens() - begin) as usize, 0);
        stream.read(begin, &mut block)?;
        for &token in &block {
            let token = token as usize;
            if token >= counts.len() {
                counts.resize(token + 1, 0);
            }
            counts[token] += 1;
        }
        begin += block.len() as u64;
    }
    Ok(())
}
