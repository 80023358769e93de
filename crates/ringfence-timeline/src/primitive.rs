//! The synchronisation primitives of this crate: atomics and a lock, or those of `loom` in models.
//!
//! ```text
//!   lifetimes ─▶ primitive ──┬─ `ringfence_lockfree::primitive`: core's atomics, or `loom`'s
//!                            └─ parking_lot's lock, or `loom`'s      --cfg loom: the models
//! ```
//!
//! State that threads share without a lock in the allocator and its libraries, and the evidence that it is correct:
//!
//! | part | role | evidence |
//! |---|---|---|
//! | `ringfence_lockfree::pin` | pins and released ranges: hazard pointers over ranges | models |
//! | `lifetimes`, `clock` of `ringfence_lockfree` | points that a release waits for, ended frames | models |
//! | other modules of `ringfence_lockfree` | retired objects, caches, slots of size classes | models there |
//! | memory objects, kinds of bound heaps | a count or bits; one operation changes them | exact by construction |
//! | figures: calls, bytes, waits, uses of budgets | relaxed counters: no decision depends on their order | – |
//! | closed, gone, lost, stop, on | flags that are set once, or under a lock, and only reduce the work to do | – |
//! | generations of a ring's buffers, demand of a class, wanted blocks | hints: an old value causes more work | – |
//!
//! A lock is defined here only if a model uses it.

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
