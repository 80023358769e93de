//! The interface between Ringfence's policy and a graphics API: the traits that a device implements, the types that
//! they use (descriptions, formats, capabilities, errors), and a fault injector as middleware.
//!
//! ```text
//!   ringfence ── policy: which memory type, which block, which range, when it is freed
//!     │
//!     ▼
//!   Device = Driver (memory, fences) + Create<Buffers> + Create<Textures>      mechanism only: one API call at a time
//!     │
//!     ├── ringfence_vulkan::Device    over ash
//!     ├── ringfence_d3d12::Device     over windows
//!     ├── ringfence_sim::Device       a GPU in software that runs late and finds hazards
//!     └── fault::FaultInjector<D>     middleware: fails the calls to D that a test chooses
//! ```
//!
//! # Your own device
//!
//! | trait | methods without a default | needed for |
//! |---|---|---|
//! | [`Driver`] | 9: capabilities, format_support, allocate and free, flush and read back, completed and wait, budgets | every program |
//! | [`Create<Buffers>`](Create) | 8: raw, describe, prepare, discard, place, dedicate, destroy, set_name | every program |
//! | [`Create<Textures>`](Create) | the same 8 | every program |
//! | [`record::Record`], on a command list | 6 | uploads, read-back, moves of resources |
//! | [`transfer::Transfer`], on a command list, and [`transfer::TransferSupport`] | 6 and 7 | fills, clears, copies of boxes, resolves, mip levels |
//! | [`descriptors::Descriptors`] | 11 | descriptor heaps |
//! | [`sharing::Share`] | 3 | memory that is shared with other processes |
//! | [`sparse::Sparse`] | 6 | sparse buffers and textures |
//!
//! Types that implement the traits of the first three rows implement [`Device`] through a blanket implementation.
//! [`Driver`], [`Create`] and the three optional traits at the end of the table are `unsafe` to implement: the library
//! gives users access to the memory that a device reports as mapped. The other traits are safe to implement. Middleware
//! wraps a device and forwards each call: one generic `impl<K: Kind, D: Create<K>> Create<K> for Wrapper<D>` covers
//! buffers and textures.
//!
//! If a device needs its own locks, it must use [`lock::Lock`], because the program's global allocator may drop objects
//! of the library inside a host allocation. If the thread holds a [`lock::Lock`], these drops are deferred until the
//! thread holds none.
//!
//! # Cost
//!
//! A device is a type parameter of the library, so a call through these traits is a direct call and can be inlined.
//! This crate allocates host memory only for [`Capabilities`] (once for each device), for [`HeapBudgets`] of more than
//! 16 heaps, for deferred work ([`lock::defer`]), and for a [`FaultInjector`](fault::FaultInjector). The fault injector
//! takes a lock for each call that its rules can fail ([`fault::Call`]).
//!
//! # Life of a resource
//!
//! ```text
//!   info ──prepare──▶ Unplaced + Requirements ──┬─place(memory, offset)──▶ Placed<Object> ──destroy──▶
//!                        │                      └─dedicate(type)─────────▶ Placed<Object> + Memory
//!                        └─discard──▶
//! ```
//!
//! The Vulkan device creates the object in `prepare` and binds it in `place`. The Direct3D 12 device only queries the
//! requirements in `prepare`, and creates the object in `place`. The policy is the same for both.
//!
//! ```
//! use ringfence_hal::{BufferDesc, BufferUsage, Buffers, Create, DeviceError, Driver, MemoryDesc, Priority};
//!
//! /// Creates a buffer of 4 KiB with dedicated memory and destroys it.
//! fn dedicated<D>(device: &D) -> Result<(), DeviceError>
//! where
//!     D: Driver + Create<Buffers>,
//! {
//!     let info = device.describe(&BufferDesc { size: 4096, usage: BufferUsage::COPY_DST })?;
//!     // SAFETY: the device described `info` itself.
//!     let (unplaced, needs) = unsafe { device.prepare(&info) }?;
//!     let desc = MemoryDesc {
//!         memory_type: needs.memory_type_bits.trailing_zeros(),
//!         size: needs.size,
//!         alignment: needs.alignment,
//!         class: needs.class,
//!         priority: Priority::Normal,
//!         name: "an example",
//!         share: None,
//!     };
//!     // SAFETY: the requirements allow the description, and `unplaced` is not used again.
//!     let (placed, memory) = unsafe { device.dedicate(&unplaced, &desc) }?;
//!     // SAFETY: no work uses the buffer, and no other resource is placed in the memory.
//!     unsafe {
//!         device.destroy(placed.object);
//!         device.free_memory(memory);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! The example works with any device. `ringfence_sim::Device` needs no GPU.

mod api_result;
mod capabilities;
mod describe;
pub mod descriptors;
mod device;
mod error;
pub mod fault;
mod format;
mod format_support;
mod kind;
pub mod lock;
mod memory;
pub mod record;
mod region;
pub mod sharing;
pub mod sparse;
pub mod transfer;
mod usage;

pub use api_result::{Api, ApiResult};
pub use capabilities::{
    Capabilities, HeapBudget, HeapBudgets, MemoryHeap, MemoryPriority, MemoryProperties, MemoryType, Priority,
    ResourceClass, common_alignment,
};
pub use describe::{Describe, Native};
pub use device::{BufferInfo, Create, Device, Driver, InfoKey, RawBuffer, RawTexture, TextureInfo};
pub use error::{DeviceError, Numbers, Reason};
pub use format::{ChannelKind, Format, FormatSet, TexelFormat, TextureAspect};
pub use format_support::{FormatSupport, FormatUses};
pub use kind::{BufferDesc, Buffers, ClearValue, Dimension, Kind, TextureDesc, Textures};
pub use memory::{Mapped, MemoryDesc, Placed, Requirements};
pub use region::{TexelBox, TexelError, check as check_texels};
pub use usage::{BufferUsage, TextureUsage};

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
