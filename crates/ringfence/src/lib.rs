//! Ringfence manages GPU memory, descriptors and their lifetimes, on raw Vulkan, on raw Direct3D 12 and on a simulated
//! GPU.
//!
//! *A heap is cut into ranges; a range is in use until points on timelines have passed.*
//!
//! ```text
//!   create_buffer(info, desc) ──▶ memory: type, block, range ──▶ Buffer, yours
//!   frame = timeline.begin()      a submission is being recorded …
//!   upload.write(bytes)           … and uses these bytes
//!   timeline.submitted(frame)     it will signal frame.value()
//!   drop(buffer)                  retired: kept until what was begun is complete
//!   reclaim()                     once a frame: frees what has passed
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`memory`] | the [`Allocator`]: memory types, blocks, dedicated memory, statistics, snapshots |
//! | [`lifetime`] | [`Timeline`]s and [`Frame`]s |
//! | [`defrag`] | compaction, a bounded [`pass`](defrag::DefragPass) at a time |
//! | [`residency`] | what stays in device memory when the budget is too small |
//! | [`sharing`] | memory that other processes and APIs map too |
//! | [`sparse`] | buffers and textures that get their memory page by page |
//! | [`debugging`], [`trace`] | guards, fills, leaks and a history; recordings |
//! | [`upload`] | rings of mapped memory, constants, batches of copies, readback |
//! | [`descriptor`] | CPU-only and shader-visible descriptors, bindless tables, samplers |
//! | [`transient`] | resources of a frame that share bytes: the [`TransientAllocator`](transient::TransientAllocator) |
//! | [`placement`] | an engine's policy: which request goes to which pool |
//! | [`device`] | the contract of a device (crate `ringfence-hal`), and how to write your own |
//! | [`alias`] | the planner of offsets for known lifetimes (crate `ringfence-alias`) |
//! | [`algorithms`] | the algorithms alone (crates `ringfence-core` and `ringfence-lockfree`) |
//! | `sim`, `vulkan`, `d3d12` | the simulated GPU and the two backends, each by the feature of its name |
//!
//! [`memory`] to [`trace`] are those of the crate `ringfence-memory`; the four after them are this crate's own.
//!
//! | feature | what it compiles |
//! |---|---|
//! | `vulkan` | the backend over `ash` |
//! | `d3d12` | the backend over `windows`; nothing off Windows |
//! | `sim` | the simulated GPU with its hazard finder; programs need it for their tests, seldom elsewhere |
//! | `serde` | snapshots and figures as JSON |
//! | `threads` | [`alias`] plans on several threads: `alias::plan_with` |
//! | `tracing` | spans and events of the crate `tracing` for slow driver calls, waits and failures |
//!
//! None is on by default.
//!
//! # Threads
//!
//! Allocators, timelines and rings may be used from any thread at the same time. Locks are per memory type and resource
//! class. None that an allocation in an existing block needs is held across a driver call; on NVIDIA's Vulkan driver
//! the backend has threads take turns to create and destroy buffers and images. No lock is held while the
//! program's own code is called, with one exception: a global allocator of the program's. It may drop what the library
//! made within any host allocation, and must call nothing else of the library. If the thread holds a lock of the
//! library then, a drop that needs one takes effect when the thread has released its locks.
//!
//! # An example without a GPU
//!
//! With the feature `sim`:
#![cfg_attr(feature = "sim", doc = "```")]
#![cfg_attr(not(feature = "sim"), doc = "```ignore")]
//! use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create};
//! use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Location, sim};
//!
//! let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
//! let memory = Allocator::over(device.clone(), AllocatorDesc::default());
//! let fence = device.create_fence(0);
//! // SAFETY: the one submission below signals the fence with the value of its frame.
//! let timeline = unsafe { memory.timeline(fence) }?;
//!
//! let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
//! let info = Create::<Buffers>::describe(&device, &BufferDesc { size: 256, usage })?;
//! let mut source = memory.create_buffer(&info, AllocationDesc { location: Location::Upload, ..Default::default() })?;
//! let back = memory.create_buffer(&info, AllocationDesc { location: Location::Readback, ..Default::default() })?;
//! source.write(0, &[7; 256])?;
//!
//! let frame = timeline.begin();
//! let (src, dst) = (*source.object(), *back.object());
//! let copy = sim::Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size: 256 };
//! device.submit(0, &[], vec![copy], (fence, frame.value()))?;
//! let point = timeline.submitted(frame)?;
//! drop(source); // the copy may not have run yet: it is kept until it has
//!
//! assert!(timeline.wait(point.value, std::time::Duration::MAX)?);
//! let mut bytes = [0; 256];
//! back.read(0, &mut bytes)?;
//! assert_eq!(bytes, [7; 256]);
//! assert_eq!(memory.reclaim().objects, 1);
//! assert!(device.hazards().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_docs)]

/// The examples of the README, compiled as tests.
#[cfg(all(doctest, feature = "sim"))]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(all(doctest, feature = "sim"))]
mod guide;

/// The algorithms alone: the crate `ringfence-core`, and the pools of `ringfence-lockfree`.
pub mod algorithms {
    pub use ringfence_core::*;
    pub use ringfence_lockfree::{fixed_pool, pool_chain};
}

#[cfg(any(feature = "vulkan", all(windows, feature = "d3d12")))]
#[macro_use]
mod native;

#[cfg(all(windows, feature = "d3d12"))]
pub mod d3d12;
pub mod descriptor;
mod hashed;
#[cfg(doctest)]
mod impossible;
pub mod placement;
pub mod transient;
pub mod upload;
#[cfg(feature = "vulkan")]
pub mod vulkan;

pub use placement::{FastConstants, FastConstantsDesc, FastWriter};
pub use ringfence_alias as alias;
pub use ringfence_core::sync::{SyncPoint, SyncSet, TimelineId};
pub use ringfence_hal as device;
pub use ringfence_memory::{
    AccessError, Allocation, AllocationDesc, Allocator, AllocatorDesc, Budget, Buffer, DebugDesc, Dedicated, Error,
    Frame, FrameError, Location, Maintenance, Plan, PlannedWay, Pool, PoolDesc, Pressure, RawObject, Reclaimed,
    Resource, ResourceKind, ShareError, SharedMemory, SmallBuffer, Texture, Timeline, Tried, debugging, defrag,
    lifetime, memory, residency, resource, sharing, sparse, trace,
};
#[cfg(feature = "sim")]
pub use ringfence_sim as sim;
pub use upload::{
    BatchError, BoundConstants, ConstantBuffers, ConstantWriter, ConstantsDesc, DynamicConstants, Readback,
    ReadbackDesc, ReadbackError, ReadbackRing, Staged, StaticConstants, TexelTarget, Texels, TransferQueue,
    UploadBatch, UploadDesc, UploadError, UploadRing, UploadWriter, WhenFull,
};
