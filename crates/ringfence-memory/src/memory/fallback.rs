//! Executing a decision: what is tried, in which order, until a request has its memory.
//!
//! ```text
//!   for each step of the decision, best memory type first:
//!     a slot of a size class or a range of a block that is there               no driver call
//!     a new block of the arena's present size ── refused? reclaim what is complete, trim empty blocks of the heap, again
//!     a new block of 1/2, 1/4, 1/8 of that
//!     memory of its own                       ── refused? reclaim and trim, if that was not done, again
//!   the caller's eviction callback; if it released something, everything again
//!   a typed error: need, use, budget, and what was tried
//! ```
//!
//! Most requests never come here: what is cached or has room for a plain one is found before (`cached.rs`).
//!
//! "Refused" is an error of the driver that freeing memory may help, or the budget: a block that would go beyond it is
//! halved first, and what is still beyond it is requested only if the request is not `within_budget`. Nothing is requested
//! beyond a limit that the caller has set.

use std::sync::Arc;

use ringfence_core::algorithm::Algorithm;

use super::ask::Ask;
use super::attempt::{Attempt, Refusal, Terms};
use super::budget::Grant;
use super::decide::{PoolView, Step, View, decide};
use super::location::Location;
use super::place::{ArenaRef, Hold, Place};
use super::pressure::{Pressure, Tried};
use super::request::AllocationDesc;
use super::shared::Shared;
use super::shortage::{self, EVICTIONS_MAX};
use super::subject::Subject;
use crate::device::{Device, DeviceError, MemoryDesc, Requirements};
use crate::error::Error;
use crate::observe::debugging::{Margins, NewRange};
use crate::observe::unlocked::is_locked;
use crate::observe::{report, span};

impl<D: Device> Shared<D> {
    /// A place for the subject, or why there is none. Nothing has changed then.
    #[inline]
    pub(crate) fn find_place<S: Subject<D>>(
        &self,
        subject: &S,
        ask: &Ask<'_, '_, D>,
    ) -> Result<(S::Made, Place<D>), Error> {
        if ask.pool.is_none()
            && let Some(place) = self.place_cached(&ask.needs, ask.desc)
        {
            match self.settle(subject, ask, place, Margins::default(), ask.needs.size) {
                Ok(made) => return Ok(made),
                Err(Refusal::Driver(error)) if !error.is_out_of_memory() => return Err(error.into()),
                Err(_) => {}
            }
        }
        self.search(subject, ask)
    }

    /// [`Shared::find_place`] by the whole fallback order.
    #[inline(never)]
    pub(crate) fn search<S: Subject<D>>(
        &self,
        subject: &S,
        ask: &Ask<'_, '_, D>,
    ) -> Result<(S::Made, Place<D>), Error> {
        self.check_lost()?;
        self.check_request(ask)?;
        let mut attempt = Attempt::default();
        for round in 0.. {
            let refusal = match self.try_steps(subject, ask, &mut attempt) {
                Ok(made) => return Ok(made),
                Err(Refusal::Driver(error)) if !error.is_out_of_memory() => return Err(error.into()),
                Err(refusal) => refusal,
            };
            let relieved = round == 0 && self.relieve_for(ask, &mut attempt, refusal);
            if !relieved && !self.evict(ask, &mut attempt, refusal, round) {
                return Err(self.give_up(ask, &attempt, refusal));
            }
        }
        unreachable!("the callback is asked a limited number of times")
    }

    /// Refuses what no allocator can serve.
    pub(crate) fn check_request(&self, ask: &Ask<'_, '_, D>) -> Result<(), Error> {
        let Requirements { size, alignment, memory_type_bits, .. } = ask.needs;
        let capabilities = self.device.capabilities();
        if size == 0 {
            return Err(Error::ZeroSize);
        }
        if !alignment.is_power_of_two() {
            return Err(Error::BadAlignment { alignment });
        }
        if self.order.always_serves(size, memory_type_bits) {
            return Ok(());
        }
        let known = (0..).zip(&capabilities.memory_types).filter(|(index, _)| memory_type_bits >> *index & 1 == 1);
        let largest = known.map(|(_, held)| capabilities.memory_heaps[held.heap as usize].bytes).max();
        let no_type = Error::NoMemoryType { location: ask.desc.location, memory_type_bits };
        let max = largest.ok_or(no_type)?.min(capabilities.memory_object_bytes_max);
        if size > max { Err(Error::TooLarge { size, max }) } else { Ok(()) }
    }

