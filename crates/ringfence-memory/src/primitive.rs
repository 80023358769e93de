//! The one seam between the lock-free parts and what runs them: the processor, or `loom`.
//!
//! ```text
//!   timeline ──▶ primitive ──┬─ the core's seam: std's atomics, or `loom`'s
//!                            └─ parking_lot's lock, or `loom`'s      --cfg loom: the models
//! ```
//!
//! What threads share without a lock, and how it is known to be right:
//!
//! | part | what it is | shown by |
//! |---|---|---|
//! | `ringfence_lockfree::pin` | pins and what is released: hazard pointers over ranges | models |
//! | `ringfence_lockfree::clock`, `timeline` | turn and begun values: what a release waits for; closes: whether a frame is open | models |
//! | `ringfence_core`: `try_cell`, `thread_slot`, `spsc_queue`, `retire_bin`, `thread_cache`, `pool_chain` | what is retired, what is cached, slots of size classes | the core's own models |
//! | memory objects, kinds of bound heaps | a count or bits that one read-modify-write changes | exact by itself |
//! | figures: calls, bytes, waits, uses of budgets | relaxed counters: they order nothing, nothing is decided by their order | – |
//! | closed, gone, lost, stop, on | flags that are set once, or under a lock, and only say that less is to be done | – |
//! | generations of a ring's buffers, demand of a class, wanted blocks | hints: who reads an old one does more work, not other work | – |
//!
//! Locks are in the seam only where a model runs through them.

#[cfg(not(loom))]
pub(crate) use parking_lot::RwLock;
pub(crate) use ringfence_lockfree::primitive::{AtomicU64, Ordering};

/// `loom`'s lock with `parking_lot`'s interface.
#[cfg(loom)]
mod locks {
    use loom::sync::{RwLockReadGuard, RwLockWriteGuard};

    pub(crate) struct RwLock<T>(loom::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::RwLock::new(value))
        }

        pub(crate) fn read_recursive(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().expect("no thread of a model panics")
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().expect("no thread of a model panics")
        }
    }
}

#[cfg(loom)]
pub(crate) use locks::RwLock;
