//! Which documents are near-duplicates: the decisions, in input order.
//!
//! **Rule.** A document is removed only if a document that stands *earlier* in the input and was
//! itself *kept* has a Jaccard similarity strictly above the threshold with it; its witness is the
//! earliest such document. The rule is not closed over chains: with `a ~ b ~ c` but not `a ~ c`,
//! `b` goes and `c` stays. Components of the similarity graph, the usual alternative, would remove
//! `c` too, although nothing like it is left in the corpus.
//!
//! **Search.** Candidates are the kept documents that share a band with the document
//! ([`bands`](super::bands())), from buckets that are never cut. Each passes three tests, cheapest
//! first: the sizes of the two sets allow the threshold; the signatures agree in at least half of
//! their bins; the exact Jaccard similarity is above the threshold. Only the last can accept.
//!
//! **Screening.** The test by signatures saves merging two large sets, so only pairs with
//! [`SCREENED_SHINGLES_PER_BIN`] shingles per bin take it: for small sets the merge is as cheap,
//! and bins that were filled by copying repeat each other. A pair at exactly 0.7 agrees in each bin
//! with probability 0.7, and in fewer than half of 130 bins with 6 in 10 million (the binomial's
//! tail; one-permutation bins vary less than independent ones). That is nothing beside the 0.8% of
//! such pairs that share no band.
//!
//! **Parallel.** A block of documents is first compared with what was kept before it, on all
//! threads, which finds the witness of nearly every near-duplicate; what is left is compared with
//! the kept part of its own block, one document after another. Both look at the same kept documents
//! as a plain loop would, so the result is the same for any number of threads.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use corpus::Observer;
use rayon::prelude::*;

use super::bands::BandLayout;
use super::index::LshIndex;
use super::jaccard::{Jaccard, Threshold, jaccard_above};
use super::signature::agreement;
use super::signed::SignedDocuments;
use crate::CurationError;
use crate::stop::stop_if_asked;

/// Documents that are compared with the index at once.
const BLOCK_DOCUMENTS: usize = 256;

/// Two sets are screened by signature when they hold together this many shingles for each bin of a
/// signature.
const SCREENED_SHINGLES_PER_BIN: usize = 8;

/// A bucket with more kept members than this is named in the report.
pub const HOT_BUCKET_MEMBERS: u32 = 4096;

/// When two documents are near-duplicates, and how they are searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NearDuplicateRule {
    /// Words of one shingle.
    pub shingle_words: NonZeroUsize,
    /// The Jaccard similarity that a pair must exceed.
    pub threshold: Threshold,
    /// How signatures are cut into bands.
    pub layout: BandLayout,
    /// Chooses the hash functions of the signatures: which true pairs are missed, never which pairs
    /// are true.
    pub seed: u64,
}

/// Why a document is a near-duplicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NearDuplicate {
    /// Number of the earliest kept document that it resembles.
    pub witness: u32,
    /// Their similarity.
    pub jaccard: Jaccard,
}

/// Many kept documents that are candidates for each other without being near-duplicates: time lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HotBucket {
    /// Kept documents that share the band.
    pub members: u32,
    /// Number of the earliest of them.
    pub example: u32,
}

/// The decision on every document.
#[derive(Debug)]
pub struct NearDuplicates {
    /// For each document, why it is removed; `None` where it is kept.
    pub removed: Vec<Option<NearDuplicate>>,
    /// Buckets with more than [`HOT_BUCKET_MEMBERS`] kept members, largest first.
    pub hot_buckets: Vec<HotBucket>,
    /// Time of all threads spent on documents that met such a bucket.
    pub hot_bucket_time: Duration,
}

