//! Read-only operations on the blocks: the location of the next allocation, and validation.

use super::{BlockId, Blocks, NOT_REPORTED, Order};
use crate::range::{Invalid, Peek, RangeAllocator, check_request};

impl<A: RangeAllocator, H, O: Order> Blocks<A, H, O> {
    /// Checks all rules of the blocks and of their allocators, for tests.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn validate(&self) -> Result<(), Invalid> {
        let mut empty = 0;
        for (slot, block) in self.slots.iter().enumerate() {
            let at = slot as u64;
            let Some(block) = block else {
                Invalid::unless(self.vacant.contains(&(slot as u32)), "a slot without a block is vacant", at)?;
                self.order.validate_slot(slot as u32, None)?;
                continue;
            };
            block.allocator.validate()?;
            let free_size = block.allocator.free_size();
            Invalid::unless(block.free_size == free_size, "the recorded free size is that of the allocator", at)?;
            Invalid::unless(
                block.initial_size == block.allocator.capacity(),
                "the recorded initial size is that of the allocator",
                at,
            )?;
            let listed = self.empties.iter().filter(|empty| empty.slot as usize == slot).count();
            let expected = usize::from(block.allocator.is_empty());
            Invalid::unless(listed == expected, "exactly the empty blocks are listed, once", at)?;
            empty += listed;
            let key = (block.free_size, block.serial);
            self.order.validate_slot(slot as u32, Some((key, block.allocator.largest_free())))?;
        }
        Invalid::unless(empty == self.empties.len(), "only existing blocks are listed as empty", empty as u64)?;
        let vacant = self.slots.iter().filter(|block| block.is_none()).count();
        Invalid::unless(vacant == self.vacant.len(), "only slots without a block are vacant", vacant as u64)?;
        self.order.validate()?;
        let in_order = self.empties.windows(2).all(|pair| pair[0].since <= pair[1].since);
        Invalid::unless(in_order, "the longest empty block is first", 0)?;
        let is_past = self.empties.iter().all(|empty| empty.since <= self.now || empty.since == NOT_REPORTED);
        Invalid::unless(is_past, "no block has been empty since a later tick", self.now)
    }
}

impl<A: Peek, H, O: Order> Blocks<A, H, O> {
    /// Returns the block and the offset that [`Blocks::try_allocate`] would return now. Returns `None` if that call
    /// would fail.
    #[must_use]
    pub fn peek(&self, size: u64, alignment: u64) -> Option<(BlockId, u64)> {
        check_request(size, alignment, u64::MAX).ok()?;
        self.peek_by(size, |ranges| ranges.peek(size, alignment))
    }

    /// Calls `offset` for each block with at least `size` free units, in the order of [`Blocks::try_allocate_by`].
    /// Returns the first block for which `offset` returns `Some`, and that offset.
    #[must_use]
    pub fn peek_by(&self, size: u64, offset: impl Fn(&A) -> Option<u64>) -> Option<(BlockId, u64)> {
        let size = size.max(1);
        let mut in_order = core::iter::successors(self.with_room(None, size), |slot| self.with_room(Some(*slot), size));
        in_order.find_map(|slot| {
            let block = self.slots[slot as usize].as_ref()?;
            offset(&block.allocator).map(|offset| (block.id(slot as usize), offset))
        })
    }
}
