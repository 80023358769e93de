//! Ringfence manages GPU memory, descriptors and their lifetimes, on raw Vulkan, on raw Direct3D 12 and on a simulated
//! GPU.
//!
//! *A heap is divided into ranges. A range is in use until the timelines have passed its points.*
//!
//! ```text
//!   create_buffer(info, desc) ──▶ memory: type, block, range ──▶ Buffer, yours
//!   frame = timeline.begin()      a submission is being recorded …
//!   upload.write(bytes)           … and uses these bytes
//!   timeline.submitted(frame)     it will signal frame.value()
//!   drop(buffer)                  retired: kept until the frames begun so far are complete
//!   reclaim()                     once a frame: frees retired objects that are complete
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`memory`] | the [`Allocator`]: memory types, blocks, dedicated memory, statistics, snapshots |
//! | [`lifetime`] | [`Timeline`]s and [`Frame`]s |
//! | [`defrag`] | compaction in bounded [passes](defrag::DefragPass) |
//! | [`residency`] | eviction from device memory if the budget is too small |
//! | [`sharing`] | memory shared with other processes and APIs |
//! | [`sparse`] | buffers and textures with memory bound page by page |
//! | [`debugging`] | memory guards, fill patterns, reports of leaks, a history of events |
//! | [`trace`] | recordings of all events |
//! | [`upload`] | rings of mapped memory, constants, batches of copies, readback |
//! | [`descriptor`] | CPU-only and shader-visible descriptors, bindless tables, samplers |
//! | `contents` | vectors and meshes in buffers of the device, behind the feature `contents` |
//! | `commands` | fills, clears, copies of boxes, resolves and mip levels, behind the feature `commands` |
//! | [`transient`] | aliased resources of a frame: the [`TransientAllocator`](transient::TransientAllocator) |
//! | [`placement`] | an engine's policy that assigns each request to a pool |
//! | [`device`] | the contract of a device (crate `ringfence-hal`), and a guide to implement one |
//! | [`alias`] | plans of offsets for known lifetimes (crate `ringfence-alias`) |
//! | [`algorithms`] | the algorithms alone (crates `ringfence-core` and `ringfence-lockfree`) |
//! | `sim`, `vulkan`, `d3d12` | the simulated GPU and the two backends, each behind the feature of the same name |
//!
//! The modules from [`memory`] to [`trace`] re-export the crates `ringfence-memory` and `ringfence-sparse`. The four
//! modules after them re-export the crates `ringfence-upload`, `ringfence-descriptor`, `ringfence-transient` and
//! `ringfence-placement`.
//!
//! | feature | adds |
//! |---|---|
//! | `transient` (default) | the modules [`transient`] and [`alias`] |
//! | `placement` (default) | the module [`placement`] |
//! | `contents` | the module `contents` (vectors and meshes on the device), and reads and writes of slices of plain values (crate `bytemuck`) |
//! | `commands` | the module `commands` (commands on data, recorded with their barriers) |
//! | `vulkan` | the backend over `ash` |
//! | `d3d12` | the backend over `windows`; has no effect on other systems |
//! | `sim` | the simulated GPU with its hazard detection, mostly for the tests of programs |
//! | `serde` | serialization of snapshots and statistics, for example as JSON |
//! | `tracing` | spans and events of the crate `tracing` for slow driver calls, waits and failures |
//!
//! # Threads
//!
//! All threads may use allocators, timelines and rings at the same time. There is one lock for each memory type and
//! resource class. The locks that an allocation in an existing block takes are never held during a driver call. On
//! NVIDIA's Vulkan driver, the backend lets only one thread at a time create or destroy buffers and images.
//!
//! No lock is held while the library calls the program's code, except the program's global allocator. The global
//! allocator may drop handles of the library within any host allocation, but must not call anything else of the
//! library. If the thread holds a lock of the library at the drop, a drop that needs a lock takes effect after the
//! thread has released its locks.
//!
//! # An example without a GPU
//!
//! With the feature `sim`:
#![cfg_attr(feature = "sim", doc = "```")]
#![cfg_attr(not(feature = "sim"), doc = "```ignore")]
//! use ringfence::device::{BufferDesc, BufferUsage};
//! use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Location, sim};
//!
//! let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
//! let memory = Allocator::over(device.clone(), AllocatorDesc::default());
//! let fence = device.create_fence(0);
//! // SAFETY: the one submission below signals the fence with the value of its frame.
//! let timeline = unsafe { memory.timeline(fence) }?;
//!
//! let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
//! let desc = BufferDesc { size: 256, usage };
//! let mut source = memory.create_buffer(&desc, AllocationDesc { location: Location::Upload, ..Default::default() })?;
//! let back = memory.create_buffer(&desc, AllocationDesc { location: Location::Readback, ..Default::default() })?;
//! source.write(0, &[7; 256])?;
//!
//! let frame = timeline.begin();
//! let (src, dst) = (*source.object(), *back.object());
//! let copy = sim::Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size: 256 };
//! device.submit(0, &[], vec![copy], (fence, frame.value()))?;
//! let point = timeline.submitted(frame)?;
//! drop(source); // retired: the memory is kept until the copy is complete
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

/// The algorithms alone: the crate `ringfence-core`, and the two pools of `ringfence-lockfree`.
pub mod algorithms {
    pub use ringfence_core::*;
    pub use ringfence_lockfree::{fixed_pool, pool_chain};
}

#[cfg(any(feature = "vulkan", all(windows, feature = "d3d12")))]
#[macro_use]
mod native;

#[cfg(all(windows, feature = "d3d12"))]
pub mod d3d12;
#[cfg(doctest)]
mod impossible;
#[cfg(feature = "vulkan")]
pub mod vulkan;

#[cfg(feature = "transient")]
pub use ringfence_alias as alias;
#[cfg(feature = "commands")]
pub use ringfence_commands as commands;
#[cfg(feature = "contents")]
pub use ringfence_contents as contents;
pub use ringfence_core::sync::{SyncPoint, SyncSet, TimelineId};
pub use ringfence_descriptor as descriptor;
pub use ringfence_hal as device;
pub use ringfence_memory::{
    AccessError, Allocation, AllocationDesc, Allocator, AllocatorDesc, Budget, Buffer, DebugDesc, Dedicated, Error,
    Frame, FrameError, Location, Maintenance, Plan, PlannedWay, Pool, PoolDesc, Pressure, RawObject, Reclaimed,
    Resource, ResourceKind, ShareError, SharedMemory, SmallBuffer, Texture, Timeline, Tried, debugging, defrag,
    lifetime, memory, residency, resource, sharing, trace,
};
#[cfg(feature = "placement")]
pub use ringfence_placement::{self as placement, FastConstants, FastConstantsDesc, FastWriter};
#[cfg(feature = "sim")]
pub use ringfence_sim as sim;
pub use ringfence_sparse as sparse;
#[cfg(feature = "transient")]
pub use ringfence_transient as transient;
pub use ringfence_upload as upload;
pub use ringfence_upload::{
    BatchError, BoundConstants, ConstantBuffers, ConstantWriter, ConstantsDesc, DynamicConstants, Readback,
    ReadbackDesc, ReadbackError, ReadbackRing, Staged, StaticConstants, TexelTarget, Texels, TransferQueue,
    UploadBatch, UploadDesc, UploadError, UploadRing, UploadWriter, WhenFull,
};
