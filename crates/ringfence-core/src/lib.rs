//! Algorithms that divide a heap into ranges and decide when a range can be reused.
//!
//! The whole crate follows one model: *a heap is divided into ranges; a range is in use until points on timelines have
//! passed.* Bytes, descriptor slots, constant-buffer slots and ring space are ranges. Frames, queues and fences are
//! timelines. The crate uses no graphics API and no clock: the caller reports progress through [`sync::Progress`]. The
//! structures take `&mut self`, except the lock-free ones, which threads share.
//!
//! | module | contents | allocate / free |
//! |---|---|---|
//! | [`range`] | the traits and types that all allocators share | – |
//! | [`buddy`] | buddy allocator: powers of two, a tree in one array | O(log n), no host allocation |
//! | [`free_list`] | best fit; blocks can be visited in address order | O(log n) expected |
//! | [`tlsf`] | general-purpose allocator with two-level bitmaps | O(1) |
//! | [`linear_ranges`] | stack, double stack and ring with ranges that are freed one by one | O(1) amortised |
//! | [`algorithm`] | one of these allocators, chosen at run time | that of the chosen one |
//! | [`blocks`] | growable blocks over any of these allocators | that of the inner one |
//! | [`ring`] | ring with monotonic head and tail | O(1) |
//! | [`fixed_pool`] | lock-free pool of equal blocks for many threads | O(1) |
//! | [`pool_chain`] | fixed pools with their heaps, which can be added and removed while in use | O(1) expected |
//! | [`size_class`] | size classes | – |
//! | [`fit_tree`] | search for the first of many blocks that may fit a request | O(log blocks) |
//! | [`linear`] | bump page | O(1) |
//! | [`sync`] | points on timelines, and sets of points | – |
//! | [`retire`] | deferred frees, released when their points have passed | O(1) a batch |
//! | [`block_sizes`] | size of the next block | O(1) |
//! | [`low_water`] | time at which the next block is created | O(1) |
//! | [`ticket`] | flag that tells if a range can be moved now | one exchange |
//! | [`try_cell`] | value that one thread uses at a time; other threads do not wait | one exchange |
//! | `clock` ¹ | values of a timeline that have begun, were submitted or are over | O(open values) |
//! | `delivery` ¹ | outcome of the copies to a resource | O(1) a destination |
//! | `thread_slot` ¹ | number that no other living thread has | O(1) |
//! | `counter` ¹ | counters with one line per thread | a load and a store |
//! | `retire_bin` ¹ | deferred frees from many threads at once | O(1) |
//! | `recycled` ¹ | objects that are reused for owners with the same description | O(1): two exchanges |
//! | `thread_cache` ¹ | per-thread caches over a shared pool | O(1): one exchange |
//! | `slots` ¹ | small, frequent sizes from pools per size class, behind thread caches | O(1): one exchange |
//!
//! ¹ Requires the feature `std`, because the module depends on threads.
//!
//! Sizes, offsets and alignments are 64-bit and counted in *units*: bytes for memory, slots for descriptors.
#![no_std]
// Denied rather than forbidden: lock-free modules allow it and say why.
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "std", feature = "testing"))]
extern crate std;

pub mod algorithm;
pub mod block_sizes;
pub mod blocks;
pub mod buddy;
#[cfg(feature = "std")]
pub mod clock;
#[cfg(feature = "std")]
pub mod counter;
#[cfg(feature = "std")]
pub mod delivery;
pub mod fit_tree;
pub mod fixed_pool;
pub mod free_list;
pub mod linear;
pub mod linear_ranges;
pub mod low_water;
#[cfg(feature = "std")]
pub mod pin;
pub mod pool_chain;
#[doc(hidden)]
pub mod primitive;
pub mod range;
#[cfg(feature = "std")]
#[allow(unsafe_code, reason = "kept objects keep their owner alive; SAFETY comments give the proofs")]
pub mod recycled;
pub mod retire;
#[cfg(feature = "std")]
#[allow(unsafe_code, reason = "shared without a lock; SAFETY comments give the proofs")]
pub mod retire_bin;
pub mod ring;
pub mod size_class;
#[cfg(feature = "std")]
#[allow(unsafe_code, reason = "cached items keep their owner alive; SAFETY comments give the proofs")]
pub mod slots;
#[cfg(feature = "std")]
#[allow(unsafe_code, reason = "shared without a lock; SAFETY comments give the proofs")]
mod spsc_queue;
pub mod sync;
#[cfg(feature = "std")]
#[allow(unsafe_code, reason = "shared without a lock; SAFETY comments give the proofs")]
pub mod thread_cache;
#[cfg(feature = "std")]
pub mod thread_slot;
pub mod ticket;
pub mod tlsf;
#[allow(unsafe_code, reason = "shared without a lock; SAFETY comments give the proofs")]
pub mod try_cell;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
