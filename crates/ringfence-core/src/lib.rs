//! Algorithms that divide a heap into ranges and decide when a range can be reused.
//!
//! The whole crate follows one model: *a heap is divided into ranges; a range is in use until certain timelines have
//! reached certain values.* A timeline and a value are a *point*; the point has passed once the timeline has reached
//! the value. Ranges consist of bytes, descriptor slots, constant-buffer slots or ring space. A queue with its fence
//! (or timeline semaphore) is a timeline; each frame has a value on it. The crate uses no graphics API and no clock:
//! the caller reports progress through [`sync::Progress`]. The structures take `&mut self`. The crate
//! `ringfence-lockfree` has structures that several threads use through `&self`.
//!
//! n is the number of ranges and free spans (for [`buddy`], of granules).
//!
//! | module | contents | allocate / free |
//! |---|---|---|
//! | [`range`] | the traits and types that all range allocators share | – |
//! | [`buddy`] | buddy allocator: powers of two, a tree in one array | O(log n) |
//! | [`free_list`] | best fit; ranges can be found by offset | O(log n) expected; more with large alignments |
//! | [`tlsf`] | general-purpose allocator with two-level bitmaps | O(1) |
//! | [`linear_ranges`] | stack, double stack and ring with ranges that are freed one by one | O(1) amortised |
//! | [`algorithm`] | any of these, or blocks of one size, chosen at run time | that of the chosen allocator |
//! | [`blocks`] | a growing list of heaps, each with one of these | that of an allocator, plus the search for a block |
//! | [`ring`] | ring buffer, released in the order of allocation | O(1) |
//! | [`size_class`] | size classes | – |
//! | [`fit_tree`] | search tree for the first of many blocks that may fit a request | O(log blocks) |
//! | [`linear`] | page that is allocated front to back and freed as a whole | O(1) |
//! | [`sync`] | points on timelines, and sets of points | – |
//! | [`retire`] | deferred frees: items are released once their points have passed | usually O(points of an item) |
//! | [`block_sizes`] | size of the next block | O(1) |
//! | [`empty_blocks`] | bytes of empty blocks that are kept | O(1) |
//! | [`low_water`] | number of free bytes below which the next block is created | O(1) |
//!
//! Sizes, offsets and alignments are 64-bit and counted in *units*: bytes for memory, slots for descriptors.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "testing"))]
extern crate std;

pub mod algorithm;
pub mod block_sizes;
pub mod blocks;
pub mod buddy;
pub mod empty_blocks;
mod equal_blocks;
pub mod fit_tree;
pub mod free_list;
pub mod linear;
pub mod linear_ranges;
pub mod low_water;
pub mod range;
pub mod retire;
pub mod ring;
pub mod size_class;
pub mod sync;
pub mod tlsf;

#[cfg(any(test, feature = "testing"))]
pub mod testing;

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
