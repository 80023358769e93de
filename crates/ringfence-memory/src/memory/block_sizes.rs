//! How large the blocks of an arena are.
//!
//! ```text
//!   block     0     1     2     3     4     5 …
//!   bytes     4 Mi  8 Mi  16 Mi 32 Mi 64 Mi …  max       as many bytes as all blocks before together: O(log) blocks
//! ```
//!
//! A heap of 8 GiB has blocks of 4 MiB to 256 MiB for the device, one of 256 MiB of 1 MiB to 32 MiB: never more than an
//! eighth of it. Nothing is taken until something is asked for.

/// The sizes that an arena's blocks have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockSizes {
    /// The first block's bytes.
    pub(crate) first: u64,
    /// What blocks grow to, doubling.
    pub(crate) max: u64,
    /// How often a block that the driver refuses is halved.
    pub(crate) halvings: u32,
}

impl BlockSizes {
    const FIRST_PER_MAX: u64 = 64;
    const FIRST_LEAST: u64 = 1 << 20;
    const LEAST: u64 = 64 << 10;
    const HALVINGS: u32 = 3;

    /// Blocks for a heap of this size: an eighth of it at the most.
    pub(crate) fn for_heap(heap_bytes: u64, object_bytes_max: u64, wanted_max: u64) -> Self {
        let largest = wanted_max.min(heap_bytes / 8).min(object_bytes_max).max(Self::LEAST);
        let max = 1 << largest.ilog2();
        let first = (max / Self::FIRST_PER_MAX).max(Self::FIRST_LEAST).min(max);
        Self { first, max, halvings: Self::HALVINGS }
    }

    /// The same for blocks whose alignment the driver rounds their size to: none is smaller than that.
    pub(crate) fn aligned_to(self, alignment: u64) -> Self {
        Self { first: self.first.max(alignment.min(self.max)), ..self }
    }

    /// Blocks of one size.
    pub(crate) fn fixed(bytes: u64) -> Self {
        Self { first: bytes, max: bytes, halvings: 0 }
    }

    /// The size of a block that is made ahead of need, when `count` are held.
    pub(crate) fn present(self, count: usize) -> u64 {
        1_u64
            .checked_shl(count.min(63) as u32)
            .and_then(|times| self.first.checked_mul(times))
            .unwrap_or(self.max)
            .min(self.max)
    }

    /// What to try when `count` blocks are held and so many bytes are announced: as large as they allow, then less.
    pub(crate) fn to_hold(self, count: usize, bytes: u64) -> impl Iterator<Item = u64> + Clone {
        let least = bytes.checked_next_power_of_two().unwrap_or(self.max);
        let wanted = self.present(count).max(least).min(self.max);
        (0..=self.halvings).map(move |halving| wanted >> halving)
    }

    /// What to try for a request when `count` blocks are held: the present size, then less, down to what it needs.
    pub(crate) fn tries(self, count: usize, need: u64) -> impl Iterator<Item = u64> + Clone {
        let least = need.checked_next_power_of_two().unwrap_or(need).min(self.max);
        let wanted = self.present(count).max(least).max(need);
        (0..=self.halvings).map(move |halving| wanted >> halving).filter(move |bytes| *bytes >= need)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_double_up_to_the_largest() {
        let sizes = BlockSizes::for_heap(8 << 30, u64::MAX, 256 << 20);
        let of = |count| sizes.present(count) >> 20;
        assert_eq!([of(0), of(1), of(2), of(6), of(7), of(500)], [4, 8, 16, 256, 256, 256]);
    }

    #[test]
    fn small_heaps_have_small_blocks() {
        assert_eq!(BlockSizes::for_heap(256 << 20, u64::MAX, 256 << 20).max, 32 << 20);
        assert_eq!(
            BlockSizes::for_heap(1 << 20, u64::MAX, 256 << 20),
            BlockSizes { first: 128 << 10, max: 128 << 10, halvings: 3 }
        );
    }

    #[test]
    fn no_block_is_smaller_than_the_driver_makes_it() {
        let sizes = BlockSizes::for_heap(8 << 30, u64::MAX, 64 << 20).aligned_to(4 << 20);
        assert_eq!([sizes.present(0) >> 20, sizes.present(1) >> 20, sizes.max >> 20], [4, 8, 64]);
        let small = BlockSizes::for_heap(8 << 20, u64::MAX, 64 << 20).aligned_to(4 << 20);
        assert_eq!([small.first, small.max], [1 << 20, 1 << 20], "but the heap's size goes before");
    }

    #[test]
    fn what_is_announced_gets_large_blocks_at_once() {
        let sizes = BlockSizes::for_heap(8 << 30, u64::MAX, 256 << 20);
        let tries = |count, bytes: u64| sizes.to_hold(count, bytes << 20).map(|bytes| bytes >> 20).collect::<Vec<_>>();
        assert_eq!(tries(0, 3000), [256, 128, 64, 32]);
        assert_eq!(tries(0, 5), [8, 4, 2, 1]);
        assert_eq!(tries(6, 5), [256, 128, 64, 32], "no smaller than without an announcement");
    }

    #[test]
    fn a_refused_block_is_halved_three_times_but_holds_its_request() {
        let sizes = BlockSizes::for_heap(8 << 30, u64::MAX, 256 << 20);
        let tries = |count, need: u64| sizes.tries(count, need << 20).map(|bytes| bytes >> 20).collect::<Vec<_>>();
        assert_eq!(tries(6, 1), [256, 128, 64, 32]);
        assert_eq!(tries(6, 100), [256, 128]);
        assert_eq!(tries(0, 100), [128]);
        assert_eq!(tries(0, 300), [300], "more than a block has");
    }
}
