//! Which documents are near-duplicates: the decisions, in input order.
//!
//! **Rule.** A document is removed only if a document that stands *earlier* in the input and was
//! itself *kept* has a Jaccard similarity strictly above the threshold with it; its witness is the
//! earliest such document. The rule is not closed over chains: with `a ~ b ~ c` but not `a ~ c`,
//! `b` goes and `c` stays. Components of the similarity graph, the usual alternative, would remove
//! `c` too, although nothing like it is left in the corpus.
//!
//! **Candidates** are the kept documents that share a band with the document
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
//! **Passes.** An index of limited size holds the first kept documents only, as many as fit. All
//! later documents are compared with those, and the next pass begins at the first that did not fit,
//! with an empty index. A document is kept for good once it has been compared with all kept ones
//! before it, which is when it would enter the index; so the decisions, witnesses included, are the
//! same for any size. Dividing the bands over indexes instead would break the rule: no part would
//! know which documents are kept.
//!
//! **Parallel.** A block of documents is first compared with the index, on all threads, which finds
//! the witness of nearly every near-duplicate; what is left is compared with the kept part of its
//! own block, one document after another. Both look at the same kept documents as a plain loop
//! would, so the result is the same for any number of threads.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::{Duration, Instant};

use corpus::Observer;
use rayon::prelude::*;

use super::bands::bands;
use super::index::{LshIndex, MetBucket};
use super::jaccard::{Jaccard, jaccard_above};
use super::rule::NearDuplicateRule;
use super::signature::agreement;
use super::signed::SignedCorpus;
use super::stretch::{HOT_BUCKET_MEMBERS, HotBucket, HotBuckets, Removal, Stretch, StretchPlace};
use crate::CurationError;
use crate::stop::stop_if_asked;

/// Documents of one stretch.
const STRETCH_DOCUMENTS: u32 = 1 << 16;

/// Documents that are compared with the index at once.
const BLOCK_DOCUMENTS: usize = 512;

/// Two sets are screened by signature when they hold together this many shingles for each bin of a
/// signature.
const SCREENED_SHINGLES_PER_BIN: usize = 8;

/// A bucket that a document meets with more members than this may be hot at the end of the block.
const NEARLY_HOT_MEMBERS: u32 = HOT_BUCKET_MEMBERS - BLOCK_DOCUMENTS as u32;

/// The search for near-duplicates, stretch by stretch.
///
/// ```text
/// let mut search = Search::new(&corpus, &rule, index_bytes);
/// // What an earlier, interrupted search wrote down, up to `StretchPlace::usable`:
/// for stretch in &written { search.restore(stretch); }
/// while let Some(stretch) = search.next_stretch(observer)? { /* write it down */ }
/// ```
///
/// It holds the index and one bit for each document.
pub struct Search<'a> {
    corpus: &'a dyn SignedCorpus,
    rule: NearDuplicateRule,
    index_bytes: u64,
    removed: DocumentSet,
    /// Documents that are decided for good.
    decided: u64,
    pass: u32,
    /// The first document of this pass.
    pass_start: u32,
    /// The document that is looked at next.
    next: u32,
    /// See [`StretchPlace::indexed`]. Equal to `next` as long as the index takes documents in.
    indexed: u32,
    /// The index of this pass, once it is needed.
    index: Option<LshIndex>,
    /// Holds the kept documents of one block.
    block_index: LshIndex,
}

impl<'a> Search<'a> {
    /// A search over all documents of `corpus`, with an index of at most `index_bytes` bytes, and
    /// room for one document even where those are too few. The decisions are the same for any
    /// number of bytes; what does not fit costs further passes.
    #[must_use]
    pub fn new(corpus: &'a dyn SignedCorpus, rule: &NearDuplicateRule, index_bytes: u64) -> Self {
        Self {
            corpus,
            rule: *rule,
            index_bytes,
            removed: DocumentSet::empty(corpus.len()),
            decided: 0,
            pass: 0,
            pass_start: 0,
            next: 0,
            indexed: 0,
            index: None,
            block_index: LshIndex::new(rule.layout, BLOCK_DOCUMENTS),
        }
    }

    /// Documents that are decided for good: removed, or kept and never looked at again.
    #[must_use]
    pub fn decided(&self) -> u64 {
        self.decided
    }

