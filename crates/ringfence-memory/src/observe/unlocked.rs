//! Code of the program's, run where this thread holds no lock: see [`ringfence_hal::lock`].
//!
//! While a thread holds a [`Lock`], nothing is reported ([`span`](super::span)) and nothing of the program's is dropped
//! ([`drop_unlocked`]): that is done as soon as the thread holds none. A panic ends there: the panic hook has shown it,
//! and what is reported on has happened.
//!
//! The eviction callback is not called under a [`Lock`] either: the owner of the request calls it once the lock is free
//! (`memory/shortage.rs`).

#[cfg(feature = "tracing")]
pub(super) use crate::device::lock::contain;
pub use crate::device::lock::{Lock, SharedLock, defer, drop_unlocked, is_locked, run_unlocked};
