//! Transient memory: resources that live for a few passes of a frame are aliased.
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
//! [`TransientAllocator`] allocates the resources of graph executions, in one of two ways:
//!
//! - *As it goes*: [`Execution::acquire_texture`] and [`Execution::discard`] in the order of the passes. It tries the
//!   existing heaps, first fit, else makes one. An object that was made before from the same description at the same
//!   offset is reused: a frame like the last makes nothing.
//! - *Planned*: all resources with first and last passes are declared up front ([`TransientAllocator::plan`]) and laid
//!   out by [`ringfence_alias`]; a frame of the same shape as an earlier one reuses its plan.
//!
//! # When two may share bytes
//!
//! On one queue, when one is discarded before the other is acquired. With several queues that is not enough: a pass on
//! the compute queue may still run when a later one on the graphics queue begins. Passes are therefore a partial order:
//! those of one queue in their order, those of different queues where one waits for the other ([`Execution::pass`]), or
//! where the host knows that one is complete. A resource may have bytes of another iff every last use of the other
//! comes before its own first use. The same rule holds from one execution to the next: a frame that begins on the
//! graphics queue while the last frame's async compute still runs gets other bytes.
//!
//! # When objects and heaps go
//!
//! In Unreal Engine an object is destroyed when it is beyond the cache's capacity and has not been used for a number of
//! frames, on the assumption that the device is no further behind than that. Here both conditions start a release, and
//! like every resource it then waits for the submissions that had begun: however far behind the device is, nothing is
//! destroyed that it uses.
//!
//! # Barriers
//!
//! [`TransientAllocator::barriers`] returns the barriers that aliasing needs: see [`Barrier`].
//!
//! Of the layouts of a planned frame that need equally much memory, one with few aliasing barriers is taken
//! ([`TransientDesc::transition_steps`]). [`TransientAllocator::suggest_order`] looks for an order of the passes that
//! needs less memory.
//!
//! # Deviations from Unreal Engine
//!
//! - The placement is by first fit over the history of the bytes rather than a free list, since a range can be free for
//!   one queue and not yet for another.
//! - Resources that require dedicated memory ([`requires_dedicated`](crate::device::Requirements)) are cached by their
//!   description too, and share bytes with no other resource.
//! - Buffers, textures and render targets share heaps where the device allows it (`class_groups`), else they have heaps
//!   of their own, as on heap tier 1.
//!
//! | operation | cost |
//! |---|---|
//! | acquire | O(spans of the existing heaps); no driver call and no host allocation on a hit |
//! | discard | O(log spans) |
//! | finish | O(heaps · objects) |
//!
//! # Threads
//!
//! Resources are placed in the order of the passes, so that one thread makes an execution; there is no lock. Objects
//! are released through the allocator's retirement, which all threads share.

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

pub use allocator::{Execution, Suspended, TransientAllocator};
pub use barrier::{Barrier, Direct3d12Barrier};
pub use desc::{TransientDesc, TransientFigures};
pub use error::TransientError;
pub use frame::{Described, FramePass, FrameResource};
pub use handle::{Transient, TransientBuffer, TransientTexture};
pub use heap::TransientKind;
pub use pass::{Pass, QUEUES_MAX, TransientId};
