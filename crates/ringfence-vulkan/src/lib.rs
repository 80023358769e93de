//! Vulkan as a device for Ringfence, over [`ash`].
//!
//! ```text
//!   ash::Instance ──────┐
//!   vk::PhysicalDevice ─┼─▶ Device ──▶ Memory                  VkDeviceMemory, mapped for its whole life
//!   ash::Device ────────┘     │ └────▶ vk::Buffer, vk::Image   bound to a Memory
//!                             └──────▶ vk::Semaphore           a timeline: read, never made
//! ```
//!
//! It makes no instance and no device: those are the program's. It submits nothing but the binding of sparse memory. It
//! needs Vulkan 1.2, for timeline semaphores. It has no policy. Its locks are those of its descriptor heaps, and one for
//! NVIDIA's driver: several threads take turns there to create and destroy buffers and images, since that driver is
//! slower when they call it at once. A thread waits at most 10 ms for its turn.
//!
//! What Vulkan does not report is in [`DeviceDesc`]. Programs that make and bind their resources themselves can have
//! memory on any Vulkan: [`Device::for_memory`].
//!
//! ```no_run
//! use ringfence_vulkan::{Device, DeviceDesc, Features};
//!
//! # fn wrap(instance: &ash::Instance, physical: ash::vk::PhysicalDevice, device: ash::Device) {
//! let features = Features::BUFFER_DEVICE_ADDRESS | Features::MEMORY_PRIORITY;
//! // SAFETY: the handles belong together and outlive `device`, timeline semaphores and the features are enabled.
//! let device = unsafe { Device::new(instance, physical, device, DeviceDesc { features, ..Default::default() }) };
//! # }
//! ```
//!
//! Not supported: disjoint (multi-planar) images. The program makes those itself, beside Ringfence.

mod buffer;
mod capabilities;
mod chained;
mod counted;
mod desc;
mod descriptor;
mod device;
mod driver;
mod error;
mod external;
mod features;
mod formats;
mod heaps;
mod image;
mod image_support;
mod info;
mod memory;
mod naming;
mod objects;
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
pub use formats::texel_format;
pub use info::{BufferInfo, TextureInfo};
pub use memory::Memory;
pub use record::CopyRecorder;
