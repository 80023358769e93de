//! Running the program's code while this thread holds no lock: see [`ringfence_hal::lock`].
//!
//! While a thread holds a [`Lock`], reports ([`span`](super::span)) and drops of the program's values
//! ([`drop_unlocked`]) are deferred until the thread holds no lock. A panic in deferred code is caught: the panic hook
//! has shown it, and the reported operation has already happened.
//!
//! The eviction callback is not called under a [`Lock`] either: the owner of the request calls it once the lock is
//! released (`memory/shortage.rs`).

#[cfg(feature = "tracing")]
pub(super) use crate::device::lock::contain;
pub use crate::device::lock::{Lock, SharedLock, defer, drop_unlocked, is_locked, run_unlocked};
