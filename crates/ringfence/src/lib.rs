//! Ringfence manages GPU memory, descriptors and their lifetimes, on raw Vulkan, on raw Direct3D 12 and on a simulated
//! GPU.
//!
//! *A heap is divided into ranges. A range is in use until certain timelines have reached certain values (sync
//! points).*
//!
//! ```text
//!   create_buffer(info, desc) ──▶ memory: type, block, range ──▶ Buffer, yours
//!   frame = timeline.begin()      a submission is being recorded …
//!   upload.write(bytes)           … which uses these bytes
//!   timeline.submitted(frame)     the submission will signal frame.value()
//!   drop(buffer)                  retired: kept until the frames begun so far are complete
//!   reclaim()                     once a frame: frees retired objects that are complete
//! ```
//!
//! Begin with the chapter [First hour](guide::first_hour), eight programs on Vulkan. [The guide](guide) has a chapter
//! for each task, tables that translate the names of [other allocators](guide::porting), [pitfalls and
//! questions](guide::pitfalls), and a [glossary](guide::glossary).
//!
//! # The twenty types
//!
//! | type | purpose |
//! |---|---|
//! | [`Allocator`] | creates buffers and textures, and frees them once the GPU has finished with them |
//! | [`AllocatorDesc`] | settings of an allocator: block sizes, limits, debugging |
//! | [`AllocationDesc`] | settings of a request: location, name, priority |
//! | [`Location`] | location of the bytes: device, upload, readback or device upload memory |
//! | [`Dedicated`] | choice between dedicated memory and a range of a block |
//! | [`Buffer`] | a buffer with its memory; after a drop, it is freed once the GPU has finished with it |
//! | [`Texture`] | a texture with its memory |
//! | [`SmallBuffer`] | a range of a driver buffer that many small buffers share |
//! | [`Pool`] | blocks for some resources, with their own algorithm and limits |
//! | [`Timeline`] | the progress of a queue: one fence, or timeline semaphore, with increasing values |
//! | [`Frame`] | a submission that is being recorded |
//! | [`SyncPoint`] | a timeline and the value that it must reach |
//! | [`UploadRing`] | mapped bytes that the GPU reads once |
//! | [`UploadBatch`] | copies to buffers and textures, recorded together |
//! | [`ReadbackRing`] | bytes that the GPU writes and the host reads |
//! | [`ConstantBuffers`] | constants that change in each frame or rarely |
//! | [`FastConstants`] | constants of one draw; a write takes a few nanoseconds |
//! | [`ShaderVisibleHeap`] | descriptors that shaders read |
//! | [`BindlessTable`] | one descriptor for each resource, which shaders access by index |
//! | [`TransientAllocator`] | resources of a frame that share memory |
//!
//! The modules [`vulkan`], `d3d12` and [`sim`] have an alias of each generic type for their device.
//!
//! | module | contents |
//! |---|---|
//! | [`memory`] | statistics, snapshots, budgets, plans of requests, errors |
//! | [`lifetime`] | sets of sync points, deferred release, replacement of resources in use |
//! | [`upload`] | descriptions and errors of rings, batches, readback and constants; the transfer queue |
//! | [`descriptor`] | views, CPU-only heaps, tables of a frame, samplers |
//! | [`transient`] | passes, barriers and handles of aliased resources |
//! | [`placement`] | an engine's policy, which assigns each request to a pool |
//! | [`commands`] | fills, clears, copies of boxes, resolves and mip levels |
//! | [`contents`] | vectors and meshes in buffers of the device, texture files |
//! | [`defrag`] | compaction in bounded [passes](defrag::DefragPass) |
//! | [`paging`] | resources that leave the device while they are not used |
//! | [`residency`] | eviction from device memory if the budget is too small |
//! | [`sharing`] | memory shared with other processes and APIs |
//! | [`sparse`] | buffers and textures with memory bound page by page |
//! | [`debugging`] | memory guards, fill patterns, reports of leaks, a history of events |
//! | [`trace`] | recordings of all events |
//! | [`device`] | descriptions of resources, formats, capabilities; the contract of a device, and a guide to implement one (crate `ringfence-hal`) |
//! | [`alias`] | plans of offsets for known lifetimes (crate `ringfence-alias`) |
//! | [`algorithms`] | range allocators and rings over plain numbers |
//! | [`vulkan`], `d3d12`, [`sim`] | the two backends and the simulated GPU, each behind the feature of the same name |
//!
//! | feature | adds |
//! |---|---|
//! | `transient` (default) | the modules [`transient`] and [`alias`] |
//! | `placement` (default) | the module [`placement`] |
//! | `contents` | the module `contents` (vectors and meshes on the device), and reads and writes of slices of plain values (crate `bytemuck`) |
//! | `ktx2`, `dds`, `image` | `contents::TextureData` from files of these kinds, and from images of the crate `image` |
//! | `commands` | the module `commands` (commands on data, recorded with their barriers) |
//! | `paging` | the module `paging` (more resources than the device has memory) |
//! | `vulkan` | the backend over `ash` |
//! | `d3d12` | the backend over `windows`; has no effect on other systems than Windows |
//! | `sim` | the simulated GPU with its hazard detection, mostly for the tests of programs |
//! | `serde` | serialization of snapshots and statistics, for example as JSON |
//! | `tracing` | spans and events of the crate `tracing` for slow driver calls, waits and failures |
//!
//! # Threads
//!
//! All threads may use allocators, timelines and rings at the same time. There is no lock for the whole allocator: each
//! memory type and resource class has its own locks. The locks that an allocation in an existing block takes are never
//! held during a driver call. On NVIDIA's Vulkan driver, the backend lets only one thread at a time create or destroy
//! buffers and images.
//!
//! No lock is held while the library calls the program's code, except the program's global allocator. The global
//! allocator may drop handles of the library within any host allocation, but must not call anything else of the
//! library. If such a drop needs a lock, and the thread already holds a lock of the library, the drop takes effect
//! after the thread has released its locks.
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

