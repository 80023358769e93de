//! Plans: the placement that a request would get, and its driver calls, without executing them.
//!
//! A plan is the decision that the real call executes ([`decide`]). It assumes that the driver grants each memory
//! object that fits into the rest of the heap, and it calls no eviction callback. If no other thread or process
//! allocates in between, the call usually does what the plan reports: see [`Planner::memory`].

use std::sync::Arc;

use ringfence_core::algorithm::Cutter;
use ringfence_decision::{
    AllocationDesc, Budget, Constraints, Error, Failure, ObjectRequest, Reach, Step, Way, aligned, decide, rounded,
};
use ringfence_lockfree::recycled::Held;

use super::place::ArenaRef;
use super::placed_object::ItemKind;
use super::placing::PlacementRequest;
use super::recycle::memory_of_kind;
use super::shared::Shared;
use crate::device::{Buffers, Create, Describe, Device, Requirements, Textures};
use ringfence_arena::Request;
use ringfence_arena::{Arena, Forecast};

/// The placement that a request would get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The memory type.
    pub memory_type: u32,
    /// The heap of the memory type.
    pub heap: u32,
    /// The kind of placement.
    pub way: PlannedWay,
    /// Number of bytes that would be allocated for the request.
    pub bytes: u64,
    /// Number of bytes in `bytes` that the resource does not need: rounding to atoms, guards, the rest of a slot.
    pub waste_bytes: u64,
    /// Size of the memory object that would be requested from the driver, in bytes; 0 if none would be requested.
    pub requested_bytes: u64,
    /// Bytes that could still be allocated from the heap after the request without exceeding the budget.
    pub headroom_bytes: u64,
}

/// The kind of placement that a request would get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlannedWay {
    /// A recycled object, bound to its memory: no driver call.
    Recycled,
    /// A range of an existing block.
    InBlock {
        /// Offset of the range in the block.
        offset: u64,
    },
    /// A range of a new block of [`Plan::requested_bytes`].
    NewBlock,
    /// Dedicated memory.
    Dedicated,
}

impl<D: Device> Shared<D> {
    pub(crate) fn plan(&self, request: &PlacementRequest<'_, '_, D>) -> Result<Plan, Error> {
        self.check_lost()?;
        self.check_request(request)?;
        self.budgets.refresh_if_old(&self.device);
        let mut attempt = self.attempt(request);
        loop {
            let (mut failure, mut trimmed, mut was_spared) = (Failure::NoType, 0_u32, false);
            for step in decide(request.needs, request.desc, self.view(request)) {
                attempt.begin(step.memory_type);
                match self.plan_step(request, &step, attempt.constraints, &mut trimmed) {
                    Ok(plan) => return Ok(plan),
                    Err(next) => {
                        was_spared |= next == Failure::Refused;
                        failure = failure.then(next);
                    }
                }
            }
            // As in the real call, a remembered refusal does not fail a request: plan again without it.
            if !was_spared || std::mem::replace(&mut attempt.constraints.ignores_refusals, true) {
                return Err(self.give_up(&attempt, request.pool, failure));
            }
        }
    }

    /// Plans one step. `trimmed` has a bit for each heap whose empty blocks the real call would have freed by now.
    fn plan_step(
        &self,
        request: &PlacementRequest<'_, '_, D>,
        step: &Step,
        constraints: Constraints,
        trimmed: &mut u32,
    ) -> Result<Plan, Failure> {
        let heap = self.heap_of(step.memory_type);
        let plan = |way, bytes: u64, requested_bytes: u64, trimmed: u32| Plan {
            memory_type: step.memory_type,
            heap,
            way,
            bytes,
            waste_bytes: bytes - request.needs.size,
            requested_bytes,
            headroom_bytes: self
                .held(heap, trimmed, constraints.reach(true))
                .headroom_bytes()
                .saturating_sub(requested_bytes),
        };
        let memory_type = step.memory_type;
        if step.way == Way::Dedicated {
            let (size, request) = (request.needs.size, ObjectRequest::dedicated);
            let sizes = std::iter::once(size);
            let requested =
                self.foresee(|bytes, reach| request(memory_type, bytes, reach), sizes, constraints, trimmed)?;
            return Ok(plan(PlannedWay::Dedicated, size, requested, *trimmed));
        }
        match self.forecast(request, step, *trimmed >> heap & 1 == 1) {
            Forecast::InBlock { offset, bytes } => {
                let offset = offset + step.margins.front;
                Ok(plan(PlannedWay::InBlock { offset }, bytes, 0, *trimmed))
            }
            Forecast::NewBlock { sizes, bytes } => {
                let block = |bytes, reach| ObjectRequest::block(memory_type, bytes, reach);
                let requested = self.foresee(block, sizes.into_iter(), constraints, trimmed)?;
                Ok(plan(PlannedWay::NewBlock, bytes, requested, *trimmed))
            }
            Forecast::Full => Err(Failure::PoolFull),
        }
    }

