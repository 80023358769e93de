//! From a description to a resource in its memory; and the driver's memory objects, counted.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Allocator;
use super::arena::{Moves, Request};
use super::ladder::{Ask, Attempt, Refusal};
use super::place::{Memory, Place};
use super::plan::Plan;
use super::pool::Pool;
use super::shared::{CLASSES, Shared};
use super::statistics::count;
use super::subject::Unplaced;
use crate::device::sharing::ShareKind;
use crate::device::{Create, Device, DeviceError, Kind, MemoryDesc, Placed, Requirements, ResourceClass};
use crate::error::Error;
use crate::observe::debugging::{Margins, NewRange};
use crate::observe::span;
use crate::resource::{AllocationDesc, Resource, ResourceKind};

/// A resource that was made, and where.
/// A resource's object and where it lies.
pub type Made<D, K> = (Placed<<D as Create<K>>::Object>, Place<D>);

impl<D: Device> Allocator<D> {
    pub(super) fn ask<'a, 'd>(&self, needs: Requirements, desc: &'a AllocationDesc<'d>) -> Ask<'a, 'd, D> {
        Ask { needs, desc, pool: None, high: false }
    }

    /// What is asked for, of a pool or of the allocator itself.
    fn ask_of<'a, 'd>(
        &self,
        needs: Requirements,
        desc: &'a AllocationDesc<'d>,
        pool: Option<&'a Pool<D>>,
    ) -> Result<Ask<'a, 'd, D>, Error> {
        pool.map_or_else(|| Ok(self.ask(needs, desc)), |pool| pool.ask(needs, desc))
    }

    /// Makes a resource, in a pool or wherever it fits.
    #[track_caller]
    pub(super) fn create<K>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        desc: AllocationDesc<'_>,
        pool: Option<&Pool<D>>,
    ) -> Result<Resource<D, K>, Error>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let shared = self.shared();
        let desc = AllocationDesc { share: effective_share(&desc, pool)?, ..desc };
        let ((placed, place), needs) = shared.create_measured::<K>(info, desc, |unplaced, needs| {
            let ask = self.ask_of(needs, &desc, pool)?;
            if pool.is_some() && desc.share.is_some() && needs.requires_dedicated {
                return Err(
                    DeviceError::Unsupported("sharing a block: memory of the resource's own can be shared").into()
                );
            }
            shared.place_asked::<K>(unplaced, &ask)
        })?;
        let has_address = Create::<K>::has_address(&shared.device, info);
        let resource = Resource::new(Arc::clone(shared), placed, place, needs.size, desc.location);
        let portable = Create::<K>::portable(&shared.device, info);
        let is_full = desc.movable && portable.as_ref().is_some_and(|portable| shared.says_all::<K>(portable, info));
        let resource = resource.with_address(has_address).with_user_data(desc.user_data);
        let resource = resource.described(portable).described_in_full(is_full).with_parts_of(info);
        if shared.debug.is_some() {
            resource.note_made_at(Location::caller());
        }
        if shared.trace.is_on() {
            shared.trace.write_due();
        }
        Ok(resource)
    }

    /// What making such a resource would do. Vulkan makes the object, measures it and destroys it again.
    pub(super) fn plan_resource<K>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        desc: AllocationDesc<'_>,
    ) -> Result<Plan, Error>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let shared = self.shared();
        shared.check_lost()?;
        let needs = desc.aligned(shared.measure_as::<K>(info, desc.share)?)?;
        shared.plan(&self.ask(needs, &desc))
    }
}

