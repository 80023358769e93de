//! Atomics and cells of the lock-free structures: from `core`, or from the model checker `loom`.
//!
//! ```text
//!   fixed_pool, pool_chain, try_cell, thread_slot,
//!   spsc_queue, retire_bin, thread_cache,
//!   recycled, …                          ──▶ primitive ──┬─ core::sync::atomic    normal builds
//!                                                        └─ loom::sync::atomic    --cfg loom: tries all orders
//! ```
//!
//! Under `loom`, some constants are smaller, so that rare events (a full group, a used-up run of serial numbers) occur
//! within the few steps of a model. Only three kinds of code may use `core::sync::atomic` directly:
//!
//! - counters of the whole process, which a model must not reset;
//! - counters that order no other memory;
//! - tickets, because each change of their state is one atomic operation.

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

/// The cell of `core`, with the interface of `loom`'s cell.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// Creates a cell that contains `value`.
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

    /// Returns the value of the cell.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

/// Returns a constant: `in_model` under `loom`, `in_use` otherwise.
pub(crate) const fn shrunk(in_use: u32, in_model: u32) -> u32 {
    if cfg!(loom) { in_model } else { in_use }
}

/// Returns a constant: `in_model` under `loom` or miri, `in_use` otherwise. For code with models that also run under
/// miri.
#[cfg(feature = "std")]
pub(crate) const fn shrunk_under_miri_too(in_use: usize, in_model: usize) -> usize {
    if cfg!(any(loom, miri)) { in_model } else { in_use }
}

/// Executes a fence under `loom`, between a sequentially consistent write to one word and a sequentially consistent
/// access to another. Does nothing in normal builds.
///
/// The language orders such accesses without a fence. `loom` orders them only if there is a fence.
#[inline]
pub fn fence_in_model() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// Yields to another thread. Without the feature `std`, executes a spin hint instead. Called when this thread must wait
/// for another one.
pub fn yield_now() {
    #[cfg(all(feature = "std", not(loom)))]
    std::thread::yield_now();
    #[cfg(all(not(feature = "std"), not(loom)))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// A value that is aligned to two cache lines, because processors fetch lines in pairs. Two such values never share a
/// line.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(pub(crate) T);

/// Returns a number that is usually the same for all calls of a thread and usually differs between threads.
///
/// The number is an address in the thread's stack, in units of 64 KiB. It affects only speed.
pub(crate) fn thread_hint() -> usize {
    if cfg!(loom) {
        // A model must be reproducible, and the hardest case is that all threads have the same number.
        return 0;
    }
    let here = 0_u8;
    (&raw const here).addr() >> 16
}
