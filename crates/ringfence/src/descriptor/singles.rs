//! Blocks of slots, and a stack of single slots at hand: nearly every request is for one, and comes back soon.
//!
//! ```text
//!   allocate 1 ◀── stack of singles ◀── free 1          a push and a pop
//!                     │     ▲
//!                     │     └ none: blocks (buddy)
//!                     └ those that lay there unused from one reclaim to the next ──▶ blocks
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | allocate or free one slot | O(1) while there are some at hand |
//! | other counts | O(log slots) |
//! | trim | O(log slots) for each that goes back |

use ringfence_core::blocks::{BlockAllocation, Blocks, BlocksStatistics};
use ringfence_core::range::AllocError;

use super::SlotAllocator;

/// More singles than this are not kept at hand.
const SINGLES_MAX: usize = 256;

/// The slots of a heap of CPU-only descriptors.
pub(super) struct Slots<A, H> {
    pub(super) blocks: Blocks<A, H>,
    /// Single slots that the blocks take for allocated, with their heaps; the last goes first.
    singles: Vec<(BlockAllocation, H)>,
    /// The fewest singles there were since the last trim.
    unused: usize,
}

impl<A: SlotAllocator, H: Clone> Slots<A, H> {
    pub(super) fn new(blocks: Blocks<A, H>) -> Self {
        Self { blocks, singles: Vec::with_capacity(SINGLES_MAX), unused: 0 }
    }

    /// A run of slots with the heap that it fell into.
    #[inline]
    pub(super) fn allocate(&mut self, count: u64, alignment: u64) -> Result<(BlockAllocation, H), AllocError> {
        if (count, alignment) == (1, 1)
            && let Some(found) = self.singles.pop()
        {
            self.unused = self.unused.min(self.singles.len());
            return Ok(found);
        }
        self.allocate_from_blocks(count, alignment)
    }

    fn allocate_from_blocks(&mut self, count: u64, alignment: u64) -> Result<(BlockAllocation, H), AllocError> {
        let allocation = self.blocks.try_allocate(count, alignment)?;
        let (heap, _) = self.blocks.get(allocation.block()).expect("an allocation's block is there");
        Ok((allocation, heap.clone()))
    }

    /// Takes a run back that was handed out.
    #[inline]
    pub(super) fn free(&mut self, allocation: BlockAllocation, heap: H) {
        if allocation.size() == 1 && self.singles.len() < SINGLES_MAX {
            self.singles.push((allocation, heap));
        } else {
            self.free_to_blocks(&allocation);
        }
    }

    fn free_to_blocks(&mut self, allocation: &BlockAllocation) {
        let freed = self.blocks.free(allocation);
        debug_assert!(freed.is_ok(), "an allocation is given back once");
    }

    /// Gives those singles back to the blocks that were not needed since the last time; or all.
    pub(super) fn trim(&mut self, all: bool) {
        let count = if all { self.singles.len() } else { self.unused };
        for _ in 0..count {
            if let Some((allocation, _)) = self.singles.pop() {
                self.free_to_blocks(&allocation);
            }
        }
        self.unused = self.singles.len();
    }

    /// Singles at hand are free.
    pub(super) fn statistics(&self) -> BlocksStatistics {
        let at_hand = self.singles.len();
        let blocks = self.blocks.statistics();
        BlocksStatistics {
            free_size: blocks.free_size + at_hand as u64,
            largest_free: blocks.largest_free.max(at_hand.min(1) as u64),
            live_count: blocks.live_count - at_hand,
            ..blocks
        }
    }
}
