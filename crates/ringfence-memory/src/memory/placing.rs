//! Creates an object in its memory: measures it, allocates a place, and binds it.
//!
//! ```text
//!   create(info, desc) ── the driver measures ──▶ find_place(needs, desc)     out of memory? reclaim, trim, again
//!                                                   │
//!     plain? the decision that was made beforehand ─┤▶ a slot of a size class, or a range of a block    no driver call
//!                                                   │ not plain, or not free
//!     decide: for each step, best memory type first ▼
//!       a slot or a range of an existing block; a new block; dedicated memory        the order: see [`crate::memory`]
//!     residency and the caller's eviction callback; if memory was freed, all steps again           shortage.rs
//! ```
//!
//! The decision for plain requests ([`plain_types`](ringfence_decision::plain_types)) is computed once. The steps are
//! decided for each request that needs padding, guards or another memory type, or that got a range in an evicted block.
//! While a subscriber records events, they are decided for every request. Allocating a slot touches only memory of this
//! thread, except that a batch of slots is fetched now and then. Allocating a range takes the lock of its arena.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringfence_core::algorithm::Algorithm;
use ringfence_decision::{
    AllocationDesc, Attempt, Error, Failure, ObjectRequest, PoolView, Step, Tried, View, Way, aligned, decide, is_plain,
};
use ringfence_lockfree::slots::Class;
use ringfence_observe::{Call, Event, Margins, SlowPath};

use super::place::{ArenaRef, Place, PlaceKind};
use super::pool::PoolState;
use super::self_placed::Unbound;
use super::shared::Shared;
use crate::device::sharing::ShareKind;
use crate::device::{Create, Device, DeviceError, Kind, Mapped, MemoryDesc, Placed, Requirements, ResourceClass};
use ringfence_arena::ArenaDesc;
use ringfence_arena::Memory;
use ringfence_arena::Request;

/// A resource's object and its place.
pub type Made<D, K> = (Placed<<D as Create<K>>::Object>, Place<D>);

/// The source of a place.
pub(crate) enum Origin<D: Device> {
    /// The thread's cache of slots, while no subscriber records events. Contains the reference to the allocator that
    /// was cached with the slot, if any.
    ThreadCache(Option<Arc<Shared<D>>>),
    /// Any other source.
    Other,
}

impl<D: Device> Origin<D> {
    /// Returns the reference to the allocator that was cached with the place.
    #[inline(always)]
    pub(crate) fn owner(self) -> Option<Arc<Shared<D>>> {
        match self {
            Self::ThreadCache(owner) => owner,
            Self::Other => None,
        }
    }
}

pub(crate) struct PlacementRequest<'a, 'd, D: Device> {
    pub(crate) needs: Requirements,
    pub(crate) desc: &'a AllocationDesc<'d>,
    pub(crate) pool: Option<&'a Arc<PoolState<D>>>,
}

impl<'a, 'd, D: Device> PlacementRequest<'a, 'd, D> {
    pub(crate) fn new(needs: Requirements, desc: &'a AllocationDesc<'d>) -> Self {
        Self { needs, desc, pool: None }
    }

    pub(crate) fn of_pool(
        pool: &'a Arc<PoolState<D>>,
        needs: Requirements,
        desc: &'a AllocationDesc<'d>,
    ) -> Result<Self, Error> {
        let ArenaDesc { memory_type, class, share, .. } = pool.arena.desc;
        if desc.share.is_some() && desc.share != share {
            return Err(Error::WrongShare { wanted: desc.share, pool: share });
        }
        if needs.memory_type_bits >> memory_type & 1 == 0 {
            return Err(Error::WrongMemoryType { memory_type, memory_type_bits: needs.memory_type_bits });
        }
        if !pool.arena.desc.holds(needs.class) {
            return Err(Error::WrongClass { class: needs.class, block_class: class });
        }
        if needs.requires_dedicated {
            return Err(DeviceError::unsupported("a pool's block for a resource that requires dedicated memory").into());
        }
        Ok(Self { needs, desc, pool: Some(pool) })
    }