    /// Every memory type once.
    fn try_steps<S: Subject<D>>(
        &self,
        subject: &S,
        ask: &Ask<'_, '_, D>,
        attempt: &mut Attempt,
    ) -> Result<(S::Made, Place<D>), Refusal> {
        let mut refusal = Refusal::NoType;
        for step in decide(ask.needs, ask.desc, self.view(ask)) {
            attempt.best.get_or_insert(step.memory_type);
            if attempt.types & !(1 << step.memory_type) != 0 {
                attempt.tried |= Tried::NEXT_TYPE;
            }
            attempt.types |= 1 << step.memory_type;
            match self.try_step(subject, ask, &step, attempt) {
                Err(next) if next.may_go_on() => refusal = next,
                result => return result,
            }
        }
        Err(refusal)
    }

    fn try_step<S: Subject<D>>(
        &self,
        subject: &S,
        ask: &Ask<'_, '_, D>,
        step: &Step,
        attempt: &mut Attempt,
    ) -> Result<(S::Made, Place<D>), Refusal> {
        if step.way.tries_block() {
            match self.place_in_block(subject, ask, step, attempt) {
                Err(refusal) if refusal.may_go_on() && step.way.tries_dedicated() => {}
                result => return result,
            }
            attempt.tried |= Tried::DEDICATED;
        }
        self.place_dedicated(subject, ask, step, attempt)
    }

    fn place_in_block<S: Subject<D>>(
        &self,
        subject: &S,
        ask: &Ask<'_, '_, D>,
        step: &Step,
        attempt: &mut Attempt,
    ) -> Result<(S::Made, Place<D>), Refusal> {
        let arena = self.arena_of(ask, step);
        let (request, terms) = (ask.request(step.needs.size, step.needs.alignment), Terms::of(ask.desc));
        let found = match &arena {
            ArenaRef::Own(index) => self.allocate_in(&self.arenas[*index as usize], request, terms, attempt),
            ArenaRef::Pool(pool) => self.allocate_in(&pool.arena, request, terms, attempt),
        }?;
        let place = Place::found(arena, found, step.margins.front);
        if self.trace.is_on() {
            self.trace.allocated(
                self.memory_of(&place).block,
                place.offset - step.margins.front,
                place.size(),
                request.alignment,
                request.name,
            );
        }
        if !request.evictable
            && let Some(residence) = self.memory_of(&place).residence.as_ref().filter(|held| held.is_evicted())
            && let Err(error) = self.keep_resident(residence)
        {
            self.give_back(place);
            return Err(Refusal::Driver(error));
        }
        self.settle(subject, ask, place, step.margins, step.needs.size)
    }

    /// Puts the subject where a range was found for it, of so many bytes with its guards; or gives the range back.
    #[inline]
    fn settle<S: Subject<D>>(
        &self,
        subject: &S,
        ask: &Ask<'_, '_, D>,
        place: Place<D>,
        margins: Margins,
        bytes: u64,
    ) -> Result<(S::Made, Place<D>), Refusal> {
        // SAFETY: the arena's memory is of a type and class that the requirements allow, and the range is aligned.
        match unsafe { subject.place(&self.device, || &self.memory_of(&place).object, place.offset) } {
            Ok(made) => {
                if self.debug.is_some() {
                    self.debug_made::<S>(&made, &place, ask, margins, bytes);
                }
                Ok((made, place))
            }
            Err(error) => {
                self.give_back(place);
                Err(Refusal::Driver(error))
            }
        }
    }

