//! Pins: a host thread sets a pin while it accesses bytes of a ring, so that these bytes are not reused.
//!
//! ```text
//!   released        position of a thread's page
//!      ▼                   ▼
//!   ───┼───────────────────┼──────────────▶ positions       pins: [ free, 7168, free, 9216 ]
//!      │◀─ may be written ─┴─▶
//!
//!   writing thread                           releasing thread, under the lock
//!   1  pin := position                       1  released := end of the submissions that are complete
//!   2  released > position? then unpin:      2  a pin below that? then released := start of the pinned
//!      the page was released                    submission, whose bytes remain in use
//!   3  write, flush
//!   4  pin := free
//! ```
//!
//! All four accesses of steps 1 and 2 are sequentially consistent, so at least one of the two threads sees the other's
//! step 1. If a program submits a frame while one of its threads still writes data of the frame, the device can read
//! wrong bytes, or the thread gets an error. But two threads never write to the same bytes. This is the protocol of
//! hazard pointers (Michael, 2004), with ranges instead of nodes; `loom` checks it.
//!
//! | operation | cost |
//! |---|---|
//! | set, check `released`, clear | two atomic stores and a load |
//! | claim | O(pins), under the ring's lock |
//! | release | O(pins), plus O(1) per complete submission, under the ring's lock |

use core::ops::Deref;
use std::sync::Arc;
use std::vec::Vec;

use crate::primitive::{AtomicBool, AtomicU64, Ordering, fence_in_model};
use ringfence_core::ring::Ring;

/// The position in a ring below which all bytes are released, so that they may have been allocated again.
#[derive(Debug, Default)]
pub struct Released(AtomicU64);

impl Released {
    /// Creates the position 0: no byte is released.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns the position.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Returns `true` if the bytes that begin at `position` are not released. The caller must have set a pin at
    /// `position` before the call. The result is valid until the pin is cleared.
    #[inline]
    #[must_use]
    pub fn holds(&self, position: u64) -> bool {
        self.position() <= position
    }

    fn set(&self, position: u64) {
        self.0.store(position, Ordering::SeqCst);
        fence_in_model();
    }
}

/// Returns the position of the oldest bytes in use. If no bytes are in use, returns the released position.
#[must_use]
pub fn tail<T>(ring: &Ring<T>, released: &Released) -> u64 {
    ring.iter().next().map_or(released.position(), |oldest| oldest.position)
}

/// Releases the oldest submissions that are complete, up to the first submission with a pin. `passed` returns `true`
/// for the tag of a complete submission. Returns `true` if a pin prevented the release of such a submission.
pub fn release<T>(ring: &mut Ring<T>, released: &Released, pins: &Pins, passed: &mut dyn FnMut(&T) -> bool) -> bool {
    let passed = ring.iter().take_while(|oldest| passed(oldest.tag)).last();
    let Some(until) = passed.map(|last| last.position + last.size) else { return false };
    let mut reached = tail(ring, released);
    // Written before the pins are read (step 1).
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

/// A pin: the position of the bytes that a host thread is accessing. It is on its own cache line.
#[derive(Debug)]
#[repr(align(64))]
pub struct Pin {
    position: AtomicU64,
    /// `true` while a thread owns the pin. The pin need not be set then.
    is_held: AtomicBool,
}

impl Pin {
    /// Position of a pin that is not set.
    pub const FREE: u64 = u64::MAX;

    /// Sets the pin. The caller must check [`Released::holds`] afterwards, before it accesses the bytes.
    #[inline]
    pub fn set(&self, position: u64) {
        self.position.store(position, Ordering::SeqCst);
        fence_in_model();
    }

    /// Clears the pin. A thread that sees the cleared pin also sees all earlier writes of this thread.
    #[inline]
    pub fn free(&self) {
        self.position.store(Self::FREE, Ordering::Release);
    }
}

/// All pins of a ring. Pins are reused, so their number is the largest number of pins that were owned at the same time.
#[derive(Debug, Default)]
pub struct Pins(Vec<Arc<Pin>>);

impl Pins {
    /// Returns a pin that no other thread owns, and sets it to `position`. O(pins). Allocates host memory only if all
    /// pins are owned.
    pub fn claim(&mut self, position: u64) -> HeldPin {
        // Only this function changes the owner of a pin, and `&mut` excludes other threads. The previous owner has
        // already cleared the pin, so it does not clear the new position.
        if let Some(pin) = self.0.iter().find(|pin| !pin.is_held.load(Ordering::Acquire)) {
            pin.is_held.store(true, Ordering::Relaxed);
            pin.set(position);
            return HeldPin(Arc::clone(pin));
        }
        let pin = Arc::new(Pin { position: AtomicU64::new(position), is_held: AtomicBool::new(true) });
        self.0.push(Arc::clone(&pin));
        HeldPin(pin)
    }

    /// Returns the lowest pinned position. If no pin is set, returns [`Pin::FREE`].
    #[must_use]
    pub fn first(&self) -> u64 {
        self.0.iter().map(|pin| pin.position.load(Ordering::SeqCst)).min().unwrap_or(Pin::FREE)
    }
}

/// A pin that one thread owns until this value is dropped.
#[derive(Debug)]
pub struct HeldPin(Arc<Pin>);

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

/// Clears a pin when it is dropped, also during a panic.
#[derive(Debug)]
pub struct Unpin<'a>(pub &'a Pin);

impl Drop for Unpin<'_> {
    fn drop(&mut self) {
        self.0.free();
    }
}

#[cfg(all(test, loom))]
#[allow(unsafe_code, reason = "the bytes of the ring are `loom` cells")]
mod models;
