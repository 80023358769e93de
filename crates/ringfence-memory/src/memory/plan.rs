//! The dry run: where a request would go, and what the driver would be asked for, before it is made.
//!
//! It prints the decision that the real call executes ([`super::decide`]). Two things only the driver and the caller can
//! answer: it takes the driver to refuse what is more than the heap has left, and calls no eviction callback. With no other thread at work, and no other process taking memory, the real call does what the plan says.

use super::arena::Forecast;
use super::ask::Ask;
use super::attempt::{Refusal, Terms};
use super::budget::{Budget, Grant};
use super::decide::{Step, decide};
use super::place::ArenaRef;
use super::request::AllocationDesc;
use super::shared::Shared;
use crate::device::{BufferInfo, Buffers, Device, Requirements, TextureInfo, Textures};
use crate::error::Error;
use std::sync::Arc;

/// Where a request would go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The memory type.
    pub memory_type: u32,
    /// Its heap.
    pub heap: u32,
    /// How.
    pub way: PlannedWay,
    /// Bytes that would be set aside for it.
    pub bytes: u64,
    /// Those of them that it does not need: rounding to atoms, cells and the like.
    pub waste_bytes: u64,
    /// Bytes that the driver would be asked for; 0 if it would not be asked.
    pub asked_bytes: u64,
    /// What could be taken of the heap afterwards without going beyond the budget.
    pub headroom_bytes: u64,
}

/// How a request would get its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlannedWay {
    /// In a block that is there.
    InBlock {
        /// First byte there.
        offset: u64,
    },
    /// In a new block of [`Plan::asked_bytes`].
    NewBlock,
    /// In memory of its own.
    Dedicated,
}

impl<D: Device> Shared<D> {
    pub(crate) fn plan(&self, ask: &Ask<'_, '_, D>) -> Result<Plan, Error> {
        self.check_lost()?;
        self.check_request(ask)?;
        self.budgets.refresh_if_old(&self.device);
        let (mut refusal, mut best, mut trimmed) = (Refusal::NoType, None, 0_u32);
        for step in decide(ask.needs, ask.desc, self.view(ask)) {
            best.get_or_insert(step.memory_type);
            match self.plan_step(ask, &step, &mut trimmed) {
                Ok(plan) => return Ok(plan),
                Err(next) => refusal = next,
            }
        }
        Err(self.give_up_plan(ask, best, refusal))
    }

    /// `trimmed` has a bit for each heap whose empty blocks the real call would have given back by now.
    fn plan_step(&self, ask: &Ask<'_, '_, D>, step: &Step, trimmed: &mut u32) -> Result<Plan, Refusal> {
        let (heap, terms) = (self.heap_of(step.memory_type), Terms::of(ask.desc));
        let plan = |way, bytes: u64, asked_bytes: u64| Plan {
            memory_type: step.memory_type,
            heap,
            way,
            bytes,
            waste_bytes: bytes - ask.needs.size,
            asked_bytes,
            headroom_bytes: self.budgets.heap(heap).headroom_bytes().saturating_sub(asked_bytes),
        };
        let mut refusal = Refusal::OverBudget;
        if step.way.tries_block() {
            let request = ask.request(step.needs.size, step.needs.alignment);
            let without_empty = *trimmed >> heap & 1 == 1;
            let forecast = match self.arena_of(ask, step) {
                ArenaRef::Own(index) => self.arenas[index as usize].forecast(request, without_empty),
                ArenaRef::Pool(pool) => pool.arena.forecast(request, without_empty),
            };
            match forecast {
                Forecast::InBlock { offset, bytes } => {
                    let offset = offset + step.margins.front;
                    return Ok(plan(PlannedWay::InBlock { offset }, bytes, 0));
                }
                Forecast::NewBlock { sizes, bytes } => match self.foresee(heap, &sizes, terms, trimmed) {
                    Ok(asked) => return Ok(plan(PlannedWay::NewBlock, bytes, asked)),
                    Err(refused) => refusal = refused,
                },
                Forecast::Full => refusal = Refusal::PoolFull,
            }
            if !step.way.tries_dedicated() {
                return Err(refusal);
            }
        }
        let size = ask.needs.size;
        match self.foresee(heap, &[size], terms, trimmed) {
            Ok(asked) => Ok(plan(PlannedWay::Dedicated, size, asked)),
            Err(refused) => Err(if step.way.tries_block() { refusal } else { refused }),
        }
    }

