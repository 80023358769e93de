//! One buffer of a ring, and the pins that keep its bytes from being handed out again under a host thread's hands.
//!
//! ```text
//!   released        position of a thread's page
//!      ▼                   ▼
//!   ───┼───────────────────┼──────────────▶ positions       pins: [ free, 7168, free, 9216 ]
//!      │◀─ may be written ─┴─▶
//!
//!   thread                                   whoever releases, under the lock
//!   1  pin := position                       1  released := end of what has passed
//!   2  released > position? then unpin,      2  some pin below that? then released := back to where it was,
//!      the page is gone                         and those bytes stay
//!   3  write, flush
//!   4  pin := free
//! ```
//!
//! Both first steps come before both second ones in the one order of all sequentially consistent operations, or the
//! other way round; either way one of the two sees the other. So a program that submits a frame while one of its
//! threads still writes for it gets wrong bytes on the device, or an error, but two threads never write the same bytes.
//! It is the protocol of hazard pointers (Michael, 2004), with ranges in place of nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::state::{Config, Paired};
use crate::device::{BufferDesc, Buffers, Create, Device};
use crate::error::Error;
use crate::memory::Allocator;
use crate::resource::{AllocationDesc, Buffer};

/// A buffer that a ring hands out, from when it was made until the ring got a larger or smaller one.
pub(crate) struct Segment<D: Device> {
    pub(crate) buffer: Buffer<D>,
    /// Which of the ring's buffers it is; each has a number above the one before it.
    pub(crate) generation: u64,
    /// The address of its first byte for shaders, where it was made to have one.
    pub(crate) address: Option<u64>,
    /// Everything before this position may have been handed out again.
    released: AtomicU64,
    /// Leases start and end at multiples of this: the atom of flushes, where there is one.
    pub(super) atom: u64,
    /// What goes with it, if anything does.
    pub(super) paired: Option<Paired>,
}

impl<D: Device> Segment<D> {
    /// Makes the buffer. A driver call: no lock may be held that a write needs.
    pub(super) fn make(
        memory: &Allocator<D>,
        config: &Config<D>,
        capacity: u64,
        generation: u64,
    ) -> Result<Self, Error> {
        let device = memory.device();
        let info = Create::<Buffers>::describe(device, &BufferDesc { size: capacity, usage: config.desc.usage })?;
        let location = config.desc.location;
        let desc = AllocationDesc { name: &config.name, location, ..Default::default() };
        let buffer = memory.create_buffer(&info, desc)?;
        let capabilities = device.capabilities();
        let atomic = capabilities.is_non_coherent(buffer.memory_type());
        let atom = if atomic { capabilities.non_coherent_atom_bytes } else { 1 };
        let address = buffer.device_address();
        let paired = config.pair.as_ref().map(|pair| pair(&buffer, capacity)).transpose()?;
        Ok(Self { buffer, generation, address, released: AtomicU64::new(0), atom, paired })
    }

    pub(super) fn released(&self) -> u64 {
        self.released.load(Ordering::SeqCst)
    }

    /// Whether what begins at `position` is still its owner's. Sound only while a pin stands there.
    pub(super) fn holds(&self, position: u64) -> bool {
        self.released.load(Ordering::SeqCst) <= position
    }

    pub(super) fn set_released(&self, position: u64) {
        self.released.store(position, Ordering::SeqCst);
    }
}

/// A host thread's word that it is writing (or will read) what begins at a position. On a cache line of its own.
#[repr(align(64))]
pub(super) struct Pin(AtomicU64);

impl Pin {
    pub(super) const FREE: u64 = u64::MAX;

    pub(super) fn new(position: u64) -> Self {
        Self(AtomicU64::new(position))
    }

    pub(super) fn set(&self, position: u64) {
        self.0.store(position, Ordering::SeqCst);
    }

    /// Unpins. What was written before is seen by whoever sees this.
    pub(super) fn free(&self) {
        self.0.store(Self::FREE, Ordering::Release);
    }

    pub(super) fn position(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Every pin of a ring. Pins are kept and used again: as many as threads ever wrote at once.
#[derive(Default)]
pub(super) struct Pins(Vec<Arc<Pin>>);

impl Pins {
    /// A pin that nobody else has, standing at `position`. O(pins); makes one only if all are taken.
    pub(super) fn claim(&mut self, position: u64) -> Arc<Pin> {
        // Clones are made only here, where `&mut` keeps others away: a count of one stays one.
        if let Some(pin) = self.0.iter().find(|pin| Arc::strong_count(pin) == 1) {
            pin.set(position);
            return Arc::clone(pin);
        }
        let pin = Arc::new(Pin::new(position));
        self.0.push(Arc::clone(&pin));
        pin
    }

    /// The first position that is pinned; [`Pin::FREE`] if none is.
    pub(super) fn first(&self) -> u64 {
        self.0.iter().map(|pin| pin.position()).min().unwrap_or(Pin::FREE)
    }
}

/// A pin of one's own for as long as this lives.
pub(super) struct HeldPin(pub(super) Arc<Pin>);

impl Drop for HeldPin {
    fn drop(&mut self) {
        self.0.free();
    }
}

/// Unpins when it goes, also when a panic passes.
pub(super) struct Unpin<'a>(pub(super) &'a Pin);

impl Drop for Unpin<'_> {
    fn drop(&mut self) {
        self.0.free();
    }
}
