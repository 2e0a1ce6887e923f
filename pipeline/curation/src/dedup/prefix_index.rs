//! The index of the exact method: from shingles of prefixes to kept documents.
//!
//! One table with open addressing has a slot of 8 bytes for each distinct shingle, and every shingle
//! of a document's prefix an entry of 8 bytes, chained from the newest to the oldest: with a quarter
//! more slots than entries, 18 bytes for each. A slot is told from another by 32 bits of its shingle
//! besides those that choose the place; two shingles that are the same in both share a bucket, which
//! proposes a pair too many and never one too few.

use super::candidate_list::CandidateList;
use super::candidates::{CandidateIndex, Featured};

/// Ends a chain; as the newest entry, marks a slot as free.
const NONE: u32 = u32::MAX;

/// An index from shingles to kept documents.
pub(super) struct PrefixIndex {
    /// Most entries that it can hold.
    capacity: usize,
    slots: Vec<Slot>,
    entries: Vec<Entry>,
}

/// One bucket.
#[derive(Clone, Copy)]
struct Slot {
    /// The lower half of the shingle.
    check: u32,
    /// The newest entry, or [`NONE`].
    newest: u32,
}

const FREE: Slot = Slot { check: 0, newest: NONE };

/// A document in a bucket.
#[derive(Clone, Copy)]
struct Entry {
    document: u32,
    /// The next older entry of the bucket, or [`NONE`].
    older: u32,
}

impl PrefixIndex {
    /// An empty index for `capacity` features.
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.min(NONE as usize - 1);
        let num_slots = capacity + capacity / 4 + 1;
        Self { capacity, slots: vec![FREE; num_slots], entries: Vec::with_capacity(capacity) }
    }

    /// The number of features that an index of `bytes` bytes can hold.
    pub(super) fn capacity_of(bytes: u64) -> usize {
        let four_entries = (5 * size_of::<Slot>() + 4 * size_of::<Entry>()) as u64;
        let fours = bytes.saturating_sub(size_of::<Slot>() as u64) / four_entries;
        usize::try_from(4 * fours).unwrap_or(usize::MAX)
    }

    /// The slot that holds a shingle, or the free one where it belongs.
    fn slot_of(&self, shingle: u64) -> usize {
        let check = shingle as u32;
        let mut slot = (((shingle >> 32) * self.slots.len() as u64) >> 32) as usize;
        while self.slots[slot].newest != NONE && self.slots[slot].check != check {
            slot += 1;
            if slot == self.slots.len() {
                slot = 0;
            }
        }
        slot
    }

    /// The documents of a bucket, from the newest to the oldest.
    fn members(&self, shingle: u64) -> impl Iterator<Item = u32> {
        let entry = |number: u32| self.entries.get(number as usize);
        let newest = self.slots[self.slot_of(shingle)].newest;
        std::iter::successors(entry(newest), move |&&Entry { older, .. }| entry(older))
            .map(|entry| entry.document)
    }
}

impl CandidateIndex for PrefixIndex {
    fn reset(&mut self, _documents: usize, features: usize) {
        if features > self.capacity {
            *self = Self::new(features);
        } else {
            self.slots.fill(FREE);
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
                let older = self.slots[slot].newest;
                let newest = self.entries.len() as u32;
                self.slots[slot] = Slot { check: shingle as u32, newest };
                self.entries.push(Entry { document: *document, older });
            }
        }
    }

    fn candidates(
        &self,
        document: &Featured,
        many: u32,
        out: &mut CandidateList,
        met: &mut Vec<u64>,
    ) {
        out.collect(|documents| {
            for &shingle in &document.features {
                let before = documents.len();
                documents.extend(self.members(shingle));
                if documents.len() - before > many as usize {
                    met.push(shingle);
                }
            }
        });
    }

    fn size_and_oldest(&self, feature: u64) -> (u32, Option<u32>) {
        let size = self.members(feature).count() as u32;
        (size, self.members(feature).last())
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.slots) + self.capacity * size_of::<Entry>()
    }
}