/// Decides about all documents, in the order of their numbers.
///
/// The observer hears the number of documents that are decided.
///
/// # Errors
///
/// [`CurationError::Stopped`] when the observer asked for it.
///
/// # Panics
///
/// With 2^32 documents or more, whose signatures would take two terabytes.
pub fn near_duplicates(
    signed: &SignedDocuments,
    rule: &NearDuplicateRule,
    observer: &dyn Observer,
) -> Result<NearDuplicates, CurationError> {
    let num_documents = u32::try_from(signed.len()).expect("fewer than 2^32 documents in memory");
    let mut search = Search { signed, rule, kept: LshIndex::new(rule.layout) };
    let mut removed = Vec::with_capacity(signed.len());
    let mut hot_bucket_time = Duration::ZERO;

    for start in (0..num_documents).step_by(BLOCK_DOCUMENTS) {
        let block = start..num_documents.min(start + BLOCK_DOCUMENTS as u32);
        let in_block = block.len() as u64;

        // Against all that was kept before this block. A witness found here is earlier than any
        // within the block.
        let found_before: Result<Vec<Found>, CurationError> = block
            .clone()
            .into_par_iter()
            .map_init(Vec::new, |candidates, document| {
                stop_if_asked(observer)?;
                Ok(search.find(document, 0, candidates))
            })
            .collect();

        // Against what is kept of this block, in order.
        let mut candidates = Vec::new();
        for (document, found) in block.zip(found_before?) {
            let within = match found.near_duplicate {
                Some(_) => Found::default(),
                None => search.find(document, start, &mut candidates),
            };
            hot_bucket_time += found.hot_bucket_time + within.hot_bucket_time;
            let decision = found.near_duplicate.or(within.near_duplicate);
            if decision.is_none() {
                search.keep(document);
            }
            removed.push(decision);
        }
        observer.advance(in_block);
    }

    let hot_buckets = search.kept.buckets_above(HOT_BUCKET_MEMBERS);
    Ok(NearDuplicates { removed, hot_buckets, hot_bucket_time })
}

/// What the decisions are made from: all documents, and an index of the kept ones.
struct Search<'a> {
    signed: &'a SignedDocuments,
    rule: &'a NearDuplicateRule,
    kept: LshIndex,
}

/// The outcome of one search.
#[derive(Default)]
struct Found {
    near_duplicate: Option<NearDuplicate>,
    /// Time of the search, where it met a hot bucket.
    hot_bucket_time: Duration,
}

impl Search<'_> {
    /// Finds the earliest kept document, numbered `since` or higher, that `document` is a
    /// near-duplicate of.
    fn find(&self, document: u32, since: u32, candidates: &mut Vec<u32>) -> Found {
        if self.signed.shingles(document as usize).is_empty() {
            return Found::default();
        }
        let started = Instant::now();
        let signature = self.signed.signature(document as usize);
        let largest_bucket = self.kept.candidates(signature, since, candidates);
        let near_duplicate = candidates.iter().find_map(|&witness| {
            Some(NearDuplicate { witness, jaccard: self.compare(document, witness)? })
        });
        let hot = largest_bucket > HOT_BUCKET_MEMBERS;
        Found {
            near_duplicate,
            hot_bucket_time: if hot { started.elapsed() } else { Duration::ZERO },
        }
    }

    /// The exact similarity of two documents, if it is above the threshold.
    fn compare(&self, document: u32, candidate: u32) -> Option<Jaccard> {
        let (document, candidate) = (document as usize, candidate as usize);
        let (left, right) = (self.signed.shingles(document), self.signed.shingles(candidate));
        if !self.rule.threshold.allows_sizes(left.len(), right.len()) {
            return None;
        }
        let bins = self.rule.layout.bins();
        if left.len() + right.len() >= SCREENED_SHINGLES_PER_BIN * bins {
            let agreeing =
                agreement(self.signed.signature(document), self.signed.signature(candidate));
            if 2 * agreeing < bins {
                return None;
            }
        }
        jaccard_above(left, right, self.rule.threshold)
    }

    /// Makes a document a possible witness of later ones.
    fn keep(&mut self, document: u32) {
        if !self.signed.shingles(document as usize).is_empty() {
            self.kept.insert(document, self.signed.signature(document as usize));
        }
    }
}
