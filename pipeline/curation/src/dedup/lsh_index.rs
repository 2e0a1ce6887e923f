//! The bands of the documents that were kept: where a new document finds those worth comparing.
//!
//! A bucket holds every kept document with one key in one band; its members are chained from the
//! newest to the oldest.
//!
//! **Memory.** Every band has a table of its own with open addressing, in which a bucket takes one
//! slot of 8 bytes (its key and its newest member), and one array of links, 4 bytes for each
//! document. With a quarter more slots than documents, that is 14 bytes for each document and band;
//! what [`Screen`] looks at takes 72 more, 436 in all for 26 bands. Everything is made at once for
//! as many documents as the index may ever hold: the number that fits a memory limit is known
//! before the first is inserted, and nothing grows or is copied afterwards.

use rayon::prelude::*;

use super::bands::BandLayout;
use super::buckets;
use super::candidate_list::CandidateList;
use super::candidates::{CandidateIndex, Featured};
use super::jaccard::Threshold;
use super::screen::{Screen, Sketch};

/// Nearly all buckets that are looked up are free, and each look costs a cache miss; so many looks
/// are made without deciding anything in between, so that their misses overlap.
const LOOKED_UP_AT_ONCE: usize = 16;

/// Fewer documents are inserted by one thread alone.
const MIN_PARALLEL_DOCUMENTS: usize = 32;

/// An index from band keys to kept documents.
pub(super) struct LshIndex {
    layout: BandLayout,
    /// Most documents that it can hold.
    capacity: usize,
    slots_per_band: usize,
    /// Band by band, its table of [`buckets`]. A member is a place in `documents`, counted from 1.
    slots: Vec<u64>,
    /// Band by band, for each document the next older member of its bucket.
    older: Vec<u32>,
    /// The kept documents, ascending.
    documents: Vec<Kept>,
    /// Their sketches.
    sketches: Vec<Sketch>,
    screen: Screen,
}

/// A kept document.
#[derive(Clone, Copy)]
struct Kept {
    number: u32,
    num_shingles: u32,
}

impl LshIndex {
    /// An empty index that can hold `capacity` documents.
    pub(super) fn new(layout: BandLayout, threshold: Threshold, capacity: usize) -> Self {
        let slots_per_band = buckets::num_slots(capacity);
        Self {
            layout,
            capacity,
            slots_per_band,
            slots: vec![0; layout.bands * slots_per_band],
            older: vec![0; layout.bands * capacity],
            documents: Vec::with_capacity(capacity),
            sketches: Vec::with_capacity(capacity),
            screen: Screen::new(threshold, layout),
        }
    }

    /// The number of documents that an index of `bytes` bytes can hold.
    pub(super) fn capacity_of(layout: BandLayout, bytes: u64) -> usize {
        // Four documents have five slots in each band.
        let four_documents = layout.bands * (5 * buckets::SLOT_BYTES + 4 * size_of::<u32>())
            + 4 * (size_of::<Kept>() + size_of::<Sketch>());
        usize::try_from(4 * (bytes / four_documents as u64)).unwrap_or(usize::MAX)
    }

    /// The feature of a band's key.
    pub(super) fn feature((band, key): (u64, u32)) -> u64 {
        band << 32 | u64::from(key)
    }

    /// The table of a feature's band, and its key.
    fn band_of(&self, feature: u64) -> (&[u64], u32) {
        let band = (feature >> 32) as usize;
        (&self.slots[band * self.slots_per_band..][..self.slots_per_band], feature as u32)
    }

    /// Those of up to [`LOOKED_UP_AT_ONCE`] features at whose home in the table some bucket is.
    fn taken(&self, features: &[u64]) -> impl Iterator<Item = u64> {
        let mut is_taken = [false; LOOKED_UP_AT_ONCE];
        for (&feature, is_taken) in features.iter().zip(&mut is_taken) {
            let (slots, key) = self.band_of(feature);
            *is_taken = slots[buckets::home(slots, key)] != 0;
        }
        features.iter().zip(is_taken).filter(|(_, is_taken)| *is_taken).map(|(&feature, _)| feature)
    }

    /// The members of a bucket as places in `documents`, from the newest to the oldest.
    fn members(&self, feature: u64) -> impl Iterator<Item = u32> {
        let (slots, key) = self.band_of(feature);
        let older = &self.older[(feature >> 32) as usize * self.capacity..][..self.capacity];
        let newest = buckets::newest(slots[buckets::find(slots, key, key)]);
        buckets::chain(newest, |member| older[member as usize - 1]).map(|member| member - 1)
    }
}

impl CandidateIndex for LshIndex {
    fn reset(&mut self, documents: usize, _features: usize) {
        if documents > self.capacity {
            *self = Self::new(self.layout, self.screen.threshold(), documents);
        } else {
            self.slots.fill(0);
            self.documents.clear();
            self.sketches.clear();
        }
    }

    fn has_room_for(&self, documents: usize, _features: usize) -> bool {
        documents <= self.capacity - self.documents.len()
    }

    /// Works on all threads where there are many documents.
    fn insert(&mut self, kept: &[Featured]) {
        assert!(self.has_room_for(kept.len(), 0), "room in the index");
        let first = self.documents.len() as u32;
        for &Featured { document: number, num_shingles, sketch, .. } in kept {
            self.documents.push(Kept { number, num_shingles });
            self.sketches.push(sketch);
        }
        let insert_in = |(band, (slots, older)): (usize, (&mut [u64], &mut [u32]))| {
            for (place, featured) in (first..).zip(kept) {
                let key = featured.features[band] as u32;
                let slot = buckets::find(slots, key, key);
                older[place as usize] = buckets::newest(slots[slot]);
                slots[slot] = buckets::slot(key, place + 1);
            }
        };
        if kept.len() < MIN_PARALLEL_DOCUMENTS {
            let tables = (self.slots.chunks_exact_mut(self.slots_per_band))
                .zip(self.older.chunks_exact_mut(self.capacity));
            tables.enumerate().for_each(insert_in);
        } else {
            let tables = (self.slots.par_chunks_exact_mut(self.slots_per_band))
                .zip(self.older.par_chunks_exact_mut(self.capacity));
            tables.enumerate().for_each(insert_in);
        }
    }

