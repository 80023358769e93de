//! Algorithms for cutting a heap into ranges and for knowing when a range may be used again.
//!
//! One idea carries the crate: *a heap is cut into ranges; a range is in use until points on timelines have
//! passed.* Bytes, descriptor slots, constant-buffer slots and ring space are all ranges; frames, queues and fences
//! are all timelines. Nothing here knows of a graphics API or a clock: what has passed is reported to the structures
//! through [`sync::Progress`]. All take `&mut self`; the crate `ringfence-lockfree` has the structures that threads share.
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
//! | [`size_class`] | block sizes | – |
//! | [`fit_tree`] | the first of many blocks that may hold a request | O(log blocks) |
//! | [`linear`] | a bump page | O(1) |
//! | [`sync`] | points on timelines, sets of them | – |
//! | [`retire`] | what may be released once its points have passed | O(1) a batch |
//! | [`block_sizes`] | how large the next block is | O(1) |
//! | [`low_water`] | when it is made | O(1) |
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
