//! Drivers: a structure and its *twin* (a simple reference implementation) execute operations that are decoded from
//! arbitrary bytes. Fuzzers, tests and long campaigns run the same drivers.
//!
//! ```text
//!   fuzzer's input ─┐
//!   seed ─▶ bytes ──┴▶ Feed ─▶ operation ─▶ structure   ┐ compared, and validate(), after each step;
//!                                        └▶ naive twin  ┘ the first difference panics
//! ```
//!
//! Each function returns the number of operations that it executed. [`ALL`] lists the functions with their names, which
//! are also the names of the fuzz targets.

mod ranges;
mod times;

pub use ranges::{blocks, buddy, free_list, linear_ranges, tlsf, tlsf_deferred, virtual_allocator};
pub use times::{linear, retire, ring, size_class, sync_set};

use super::rng::Rng;

/// A driver: the name of its structure, and its function.
pub type Drive = (&'static str, fn(&[u8]) -> u64);

/// The drivers of all structures.
pub const ALL: [Drive; 12] = [
    ("buddy", buddy),
    ("free_list", free_list),
    ("tlsf", tlsf),
    ("tlsf_deferred", tlsf_deferred),
    ("linear_ranges", linear_ranges),
    ("blocks", blocks),
    ("virtual_allocator", virtual_allocator),
    ("ring", ring),
    ("linear", linear),
    ("size_class", size_class),
    ("retire", retire),
    ("sync_set", sync_set),
];

/// Decoder of bytes to numbers.
pub struct Feed<'a>(&'a [u8]);

impl<'a> Feed<'a> {
    /// Creates a decoder of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the next byte. Returns `None` at the end.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Returns the next number below `bound`, decoded from as many bytes as needed. Returns `None` if too few bytes are
    /// left.
    pub fn below(&mut self, bound: u64) -> Option<u64> {
        let mut number = u64::from(self.byte()?);
        let mut span = 256_u64;
        while span < bound {
            number = number << 8 | u64::from(self.byte()?);
            span = span.saturating_mul(256);
        }
        Some(number % bound.max(1))
    }

    /// Returns a number with a random width of 1 to 64 bits, each width equally likely. Returns `None` if too few bytes
    /// are left.
    pub fn any(&mut self) -> Option<u64> {
        let bits = self.byte()? % 64;
        let mut number = 0;
        for _ in 0..=bits / 8 {
            number = number << 8 | u64::from(self.byte()?);
        }
        Some(number & (u64::MAX >> (63 - bits)))
    }
}

/// Fills `bytes` with random numbers from a seed (SplitMix64), for runs without a fuzzer.
pub fn fill(seed: u64, bytes: &mut [u8]) {
    let mut rng = Rng::new(seed);
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&rng.draw().to_le_bytes()[..chunk.len()]);
    }
}
