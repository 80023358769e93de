//! What looks at the blocks without changing them: where a request would go, and whether every rule holds.

use super::shelf::Found;
use super::{Block, BlockId, Blocks, NOT_TOLD};
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
            let parked_size = block.allocator.parked_size();
            let at_hand = block.allocator.free_size() - parked_size;
            Invalid::unless(block.at_hand == at_hand, "a block knows its free size", at)?;
            let on_shelf = self.shelf.iter().filter(|(entry, _)| entry.block as usize == slot);
            let on_shelf = on_shelf.map(|(_, span)| span).sum::<u64>();
            Invalid::unless(parked_size == on_shelf, "what is parked is on the shelf", at)?;
            Invalid::unless(block.initial_size == block.allocator.capacity(), "a block knows its initial size", at)?;
            let listed = self.empties.iter().filter(|empty| empty.slot as usize == slot).count();
            let expected = usize::from(block.allocator.is_empty());
            Invalid::unless(listed == expected, "exactly the empty blocks are listed, once", at)?;
            empty += listed;
            let key = self.index.key(slot as u32);
            let expected = (block.at_hand != 0).then_some((block.at_hand, block.serial));
            Invalid::unless(key == expected, "the index knows all but full blocks as they are", at)?;
            let is_true = key.is_none() || self.index.granted_max(slot as u32) >= block.allocator.largest_at_hand();
            Invalid::unless(is_true, "the index promises no less than a block holds", at)?;
            indexed += usize::from(key.is_some());
        }
        Invalid::unless(indexed == self.index.len(), "nothing else is indexed", indexed as u64)?;
        Invalid::unless(empty == self.empties.len(), "nothing else is listed as empty", empty as u64)?;
        let vacant = self.slots.iter().filter(|block| block.is_none()).count();
        Invalid::unless(vacant == self.vacant.len(), "nothing else is vacant", vacant as u64)?;
        self.index.validate()?;
        let units = self.shelf.iter().map(|(_, span)| span).sum();
        let totals = (self.shelf.iter().count() as u32, units);
        Invalid::unless(totals == self.shelf.totals(), "the shelf counts what is on it", units)?;
        let blocks_with_parked = self.slots.iter().flatten().map(|block| block.allocator.parked_size()).sum::<u64>();
        Invalid::unless(units == blocks_with_parked, "nothing else is on the shelf", units)?;
        let sum = |part: fn(&Block<A, H>) -> u64| self.slots.iter().flatten().map(part).fold(0, u64::wrapping_add);
        Invalid::unless(sum(|block| block.initial_size) == self.capacity, "the capacity is that of all blocks", 0)?;
        Invalid::unless(sum(|block| block.at_hand) == self.at_hand, "what is at hand is that of all blocks", 0)?;
        let in_order = self.empties.windows(2).all(|pair| pair[0].since <= pair[1].since);
        Invalid::unless(in_order, "the longest empty block is first", 0)?;
        let is_past = self.empties.iter().all(|empty| empty.since <= self.now || empty.since == NOT_TOLD);
        Invalid::unless(is_past, "no block is empty from a later tick on", self.now)
    }
}

impl<A: Peek, H> Blocks<A, H> {
    /// The block and the offset that [`Blocks::try_allocate`] would give now; `None` if it would refuse.
    #[must_use]
    pub fn peek(&self, size: u64, alignment: u64) -> Option<(BlockId, u64)> {
        self.peek_in(size, alignment, |_| true)
    }

    /// As [`Blocks::peek`], if every block were taken out in which nothing lives.
    #[must_use]
    pub fn peek_beside_live(&self, size: u64, alignment: u64) -> Option<(BlockId, u64)> {
        self.peek_in(size, alignment, |ranges| !ranges.is_empty())
    }

    fn peek_in(&self, size: u64, alignment: u64, may_ask: impl Fn(&A) -> bool) -> Option<(BlockId, u64)> {
        check_request(size, alignment, u64::MAX).ok()?;
        let block = |slot: u32| self.slots[slot as usize].as_ref().map(|block| (block.id(slot as usize), block));
        if let Some(Found { entry, .. }) = self.shelf.find(size)
            && let Some((id, block)) = block(entry.block)
            && let Some(offset) = block.allocator.peek_parked(entry.node, alignment)
        {
            return Some((id, offset));
        }
        let in_order = core::iter::successors(self.index.first_of(size), |slot| self.index.after(*slot));
        let at_hand = in_order.filter(|slot| self.index.granted_max(*slot) >= size).find_map(|slot| {
            let (id, block) = block(slot).filter(|(_, block)| may_ask(&block.allocator))?;
            block.allocator.peek_at_hand(size, alignment).map(|offset| (id, offset))
        });
        if at_hand.is_some() {
            return at_hand;
        }
        // The order will be another one when all is merged.
        let blocks = (0..self.slots.len() as u32).filter_map(block);
        let merged = blocks.filter(|(_, block)| block.allocator.free_size() >= size && may_ask(&block.allocator));
        let granted = merged.filter_map(|(id, block)| {
            let offset = block.allocator.peek(size, alignment)?;
            Some(((block.allocator.free_size(), block.serial), (id, offset)))
        });
        granted.min_by_key(|(key, _)| *key).map(|(_, place)| place)
    }
}
