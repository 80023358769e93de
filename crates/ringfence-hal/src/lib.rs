//! The interface between Ringfence's policy and a graphics API: the traits that a device implements, what is passed
//! through them (descriptions, formats, capabilities, errors), and a fault injector as middleware.
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
//! | trait | methods without a default | for |
//! |---|---|---|
//! | [`Driver`] | 8: capabilities, allocate and free, flush and read back, completed and wait, budgets | all |
//! | [`Create<Buffers>`](Create) | 8: raw, describe, prepare, discard, place, dedicate, destroy, set_name | all |
//! | [`Create<Textures>`](Create) | the same 8 | all |
//! | [`record::Record`], on a command list | 6 | uploads, read-back, moves of resources |
//! | [`descriptors::Descriptors`] | 11 | descriptor heaps |
//! | [`sharing::Share`] | 3 | memory that other processes see |
//! | [`sparse::Sparse`] | 6 | sparse buffers and textures |
//!
//! [`Device`] follows from the first three rows. The traits are `unsafe` to implement, since the library hands out the
//! memory that a device reports as mapped; [`record::Record`] alone is not, as only its methods are `unsafe`.
//! Middleware wraps a device and forwards: one generic `impl<K: Kind, D: Create<K>> Create<K> for Wrapper<D>` covers
//! buffers and textures.
//!
//! A device that has locks of its own uses [`lock::Lock`]: a global allocator of the program's may drop objects of the
//! library within a host allocation, and those drops wait until the thread holds no such lock.
//!
//! # Cost
//!
//! A device is a type parameter of the library, so a call through these traits is a direct call, which may be inlined.
//! Nothing here allocates host memory but [`Capabilities`], once a device, and [`HeapBudgets`] beyond 16 heaps. A
//! [`FaultInjector`](fault::FaultInjector) takes a lock for each call that can fail.
//!
//! # Life of a resource
//!
//! ```text
//!   info ──prepare──▶ Unplaced + Requirements ──┬─place(memory, offset)──▶ Placed<Object> ──destroy──▶
//!                        │                      └─dedicate(type)─────────▶ Placed<Object> + Memory
//!                        └─discard──▶
//! ```
//!
//! Vulkan makes the object in `prepare` and binds it in `place`; Direct3D 12 measures in `prepare` and makes the object
//! in `place`. The policy above sees no difference.
//!
//! ```
//! use ringfence_hal::{BufferDesc, BufferUsage, Buffers, Create, DeviceError, Driver, MemoryDesc, Priority};
//!
//! /// A buffer of 4 KiB with memory of its own, used and destroyed.
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
//!     // SAFETY: no work uses the buffer, and nothing else lies in the memory.
//!     unsafe {
//!         device.destroy(placed.object);
//!         device.free_memory(memory);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Any device will do: `ringfence_sim::Device` is one without a GPU.

mod api_result;
mod capabilities;
pub mod descriptors;
mod device;
mod error;
pub mod fault;
mod format;
mod kind;
pub mod lock;
mod memory;
pub mod record;
mod region;
pub mod sharing;
pub mod sparse;
mod usage;

pub use api_result::{Api, ApiResult};
pub use capabilities::{
    Capabilities, HeapBudget, HeapBudgets, MemoryHeap, MemoryPriority, MemoryProperties, MemoryType, Priority,
    ResourceClass,
};
pub use device::{BufferInfo, Create, Device, Driver, InfoKey, RawBuffer, RawTexture, TextureInfo};
pub use error::{DeviceError, Numbers, Reason};
pub use format::{Format, TexelFormat, TextureAspect};
pub use kind::{BufferDesc, Buffers, ClearValue, Dimension, Kind, TextureDesc, Textures};
pub use memory::{Mapped, MemoryDesc, Placed, Requirements};
pub use region::{TexelBox, TexelError, check as check_texels};
pub use usage::{BufferUsage, TextureUsage};
