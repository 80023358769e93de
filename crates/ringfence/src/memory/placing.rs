//! From a description to a resource in its memory; and the driver's memory objects, counted.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Allocator;
use super::ladder::{Ask, Attempt, Refusal};
use super::place::{Memory, Place};
use super::plan::Plan;
use super::pool::Pool;
use super::shared::{ARENAS_PER_TYPE, Shared, WIDE_ARENA};
use super::statistics::count;
use super::subject::Unplaced;
use crate::device::{Create, Device, DeviceError, MemoryDesc, Placed, Requirements, ResourceClass};
use crate::error::Error;
use crate::resource::{AllocationDesc, Resource, ResourceKind};

/// Heaps that hold what is aligned to more than this have to say so when they are made (Direct3D 12, multisampling).
const COMMON_ALIGNMENT: u64 = 64 << 10;

/// A resource that was made, and where.
type Made<D, K> = (Placed<<D as Create<K>>::Object>, Place<D>);

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
        shared.check_lost()?;
        // SAFETY: safe code can build only descriptions that the device accepts or refuses with an error.
        let (unplaced, needs) = unsafe { Create::<K>::prepare(&shared.device, info) }?;
        let made = self.ask_of(needs, &desc, pool).and_then(|ask| self.place_resource::<K>(&unplaced, &ask));
        match made {
            Ok((placed, place)) => {
                let has_address = Create::<K>::has_address(&shared.device, info);
                let resource = Resource::new(Arc::clone(shared), placed, place, needs.size, desc.location);
                Ok(resource.with_address(has_address).with_user_data(desc.user_data))
            }
            Err(error) => {
                // SAFETY: nothing has used it up, since it was not placed.
                unsafe { Create::<K>::discard(&shared.device, unplaced) };
                Err(error)
            }
        }
    }

    fn place_resource<K>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        ask: &Ask<'_, '_, D>,
    ) -> Result<Made<D, K>, Error>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let shared = self.shared();
        let (placed, place) = shared.find_place(&Unplaced::<D, K>(unplaced, PhantomData), ask)?;
        count(&shared.calls.create_object);
        if !place.is_dedicated() {
            count(&shared.calls.placed);
        }
        if !ask.desc.name.is_empty() {
            // SAFETY: the object was made just now.
            unsafe { Create::<K>::set_name(&shared.device, &placed.object, ask.desc.name) };
        }
        Ok((placed, place))
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
        // SAFETY: safe code can build only descriptions that the device accepts or refuses with an error.
        let (unplaced, needs) = unsafe { Create::<K>::prepare(&shared.device, info) }?;
        // SAFETY: it was measured, and nothing else.
        unsafe { Create::<K>::discard(&shared.device, unplaced) };
        shared.plan(&self.ask(needs, &desc))
    }
}

impl<D: Device> Shared<D> {
    /// A memory object from the driver. No lock may be held that an allocation needs.
    pub(super) fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<Memory<D>, DeviceError> {
        let heap = self.heap_of(desc.memory_type);
        // SAFETY: the arenas are made from the device's own list of types.
        let object = self.counted_memory(heap, desc.size, || {
            // SAFETY: as above.
            unsafe { self.device.allocate_memory(desc) }.map(|memory| ((), memory))
        });
        object.map(|((), object)| self.memory(object, desc.memory_type, desc.size))
    }

    pub(super) fn memory(&self, object: D::Memory, memory_type: u32, size: u64) -> Memory<D> {
        let mapped = self.device.mapped(&object);
        Memory { object, memory_type, size, mapped }
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
        if self.memory_objects.fetch_add(1, Ordering::Relaxed) >= limit {
            self.memory_objects.fetch_sub(1, Ordering::Relaxed);
            return Err(DeviceError::TooManyObjects);
        }
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

    /// The arena of a memory type and the group that a class falls in.
    pub(super) fn arena_index(&self, memory_type: u32, needs: &Requirements) -> u32 {
        let is_wide = needs.class == ResourceClass::RenderTarget && needs.alignment > COMMON_ALIGNMENT;
        let group = self.device.capabilities().class_groups[needs.class as usize];
        let arena = if is_wide { WIDE_ARENA } else { u32::from(group) };
        memory_type * ARENAS_PER_TYPE + arena
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