    fn candidates(&self, document: &Featured, out: &mut CandidateList) {
        let features = if self.documents.is_empty() { &[][..] } else { &document.features };
        let taken = features.chunks(LOOKED_UP_AT_ONCE).flat_map(|features| self.taken(features));
        out.collect(taken, |feature| self.members(feature));
        out.retain(|place| {
            let kept =
                (self.documents[place as usize].num_shingles, &self.sketches[place as usize]);
            self.screen.passes((document.num_shingles, &document.sketch), kept)
        });
        out.map(|place| self.documents[place as usize].number);
    }

    fn size_and_oldest(&self, feature: u64) -> (u32, Option<u32>) {
        let size = self.members(feature).count() as u32;
        let oldest = self.members(feature).last();
        (size, oldest.map(|place| self.documents[place as usize].number))
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
            + size_of_val(&*self.older)
            + self.capacity * (size_of::<Kept>() + size_of::<Sketch>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: BandLayout = BandLayout { bands: 2, rows: 2 };

    fn features(keys: [u32; 2]) -> Vec<u64> {
        (0..).zip(keys).map(LshIndex::feature).collect()
    }

    fn featured(document: u32, keys: [u32; 2]) -> Featured {
        Featured { document, num_shingles: 1, sketch: Sketch::of(&[]), features: features(keys) }
    }

    /// Documents 0, 10, 20, …, 70: all agree in the first band, every other one in the second too.
    fn index() -> LshIndex {
        let mut index = LshIndex::new(LAYOUT, Threshold::PAPER, 8);
        for number in 0..8 {
            index.insert(&[featured(10 * number, [1, 100 + number % 2])]);
        }
        index
    }

    fn candidates(index: &LshIndex, keys: [u32; 2]) -> Vec<u32> {
        let mut out = CandidateList::noting_above(99);
        index.candidates(&featured(99, keys), &mut out);
        out.as_slice().to_vec()
    }

    #[test]
    fn candidates_are_ascending_and_each_comes_once() {
        assert_eq!(candidates(&index(), [1, 100]), [0, 10, 20, 30, 40, 50, 60, 70]);
        assert_eq!(candidates(&index(), [9, 101]), [10, 30, 50, 70]);
        assert!(candidates(&index(), [100, 1]).is_empty());
        assert!(candidates(&LshIndex::new(LAYOUT, Threshold::PAPER, 0), [1, 100]).is_empty());
    }

    #[test]
    fn all_at_once_or_one_by_one_makes_the_same_index() {
        let keys = |number: u32| [number % 7, (number % 300).wrapping_mul(0x9E37_79B9)];
        let all: Vec<Featured> = (0..1_000).map(|number| featured(number, keys(number))).collect();
        let mut at_once = LshIndex::new(LAYOUT, Threshold::PAPER, 1_000);
        at_once.insert(&all);
        let mut one_by_one = LshIndex::new(LAYOUT, Threshold::PAPER, 1_000);
        all.iter().for_each(|document| one_by_one.insert(std::slice::from_ref(document)));
        for number in 0..1_000 {
            let found = candidates(&at_once, keys(number));
            assert_eq!(found, candidates(&one_by_one, keys(number)));
            let expected = |n: &u32| n % 7 == number % 7 || n % 300 == number % 300;
            assert!((0..1_000).filter(expected).eq(found));
        }
    }

    #[test]
    fn a_full_index_finds_what_it_holds_and_can_be_emptied() {
        let mut index = index();
        assert!(!index.has_room_for(1, 2));
        index.reset(8, 16);
        assert!(index.has_room_for(8, 16));
        assert!(candidates(&index, [1, 100]).is_empty());
        index.insert(&[featured(5, [1, 7])]);
        assert_eq!(candidates(&index, [1, 100]), [5]);
        index.reset(9, 18);
        assert!(index.has_room_for(9, 18));
    }

    #[test]
    fn buckets_with_many_members_are_named_with_their_earliest_document() {
        let index = index();
        let noted = |many| {
            let mut out = CandidateList::noting_above(many);
            index.candidates(&featured(99, [1, 101]), &mut out);
            out.noted().to_vec()
        };
        let [first, second] = features([1, 101])[..] else { panic!("two features") };
        assert_eq!(noted(3), [first, second]);
        assert_eq!(noted(4), [first]);
        assert!(noted(8).is_empty());
        assert_eq!(index.size_and_oldest(first), (8, Some(0)));
        assert_eq!(index.size_and_oldest(second), (4, Some(10)));
        assert_eq!(index.size_and_oldest(features([2, 2])[0]), (0, None));
    }

    #[test]
    fn the_memory_is_what_was_allowed() {
        for layout in [BandLayout::STANDARD, BandLayout::HIGH] {
            for bytes in [0, 1_000, 1_000_000, 16_000_000] {
                let index =
                    LshIndex::new(layout, Threshold::PAPER, LshIndex::capacity_of(layout, bytes));
                assert!(index.bytes() as u64 <= bytes, "{} of {bytes}", index.bytes());
                // Less than four documents more would have fitted.
                let four_more = 4 * (14 * layout.bands as u64 + 72);
                assert!(index.bytes() as u64 + four_more > bytes);
            }
        }
    }
}