#[cfg(any(doc, doctest))]
mod chapters;
#[cfg(any(doc, doctest))]
pub use chapters::guide;

mod modules;

#[cfg(any(feature = "vulkan", all(windows, feature = "d3d12"), feature = "sim"))]
#[macro_use]
mod native;

#[cfg(all(windows, feature = "d3d12"))]
pub mod d3d12;
#[cfg(doctest)]
mod impossible;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(feature = "vulkan")]
pub mod vulkan;

#[cfg(feature = "placement")]
#[doc(inline)]
pub use ringfence_placement::FastConstants;
#[cfg(feature = "transient")]
#[doc(inline)]
pub use ringfence_transient::TransientAllocator;
#[doc(inline)]
pub use {
    ringfence_core::sync::SyncPoint,
    ringfence_descriptor::{BindlessTable, ShaderVisibleHeap},
    ringfence_memory::{
        AllocationDesc, Allocator, AllocatorDesc, Buffer, Dedicated, Frame, Location, Pool, SmallBuffer, Texture,
        Timeline,
    },
    ringfence_upload::{ConstantBuffers, ReadbackRing, UploadBatch, UploadRing},
};

#[cfg(feature = "placement")]
pub use modules::placement;
#[cfg(feature = "transient")]
pub use modules::transient;
pub use modules::{algorithms, descriptor, lifetime, memory, upload};
#[cfg(feature = "transient")]
pub use ringfence_alias as alias;
#[cfg(feature = "commands")]
#[doc(inline)]
pub use ringfence_commands as commands;
#[cfg(feature = "contents")]
#[doc(inline)]
pub use ringfence_contents as contents;
pub use ringfence_hal as device;
#[doc(inline)]
pub use ringfence_memory::{debugging, defrag, residency, sharing, trace};
#[cfg(feature = "paging")]
#[doc(inline)]
pub use ringfence_paging as paging;
#[doc(inline)]
pub use ringfence_sparse as sparse;
