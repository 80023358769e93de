//! What Ringfence asks of a device, and how to bring your own.
//!
//! ```text
//!   memory ── policy: which type, which block, which range, when it comes back
//!     │
//!     ▼
//!   Device = Driver (memory, fences) + Create<Buffers> + Create<Textures>      mechanism only, no policy
//!     │
//!     ├── vulkan::Device      ash
//!     ├── sim::Device         a GPU in software that runs late and finds hazards
//!     └── fault::FaultInjector<D>  middleware: fails the calls to D that a test chooses
//! ```
//!
//! # Your own device
//!
//! Implement [`Driver`] and [`Create`] for both kinds; [`Device`] follows. Middleware wraps a device and forwards: one
//! generic `impl<K: Kind, D: Create<K>> Create<K> for Wrapper<D>` covers both kinds. The traits are `unsafe` to
//! implement, since the library hands out the memory that a device says it has mapped.
//!
//! # Life of a resource
//!
//! ```text
//!   info ──prepare──▶ Unplaced + Requirements ──┬─place(memory, offset)──▶ Placed<Object> ──destroy──▶
//!                        │                      └─dedicate(type)─────────▶ Placed<Object> + Memory
//!                        └─discard──▶
//! ```
//!
//! Vulkan makes the object in `prepare` and binds it in `place`; Direct3D 12 asks for sizes in `prepare` and makes the
//! object in `place`. The policy above sees no difference.

mod capabilities;
pub mod descriptors;
mod device;
mod error;
pub mod fault;
mod format;
mod hresult;
mod kind;
mod memory;
pub mod record;
mod region;
pub mod sharing;
pub mod sparse;
mod usage;
mod vk_result;

pub use capabilities::{
    Capabilities, HeapBudget, HeapBudgets, MemoryHeap, MemoryPriority, MemoryProperties, MemoryType, Priority,
    ResourceClass,
};
pub use device::{BufferInfo, Create, Device, Driver, InfoKey, RawBuffer, RawTexture, TextureInfo};
pub use error::DeviceError;
pub use format::{Format, TexelFormat, TextureAspect};
pub use hresult::Hresult;
pub use kind::{BufferDesc, Buffers, ClearValue, Dimension, Kind, TextureDesc, Textures};
pub use memory::{Mapped, MemoryDesc, Placed, Requirements};
pub use region::{CopyRules, TexelBox, TexelError, check as check_texels};
pub use usage::{BufferUsage, TextureUsage};
pub use vk_result::VkResult;
