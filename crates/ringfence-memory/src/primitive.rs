//! The one seam between the lock-free parts and what runs them: the processor, or `loom`.
//!
//! ```text
//!   upload::pin, memory::cells::thread cache,
//!   timeline::{try_cell, thread slot, queue, bin} ──▶ primitive ──┬─ std, parking_lot      as built for use
//!                                                                   └─ loom                  --cfg loom: the models
//! ```
//!
//! What threads share without a lock, and how it is known to be right:
//!
//! | part | what it is | shown by |
//! |---|---|---|
//! | `upload::pin` | pins and what is released: hazard pointers over ranges | models |
//! | `timeline::try_cell` | a flag that gives one thread the value | models |
//! | `timeline::thread_slot` | a number that one thread has at a time | models |
//! | `timeline::queue` | chunks of items, from one thread that puts in to one that takes out | models |
//! | `timeline::bin` | a pair of such queues for each thread slot; a cell for the thread that takes out; what is gone, for readers | models |
//! | `timeline` | turn and begun values: what a release waits for; closes: whether a frame is open | models |
//! | cells of small allocations | `ringfence_core::pool_chain` | the core's own models |
//! | `memory::cells::thread_cache` | cells cached, and what keeps the allocator alive for their next owners, in such cells | models |
//! | `descriptor::thread_cache` | slots cached, each of which keeps its heap, in such cells | models of its end |
//! | memory objects, kinds of bound heaps | a count or bits that one read-modify-write changes | exact by itself |
//! | figures: calls, bytes, waits, uses of budgets | relaxed counters: they order nothing, nothing is decided by their order | – |
//! | closed, gone, lost, stop, on | flags that are set once, or under a lock, and only say that less is to be done | – |
//! | generations of a ring's buffers, demand of a class, wanted blocks | hints: who reads an old one does more work, not other work | – |
//!
//! Locks are in the seam only where a model runs through them.

#[cfg(not(loom))]
pub use parking_lot::{Mutex, RwLock};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering},
};

/// `std`'s cell with `loom`'s interface.
#[cfg(not(loom))]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// As `std`'s.
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Gives a pointer to read by.
    #[inline]
    pub fn with<R>(&self, look: impl FnOnce(*const T) -> R) -> R {
        look(self.0.get())
    }

    /// Gives a pointer to write by.
    #[inline]
    pub fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
        change(self.0.get())
    }
}

/// `in_use` as built for use, `in_model` under `loom` and miri: so that rare turns come within the steps that a model can afford.
pub const fn shrunk(in_use: u64, in_model: u64) -> u64 {
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

/// Has another thread run, where this one cannot go on.
pub fn yield_now() {
    #[cfg(not(loom))]
    std::thread::yield_now();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// `loom`'s locks with `parking_lot`'s interface.
#[cfg(loom)]
mod locks {
    use loom::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("no thread of a model panics")
        }
    }

    pub struct RwLock<T>(loom::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub fn new(value: T) -> Self {
            Self(loom::sync::RwLock::new(value))
        }

        pub fn read_recursive(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().expect("no thread of a model panics")
        }

        pub fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().expect("no thread of a model panics")
        }
    }
}

#[cfg(loom)]
pub use locks::{Mutex, RwLock};
