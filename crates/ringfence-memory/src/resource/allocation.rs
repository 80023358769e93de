//! Memory without a resource: for resources that the program binds itself, and for several resources that alias bytes.
//!
//! ```text
//!   Allocation ── sole ──▶ Place                      as it was created
//!       │ the first aliasing resource
//!       ▼
//!   Allocation ─┬─▶ shared Place ◀─┬─ Buffer          freed when the last of them is released
//!               └──────────────────┴─ Texture         and the device is done with it
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic;
use std::ptr::NonNull;
use std::sync::Arc;

use ringfence_core::sync::SyncSet;
use ringfence_decision::{Error, aligned};
use ringfence_lockfree::slots::{Ready, Slots};
use ringfence_observe::{Call, Event, RangeId};

use super::host::AccessError;
use super::host::HostBytes;
use super::{Buffer, Resource, ResourceKind, Texture};
use crate::debugging::MemoryAddress;
use crate::device::{
    Buffers, Create, Describe, Device, DeviceError, Kind, Mapped, MemoryProperties, Requirements, ResourceClass,
    Textures,
};
use crate::memory::{
    AllocationDesc, ArenaRef, Bytes, BytesFor, Location, Origin, Place, PlaceKind, PlacementRequest, Prepared, Shared,
    SharedPlace, Unplaced,
};

/// A range of memory, owned by the holder of this value; move-only.
///
/// A drop retires the range, as for a [`Buffer`]: once every submission that had begun before the drop is complete, the
/// next [`Allocator::reclaim`](crate::Allocator::reclaim) frees the bytes.
pub struct Allocation<D: Device> {
    shared: Arc<Shared<D>>,
    place: ManuallyDrop<Place<D>>,
    size: u64,
    /// The alignment, as an exponent of two.
    alignment_log2: u8,
    class: ResourceClass,
    /// `true` if resources of every class may be bound to the range.
    is_mixed: bool,
    location: Location,
    user_data: u64,
}

impl<D: Device> Allocation<D> {
    #[track_caller]
    #[inline]
    pub(crate) fn allocate(
        shared: &Arc<Shared<D>>,
        needs: Requirements,
        desc: AllocationDesc<'_>,
    ) -> Result<Self, Error> {
        Self::new(shared, &Bytes, PlacementRequest::new(aligned(&desc, needs)?, &desc), false)
    }

    #[track_caller]
    pub(crate) fn allocate_mixed(
        shared: &Arc<Shared<D>>,
        needs: Requirements,
        desc: AllocationDesc<'_>,
    ) -> Result<Self, Error> {
        let mut needs = aligned(&desc, needs)?;
        let capabilities = shared.device.capabilities();
        let [first, rest @ ..] = capabilities.class_groups;
        let grain = capabilities.class_granularity_bytes;
        if rest != [first; 2] {
            if grain <= 1 {
                return Err(Error::MixedClasses { class_groups: capabilities.class_groups });
            }
            needs.alignment = needs.alignment.max(grain);
            needs.size = needs.size.div_ceil(grain).saturating_mul(grain);
        }
        needs.class = ResourceClass::Buffer;
        Self::new(shared, &Bytes, PlacementRequest::new(needs, &desc), true)
    }

    /// Allocates memory as [`Allocator::allocate_for`](crate::Allocator::allocate_for) does.
    ///
    /// # Safety
    /// As [`Allocator::allocate_for`](crate::Allocator::allocate_for).
    #[track_caller]
    pub(crate) unsafe fn allocate_for<K>(
        shared: &Arc<Shared<D>>,
        unplaced: &<D as Create<K>>::Unplaced,
        needs: Requirements,
        desc: AllocationDesc<'_>,
    ) -> Result<Self, Error>
    where
        K: Kind,
        D: Create<K>,
    {
        let needs = aligned(&desc, needs)?;
        Self::new(shared, &BytesFor::<D, K>(unplaced, PhantomData), PlacementRequest::new(needs, &desc), false)
    }