    fn place_dedicated<S: Subject<D>>(
        &self,
        subject: &S,
        ask: &Ask<'_, '_, D>,
        step: &Step,
        attempt: &mut Attempt,
    ) -> Result<(S::Made, Place<D>), Refusal> {
        let (arena, terms) = (self.arena_of(ask, step), Terms::of(ask.desc));
        if !terms.may_grow {
            return Err(Refusal::MayNotGrow);
        }
        // Exactly as large as the driver asks, not padded: Vulkan insists, and a flush may end with the memory.
        let Requirements { size, alignment, class, .. } = ask.needs;
        let memory_type = step.memory_type;
        let heap = self.heap_of(memory_type);
        let AllocationDesc { name, priority, share, .. } = *ask.desc;
        let desc = MemoryDesc { memory_type, size, alignment, class, priority, name, share };
        let make = || {
            self.ask_within(heap, size, terms.within_budget, || {
                span!("allocate_memory", bytes = size, memory_type = memory_type, dedicated = true);
                // SAFETY: the type is one that the requirements allow; nothing has used the subject up.
                self.counted_memory(heap, size, || unsafe { subject.dedicate(&self.device, &desc) })
            })
        };
        let (made, object) = match make() {
            Err(refusal) if refusal.may_go_on() && self.trim_heap(heap, attempt) => make()?,
            result => result?,
        };
        let number = match &arena {
            ArenaRef::Own(index) => self.arenas[*index as usize].add_dedicated(&ask.request(size, alignment)),
            ArenaRef::Pool(pool) => pool.arena.add_dedicated(&ask.request(size, alignment)),
        };
        let memory = Arc::new(self.memory(object, &desc));
        if !ask.desc.evictable {
            memory.pin();
        }
        self.trace_dedicated(&memory, self.arena_desc(&arena));
        self.trace.allocated(memory.block, 0, size, alignment, ask.desc.name);
        let place = Place { offset: 0, arena, hold: Hold::Dedicated { memory, number } };
        if self.debug.is_some() {
            self.debug_made::<S>(&made, &place, ask, Margins::default(), size);
        }
        Ok((made, place))
    }

    /// Notes what was made, for debugging. `bytes` are those of the range, guards included.
    #[cold]
    fn debug_made<S: Subject<D>>(
        &self,
        made: &S::Made,
        place: &Place<D>,
        ask: &Ask<'_, '_, D>,
        margins: Margins,
        bytes: u64,
    ) {
        let Some(debug) = &self.debug else { return };
        let Some(key) = self.key_of(place) else { return };
        let memory = self.shared_memory_of(place);
        // SAFETY: the place lies inside its memory, which is mapped as a whole if it is mapped.
        let by_memory = || memory.mapped.map(|base| unsafe { base.add(place.offset) });
        let host = S::mapped(made).or_else(by_memory);
        let size = bytes - margins.front - margins.back;
        let AllocationDesc { name, user_data, .. } = *ask.desc;
        debug.made(&self.device, NewRange { key, memory, size, name, user_data, margins, host });
    }

    /// Asks the driver, unless that would go beyond a limit, or (if `strict`) beyond the budget.
    pub(crate) fn ask_within<R>(
        &self,
        heap: u32,
        bytes: u64,
        strict: bool,
        make: impl FnOnce() -> Result<R, DeviceError>,
    ) -> Result<R, Refusal> {
        match self.budgets.heap(heap).grant(bytes) {
            Grant::BeyondLimit => Err(Refusal::OverBudget),
            Grant::BeyondBudget if strict => Err(Refusal::OverBudget),
            Grant::BeyondBudget | Grant::Room => make().map_err(Refusal::Driver),
        }
    }

    /// Frees what the device is done with, and empty blocks of this heap; says whether the driver got memory back.
    pub(crate) fn trim_heap(&self, heap: u32, attempt: &mut Attempt) -> bool {
        attempt.tried |= Tried::TRIM;
        let before = self.budgets.heap(heap).reserved_bytes;
        self.reclaim(usize::MAX);
        self.free_empty_blocks(|arena_heap| arena_heap == heap, 0);
        self.budgets.heap(heap).reserved_bytes < before
    }

    /// Evicts what no submission uses; says whether something went.
    fn relieve_for(&self, ask: &Ask<'_, '_, D>, attempt: &mut Attempt, refusal: Refusal) -> bool {
        let is_shortage = matches!(refusal, Refusal::Driver(_) | Refusal::OverBudget);
        let relieved = is_shortage && attempt.best.is_some_and(|best| self.relieve(self.heap_of(best), ask.needs.size));
        if relieved {
            attempt.tried |= Tried::RESIDENCY;
        }
        relieved
    }

