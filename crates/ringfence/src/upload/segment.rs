//! One buffer of a ring: from when it was made until the ring got a larger or smaller one, and its last user is gone.

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

/// A buffer that is divided, aligned for whatever its parts may be used for: with its name, and the line of the program
/// that it is made for.
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

/// A number for the bytes that a buffer is bound to. Other buffers may have the same; never 0.
pub(super) fn place_hash<D: Device>(buffer: &Buffer<D>) -> u32 {
    let memory = std::ptr::from_ref(buffer.memory()) as u64;
    let mixed = (memory ^ buffer.offset().rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32 | 1
}

/// How a ring was made, and what follows from it.
pub(super) struct Config<D: Device> {
    pub(super) name: String,
    /// The line of the program that made it.
    pub(super) at: &'static Line<'static>,
    pub(super) desc: UploadDesc<'static>,
    /// Whether pins stand only for as long as a copy takes. Those of results wait for the program to read them.
    pub(super) short_pins: bool,
    /// Makes what goes with each buffer: views of its slots.
    pub(super) pair: Option<Pair<D>>,
}

/// Makes what goes with a buffer, whose bytes are given, for as long as the buffer lives.
pub(super) type Pair<D> = Box<dyn Fn(&Buffer<D>, u64) -> Result<Paired, Error> + Send + Sync>;
/// What goes with a buffer; only its maker knows what it is.
pub(super) type Paired = Box<dyn Any + Send + Sync>;

impl<D: Device> Config<D> {
    pub(super) fn capacity_max(&self) -> u64 {
        match self.desc.when_full {
            WhenFull::Grow { capacity_max, .. } => capacity_max.max(self.desc.capacity),
            WhenFull::Wait { .. } | WhenFull::Fail => self.desc.capacity,
        }
    }
}

/// A buffer that a ring hands out, from when it was made until the ring got a larger or smaller one.
pub(crate) struct Segment<D: Device> {
    pub(crate) buffer: Buffer<D>,
    /// Which of the ring's buffers it is; each has a number above the one before it.
    pub(crate) generation: u64,
    /// The address of its first byte for shaders, where it was made to have one.
    pub(crate) address: Option<u64>,
    /// Goes with what is staged.
    pub(super) place_hash: u32,
    /// Which of its bytes may have been handed out again.
    pub(super) released: Released,
    /// Reservations start and end at multiples of this: the atom of flushes, where there is one.
    pub(super) atom: u64,
    /// What goes with it, if anything does.
    pub(super) paired: Option<Paired>,
}

impl<D: Device> Segment<D> {
    /// Makes its buffer: a driver call.
    pub(super) fn buffer(memory: &Allocator<D>, config: &Config<D>, capacity: u64) -> Result<Buffer<D>, Error> {
        let named = (&*config.name, config.at);
        divided_buffer(memory, capacity, config.desc.usage, config.desc.location, named)
    }

    /// Makes what goes with the buffer. That may be the program's code: no lock may be held.
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

/// Buffers that a ring has exchanged while frames were open, until those frames are complete. Tables of such a frame may
/// still be made or bound with views of the buffer, and a device may clear views of a buffer as soon as it is retired.
pub(super) struct Exchanged<D: Device>(Option<Box<Kept<D>>>);

/// A buffer that was exchanged.
pub(super) struct Kept<D: Device> {
    /// The frames that were open then.
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

    /// Notes which frames are complete. Says whether there is anything for [`Exchanged::take`].
    pub(super) fn note(&mut self, passed: &mut dyn FnMut(&SyncSet) -> bool) -> bool {
        let (mut kept, mut any) = (self.0.as_mut(), false);
        while let Some(one) = kept {
            one.are_over |= passed(&one.frames);
            any |= one.are_over;
            kept = one.next.as_mut();
        }
        any
    }

    /// Takes out one whose frames are complete, to be dropped without a lock.
    pub(super) fn take(&mut self) -> Option<Box<Kept<D>>> {
        let mut link = &mut self.0;
        while link.as_ref().is_some_and(|one| !one.are_over) {
            link = &mut link.as_mut().expect("it was there just now").next;
        }
        let mut taken = link.take()?;
        *link = taken.next.take();
        Some(taken)
    }
}
