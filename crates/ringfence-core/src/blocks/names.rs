//! Identifiers of blocks, and of ranges in them.

use crate::range::{FreeError, Range, Serial};
use core::fmt;

/// Identifies a block of one [`Blocks`](super::Blocks). Not reused for another block in the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockId {
    pub(super) serial: Serial,
    pub(super) slot: u32,
}

/// A range in a block: {heap, offset, size}.
///
/// A plain value, like [`Range`]: copying it does not duplicate ownership of the space.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockAllocation {
    // The fields of a `BlockId` and a `Range`, without their padding: 40 bytes rather than 48.
    offset: u64,
    size: u64,
    pub(super) block_serial: Serial,
    range_serial: Serial,
    pub(super) block_slot: u32,
    pub(super) range_slot: u32,
}

impl BlockAllocation {
    /// Combines a block and a range in it. [`Self::block`] and [`Self::range`] return them.
    #[must_use]
    pub const fn new(block: BlockId, range: Range) -> Self {
        Self {
            offset: range.offset(),
            size: range.size(),
            block_serial: block.serial,
            range_serial: range.serial(),
            block_slot: block.slot,
            range_slot: range.slot(),
        }
    }

    /// Returns the block; [`Blocks::get`](super::Blocks::get) returns its heap.
    #[must_use]
    pub const fn block(&self) -> BlockId {
        BlockId { serial: self.block_serial, slot: self.block_slot }
    }

    /// Returns the range in the block.
    #[must_use]
    pub const fn range(&self) -> Range {
        Range::new(self.offset, self.size, self.range_slot, self.range_serial)
    }

    /// First unit, relative to the start of the heap.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Size in units: as requested, or slightly more, depending on the block's allocator.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    pub(super) const fn stale(&self) -> FreeError {
        FreeError::Stale { offset: self.offset, size: self.size }
    }

    pub(super) const fn foreign(&self) -> FreeError {
        FreeError::Foreign { offset: self.offset, size: self.size }
    }
}

impl fmt::Debug for BlockAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of block {}", self.range(), self.block_slot)
    }
}