impl<D: Device> Shared<D> {
    /// Makes a resource wherever it fits.
    pub fn create<K>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        desc: AllocationDesc<'_>,
    ) -> Result<(Made<D, K>, Requirements), Error>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        self.create_measured::<K>(info, desc, |unplaced, needs| self.place::<K>(unplaced, needs, desc))
    }

    /// As [`Shared::create`], with `place` deciding where. It is given what the resource needs in any memory that the
    /// location allows.
    pub fn create_with<K>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        desc: AllocationDesc<'_>,
        place: impl FnOnce(&<D as Create<K>>::Unplaced, Requirements) -> Result<Made<D, K>, Error>,
    ) -> Result<(Made<D, K>, Requirements), Error>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        self.create_measured::<K>(info, desc, |unplaced, needs| {
            let types = self.order.candidates(desc.location, needs.memory_type_bits);
            let padded = types.fold(needs, |needs, memory_type| self.padded(needs, memory_type));
            place(unplaced, padded)
        })
    }

    fn create_measured<K>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        desc: AllocationDesc<'_>,
        place: impl FnOnce(&<D as Create<K>>::Unplaced, Requirements) -> Result<Made<D, K>, Error>,
    ) -> Result<(Made<D, K>, Requirements), Error>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        self.check_lost()?;
        if let Some(kind) = desc.share {
            // What cannot be shared at all is refused with the reason, below.
            let support = Create::<K>::share_support(&self.device, info, kind);
            if support.can_import && !support.can_export {
                return Err(DeviceError::Unsupported("making handles of this kind: the device only takes them").into());
            }
        }
        let (unplaced, measured) = self.prepare::<K>(info, desc.share)?;
        // Where there is no room the caller's callback is asked, which may panic.
        let unplaced = Prepared::<D, K>::new(&self.device, unplaced);
        let needs = desc.aligned(measured)?;
        let (placed, place) = place(unplaced.get(), needs)?;
        unplaced.used_up();
        count(&self.calls.create_object);
        if !desc.name.is_empty() {
            // SAFETY: the object was made just now.
            unsafe { Create::<K>::set_name(&self.device, &placed.object, desc.name) };
        }
        Ok(((placed, place), needs))
    }

    /// Whether a portable description leads to the same resource as the one that it was taken from.
    fn says_all<K>(&self, portable: &K::Desc, info: &<D as Create<K>>::Info<'_>) -> bool
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let again = Create::<K>::describe(&self.device, portable).ok();
        let again = again.and_then(|again| Create::<K>::key(&self.device, &again));
        again.is_some() && again == Create::<K>::key(&self.device, info)
    }

    /// Measures a resource; makes its object, where the API makes it before its memory.
    pub(crate) fn prepare<K>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        share: Option<ShareKind>,
    ) -> Result<(<D as Create<K>>::Unplaced, Requirements), DeviceError>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        // SAFETY: safe code can build only descriptions that the device accepts or refuses with an error.
        let (unplaced, mut needs) = unsafe {
            match share {
                None => Create::<K>::prepare(&self.device, info),
                Some(kind) => Create::<K>::prepare_shared(&self.device, info, kind),
            }
        }?;
        needs.alignment = needs.alignment.max(self.alignment_of::<K>(info, &needs));
        Ok((unplaced, needs))
    }

    /// The alignment in memory that the usage asks for, where the driver may have measured less.
    fn alignment_of<K>(&self, info: &<D as Create<K>>::Info<'_>, needs: &Requirements) -> u64
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let capabilities = self.device.capabilities();
        let most =
            capabilities.constant_alignment.max(capabilities.storage_alignment).max(capabilities.texel_alignment);
        if needs.class != ResourceClass::Buffer || needs.alignment >= most {
            return 1;
        }
        Create::<K>::portable(&self.device, info).map_or(1, |desc| K::alignment(&desc, capabilities))
    }

    /// What a resource would need, no memory taken.
    pub fn measure<K>(&self, info: &<D as Create<K>>::Info<'_>) -> Result<Requirements, DeviceError>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        self.measure_as::<K>(info, None)
    }

    /// As [`Shared::measure`], for memory that is shared or is not.
    pub(super) fn measure_as<K>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        share: Option<ShareKind>,
    ) -> Result<Requirements, DeviceError>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let (unplaced, needs) = self.prepare::<K>(info, share)?;
        // SAFETY: it is neither placed nor dedicated.
        unsafe { Create::<K>::discard(&self.device, unplaced) };
        Ok(needs)
    }

    /// Finds a place and makes the resource there.
    pub fn place<K>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        needs: Requirements,
        desc: AllocationDesc<'_>,
    ) -> Result<Made<D, K>, Error>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        self.place_asked::<K>(unplaced, &Ask { needs, desc: &desc, pool: None, high: false })
    }

    fn place_asked<K>(&self, unplaced: &<D as Create<K>>::Unplaced, ask: &Ask<'_, '_, D>) -> Result<Made<D, K>, Error>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let made = self.find_place(&Unplaced::<D, K>(unplaced, PhantomData), ask)?;
        if !made.1.is_dedicated() {
            count(&self.calls.placed);
        }
        Ok(made)
    }

    /// Makes the resource where it was given room, or gives the room back.
    ///
    /// # Safety
    /// The memory is of a type and class that the resource's requirements allow; the range is large enough and aligned.
    pub unsafe fn place_at<K>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        place: Place<D>,
    ) -> Result<Made<D, K>, DeviceError>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        // SAFETY: the caller promises what `Create::place` asks.
        match unsafe { Create::<K>::place(&self.device, unplaced, &place.memory(self).object, place.offset) } {
            Ok(placed) => {
                count(&self.calls.placed);
                Ok((placed, place))
            }
            Err(error) => {
                self.give_back(place);
                Err(error)
            }
        }
    }

    /// A memory object from the driver. No lock may be held that an allocation needs.
    pub(super) fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<Memory<D>, DeviceError> {
        let heap = self.heap_of(desc.memory_type);
        span!("allocate_memory", bytes = desc.size, memory_type = desc.memory_type, dedicated = false);
        // SAFETY: the arenas are made from the device's own list of types.
        let object = self.counted_memory(heap, desc.size, || {
            // SAFETY: as above.
            unsafe { self.device.allocate_memory(desc) }.map(|memory| ((), memory))
        });
        object.map(|((), object)| self.memory(object, desc))
    }

    pub(crate) fn memory(&self, object: D::Memory, desc: &MemoryDesc<'_>) -> Memory<D> {
        let (mapped, block) = (self.device.mapped(&object), self.trace.block_number());
        let MemoryDesc { memory_type, size, share, priority, .. } = *desc;
        let is_guarded = self.debug.as_ref().is_some_and(|debug| debug.margin_bytes() != 0);
        let guards = if is_guarded { self.device.map_whole(&object) } else { None };
        let residence = self.residence(&object, memory_type, size, priority);
        Memory { object, memory_type, size, block, mapped, guards, share, is_imported: false, residence }
    }

    /// Memory that is imported rather than made, as a place of its own.
    pub(crate) fn import_place(
        &self,
        memory: &MemoryDesc<'_>,
        offset: u64,
        desc: &AllocationDesc<'_>,
        import: impl FnOnce() -> Result<D::Memory, DeviceError>,
    ) -> Result<Place<D>, DeviceError> {
        let MemoryDesc { memory_type, size, alignment, class, .. } = *memory;
        let ((), object) = self.counted_memory(self.heap_of(memory_type), size, || import().map(|held| ((), held)))?;
        let held = Arc::new(Memory { is_imported: true, ..self.memory(object, memory) });
        let AllocationDesc { name, user_data, .. } = *desc;
        let request = Request { size, alignment, high: false, moves: Moves::Never, evictable: false, name, user_data };
        let arena = self.arena_index(memory_type, class);
        let number = self.arenas[arena as usize].add_dedicated(&request);
        self.trace_dedicated(&held, &self.arenas[arena as usize].desc);
        self.trace.allocated(held.block, offset, size - offset, alignment, desc.name);
        Ok(Place { offset, ..Place::heap(held, arena, number) })
    }

    /// Notes something imported for whoever looks for mistakes.
    pub(crate) fn debug_imported(&self, place: &Place<D>, desc: &AllocationDesc<'_>, at: &'static Location<'static>) {
        let (Some(debug), Some(key)) = (&self.debug, place.key(self)) else { return };
        let memory = place.shared_memory(self);
        let (size, name, user_data) = (memory.size - place.offset, desc.name, desc.user_data);
        // Without a place for the host: what others have written there is not filled over.
        debug.made(self, NewRange { key, memory, size, name, user_data, margins: Margins::default(), host: None });
        debug.handed_out(key, at, None);
    }

    /// Counts an object that was made.
    pub(crate) fn count_created(&self) {
        count(&self.calls.create_object);
    }

    /// Keeps the number of memory objects below the driver's limit, with threads racing for the last one; and the
    /// bytes that this allocator holds of each heap.
    pub(super) fn counted_memory<R>(
        &self,
        heap: u32,
        bytes: u64,
        make: impl FnOnce() -> Result<(R, D::Memory), DeviceError>,
    ) -> Result<(R, D::Memory), DeviceError> {
        let limit = self.device.capabilities().memory_objects_max;
        // Only if it succeeds: a refused thread must not make others be refused.
        let one_more = |held| (held < limit).then_some(held + 1);
        self.memory_objects
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .map_err(|_| DeviceError::TooManyObjects)?;
        let made = make();
        match &made {
            Ok(_) => {
                count(&self.calls.allocate_memory);
                self.budgets.add(heap, bytes);
            }
            Err(_) => _ = self.memory_objects.fetch_sub(1, Ordering::Relaxed),
        }
        made
    }

    /// Near the driver's limit, what only prefers memory of its own goes without.
    pub(super) fn is_near_object_limit(&self) -> bool {
        self.memory_objects.load(Ordering::Relaxed) >= self.device.capabilities().memory_objects_max / 4 * 3
    }

    pub(super) fn has_room_for_object(&self) -> bool {
        self.memory_objects.load(Ordering::Relaxed) < self.device.capabilities().memory_objects_max
    }

    /// The arena of a memory type and the group that a class falls in, where the device parts them.
    pub fn arena_index(&self, memory_type: u32, class: ResourceClass) -> u32 {
        let group = self.device.capabilities().class_groups[class as usize];
        memory_type * CLASSES.len() as u32 + u32::from(group)
    }

    /// The arena of a memory type whose blocks hold a class, and what [`Classes`](super::classes) lets lie beside it.
    pub(super) fn shared_arena_index(&self, memory_type: u32, class: ResourceClass) -> u32 {
        memory_type * CLASSES.len() as u32 + u32::from(self.classes.groups[class as usize])
    }

    pub(super) fn heap_of(&self, memory_type: u32) -> u32 {
        self.device.capabilities().memory_types[memory_type as usize].heap
    }

    /// Why blocks of a pool could not be made.
    pub(super) fn refused(&self, refusal: Refusal, size: u64, memory_type: u32) -> Error {
        let (heap, location) = (self.heap_of(memory_type), super::Location::Device);
        let (budget, tried_type_bits) = (self.budgets.heap(heap), 1 << memory_type);
        let tried = Attempt::default().tried;
        match refusal {
            Refusal::Driver(cause) => {
                Error::OutOfMemory { size, location, tried_type_bits, heap, budget, tried, cause }
            }
            _ => Error::OverBudget { size, location, tried_type_bits, heap, budget, tried },
        }
    }
}

