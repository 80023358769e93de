//! Structures that several threads use at the same time without a lock, or with a lock that is held only briefly:
//! pools, thread caches, deferred release and recycled objects.
//!
//! They manage ranges and sync points of [`ringfence_core`], and use no graphics API. The attribute that allows
//! `unsafe` code in a module states the reason. Tests under the model checker `loom` (`ci/loom.sh`) try the orders of
//! the threads' memory accesses in small models: all of them, or those with at most two or three preemptions.
//!
//! | module | contents | cost of an operation |
//! |---|---|---|
//! | [`fixed_pool`] | equal blocks for many threads at once | O(1); an allocation from a full pool O(blocks / 8) |
//! | [`pool_chain`] | fixed pools with the caller's heaps, added and removed while threads allocate | O(1) expected |
//!
//! The other modules are for the crates of Ringfence. They are hidden from the documentation and may change in any
//! release:
//!
//! | module | contents | cost of an operation |
//! |---|---|---|
//! | `thread_slot` ¹ | a small number for each living thread | O(1) |
//! | `counter` ¹ | counters; each thread adds to its own cache line | a load and a store |
//! | `spsc_queue` ¹ | queue with one producer and one consumer, by sets of sync points | O(1) |
//! | `retire_bin` ¹ | deferred release of objects from many threads | O(1) |
//! | `recycled` ¹ | released objects, kept for the next request with the same description | O(1): one exchange |
//! | `thread_cache` ¹ | a few items of a shared pool for each thread | O(1): one exchange |
//! | `slots` ¹ | allocation of small sizes: a pool chain and thread caches per size class | O(1): one exchange |
//! | `clock` ¹ | begun, submitted and completed values of a timeline | O(open and watched values) |
//! | `delivery` ¹ | states of a copy to a resource: gathered, recorded, arrived, lost | O(1) per destination |
//! | `pin` ¹ | ring ranges that host threads are writing to | O(1) to set a pin; O(pins) to claim or release |
//! | `ticket` | permission to move a range | one atomic operation |
//! | `try_cell` | a value that one thread at a time can access; the others do not wait | one exchange |
//! | `primitive` | the atomics of the processor, or those of `loom` | – |
//!
//! ¹ Only with the feature `std`, because these modules use threads.
#![no_std]
// Denied, not forbidden: a module with unsafe code is declared with `allow` and the reason.
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "std", feature = "testing"))]
extern crate std;

#[cfg(feature = "std")]
#[doc(hidden)]
pub mod clock;
#[cfg(feature = "std")]
#[doc(hidden)]
pub mod counter;
#[cfg(feature = "std")]
#[doc(hidden)]
pub mod delivery;
pub mod fixed_pool;
#[cfg(feature = "std")]
#[doc(hidden)]
pub mod pin;
pub mod pool_chain;
#[doc(hidden)]
pub mod primitive;
#[cfg(feature = "std")]
#[doc(hidden)]
#[allow(unsafe_code, reason = "a recycled object keeps its owner alive")]
pub mod recycled;
#[cfg(feature = "std")]
#[doc(hidden)]
#[allow(unsafe_code, reason = "threads share its shards without a lock")]
pub mod retire_bin;
mod serials;
#[cfg(feature = "std")]
#[doc(hidden)]
#[allow(unsafe_code, reason = "a cached slot keeps its owner alive")]
pub mod slots;
#[cfg(feature = "std")]
#[allow(unsafe_code, reason = "two threads share its chunks without a lock")]
mod spsc_queue;
#[cfg(feature = "std")]
#[doc(hidden)]
#[allow(unsafe_code, reason = "threads share its cells without a lock")]
pub mod thread_cache;
#[cfg(feature = "std")]
#[doc(hidden)]
pub mod thread_slot;
#[doc(hidden)]
pub mod ticket;
#[doc(hidden)]
#[allow(unsafe_code, reason = "one thread at a time has the value")]
pub mod try_cell;

#[cfg(feature = "testing")]
pub mod testing;

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
