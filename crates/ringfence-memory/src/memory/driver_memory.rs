//! The driver's memory objects: allocated, counted against the device's limit and the budgets, imported, freed.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringfence_decision::{AllocationDesc, Attempt, Error, ObjectRequest};
use ringfence_observe::{Call, Event, Numbered, SlowPath};
use scopeguard::{ScopeGuard, guard};

use super::place::{ArenaRef, Backing, Place};
use super::retired::Retired;
use super::shared::Shared;
use crate::device::{Device, DeviceError, MemoryDesc};
use crate::trace::Event as Recorded;
use ringfence_arena::ArenaDesc;
use ringfence_arena::Request;
use ringfence_arena::{Memory, RawObject};

impl<D: Device> Shared<D> {
    /// Allocates a memory object from the driver. The caller must hold no lock that an allocation needs.
    pub(super) fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<Memory<D>, DeviceError> {
        let MemoryDesc { memory_type, size: bytes, .. } = *desc;
        let _slow = self.observers.during(SlowPath::AllocateMemory { bytes, memory_type, dedicated: false });
        let object = self.counted_memory(|| {
            // SAFETY: the arenas use the device's own list of types.
            unsafe { self.device.allocate_memory(desc) }.map(|memory| ((), memory))
        });
        object.map(|((), object)| self.memory(object, desc))
    }

    /// Returns the library's record of a memory object that was allocated with `desc`.
    pub(super) fn memory(&self, object: D::Memory, desc: &MemoryDesc<'_>) -> Memory<D> {
        let (mapped, block) = (self.device.mapped(&object), self.observers.number(Numbered::Block));
        let MemoryDesc { memory_type, size, share, priority, .. } = *desc;
        let is_guarded = self.observers.margin_bytes() != 0;
        let guards = if is_guarded { self.device.map_whole(&object) } else { None };
        let residence = self.residence(&object, memory_type, size, priority);
        Memory { object, memory_type, size, block, mapped, guards, share, is_imported: false, residence }
    }

    /// Calls `make`, and counts the memory object. Even if threads race for the last one, there are never more memory
    /// objects than the device allows.
    pub(super) fn counted_memory<R>(
        &self,
        make: impl FnOnce() -> Result<(R, D::Memory), DeviceError>,
    ) -> Result<(R, D::Memory), DeviceError> {
        let limit = self.device.capabilities().memory_objects_max;
        // A call that the limit refuses does not change the count, so it causes no other refusal.
        let one_more = |held| (held < limit).then_some(held + 1);
        self.memory_objects
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .map_err(|_| DeviceError::TooManyObjects)?;
        let counted = guard((), |()| _ = self.memory_objects.fetch_sub(1, Ordering::Relaxed));
        let made = make()?;
        ScopeGuard::into_inner(counted);
        self.notify(Event::Called(Call::AllocateMemory));
        Ok(made)
    }

    /// Returns the minimum size of a resource, in bytes, for the dedicated memory that the driver prefers. While less
    /// than a quarter of the memory objects is used, it is 0. From then on, it is the device's memory divided by the
    /// number of allowed objects. If three quarters are used, no size is large enough.
    pub(super) fn preferred_bytes_min(&self) -> u64 {
        let capabilities = self.device.capabilities();
        let (held, most) = (self.memory_objects.load(Ordering::Relaxed), capabilities.memory_objects_max);
        if held < most / 4 {
            0
        } else if held < most / 4 * 3 {
            capabilities.memory_heaps.iter().map(|heap| heap.bytes).sum::<u64>() / most
        } else {
            u64::MAX
        }
    }

    pub(super) fn has_object_left(&self) -> bool {
        self.memory_objects.load(Ordering::Relaxed) < self.device.capabilities().memory_objects_max
    }

    /// Adds a memory object that the arena does not suballocate. The bytes of the object from `offset` on are in use.
    /// Returns the object's number in the arena.
    pub(super) fn add_dedicated(
        &self,
        arena: &ArenaRef<D>,
        memory: &Memory<D>,
        offset: u64,
        request: &Request<'_>,
    ) -> u64 {
        let number = match arena {
            ArenaRef::Own(index) => self.arenas[*index as usize].add_dedicated(memory.block, request),
            ArenaRef::Pool(pool) => pool.arena.add_dedicated(memory.block, request),
        };
        self.note_block(memory, self.arena_desc(arena).class_name(), true);
        let Request { size, alignment, name, .. } = *request;
        self.record(|| Recorded::Allocated { block: memory.block, offset, bytes: size - offset, alignment, name });
        number
    }

