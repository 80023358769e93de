//! Pins, which keep bytes of a ring from being reused while a host thread accesses them.
//!
//! ```text
//!   released        position of a thread's page
//!      ▼                   ▼
//!   ───┼───────────────────┼──────────────▶ positions       pins: [ free, 7168, free, 9216 ]
//!      │◀─ may be written ─┴─▶
//!
//!   writing thread                           releasing thread, under the lock
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
//! It is the protocol of hazard pointers (Michael, 2004), with ranges in place of nodes; `loom` tries its orders.
//!
//! | operation | cost |
//! |---|---|
//! | pin, look, unpin | two atomic stores and a load |
//! | claim | O(pins), under the ring's lock |
//! | release | O(pins) + O(1) an entry, under the ring's lock |

use std::ops::Deref;
use std::sync::Arc;

use ringfence_core::ring::Ring;

use ringfence_memory::extend::primitive::{AtomicBool, AtomicU64, Ordering, fence_in_model};

/// Everything before this position may have been handed out again.
pub(super) struct Released(AtomicU64);

impl Released {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(super) fn position(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Whether what begins at `position` is still its owner's. Sound only while a pin stands there.
    #[inline]
    pub(super) fn holds(&self, position: u64) -> bool {
        self.position() <= position
    }

    fn set(&self, position: u64) {
        self.0.store(position, Ordering::SeqCst);
        fence_in_model();
    }
}

/// Where the oldest bytes in use begin.
pub(super) fn tail<T>(ring: &Ring<T>, released: &Released) -> u64 {
    ring.iter().next().map_or(released.position(), |oldest| oldest.position)
}

/// Frees the oldest submissions, as long as they have `passed` and no thread writes their bytes. Says whether a thread
/// was in the way.
pub(super) fn release<T>(
    ring: &mut Ring<T>,
    released: &Released,
    pins: &Pins,
    passed: &mut dyn FnMut(&T) -> bool,
) -> bool {
    let passed = ring.iter().take_while(|oldest| passed(oldest.tag)).last();
    let Some(until) = passed.map(|last| last.position + last.size) else { return false };
    let mut reached = tail(ring, released);
    // Announced before the pins are looked at.
    released.set(until);
    let pinned = pins.first();
    while reached < until {
        let end = ring.iter().next().map(|oldest| oldest.position + oldest.size);
        let Some(end) = end.filter(|end| *end <= pinned) else { break };
        ring.release_oldest();
        reached = end;
    }
    if reached < until {
        released.set(reached);
    }
    reached < until
}

/// A host thread's word that it is writing (or will read) what begins at a position. On a cache line of its own.
#[repr(align(64))]
pub(super) struct Pin {
    position: AtomicU64,
    /// Whether a thread has it, standing or not.
    is_held: AtomicBool,
}

impl Pin {
    pub(super) const FREE: u64 = u64::MAX;

    #[inline]
    pub(super) fn set(&self, position: u64) {
        self.position.store(position, Ordering::SeqCst);
        fence_in_model();
    }

    /// Unpins. What was written before is visible to a thread that sees this.
    #[inline]
    pub(super) fn free(&self) {
        self.position.store(Self::FREE, Ordering::Release);
    }
}

/// Every pin of a ring. Pins are kept and used again: as many as threads ever wrote at once.
#[derive(Default)]
pub(super) struct Pins(Vec<Arc<Pin>>);

impl Pins {
    /// A pin that no other thread has, standing at `position`. O(pins); makes one only if all are taken.
    pub(super) fn claim(&mut self, position: u64) -> HeldPin {
        // Claimed only here, where `&mut` keeps others away. Its last owner has released it before: it does not
        // free what stands from here on.
        if let Some(pin) = self.0.iter().find(|pin| !pin.is_held.load(Ordering::Acquire)) {
            pin.is_held.store(true, Ordering::Relaxed);
            pin.set(position);
            return HeldPin(Arc::clone(pin));
        }
        let pin = Arc::new(Pin { position: AtomicU64::new(position), is_held: AtomicBool::new(true) });
        self.0.push(Arc::clone(&pin));
        HeldPin(pin)
    }

    /// The first position that is pinned; [`Pin::FREE`] if none is.
    pub(super) fn first(&self) -> u64 {
        self.0.iter().map(|pin| pin.position.load(Ordering::SeqCst)).min().unwrap_or(Pin::FREE)
    }
}

/// A pin of one's own for as long as this lives.
pub(super) struct HeldPin(Arc<Pin>);

impl Deref for HeldPin {
    type Target = Pin;

    #[inline]
    fn deref(&self) -> &Pin {
        &self.0
    }
}

impl Drop for HeldPin {
    fn drop(&mut self) {
        self.0.free();
        self.0.is_held.store(false, Ordering::Release);
    }
}

/// Unpins when it goes, also when a panic passes.
pub(super) struct Unpin<'a>(pub(super) &'a Pin);

impl Drop for Unpin<'_> {
    fn drop(&mut self) {
        self.0.free();
    }
}

#[cfg(all(test, loom))]
mod models;
