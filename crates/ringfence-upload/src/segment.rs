//! One buffer of a ring, from its creation until the ring has exchanged it and no user is left.

use std::any::Any;
use std::panic::Location as Line;
use std::sync::Arc;

use ringfence_core::sync::SyncSet;

use super::{UploadDesc, WhenFull};
use crate::device::{BufferDesc, BufferUsage, Buffers, Create, Device};
use ringfence_lockfree::pin::Released;
use ringfence_memory::extend::{create_buffer_at, shared_alignment};
use ringfence_memory::memory::Location;
use ringfence_memory::{AllocationDesc, Allocator, Buffer, Error};

/// Creates a buffer that is divided into parts, with an alignment that fits every usage of a part. Takes its name and
/// the line of the program for reports.
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

/// Returns a hash of the memory that a buffer is bound to. Two buffers may have the same hash. Never 0.
pub(super) fn place_hash<D: Device>(buffer: &Buffer<D>) -> u32 {
    let memory = std::ptr::from_ref(buffer.memory()) as u64;
    let mixed = (memory ^ buffer.offset().rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32 | 1
}

/// Configuration of a ring.
pub(super) struct Config<D: Device> {
    pub(super) name: String,
    /// The line of the program that created it.
    pub(super) at: &'static Line<'static>,
    pub(super) desc: UploadDesc<'static>,
    /// `true` if a pin is set only during a copy; `false` for readback, where it is set until the result is dropped.
    pub(super) short_pins: bool,
    /// Creates the companion of each buffer: views of its slots.
    pub(super) pair: Option<Pair<D>>,
}

/// Creates the companion of a buffer with the given bytes. It lives as long as the buffer.
pub(super) type Pair<D> = Box<dyn Fn(&Buffer<D>, u64) -> Result<Paired, Error> + Send + Sync>;
/// Companion of a buffer. Its type is known to its maker only.
pub(super) type Paired = Box<dyn Any + Send + Sync>;

impl<D: Device> Config<D> {
    pub(super) fn capacity_max(&self) -> u64 {
        match self.desc.when_full {
            WhenFull::Grow { capacity_max, .. } => capacity_max.max(self.desc.capacity),
            WhenFull::Wait { .. } | WhenFull::Fail => self.desc.capacity,
        }
    }
}

/// One buffer of a ring, from its creation until the ring exchanges it for a larger or smaller one.
pub(crate) struct Segment<D: Device> {
    pub(crate) buffer: Buffer<D>,
    /// Generation of the buffer: higher than that of each earlier buffer of the ring.
    pub(crate) generation: u64,
    /// Device address of the first byte, if the buffer has one.
    pub(crate) address: Option<u64>,
    /// Hash of the buffer's memory, for `Staged`.
    pub(super) place_hash: u32,
    /// The positions that may have been handed out again.
    pub(super) released: Released,
    /// Reservations start and end at multiples of this: the `nonCoherentAtomSize`, or 1 for coherent memory.
    pub(super) atom: u64,
    /// The buffer's companion, if the ring has a `pair`.
    pub(super) paired: Option<Paired>,
}

impl<D: Device> Segment<D> {
    /// Creates the buffer of a segment. One driver call.
    pub(super) fn buffer(memory: &Allocator<D>, config: &Config<D>, capacity: u64) -> Result<Buffer<D>, Error> {
        let named = (&*config.name, config.at);
        divided_buffer(memory, capacity, config.desc.usage, config.desc.location, named)
    }

    /// Creates the buffer's companion. That may call the program's code, so the caller must hold no lock.
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
        let place_hash = place_hash(&buffer);
        let paired = config.pair.as_ref().map(|pair| pair(&buffer, capacity)).transpose()?;
        Ok(Self { buffer, generation, address, place_hash, released: Released::new(), atom, paired })
    }
}

/// Buffers that the ring exchanged while frames were open, until those frames are complete. Tables of such a frame may
/// still be created or bound with views of the buffer, and a device may clear views of a buffer as soon as it is
/// retired.
pub(super) struct Exchanged<D: Device>(Option<Box<Kept<D>>>);

/// A buffer that was exchanged.
pub(super) struct Kept<D: Device> {
    /// The frames that were open at the exchange.
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