    pub(crate) fn of_range(&self, size: u64, alignment: u64) -> Request<'_> {
        let high = self.pool.is_some() && self.desc.from_the_end;
        Request { high, ..Request::of(self.desc, size, alignment) }
    }
}

/// Measuring and creating.
impl<D: Device> Shared<D> {
    /// Measures a resource, and returns the result of `place`, which places the resource.
    ///
    /// Intermediate results are destructured where they are produced, to keep them in registers.
    #[inline(always)]
    pub(crate) fn create_measured<K: Kind, T>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        desc: &AllocationDesc<'_>,
        place: impl FnOnce(&<D as Create<K>>::Unplaced, Requirements) -> Result<T, Error>,
    ) -> Result<T, Error>
    where
        D: Create<K>,
    {
        self.check_lost()?;
        if let Some(kind) = desc.share {
            self.check_export::<K>(info, kind)?;
        }
        let (unplaced, measured) = self.make_object(|| self.prepare::<K>(info, desc.share))?;
        // Discarded even after a panic: `place` may call the eviction callback.
        let unplaced = Prepared::<D, K>::new(&self.device, unplaced);
        let made = place(unplaced.get(), aligned(desc, measured)?)?;
        unplaced.used_up();
        self.notify(Event::Called(Call::CreateObject));
        Ok(made)
    }

    /// Returns an error if the device can import the resource but not export it. If the resource cannot be shared at
    /// all, [`Shared::prepare`] returns the reason.
    #[cold]
    fn check_export<K: Kind>(&self, info: &<D as Create<K>>::Info<'_>, kind: ShareKind) -> Result<(), Error>
    where
        D: Create<K>,
    {
        let support = Create::<K>::share_support(&self.device, info, kind);
        if support.can_import && !support.can_export {
            return Err(
                DeviceError::unsupported("creating handles of this kind: the device can only import them").into()
            );
        }
        Ok(())
    }

    /// Names an object that was just created.
    #[inline(always)]
    pub(crate) fn name_new<K: Kind>(&self, object: &<D as Create<K>>::Object, name: &str)
    where
        D: Create<K>,
    {
        if !name.is_empty() {
            // SAFETY: the caller has just created the object.
            unsafe { Create::<K>::set_name(&self.device, object, name) };
        }
    }

    /// Measures a resource. If the API creates objects before their memory, creates the object.
    #[inline(always)]
    pub(crate) fn prepare<K: Kind>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        share: Option<ShareKind>,
    ) -> Result<(<D as Create<K>>::Unplaced, Requirements), DeviceError>
    where
        D: Create<K>,
    {
        // SAFETY: safe code can build only descriptions that the device accepts or refuses with an error.
        let (unplaced, needs) = unsafe {
            match share {
                None => Create::<K>::prepare(&self.device, info)?,
                Some(kind) => Create::<K>::prepare_shared(&self.device, info, kind)?,
            }
        };
        let alignment = needs.alignment.max(self.alignment_of::<K>(info, needs.class, needs.alignment));
        Ok((unplaced, Requirements { alignment, ..needs }))
    }

    /// Returns the memory alignment that a buffer's usage requires, in bytes; 1 for textures, or if `measured`
    /// suffices.
    #[inline(always)]
    fn alignment_of<K: Kind>(&self, info: &<D as Create<K>>::Info<'_>, class: ResourceClass, measured: u64) -> u64
    where
        D: Create<K>,
    {
        let capabilities = self.device.capabilities();
        let most =
            capabilities.constant_alignment.max(capabilities.storage_alignment).max(capabilities.texel_alignment);
        if class != ResourceClass::Buffer || measured >= most {
            return 1;
        }
        Create::<K>::portable(&self.device, info).map_or(1, |desc| K::alignment(&desc, capabilities))
    }

    /// Allocates memory for a resource that was measured, and binds the resource to it.
    ///
    /// # Errors
    /// There is no memory, or the driver failed. The resource is then still unplaced.
    ///
    /// # Safety
    /// `unplaced` must belong to this device and must not be placed; it counts as placed if the call succeeds. `needs`
    /// must be at least as strict as its requirements.
    pub unsafe fn place<K: Kind>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        needs: Requirements,
        desc: AllocationDesc<'_>,
    ) -> Result<Made<D, K>, Error>
    where
        D: Create<K>,
    {
        self.place_requested::<K, _>(unplaced, PlacementRequest::new(needs, &desc), |placed, place, _| (placed, place))
    }

    /// As [`Shared::place`], for a request that may name a pool. `made` creates the final value from the placed object.
    #[inline(always)]
    pub(crate) fn place_requested<K: Kind, T>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        request: PlacementRequest<'_, '_, D>,
        made: impl FnOnce(Placed<<D as Create<K>>::Object>, Place<D>, Origin<D>) -> T,
    ) -> Result<T, Error>
    where
        D: Create<K>,
    {
        self.find_place(&Measured::<D, K>(unplaced, PhantomData), request, made)
    }
}

