//! The one seam between the lock-free structures and what runs them: the processor, or `loom`.
//!
//! ```text
//!   fixed_pool, pool_chain ──▶ primitive ──┬─ core::sync::atomic            as built for use
//!                                          └─ loom::sync::atomic            --cfg loom: every interleaving is tried
//! ```
//!
//! Under `loom` constants shrink too, so that rare turns (a full group, a run of serial numbers at its end) come
//! within the few steps that a model can afford. Nothing else in the crate may name `core::sync::atomic`, but for
//! process-wide counters, which a model must not reset.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering},
};

/// `core`'s cell with `loom`'s interface.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

/// `in_use` as built for use, `in_model` under `loom`.
pub(crate) const fn shrunk(in_use: u32, in_model: u32) -> u32 {
    if cfg!(loom) { in_model } else { in_use }
}

/// Stands between two sequentially consistent accesses to different words, the first of them a write.
///
/// The language orders these by themselves, on x86 without an instruction more; but `loom` knows such an order of
/// fences alone. So it gets one, and what is built for use gets none.
pub(crate) fn fence_in_model() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
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
