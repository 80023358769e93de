//! One buffer of a ring, from its creation until the ring has replaced it and nothing uses it.

use std::any::Any;
use std::panic::Location as Line;
use std::sync::Arc;

use ringfence_core::sync::SyncSet;

use super::{UploadDesc, WhenFull};
use crate::device::{BufferDesc, BufferUsage, Buffers, Create, Device};
use ringfence_lockfree::pin::Released;
use ringfence_memory::extend::{create_buffer_at, shared_alignment};
use ringfence_memory::memory::Location;
use ringfence_memory::{AllocationDesc, Allocator, Buffer, Error, Resource, ResourceKind};

/// Creates a buffer that the library divides into parts. Its alignment suits each part, for every usage. The last
/// argument is the name of the buffer, and the line of the program that reports give as its origin.
pub(super) fn divided_buffer<D: Device>(
    memory: &Allocator<D>,
    size: u64,
    usage: BufferUsage,
    location: Location,
    (name, at): (&str, &'static Line<'static>),
) -> Result<Buffer<D>, Error> {
    let device = memory.device();
    let info = Create::<Buffers>::describe(device, &BufferDesc { size, usage })?;
    let has_address = Create::<Buffers>::has_address(device, &info);
    let alignment = shared_alignment(device.capabilities(), usage, size, has_address);
    create_buffer_at(memory, &info, AllocationDesc { name, location, alignment, ..Default::default() }, at)
}

/// Returns a hash of the memory and of the offset that a resource is bound to. Two resources may have the same hash.
/// Never 0.
pub(super) fn place_hash<D: Create<K> + Device, K: ResourceKind>(resource: &Resource<D, K>) -> u32 {
    let memory = std::ptr::from_ref(resource.memory()) as u64;
    let mixed = (memory ^ resource.offset().rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32 | 1
}

/// Configuration of a ring.
pub(super) struct Config<D: Device> {
    pub(super) name: String,
    /// The line of the program that created the ring, for reports.
    pub(super) at: &'static Line<'static>,
    pub(super) desc: UploadDesc<'static>,
    /// `true` if a thread pins bytes ([`ringfence_lockfree::pin`]) only while it copies; `false` for a readback ring,
    /// where the bytes of a result are pinned until the result is dropped.
    pub(super) short_pins: bool,
    /// Creates the companion of each buffer (the views of its slots), if the ring has companions.
    pub(super) pair: Option<Pair<D>>,
}

/// Function that creates the companion of a buffer, given the size of the buffer in bytes. The companion lives as long
/// as the buffer.
pub(super) type Pair<D> = Box<dyn Fn(&Buffer<D>, u64) -> Result<Paired, Error> + Send + Sync>;
/// Companion of a buffer. Only the code that created it knows its type.
pub(super) type Paired = Box<dyn Any + Send + Sync>;

impl<D: Device> Config<D> {
    pub(super) fn capacity_max(&self) -> u64 {
        match self.desc.when_full {
            WhenFull::Grow { capacity_max, .. } => capacity_max.max(self.desc.capacity),
            WhenFull::Wait { .. } | WhenFull::Fail => self.desc.capacity,
        }
    }
}

/// One buffer of a ring. After the ring has replaced the buffer with a larger or smaller one, the segment lives until
/// the frames that were open then are complete and no thread uses the segment.
pub(crate) struct Segment<D: Device> {
    pub(crate) buffer: Buffer<D>,
    /// Number of the buffer in its ring: 0 for the first one, and 1 more at each replacement.
    pub(crate) generation: u64,
    /// Device address of the first byte, if the buffer has one.
    pub(crate) address: Option<u64>,
    /// Description of the buffer, for `Staged`.
    pub(super) desc: BufferDesc,
    /// [`place_hash`] of the buffer, for `Staged`.
    pub(super) place_hash: u32,
    /// Position below which bytes may have been handed out again.
    pub(super) released: Released,
    /// Reservations start and end at multiples of this number of bytes: the `nonCoherentAtomSize`, or 1 if the memory
    /// is coherent.
    pub(super) atom: u64,
    /// The buffer's companion (the views of its slots), made by [`Config::pair`]; `None` if the ring has no such
    /// function.
    pub(super) paired: Option<Paired>,
}

impl<D: Device> Segment<D> {
    /// Creates the buffer of a segment.
    pub(super) fn buffer(memory: &Allocator<D>, config: &Config<D>, capacity: u64) -> Result<Buffer<D>, Error> {
        let named = (&*config.name, config.at);
        divided_buffer(memory, capacity, config.desc.usage, config.desc.location, named)
    }

    /// Creates a segment of the buffer, with the buffer's companion. May call the program's code, so the caller must
    /// hold no lock.
    pub(super) fn around(
        buffer: Buffer<D>,
        memory: &Allocator<D>,
        config: &Config<D>,
        capacity: u64,
        generation: u64,
    ) -> Result<Self, Error> {
        let capabilities = memory.device().capabilities();
        let atomic = capabilities.is_non_coherent(buffer.memory_type());
        let atom = if atomic { capabilities.non_coherent_atom_bytes } else { 1 };
        let address = buffer.device_address();
        let desc = BufferDesc { size: capacity, usage: config.desc.usage };
        let place_hash = place_hash(&buffer);
        let paired = config.pair.as_ref().map(|pair| pair(&buffer, capacity)).transpose()?;
        Ok(Self { buffer, generation, address, desc, place_hash, released: Released::new(), atom, paired })
    }
}

/// Replaced buffers. Each is kept until the frames that were open at its replacement are complete. Until then, the
/// program may create or bind tables with views of the buffer, and descriptor heaps may clear these views as soon as
/// the buffer is retired.
pub(super) struct Exchanged<D: Device>(Option<Box<Kept<D>>>);

/// A replaced buffer: an element of a linked list.
pub(super) struct Kept<D: Device> {
    /// The frames that were open at the replacement.
    frames: SyncSet,
    are_over: bool,
    _segment: Arc<Segment<D>>,
    next: Option<Box<Self>>,
}

impl<D: Device> Kept<D> {
    pub(super) fn new(frames: SyncSet, segment: Arc<Segment<D>>) -> Box<Self> {
        Box::new(Self { frames, are_over: false, _segment: segment, next: None })
    }
}

impl<D: Device> Exchanged<D> {
    pub(super) const fn new() -> Self {
        Self(None)
    }

    pub(super) fn add(&mut self, mut kept: Box<Kept<D>>) {
        kept.next = self.0.take();
        self.0 = Some(kept);
    }

    /// Marks the buffers whose frames are complete. Returns `true` if [`Exchanged::take`] would return a buffer.
    pub(super) fn note(&mut self, passed: &mut dyn FnMut(&SyncSet) -> bool) -> bool {
        let (mut kept, mut any) = (self.0.as_mut(), false);
        while let Some(one) = kept {
            one.are_over |= passed(&one.frames);
            any |= one.are_over;
            kept = one.next.as_mut();
        }
        any
    }

    /// Takes out a buffer whose frames are complete. The caller drops it without a lock.
    pub(super) fn take(&mut self) -> Option<Box<Kept<D>>> {
        let mut link = &mut self.0;
        while link.as_ref().is_some_and(|one| !one.are_over) {
            link = &mut link.as_mut().expect("the loop condition found one").next;
        }
        let mut taken = link.take()?;
        *link = taken.next.take();
        Some(taken)
    }
}
