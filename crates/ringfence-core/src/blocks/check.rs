//! What looks at the blocks without changing them: where a request would go, and whether every rule holds.

use super::{BlockId, Blocks, NOT_REPORTED};
use crate::range::{Invalid, Peek, RangeAllocator, check_request};

impl<A: RangeAllocator, H> Blocks<A, H> {
    /// Checks every rule of the structure and of the allocators in it. For tests.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), Invalid> {
        let (mut indexed, mut empty) = (0, 0);
        for (slot, block) in self.slots.iter().enumerate() {
            let at = slot as u64;
            let Some(block) = block else {
                Invalid::unless(self.vacant.contains(&(slot as u32)), "a slot without a block is vacant", at)?;
                continue;
            };
            block.allocator.validate()?;
            let free_size = block.allocator.free_size();
            Invalid::unless(block.free_size == free_size, "a block knows its free size", at)?;
            Invalid::unless(block.initial_size == block.allocator.capacity(), "a block knows its initial size", at)?;
            let listed = self.empties.iter().filter(|empty| empty.slot as usize == slot).count();
            let expected = usize::from(block.allocator.is_empty());
            Invalid::unless(listed == expected, "exactly the empty blocks are listed, once", at)?;
            empty += listed;
            let key = self.index.key(slot as u32);
            let expected = (block.free_size != 0).then_some((block.free_size, block.serial));
            Invalid::unless(key == expected, "the index knows all but full blocks as they are", at)?;
            let is_true = key.is_none() || self.index.granted_max(slot as u32) >= block.allocator.largest_free();
            Invalid::unless(is_true, "the index promises no less than a block holds", at)?;
            indexed += usize::from(key.is_some());
        }
        Invalid::unless(indexed == self.index.len(), "nothing else is indexed", indexed as u64)?;
        Invalid::unless(empty == self.empties.len(), "nothing else is listed as empty", empty as u64)?;
        let vacant = self.slots.iter().filter(|block| block.is_none()).count();
        Invalid::unless(vacant == self.vacant.len(), "nothing else is vacant", vacant as u64)?;
        self.index.validate()?;
        let in_order = self.empties.windows(2).all(|pair| pair[0].since <= pair[1].since);
        Invalid::unless(in_order, "the longest empty block is first", 0)?;
        let is_past = self.empties.iter().all(|empty| empty.since <= self.now || empty.since == NOT_REPORTED);
        Invalid::unless(is_past, "no block is empty from a later tick on", self.now)
    }
}

impl<A: Peek, H> Blocks<A, H> {
    /// The block and the offset that [`Blocks::try_allocate`] would give now; `None` if it would refuse.
    #[must_use]
    pub fn peek(&self, size: u64, alignment: u64) -> Option<(BlockId, u64)> {
        check_request(size, alignment, u64::MAX).ok()?;
        self.peek_by(size, |ranges| ranges.peek(size, alignment))
    }

    /// As [`Blocks::try_allocate_by`]: what the first block gives that has an offset.
    #[must_use]
    pub fn peek_by(&self, size: u64, offset: impl Fn(&A) -> Option<u64>) -> Option<(BlockId, u64)> {
        let mut in_order = core::iter::successors(self.index.first_of(size), |slot| self.index.after(*slot));
        in_order.find_map(|slot| {
            let block = self.slots[slot as usize].as_ref()?;
            offset(&block.allocator).map(|offset| (block.id(slot as usize), offset))
        })
    }
}
