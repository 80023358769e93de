//! Transient memory: resources that live for a few passes of a frame share bytes.
//!
//! ```text
//!   pass      1    2    3    4    5    6
//!   offset 0  ▓▓▓▓ depth ▓▓▓▓░░░░ bloom ░░    the same bytes, one after the other
//!         40  ▓▓ normals ░░░░ blur ░░░▓▓▓▓
//!
//!   begin ─▶ pass, acquire, discard … ─▶ finish ─▶ flush: what was not used for long goes, empty heaps to a cache
//!                     │                                                                          │
//!                     └ barriers, as data                                       end_frame: idle heaps go
//! ```
//!
//! [`TransientAllocator`] serves graph executions, in one of two ways:
//!
//! - *As it goes*: [`Execution::acquire_texture`] and [`Execution::discard`] in the order of the passes. It tries the
//!   existing heaps, first fit, else makes one. Where an object was made before from the same description at the same
//!   offset, it is used again: a frame like the last makes nothing.
//! - *Planned*: all resources with first and last passes are declared up front ([`TransientAllocator::plan`]) and laid
//!   out by [`ringfence_alias`]; a frame of the same shape as one before uses its plan again.
//!
//! # When two may share bytes
//!
//! On one queue, when one is discarded before the other is acquired. With several queues that is not enough: a pass on
//! the compute queue may still run when a later one on the graphics queue begins. Passes are therefore a partial order:
//! those of one queue in their order, those of different queues where one waits for the other ([`Execution::pass`]), or
//! where the host knows that one is complete. A resource may have bytes of another exactly where every last use of
//! the other comes before its own first use. The same rule holds from one execution to the next: the frame that begins
//! on the graphics queue while the last frame's async compute still runs gets other bytes.
//!
//! # When objects and heaps go
//!
//! In Unreal Engine an object is destroyed when it is beyond the cache's capacity and has not been used for a number of
//! frames, on the assumption that the device is no further behind than that. Here both conditions start a release,
//! and like every resource it then waits for the submissions that had begun: however far behind the device is, nothing
//! is destroyed under it.
//!
//! # Barriers
//!
//! [`TransientAllocator::barriers`] says what has to be recorded where bytes change hands: see [`Barrier`].
//!
//! Of the layouts of a planned frame that are equally high, one with few aliasing barriers is taken
//! ([`TransientDesc::transition_steps`]). Another order of the passes may do with less memory, and
//! [`TransientAllocator::suggest_order`] says so.
//!
//! # Deviations from Unreal Engine
//!
//! - The placement is by first fit over the history of the bytes rather than a free list, since a range can be free for
//!   one queue and not yet for another.
//! - What a driver wants to have memory of its own ([`requires_dedicated`](crate::device::Requirements)) is cached by
//!   its description too, and shares bytes with no other resource.
//! - Buffers, textures and render targets share heaps where the device lets them (`class_groups`), else they have heaps
//!   of their own: that is what heap tier 1 costs.
//!
//! | operation | cost |
//! |---|---|
//! | acquire | O(spans of the existing heaps); no driver call and no host allocation on a hit |
//! | discard | O(log spans) |
//! | finish | O(heaps · objects) |
//!
//! # Threads
//!
//! Placement goes in the order of the passes, so that an execution is one thread's; there is no lock. Objects are
//! released through the allocator's retirement, which all threads share.

mod advice;
mod allocator;
mod barrier;
mod desc;
mod error;
mod flush;
mod frame;
mod handle;
mod heap;
mod layout;
mod order;
mod pass;
mod planned;
mod plans;
mod spans;
mod state;
mod validate;

pub use allocator::{Execution, TransientAllocator};
pub use barrier::{Barrier, Direct3d12Barrier};
pub use desc::{TransientDesc, TransientFigures};
pub use error::TransientError;
pub use frame::{Described, FramePass, FrameResource};
pub use handle::{Transient, TransientBuffer, TransientTexture};
pub use heap::TransientKind;
pub use pass::{Pass, QUEUES_MAX, TransientId};