/// Plain requests: one step, which was decided when the allocator was created.
impl<D: Device> Shared<D> {
    /// Allocates memory for `resource`, binds the resource to it, and calls `made` with the bound resource and its
    /// place. On failure nothing has changed.
    ///
    /// Calls `made` on each path: a merged result would be written in parts and read as a whole, which costs a
    /// store-forwarding stall.
    #[inline(always)]
    pub(crate) fn find_place<R: Unplaced<D>, T>(
        &self,
        resource: &R,
        request: PlacementRequest<'_, '_, D>,
        made: impl FnOnce(R::Made, Place<D>, Origin<D>) -> T,
    ) -> Result<T, Error> {
        if let Some((arena, class)) = self.plain_class(&request)
            && let Some((ready, owner)) = self.arenas[arena as usize].slots.take_ready(class)
        {
            let (memory, offset) = (ready.memory, ready.offset);
            let unbound = Unbound::new(self, Place::slot(arena, class, ready));
            // SAFETY: the requirements allow the type and class of the arena's memory, and the slot is aligned.
            match unsafe { resource.bind(self, &memory, offset) } {
                Ok(bound) => return Ok(made(bound, unbound.bound(), Origin::ThreadCache(owner))),
                Err(error) if !error.is_out_of_memory() => return Err(error.into()),
                Err(_) => {}
            }
        }
        // A borrowed value must be in memory. A copy is lent: the original stays in registers.
        self.find_place_without_cached_slot(resource, &PlacementRequest { ..request }, move |bound, place| {
            made(bound, place, Origin::Other)
        })
    }

    /// As [`Shared::find_place`], for a request that got no slot of this thread's cache.
    #[inline(never)]
    fn find_place_without_cached_slot<R: Unplaced<D>, T>(
        &self,
        resource: &R,
        request: &PlacementRequest<'_, '_, D>,
        made: impl FnOnce(R::Made, Place<D>) -> T,
    ) -> Result<T, Error> {
        if request.pool.is_none()
            && let Some(place) = self.place_cached(&request.needs, request.desc)
        {
            let unbound = Unbound::new(self, place);
            let place = unbound.place();
            // SAFETY: the requirements allow the type and class of the arena's memory, and the range is aligned.
            match unsafe { resource.bind(self, self.memory_of(place), place.offset) } {
                Ok(bound) => return Ok(made(bound, unbound.bound())),
                Err(error) if !error.is_out_of_memory() => return Err(error.into()),
                Err(_) => {}
            }
        }
        let (bound, place) = self.find_place_in_steps(resource, request)?;
        Ok(made(bound, place))
    }

    /// Allocates a slot or a range for a plain request, without a driver call. Returns `None` if the request needs the
    /// steps of a decision, which also return the errors.
    #[inline(always)]
    pub(crate) fn place_cached(&self, needs: &Requirements, desc: &AllocationDesc<'_>) -> Option<Place<D>> {
        if !is_plain(needs, desc) || self.is_watched() {
            return None;
        }
        let index = self.plain_arena(self.plain_types, needs, desc)?;
        let (size, alignment) = self.classes.range_of(needs);
        let arena = &self.arenas[index as usize];
        let is_sound = size != 0 && alignment.is_power_of_two();
        let is_served = arena.shares(size) && self.order.always_serves(size, needs.memory_type_bits);
        if !is_sound || !is_served {
            return None;
        }
        let found = arena.allocate_cached(Request::of(desc, size, alignment))?;
        let place = Place::found(ArenaRef::Own(index.into()), found, 0);
        if self.device.capabilities().residency && !desc.evictable && self.memory_of(&place).is_evicted() {
            self.free_place(place);
            return None;
        }
        Some(place)
    }