    /// Bytes of memory that the search holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.index.as_ref().map_or(0, LshIndex::bytes)
            + self.block_index.bytes()
            + size_of_val(&*self.removed.bits)
    }

    /// Takes a stretch for decided. To be called in order, for the stretches that
    /// [`StretchPlace::usable`] names, before the first of [`next_stretch`](Self::next_stretch).
    ///
    /// # Panics
    ///
    /// When the stretch is not the next one.
    pub fn restore(&mut self, stretch: &Stretch) {
        self.begin_pass_if_due();
        let StretchPlace { pass, documents, indexed, .. } = &stretch.place;
        assert_eq!((*pass, documents.start), (self.pass, self.next), "stretches in order");
        for removal in &stretch.removed {
            self.remove(removal.document);
        }
        self.decided += self.not_removed(self.indexed..*indexed).count() as u64;
        self.next = documents.end;
        self.indexed = *indexed;
    }

    /// Decides the next stretch; `None` once every document is decided.
    ///
    /// The observer hears the number of documents that are decided for good.
    ///
    /// # Errors
    ///
    /// [`CurationError::Stopped`] when the observer asked for it. The search is then of no more use,
    /// but what it returned before is good.
    pub fn next_stretch(
        &mut self,
        observer: &dyn Observer,
    ) -> Result<Option<Stretch>, CurationError> {
        self.begin_pass_if_due();
        if self.next == self.corpus.len() {
            return Ok(None);
        }
        let mut index = match self.index.take() {
            Some(index) => index,
            None => self.index_of_pass(observer)?,
        };
        let start = self.next;
        let end = self.corpus.len().min(start.saturating_add(STRETCH_DOCUMENTS));
        let mut found = StretchFindings::default();
        while self.next < end {
            let before = self.decided;
            let block: Vec<u32> = self.not_removed(self.next..end).take(BLOCK_DOCUMENTS).collect();
            self.decide_block(&block, end, &mut index, &mut found, observer)?;
            observer.advance(self.decided - before);
        }
        let hot_buckets = found.hot_buckets(&index);
        self.index = Some(index);
        Ok(Some(Stretch {
            place: StretchPlace {
                pass: self.pass,
                documents: start..end,
                indexed: self.indexed,
                index_bytes: self.index_bytes,
            },
            removed: found.removed,
            hot_buckets,
            hot_bucket_time: found.hot_bucket_time,
        }))
    }

    /// Begins the next pass where one is over and documents are left that it could not index.
    fn begin_pass_if_due(&mut self) {
        if self.next == self.corpus.len() && self.indexed < self.next {
            self.pass += 1;
            self.pass_start = self.indexed;
            self.next = self.indexed;
            self.index = None;
        }
    }

    /// The index of this pass with the documents that it holds already.
    fn index_of_pass(&self, observer: &dyn Observer) -> Result<LshIndex, CurationError> {
        let fitting = LshIndex::capacity_of(self.rule.layout, self.index_bytes);
        let left = self.corpus.len() - self.pass_start;
        let mut index = LshIndex::new(self.rule.layout, fitting.max(1).min(left as usize));
        let kept: Vec<u32> = self
            .not_removed(self.pass_start..self.indexed)
            .filter(|&document| self.corpus.num_shingles(document) > 0)
            .collect();
        for block in kept.chunks(BLOCK_DOCUMENTS) {
            stop_if_asked(observer)?;
            index.insert(block, &self.keys(block));
        }
        Ok(index)
    }

    /// Decides about the documents of a block, which are all up to the last of them, or up to `end`
    /// where there are fewer than fit a block, that no earlier pass removed.
    fn decide_block(
        &mut self,
        block: &[u32],
        end: u32,
        index: &mut LshIndex,
        found: &mut StretchFindings,
        observer: &dyn Observer,
    ) -> Result<(), CurationError> {
        let bands = self.rule.layout.bands;
        let keys = self.keys(block);

        // Against the index. A witness found here is earlier than any within the block.
        let found_before: Result<Vec<Found>, CurationError> = block
            .par_iter()
            .zip(keys.par_chunks_exact(bands))
            .map_init(Vec::new, |candidates, (&document, keys)| {
                stop_if_asked(observer)?;
                Ok(self.find(document, keys, index, candidates))
            })
            .collect();
        let found_before = found_before?;

        // Against what is kept of this block, in order. Where the index is full, later passes do
        // this.
        let mut filling = self.indexed == self.next;
        let (mut kept, mut keys_of_kept) = (Vec::new(), Vec::new());
        let mut candidates = Vec::new();
        self.block_index.clear();
        for ((&document, keys), before) in
            block.iter().zip(keys.chunks_exact(bands)).zip(found_before)
        {
            let mut removal = before.removal;
            found.add_cost(before);
            if removal.is_none() && !self.block_index.is_empty() {
                let within = self.find(document, keys, &self.block_index, &mut candidates);
                removal = within.removal;
                found.add_cost(within);
            }
            if let Some(removal) = removal {
                self.remove(document);
                found.removed.push(removal);
            } else if filling && self.corpus.num_shingles(document) > 0 {
                if index.room() == kept.len() {
                    filling = false;
                    self.indexed = document;
                } else {
                    self.block_index.insert(&[document], keys);
                    kept.push(document);
                    keys_of_kept.extend_from_slice(keys);
                    self.decided += 1;
                }
            } else if filling {
                // Without words, and so never a witness.
                self.decided += 1;
            }
        }
        index.insert(&kept, &keys_of_kept);

        let is_last = block.len() < BLOCK_DOCUMENTS;
        self.next = block.last().filter(|_| !is_last).map_or(end, |&last| last + 1);
        if filling {
            self.indexed = self.next;
        }
        Ok(())
    }

    /// The keys of the bands of documents, one document after another.
    fn keys(&self, documents: &[u32]) -> Vec<u32> {
        documents
            .par_iter()
            .with_min_len(32)
            .flat_map_iter(|&document| bands(self.corpus.signature(document), self.rule.layout))
            .collect()
    }

    /// Finds the earliest document of `index` that `document` is a near-duplicate of.
    fn find(
        &self,
        document: u32,
        keys: &[u32],
        index: &LshIndex,
        candidates: &mut Vec<u32>,
    ) -> Found {
        let mut found = Found::default();
        if self.corpus.num_shingles(document) == 0 {
            return found;
        }
        let started = Instant::now();
        index.candidates(keys, NEARLY_HOT_MEMBERS, candidates, &mut found.nearly_hot);
        found.removal = candidates.iter().find_map(|&witness| {
            let jaccard = self.compare(document, witness)?;
            Some(Removal { document, witness, jaccard })
        });
        if !found.nearly_hot.is_empty() {
            found.hot_bucket_time = started.elapsed();
        }
        found
    }

    /// The exact similarity of two documents, if it is above the threshold.
    fn compare(&self, document: u32, candidate: u32) -> Option<Jaccard> {
        let (size, candidate_size) =
            (self.corpus.num_shingles(document), self.corpus.num_shingles(candidate));
        if !self.rule.threshold.allows_sizes(size, candidate_size) {
            return None;
        }
        let bins = self.rule.bins();
        if size + candidate_size >= SCREENED_SHINGLES_PER_BIN * bins {
            let agreeing =
                agreement(self.corpus.signature(document), self.corpus.signature(candidate));
            if 2 * agreeing < bins {
                return None;
            }
        }
        let (left, right) = (self.corpus.shingles(document), self.corpus.shingles(candidate));
        jaccard_above(left, right, self.rule.threshold)
    }

    fn remove(&mut self, document: u32) {
        self.removed.insert(document);
        self.decided += 1;
    }

    fn not_removed(&self, documents: Range<u32>) -> impl Iterator<Item = u32> {
        documents.filter(|&document| !self.removed.contains(document))
    }
}

