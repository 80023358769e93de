//! The one seam between the lock-free structures and what runs them: the processor, or `loom`.
//!
//! ```text
//!   fixed_pool, pool_chain, try_cell, thread_slot,
//!   spsc_queue, retire_bin, thread_cache,
//!   recycled                             ──▶ primitive ──┬─ core::sync::atomic    as built for use
//!                                                        └─ loom::sync::atomic    --cfg loom: every interleaving is tried
//! ```
//!
//! Under `loom` constants shrink too, so that rare turns (a full group, a run of serial numbers at its end) come
//! within the few steps that a model can afford. Nothing else in the crate may name `core::sync::atomic`, but for
//! process-wide counters, which a model must not reset, counters that order nothing, and tickets, which one exchange
//! changes.

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
    /// As `core`'s.
    pub const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    /// Gives a pointer to read by.
    #[inline]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Gives a pointer to write by.
    #[inline]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }

    /// As `core`'s.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

/// `in_use` as built for use, `in_model` under `loom`.
pub(crate) const fn shrunk(in_use: u32, in_model: u32) -> u32 {
    if cfg!(loom) { in_model } else { in_use }
}

/// `in_use` as built for use, `in_model` under `loom` and miri: for what models run over real memory too.
#[cfg(feature = "std")]
pub(crate) const fn shrunk_under_miri_too(in_use: usize, in_model: usize) -> usize {
    if cfg!(any(loom, miri)) { in_model } else { in_use }
}

/// Stands between two sequentially consistent accesses to different words, the first of them a write.
///
/// The language orders these by themselves, on x86 without an instruction more; but `loom` knows such an order of
/// fences alone. So it gets one, and what is built for use gets none.
#[inline]
pub fn fence_in_model() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// Has another thread run, where this one cannot go on. Without the feature `std` it spins.
pub fn yield_now() {
    #[cfg(all(feature = "std", not(loom)))]
    std::thread::yield_now();
    #[cfg(all(not(feature = "std"), not(loom)))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Two cache lines, which processors fetch as a pair: what lies in different ones is never falsely shared.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

/// A number that is the same for a thread's calls, mostly, and differs between threads, mostly: for spreading them.
///
/// It is where the thread's stack is, to 64 KiB. Nothing but speed depends on it.
pub(crate) fn thread_hint() -> usize {
    if cfg!(loom) {
        // A model must do the same each time; and all threads in one place is its hardest case.
        return 0;
    }
    let here = 0_u8;
    (&raw const here).addr() >> 16
}