    /// Asks the caller's callback; says whether something went. Under a lock it is asked later: see [`asking`].
    ///
    /// [`asking`]: super::shortage::asking
    fn evict(&self, ask: &Ask<'_, '_, D>, attempt: &mut Attempt, refusal: Refusal, round: u32) -> bool {
        let is_shortage = matches!(refusal, Refusal::Driver(_) | Refusal::OverBudget);
        let (true, Some(best)) = (is_shortage, attempt.best) else { return false };
        if round >= EVICTIONS_MAX {
            return false;
        }
        let Some(callback) = self.evict.read().clone() else { return false };
        if !is_locked() {
            attempt.tried |= Tried::EVICTION;
        }
        let heap = self.heap_of(best);
        let budget = self.budgets.heap(heap);
        let pressure = Pressure {
            size: ask.needs.size,
            location: ask.desc.location,
            heap,
            usage_bytes: budget.usage_bytes,
            budget_bytes: budget.budget_bytes,
            round,
        };
        shortage::ask(callback, pressure)
    }

    fn give_up(&self, ask: &Ask<'_, '_, D>, attempt: &Attempt, refusal: Refusal) -> Error {
        let (size, location) = (ask.needs.size, ask.desc.location);
        let Some(best) = attempt.best else {
            return Error::NoMemoryType { location, memory_type_bits: ask.needs.memory_type_bits };
        };
        match (refusal, ask.pool) {
            (Refusal::PoolFull | Refusal::NoType, Some(pool)) => pool.full(size),
            (Refusal::PoolFull | Refusal::NoType, None) => {
                Error::NoMemoryType { location, memory_type_bits: ask.needs.memory_type_bits }
            }
            _ => self.give_up_on(size, location, best, attempt, refusal),
        }
    }

    /// Why so many bytes could not be had, `memory_type` being the best for them.
    pub(crate) fn give_up_on(
        &self,
        size: u64,
        location: Location,
        memory_type: u32,
        attempt: &Attempt,
        refusal: Refusal,
    ) -> Error {
        let heap = self.heap_of(memory_type);
        let budget = self.budgets.heap(heap);
        let (tried, tried_type_bits) = (attempt.tried, attempt.types);
        match refusal {
            Refusal::Driver(cause) if !cause.is_out_of_memory() => cause.into(),
            Refusal::Driver(cause) => {
                report!(
                    warn,
                    "out of memory",
                    bytes = size,
                    location = format!("{location:?}"),
                    tried_type_bits = tried_type_bits,
                    cause = cause.to_string(),
                );
                Error::OutOfMemory { size, location, tried_type_bits, heap, budget, tried, cause }
            }
            Refusal::OverBudget => Error::OverBudget { size, location, tried_type_bits, heap, budget, tried },
            Refusal::MayNotGrow => Error::WouldGrow { size, location },
            Refusal::PoolFull | Refusal::NoType => Error::NoMemoryType { location, memory_type_bits: tried_type_bits },
        }
    }

    /// What a decision needs to know, for a request.
    pub(crate) fn view<'a>(&'a self, ask: &Ask<'_, '_, D>) -> View<'a> {
        let pool = ask.pool.map(|pool| PoolView {
            memory_type: pool.arena.desc.memory_type,
            is_equal: matches!(pool.arena.desc.algorithm, Algorithm::Equal { .. }),
        });
        View {
            capabilities: self.device.capabilities(),
            order: &self.order,
            classes: &self.classes,
            shared_bytes_max: &self.shared_bytes_max,
            margin_bytes: self.debug.as_ref().map_or(0, |debug| debug.margin_bytes()),
            is_near_object_limit: self.is_near_object_limit(),
            pool,
        }
    }

    /// The arena that a step of a request is about.
    pub(crate) fn arena_of(&self, ask: &Ask<'_, '_, D>, step: &Step) -> ArenaRef<D> {
        match ask.pool {
            Some(pool) => ArenaRef::Pool(Arc::clone(pool)),
            None => ArenaRef::Own(self.shared_arena_index(step.memory_type, step.needs.class).into()),
        }
    }
}