    /// The first of these sizes that the budget grants and the heap has room for. If the first of all is refused, the
    /// heap's empty blocks are given back before it goes on.
    fn foresee(&self, heap: u32, sizes: &[u64], terms: Terms, trimmed: &mut u32) -> Result<u64, Refusal> {
        if !terms.may_grow {
            return Err(Refusal::MayNotGrow);
        }
        let held = self.budgets.heap(heap);
        for (nth, &size) in sizes.iter().enumerate() {
            let is_last = nth + 1 == sizes.len();
            let is_granted = |budget: Budget| {
                let by_budget = match budget.grant(size) {
                    Grant::Room => true,
                    Grant::BeyondBudget => is_last && !terms.within_budget,
                    Grant::BeyondLimit => false,
                };
                by_budget && budget.usage_bytes.saturating_add(size) <= budget.heap_bytes && self.has_room_for_object()
            };
            let without_empty = held.less(self.empty_bytes(heap));
            let now = if *trimmed >> heap & 1 == 1 { without_empty } else { held };
            if is_granted(now) {
                return Ok(size);
            }
            *trimmed |= 1 << heap;
            if is_granted(without_empty) {
                return Ok(size);
            }
        }
        Err(Refusal::OverBudget)
    }

    fn give_up_plan(&self, ask: &Ask<'_, '_, D>, best: Option<u32>, refusal: Refusal) -> Error {
        let (size, location) = (ask.needs.size, ask.desc.location);
        match (refusal, best, ask.pool) {
            (Refusal::MayNotGrow, ..) => Error::WouldGrow { size, location },
            (Refusal::PoolFull, _, Some(pool)) => pool.full(size),
            (_, Some(best), _) => {
                let heap = self.heap_of(best);
                let (tried, tried_type_bits) = (Default::default(), 1 << best);
                Error::OverBudget { size, location, tried_type_bits, heap, budget: self.budgets.heap(heap), tried }
            }
            (_, None, _) => Error::NoMemoryType { location, memory_type_bits: ask.needs.memory_type_bits },
        }
    }
}

/// What calls of an allocator would do, before they are made. Made by [`Allocator::plan`](crate::Allocator::plan).
pub struct Planner<'a, D: Device> {
    shared: &'a Arc<Shared<D>>,
}

impl<'a, D: Device> Planner<'a, D> {
    pub(crate) fn new(shared: &'a Arc<Shared<D>>) -> Self {
        Self { shared }
    }

    /// What [`Allocator::allocate`](crate::Allocator::allocate) would do: which memory type, in a block or by itself, what the driver would be asked
    /// for. Changes nothing. With no other thread taking memory meanwhile, the call does what the plan says, as long as the
    /// driver grants what its budgets promise.
    ///
    /// # Errors
    /// Those of the call that can be foreseen; [`Error::OverBudget`] where no heap has room.
    pub fn memory(&self, needs: Requirements, desc: AllocationDesc<'_>) -> Result<Plan, Error> {
        self.shared.plan(&Ask::new(needs, &desc))
    }

    /// What [`Allocator::create_buffer`](crate::Allocator::create_buffer) would do. On Vulkan the driver's object is made, measured and destroyed.
    ///
    /// # Errors
    /// As [`Allocator::plan`](crate::Allocator::plan), or the driver refuses the description.
    pub fn buffer(&self, info: &BufferInfo<'_, D>, desc: AllocationDesc<'_>) -> Result<Plan, Error> {
        self.shared.plan_resource::<Buffers>(info, desc)
    }

    /// What [`Allocator::create_texture`](crate::Allocator::create_texture) would do.
    ///
    /// # Errors
    /// As [`Planner::buffer`](crate::memory::Planner::buffer).
    pub fn texture(&self, info: &TextureInfo<'_, D>, desc: AllocationDesc<'_>) -> Result<Plan, Error> {
        self.shared.plan_resource::<Textures>(info, desc)
    }

    /// The memory type that is tried first for such requirements, for [`PoolDesc`](crate::PoolDesc); `None` if there is none.
    #[must_use]
    pub fn memory_type(&self, memory_type_bits: u32, desc: AllocationDesc<'_>) -> Option<u32> {
        self.shared.order.candidates_for(self.shared.device.capabilities(), &desc, memory_type_bits).next()
    }
}
