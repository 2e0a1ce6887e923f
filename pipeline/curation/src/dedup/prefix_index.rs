//! The index of the exact method: from shingles of prefixes to kept documents.
//!
//! One table with open addressing has a slot of 8 bytes for each distinct shingle, and every
//! shingle of a document's prefix an entry of 8 bytes, chained from the newest to the oldest: with
//! a quarter more slots than entries, 18 bytes for each. A slot is told from another by 32 bits of
//! its shingle besides those that choose the place; two shingles that are the same in both share a
//! bucket, which proposes a pair too many and never one too few.

use super::buckets;
use super::candidate_list::CandidateList;
use super::candidates::{CandidateIndex, Featured};

/// An index from shingles to kept documents.
pub(super) struct PrefixIndex {
    /// Most entries that it can hold.
    capacity: usize,
    /// A table of [`buckets`]. A member is a place in `entries`, counted from 1.
    slots: Vec<u64>,
    entries: Vec<Entry>,
}

/// A document in a bucket.
#[derive(Clone, Copy)]
struct Entry {
    document: u32,
    /// The next older entry of the bucket.
    older: u32,
}

impl PrefixIndex {
    /// An empty index for `capacity` features.
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.min(u32::MAX as usize);
        Self {
            capacity,
            slots: vec![0; buckets::num_slots(capacity)],
            entries: Vec::with_capacity(capacity),
        }
    }

    /// The number of features that an index of `bytes` bytes can hold.
    pub(super) fn capacity_of(bytes: u64) -> usize {
        let four_entries = 5 * buckets::SLOT_BYTES + 4 * size_of::<Entry>();
        usize::try_from(4 * (bytes / four_entries as u64)).unwrap_or(usize::MAX)
    }

    /// The slot of a shingle.
    fn slot_of(&self, shingle: u64) -> usize {
        buckets::find(&self.slots, (shingle >> 32) as u32, shingle as u32)
    }

    /// The documents of a bucket, from the newest to the oldest.
    fn members(&self, shingle: u64) -> impl Iterator<Item = u32> {
        let newest = buckets::newest(self.slots[self.slot_of(shingle)]);
        buckets::chain(newest, |member| self.entries[member as usize - 1].older)
            .map(|member| self.entries[member as usize - 1].document)
    }
}

impl CandidateIndex for PrefixIndex {
    fn reset(&mut self, _documents: usize, features: usize) {
        if features > self.capacity {
            *self = Self::new(features);
        } else {
            self.slots.fill(0);
            self.entries.clear();
        }
    }

    fn has_room_for(&self, _documents: usize, features: usize) -> bool {
        features <= self.capacity - self.entries.len()
    }

    fn insert(&mut self, kept: &[Featured]) {
        for Featured { document, features, .. } in kept {
            assert!(self.has_room_for(1, features.len()), "room in the index");
            for &shingle in features {
                let slot = self.slot_of(shingle);
                let older = buckets::newest(self.slots[slot]);
                self.entries.push(Entry { document: *document, older });
                self.slots[slot] = buckets::slot(shingle as u32, self.entries.len() as u32);
            }
        }
    }

    fn candidates(&self, document: &Featured, out: &mut CandidateList) {
        let features = if self.entries.is_empty() { &[][..] } else { &document.features };
        out.collect(features.iter().copied(), |shingle| self.members(shingle));
    }

    fn size_and_oldest(&self, feature: u64) -> (u32, Option<u32>) {
        let size = self.members(feature).count() as u32;
        (size, self.members(feature).last())
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.slots) + self.capacity * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dedup::screen::Sketch;
    use crate::word_hash::mix;

    fn featured(document: u32, features: &[u64]) -> Featured {
        let features = features.iter().copied().map(mix).collect();
        Featured { document, num_shingles: 1, sketch: Sketch::of(&[]), features }
    }

    fn candidates(index: &PrefixIndex, features: &[u64]) -> Vec<u32> {
        let mut out = CandidateList::noting_above(99);
        index.candidates(&featured(99, features), &mut out);
        out.as_slice().to_vec()
    }

    #[test]
    fn documents_are_found_by_any_of_their_shingles() {
        let mut index = PrefixIndex::new(7);
        assert!(candidates(&index, &[1]).is_empty());
        index.insert(&[featured(3, &[1, 2]), featured(5, &[2, 7, 8])]);
        assert_eq!(candidates(&index, &[1]), [3]);
        assert_eq!(candidates(&index, &[8, 2, 7]), [3, 5]);
        assert!(candidates(&index, &[3, 9]).is_empty());
        assert_eq!(index.size_and_oldest(mix(2)), (2, Some(3)));
        assert!(index.has_room_for(1, 2) && !index.has_room_for(1, 3));
        index.reset(1, 7);
        assert!(candidates(&index, &[1]).is_empty());
    }

    #[test]
    fn the_memory_is_what_was_allowed() {
        for bytes in [0, 100, 1_000_000] {
            let index = PrefixIndex::new(PrefixIndex::capacity_of(bytes));
            assert!(index.bytes() as u64 <= bytes && index.bytes() as u64 + 72 > bytes);
        }
    }
}