    /// Returns the arena and the size class of a plain request without name, user data and flags. Returns `None` for
    /// other requests.
    #[inline(always)]
    fn plain_class(&self, request: &PlacementRequest<'_, '_, D>) -> Option<(u32, Class)> {
        let PlacementRequest { ref needs, desc, pool } = *request;
        let is_noted = !desc.name.is_empty() || desc.user_data != 0 || desc.movable || desc.evictable;
        if pool.is_some() || is_noted || !is_plain(needs, desc) || self.is_watched() {
            return None;
        }
        let arena = self.plain_arena(self.slot_types, needs, desc)?;
        let (size, alignment) = self.classes.range_of(needs);
        Some((arena, Class::of(size, alignment)?))
    }

    /// Returns the arena of the best memory type for a plain request. Returns `None` if that type is not in `types`.
    #[inline(always)]
    fn plain_arena(&self, types: u32, needs: &Requirements, desc: &AllocationDesc<'_>) -> Option<u32> {
        let memory_type = self.order.first(desc.location, needs.memory_type_bits & desc.memory_types)?;
        let is_plain_type = types >> memory_type & 1 == 1;
        is_plain_type.then(|| self.shared_arena_index(memory_type, needs.class))
    }

    /// Returns `true` if a subscriber must be notified of each allocation, or if the device is lost and each allocation
    /// must fail.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.observers.is_watching() || self.lost.load(Ordering::Relaxed)
    }

    /// Binds a resource to its range of `bytes` bytes, guards included. Frees the range on failure.
    #[inline(always)]
    fn bind<R: Unplaced<D>>(
        &self,
        resource: &R,
        request: &PlacementRequest<'_, '_, D>,
        unbound: Unbound<'_, D>,
        margins: Margins,
        bytes: u64,
    ) -> Result<(R::Made, Place<D>), Failure> {
        let place = unbound.place();
        // SAFETY: the requirements allow the type and class of the arena's memory, and the range is aligned.
        let made = unsafe { resource.bind(self, self.memory_of(place), place.offset) }.map_err(Failure::Driver)?;
        let place = unbound.bound();
        self.note_made(&place, request.desc, margins, bytes, R::mapped(&made));
        Ok((made, place))
    }
}

/// All other requests: the steps of the request's decision, in order.
impl<D: Device> Shared<D> {
    /// Tries every step of the request's decision. If all fail, frees memory and tries again, as long as memory can be
    /// freed.
    #[inline(never)]
    pub(crate) fn find_place_in_steps<R: Unplaced<D>>(
        &self,
        resource: &R,
        request: &PlacementRequest<'_, '_, D>,
    ) -> Result<(R::Made, Place<D>), Error> {
        self.check_lost()?;
        self.check_request(request)?;
        let mut placement = Placement { shared: self, resource, request, attempt: self.attempt(request) };
        let mut reliefs = 0..;
        loop {
            let failure = match placement.try_steps() {
                Ok(made) => return Ok(made),
                Err(Failure::Driver(error)) if !error.is_out_of_memory() => return Err(error.into()),
                Err(failure) => failure,
            };
            if placement.retries_without_refusals() {
                continue;
            }
            if !reliefs.by_ref().map_while(|relief| placement.relieve(relief, failure)).any(|relieved| relieved) {
                return Err(self.give_up(&placement.attempt, request.pool, failure));
            }
        }
    }

