//! Sizes of the blocks of a heap.
//!
//! ```text
//!   MiB of all blocks    0    4    12   28   60 … 2,047   2,048   4,096   8,192 …
//!   MiB of the next      4    8    16   32   32 … 32      64      128     256 …     twice all, up to 32 MiB; later a
//!                                                                                   32nd of all, up to the maximum
//! ```
//!
//! The sizes are rounded down to a power of two. A small block becomes empty sooner, and its unused end is smaller. The
//! driver needs time for each MiB that it allocates or frees (about 20 µs on a large card), and some drivers make other
//! threads wait meanwhile. So if a program streams, a small block delays it only for a short time.
//!
//! A regular block has at most an eighth of its heap, but at least 64 KiB: in a heap of 256 MiB, blocks have 1 MiB to
//! 32 MiB. Every operation is O(1).

/// Maximum number of sizes that [`BlockSizes::tries`] and [`BlockSizes::to_hold`] return.
pub const SIZES_MAX: usize = 4;

/// Rule for the sizes of the blocks of a heap, from `first` to `max`. See the [module](self).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSizes {
    /// Regular size of the first block, in bytes.
    pub first: u64,
    /// Largest regular size of a block, in bytes. A block for a larger request has the size of the request.
    pub max: u64,
    /// Maximum number of times that the size of a block is halved if the driver refuses the block.
    pub halvings: u32,
}

impl BlockSizes {
    const FIRST_PER_MAX: u64 = 64;
    const FIRST_LEAST: u64 = 1 << 20;
    const LEAST: u64 = 64 << 10;
    /// Size up to which each block is twice as large as the previous one.
    const DOUBLED_MAX: u64 = 32 << 20;
    /// The size of a later block is the total size of all blocks, divided by this number.
    const SHARE: u64 = 32;
    const HALVINGS: u32 = SIZES_MAX as u32 - 1;

    /// Returns the sizes for a heap of `heap_bytes`. The largest size is the smallest of `wanted_max`,
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

    /// Returns the regular size of the next block, in bytes, if all blocks together have `held` bytes.
    #[must_use]
    pub fn present(self, held: u64) -> u64 {
        let wanted = held.saturating_mul(2).min(Self::DOUBLED_MAX).max(held / Self::SHARE);
        (1 << wanted.max(1).ilog2()).max(self.first).min(self.max)
    }

    /// Returns the sizes to try, in order, for a block that is created in advance for `bytes` bytes of requests, if all
    /// blocks together have `held` bytes. The first size is the regular size, or if `bytes` rounded up to a power of
    /// two is larger, that power of two, but at most `max`. Each further size is half the previous one.
    pub fn to_hold(self, held: u64, bytes: u64) -> impl Iterator<Item = u64> + Clone {
        let least = bytes.checked_next_power_of_two().unwrap_or(self.max);
        let wanted = self.present(held).max(least).min(self.max);
        (0..=self.halvings).map(move |halving| wanted >> halving)
    }

    /// Returns the sizes to try, in order, for a block that must contain `need` bytes, if all blocks together have
    /// `held` bytes. The first size is at least the regular size and at least `need`. Each further size is half the
    /// previous one, and none is below `need`.
    pub fn tries(self, held: u64, need: u64) -> impl Iterator<Item = u64> + Clone {
        let least = need.checked_next_power_of_two().unwrap_or(need).min(self.max);
        let wanted = self.present(held).max(least).max(need);
        (0..=self.halvings).map(move |halving| wanted >> halving).filter(move |bytes| *bytes >= need)
    }

    /// Does the same as [`BlockSizes::tries`]. If `bytes_min` exceeds the regular size, first returns the sizes of the
    /// same call on `self.at_least(bytes_min)`, and then only those of `self` that are smaller than all of them.
    /// Returns at most 2 × [`SIZES_MAX`] sizes.
    pub fn tries_from(self, held: u64, need: u64, bytes_min: u64) -> impl Iterator<Item = u64> + Clone {
        let large = if bytes_min > self.present(held) { usize::MAX } else { 0 };
        let larger = self.at_least(bytes_min).tries(held, need).take(large);
        let least = larger.clone().last().unwrap_or(u64::MAX);
        larger.chain(self.tries(held, need).filter(move |bytes| *bytes < least))
    }
}

#[cfg(test)]
mod tests;