    #[track_caller]
    #[inline(always)]
    pub(crate) fn new<R: Unplaced<D, Made = ()>>(
        shared: &Arc<Shared<D>>,
        resource: &R,
        request: PlacementRequest<'_, '_, D>,
        is_mixed: bool,
    ) -> Result<Self, Error> {
        let PlacementRequest { needs, desc, .. } = request;
        let at = panic::Location::caller();
        shared.find_place(resource, request, move |(), place, origin| {
            if let Origin::Other = origin {
                shared.note_handed_out(&place, at, None);
            }
            let owner = origin.owner().unwrap_or_else(|| Arc::clone(shared));
            Self::of_place(owner, place, &needs, desc, is_mixed)
        })
    }

    /// Creates an allocation from a place that is already allocated.
    #[inline(always)]
    pub(crate) fn of_place(
        shared: Arc<Shared<D>>,
        place: Place<D>,
        needs: &Requirements,
        desc: &AllocationDesc<'_>,
        is_mixed: bool,
    ) -> Self {
        Self {
            shared,
            place: ManuallyDrop::new(place),
            size: needs.size,
            alignment_log2: needs.alignment.trailing_zeros() as u8,
            class: needs.class,
            is_mixed,
            location: desc.location,
            user_data: desc.user_data,
        }
    }

    /// Returns the driver's memory object.
    #[must_use]
    pub fn memory(&self) -> &D::Memory {
        &self.shared.memory_of(&self.place).object
    }

