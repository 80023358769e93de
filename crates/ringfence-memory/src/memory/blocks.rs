//! How an arena gets its blocks: it says what it needs, the driver is called with no lock held that an allocation in a
//! block needs, and the arena takes the block in.
//!
//! ```text
//!   arena.range ── Granted ──▶ a range
//!        │ NeedsBlock(sizes)
//!        ▼
//!   make_block: the first size that the budget and the driver grant ──▶ arena.insert ──▶ a range
//! ```

use std::sync::atomic::Ordering;

use ringfence_core::algorithm::Cutter;

use super::arena::{Answer, Arena, Found, InBlock};
use super::memory_object::Memory;
use super::pressure::Tried;
use super::request::{AllocationDesc, Request};
use super::shared::Shared;
use super::shortage::{Attempt, Constraints, Failure};
use crate::device::Device;
use crate::error::Error;

impl<D: Device> Shared<D> {
    /// Memory in a block that is there, or in a new one.
    pub(super) fn allocate_in<A: Cutter, O>(
        &self,
        arena: &Arena<D, A, O>,
        request: Request<'_>,
        attempt: &mut Attempt,
    ) -> Result<Found<D>, Failure> {
        if let Some(found) = self.slot_in(arena, request, attempt) {
            return Ok(found);
        }
        self.range_in(arena, request, attempt).map(Found::Range)
    }

    /// A slot, if the request's class has pools; `None` if it has not, or no further one is free.
    fn slot_in<A: Cutter, O>(
        &self,
        arena: &Arena<D, A, O>,
        request: Request<'_>,
        attempt: &mut Attempt,
    ) -> Option<Found<D>> {
        let class = arena.slot_class(&request, true)?;
        let slot = arena.slots.allocate(class).or_else(|| {
            // A thread that needs a chunk waits for the one that makes one: it will do for both. But it does not wait
            // for one that makes a block.
            let _making = arena.chunks.lock();
            let found = arena.slots.allocate_thorough(class);
            let found = found.or_else(|| arena.grow_slots(class, |request| arena.range(request)));
            let found = found.or_else(|| arena.slots.allocate_recalled(class, false));
            let found =
                found.or_else(|| arena.grow_slots(class, |request| self.range_in(arena, request, attempt).ok()));
            found.or_else(|| arena.slots.allocate_recalled(class, true))
        })?;
        Some(arena.found(class, slot, &request))
    }

    fn range_in<A: Cutter, O>(
        &self,
        arena: &Arena<D, A, O>,
        request: Request<'_>,
        attempt: &mut Attempt,
    ) -> Result<InBlock<D>, Failure> {
        if let Some(found) = arena.range(request) {
            return Ok(found);
        }
        if attempt.constraints.may_grow {
            arena.note_wait();
        }
        let _growing = arena.growth.lock();
        let sizes = match arena.allocate(request) {
            Answer::Granted(found) => return Ok(found),
            Answer::NeedsBlock(sizes) if sizes.is_empty() => return Err(Failure::PoolFull),
            Answer::NeedsBlock(sizes) => sizes,
        };
        let memory = self.make_block(arena, sizes.into_iter(), request.alignment, attempt)?;
        Ok(arena.insert(memory, request))
    }

    /// Makes blocks until as much is free as the low-water mark wants, within the budget; says how many. No allocation
    /// waits for them: one that finds none meanwhile waits no longer than if it made the block itself.
    pub(super) fn grow_ahead<A: Cutter, O>(&self, arena: &Arena<D, A, O>) -> usize {
        if !arena.wants_block.load(Ordering::Relaxed) {
            return 0;
        }
        std::iter::repeat_with(|| self.make_ahead(arena)).take_while(|made| *made).count()
    }

