//! The bands of the documents that were kept: where a new document finds those worth comparing.
//!
//! A bucket holds every kept document with one band key, and is never cut: a limit would make the
//! result depend on it. Members are chained from the newest to the oldest through one flat array,
//! so that a bucket with a single member, as nearly all are, costs no allocation of its own.

use std::cmp::Reverse;

use super::bands::{BandLayout, bands};
use super::greedy::HotBucket;
use crate::key_hash::HashKeyedMap;

/// Ends a chain of members.
const NONE: u32 = u32::MAX;

/// An index from band keys to kept documents.
pub(super) struct LshIndex {
    layout: BandLayout,
    buckets: HashKeyedMap<u64, Bucket>,
    /// Document number of each kept document, ascending.
    documents: Vec<u32>,
    /// For each kept document and band, the next older member of that band's bucket, as a place in
    /// `documents`.
    older: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Bucket {
    /// Place in `documents` of the oldest member.
    oldest: u32,
    /// Place in `documents` of the newest member.
    newest: u32,
    members: u32,
}

impl LshIndex {
    pub(super) fn new(layout: BandLayout) -> Self {
        Self { layout, buckets: HashKeyedMap::default(), documents: Vec::new(), older: Vec::new() }
    }

    /// Adds a kept document, whose number must be above all before it.
    pub(super) fn insert(&mut self, document: u32, signature: &[u32]) {
        let place =
            u32::try_from(self.documents.len()).expect("no more places than document numbers");
        self.documents.push(document);
        for key in bands(signature, self.layout) {
            let bucket = self.buckets.entry(key).or_insert(Bucket {
                oldest: place,
                newest: NONE,
                members: 0,
            });
            self.older.push(bucket.newest);
            bucket.newest = place;
            bucket.members += 1;
        }
    }

    /// Collects the kept documents, numbered `since` or higher, that share a band with a signature:
    /// ascending, each once.
    ///
    /// Returns the number of members of the largest bucket that was met.
    pub(super) fn candidates(&self, signature: &[u32], since: u32, out: &mut Vec<u32>) -> u32 {
        out.clear();
        let mut largest = 0;
        for (band, key) in bands(signature, self.layout).enumerate() {
            let Some(bucket) = self.buckets.get(&key) else { continue };
            largest = largest.max(bucket.members);
            let mut place = bucket.newest;
            while place != NONE {
                let document = self.documents[place as usize];
                if document < since {
                    break;
                }
                out.push(document);
                place = self.older[place as usize * self.layout.bands + band];
            }
        }
        out.sort_unstable();
        out.dedup();
        largest
    }

    /// The buckets with more than `members` kept documents, largest first.
    pub(super) fn buckets_above(&self, members: u32) -> Vec<HotBucket> {
        let mut found: Vec<HotBucket> = self
            .buckets
            .values()
            .filter(|bucket| bucket.members > members)
            .map(|bucket| HotBucket {
                members: bucket.members,
                example: self.documents[bucket.oldest as usize],
            })
            .collect();
        found.sort_unstable_by_key(|bucket| (Reverse(bucket.members), bucket.example));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: BandLayout = BandLayout { bands: 2, rows: 2 };

    /// Documents 0, 10, 20, …, 70: all agree in the first band, every other one in the second too.
    fn index() -> LshIndex {
        let mut index = LshIndex::new(LAYOUT);
        for number in 0..8 {
            index.insert(10 * number, &[1, 2, 3, 100 + number % 2]);
        }
        index
    }

    #[test]
    fn candidates_are_ascending_and_each_comes_once() {
        let mut found = vec![77];
        let largest = index().candidates(&[1, 2, 3, 100], 0, &mut found);
        assert_eq!(found, [0, 10, 20, 30, 40, 50, 60, 70]);
        assert_eq!(largest, 8);
        index().candidates(&[9, 9, 3, 101], 0, &mut found);
        assert_eq!(found, [10, 30, 50, 70]);
        assert_eq!(index().candidates(&[9, 9, 9, 9], 0, &mut found), 0);
        assert!(found.is_empty());
    }

    #[test]
    fn only_documents_since_a_number_are_found() {
        let mut found = Vec::new();
        index().candidates(&[9, 9, 3, 100], 40, &mut found);
        assert_eq!(found, [40, 60]);
    }

    #[test]
    fn large_buckets_are_named_with_their_earliest_document() {
        assert_eq!(
            index().buckets_above(3),
            [
                HotBucket { members: 8, example: 0 },
                HotBucket { members: 4, example: 0 },
                HotBucket { members: 4, example: 10 },
            ]
        );
        assert_eq!(index().buckets_above(8), []);
    }
}
