//! Identifiers of blocks, and of ranges in them.

use crate::range::{FreeError, Range, Serial};
use core::fmt;

/// Identifier of a block of a [`Blocks`](super::Blocks). No other block of the process ever has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockId {
    pub(super) serial: Serial,
    pub(super) slot: u32,
}

/// A block and a range in it.
///
/// A plain value, like [`Range`]: a copy refers to the same space.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockAllocation {
    // The fields of a `BlockId` and a `Range`. As separate structs, they would take 48 bytes instead of 40, because of
    // padding.
    offset: u64,
    size: u64,
    pub(super) block_serial: Serial,
    range_serial: Serial,
    pub(super) block_slot: u32,
    pub(super) range_slot: u32,
}

impl BlockAllocation {
    /// Creates the allocation of `range` in `block`.
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

    /// Returns the first unit of the range, relative to the start of the heap.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the size in units: the requested size, or a larger one if the block's allocator returns larger ranges.
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