    /// Returns an error for requests that no state of memory can serve.
    pub(crate) fn check_request(&self, request: &PlacementRequest<'_, '_, D>) -> Result<(), Error> {
        let Requirements { size, alignment, memory_type_bits, .. } = request.needs;
        if size == 0 {
            return Err(Error::ZeroSize);
        }
        if !alignment.is_power_of_two() {
            return Err(Error::BadAlignment { alignment });
        }
        if self.order.always_serves(size, memory_type_bits) {
            return Ok(());
        }
        let no_type = Error::NoMemoryType { location: request.desc.location, memory_type_bits };
        let max = match request.pool {
            Some(pool) => self.object_bytes_max(pool.arena.desc.memory_type),
            None => self.types_of(request).map(|held| self.object_bytes_max(held)).max().ok_or(no_type)?,
        };
        if size > max { Err(Error::TooLarge { size, max }) } else { Ok(()) }
    }

    /// Returns the memory types that the request allows outside of pools, best first.
    fn types_of(&self, request: &PlacementRequest<'_, '_, D>) -> impl Iterator<Item = u32> {
        self.order.candidates_for(self.device.capabilities(), request.desc, request.needs.memory_type_bits)
    }

    /// Returns the size of the largest memory object of a memory type, in bytes.
    pub(crate) fn object_bytes_max(&self, memory_type: u32) -> u64 {
        self.device.capabilities().object_bytes_max(memory_type)
    }

    /// Returns the state of a request before its first step.
    pub(crate) fn attempt(&self, request: &PlacementRequest<'_, '_, D>) -> Attempt {
        let Requirements { size, memory_type_bits, .. } = request.needs;
        let mut attempt = Attempt::new(size, memory_type_bits, request.desc);
        if self.budgets.has_window() {
            let holds = |memory_type: &u32| size <= self.object_bytes_max(*memory_type);
            let is_window = |memory_type| self.budgets.is_window(self.heap_of(memory_type));
            attempt.constraints.beyond_window =
                request.pool.is_some() || self.types_of(request).filter(holds).all(is_window);
        }
        attempt
    }

    /// Returns the state that the decision for a request depends on.
    pub(crate) fn view<'a>(&'a self, request: &PlacementRequest<'_, '_, D>) -> View<'a> {
        let pool = request.pool.map(|pool| PoolView {
            memory_type: pool.arena.desc.memory_type,
            is_equal: matches!(pool.arena.desc.algorithm, Algorithm::Equal { .. }),
        });
        View {
            capabilities: self.device.capabilities(),
            order: &self.order,
            classes: &self.classes,
            shared_bytes_max: &self.shared_bytes_max,
            margin_bytes: self.observers.margin_bytes(),
            preferred_bytes_min: self.preferred_bytes_min(),
            pool,
        }
    }

    pub(crate) fn arena_of(&self, request: &PlacementRequest<'_, '_, D>, step: &Step) -> ArenaRef<D> {
        match request.pool {
            Some(pool) => ArenaRef::Pool(Arc::clone(pool)),
            None => ArenaRef::Own(self.shared_arena_index(step.memory_type, step.needs.class).into()),
        }
    }
}

/// A request whose steps are being tried.
struct Placement<'a, 'd, D: Device, R> {
    shared: &'a Shared<D>,
    resource: &'a R,
    request: &'a PlacementRequest<'a, 'd, D>,
    attempt: Attempt,
}

impl<D: Device, R: Unplaced<D>> Placement<'_, '_, D, R> {
    /// Tries each step of the decision once.
    fn try_steps(&mut self) -> Result<(R::Made, Place<D>), Failure> {
        let (mut failure, request) = (Failure::NoType, self.request);
        for step in decide(request.needs, request.desc, self.shared.view(request)) {
            self.attempt.begin(step.memory_type);
            match self.try_step(&step) {
                Err(next) if next.may_go_on() => failure = failure.then(next),
                result => return result,
            }
        }
        Err(failure)
    }

    /// Returns `true` if a step was skipped because of a remembered refusal. The caller then tries all steps again
    /// without remembered refusals: these may save driver calls, but must not fail a request.
    fn retries_without_refusals(&mut self) -> bool {
        let Attempt { ref mut was_spared, ref mut constraints, .. } = self.attempt;
        constraints.ignores_refusals |= *was_spared;
        std::mem::take(was_spared)
    }

