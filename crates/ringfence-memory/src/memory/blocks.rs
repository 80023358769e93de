//! Creates blocks for an arena. The arena returns the sizes that would serve the request, largest first. The driver
//! creates a block, and the arena adds it. During the driver call, `growth` (for slots also `chunks`) is held, but not
//! the lock of the arena's state, so other threads can allocate in existing blocks.
//!
//! ```text
//!   arena.range ── Granted ──▶ a range
//!        │ NeedsBlock(sizes)
//!        ▼
//!   make_block: the first size that the budget and the driver grant ──▶ arena.insert ──▶ a range
//! ```

use std::sync::atomic::Ordering;

use ringfence_core::algorithm::Cutter;
use ringfence_decision::{AllocationDesc, Attempt, Constraints, Error, Failure, ObjectRequest, Tried};

use super::shared::Shared;
use crate::device::Device;
use ringfence_arena::Memory;
use ringfence_arena::Request;
use ringfence_arena::{AllocateResult, Arena, ArenaDesc, Found, InBlock};

/// Blocks that were created but belong to no arena yet. They are freed on drop.
struct NewBlocks<'a, D: Device> {
    shared: &'a Shared<D>,
    blocks: Vec<Memory<D>>,
}

impl<D: Device> Drop for NewBlocks<'_, D> {
    fn drop(&mut self) {
        std::mem::take(&mut self.blocks).into_iter().for_each(|memory| self.shared.free_memory(memory));
    }
}

impl<D: Device> Shared<D> {
    /// Allocates memory in an existing block, or in a new one.
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

