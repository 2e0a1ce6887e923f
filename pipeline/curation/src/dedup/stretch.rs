//! The search in steps that can be written down: what a [`Stretch`] decided, and which of those on
//! disk a search can go on from.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::jaccard::Jaccard;

/// A bucket with more kept members than this is named in the report.
pub const HOT_BUCKET_MEMBERS: u32 = 4096;

/// Where in the search a stretch belongs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StretchPlace {
    /// The pass, numbered from 0.
    pub pass: u32,
    /// The documents that were looked at, in order, except those that an earlier pass removed.
    pub documents: Range<u32>,
    /// Kept documents below this number are in the index of this pass or of an earlier one: what is
    /// not removed by then stays for good. The next pass begins here.
    pub indexed: u32,
    /// Bytes that the index was allowed; decides where a pass stops to fill it.
    pub index_bytes: u64,
}

/// The outcome of one step of the search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// Where it belongs.
    pub place: StretchPlace,
    /// Documents that this step removed, ascending.
    pub removed: Vec<Removal>,
    /// Buckets with more than [`HOT_BUCKET_MEMBERS`] kept members that this step met.
    pub hot_buckets: Vec<HotBucket>,
    /// Time of all threads spent on documents that met a bucket of this size.
    pub hot_bucket_time: Duration,
}

/// A near-duplicate that is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// Number of the document.
    pub document: u32,
    /// Number of the earliest kept document that it resembles.
    pub witness: u32,
    /// Their similarity.
    pub jaccard: Jaccard,
}

/// Many kept documents that are candidates for each other without being near-duplicates: time lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotBucket {
    /// Which of the searched features the members have in common; tells buckets apart.
    pub key: u64,
    /// Kept documents in the bucket of this pass.
    pub members: u32,
    /// Number of the earliest of them.
    pub example: u32,
}

impl StretchPlace {
    /// How many of the stretches at these places, in the order in which they were decided, a search
    /// over `documents` documents with an index of `index_bytes` can go on from; the rest is to be
    /// decided again.
    ///
    /// A pass that was looked through to its end is good under any `index_bytes`, an unfinished one
    /// only under its own: another index would hold other documents.
    #[must_use]
    pub fn usable(places: &[Self], documents: u32, index_bytes: u64) -> usize {
        let mut usable = 0;
        let mut before: Option<&Self> = None;
        for (number, place) in places.iter().enumerate() {
            if !place.follows(before, documents) {
                break;
            }
            if place.documents.end == documents || place.index_bytes == index_bytes {
                // Where the index may be smaller or larger now, a pass counts at its end only.
                usable = number + 1;
            }
            before = Some(place);
        }
        usable
    }

    /// Whether a stretch is the next one after `before`.
    fn follows(&self, before: Option<&Self>, documents: u32) -> bool {
        let (pass, start, same_index) = match before {
            None => (0, 0, true),
            Some(last) if last.documents.end == documents => (last.pass + 1, last.indexed, true),
            Some(last) => (last.pass, last.documents.end, last.index_bytes == self.index_bytes),
        };
        self.pass == pass
            && self.documents.start == start
            && same_index
            && self.documents.start < self.documents.end
            && self.documents.end <= documents
    }
}

/// The hot buckets of many stretches, each once.
#[derive(Debug, Default)]
pub struct HotBuckets {
    /// By pass and key; the numbers of the last stretch that met the bucket.
    met: BTreeMap<(u32, u64), HotBucket>,
}

impl HotBuckets {
    /// Takes in a stretch; later ones of a pass after earlier ones.
    pub fn add(&mut self, stretch: &Stretch) {
        let pass = stretch.place.pass;
        self.met.extend(stretch.hot_buckets.iter().map(|bucket| ((pass, bucket.key), *bucket)));
    }

    /// The buckets, largest first. One that several passes met has their members together.
    #[must_use]
    pub fn largest_first(&self) -> Vec<HotBucket> {
        let mut buckets: BTreeMap<u64, HotBucket> = BTreeMap::new();
        for bucket in self.met.values() {
            let sum = buckets.entry(bucket.key).or_insert(HotBucket { members: 0, ..*bucket });
            sum.members += bucket.members;
        }
        let mut buckets: Vec<HotBucket> = buckets.into_values().collect();
        buckets.sort_unstable_by_key(|bucket| (Reverse(bucket.members), bucket.example));
        buckets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(pass: u32, documents: Range<u32>, indexed: u32, index_bytes: u64) -> StretchPlace {
        StretchPlace { pass, documents, indexed, index_bytes }
    }

    #[test]
    fn a_finished_pass_is_good_under_any_index_and_an_unfinished_one_under_its_own() {
        let places = [
            place(0, 0..40, 40, 9),
            place(0, 40..80, 55, 9),
            place(0, 80..100, 55, 9),
            place(1, 55..95, 95, 7),
        ];
        assert_eq!(StretchPlace::usable(&places, 100, 7), 4);
        assert_eq!(StretchPlace::usable(&places, 100, 9), 3);
        assert_eq!(StretchPlace::usable(&places, 100, 5), 3);
        assert_eq!(StretchPlace::usable(&places[..2], 100, 9), 2);
        assert_eq!(StretchPlace::usable(&places[..2], 100, 7), 0);
        assert_eq!(StretchPlace::usable(&[], 100, 7), 0);
    }

    #[test]
    fn only_what_follows_without_a_gap_is_good() {
        let good = place(0, 0..40, 40, 9);
        for odd in [
            place(0, 41..80, 80, 9),
            place(1, 40..80, 80, 9),
            place(0, 40..80, 80, 8),
            place(0, 40..101, 101, 9),
            place(0, 40..40, 40, 9),
        ] {
            assert_eq!(StretchPlace::usable(&[good.clone(), odd], 100, 9), 1);
        }
        assert_eq!(StretchPlace::usable(&[place(1, 0..100, 100, 9)], 100, 9), 0);
    }

    #[test]
    fn hot_buckets_count_their_members_over_passes_once() {
        let stretch = |pass, members| Stretch {
            place: place(pass, 0..1, 1, 9),
            removed: Vec::new(),
            hot_buckets: vec![
                HotBucket { key: 5, members, example: 10 * pass },
                HotBucket { key: u64::from(pass), members: 6_000, example: 7 },
            ],
            hot_bucket_time: Duration::ZERO,
        };
        let mut hot = HotBuckets::default();
        for (pass, members) in [(0, 5_000), (0, 5_100), (1, 4_200)] {
            hot.add(&stretch(pass, members));
        }
        assert_eq!(
            hot.largest_first(),
            [
                HotBucket { key: 5, members: 9_300, example: 0 },
                HotBucket { key: 0, members: 6_000, example: 7 },
                HotBucket { key: 1, members: 6_000, example: 7 },
            ]
        );
    }
}