    /// Tries method number `relief` of freeing memory for the request, in increasing order of cost for the program.
    /// Returns `true` if memory was freed, and `None` if no further method can free memory.
    fn relieve(&mut self, relief: u32, failure: Failure) -> Option<bool> {
        let Self { shared, ref mut attempt, .. } = *self;
        match relief {
            0 => Some(shared.release_unused_for(attempt)),
            1 => Some(shared.evict_unused(attempt, failure)),
            _ => shared.call_eviction(attempt, failure, relief - 2).then_some(true),
        }
    }

    fn try_step(&mut self, step: &Step) -> Result<(R::Made, Place<D>), Failure> {
        match step.way {
            Way::Block => self.place_in_block(step),
            Way::Dedicated => {
                self.attempt.tried |= Tried::DEDICATED;
                self.place_dedicated(step)
            }
        }
    }

    fn place_in_block(&mut self, step: &Step) -> Result<(R::Made, Place<D>), Failure> {
        let Self { shared, resource, request, ref mut attempt } = *self;
        let arena = shared.arena_of(request, step);
        let of_range = request.of_range(step.needs.size, step.needs.alignment);
        let found = match &arena {
            ArenaRef::Own(index) => shared.allocate_in(&shared.arenas[*index as usize], of_range, attempt),
            ArenaRef::Pool(pool) => shared.allocate_in(&pool.arena, of_range, attempt),
        }?;
        let place = Place::found(arena, found, step.margins.front);
        shared.note_allocated(&place, step.margins.front, &of_range);
        let unbound = Unbound::new(shared, place);
        if !of_range.evictable
            && let Some(residence) =
                shared.memory_of(unbound.place()).residence.as_ref().filter(|held| held.is_evicted())
        {
            shared.keep_resident(residence).map_err(Failure::Driver)?;
        }
        shared.bind(resource, request, unbound, step.margins, step.needs.size)
    }

    fn place_dedicated(&mut self, step: &Step) -> Result<(R::Made, Place<D>), Failure> {
        let Self { shared, resource, request, ref mut attempt } = *self;
        if !attempt.constraints.may_grow {
            return Err(Failure::MayNotGrow);
        }
        // Exactly the driver's size, without padding: Vulkan requires it. A flush may end at the end of the memory.
        let Requirements { size, alignment, class, .. } = request.needs;
        let memory_type = step.memory_type;
        let object = ObjectRequest::dedicated(memory_type, size, attempt.constraints.reach(true));
        let heap = shared.heap_of(memory_type);
        let AllocationDesc { name, priority, share, .. } = *request.desc;
        let desc = MemoryDesc { memory_type, size, alignment, class, priority, name, share };
        let make = |attempt: &mut Attempt| {
            shared.make_within(object, attempt, || {
                let slow = SlowPath::AllocateMemory { bytes: size, memory_type, dedicated: true };
                let _slow = shared.observers.during(slow);
                // SAFETY: the requirements allow the type; the resource is not used up.
                shared.counted_memory(|| unsafe { resource.dedicate(&shared.device, &desc) })
            })
        };
        let (made, object) = match make(attempt) {
            Err(failure) if failure.may_go_on() && shared.trim_heap(heap, failure, attempt) => make(attempt)?,
            result => result?,
        };
        let (arena, memory) = (shared.arena_of(request, step), Arc::new(shared.memory(object, &desc)));
        if !request.desc.evictable {
            memory.pin();
        }
        let number = shared.add_dedicated(&arena, &memory, 0, &request.of_range(size, alignment));
        let place = Place { offset: 0, arena, kind: PlaceKind::Dedicated { memory, number } };
        shared.note_made(&place, request.desc, Margins::default(), size, R::mapped(&made));
        Ok((made, place))
    }
}

/// A value without memory: a measured resource, or bytes for resources that the caller binds.
pub(crate) trait Unplaced<D: Device> {
    type Made;

    /// Binds the value to memory at an offset. Only if this succeeds, the value is used up.
    ///
    /// # Safety
    /// Its requirements allow the type and class of the memory; the range is large enough and aligned.
    unsafe fn bind(&self, shared: &Shared<D>, memory: &Memory<D>, offset: u64) -> Result<Self::Made, DeviceError>;

