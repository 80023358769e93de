//! From a description to an object in its memory; and the driver's memory objects, counted.

use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ask::Ask;
use super::attempt::{Attempt, Refusal};
use super::decide::padded;
use super::memory_object::Memory;
use super::place::Place;
use super::plan::Plan;
use super::prepared::Prepared;
use super::request::{AllocationDesc, Moves, Request};
use super::shared::Shared;
use super::statistics::count;
use super::subject::Unplaced;
use crate::device::sharing::ShareKind;
use crate::device::{Create, Device, DeviceError, Kind, MemoryDesc, Placed, Requirements, ResourceClass};
use crate::error::Error;
use crate::observe::debugging::{Margins, NewRange};
use crate::observe::span;

/// A resource's object and where it lies.
pub type Made<D, K> = (Placed<<D as Create<K>>::Object>, Place<D>);

impl<D: Device> Shared<D> {
    /// Makes a resource wherever it fits.
    pub fn create<K>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        desc: AllocationDesc<'_>,
    ) -> Result<(Made<D, K>, Requirements), Error>
    where
        K: Kind,
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
        K: Kind,
        D: Create<K>,
    {
        self.create_measured::<K>(info, desc, |unplaced, needs| {
            let types = self.order.candidates(desc.location, needs.memory_type_bits);
            let needs = types.fold(needs, |needs, memory_type| padded(needs, self.device.capabilities(), memory_type));
            place(unplaced, needs)
        })
    }

    /// What making such a resource would do. Vulkan makes the object, measures it and destroys it again.
    pub(crate) fn plan_resource<K>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        desc: AllocationDesc<'_>,
    ) -> Result<Plan, Error>
    where
        K: Kind,
        D: Create<K>,
    {
        self.check_lost()?;
        let needs = desc.aligned(self.measure_as::<K>(info, desc.share)?)?;
        self.plan(&Ask::new(needs, &desc))
    }

    pub(crate) fn create_measured<K>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        desc: AllocationDesc<'_>,
        place: impl FnOnce(&<D as Create<K>>::Unplaced, Requirements) -> Result<Made<D, K>, Error>,
    ) -> Result<(Made<D, K>, Requirements), Error>
    where
        K: Kind,
        D: Create<K>,
    {
        self.check_lost()?;
        if let Some(kind) = desc.share {
            // What cannot be shared at all is refused with the reason, below.
            let support = Create::<K>::share_support(&self.device, info, kind);
            if support.can_import && !support.can_export {
                return Err(DeviceError::unsupported("making handles of this kind: the device only takes them").into());
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
    pub(crate) fn says_all<K>(&self, portable: &K::Desc, info: &<D as Create<K>>::Info<'_>) -> bool
    where
        K: Kind,
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
        K: Kind,
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
        K: Kind,
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
        K: Kind,
        D: Create<K>,
    {
        self.measure_as::<K>(info, None)
    }

    /// As [`Shared::measure`], for memory that is shared or is not.
    pub(crate) fn measure_as<K>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        share: Option<ShareKind>,
    ) -> Result<Requirements, DeviceError>
    where
        K: Kind,
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
        K: Kind,
        D: Create<K>,
    {
        self.place_asked::<K>(unplaced, &Ask::new(needs, &desc))
    }

    pub(crate) fn place_asked<K>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        ask: &Ask<'_, '_, D>,
    ) -> Result<Made<D, K>, Error>
    where
        K: Kind,
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
        K: Kind,
        D: Create<K>,
    {
        // SAFETY: the caller promises what `Create::place` asks.
        match unsafe { Create::<K>::place(&self.device, unplaced, &self.memory_of(&place).object, place.offset) } {
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
    pub(crate) fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<Memory<D>, DeviceError> {
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

    /// Notes something imported for debugging.
    pub(crate) fn debug_imported(&self, place: &Place<D>, desc: &AllocationDesc<'_>, at: &'static Location<'static>) {
        let (Some(debug), Some(key)) = (&self.debug, self.key_of(place)) else { return };
        let memory = self.shared_memory_of(place);
        let (size, name, user_data) = (memory.size - place.offset, desc.name, desc.user_data);
        // Without a place for the host: what others have written there is not filled over.
        debug.made(
            &self.device,
            NewRange { key, memory, size, name, user_data, margins: Margins::default(), host: None },
        );
        debug.handed_out(key, at, None);
    }

    /// Counts an object that was made.
    pub(crate) fn count_created(&self) {
        count(&self.calls.create_object);
    }

    /// Keeps the number of memory objects below the driver's limit, with threads racing for the last one; and the
    /// bytes that this allocator holds of each heap.
    pub(crate) fn counted_memory<R>(
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
    pub(crate) fn is_near_object_limit(&self) -> bool {
        self.memory_objects.load(Ordering::Relaxed) >= self.device.capabilities().memory_objects_max / 4 * 3
    }

    pub(crate) fn has_room_for_object(&self) -> bool {
        self.memory_objects.load(Ordering::Relaxed) < self.device.capabilities().memory_objects_max
    }

    /// Why blocks of a pool could not be made.
    pub(crate) fn refused(&self, refusal: Refusal, size: u64, memory_type: u32) -> Error {
        let (heap, location) = (self.heap_of(memory_type), super::location::Location::Device);
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
