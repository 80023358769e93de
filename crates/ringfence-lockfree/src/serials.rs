//! Serial numbers for allocators that threads share.

use ringfence_core::range::{Serial, Serials};

use crate::primitive::{AtomicU64, Ordering, shrunk};

/// Source of serial numbers for a lock-free allocator. Threads draw runs of numbers from it concurrently.
///
/// ```text
///   block of 2²⁴ numbers, from the same counter as the blocks of [`Serials`]
///   ├─ run ─┼─ run ─┼─ run ─┼─ …  each slot of the allocator owns one run and counts through it
///   live, free, live, free, …     a slot's number is even while it is allocated, and odd while it is free
/// ```
///
/// Only one in [`SharedSerials::RUN`] / 2 allocations of a slot draws a run, and so accesses memory that all threads
/// share. A new block is drawn only when the previous one is used up. If several threads draw a block at the same time,
/// one of these blocks is used and the others are skipped.
#[derive(Debug)]
pub(crate) struct SharedSerials {
    /// First number of the runs that were reserved at creation.
    first: u64,
    /// First number of the next run. If it is the first number of a block, the previous block is used up, and a new
    /// block is drawn.
    next: AtomicU64,
}

impl SharedSerials {
    /// Number of serials in a run: a power of two. The run of a slot is used up when the slot's next number is a
    /// multiple of `RUN`.
    pub(crate) const RUN: u64 = shrunk(256, 4) as u64;

    /// Creates a source and reserves `runs` runs. [`Self::first_of`] returns their first numbers.
    pub(crate) fn new(runs: u32) -> Self {
        debug_assert!(runs != 0);
        let numbers = u64::from(runs) * Self::RUN;
        let first = Serials::next_blocks(numbers.div_ceil(Serials::BLOCK)).get();
        Self { first, next: AtomicU64::new(first + numbers) }
    }

    /// Returns the first number of reserved run `index`.
    pub(crate) fn first_of(&self, index: u32) -> u64 {
        self.first + u64::from(index) * Self::RUN
    }

    /// Draws a run and returns its first number. No other source has these numbers.
    pub(crate) fn draw_run(&self) -> u64 {
        // Relaxed: the modification order of this one word is enough to make each run unique.
        let mut next = self.next.load(Ordering::Relaxed);
        loop {
            let first = if next.is_multiple_of(Serials::BLOCK) { Serials::next_blocks(1).get() } else { next };
            match self.next.compare_exchange_weak(next, first + Self::RUN, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return first,
                Err(seen) => next = seen,
            }
        }
    }

    /// Returns `true` if `serial` is from the block of the most recently drawn run, like [`Serials::drew`].
    pub(crate) fn drew(&self, serial: Serial) -> bool {
        serial.block() == (self.next.load(Ordering::Relaxed) - 1) / Serials::BLOCK
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn shared_runs_are_unique_across_sources_and_block_ends() {
        let (first, second) = (SharedSerials::new(3), SharedSerials::new(3));
        assert_eq!(first.first_of(2) - first.first_of(0), 2 * SharedSerials::RUN);
        assert_ne!(first.first_of(0) / Serials::BLOCK, second.first_of(0) / Serials::BLOCK);
        assert_eq!(first.draw_run(), first.first_of(3));
        let drawn = Serial::from_u64(first.draw_run()).unwrap();
        assert!(first.drew(drawn) && !second.drew(drawn));
        first.next.store(second.first + Serials::BLOCK - SharedSerials::RUN, Ordering::Relaxed);
        let last_of_block = first.draw_run();
        assert!(first.drew(Serial::from_u64(last_of_block).unwrap()), "drew compares the block of the last run");
        let first_of_next = first.draw_run();
        assert!(first_of_next.is_multiple_of(Serials::BLOCK));
        assert!(
            first_of_next / Serials::BLOCK > last_of_block / Serials::BLOCK,
            "the next number may belong to another source"
        );
    }

    /// If a pool has more slots than a block has runs, the source reserves several consecutive blocks.
    #[test]
    fn a_source_of_many_runs_has_blocks_that_follow_each_other() {
        let runs = (Serials::BLOCK / SharedSerials::RUN) as u32 * 2 + 3;
        let (first, second) = (SharedSerials::new(runs), SharedSerials::new(1));
        let last = first.first_of(runs - 1) + SharedSerials::RUN - 1;
        assert_eq!(last / Serials::BLOCK - first.first / Serials::BLOCK, 2);
        assert!(last / Serials::BLOCK < second.first / Serials::BLOCK, "the second source's blocks follow");
        assert_eq!(first.draw_run(), first.first_of(runs));
        // If the reserved runs end with a block, the next run is in another block.
        let whole = SharedSerials::new((Serials::BLOCK / SharedSerials::RUN) as u32);
        assert!(whole.draw_run() >= whole.first + Serials::BLOCK);
    }
}