/// A resource that is measured and not placed: discarded unless it is used up.
pub(super) struct Prepared<'a, D: Create<K>, K: Kind> {
    device: &'a D,
    /// There until this is dropped.
    unplaced: ManuallyDrop<D::Unplaced>,
}

impl<'a, D: Create<K>, K: Kind> Prepared<'a, D, K> {
    pub(super) fn new(device: &'a D, unplaced: D::Unplaced) -> Self {
        Self { device, unplaced: ManuallyDrop::new(unplaced) }
    }

    pub(super) fn get(&self) -> &D::Unplaced {
        &self.unplaced
    }

    /// It was placed.
    pub(super) fn used_up(self) {
        let mut used = ManuallyDrop::new(self);
        // SAFETY: `used` is never dropped nor used again, so that the value is taken once.
        drop(unsafe { ManuallyDrop::take(&mut used.unplaced) });
    }
}

impl<D: Create<K>, K: Kind> Drop for Prepared<'_, D, K> {
    fn drop(&mut self) {
        // SAFETY: a value is dropped once, and nothing reads the field afterwards. Nothing has used it up, since it was not
        // placed.
        unsafe { Create::<K>::discard(self.device, ManuallyDrop::take(&mut self.unplaced)) };
    }
}

/// What handles to a resource's memory will be: the pool's kind, if it has one.
fn effective_share<D: Device>(desc: &AllocationDesc<'_>, pool: Option<&Pool<D>>) -> Result<Option<ShareKind>, Error> {
    let Some(pool) = pool else { return Ok(desc.share) };
    match (desc.share, pool.share()) {
        (None, held) => Ok(held),
        (wanted, held) if wanted == held => Ok(held),
        (wanted, pool) => Err(Error::WrongShare { wanted, pool }),
    }
}
