//! The Vulkan backend, over [`ash`].
//!
//! ```text
//!   ash::Instance ─┐
//!   vk::PhysicalDevice ─┼─▶ vulkan::Device ──▶ Memory      VkDeviceMemory, mapped for its whole life
//!   ash::Device ───┘            │  │
//!                               │  └──────────▶ vk::Buffer, vk::Image, bound to a Memory
//!                               └─────────────▶ vk::Semaphore (timeline) is read, never made
//! ```
//!
//! It opens no instance and no device, and submits nothing: those are the program's. It needs Vulkan 1.2, for timeline
//! semaphores, and holds no lock and no policy. What it cannot read from the driver stands in [`DeviceDesc`]. Programs
//! that make and place their resources themselves get memory on any Vulkan: [`Device::for_memory`].
//!
//! Not served: disjoint (multi-planar) images. Make those by hand, beside Ringfence.

mod buffer;
mod capabilities;
mod desc;
mod descriptor;
mod device;
mod driver;
mod error;
mod external;
mod features;
mod heaps;
mod image;
mod info;
mod memory;
mod naming;
mod record;
mod share_support;
mod sharing;
mod sparse;
mod valid;

pub use capabilities::{budgets, capabilities};
pub use desc::DeviceDesc;
pub use descriptor::{Bound, DescriptorHeap, Leftover, PlainViews, View};
pub use device::Device;
pub use error::device_error;
pub use external::ShareHandle;
pub use features::Features;
pub use image::texel_format;
pub use info::{BufferInfo, TextureInfo};
pub use memory::Memory;
pub use record::CopyRecorder;
