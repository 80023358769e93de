//! Atomics and cells of the lock-free structures: from `core`, or from the model checker `loom`.
//!
//! ```text
//!   fixed_pool, pool_chain, try_cell, thread_slot,
//!   spsc_queue, retire_bin, thread_cache,
//!   recycled                             ──▶ primitive ──┬─ core::sync::atomic    normal builds
//!                                                        └─ loom::sync::atomic    --cfg loom: tries all orders
//! ```
//!
//! Under `loom`, constants are smaller too, so rare events (a full group, a used-up run of serial numbers) occur
//! within the few steps of a model. Only these may name `core::sync::atomic` directly: process-wide counters, which a
//! model must not reset; counters that order no other memory; and tickets, which change in one exchange.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Mutex, MutexGuard},
};
#[cfg(all(feature = "std", not(loom)))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// `core`'s cell with `loom`'s interface.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// Like `core`'s `new`.
    pub const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    /// Calls `read` with a pointer for reading.
    #[inline]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Calls `write` with a pointer for writing.
    #[inline]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }

    /// Like `core`'s `into_inner`.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

/// Returns `in_use`; under `loom`, `in_model`.
pub(crate) const fn shrunk(in_use: u32, in_model: u32) -> u32 {
    if cfg!(loom) { in_model } else { in_use }
}

/// Returns `in_use`; under `loom` and miri, `in_model`. For code that models also run over real memory.
#[cfg(feature = "std")]
pub(crate) const fn shrunk_under_miri_too(in_use: usize, in_model: usize) -> usize {
    if cfg!(any(loom, miri)) { in_model } else { in_use }
}

/// A fence between two sequentially consistent accesses to different words, the first of them a write; only under
/// `loom`.
///
/// The language orders such accesses without a fence (on x86 without an extra instruction), but `loom` models that
/// order only for fences.
#[inline]
pub fn fence_in_model() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// Yields to another thread when this one cannot proceed. Without the feature `std`, it spins.
pub fn yield_now() {
    #[cfg(all(feature = "std", not(loom)))]
    std::thread::yield_now();
    #[cfg(all(not(feature = "std"), not(loom)))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Aligned to two cache lines, which processors fetch as a pair: two such values are never falsely shared.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

/// Returns a number that is usually the same for all calls of a thread and usually differs between threads.
///
/// It is the address of the thread's stack in units of 64 KiB. It only affects speed.
pub(crate) fn thread_hint() -> usize {
    if cfg!(loom) {
        // A model must be reproducible, and one shared cursor for all threads is the hardest case.
        return 0;
    }
    let here = 0_u8;
    (&raw const here).addr() >> 16
}
