//! Maps with keys that are hashes already.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map from a hash to a value.
pub(crate) type ByHash<T> = HashMap<u64, T, BuildHasherDefault<Hashed>>;

/// A hasher that returns its input, which is already a hash.
#[derive(Default)]
pub(crate) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("the keys are `u64`");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}