    /// Allocates a slot. Returns `None` if the request cannot use a slot, if its class has no pools, or if no slot is
    /// free and no chunk was created.
    fn slot_in<A: Cutter, O>(
        &self,
        arena: &Arena<D, A, O>,
        request: Request<'_>,
        attempt: &mut Attempt,
    ) -> Option<Found<D>> {
        let class = arena.slot_class(&request, true)?;
        let slot = arena.slots.allocate(class).or_else(|| {
            // A thread that needs a chunk waits for a thread that creates one, because the chunk serves both. It waits
            // for a thread that creates a block only if no existing block has room for the chunk.
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
        let bytes_min = self.block_bytes_min(arena);
        if self.is_known_full(arena, request, bytes_min, attempt) {
            attempt.was_spared = true;
            return Err(Failure::Refused);
        }
        if attempt.constraints.may_grow {
            arena.note_wait(request.size);
        }
        let _growing = arena.growth.lock();
        let sizes = match arena.allocate(request, bytes_min) {
            AllocateResult::Granted(found) => return Ok(found),
            AllocateResult::NeedsBlock(sizes) if sizes.is_empty() => return Err(Failure::PoolFull),
            AllocateResult::NeedsBlock(sizes) => sizes,
        };
        let memory = self.make_block(arena, sizes.into_iter(), request.alignment, attempt)?;
        Ok(arena.insert(memory, request))
    }

    /// Returns `true` if a block for the request was refused before, a trim released nothing, and no memory was
    /// released after that. Checked without `growth`, so that no thread waits for a driver call only to fail.
    fn is_known_full<A: Cutter, O>(
        &self,
        arena: &Arena<D, A, O>,
        request: Request<'_>,
        bytes_min: u64,
        attempt: &Attempt,
    ) -> bool {
        let constraints = attempt.constraints;
        if constraints.ignores_refusals || !constraints.may_grow || !constraints.may_trim {
            return false;
        }
        let sizes = arena.sizes_to_create(request, bytes_min);
        let fails = |(nth, bytes): (usize, &u64)| {
            let reach = constraints.reach(nth + 1 == sizes.len());
            self.is_known_to_fail(ObjectRequest::block(arena.desc.memory_type, *bytes, reach))
        };
        let heap = Some(arena.desc.heap);
        !sizes.is_empty()
            && sizes.iter().enumerate().all(fails)
            && self.budgets.refusals.was_trimmed(heap, self.trim_mark(heap))
    }

    /// Returns the minimum size of the arena's next block, in bytes. It is 0, unless a quarter of the memory objects is
    /// used and the rest, at the arena's largest block size, could not hold the free memory.
    pub(super) fn block_bytes_min<A: Cutter, O>(&self, arena: &Arena<D, A, O>) -> u64 {
        let capabilities = self.device.capabilities();
        let (held, most) = (self.memory_objects.load(Ordering::Relaxed), capabilities.memory_objects_max);
        if held < most / 4 {
            return 0;
        }
        let left = most.saturating_sub(held).max(1);
        let free = |heap| {
            let budget = self.budgets.heap(heap);
            budget.heap_bytes.min(budget.limit_bytes).saturating_sub(budget.reserved_bytes)
        };
        let free: u64 = (0..self.budgets.heap_count()).map(free).sum();
        let ArenaDesc { sizes, heap, .. } = arena.desc;
        if left.saturating_mul(sizes.max) >= free {
            return 0;
        }
        let share = (free / left).checked_next_power_of_two().unwrap_or(u64::MAX);
        let eighth = 1_u64 << (capabilities.memory_heaps[heap as usize].bytes / 8).max(1).ilog2();
        share.min(eighth).min(capabilities.memory_object_bytes_max)
    }

    /// Creates blocks within the budget until free bytes reach the low-water mark, and returns their number. An
    /// allocation waits for them only if it would otherwise create the block itself.
    pub(super) fn grow_ahead<A: Cutter, O>(&self, arena: &Arena<D, A, O>) -> usize {
        if !arena.wants_block.load(Ordering::Relaxed) {
            return 0;
        }
        std::iter::repeat_with(|| self.make_ahead(arena)).take_while(|made| *made).count()
    }

    /// Creates a block if the arena's free bytes are below its low-water mark. Returns `true` if a block was created.
    /// If the creation fails, clears `wants_block`: a later allocation sets it again.
    fn make_ahead<A: Cutter, O>(&self, arena: &Arena<D, A, O>) -> bool {
        let _growing = arena.growth.lock();
        let Some(size) = arena.wanted_ahead(self.block_bytes_min(arena)) else { return false };
        let attempt = Attempt::at(arena.desc.memory_type, size, &AllocationDesc::default());
        let constraints = Constraints {
            within_budget: true,
            may_trim: false,
            spares_announced: true,
            ignores_refusals: false,
            ..attempt.constraints
        };
        let made = self.make_block(arena, std::iter::once(size), 1, &mut Attempt { constraints, ..attempt });
        let is_made = made.is_ok();
        match made {
            Ok(memory) => arena.insert_ahead(memory),
            Err(_) => arena.wants_block.store(false, Ordering::Relaxed),
        }
        is_made
    }

    /// Announces `bytes`: creates blocks until the empty blocks have room for all announced bytes. Returns the total
    /// size of the new blocks. The empty blocks are kept until `bytes` were allocated.
    pub(super) fn announce<A: Cutter, O>(
        &self,
        arena: &Arena<D, A, O>,
        bytes: u64,
        attempt: &mut Attempt,
    ) -> Result<u64, Failure> {
        let _growing = arena.growth.lock();
        let (mut missing, mut held) = arena.missing_for(bytes);
        let (mut new, mut made) = (NewBlocks { shared: self, blocks: Vec::new() }, 0);
        while made < missing {
            let sizes = arena.desc.sizes.at_least(self.block_bytes_min(arena));
            let sizes = sizes.to_hold(held + made, missing - made);
            let memory = self.make_block(arena, sizes, 1, attempt)?;
            made += memory.size;
            new.blocks.push(memory);
            if attempt.tried.contains(Tried::TRIM) {
                // Empty blocks that were counted may have been freed.
                (missing, held) = arena.missing_for(bytes);
            }
        }
        arena.insert_announced(bytes, std::mem::take(&mut new.blocks));
        Ok(made)
    }

    /// Creates the initial blocks of a pool, until it has `count` blocks.
    pub(crate) fn preallocate<A: Cutter, O>(&self, arena: &Arena<D, A, O>, count: usize) -> Result<(), Error> {
        let _growing = arena.growth.lock();
        while arena.block_count() < count {
            let size = arena.desc.sizes.max;
            let mut attempt = Attempt::at(arena.desc.memory_type, size, &AllocationDesc::default());
            attempt.constraints.beyond_window = true;
            let made = self.make_block(arena, std::iter::once(size), 1, &mut attempt);
            arena.insert_empty(made.map_err(|failure| self.give_up(&attempt, None, failure))?);
        }
        Ok(())
    }

    /// Creates a block for an arena, of the first of `sizes` that the budget and the driver grant.
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
        let ArenaDesc { heap, memory_type, .. } = arena.desc;
        let mut sizes = sizes.peekable();
        // Allows one trim of the heap, and one of every heap if memory objects are short.
        let (mut may_trim, mut failure) = ([constraints.may_trim; 2], Failure::NoType);
        while let Some(size) = sizes.next() {
            // Only the last (smallest) size may exceed the budget or `window_bytes_max`, if the request allows that.
            let object = ObjectRequest::block(memory_type, size, constraints.reach(sizes.peek().is_none()));
            let make = |attempt: &mut Attempt| {
                self.make_within(object, attempt, || self.allocate_memory(&arena.block_desc(size, alignment)))
            };
            let mut made = make(attempt);
            if let Some(short) = made.as_ref().err().copied().filter(|failure| failure.may_go_on())
                && std::mem::take(&mut may_trim[usize::from(short.is_of_every_heap())])
                && self.trim_heap(heap, short, attempt)
            {
                made = make(attempt);
            }
            failure = match made {
                Err(next) if next.may_go_on() => failure.then(next),
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
