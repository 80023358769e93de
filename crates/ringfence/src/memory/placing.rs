//! Where a new resource goes: memory type by memory type, in a block or in memory of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::arena::{Arena, Memory, Request};
use super::shared::{CLASSES, Hold, Place, Shared};
use super::statistics::count;
use super::types::Location;
use crate::device::{Create, Device, DeviceError, MemoryDesc, Placed, Requirements, ResourceClass};
use crate::error::Error;
use crate::resource::{AllocationDesc, Dedicated, ResourceKind};

/// A resource that was made, and where.
pub(crate) type Made<D, K> = (Placed<<D as Create<K>>::Object>, Place<D>);

impl<D: Device> Shared<D> {
    pub(crate) fn create<K>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        desc: AllocationDesc<'_>,
    ) -> Result<(Made<D, K>, Requirements), Error>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        self.create_with::<K>(info, desc, |unplaced, needs| self.place::<K>(unplaced, needs, desc))
    }

    /// As [`Shared::create`], with `place` deciding where.
    pub(crate) fn create_with<K>(
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
        // SAFETY: safe code can build only descriptions that the device accepts or refuses with an error.
        let (unplaced, requirements) = unsafe { Create::<K>::prepare(&self.device, info) }?;
        match place(&unplaced, requirements) {
            Ok((placed, place)) => {
                count(&self.calls.create_object);
                if !desc.name.is_empty() {
                    // SAFETY: the object was made just now.
                    unsafe { Create::<K>::set_name(&self.device, &placed.object, desc.name) };
                }
                Ok(((placed, place), requirements))
            }
            Err(error) => {
                // SAFETY: nothing has used it up, since `place` failed.
                unsafe { Create::<K>::discard(&self.device, unplaced) };
                Err(error)
            }
        }
    }

    /// What a resource would need, no memory taken.
    pub(crate) fn measure<K>(&self, info: &<D as Create<K>>::Info<'_>) -> Result<Requirements, DeviceError>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        // SAFETY: as in `create_with`; what was prepared is discarded, being neither placed nor dedicated.
        unsafe {
            let (unplaced, needs) = Create::<K>::prepare(&self.device, info)?;
            Create::<K>::discard(&self.device, unplaced);
            Ok(needs)
        }
    }

    /// Host-visible memory that is not coherent is flushed in whole atoms: no two resources of a block may share one.
    /// (Memory of a resource's own is exactly as large as the driver asks: Vulkan insists, and a flush may end with it.)
    fn padded(&self, mut needs: Requirements, location: Location) -> Requirements {
        let atom = self.device.capabilities().non_coherent_atom_bytes;
        if location != Location::Device && atom > 1 {
            needs.alignment = needs.alignment.max(atom);
            needs.size = needs.size.div_ceil(atom).saturating_mul(atom);
        }
        needs
    }

    /// Tries every memory type that will do: see the order in [`crate::memory`].
    pub(crate) fn place<K>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        needs: Requirements,
        desc: AllocationDesc<'_>,
    ) -> Result<Made<D, K>, Error>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let max = self.device.capabilities().memory_object_bytes_max;
        if needs.size > max {
            return Err(Error::TooLarge { size: needs.size, max });
        }
        let (mut tried, mut best, mut cause) = (0_u32, None, DeviceError::OutOfDeviceMemory);
        for memory_type in self.order.candidates(desc.location, needs.memory_type_bits) {
            best.get_or_insert(memory_type);
            tried |= 1 << memory_type;
            match self.place_in_type::<K>(unplaced, needs, desc, memory_type) {
                Ok(placed) => return Ok(placed),
                Err(error) if error.is_out_of_memory() => cause = error,
                Err(error) => return Err(error.into()),
            }
        }
        match best {
            None => Err(Error::NoMemoryType { location: desc.location, memory_type_bits: needs.memory_type_bits }),
            Some(best) => Err(self.out_of_memory(needs.size, desc.location, tried, best, cause)),
        }
    }

    fn out_of_memory(&self, size: u64, location: Location, tried: u32, best: u32, cause: DeviceError) -> Error {
        let capabilities = self.device.capabilities();
        let heap = capabilities.memory_types[best as usize].heap;
        Error::OutOfMemory {
            size,
            location,
            tried_type_bits: tried,
            heap,
            reserved_bytes: self.reserved_bytes(heap),
            heap_bytes: capabilities.memory_heaps[heap as usize].bytes,
            cause,
        }
    }

    fn place_in_type<K>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        needs: Requirements,
        desc: AllocationDesc<'_>,
        memory_type: u32,
    ) -> Result<Made<D, K>, DeviceError>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let arena = self.arena_index(memory_type, needs.class);
        if self.wants_dedicated(needs, desc.dedicated, arena) {
            return self.place_dedicated::<K>(unplaced, needs, desc, arena);
        }
        match self.place_in_block::<K>(unplaced, needs, desc, arena) {
            Err(error) if error.is_out_of_memory() && desc.dedicated != Dedicated::Never => {
                self.place_dedicated::<K>(unplaced, needs, desc, arena)
            }
            result => result,
        }
    }

    fn wants_dedicated(&self, needs: Requirements, wish: Dedicated, arena: u32) -> bool {
        let limit = self.device.capabilities().memory_objects_max;
        let near_limit = self.memory_objects.load(Ordering::Relaxed) >= limit / 4 * 3;
        match wish {
            _ if needs.requires_dedicated => true,
            Dedicated::Always => true,
            Dedicated::Never => false,
            Dedicated::Auto if !self.arenas[arena as usize].shares(needs.size) => true,
            Dedicated::Auto => needs.prefers_dedicated && !near_limit,
        }
    }

    fn place_in_block<K>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        needs: Requirements,
        desc: AllocationDesc<'_>,
        arena: u32,
    ) -> Result<Made<D, K>, DeviceError>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let needs = self.padded(needs, desc.location);
        let request = Request { size: needs.size, alignment: needs.alignment, name: desc.name };
        let found = self.arenas[arena as usize].allocate(self, request)?;
        let offset = found.allocation.range().offset();
        self.trace.allocated(found.memory.block, offset, found.allocation.size(), needs.alignment, desc.name);
        let place = Place { memory: found.memory, offset, arena, hold: Hold::Range(found.allocation) };
        // SAFETY: the arena's memory is of a type and class that the requirements allow, and the range is aligned.
        unsafe { self.place_at::<K>(unplaced, place) }
    }

    /// Makes the resource where it was given room, or gives the room back.
    ///
    /// # Safety
    /// The memory is of a type and class that the resource's requirements allow; the range is large enough and aligned.
    pub(crate) unsafe fn place_at<K>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        place: Place<D>,
    ) -> Result<Made<D, K>, DeviceError>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        // SAFETY: the caller promises what `Create::place` asks.
        match unsafe { Create::<K>::place(&self.device, unplaced, &place.memory.object, place.offset) } {
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

    fn place_dedicated<K>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        needs: Requirements,
        desc: AllocationDesc<'_>,
        arena: u32,
    ) -> Result<Made<D, K>, DeviceError>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let Arena { memory_type, class, .. } = self.arenas[arena as usize];
        let memory = MemoryDesc { memory_type, size: needs.size, alignment: needs.alignment, class, name: desc.name };
        let (placed, object) = self.counted_memory(|| {
            // SAFETY: the type is one that the requirements allow; nothing has used `unplaced` up.
            unsafe { Create::<K>::dedicate(&self.device, unplaced, &memory) }
        })?;
        let number = self.arenas[arena as usize].add_dedicated(needs.size, desc.name);
        let memory = Arc::new(Memory { object, memory_type, size: needs.size, block: self.trace.block_number() });
        self.trace_block(&memory, class, true);
        self.trace.allocated(memory.block, 0, needs.size, needs.alignment, desc.name);
        Ok((placed, Place { memory, offset: 0, arena, hold: Hold::Dedicated(number) }))
    }

    /// A memory object from the driver. No lock may be held that an allocation needs.
    pub(crate) fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<Memory<D>, DeviceError> {
        // SAFETY: the arenas are made from the device's own list of types.
        let object = self.counted_memory(|| unsafe { self.device.allocate_memory(desc) })?;
        let block = self.trace.block_number();
        Ok(Memory { object, memory_type: desc.memory_type, size: desc.size, block })
    }

    /// Keeps the number of memory objects below the driver's limit, with threads racing for the last one.
    fn counted_memory<R>(&self, make: impl FnOnce() -> Result<R, DeviceError>) -> Result<R, DeviceError> {
        let limit = self.device.capabilities().memory_objects_max;
        if self.memory_objects.fetch_add(1, Ordering::Relaxed) >= limit {
            self.memory_objects.fetch_sub(1, Ordering::Relaxed);
            return Err(DeviceError::TooManyObjects);
        }
        let made = make();
        match &made {
            Ok(_) => count(&self.calls.allocate_memory),
            Err(_) => _ = self.memory_objects.fetch_sub(1, Ordering::Relaxed),
        }
        made
    }

    /// The arena of a memory type and the group that a class falls in.
    pub(crate) fn arena_index(&self, memory_type: u32, class: ResourceClass) -> u32 {
        let group = self.device.capabilities().class_groups[class as usize];
        memory_type * CLASSES.len() as u32 + u32::from(group)
    }
}
