//! Which documents are near-duplicates: the decisions, in input order.
//!
//! **Rule.** A document is removed only if a document that stands *earlier* in the input and was
//! itself *kept* has a Jaccard similarity strictly above the threshold with it; its witness is the
//! earliest such document. The rule is not closed over chains: with `a ~ b ~ c` but not `a ~ c`,
//! `b` goes and `c` stays. Components of the similarity graph, the usual alternative, would remove
//! `c` too, although nothing like it is left in the corpus.
//!
//! **Candidates** are the kept documents that share a feature with the document
//! ([`Candidates`](super::Candidates)) and may be near-duplicates by a look at the index
//! ([`screen`](super::screen)); each is compared with it exactly, which alone can accept it.
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

use super::candidate_list::CandidateList;
use super::candidates::{CandidateIndex, Featured, Method};
use super::document_set::DocumentSet;
use super::jaccard::jaccard_above;
use super::rule::NearDuplicateRule;
use super::signed::SignedCorpus;
use super::stretch::{HOT_BUCKET_MEMBERS, HotBucket, Removal, Stretch, StretchPlace};
use crate::CurationError;
use crate::stop::stop_if_asked;

/// Documents of one stretch.
const STRETCH_DOCUMENTS: u32 = 1 << 16;

/// Documents that are compared with the index at once.
const BLOCK_DOCUMENTS: usize = 512;

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
/// It holds the index and one bit for each document; the exact method also a table of counts, of an
/// eighth of the bytes that the index is allowed.
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
    /// How candidates are found, once it is needed.
    method: Option<Method>,
    /// The index of this pass, once it is needed.
    index: Option<Box<dyn CandidateIndex>>,
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
            method: None,
            index: None,
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
        self.index.as_ref().map_or(0, |index| index.bytes())
            + self.method.as_ref().map_or(0, Method::bytes)
            + self.removed.bytes()
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
    /// [`CurationError::Stopped`] when the observer asked for it. The search is then of no more
    /// use, but what it returned before is good.
    pub fn next_stretch(
        &mut self,
        observer: &dyn Observer,
    ) -> Result<Option<Stretch>, CurationError> {
        self.begin_pass_if_due();
        let corpus = self.corpus;
        if self.next == corpus.len() {
            return Ok(None);
        }
        let method = match self.method.take() {
            Some(method) => method,
            None => Method::new(&self.rule, corpus, self.index_bytes, observer)?,
        };
        let mut index = match self.index.take() {
            Some(index) => index,
            None => self.index_of_pass(&method, observer)?,
        };
        let mut block_index = method.empty_index();

        let start = self.next;
        let end = corpus.len().min(start.saturating_add(STRETCH_DOCUMENTS));
        let mut found = StretchFindings::default();
        while self.next < end {
            let before = self.decided;
            let block: Vec<u32> = self.not_removed(self.next..end).take(BLOCK_DOCUMENTS).collect();
            let after = match block.last() {
                Some(&last) if block.len() == BLOCK_DOCUMENTS => last + 1,
                _ => end,
            };
            let block = featured(&method, corpus, &block);
            let compared = self.compare_with_index(&block, &*index, observer)?;
            let not_indexed = self.decide_block(
                block,
                compared,
                &mut *index,
                &mut *block_index,
                &mut found,
                observer,
            )?;
            if self.indexed == self.next {
                self.indexed = not_indexed.unwrap_or(after);
            }
            self.next = after;
            observer.advance(self.decided - before);
        }
        let hot_buckets = found.hot_buckets(&*index);
        self.method = Some(method);
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
    fn index_of_pass(
        &self,
        method: &Method,
        observer: &dyn Observer,
    ) -> Result<Box<dyn CandidateIndex>, CurationError> {
        let corpus = self.corpus;
        let mut index = method.index(self.index_bytes, corpus, self.pass_start..corpus.len());
        let held: Vec<u32> = self.not_removed(self.pass_start..self.indexed).collect();
        for block in held.chunks(BLOCK_DOCUMENTS) {
            stop_if_asked(observer)?;
            let mut block = featured(method, corpus, block);
            block.retain(|document| !document.features.is_empty());
            index.insert(&block);
        }
        Ok(index)
    }

    /// Compares the documents of a block with the index, on all threads. A witness found here is
    /// earlier than any within the block.
    fn compare_with_index(
        &self,
        block: &[Featured],
        index: &dyn CandidateIndex,
        observer: &dyn Observer,
    ) -> Result<Vec<Found>, CurationError> {
        let find = |candidates: &mut CandidateList, document: &Featured| {
            stop_if_asked(observer)?;
            Ok(self.find(document, index, candidates))
        };
        block.par_iter().map_init(candidate_list, find).collect()
    }

    /// Decides about the documents of a block, which were compared with the index, by comparing the
    /// remaining ones with those that are kept of the block, in order. What fits the index enters
    /// it; the first that does not is returned, and the documents from there on are left to the
    /// next pass.
    fn decide_block(
        &mut self,
        block: Vec<Featured>,
        compared: Vec<Found>,
        index: &mut dyn CandidateIndex,
        block_index: &mut dyn CandidateIndex,
        found: &mut StretchFindings,
        observer: &dyn Observer,
    ) -> Result<Option<u32>, CurationError> {
        let mut filling = self.indexed == self.next;
        let mut not_indexed = None;
        let mut kept: Vec<Featured> = Vec::new();
        let mut features_of_kept = 0;
        let mut candidates = candidate_list();
        block_index.reset(block.len(), block.iter().map(|document| document.features.len()).sum());
        for (document, before) in block.into_iter().zip(compared) {
            stop_if_asked(observer)?;
            let mut removal = before.removal;
            found.add_cost(before);
            if removal.is_none() && !kept.is_empty() {
                let within = self.find(&document, block_index, &mut candidates);
                removal = within.removal;
                found.add_cost(within);
            }
            if let Some(removal) = removal {
                self.remove(removal.document);
                found.removed.push(removal);
                continue;
            }
            let features = document.features.len();
            if filling && !index.has_room_for(kept.len() + 1, features_of_kept + features) {
                filling = false;
                not_indexed = Some(document.document);
            }
            if filling {
                self.decided += 1;
                // Without features, it can be nobody's witness.
                if features > 0 {
                    block_index.insert(std::slice::from_ref(&document));
                    features_of_kept += features;
                    kept.push(document);
                }
            }
        }
        index.insert(&kept);
        Ok(not_indexed)
    }

    /// Finds the earliest document of `index` that `document` is a near-duplicate of.
    fn find(
        &self,
        document: &Featured,
        index: &dyn CandidateIndex,
        candidates: &mut CandidateList,
    ) -> Found {
        let mut found = Found::default();
        if document.features.is_empty() {
            return found;
        }
        let started = Instant::now();
        index.candidates(document, candidates);
        found.nearly_hot = candidates.noted().to_vec();
        let shingles = self.corpus.shingles(document.document);
        found.removal = candidates.as_slice().iter().find_map(|&witness| {
            let theirs = self.corpus.shingles(witness);
            let jaccard = jaccard_above(shingles, theirs, self.rule.threshold)?;
            Some(Removal { document: document.document, witness, jaccard })
        });
        if !found.nearly_hot.is_empty() {
            found.hot_bucket_time = started.elapsed();
        }
        found
    }

    fn remove(&mut self, document: u32) {
        self.removed.insert(document);
        self.decided += 1;
    }

    fn not_removed(&self, documents: Range<u32>) -> impl Iterator<Item = u32> {
        documents.filter(|&document| !self.removed.contains(document))
    }
}

