//! Sizes of the blocks of a heap.
//!
//! ```text
//!   block     0     1     2     3     4     5 …
//!   bytes     4 Mi  8 Mi  16 Mi 32 Mi 64 Mi …  max       each block is twice as large as the previous one
//! ```
//!
//! A block is at most an eighth of its heap. In a heap of 8 GiB, device blocks grow from 4 MiB to 256 MiB; in a heap of
//! 256 MiB, from 1 MiB to 32 MiB. No block is created before the first request. Every operation is O(1).

/// Maximum number of sizes that [`BlockSizes::tries`] returns.
pub const SIZES_MAX: usize = 4;

/// Rule for the sizes of the blocks of a heap: they double from `first` to `max`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSizes {
    /// Size of the first block, in bytes.
    pub first: u64,
    /// Largest size of a block, in bytes.
    pub max: u64,
    /// Maximum number of times that the size of a block is halved if the driver refuses the block.
    pub halvings: u32,
}

impl BlockSizes {
    const FIRST_PER_MAX: u64 = 64;
    const FIRST_LEAST: u64 = 1 << 20;
    const LEAST: u64 = 64 << 10;
    const HALVINGS: u32 = SIZES_MAX as u32 - 1;

    /// Returns the sizes for a heap of `heap_bytes`. The largest block is the smallest of `wanted_max`,
    /// `object_bytes_max` and an eighth of the heap, rounded down to a power of two, but at least 64 KiB.
    #[must_use]
    pub fn for_heap(heap_bytes: u64, object_bytes_max: u64, wanted_max: u64) -> Self {
        let largest = wanted_max.min(heap_bytes / 8).min(object_bytes_max).max(Self::LEAST);
        let max = 1 << largest.ilog2();
        let first = (max / Self::FIRST_PER_MAX).max(Self::FIRST_LEAST).min(max);
        Self { first, max, halvings: Self::HALVINGS }
    }

    /// Returns the sizes with `first` raised to at least `alignment`, but not above `max`. Used if the driver rounds
    /// the size of each block up to `alignment`.
    #[must_use]
    pub fn aligned_to(self, alignment: u64) -> Self {
        Self { first: self.first.max(alignment.min(self.max)), ..self }
    }

    /// Returns the sizes with `first` and `max` raised to at least `bytes`. Returns sizes from [`BlockSizes::fixed`]
    /// unchanged.
    #[must_use]
    pub fn at_least(self, bytes: u64) -> Self {
        if self.halvings == 0 { self } else { Self { first: self.first.max(bytes), max: self.max.max(bytes), ..self } }
    }

    /// Returns sizes for blocks of exactly `bytes`: a refused block is not retried with a smaller size.
    #[must_use]
    pub const fn fixed(bytes: u64) -> Self {
        Self { first: bytes, max: bytes, halvings: 0 }
    }

    /// Returns the regular size of the next block, in bytes, if `count` blocks exist.
    #[must_use]
    pub fn present(self, count: usize) -> u64 {
        1_u64
            .checked_shl(count.min(63) as u32)
            .and_then(|times| self.first.checked_mul(times))
            .unwrap_or(self.max)
            .min(self.max)
    }

    /// Returns the sizes to try, in order, for a block that is created in advance for `bytes` bytes of requests, if
    /// `count` blocks exist. The first size is the larger of the regular size and `bytes` rounded up to a power of two,
    /// but at most `max`. Each further size is half the previous one.
    pub fn to_hold(self, count: usize, bytes: u64) -> impl Iterator<Item = u64> + Clone {
        let least = bytes.checked_next_power_of_two().unwrap_or(self.max);
        let wanted = self.present(count).max(least).min(self.max);
        (0..=self.halvings).map(move |halving| wanted >> halving)
    }

    /// Returns the sizes to try, in order, for a block that must contain `need` bytes, if `count` blocks exist. The
    /// first size is at least the regular size and at least `need`. Each further size is half the previous one, and
    /// none is below `need`.
    pub fn tries(self, count: usize, need: u64) -> impl Iterator<Item = u64> + Clone {
        let least = need.checked_next_power_of_two().unwrap_or(need).min(self.max);
        let wanted = self.present(count).max(least).max(need);
        (0..=self.halvings).map(move |halving| wanted >> halving).filter(move |bytes| *bytes >= need)
    }

    /// Does the same as [`BlockSizes::tries`], but first returns the sizes of `self.at_least(bytes_min)`, which are
    /// larger. Returns at most 2 × [`SIZES_MAX`] sizes.
    pub fn tries_from(self, count: usize, need: u64, bytes_min: u64) -> impl Iterator<Item = u64> + Clone {
        let large = if bytes_min > self.present(count) { usize::MAX } else { 0 };
        let larger = self.at_least(bytes_min).tries(count, need).take(large);
        let least = larger.clone().last().unwrap_or(u64::MAX);
        larger.chain(self.tries(count, need).filter(move |bytes| *bytes < least))
    }
}

#[cfg(test)]
mod tests;
