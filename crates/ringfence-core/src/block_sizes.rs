//! How large the blocks of a heap are.
//!
//! ```text
//!   block     0     1     2     3     4     5 …
//!   bytes     4 Mi  8 Mi  16 Mi 32 Mi 64 Mi …  max       each twice the one before: O(log) blocks
//! ```
//!
//! A heap of 8 GiB has blocks of 4 MiB to 256 MiB for the device, one of 256 MiB of 1 MiB to 32 MiB: never more than an
//! eighth of it. Nothing is taken until something is requested. Every operation is O(1).

/// How many sizes [`BlockSizes::tries`] has at the most.
pub const SIZES_MAX: usize = 4;

/// See the [module](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSizes {
    /// The first block, in bytes.
    pub first: u64,
    /// What blocks grow to, doubling.
    pub max: u64,
    /// How often a block that the driver refuses is halved.
    pub halvings: u32,
}

impl BlockSizes {
    const FIRST_PER_MAX: u64 = 64;
    const FIRST_LEAST: u64 = 1 << 20;
    const LEAST: u64 = 64 << 10;
    const HALVINGS: u32 = SIZES_MAX as u32 - 1;

    /// Blocks for a heap of this size: an eighth of it at most.
    #[must_use]
    pub fn for_heap(heap_bytes: u64, object_bytes_max: u64, wanted_max: u64) -> Self {
        let largest = wanted_max.min(heap_bytes / 8).min(object_bytes_max).max(Self::LEAST);
        let max = 1 << largest.ilog2();
        let first = (max / Self::FIRST_PER_MAX).max(Self::FIRST_LEAST).min(max);
        Self { first, max, halvings: Self::HALVINGS }
    }

    /// The same for blocks whose alignment the driver rounds their size to: none is smaller than that.
    #[must_use]
    pub fn aligned_to(self, alignment: u64) -> Self {
        Self { first: self.first.max(alignment.min(self.max)), ..self }
    }

    /// The same, none smaller than `bytes`, but for blocks of one size.
    #[must_use]
    pub fn at_least(self, bytes: u64) -> Self {
        if self.halvings == 0 { self } else { Self { first: self.first.max(bytes), max: self.max.max(bytes), ..self } }
    }

    /// Blocks of one size, of which a smaller one will not do.
    #[must_use]
    pub const fn fixed(bytes: u64) -> Self {
        Self { first: bytes, max: bytes, halvings: 0 }
    }

    /// The size of a block that is made ahead of need, when `count` are held.
    #[must_use]
    pub fn present(self, count: usize) -> u64 {
        1_u64
            .checked_shl(count.min(63) as u32)
            .and_then(|times| self.first.checked_mul(times))
            .unwrap_or(self.max)
            .min(self.max)
    }

    /// What to try when `count` blocks are held and `bytes` are announced: as large as they allow, then less.
    pub fn to_hold(self, count: usize, bytes: u64) -> impl Iterator<Item = u64> + Clone {
        let least = bytes.checked_next_power_of_two().unwrap_or(self.max);
        let wanted = self.present(count).max(least).min(self.max);
        (0..=self.halvings).map(move |halving| wanted >> halving)
    }

    /// What to try for a request when `count` blocks are held: the present size, then less, down to what it needs.
    pub fn tries(self, count: usize, need: u64) -> impl Iterator<Item = u64> + Clone {
        let least = need.checked_next_power_of_two().unwrap_or(need).min(self.max);
        let wanted = self.present(count).max(least).max(need);
        (0..=self.halvings).map(move |halving| wanted >> halving).filter(move |bytes| *bytes >= need)
    }

    /// As [`BlockSizes::tries`], but first what is tried with blocks of at least `bytes_min`: at most twice as many.
    pub fn tries_from(self, count: usize, need: u64, bytes_min: u64) -> impl Iterator<Item = u64> + Clone {
        let large = if bytes_min > self.present(count) { usize::MAX } else { 0 };
        let larger = self.at_least(bytes_min).tries(count, need).take(large);
        let least = larger.clone().last().unwrap_or(u64::MAX);
        larger.chain(self.tries(count, need).filter(move |bytes| *bytes < least))
    }
}

#[cfg(test)]
mod tests;
