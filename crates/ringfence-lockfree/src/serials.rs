//! Serial numbers for allocators that threads share.

use ringfence_core::range::{Serial, Serials};

use crate::primitive::{AtomicU64, Ordering, shrunk};

/// Hands out runs of serial numbers to threads at once: one of these in each lock-free allocator.
///
/// ```text
///   block of 2²⁴ numbers, from the same counter as those of [`Serials`]
///   ├─ run ─┼─ run ─┼─ run ─┼─ …  each slot of the allocator holds one, and counts through it alone
///   live, free, live, free, …     even while handed out, odd while not: the next even one is the next allocation's
/// ```
///
/// A slot's owner touches nothing shared but once in [`SharedSerials::RUN`] / 2 allocations of that slot. Numbers are
/// as scarce as elsewhere: a block is left for the next only when it is used up.
#[derive(Debug)]
pub(crate) struct SharedSerials {
    /// The first number of those that were set aside at the start.
    first: u64,
    /// The first number of the next run. Its block is used up iff another one begins here.
    next: AtomicU64,
}

impl SharedSerials {
    /// Numbers in a run. A power of two: a slot's run is at its end when its next number is a multiple.
    pub(crate) const RUN: u64 = shrunk(256, 4) as u64;

    /// A source of which `runs` runs are taken already: see [`Self::first_of`].
    pub(crate) fn new(runs: u32) -> Self {
        debug_assert!(runs != 0);
        let numbers = u64::from(runs) * Self::RUN;
        let first = Serials::next_blocks(numbers.div_ceil(Serials::BLOCK)).get();
        Self { first, next: AtomicU64::new(first + numbers) }
    }

    /// The first number of the `index`th run taken at the start.
    pub(crate) fn first_of(&self, index: u32) -> u64 {
        self.first + u64::from(index) * Self::RUN
    }

    /// The first number of a run that no other source has.
    pub(crate) fn draw_run(&self) -> u64 {
        // Relaxed throughout: that each run is drawn once follows from the order of this one word alone.
        let mut next = self.next.load(Ordering::Relaxed);
        loop {
            let first = if next.is_multiple_of(Serials::BLOCK) { Serials::next_blocks(1).get() } else { next };
            match self.next.compare_exchange_weak(next, first + Self::RUN, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return first,
                Err(seen) => next = seen,
            }
        }
    }

    /// Whether `serial` came from the block that runs are drawn from now: as [`Serials::drew`].
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
        assert!(first.drew(Serial::from_u64(last_of_block).unwrap()), "the block is that of the last run");
        let first_of_next = first.draw_run();
        assert!(first_of_next.is_multiple_of(Serials::BLOCK));
        assert!(first_of_next / Serials::BLOCK > last_of_block / Serials::BLOCK, "never the number after, which is another's");
    }

    /// A pool with more slots than a block has runs sets several blocks aside, which follow each other.
    #[test]
    fn a_source_of_many_runs_has_blocks_that_follow_each_other() {
        let runs = (Serials::BLOCK / SharedSerials::RUN) as u32 * 2 + 3;
        let (first, second) = (SharedSerials::new(runs), SharedSerials::new(1));
        let last = first.first_of(runs - 1) + SharedSerials::RUN - 1;
        assert_eq!(last / Serials::BLOCK - first.first / Serials::BLOCK, 2);
        assert!(last / Serials::BLOCK < second.first / Serials::BLOCK, "all of them are its own");
        assert_eq!(first.draw_run(), first.first_of(runs));
        // Where they end with a block, the next run is of another.
        let whole = SharedSerials::new((Serials::BLOCK / SharedSerials::RUN) as u32);
        assert!(whole.draw_run() >= whole.first + Serials::BLOCK);
    }
}
