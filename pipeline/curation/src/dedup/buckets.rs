//! A table from keys to the newest member of each bucket, with open addressing.
//!
//! A slot is one number: the key's check above, the newest member below, both of 32 bits. Members
//! are counted from 1, so that a free slot is zero, and a link to an older member that is zero ends
//! a chain: a table is made of memory that the system hands out zeroed, and takes none before it is
//! used.

/// Slots of a table that holds up to `entries` buckets: a fifth stays free, so that the search for
/// one ends soon.
pub(super) fn num_slots(entries: usize) -> usize {
    entries + entries.div_ceil(4)
}

/// Bytes of one slot.
pub(super) const SLOT_BYTES: usize = size_of::<u64>();

/// Where the search for a key begins, by a hash of it.
#[inline]
pub(super) fn home(slots: &[u64], hash: u32) -> usize {
    ((u64::from(hash) * slots.len() as u64) >> 32) as usize
}

/// The slot of a key: the one that holds it, or the free one where it belongs.
#[inline]
pub(super) fn find(slots: &[u64], hash: u32, check: u32) -> usize {
    let mut slot = home(slots, hash);
    while slots[slot] != 0 && (slots[slot] >> 32) as u32 != check {
        slot += 1;
        if slot == slots.len() {
            slot = 0;
        }
    }
    slot
}

/// The newest member of the bucket in a slot; 0 where it is free.
#[inline]
pub(super) fn newest(slot: u64) -> u32 {
    slot as u32
}

/// A slot that holds a key.
#[inline]
pub(super) fn slot(check: u32, newest: u32) -> u64 {
    u64::from(check) << 32 | u64::from(newest)
}

/// The members of a chain, from `newest` on; `older` gives the next one.
pub(super) fn chain(newest: u32, older: impl Fn(u32) -> u32) -> impl Iterator<Item = u32> {
    let exists = |member: u32| (member != 0).then_some(member);
    std::iter::successors(exists(newest), move |&member| exists(older(member)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_keys_with_one_home_finds_each() {
        let mut slots = vec![0; num_slots(8)];
        let last = u32::MAX; // at home in the last slot, so that others go round to the first
        for number in 0..8 {
            let place = find(&slots, last, number);
            assert_eq!(slots[place], 0);
            slots[place] = slot(number, number + 1);
        }
        for number in 0..8 {
            assert_eq!(newest(slots[find(&slots, last, number)]), number + 1);
        }
        assert_eq!(newest(slots[find(&slots, last, 8)]), 0);
    }

    #[test]
    fn a_chain_ends_with_the_oldest() {
        let older = [99, 0, 1, 2];
        assert!(chain(3, |member| older[member as usize]).eq([3, 2, 1]));
        assert_eq!(chain(0, |member| older[member as usize]).count(), 0);
    }
}