    /// Makes the next block if little is left.
    fn make_ahead<A: Cutter, O>(&self, arena: &Arena<D, A, O>) -> bool {
        let _growing = arena.growth.lock();
        let Some(size) = arena.wanted_ahead() else { return false };
        let constraints = Constraints { within_budget: true, may_grow: true, may_trim: false, spares_announced: true };
        let attempt = Attempt::at(arena.desc.memory_type, size, &AllocationDesc::default());
        let made = self.make_block(arena, std::iter::once(size), 1, &mut Attempt { constraints, ..attempt });
        let is_made = made.is_ok();
        match made {
            Ok(memory) => arena.insert_ahead(memory),
            Err(_) => arena.wants_block.store(false, Ordering::Relaxed),
        }
        is_made
    }

    /// Makes blocks until empty ones hold `bytes` more than were announced before, and says how many bytes those
    /// blocks have. They stay until as much was allocated.
    pub(super) fn announce<A: Cutter, O>(
        &self,
        arena: &Arena<D, A, O>,
        bytes: u64,
        attempt: &mut Attempt,
    ) -> Result<u64, Failure> {
        let _growing = arena.growth.lock();
        let (mut missing, mut count) = arena.missing_for(bytes);
        let (mut blocks, mut made) = (Vec::new(), 0);
        while made < missing {
            let sizes = arena.desc.sizes.to_hold(count + blocks.len(), missing - made);
            match self.make_block(arena, sizes, 1, attempt) {
                Ok(memory) => {
                    made += memory.size;
                    blocks.push(memory);
                    if attempt.tried.contains(Tried::TRIM) {
                        // Empty blocks that were counted on may be gone.
                        (missing, count) = arena.missing_for(bytes);
                    }
                }
                Err(failure) => {
                    blocks.into_iter().for_each(|memory| self.free_memory(memory));
                    return Err(failure);
                }
            }
        }
        arena.insert_announced(bytes, blocks);
        Ok(made)
    }

    /// Makes blocks until there are `count`, for a pool that is to have them from the start.
    pub(crate) fn preallocate<A: Cutter, O>(&self, arena: &Arena<D, A, O>, count: usize) -> Result<(), Error> {
        let _growing = arena.growth.lock();
        while arena.block_count() < count {
            let size = arena.desc.sizes.max;
            let mut attempt = Attempt::at(arena.desc.memory_type, size, &AllocationDesc::default());
            let made = self.make_block(arena, std::iter::once(size), 1, &mut attempt);
            arena.insert_empty(made.map_err(|failure| self.give_up(&attempt, None, failure))?);
        }
        Ok(())
    }

    /// Requests a block of an arena of the driver: of the first of `sizes` that the budget and the driver grant.
    fn make_block<A: Cutter, O>(
        &self,
        arena: &Arena<D, A, O>,
        sizes: impl Iterator<Item = u64>,
        alignment: u64,
        attempt: &mut Attempt,
    ) -> Result<Memory<D>, Failure> {
        let constraints = attempt.constraints;
        if !constraints.may_grow {
            return Err(Failure::MayNotGrow);
        }
        let heap = arena.desc.heap;
        let mut sizes = sizes.peekable();
        // Once, and once more where memory objects are short: then in every heap.
        let (mut may_trim, mut failure) = ([constraints.may_trim; 2], Failure::OverBudget);
        while let Some(size) = sizes.next() {
            // Beyond the budget goes only the smallest.
            let strict = constraints.within_budget || sizes.peek().is_some();
            let make =
                || self.make_within(heap, size, strict, || self.allocate_memory(&arena.block_desc(size, alignment)));
            let mut made = make();
            if let Some(short) = made.as_ref().err().copied().filter(|failure| failure.may_go_on())
                && std::mem::take(&mut may_trim[usize::from(short.is_of_every_heap())])
                && self.trim_heap(heap, short, attempt)
            {
                made = make();
            }
            failure = match made {
                Err(failure) if failure.may_go_on() => failure,
                Err(failure) => return Err(failure),
                Ok(memory) => {
                    self.note_block(&memory, arena.desc.class_name(), false);
                    return Ok(memory);
                }
            };
            if sizes.peek().is_some() {
                attempt.tried |= Tried::SMALLER_BLOCK;
            }
        }
        Err(failure)
    }
}
