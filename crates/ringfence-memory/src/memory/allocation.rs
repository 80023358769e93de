//! Memory without a resource: for resources that the program places itself, and for several that share bytes.
//!
//! ```text
//!   Allocation ── sole ──▶ Place                      as it was made
//!       │ the first aliasing resource
//!       ▼
//!   Allocation ─┬─▶ common Place ◀─┬─ Buffer          goes back when the last of them is let go of
//!               └──────────────────┴─ Texture         and the device is done with it
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic;
use std::ptr::NonNull;
use std::sync::Arc;

use ringfence_core::sync::SyncSet;

use super::Allocator;
use super::ladder::Ask;
use super::place::{Hold, Place};
use super::placing::Prepared;
use super::shared::Shared;
use super::statistics::count;
use super::subject::{Bytes, BytesFor, Subject};
use super::types::Location;
use crate::device::{
    BufferInfo, Create, Device, Kind, Mapped, MemoryProperties, Requirements, ResourceClass, TextureInfo,
};
use crate::error::{AccessError, Error};
use crate::observe::debugging::{Key, MovedRange, Spot};
use crate::resource::{AllocationDesc, Buffer, Resource, ResourceKind, Texture};

/// A range of memory, owned by whoever holds this value; move-only.
///
/// Dropping it retires it, as a [`Buffer`] is: its bytes are given to others by an [`Allocator::reclaim`] after every
/// submission that had begun by then is complete.
pub struct Allocation<D: Device> {
    pub(super) shared: Arc<Shared<D>>,
    pub(super) place: ManuallyDrop<Place<D>>,
    pub(super) size: u64,
    /// The alignment, as an exponent of two.
    pub(super) alignment_log2: u8,
    pub(super) class: ResourceClass,
    /// Whether resources of every class may lie in it.
    pub(super) is_mixed: bool,
    pub(super) location: Location,
    pub(super) user_data: u64,
}

impl<D: Device> Allocation<D> {
    #[track_caller]
    pub(super) fn new<S: Subject<D, Made = ()>>(
        shared: &Arc<Shared<D>>,
        subject: &S,
        ask: &Ask<'_, '_, D>,
        is_mixed: bool,
    ) -> Result<Self, Error> {
        let ((), place) = shared.find_place(subject, ask)?;
        Ok(Self::found(shared, place, ask, is_mixed))
    }

    /// What was found at some place.
    #[track_caller]
    fn found(shared: &Arc<Shared<D>>, place: Place<D>, ask: &Ask<'_, '_, D>, is_mixed: bool) -> Self {
        if let Some(debug) = &shared.debug
            && let Some(key) = place.key(shared)
        {
            debug.handed_out(key, panic::Location::caller(), None);
        }
        let mut made = Self::of_place(shared, place, &ask.needs, ask.desc);
        made.is_mixed = is_mixed;
        made
    }

    /// Bytes for whoever makes resources of his own of them.
    #[track_caller]
    pub(crate) fn bytes(
        shared: &Arc<Shared<D>>,
        needs: Requirements,
        desc: &AllocationDesc<'_>,
    ) -> Result<Self, Error> {
        Self::new(shared, &Bytes, &Ask { needs, desc, pool: None, high: false }, false)
    }

