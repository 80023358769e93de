//! Algorithms for cutting a heap into ranges and for knowing when a range may be used again.
//!
//! One idea carries the crate: *a heap is cut into ranges; a range is in use until points on timelines have
//! passed.* Bytes, descriptor slots, constant-buffer slots and ring space are all ranges; frames, queues and fences
//! are all timelines. Nothing here knows of a graphics API or a clock: what has passed is reported to the structures
//! through [`sync::Progress`]. They take `&mut self`, but for the lock-free ones, which threads share.
//!
//! | module | what it holds | allocate / free |
//! |---|---|---|
//! | [`range`] | the contract that the allocators share | – |
//! | [`buddy`] | powers of two in a tree inside one array | O(log n), no host allocation |
//! | [`free_list`] | best fit, every block walkable in address order | O(log n) expected |
//! | [`tlsf`] | the general-purpose one: two-level bitmaps | O(1) |
//! | [`linear_ranges`] | stack, double stack and ring of ranges that are freed one by one | O(1) amortised |
//! | [`algorithm`] | one of these, chosen when the program runs | that of the chosen one |
//! | [`blocks`] | growable blocks over any of them | that of the inner one |
//! | [`ring`] | monotonic head and tail | O(1) |
//! | [`fixed_pool`] | equal blocks for many threads at once, without a lock | O(1) |
//! | [`pool_chain`] | such pools with their heaps, added and taken out meanwhile | O(1) expected |
//! | [`size_class`] | block sizes | – |
//! | [`fit_tree`] | the first of many blocks that may hold a request | O(log blocks) |
//! | [`linear`] | a bump page | O(1) |
//! | [`sync`] | points on timelines, sets of them | – |
//! | [`retire`] | what may be released once its points have passed | O(1) a batch |
//! | [`block_sizes`] | how large the next block is | O(1) |
//! | [`low_water`] | when it is made | O(1) |
//! | [`ticket`] | whether a range may be moved, now | one exchange |
//! | [`try_cell`] | a value of one thread at a time, for which none waits | one exchange |
//! | `clock` ¹ | which values of a timeline have begun, were submitted, are over | O(open values) |
//! | `delivery` ¹ | whether what is copied to a resource arrives | O(1) a destination |
//! | `thread_slot` ¹ | a number that no other living thread has | O(1) |
//! | `counter` ¹ | counters with a line for each thread | a load and a store |
//! | `retire_bin` ¹ | retirement by many threads at once | O(1) |
//! | `recycled` ¹ | objects that go from owner to owner, by description | O(1): two exchanges |
//! | `thread_cache` ¹ | a few items of a shared pool for each thread | O(1): one exchange |
//! | `slots` ¹ | small and common sizes, out of pools by size class and thread caches over them | O(1): one exchange |
//!
//! ¹ With the feature `std`: these know threads.
//!
//! Sizes, offsets and alignments are 64-bit and counted in *units*: bytes for memory, slots for descriptors.
#![no_std]
// Denied rather than forbidden for what threads share without a lock: each such file allows it and says why.
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
#[allow(unsafe_code, reason = "what is kept keeps its owner alive")]
pub mod recycled;
pub mod retire;
#[cfg(feature = "std")]
#[allow(unsafe_code, reason = "shared without a lock; it says why")]
pub mod retire_bin;
pub mod ring;
pub mod size_class;
#[cfg(feature = "std")]
#[allow(unsafe_code, reason = "what is cached keeps its owner alive")]
pub mod slots;
#[cfg(feature = "std")]
#[allow(unsafe_code, reason = "shared without a lock; it says why")]
mod spsc_queue;
pub mod sync;
#[cfg(feature = "std")]
#[allow(unsafe_code, reason = "shared without a lock; it says why")]
pub mod thread_cache;
#[cfg(feature = "std")]
pub mod thread_slot;
pub mod ticket;
pub mod tlsf;
#[allow(unsafe_code, reason = "shared without a lock; it says why")]
pub mod try_cell;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