/// The outcome of one document's comparison with one index.
#[derive(Default)]
struct Found {
    removal: Option<Removal>,
    nearly_hot: Vec<MetBucket>,
    /// Time of the comparison, where it met a bucket that is nearly hot.
    hot_bucket_time: Duration,
}

/// What a stretch found so far.
#[derive(Default)]
struct StretchFindings {
    removed: Vec<Removal>,
    nearly_hot: BTreeSet<MetBucket>,
    hot_bucket_time: Duration,
}

impl StretchFindings {
    fn add_cost(&mut self, found: Found) {
        self.nearly_hot.extend(found.nearly_hot);
        self.hot_bucket_time += found.hot_bucket_time;
    }

    /// Those of the met buckets that are hot by now.
    fn hot_buckets(&self, index: &LshIndex) -> Vec<HotBucket> {
        let count = |&bucket: &MetBucket| {
            let (members, oldest) = index.size_and_oldest(bucket);
            let example = oldest.filter(|_| members > HOT_BUCKET_MEMBERS)?;
            let key = u64::from(bucket.band) << 32 | u64::from(bucket.key);
            Some(HotBucket { key, members, example })
        };
        self.nearly_hot.iter().filter_map(count).collect()
    }
}

/// A set of documents, one bit for each of the corpus.
struct DocumentSet {
    bits: Vec<u64>,
}

impl DocumentSet {
    fn empty(num_documents: u32) -> Self {
        Self { bits: vec![0; (num_documents as usize).div_ceil(64)] }
    }

    fn insert(&mut self, document: u32) {
        self.bits[document as usize / 64] |= 1 << (document % 64);
    }

    fn contains(&self, document: u32) -> bool {
        self.bits[document as usize / 64] >> (document % 64) & 1 == 1
    }
}

/// The decision on every document.
#[derive(Debug)]
pub struct NearDuplicates {
    /// For each document, why it is removed; `None` where it is kept.
    pub removed: Vec<Option<Removal>>,
    /// Buckets with more than [`HOT_BUCKET_MEMBERS`] kept members, largest first.
    pub hot_buckets: Vec<HotBucket>,
    /// Time of all threads spent on documents that met such a bucket.
    pub hot_bucket_time: Duration,
}

/// Decides about all documents at once, with an index as large as they need.
///
/// The observer hears the number of documents that are decided.
///
/// # Errors
///
/// [`CurationError::Stopped`] when the observer asked for it.
pub fn near_duplicates(
    corpus: &dyn SignedCorpus,
    rule: &NearDuplicateRule,
    observer: &dyn Observer,
) -> Result<NearDuplicates, CurationError> {
    let mut search = Search::new(corpus, rule, u64::MAX);
    let mut removed = vec![None; corpus.len() as usize];
    let mut hot_buckets = HotBuckets::default();
    let mut hot_bucket_time = Duration::ZERO;
    while let Some(stretch) = search.next_stretch(observer)? {
        hot_buckets.add(&stretch);
        hot_bucket_time += stretch.hot_bucket_time;
        for removal in stretch.removed {
            removed[removal.document as usize] = Some(removal);
        }
    }
    Ok(NearDuplicates { removed, hot_buckets: hot_buckets.largest_first(), hot_bucket_time })
}