    /// A place that was found otherwise.
    pub(crate) fn of_place(
        shared: &Arc<Shared<D>>,
        place: Place<D>,
        needs: &Requirements,
        desc: &AllocationDesc<'_>,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            place: ManuallyDrop::new(place),
            size: needs.size,
            alignment_log2: needs.alignment.trailing_zeros() as u8,
            class: needs.class,
            is_mixed: false,
            location: desc.location,
            user_data: desc.user_data,
        }
    }

    /// The driver's memory object.
    #[must_use]
    pub fn memory(&self) -> &D::Memory {
        &self.place.memory(&self.shared).object
    }

    /// Its first byte in [`Allocation::memory`].
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.place.offset
    }

    /// Its bytes, as asked for.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What its offset is a multiple of, as asked for.
    #[must_use]
    pub fn alignment(&self) -> u64 {
        1 << self.alignment_log2
    }

    /// The memory type that it lies in.
    #[must_use]
    pub fn memory_type(&self) -> u32 {
        self.place.memory(&self.shared).memory_type
    }

    /// What that memory type is.
    #[must_use]
    pub fn properties(&self) -> MemoryProperties {
        self.shared.device.capabilities().properties(self.memory_type())
    }

    /// Where it was asked to live.
    #[must_use]
    pub fn location(&self) -> Location {
        self.location
    }

    /// Whether the memory object is its own.
    #[must_use]
    pub fn is_dedicated(&self) -> bool {
        self.place.is_dedicated()
    }

    /// What the caller gave along: the library does nothing with it but show it in reports.
    #[must_use]
    pub fn user_data(&self) -> u64 {
        self.user_data
    }

    /// Where it lies, to ask [`Allocator::history_of`] about.
    #[must_use]
    pub fn spot(&self) -> Spot {
        Spot::Block { block: self.place.memory(&self.shared).block, offset: self.place.offset }
    }

    /// Where the host sees its first byte; `None` if its memory type is not host-visible, or the API maps resources
    /// and not memory (Direct3D 12). Valid as long as this value lives.
    #[must_use]
    pub fn mapped(&self) -> Option<NonNull<u8>> {
        self.base().and_then(|mapped| NonNull::new(mapped.as_ptr()))
    }

    /// Makes host writes through [`Allocation::mapped`] visible to the device, where that takes a call.
    ///
    /// # Errors
    /// The range is not mapped or lies outside; or the driver failed.
    pub fn flush(&self, offset: u64, size: u64) -> Result<(), AccessError> {
        self.mapped_at(offset, size)?;
        Ok(self.shared.flush(&self.place, offset, size)?)
    }

    /// Copies bytes in and makes them visible to the device. What submissions under way use must not be written: that
    /// is not checked, and gives wrong bytes on the device.
    ///
    /// # Errors
    /// As [`Buffer::write`].
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), AccessError> {
        let mapped = self.mapped_at(offset, bytes.len() as u64)?;
        // SAFETY: the destination is inside the mapping; resources that share it have no host access of their own, and
        // `&mut self` keeps that through this value away.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), mapped.as_ptr(), bytes.len()) };
        Ok(self.shared.flush(&self.place, offset, bytes.len() as u64)?)
    }

    /// Copies what the device has written.
    ///
    /// # Errors
    /// As [`Buffer::read`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError> {
        let mapped = self.mapped_at(offset, into.len() as u64)?;
        // SAFETY: the range is inside the memory, which is mapped there.
        Ok(unsafe { self.shared.device.read_back(self.memory(), self.place.offset + offset, mapped, into) }?)
    }

    /// Where the host sees its first byte.
    fn base(&self) -> Option<Mapped> {
        // SAFETY: the place lies inside the memory, which is mapped as a whole if it is mapped.
        self.place.memory(&self.shared).mapped.map(|base| unsafe { base.add(self.place.offset) })
    }

    fn mapped_at(&self, offset: u64, size: u64) -> Result<Mapped, AccessError> {
        let base = self.base().ok_or(AccessError::NotMapped)?;
        if offset.checked_add(size).is_none_or(|end| end > self.size) {
            return Err(AccessError::OutOfRange { offset, size, resource_size: self.size });
        }
        // SAFETY: the offset lies inside the range, whose bytes are all mapped.
        Ok(unsafe { base.add(offset) })
    }

    /// Makes a buffer at byte `offset` of this memory. Any number of resources may lie there, over each other: see
    /// [`Allocation::create_aliasing_texture`].
    ///
    /// # Errors
    /// As there.
    pub fn create_aliasing_buffer(
        &mut self,
        info: &BufferInfo<'_, D>,
        offset: u64,
        name: &str,
    ) -> Result<Buffer<D>, Error> {
        self.create_aliasing(info, offset, name)
    }

    /// Makes a texture at byte `offset` of this memory. Any number of resources may lie there, over each other; the
    /// bytes go back when the last of them and the allocation are let go of.
    ///
    /// What one of them holds is lost when another is written: the program places the barriers, and begins each use
    /// with a discard. The host reaches the bytes through the allocation alone.
    ///
    /// # Errors
    /// [`Error::DoesNotFit`] if the resource reaches beyond the allocation or would lie unaligned;
    /// [`Error::WrongMemoryType`], [`Error::WrongClass`]; or the driver refuses it. Nothing has changed then.
    pub fn create_aliasing_texture(
        &mut self,
        info: &TextureInfo<'_, D>,
        offset: u64,
        name: &str,
    ) -> Result<Texture<D>, Error> {
        self.create_aliasing(info, offset, name)
    }

    fn create_aliasing<K>(
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
        let (unplaced, needs) = self.shared.prepare::<K>(info, self.place.memory(&self.shared).share)?;
        let shared = Arc::clone(&self.shared);
        let unplaced = Prepared::<D, K>::new(&shared.device, unplaced);
        self.check_aliasing(&needs, offset)?;
        self.make_common();
        // SAFETY: type, class, size and alignment were checked just now.
        let placed =
            unsafe { Create::<K>::place(&shared.device, unplaced.get(), self.memory(), self.place.offset + offset) };
        let mut placed = placed?;
        unplaced.used_up();
        count(&self.shared.calls.create_object);
        if !name.is_empty() {
            // SAFETY: the object was made just now.
            unsafe { Create::<K>::set_name(&self.shared.device, &placed.object, name) };
        }
        // Two owners of the same mapped bytes would be a data race in safe code.
        placed.mapped = None;
        let Hold::Common(common) = &self.place.hold else { unreachable!("it was made common just now") };
        let hold = Hold::Common(Arc::clone(common));
        let place = Place { offset: self.place.offset + offset, arena: self.place.arena.clone(), hold };
        let has_address = Create::<K>::has_address(&self.shared.device, info);
        let portable = Create::<K>::portable(&self.shared.device, info);
        let made = Resource::new(shared, placed, place, needs.size, self.location);
        Ok(made.with_address(has_address).described(portable).with_parts_of(info))
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
        let is_inside = offset.checked_add(needs.size).is_some_and(|end| end <= self.size);
        // Only inside: elsewhere the sum may be more than a number holds.
        let is_aligned = || (self.place.offset + offset).is_multiple_of(needs.alignment);
        if !is_inside || !is_aligned() || needs.requires_dedicated {
            let Requirements { size, alignment, .. } = *needs;
            return Err(Error::DoesNotFit { offset, size, alignment, allocation_size: self.size });
        }
        Ok(())
    }

    /// From one owner of the place to several.
    fn make_common(&mut self) {
        if matches!(self.place.hold, Hold::Common(_)) {
            return;
        }
        let (offset, arena) = (self.place.offset, self.place.arena.clone());
        if let Some(ticket) = self.place.ticket() {
            ticket.fix();
        }
        self.shared.device.note_aliasing(self.memory(), offset, self.size, true);
        // SAFETY: the field is written again below, and nothing in between can panic but for lack of host memory,
        // which aborts.
        let sole = unsafe { ManuallyDrop::take(&mut self.place) };
        let hold = Hold::Common(Arc::new(Common { place: sole, size: self.size }));
        self.place = ManuallyDrop::new(Place { offset, arena, hold });
    }

    pub(super) fn parts_mut(&mut self) -> (&Shared<D>, &mut Place<D>) {
        (&self.shared, &mut self.place)
    }

    /// Lets go of it for once `points` have passed, whatever other submissions are under way.
    ///
    /// # Panics
    /// If a point is on a timeline of another allocator, or of none. It is let go of as if it were dropped then.
    ///
    /// # Safety
    /// Only submissions that complete with these points use it.
    pub unsafe fn retire_after(self, points: &SyncSet) {
        let (shared, place) = self.into_parts();
        shared.retire_after(points, None, place);
    }

    /// Gives its bytes back at once.
    ///
    /// # Safety
    /// No submission that is under way uses it, and what the program has placed in it is destroyed.
    #[inline]
    pub unsafe fn free_now(self) {
        // SAFETY: the caller promises the same.
        if let Some(other) = unsafe { self.free_at_hand() } {
            other.give_back();
        }
    }

    #[cold]
    fn give_back(self) {
        let (shared, place) = self.into_parts();
        shared.give_back(place);
    }

    pub(crate) fn place(&self) -> &Place<D> {
        &self.place
    }

    /// Whether it is of this allocator.
    pub(crate) fn is_of(&self, shared: &Arc<Shared<D>>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// Puts it into another place, of the same kind and size; the old one is returned as a value of its own.
    pub(crate) fn moved_to(&mut self, place: Place<D>) -> Self {
        let old = std::mem::replace(&mut *self.place, place);
        let Self { size, alignment_log2, class, is_mixed, location, user_data, .. } = *self;
        let (shared, place) = (Arc::clone(&self.shared), ManuallyDrop::new(old));
        Self { shared, place, size, alignment_log2, class, is_mixed, location, user_data }
    }

    /// Tells whoever looks for mistakes that it lies elsewhere than before.
    pub(crate) fn note_moved(&self, from: Option<Key>) {
        let (Some(debug), Some(from)) = (&self.shared.debug, from) else { return };
        let Some(to) = self.place.key(&self.shared) else { return };
        let (memory, host) = (self.place.shared_memory(&self.shared), self.base());
        debug.moved(&self.shared, from, MovedRange { to, memory, host, device_address: None });
    }

    fn into_parts(self) -> (Arc<Shared<D>>, Place<D>) {
        let mut held = ManuallyDrop::new(self);
        // SAFETY: `held` is never dropped nor used again, so that each part is taken exactly once.
        unsafe { (std::ptr::read(&held.shared), ManuallyDrop::take(&mut held.place)) }
    }
}