    /// Imports memory, and returns a place in it from `offset` on. The place counts as dedicated memory.
    pub(crate) fn import_place(
        &self,
        memory: &MemoryDesc<'_>,
        offset: u64,
        desc: &AllocationDesc<'_>,
        import: impl FnOnce() -> Result<D::Memory, DeviceError>,
    ) -> Result<Place<D>, DeviceError> {
        let MemoryDesc { memory_type, size, alignment, class, .. } = *memory;
        let ((), object) = self.counted_memory(|| import().map(|held| ((), held)))?;
        self.budgets.add(self.heap_of(memory_type), size);
        let held = Arc::new(Memory { is_imported: true, ..self.memory(object, memory) });
        // Pinned, because submissions do not declare its uses.
        held.pin();
        let AllocationDesc { name, user_data, .. } = *desc;
        let request = Request { size, alignment, name, user_data, ..Default::default() };
        let arena = self.arena_index(memory_type, class);
        let number = self.add_dedicated(&ArenaRef::Own(arena.into()), &held, offset, &request);
        Ok(Place { offset, ..Place::heap(held, arena, number) })
    }

    /// Allocates a memory object of `size` bytes for resources outside the arenas. The object is within the limits and
    /// counts as dedicated memory, and debugging lists it with the line `at`. If memory is short, destroys recycled
    /// objects and retired objects that the device is done with, frees empty blocks, and tries once more.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or [`Error::OverBudget`] if there is still no memory; [`Error::TooLarge`]; or any other
    /// error of the driver.
    ///
    /// # Panics
    /// If there is no arena with the index `arena`.
    pub fn make_heap(
        &self,
        arena: u32,
        size: u64,
        alignment: u64,
        name: &str,
        at: &'static Location<'static>,
    ) -> Result<Backing<D>, Error> {
        let ArenaDesc { memory_type, heap, class, priority, .. } = self.arenas[arena as usize].desc;
        let desc = MemoryDesc { share: None, memory_type, size, alignment, class, priority, name };
        let mut attempt = Attempt::at(memory_type, size, &AllocationDesc::default());
        let object = ObjectRequest::block(memory_type, size, attempt.constraints.reach(true));
        let make = |attempt: &mut Attempt| self.make_within(object, attempt, || self.allocate_memory(&desc));
        let made = match make(&mut attempt) {
            Err(failure) if failure.may_go_on() && self.trim_heap(heap, failure, &mut attempt) => make(&mut attempt),
            made => made,
        };
        let memory = Arc::new(made.map_err(|failure| self.give_up(&attempt, None, failure))?);
        memory.pin();
        let request = Request { size, alignment, name, ..Default::default() };
        let number = self.add_dedicated(&ArenaRef::Own(arena.into()), &memory, 0, &request);
        let place = Place::heap(Arc::clone(&memory), arena, number);
        self.note_whole(&place, &AllocationDesc { name, ..Default::default() }, at);
        Ok(Backing::Heap { memory, arena, number })
    }

    /// Frees the memory object of an empty block, or destroys the block's buffer and frees its place.
    ///
    /// # Safety
    /// `backing` belongs to this allocator, is empty and has no other owner, and no submission under way uses it.
    ///
    /// # Panics
    /// If the memory object has another owner.
    pub unsafe fn free_backing(&self, backing: Backing<D>) {
        match backing {
            Backing::Heap { memory, arena, number } => self.free_place(Place::heap(memory, arena, number)),
            Backing::Buffer { object, place } => self.destroy(Retired::Pair(RawObject::Buffer(object), place)),
        }
    }

    /// Frees a memory object, which must be empty, to the driver.
    pub(super) fn free_memory(&self, memory: Memory<D>) {
        if memory.residence.as_ref().is_some_and(|residence| self.close_residence(residence)) {
            self.budgets.remove_absent(self.heap_of(memory.memory_type), memory.size);
        }
        let Memory { object, memory_type, size, block, .. } = memory;
        self.record(|| Recorded::BlockFreed { block });
        let _slow = self.observers.during(SlowPath::FreeMemory { bytes: size, memory_type });
        // SAFETY: this device allocated it, and it is empty: its block is empty, or its only resource is destroyed.
        unsafe { self.device.free_memory(object) };
        self.memory_objects.fetch_sub(1, Ordering::Release);
        self.budgets.remove(self.heap_of(memory_type), size);
        self.notify(Event::Called(Call::FreeMemory));
    }
}