/// A list that notes what may be hot.
fn candidate_list() -> CandidateList {
    CandidateList::noting_above(NEARLY_HOT_MEMBERS)
}

/// Documents with their features, made on all threads.
fn featured(method: &Method, corpus: &dyn SignedCorpus, documents: &[u32]) -> Vec<Featured> {
    documents
        .par_iter()
        .with_min_len(32)
        .map(|&document| method.featured(corpus, document))
        .collect()
}

/// The outcome of one document's comparison with one index.
#[derive(Default)]
struct Found {
    removal: Option<Removal>,
    nearly_hot: Vec<u64>,
    /// Time of the comparison, where it met a bucket that is nearly hot.
    hot_bucket_time: Duration,
}

/// What a stretch found so far.
#[derive(Default)]
struct StretchFindings {
    removed: Vec<Removal>,
    nearly_hot: BTreeSet<u64>,
    hot_bucket_time: Duration,
}

impl StretchFindings {
    fn add_cost(&mut self, found: Found) {
        self.nearly_hot.extend(found.nearly_hot);
        self.hot_bucket_time += found.hot_bucket_time;
    }

    /// Those of the met buckets that are hot by now.
    fn hot_buckets(&self, index: &dyn CandidateIndex) -> Vec<HotBucket> {
        let count = |&key: &u64| {
            let (members, oldest) = index.size_and_oldest(key);
            let example = oldest.filter(|_| members > HOT_BUCKET_MEMBERS)?;
            Some(HotBucket { key, members, example })
        };
        self.nearly_hot.iter().filter_map(count).collect()
    }
}
