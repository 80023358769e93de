//! Maps whose keys are hashes already.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// What stands under a hash.
pub(crate) type ByHash<T> = HashMap<u64, T, BuildHasherDefault<Hashed>>;

/// Takes a number that is a hash for its own hash.
#[derive(Default)]
pub(crate) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("only whole numbers are hashed");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}
