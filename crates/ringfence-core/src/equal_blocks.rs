//! An allocator of blocks of one size, for requests of equal sizes.
//!
//! ```text
//!   0         block_size                        fresh                         capacity
//!   ├─ live ──┼─ free ──┼─ live ──┼─ free ──┼─ live ──┼ ─ never allocated ─ ─ ─ ┼ rest ┤
//!                 ▲                   ▲
//!   free: [3, 1]  └───────────────────┘  the last entry is allocated next; if there is none, the block at `fresh`
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | allocate, free, peek | O(1) amortised, because lists grow |
//! | spans, validate | O(blocks that were ever allocated) |
//!
//! The host memory of the lists grows with the largest number of blocks that were live at the same time, not with the
//! capacity.

use alloc::vec::Vec;
use core::fmt;

use crate::range::{
    AllocError, Allocate, FreeError, Invalid, Peek, Range, RangeAllocator, Serial, Serials, Span, check_request,
};

/// Allocates blocks of one size, each at a multiple of this size. The rest of the capacity after the last whole block
/// is never allocated.
pub struct EqualBlocks {
    block_size: u64,
    capacity: u64,
    serials: Serials,
    /// For each block that was ever allocated, its serial if it is live, or `None`.
    live: Vec<Option<Serial>>,
    /// Numbers of the free blocks that were allocated before.
    free: Vec<u32>,
}

impl EqualBlocks {
    /// Maximum number of blocks of an allocator.
    pub const BLOCKS_MAX: u32 = 1 << 24;

    /// Creates an allocator of `capacity / block_size` free blocks, at most [`EqualBlocks::BLOCKS_MAX`].
    ///
    /// # Panics
    /// If `block_size` is 0.
    #[must_use]
    pub fn new(block_size: u64, capacity: u64) -> Self {
        assert!(block_size != 0, "blocks of size 0");
        Self { block_size, capacity, serials: Serials::new(), live: Vec::new(), free: Vec::new() }
    }

    /// Returns the size of each block, in units.
    #[must_use]
    pub const fn block_size(&self) -> u64 {
        self.block_size
    }

    fn block_count(&self) -> u64 {
        (self.capacity / self.block_size).min(u64::from(Self::BLOCKS_MAX))
    }

    /// Returns the number of the block that is allocated next. Returns `None` if all blocks are live.
    fn next(&self) -> Option<u32> {
        let fresh = || ((self.live.len() as u64) < self.block_count()).then_some(self.live.len() as u32);
        self.free.last().copied().or_else(fresh)
    }

    fn check(&self, size: u64, alignment: u64) -> Result<(), AllocError> {
        check_request(size, alignment, self.block_size)?;
        if self.block_size.is_multiple_of(alignment) { Ok(()) } else { Err(self.out_of_space(size, alignment)) }
    }

    fn out_of_space(&self, size: u64, alignment: u64) -> AllocError {
        AllocError::OutOfSpace { size, alignment, free: self.free_size(), largest_free: self.largest_free() }
    }

    fn range(&self, block: u32, serial: Serial) -> Range {
        Range::new(u64::from(block) * self.block_size, self.block_size, block, serial)
    }
}

impl Allocate for EqualBlocks {
    type Allocation = Range;
    type Error = AllocError;

    fn allocate(&mut self, size: u64, alignment: u64) -> Result<Range, AllocError> {
        self.check(size, alignment)?;
        let block = self.next().ok_or_else(|| self.out_of_space(size, alignment))?;
        let serial = self.serials.draw();
        match self.live.get_mut(block as usize) {
            Some(slot) => {
                *slot = Some(serial);
                self.free.pop();
            }
            None => self.live.push(Some(serial)),
        }
        Ok(self.range(block, serial))
    }

    fn free(&mut self, range: Range) -> Result<(), FreeError> {
        if !self.is_live(&range) {
            return Err(self.serials.refuse(&range));
        }
        self.live[range.slot() as usize] = None;
        self.free.push(range.slot());
        Ok(())
    }
}

impl RangeAllocator for EqualBlocks {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn free_size(&self) -> u64 {
        self.capacity - self.live_count() as u64 * self.block_size
    }

    fn largest_free(&self) -> u64 {
        if self.next().is_some() { self.block_size } else { 0 }
    }

    fn live_count(&self) -> usize {
        self.live.len() - self.free.len()
    }

    fn is_live(&self, range: &Range) -> bool {
        let live = self.live.get(range.slot() as usize).copied().flatten();
        live.is_some_and(|serial| self.range(range.slot(), serial) == *range)
    }

    fn for_each_span(&self, visit: &mut dyn FnMut(Span)) {
        let mut end = 0;
        for (slot, _) in (0_u32..).zip(&self.live).filter(|(_, live)| live.is_some()) {
            let offset = u64::from(slot) * self.block_size;
            if offset > end {
                visit(Span { offset: end, size: offset - end, slot: None });
            }
            visit(Span { offset, size: self.block_size, slot: Some(slot) });
            end = offset + self.block_size;
        }
        if end < self.capacity {
            visit(Span { offset: end, size: self.capacity - end, slot: None });
        }
    }

    fn validate(&self) -> Result<(), Invalid> {
        Invalid::unless(self.live.len() as u64 <= self.block_count(), "no more blocks than the capacity has", 0)?;
        let mut seen = alloc::vec![false; self.live.len()];
        for &block in &self.free {
            let at = u64::from(block);
            let is_free = self.live.get(block as usize).is_some_and(Option::is_none);
            Invalid::unless(is_free, "a block in the free list is not live", at)?;
            Invalid::unless(!core::mem::replace(&mut seen[block as usize], true), "a block is free once", at)?;
        }
        let free = self.live.iter().filter(|live| live.is_none()).count();
        Invalid::unless(free == self.free.len(), "each free block is in the free list", free as u64)
    }
}

impl Peek for EqualBlocks {
    fn peek(&self, size: u64, alignment: u64) -> Option<u64> {
        self.check(size, alignment).ok()?;
        self.next().map(|block| u64::from(block) * self.block_size)
    }
}

impl fmt::Debug for EqualBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EqualBlocks({} live blocks of {})", self.live_count(), self.block_size)
    }
}
