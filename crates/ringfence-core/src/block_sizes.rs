//! Sizes of the blocks of a heap.
//!
//! ```text
//!   block     0     1     2     3     4     5 …
//!   bytes     4 Mi  8 Mi  16 Mi 32 Mi 64 Mi …  max       each twice the previous one: O(log) blocks
//! ```
//!
//! In a heap of 8 GiB, device blocks grow from 4 MiB to 256 MiB; in a heap of 256 MiB, from 1 MiB to 32 MiB. A block is
//! at most an eighth of its heap. No block is created before the first request. Every operation is O(1).

/// Largest number of sizes that [`BlockSizes::tries`] returns.
pub const SIZES_MAX: usize = 4;

/// Sizes of the blocks of a heap; see the [module](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSizes {
    /// Size of the first block, in bytes.
    pub first: u64,
    /// Largest size of a block, in bytes.
    pub max: u64,
    /// Number of times that the size is halved if the driver refuses a block.
    pub halvings: u32,
}

impl BlockSizes {
    const FIRST_PER_MAX: u64 = 64;
    const FIRST_LEAST: u64 = 1 << 20;
    const LEAST: u64 = 64 << 10;
    const HALVINGS: u32 = SIZES_MAX as u32 - 1;

    /// Returns sizes for a heap of `heap_bytes`: at most an eighth of the heap, rounded down to a power of two.
    #[must_use]
    pub fn for_heap(heap_bytes: u64, object_bytes_max: u64, wanted_max: u64) -> Self {
        let largest = wanted_max.min(heap_bytes / 8).min(object_bytes_max).max(Self::LEAST);
        let max = 1 << largest.ilog2();
        let first = (max / Self::FIRST_PER_MAX).max(Self::FIRST_LEAST).min(max);
        Self { first, max, halvings: Self::HALVINGS }
    }

    /// Returns the same sizes with `first` raised to `alignment` (at most `max`), because the driver rounds the size of
    /// each block up to it.
    #[must_use]
    pub fn aligned_to(self, alignment: u64) -> Self {
        Self { first: self.first.max(alignment.min(self.max)), ..self }
    }

    /// Returns the same sizes, raised to at least `bytes`. Sizes from [`BlockSizes::fixed`] stay as they are.
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

    /// Returns the sizes to try when the caller announces `bytes` and `count` blocks exist. The first is the larger of
    /// the regular size and `bytes` rounded up to a power of two, at most `max`; then its halves.
    pub fn to_hold(self, count: usize, bytes: u64) -> impl Iterator<Item = u64> + Clone {
        let least = bytes.checked_next_power_of_two().unwrap_or(self.max);
        let wanted = self.present(count).max(least).min(self.max);
        (0..=self.halvings).map(move |halving| wanted >> halving)
    }

    /// Returns the sizes to try for a request of `need` bytes when `count` blocks exist: the larger of the regular size
    /// and `need`, then its halves down to `need`.
    pub fn tries(self, count: usize, need: u64) -> impl Iterator<Item = u64> + Clone {
        let least = need.checked_next_power_of_two().unwrap_or(need).min(self.max);
        let wanted = self.present(count).max(least).max(need);
        (0..=self.halvings).map(move |halving| wanted >> halving).filter(move |bytes| *bytes >= need)
    }

    /// Like [`BlockSizes::tries`], but first returns the sizes with blocks of at least `bytes_min`. Returns at most
    /// twice as many sizes.
    pub fn tries_from(self, count: usize, need: u64, bytes_min: u64) -> impl Iterator<Item = u64> + Clone {
        let large = if bytes_min > self.present(count) { usize::MAX } else { 0 };
        let larger = self.at_least(bytes_min).tries(count, need).take(large);
        let least = larger.clone().last().unwrap_or(u64::MAX);
        larger.chain(self.tries(count, need).filter(move |bytes| *bytes < least))
    }
}

#[cfg(test)]
mod tests;
