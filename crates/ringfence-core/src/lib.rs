//! Algorithms for cutting a heap into ranges and for knowing when a range may be used again.
//!
//! One idea carries the crate: *a heap is cut into ranges; a range is in use until points on timelines have
//! passed.* Bytes, descriptor slots, constant-buffer slots and ring space are all ranges; frames, queues and fences
//! are all timelines. Nothing here knows of a graphics API, a thread or a clock: the structures take `&mut self`,
//! and what has passed is told to them through [`sync::Progress`].
//!
//! | module | what it holds | allocate / free |
//! |---|---|---|
//! | [`alias`] | offsets for what is never alive together: bound, planners, checker | see there |
//! | [`range`] | the contract that the allocators share | – |
//! | [`buddy`] | powers of two in a tree inside one array | O(log n), no host allocation |
//! | [`free_list`] | best fit, every block walkable in address order | O(log n) expected |
//! | [`tlsf`] | the general-purpose one: two-level bitmaps | O(1) |
//! | [`blocks`] | growable blocks over any of them | that of the inner one |
//! | [`ring`] | monotonic head and tail | O(1) |
//! | [`linear`] | a bump page | O(1) |
//! | [`sync`] | points on timelines, sets of them | – |
//! | [`retire`] | what may be released once its points have passed | O(1) a batch |
//!
//! Sizes, offsets and alignments are 64-bit and counted in *units*: bytes for memory, slots for descriptors.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "testing"))]
extern crate std;

pub mod alias;
pub mod blocks;
pub mod buddy;
pub mod free_list;
pub mod linear;
pub mod range;
pub mod retire;
pub mod ring;
pub mod sync;
pub mod tlsf;

#[cfg(feature = "testing")]
pub mod testing;
