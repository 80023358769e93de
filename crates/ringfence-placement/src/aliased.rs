//! Aliased memory of textures: locations of the kind [`HeapAliased`](super::LocationKind::HeapAliased).
//!
//! ```text
//!   heap   │────────── gbuffer ──────────│── depth ──│
//!          │── blur ──│── bloom ──│                       the same bytes, in another pass
//! ```
//!
//! The caller chooses the offset of each texture. The caller must ensure that uses of overlapping textures do not
//! overlap in time and have a barrier between them; otherwise their contents are undefined. The host never accesses
//! this memory, so wrong texels are the only consequence. A texture's object is released like any other. The memory is
//! freed after the heap and its last texture are released.

use std::fmt;
use std::mem::ManuallyDrop;
use std::panic;
use std::sync::Arc;

use super::desc::{Route, TextureKind};
use super::location::TextureLocation;
use crate::device::{Create, Device, DeviceError, Numbers, Requirements, TextureDesc, Textures};
use ringfence_memory::extend::{Backing, Place, Shared};
use ringfence_memory::memory::Location;
use ringfence_memory::{AllocationDesc, Error, Resource};

/// Minimum alignment of every aliased heap, in bytes: enough for multisampled targets on Direct3D 12.
const ALIGNMENT: u64 = 4 << 20;

/// A heap of aliased memory for textures. The caller must ensure that uses of overlapping textures do not overlap in
/// time and have a barrier between them; otherwise their contents are undefined.
pub struct AliasedHeap<D: Device> {
    shared: Arc<Shared<D>>,
    /// The heap's own reference to its memory. Taken on drop.
    whole: ManuallyDrop<Arc<Place<D>>>,
    arena: u32,
    bytes: u64,
}

impl<D: Device> AliasedHeap<D> {
    #[track_caller]
    pub(super) fn new(shared: &Arc<Shared<D>>, like: &TextureDesc, bytes: u64, name: &str) -> Result<Self, Error> {
        shared.check_lost()?;
        let info = Create::<Textures>::describe(&shared.device, like)?;
        let needs = shared.measure::<Textures>(&info)?;
        DeviceError::invalid("a heap has too few bytes").at_least(bytes, 1)?;
        let none = Error::NoMemoryType { location: Location::Device, memory_type_bits: needs.memory_type_bits };
        let types = || shared.candidates(Location::Device, needs.memory_type_bits);
        let holds = |memory_type: &u32| shared.device.capabilities().object_bytes_max(*memory_type);
        let max = types().map(|memory_type| holds(&memory_type)).max().ok_or(none)?;
        let too_large = Error::TooLarge { size: bytes, max };
        let memory_type = types().find(|memory_type| bytes <= holds(memory_type)).ok_or(too_large)?;
        let arena = shared.arena_index(memory_type, needs.class);
        let backing =
            shared.make_heap(arena, bytes, ALIGNMENT.max(needs.alignment), name, panic::Location::caller())?;
        let Backing::Heap { memory, number, .. } = backing else { unreachable!("a heap was requested") };
        shared.device.note_aliasing(&memory.object, 0, bytes, true);
        let whole = ManuallyDrop::new(Arc::new(Place::heap(memory, arena, number)));
        Ok(Self { shared: Arc::clone(shared), whole, arena, bytes })
    }

    /// Returns the size of the heap, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Creates a texture at `offset`, in bytes. The texture may overlap other textures of the heap. Its initial
    /// contents are undefined.
    ///
    /// # Errors
    /// The texture does not fit the heap (size, alignment, memory type or class), or the driver refuses the texture.
    /// After an error, the heap is unchanged.
    pub fn create_texture(&self, desc: &TextureDesc, offset: u64, name: &str) -> Result<TextureLocation<D>, Error> {
        let shared = &self.shared;
        shared.check_lost()?;
        let info = Create::<Textures>::describe(&shared.device, desc)?;
        let allocation = AllocationDesc { name, location: Location::Device, ..Default::default() };
        // SAFETY: the returned object was placed here. The heap has its memory type and class, and the range is inside
        // the heap and aligned.
        let ((placed, place), needs) = unsafe {
            shared.create_with::<Textures>(&info, allocation, |unplaced, needs| {
                self.check(needs, offset)?;
                Ok(shared.place_at::<Textures>(unplaced, Place::aliased(&self.whole, offset))?)
            })
        }?;
        // SAFETY: the object was just created from `info`, which describes `desc`, and bound to the suballocation.
        let texture = unsafe {
            Resource::new(Arc::clone(shared), placed, place, needs.size, Location::Device)
                .made_as(&info)
                .described(*desc)
        };
        Ok(TextureLocation { texture, texture_kind: TextureKind::of(desc), route: Route::Aliased })
    }

    fn check(&self, needs: Requirements, offset: u64) -> Result<(), Error> {
        // SAFETY: the heap belongs to this allocator and outlives this call.
        let memory_type = unsafe { self.shared.memory_under(&self.whole) }.memory_type;
        if needs.memory_type_bits & (1 << memory_type) == 0 {
            return Err(Error::WrongMemoryType { memory_type, memory_type_bits: needs.memory_type_bits });
        }
        DeviceError::invalid("the heap has another resource class than the texture (numbers of the arenas)")
            .exactly(self.shared.arena_index(memory_type, needs.class).into(), self.arena.into())?;
        if needs.requires_dedicated {
            let size = Numbers::Given(needs.size);
            return Err(DeviceError::invalid("the texture requires dedicated memory").with(size).into());
        }
        DeviceError::invalid("the offset breaks the alignment of the texture").multiple_of(offset, needs.alignment)?;
        match offset.checked_add(needs.size) {
            Some(end) if end <= self.bytes => Ok(()),
            end => Err(Error::TooLarge { size: end.unwrap_or(u64::MAX), max: self.bytes }),
        }
    }
}

impl<D: Device> Drop for AliasedHeap<D> {
    /// Releases the heap's own reference; the last reference, of the heap or a texture, frees the memory.
    fn drop(&mut self) {
        // SAFETY: the field is taken once, here, and not used again.
        let whole = unsafe { ManuallyDrop::take(&mut self.whole) };
        // SAFETY: this is the heap's own reference to its memory; the last reference frees it.
        unsafe { self.shared.retire(None, Place::share_of(whole)) };
    }
}

impl<D: Device> fmt::Debug for AliasedHeap<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AliasedHeap({} bytes)", self.bytes)
    }
}
