//! How an arena gets its blocks: it says what it needs, the driver is called with no lock held that an allocation in a
//! block needs, and the arena takes the block in.
//!
//! ```text
//!   arena.range ── Granted ──▶ a range
//!        │ NeedsBlock(sizes)
//!        ▼
//!   make_block: the first size that the budget and the driver grant ──▶ arena.insert ──▶ a range
//! ```

use super::arena::{Answer, Arena, ArenaDesc, Cutter, Found, InBlock};
use super::attempt::{Attempt, Refusal, Terms};
use super::memory_object::Memory;
use super::pressure::Tried;
use super::request::Request;
use super::shared::Shared;
use crate::device::{Device, MemoryDesc};

impl<D: Device> Shared<D> {
    /// Memory in a block that is there, or in a new one.
    pub(super) fn allocate_in<A: Cutter, O>(
        &self,
        arena: &Arena<D, A, O>,
        request: Request<'_>,
        terms: Terms,
        attempt: &mut Attempt,
    ) -> Result<Found<D>, Refusal> {
        if let Some(found) = self.cell_in(arena, request, terms, attempt) {
            return Ok(found);
        }
        self.range_in(arena, request, terms, attempt).map(Found::Range)
    }

    /// A cell, if the request's class has pools; `None` if it has not, or there is no room for another one.
    fn cell_in<A: Cutter, O>(
        &self,
        arena: &Arena<D, A, O>,
        request: Request<'_>,
        terms: Terms,
        attempt: &mut Attempt,
    ) -> Option<Found<D>> {
        let class = arena.cell_class(&request, true)?;
        let cell = arena.cells.allocate(class).or_else(|| {
            // A thread that needs a chunk waits for the one that makes one: it will do for both. But it does not wait for
            // one that makes a block.
            let _making = arena.lock_chunks();
            let found = arena.cells.allocate_thorough(class);
            let found = found.or_else(|| arena.grow_cells(class, |request| arena.range(request)));
            let found = found.or_else(|| arena.cells.allocate_recalled(class));
            found.or_else(|| arena.grow_cells(class, |request| self.range_in(arena, request, terms, attempt).ok()))
        })?;
        Some(arena.found(class, cell, &request))
    }

    fn range_in<A: Cutter, O>(
        &self,
        arena: &Arena<D, A, O>,
        request: Request<'_>,
        terms: Terms,
        attempt: &mut Attempt,
    ) -> Result<InBlock<D>, Refusal> {
        if let Some(found) = arena.range(request) {
            return Ok(found);
        }
        if terms.may_grow {
            arena.note_wait();
        }
        let _growing = arena.lock_growth();
        let sizes = match arena.allocate(request) {
            Answer::Granted(found) => return Ok(found),
            Answer::NeedsBlock(sizes) if sizes.is_empty() => return Err(Refusal::PoolFull),
            Answer::NeedsBlock(sizes) => sizes,
        };
        let desc = |size| arena.block_desc(size, request.alignment);
        let memory = self.make_block(sizes.into_iter(), &arena.desc, terms, attempt, desc)?;
        Ok(arena.insert(memory, request))
    }

    /// Makes blocks until as much is free as the low-water mark wants, within the budget; says how many. No allocation
    /// waits for them: one that finds no room meanwhile waits no longer than if it made the block itself.
    pub(super) fn grow_ahead<A: Cutter, O>(&self, arena: &Arena<D, A, O>) -> usize {
        if !arena.wants_block() {
            return 0;
        }
        std::iter::repeat_with(|| self.make_ahead(arena)).take_while(|made| *made).count()
    }

    /// Makes the next block if little is left.
    fn make_ahead<A: Cutter, O>(&self, arena: &Arena<D, A, O>) -> bool {
        let _growing = arena.lock_growth();
        let Some(size) = arena.wanted_ahead() else { return false };
        let terms = Terms { within_budget: true, may_grow: true, may_trim: false };
        let (sizes, desc) = (std::iter::once(size), |size| arena.block_desc(size, 1));
        match self.make_block(sizes, &arena.desc, terms, &mut Attempt::default(), desc) {
            Ok(memory) => {
                arena.insert_ahead(memory);
                true
            }
            Err(_) => {
                arena.forget_wanted();
                false
            }
        }
    }

    /// Makes blocks until so many bytes more than were announced before lie in empty ones, and says how many bytes those
    /// blocks have. They stay until as much was allocated.
    pub(super) fn announce<A: Cutter, O>(
        &self,
        arena: &Arena<D, A, O>,
        bytes: u64,
        terms: Terms,
        attempt: &mut Attempt,
    ) -> Result<u64, Refusal> {
        let _growing = arena.lock_growth();
        let (missing, count) = arena.missing_for(bytes);
        let (mut blocks, mut made) = (Vec::new(), 0);
        while made < missing {
            let sizes = arena.desc.sizes.to_hold(count + blocks.len(), missing - made);
            match self.make_block(sizes, &arena.desc, terms, attempt, |size| arena.block_desc(size, 1)) {
                Ok(memory) => {
                    made += memory.size;
                    blocks.push(memory);
                }
                Err(refusal) => {
                    blocks.into_iter().for_each(|memory| self.free_memory(memory));
                    return Err(refusal);
                }
            }
        }
        arena.insert_announced(bytes, blocks);
        Ok(made)
    }

    /// Makes blocks until there are `count`, for a pool that is to have them from the start.
    pub(crate) fn preallocate<A: Cutter, O>(&self, arena: &Arena<D, A, O>, count: usize) -> Result<(), Refusal> {
        let _growing = arena.lock_growth();
        while arena.block_count() < count {
            let sizes = std::iter::once(arena.desc.sizes.max);
            let terms = Terms { within_budget: false, may_grow: true, may_trim: true };
            let desc = |size| arena.block_desc(size, 1);
            arena.insert_empty(self.make_block(sizes, &arena.desc, terms, &mut Attempt::default(), desc)?);
        }
        Ok(())
    }

    /// Asks the driver for a block of an arena: of the first of `sizes` that the budget and the driver grant.
    fn make_block(
        &self,
        sizes: impl Iterator<Item = u64>,
        arena: &ArenaDesc,
        terms: Terms,
        attempt: &mut Attempt,
        desc: impl Fn(u64) -> MemoryDesc<'static>,
    ) -> Result<Memory<D>, Refusal> {
        if !terms.may_grow {
            return Err(Refusal::MayNotGrow);
        }
        self.budgets.refresh_if_old(&self.device);
        let heap = arena.heap;
        let mut sizes = sizes.peekable();
        let (mut may_trim, mut refusal) = (terms.may_trim, Refusal::OverBudget);
        while let Some(size) = sizes.next() {
            // Beyond the budget goes only the smallest.
            let strict = terms.within_budget || sizes.peek().is_some();
            let make = || self.ask_within(heap, size, strict, || self.allocate_memory(&desc(size)));
            let mut made = make();
            if may_trim && made.as_ref().is_err_and(|refusal| refusal.may_go_on()) {
                may_trim = false;
                if self.trim_heap(heap, attempt) {
                    made = make();
                }
            }
            refusal = match made {
                Err(refusal) if refusal.may_go_on() => refusal,
                Err(refusal) => return Err(refusal),
                Ok(memory) => {
                    self.trace_block(&memory, arena.class_name(), false);
                    return Ok(memory);
                }
            };
            if sizes.peek().is_some() {
                attempt.tried |= Tried::SMALLER_BLOCK;
            }
        }
        Err(refusal)
    }
}
