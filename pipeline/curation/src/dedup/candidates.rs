//! Which kept documents are worth comparing with a new one: features that documents share, and an
//! index from features to documents.
//!
//! There are two methods. [`Candidates::Bands`] takes the bands of a MinHash signature for
//! features, which misses a small and known part of the pairs. [`Candidates::Exact`] takes the
//! rarest of a document's shingles, at least one of which any pair above the threshold has in
//! common, and misses none; it costs more time and memory. Both propose pairs only: the search
//! compares each exactly.

use std::ops::Range;

use corpus::Observer;

use super::bands::{BandLayout, bands};
use super::candidate_list::CandidateList;
use super::jaccard::Threshold;
use super::lsh_index::LshIndex;
use super::prefix_index::PrefixIndex;
use super::prefixes::Prefixes;
use super::rule::NearDuplicateRule;
use super::screen::Sketch;
use super::signed::SignedCorpus;
use crate::CurationError;

/// How pairs are found that may be above the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Candidates {
    /// By the bands of MinHash signatures.
    Bands(BandLayout),
    /// By their rarest shingles: every pair above the threshold is found.
    Exact,
}

impl Candidates {
    /// How signatures are cut into bands, where there are any.
    #[must_use]
    pub const fn layout(self) -> Option<BandLayout> {
        match self {
            Self::Bands(layout) => Some(layout),
            Self::Exact => None,
        }
    }
}

/// A document with its features.
#[derive(Debug, Clone)]
pub(super) struct Featured {
    pub(super) document: u32,
    /// Size of its shingle set.
    pub(super) num_shingles: u32,
    pub(super) sketch: Sketch,
    /// None where it can resemble no other document.
    pub(super) features: Vec<u64>,
}

/// An index from features to the kept documents that have them. It takes a fixed number of bytes,
/// whatever it holds.
///
/// A *bucket* is all documents with one feature. None is ever cut: a limit would make the result
/// depend on it.
pub(super) trait CandidateIndex: Send + Sync {
    /// Empties the index and makes room for `documents` documents with `features` features in all.
    fn reset(&mut self, documents: usize, features: usize);

    /// Whether so many more documents and features fit.
    fn has_room_for(&self, documents: usize, features: usize) -> bool;

    /// Adds kept documents, whose numbers must be above all before them.
    ///
    /// # Panics
    ///
    /// When they do not fit.
    fn insert(&mut self, kept: &[Featured]);

    /// Collects the documents that share a feature with `document` and are worth comparing with it:
    /// ascending, each once.
    fn candidates(&self, document: &Featured, out: &mut CandidateList);

    /// The number of members of a bucket, and the number of the oldest document in it.
    fn size_and_oldest(&self, feature: u64) -> (u32, Option<u32>);

    /// Bytes that it takes.
    fn bytes(&self) -> usize;
}

/// A method, made ready for one corpus.
pub(super) enum Method {
    Bands { layout: BandLayout, threshold: Threshold },
    Exact(Prefixes),
}

impl Method {
    /// Makes a method ready; for [`Candidates::Exact`], this counts the shingles of all documents.
    pub(super) fn new(
        rule: &NearDuplicateRule,
        corpus: &dyn SignedCorpus,
        index_bytes: u64,
        observer: &dyn Observer,
    ) -> Result<Self, CurationError> {
        Ok(match rule.candidates {
            Candidates::Bands(layout) => Self::Bands { layout, threshold: rule.threshold },
            Candidates::Exact => {
                Self::Exact(Prefixes::new(rule.threshold, corpus, index_bytes / 8, observer)?)
            }
        })
    }

    /// A document with its features.
    pub(super) fn featured(&self, corpus: &dyn SignedCorpus, document: u32) -> Featured {
        let signature = corpus.signature(document);
        let features = match self {
            _ if corpus.num_shingles(document) == 0 => Vec::new(),
            Self::Bands { layout, .. } => {
                (0..).zip(bands(signature, *layout)).map(LshIndex::feature).collect()
            }
            Self::Exact(prefixes) => prefixes.prefix(corpus.shingles(document)),
        };
        let num_shingles =
            u32::try_from(corpus.num_shingles(document)).expect("fewer than 2^32 shingles");
        Featured { document, num_shingles, sketch: Sketch::of(signature), features }
    }

    /// Bytes that the method takes besides its indexes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Bands { .. } => 0,
            Self::Exact(prefixes) => prefixes.bytes(),
        }
    }

    /// An index without room.
    pub(super) fn empty_index(&self) -> Box<dyn CandidateIndex> {
        match self {
            Self::Bands { layout, threshold } => Box::new(LshIndex::new(*layout, *threshold, 0)),
            Self::Exact(_) => Box::new(PrefixIndex::new(0)),
        }
    }

    /// An index of at most `bytes` bytes for as many of `documents` as fit, but for the first of
    /// them in any case.
    pub(super) fn index(
        &self,
        bytes: u64,
        corpus: &dyn SignedCorpus,
        documents: Range<u32>,
    ) -> Box<dyn CandidateIndex> {
        match self {
            Self::Bands { layout, threshold } => {
                let capacity = LshIndex::capacity_of(*layout, bytes).max(1);
                Box::new(LshIndex::new(*layout, *threshold, capacity.min(documents.len())))
            }
            Self::Exact(prefixes) => {
                let mut longest = documents
                    .map(|document| prefixes.longest_prefix(corpus.num_shingles(document)));
                let first = longest.next().unwrap_or(0);
                let capacity = PrefixIndex::capacity_of(bytes).max(first);
                Box::new(PrefixIndex::new(capacity.min(first + longest.sum::<usize>())))
            }
        }
    }
}
