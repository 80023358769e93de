//! Transient memory: resources that are used for a few passes of a frame share memory.
//!
//! ```text
//!   pass      1    2    3    4    5    6
//!   offset 0  ▓▓▓▓ depth ▓▓▓▓░░░░ bloom ░░    the same bytes, one after the other
//!         40  ▓▓ normals ░░░░ blur ░░░▓▓▓▓
//!
//!   begin ─▶ pass, acquire, discard … ─▶ finish ────────▶ releases unused objects, caches empty heaps
//!                     │                                                                │
//!                     └ barriers, as a list                           end_frame: releases idle heaps
//! ```
//!
//! [`TransientAllocator`] allocates the resources of graph executions, in one of two ways:
//!
//! - *Pass by pass*: [`Execution::acquire_texture`] and [`Execution::discard`], in the order of the passes. The
//!   allocator searches each existing heap: first for a free range that has an object of the same description, then for
//!   the lowest free range. If no heap has a free range, it creates a heap. A frame on one queue with the requests of
//!   the previous frame finds an object for each request, and creates none.
//! - *Planned*: all resources are declared up front with their first and last passes ([`TransientAllocator::plan`]),
//!   and [`ringfence_alias`] plans their offsets. A frame of the same shape as an earlier one reuses its plan.
//!
//! # When two resources may share bytes
//!
//! On one queue, two resources may share bytes if one is discarded before the other is acquired. With several queues
//! that is not sufficient: a pass on the compute queue may still run when a later pass on the graphics queue begins.
//! Passes are therefore partially ordered:
//!
//! - passes of one queue are in the order in which they were added;
//! - passes of different queues are ordered if one waits for the other ([`Execution::pass`]);
//! - a pass that the host knows to be complete comes before every later pass.
//!
//! A resource B may use bytes of a resource A if and only if every last use of A comes before the first use of B. The
//! same rule applies across executions: while async compute of the previous frame still runs, passes of the next frame
//! that do not wait for this work get other bytes.
//!
//! # When objects and heaps are released
//!
//! Unreal Engine destroys an object when the cache exceeds its capacity and the object has not been used for a number
//! of frames. This assumes that the device is at most that many frames behind. Here these two conditions only start the
//! release. As with every resource, the object is then kept until the submissions that had begun at the release are
//! complete. Therefore no object is destroyed while the device uses it, however far behind the device is.
//!
//! # Barriers
//!
//! [`TransientAllocator::barriers`] returns the barriers that aliasing needs: see [`Barrier`].
//!
//! If several layouts of a planned frame need the same amount of memory, the planner searches among them for a layout
//! with few aliasing barriers ([`TransientDesc::transition_steps`]). [`TransientAllocator::suggest_order`] searches for
//! an order of the passes that needs less memory.
//!
//! # Differences from Unreal Engine
//!
//! - Resources are placed first fit over the history of the bytes, not from a free list. A range can be free for passes
//!   of one queue, but not yet for passes of another queue.
//! - Resources that require dedicated memory ([`requires_dedicated`](crate::device::Requirements)) are cached by their
//!   description too. They share bytes with no other resource.
//! - Buffers, textures and render targets share heaps if the device allows it (`class_groups`). Otherwise each class
//!   has its own heaps, as on heap tier 1.
//!
//! | operation | cost |
//! |---|---|
//! | acquire | O(spans of the existing heaps); no driver call and no host allocation if an object is reused |
//! | discard | O(log spans), and moving the later spans |
//! | finish | O(heaps · objects) |
//!
//! # Threads
//!
//! Resources are placed in the order of the passes, so an execution is built by one thread, without a lock. Objects are
//! released through the allocator's retirement, which all threads share.
#![warn(missing_docs)]

mod advice;
mod allocator;
mod barrier;
#[cfg(all(windows, feature = "d3d12"))]
mod d3d12;
mod desc;
mod error;
mod frame;
mod handle;
mod heap;
mod layout;
mod order;
mod pass;
mod planned;
mod plans;
mod release;
mod spans;
mod state;
mod validate;
#[cfg(feature = "vulkan")]
mod vulkan;

pub use allocator::{Execution, Suspended, TransientAllocator};
pub use barrier::{Barrier, Direct3d12Barrier};
pub use desc::{TransientDesc, TransientFigures};
pub use error::TransientError;
pub use frame::{Described, FramePass, FrameResource};
pub use handle::{Transient, TransientBuffer, TransientTexture};
pub use heap::TransientKind;
pub use pass::{Pass, QUEUES_MAX, TransientId};
#[cfg(feature = "vulkan")]
pub use vulkan::VulkanFirstUse;

use ringfence_hal as device;

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