    /// Predicts the result of the step in its arena. If `trimmed`, empty blocks count as freed.
    fn forecast(&self, request: &PlacementRequest<'_, '_, D>, step: &Step, trimmed: bool) -> Forecast {
        let of_range = request.of_range(step.needs.size, step.needs.alignment);
        match self.arena_of(request, step) {
            ArenaRef::Own(index) => self.forecast_in(&self.arenas[index as usize], of_range, trimmed),
            ArenaRef::Pool(pool) => self.forecast_in(&pool.arena, of_range, trimmed),
        }
    }

    fn forecast_in<A: Cutter, O>(&self, arena: &Arena<D, A, O>, request: Request<'_>, trimmed: bool) -> Forecast {
        arena.forecast(request, trimmed, self.block_bytes_min(arena))
    }

    /// Returns the first of these sizes that fits into the budget and into the rest of the heap. If a size does not
    /// fit, the heap's empty blocks count as freed from then on.
    fn foresee(
        &self,
        object: impl Fn(u64, Reach) -> ObjectRequest,
        sizes: impl Iterator<Item = u64>,
        constraints: Constraints,
        trimmed: &mut u32,
    ) -> Result<u64, Failure> {
        if !constraints.may_grow {
            return Err(Failure::MayNotGrow);
        }
        let (mut sizes, mut failure) = (sizes.peekable(), Failure::NoType);
        while let Some(size) = sizes.next() {
            let object = object(size, constraints.reach(sizes.peek().is_none()));
            let heap = self.heap_of(object.memory_type);
            let mut granted = self.foresee_object(object, constraints, self.held(heap, *trimmed, object.reach));
            if granted.is_err() {
                *trimmed |= 1 << heap;
                granted = self.foresee_object(object, constraints, self.held(heap, *trimmed, object.reach));
            }
            match granted {
                Ok(()) => return Ok(size),
                Err(next) => failure = failure.then(next),
            }
        }
        Err(failure)
    }

    /// Predicts if the driver grants a memory object while the heap has the usage `held`.
    fn foresee_object(&self, object: ObjectRequest, constraints: Constraints, held: Budget) -> Result<(), Failure> {
        let max = self.object_bytes_max(object.memory_type);
        if object.bytes > max {
            return Err(Failure::TooLarge { max });
        }
        let is_fresh = held.reserved_bytes != self.budgets.heap(self.heap_of(object.memory_type)).reserved_bytes;
        if !constraints.ignores_refusals && !is_fresh && self.is_refused(object) {
            return Err(Failure::Refused);
        }
        let is_left = held.usage_bytes.saturating_add(object.bytes) <= held.heap_bytes && self.has_object_left();
        if object.reach.allows(object.bytes, &held) && is_left { Ok(()) } else { Err(Failure::OverBudget) }
    }

    /// Returns the usage of a heap. If `trimmed` contains the heap, its empty blocks are not counted.
    fn held(&self, heap: u32, trimmed: u32, reach: Reach) -> Budget {
        let held = self.budgets.heap_for(heap, reach.beyond_window);
        let freed = if trimmed >> heap & 1 == 1 { self.empty_bytes(heap) } else { 0 };
        Budget {
            usage_bytes: held.usage_bytes.saturating_sub(freed),
            reserved_bytes: held.reserved_bytes.saturating_sub(freed),
            ..held
        }
    }
}

