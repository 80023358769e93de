//! Identifiers of blocks, and of ranges in them.

use crate::range::{FreeError, Range, Serial};
use core::fmt;

/// Names a block of one [`Blocks`](super::Blocks): never again used for another block, here or elsewhere in the
/// process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockId {
    pub(super) serial: Serial,
    pub(super) slot: u32,
}

/// A range of a block: {heap, start, length}.
///
/// A plain value, like [`Range`]: copying it does not copy the right to the space.
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
    /// Names an allocation by its block and the range there, as [`Self::block`] and [`Self::range`] give them.
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

    /// The block, by which [`Blocks::get`](super::Blocks::get) finds the heap.
    #[must_use]
    pub const fn block(&self) -> BlockId {
        BlockId { serial: self.block_serial, slot: self.block_slot }
    }

    /// The range inside the block.
    #[must_use]
    pub const fn range(&self) -> Range {
        Range::new(self.offset, self.size, self.range_slot, self.range_serial)
    }

    /// The first unit, counted from the start of the heap.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Units: as asked for, or a little more (see [`Blocks::try_allocate`](super::Blocks::try_allocate)).
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