    /// Allocates dedicated memory for the value. Only if this succeeds, the value is used up.
    ///
    /// # Safety
    /// Its requirements allow `desc`.
    unsafe fn dedicate(&self, device: &D, desc: &MemoryDesc<'_>) -> Result<(Self::Made, D::Memory), DeviceError>;

    /// Returns the mapped address of the created value, if the API maps resources.
    fn mapped(_made: &Self::Made) -> Option<Mapped> {
        None
    }
}

pub(super) struct Measured<'a, D: Create<K>, K: Kind>(pub(super) &'a D::Unplaced, pub(super) PhantomData<K>);

impl<D: Device + Create<K>, K: Kind> Unplaced<D> for Measured<'_, D, K> {
    type Made = Placed<<D as Create<K>>::Object>;

    #[inline(always)]
    unsafe fn bind(&self, shared: &Shared<D>, memory: &Memory<D>, offset: u64) -> Result<Self::Made, DeviceError> {
        // SAFETY: the caller promises the same.
        let placed = unsafe { Create::<K>::place(&shared.device, self.0, &memory.object, offset) }?;
        shared.notify(Event::Called(Call::Place));
        Ok(placed)
    }

    unsafe fn dedicate(&self, device: &D, desc: &MemoryDesc<'_>) -> Result<(Self::Made, D::Memory), DeviceError> {
        // SAFETY: the caller promises the same.
        unsafe { Create::<K>::dedicate(device, self.0, desc) }
    }

    fn mapped(made: &Self::Made) -> Option<Mapped> {
        made.mapped
    }
}

pub(crate) struct Bytes;

impl<D: Device> Unplaced<D> for Bytes {
    type Made = ();

    #[inline(always)]
    unsafe fn bind(&self, _: &Shared<D>, _: &Memory<D>, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    unsafe fn dedicate(&self, device: &D, desc: &MemoryDesc<'_>) -> Result<((), D::Memory), DeviceError> {
        // SAFETY: the memory type is one of the device's.
        unsafe { device.allocate_memory(desc) }.map(|memory| ((), memory))
    }
}

/// Bytes for a resource that the caller binds. Dedicated memory is allocated for this resource.
pub(crate) struct BytesFor<'a, D: Create<K>, K: Kind>(pub(crate) &'a D::Unplaced, pub(crate) PhantomData<K>);

impl<D: Device + Create<K>, K: Kind> Unplaced<D> for BytesFor<'_, D, K> {
    type Made = ();

    unsafe fn bind(&self, _: &Shared<D>, _: &Memory<D>, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    unsafe fn dedicate(&self, device: &D, desc: &MemoryDesc<'_>) -> Result<((), D::Memory), DeviceError> {
        // SAFETY: the caller promises that the requirements allow `desc`, and the caller of `Allocator::allocate_for`
        // that the resource belongs to this device and is alive.
        unsafe { Create::<K>::allocate_memory_for(device, self.0, desc) }.map(|memory| ((), memory))
    }
}

/// A resource that is measured but not placed. Dropping it discards the resource, unless it is used up.
pub(crate) struct Prepared<'a, D: Create<K>, K: Kind> {
    device: &'a D,
    /// Valid until the drop.
    unplaced: ManuallyDrop<D::Unplaced>,
}

impl<'a, D: Create<K>, K: Kind> Prepared<'a, D, K> {
    pub(crate) fn new(device: &'a D, unplaced: D::Unplaced) -> Self {
        Self { device, unplaced: ManuallyDrop::new(unplaced) }
    }

    pub(crate) fn get(&self) -> &D::Unplaced {
        &self.unplaced
    }

    pub(crate) fn used_up(self) {
        let mut used = ManuallyDrop::new(self);
        // SAFETY: `used` is never dropped or used again, so the value is taken once.
        drop(unsafe { ManuallyDrop::take(&mut used.unplaced) });
    }
}

impl<D: Create<K>, K: Kind> Drop for Prepared<'_, D, K> {
    fn drop(&mut self) {
        // SAFETY: a value is dropped once, and nothing reads the field afterwards. It was not placed.
        unsafe { Create::<K>::discard(self.device, ManuallyDrop::take(&mut self.unplaced)) };
    }
}