/// A place that several resources have in common.
pub(super) struct Common<D: Device> {
    pub(super) place: Place<D>,
    pub(super) size: u64,
}

impl<D: Device> Drop for Allocation<D> {
    fn drop(&mut self) {
        // SAFETY: a value is dropped once, and nothing reads the field afterwards.
        let place = unsafe { ManuallyDrop::take(&mut self.place) };
        self.shared.retire(None, place);
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

impl<D: Device> Allocator<D> {
    /// Memory for a requirement, without a resource: for one that the program makes and places itself, or for several
    /// that share its bytes ([`Allocation::create_aliasing_texture`]).
    ///
    /// The class of the requirements says what will lie in it; where that is not known, or several will, there is
    /// [`Allocator::allocate_mixed`]. Costs what [`Allocator::create_buffer`] costs less the driver's object.
    ///
    /// # Errors
    /// Size 0, an alignment that is not a power of two, no memory type, more than any heap has, no memory. Nothing has
    /// changed then.
    #[track_caller]
    #[inline]
    pub fn allocate(&self, needs: Requirements, desc: AllocationDesc<'_>) -> Result<Allocation<D>, Error> {
        let needs = desc.aligned(needs)?;
        if let Some(made) = Allocation::at_hand(self.shared(), &needs, &desc) {
            return Ok(made);
        }
        self.allocate_elsewhere(&needs, &desc)
    }

    #[track_caller]
    fn allocate_elsewhere(&self, needs: &Requirements, desc: &AllocationDesc<'_>) -> Result<Allocation<D>, Error> {
        if let Some(place) = self.shared().place_at_hand(needs, desc) {
            return Ok(Allocation::of_place(self.shared(), place, needs, desc));
        }
        let ask = self.ask(*needs, desc);
        let ((), place) = self.shared().search(&Bytes, &ask)?;
        Ok(Allocation::found(self.shared(), place, &ask, false))
    }

    /// As [`Allocator::allocate`], for resources of every class. Where the device wants buffers and textures apart, the
    /// range is aligned and rounded to that distance, so that whatever lies beside it keeps it.
    ///
    /// # Errors
    /// [`Error::MixedClasses`] on devices that never let classes share a memory object (Direct3D 12, heap tier 1); else
    /// as [`Allocator::allocate`].
    #[track_caller]
    pub fn allocate_mixed(&self, needs: Requirements, desc: AllocationDesc<'_>) -> Result<Allocation<D>, Error> {
        let mut needs = desc.aligned(needs)?;
        let capabilities = self.device().capabilities();
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
        Allocation::new(self.shared(), &Bytes, &self.ask(needs, &desc), true)
    }

    /// As [`Allocator::allocate`], for the resource `unplaced`, which the program places itself: if it gets memory of
    /// its own, the driver is told whose it is.
    ///
    /// # Errors
    /// As [`Allocator::allocate`].
    ///
    /// # Safety
    /// `unplaced` is this device's, alive, and not placed; `needs` are its requirements.
    #[track_caller]
    pub unsafe fn allocate_for<K>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        needs: Requirements,
        desc: AllocationDesc<'_>,
    ) -> Result<Allocation<D>, Error>
    where
        K: Kind,
        D: Create<K>,
    {
        let needs = desc.aligned(needs)?;
        Allocation::new(self.shared(), &BytesFor::<D, K>(unplaced, PhantomData), &self.ask(needs, &desc), false)
    }
}