/// Predicts the calls of an allocator before they are made. Created by [`Allocator::plan`](crate::Allocator::plan).
pub struct Planner<'a, D: Device>(pub(crate) &'a Arc<Shared<D>>);

impl<D: Device> Planner<'_, D> {
    /// Returns the decision of [`Allocator::allocate`](crate::Allocator::allocate): the memory type, a block or
    /// dedicated memory, and the request to the driver. Allocates nothing. The call does what the plan reports, if no
    /// other thread or process allocates in between, and if the driver grants each memory object that the heap has room
    /// for. In two cases the call may find more memory than the plan:
    ///
    /// - If a heap is nearly full, the call destroys retired and recycled objects, and frees unused slots, empty shared
    ///   buffers and the empty blocks of placements (`ringfence-placement`). A plan does not know which blocks then
    ///   become empty.
    /// - If memory objects are short, the call frees the empty blocks of every heap.
    ///
    /// # Errors
    /// The errors of the call that are known beforehand. [`Error::OverBudget`] if no heap has enough memory left.
    pub fn memory(&self, needs: Requirements, desc: AllocationDesc<'_>) -> Result<Plan, Error> {
        self.0.plan(&PlacementRequest::new(aligned(&desc, needs)?, &desc))
    }

    /// Returns the decision of [`Allocator::create_buffer`](crate::Allocator::create_buffer). With
    /// [`may_be_larger`](AllocationDesc::may_be_larger), it is the decision for the rounded size. On Vulkan the
    /// driver's object is created, measured and destroyed.
    ///
    /// # Errors
    /// As [`Planner::memory`]; or the driver refuses the description.
    pub fn buffer(&self, info: &impl Describe<D, Buffers>, desc: AllocationDesc<'_>) -> Result<Plan, Error> {
        self.resource::<Buffers>(info, desc)
    }

    /// Returns the decision of [`Allocator::create_texture`](crate::Allocator::create_texture).
    ///
    /// # Errors
    /// As [`Planner::buffer`].
    pub fn texture(&self, info: &impl Describe<D, Textures>, desc: AllocationDesc<'_>) -> Result<Plan, Error> {
        self.resource::<Textures>(info, desc)
    }

    /// Returns the memory type that is tried first for resources that allow `memory_type_bits`, for
    /// [`PoolDesc`](crate::PoolDesc). Returns `None` if no type fits.
    #[must_use]
    pub fn memory_type(&self, memory_type_bits: u32, desc: AllocationDesc<'_>) -> Option<u32> {
        self.0.order.candidates_for(self.0.device.capabilities(), &desc, memory_type_bits).next()
    }

    /// Plans the creation of a resource. On Vulkan the object is created, measured and destroyed.
    fn resource<K: ItemKind>(&self, info: &impl Describe<D, K>, desc: AllocationDesc<'_>) -> Result<Plan, Error>
    where
        D: Create<K>,
    {
        self.0.check_lost()?;
        info.with_info(&self.0.device, |info| self.described::<K>(info, desc))?
    }

    fn described<K: ItemKind>(&self, info: &<D as Create<K>>::Info<'_>, desc: AllocationDesc<'_>) -> Result<Plan, Error>
    where
        D: Create<K>,
    {
        let rounded = rounded::<D, K>(&desc, &self.0.device, info);
        let info = rounded.as_ref().map_or(info, |(info, _)| info);
        let needs = aligned(&desc, self.0.measure_as::<K>(info, desc.share)?)?;
        if let Some(Held { bytes, kind }) = self.0.peek_recycled::<K>(info, &desc)
            && let Some((memory_type, _)) = memory_of_kind(kind)
        {
            let heap = self.0.heap_of(memory_type);
            return Ok(Plan {
                memory_type,
                heap,
                way: PlannedWay::Recycled,
                bytes,
                waste_bytes: bytes.saturating_sub(needs.size),
                requested_bytes: 0,
                headroom_bytes: self.0.budgets.heap(heap).headroom_bytes(),
            });
        }
        self.0.plan(&PlacementRequest::new(needs, &desc))
    }
}