    /// Returns the offset of the range's first byte in [`Allocation::memory`], in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.place.offset
    }

    /// Returns the size of the range in bytes: the requested size, which
    /// [`Allocator::allocate_mixed`](crate::Allocator::allocate_mixed) may round up.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the alignment of the range's offset in bytes: at least the requested alignment.
    #[must_use]
    pub fn alignment(&self) -> u64 {
        1 << self.alignment_log2
    }

    /// Returns the memory type of the range.
    #[must_use]
    pub fn memory_type(&self) -> u32 {
        self.shared.memory_of(&self.place).memory_type
    }

    /// Returns the properties of the range's memory type.
    #[must_use]
    pub fn properties(&self) -> MemoryProperties {
        self.shared.device.capabilities().properties(self.memory_type())
    }

    /// Returns the location that was requested.
    #[must_use]
    pub fn location(&self) -> Location {
        self.location
    }

    /// Returns `true` if the range has a memory object of its own.
    #[must_use]
    pub fn is_dedicated(&self) -> bool {
        self.place.is_dedicated()
    }

    /// Returns the `user_data` of the range's [`AllocationDesc`].
    #[must_use]
    pub fn user_data(&self) -> u64 {
        self.user_data
    }

    /// Returns the place of the range in memory, for [`Debug::history_of`](crate::memory::Debug::history_of).
    #[must_use]
    pub fn memory_address(&self) -> MemoryAddress {
        MemoryAddress::Block { block: self.shared.memory_of(&self.place).block, offset: self.place.offset }
    }

    /// Returns the mapped address of the range's first byte, which is valid as long as this value lives and is not
    /// moved by a defragmentation. Returns `None` if the memory type is not host-visible, or if the API maps resources
    /// and not memory (Direct3D 12).
    #[doc(alias("vmaMapMemory", "mapped_ptr"))]
    #[must_use]
    pub fn mapped(&self) -> Option<NonNull<u8>> {
        self.base().and_then(|mapped| NonNull::new(mapped.as_ptr()))
    }

    /// Makes host writes through [`Allocation::mapped`] to `size` bytes from byte `offset` on visible to the device.
    /// Makes a driver call only if the memory type needs flushes.
    ///
    /// # Errors
    /// The range is not mapped, or is outside of the allocation; or the driver failed.
    #[doc(alias = "vmaFlushAllocation")]
    pub fn flush(&self, offset: u64, size: u64) -> Result<(), AccessError> {
        self.host().flush(offset, size)
    }

    /// Copies bytes into the memory, as [`Buffer::write`] does.
    ///
    /// # Errors
    /// As [`Buffer::write`].
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        // SAFETY: resources that alias the bytes have no host access of their own, and `&mut self` excludes other
        // access through this value.
        unsafe { self.host().write(offset, bytes) }
    }

    /// Copies bytes out of the memory, as [`Buffer::read`] does.
    ///
    /// # Errors
    /// As [`Buffer::read`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.host().read(offset, into)
    }

    fn host(&self) -> HostBytes<'_, D> {
        HostBytes { shared: &self.shared, place: &self.place, base: self.base(), size: self.size }
    }

    /// Returns the mapped address of the range's first byte, if the memory is mapped.
    fn base(&self) -> Option<Mapped> {
        // SAFETY: the place is inside the memory, which is mapped as a whole if it is mapped.
        self.shared.memory_of(&self.place).mapped.map(|base| unsafe { base.add(self.place.offset) })
    }

    /// Creates a buffer at byte `offset` of this memory. The buffer may overlap other resources in the memory: see
    /// [`Allocation::create_aliasing_texture`].
    ///
    /// # Errors
    /// As [`Allocation::create_aliasing_texture`].
    #[doc(alias = "vmaCreateAliasingBuffer")]
    pub fn create_aliasing_buffer(
        &mut self,
        info: &impl Describe<D, Buffers>,
        offset: u64,
        name: &str,
    ) -> Result<Buffer<D>, Error> {
        self.create_aliasing(info, offset, name)
    }

    /// Creates a texture at byte `offset` of this memory. Any number of resources may be bound to the memory, and they
    /// may overlap. The memory is freed once the allocation and all of these resources are released and the device is
    /// done with them.
    ///
    /// Writing one resource makes the contents of the resources that overlap it undefined: the program must record the
    /// barriers, and discard or overwrite such a resource before its next use. The host accesses the bytes through the
    /// allocation.
    ///
    /// # Errors
    /// An error creates nothing:
    ///
    /// - [`Error::DoesNotFit`] if the resource exceeds the allocation or would not be aligned.
    /// - [`Error::WrongMemoryType`], or [`Error::WrongClass`].
    /// - [`DeviceError::Unsupported`] if the resource requires dedicated memory, or if the driver created the memory
    ///   for one resource ([`Allocator::allocate_for`](crate::Allocator::allocate_for)).
    /// - The driver's error, if it refuses the resource.
    pub fn create_aliasing_texture(
        &mut self,
        info: &impl Describe<D, Textures>,
        offset: u64,
        name: &str,
    ) -> Result<Texture<D>, Error> {
        self.create_aliasing(info, offset, name)
    }

    fn create_aliasing<K>(
        &mut self,
        info: &impl Describe<D, K>,
        offset: u64,
        name: &str,
    ) -> Result<Resource<D, K>, Error>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        let shared = Arc::clone(&self.shared);
        info.with_info(&shared.device, |info| self.bind_aliasing(info, offset, name))?
    }

    fn bind_aliasing<K>(
        &mut self,
        info: &<D as Create<K>>::Info<'_>,
        offset: u64,
        name: &str,
    ) -> Result<Resource<D, K>, Error>
    where
        K: ResourceKind,
        D: Create<K>,
    {
        self.shared.check_lost()?;
        let share = self.shared.memory_of(&self.place).share;
        let (unplaced, needs) = self.shared.make_object(|| self.shared.prepare::<K>(info, share))?;
        let shared = Arc::clone(&self.shared);
        let unplaced = Prepared::<D, K>::new(&shared.device, unplaced);
        self.check_aliasing(&needs, offset)?;
        self.share_place();
        // SAFETY: type, class, size and alignment were just checked.
        let placed =
            unsafe { Create::<K>::place(&shared.device, unplaced.get(), self.memory(), self.place.offset + offset) };
        let mut placed = placed?;
        unplaced.used_up();
        self.shared.notify(Event::Called(Call::CreateObject));
        if !name.is_empty() {
            // SAFETY: the object was just created.
            unsafe { Create::<K>::set_name(&self.shared.device, &placed.object, name) };
        }
        // Two owners of the same mapped bytes would be a data race in safe code.
        placed.mapped = None;
        let PlaceKind::Shared(place) = &self.place.kind else { unreachable!("the place was just shared") };
        let kind = PlaceKind::Shared(Arc::clone(place));
        let place = Place { offset: self.place.offset + offset, arena: self.place.arena.clone(), kind };
        // SAFETY: the object was just created from `info`, and bound to the place.
        Ok(unsafe { Resource::new(shared, placed, place, needs.size, self.location).made_as(info) })
    }

    fn check_aliasing(&self, needs: &Requirements, offset: u64) -> Result<(), Error> {
        let memory_type = self.memory_type();
        let groups = self.shared.device.capabilities().class_groups;
        if needs.memory_type_bits >> memory_type & 1 == 0 {
            return Err(Error::WrongMemoryType { memory_type, memory_type_bits: needs.memory_type_bits });
        }
        if !self.is_mixed && groups[needs.class as usize] != groups[self.class as usize] {
            return Err(Error::WrongClass { class: needs.class, block_class: self.class });
        }
        if needs.requires_dedicated {
            return Err(DeviceError::unsupported(
                "a resource that requires dedicated memory, in memory that it shares",
            )
            .into());
        }
        // Vulkan's dedicated memory accepts only the resource that it was created for, and its owner binds that.
        if self.shared.device.is_tied(self.memory()) {
            return Err(DeviceError::unsupported("a resource in memory that was allocated for another").into());
        }
        let is_inside = offset.checked_add(needs.size).is_some_and(|end| end <= self.size);
        // Evaluated only if it is inside, because otherwise the sum may overflow.
        let is_aligned = || (self.place.offset + offset).is_multiple_of(needs.alignment);
        if !is_inside || !is_aligned() {
            let Requirements { size, alignment, .. } = *needs;
            return Err(Error::DoesNotFit { offset, size, alignment, allocation_size: self.size });
        }
        Ok(())
    }

    /// Converts the place to one that several resources can own.
    fn share_place(&mut self) {
        if matches!(self.place.kind, PlaceKind::Shared(_)) {
            return;
        }
        let (offset, arena) = (self.place.offset, self.place.arena.clone());
        if let Some(ticket) = self.place.ticket() {
            ticket.fix();
        }
        self.shared.device.note_aliasing(self.memory(), offset, self.size, true);
        // SAFETY: the field is written again below, and no code in between can panic: lack of host memory aborts.
        let sole = unsafe { ManuallyDrop::take(&mut self.place) };
        let kind = PlaceKind::Shared(Arc::new(SharedPlace { place: sole, size: self.size }));
        self.place = ManuallyDrop::new(Place { offset, arena, kind });
    }

    /// Retires the allocation. Its memory is freed once all of `points` have passed; other submissions do not delay
    /// this.
    ///
    /// # Panics
    /// If a point belongs to no timeline of this allocator. The allocation is then retired as if it were dropped.
    ///
    /// # Safety
    /// Every submission that uses the allocation is complete once `points` have passed.
    pub unsafe fn retire_after(self, points: &SyncSet) {
        let (shared, place) = self.into_parts();
        // SAFETY: the place belonged to this value alone; the caller promises the rest.
        unsafe { shared.retire_after(points, None, place) };
    }

    /// Frees the memory of the allocation at once.
    ///
    /// # Safety
    /// No submission under way uses the allocation, and the resources that the program bound to it are destroyed.
    #[inline]
    pub unsafe fn destroy_now(self) {
        // SAFETY: the caller promises the same.
        if let Some(other) = unsafe { self.destroy_cached() } {
            other.give_back();
        }
    }

    #[cold]
    fn give_back(self) {
        let (shared, place) = self.into_parts();
        shared.free_place(place);
    }

    pub(crate) fn place(&self) -> &Place<D> {
        &self.place
    }

    pub(crate) fn is_of(&self, shared: &Arc<Shared<D>>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// Moves the allocation to another place of the same kind and size. Returns the old place as an allocation.
    pub(crate) fn moved_to(&mut self, place: Place<D>) -> Self {
        let old = std::mem::replace(&mut *self.place, place);
        let Self { size, alignment_log2, class, is_mixed, location, user_data, .. } = *self;
        let (shared, place) = (Arc::clone(&self.shared), ManuallyDrop::new(old));
        Self { shared, place, size, alignment_log2, class, is_mixed, location, user_data }
    }

    pub(crate) fn note_moved(&self, from: Option<RangeId>) {
        self.shared.note_moved(from, &self.place, self.base(), || None);
    }

    /// Takes the allocation apart without retiring it: the caller frees the place.
    pub(crate) fn into_parts(self) -> (Arc<Shared<D>>, Place<D>) {
        let mut held = ManuallyDrop::new(self);
        // SAFETY: `held` is never dropped or used again, so each part is taken exactly once.
        unsafe { (std::ptr::read(&held.shared), ManuallyDrop::take(&mut held.place)) }
    }

    /// Frees a slot without a name to the thread's cache, or a range without a ticket to its block. Returns any other
    /// allocation to the caller, unchanged; returns every allocation while a subscriber records events.
    ///
    /// # Safety
    /// As for [`Allocation::destroy_now`].
    #[inline]
    unsafe fn destroy_cached(self) -> Option<Self> {
        let held = ManuallyDrop::new(self);
        let (arena, class, memory, slot) = match &held.place.kind {
            PlaceKind::Slot { class, named: false, memory, allocation } if !held.shared.is_watched() => {
                let ArenaRef::Own(arena) = held.place.arena else { unreachable!("custom pools have no slots") };
                (arena, *class, memory, allocation)
            }
            _ => {
                // SAFETY: `held` is never dropped, and is used again only if it was not freed.
                let is_free = unsafe { held.destroy_cached_range() };
                return (!is_free).then(|| ManuallyDrop::into_inner(held));
            }
        };
        // SAFETY: `held` is never dropped or used again, so the owner is taken once; apart from the slot, its other
        // fields need no drop.
        let owner = unsafe { std::ptr::read(&held.shared) };
        // Read at the end of the closure, so each field is moved once.
        // SAFETY: as above.
        let ready = || unsafe {
            Ready { slot: std::ptr::read(slot), memory: std::ptr::read(memory), offset: held.place.offset }
        };
        // SAFETY: the slot belongs to the allocator's arena with this number, which the owner keeps alive.
        unsafe { Slots::put_ready(owner, |owner| &owner.arenas[arena as usize].slots, class, ready) };
        None
    }

    /// As [`Allocation::destroy_cached`], for a range of a block. Returns `true` if it has freed the allocation. Takes
    /// `&self`, because moving the value would cost more than the rest.
    ///
    /// # Safety
    /// If it returns `true`, the value is not used or dropped afterwards.
    unsafe fn destroy_cached_range(&self) -> bool {
        match (&self.place.arena, &self.place.kind) {
            (ArenaRef::Own(arena), PlaceKind::Range { allocation, ticket: None, .. }) if !self.shared.is_watched() => {
                // SAFETY: the caller promises that the value is not used again; the fields that are not read need no
                // drop.
                let owner = unsafe { std::ptr::read(&self.shared) };
                owner.free_range(*arena, *allocation);
                true
            }
            _ => false,
        }
    }

    /// Sets the name for snapshots and traces. Has no effect once resources alias the allocation. One short lock, one
    /// host allocation.
    pub fn set_name(&mut self, name: &str) {
        self.shared.rename(&mut self.place, name);
    }
}

impl<D: Device> Drop for Allocation<D> {
    fn drop(&mut self) {
        // SAFETY: a value is dropped once, and nothing reads the field afterwards.
        let place = unsafe { ManuallyDrop::take(&mut self.place) };
        // SAFETY: the place belonged to this value alone, which is being dropped.
        unsafe { self.shared.retire(None, place) };
    }
}

impl<D: Device> fmt::Debug for Allocation<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocation")
            .field("size", &self.size)
            .field("memory_type", &self.memory_type())
            .field("offset", &self.offset())
            .finish_non_exhaustive()
    }
}
