//! A hasher for map keys that are hashes already, which a second hash would only make slower.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map whose keys are good hashes: every bit as random as any other.
pub(crate) type HashKeyedMap<K, V> = HashMap<K, V, BuildHasherDefault<KeyIsHash>>;

/// Hands the key on; takes integers of 64 and 128 bits.
#[derive(Default)]
pub(crate) struct KeyIsHash(u64);

impl Hasher for KeyIsHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are integers of 64 or 128 bits")
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}
