//! A Vulkan device for Ringfence, over [`ash`].
//!
//! ```text
//!   ash::Instance ──────┐
//!   vk::PhysicalDevice ─┼─▶ Device ──▶ Memory                  VkDeviceMemory, mapped if it is host-visible
//!   ash::Device ────────┘     │ └────▶ vk::Buffer, vk::Image   bound to a Memory
//!                             └──────▶ vk::Semaphore           a timeline semaphore of the program
//! ```
//!
//! The program creates the instance and the device. This crate submits only the binding of sparse memory, and contains
//! no policy. Resources need Vulkan 1.2, for timeline semaphores. The crate has locks for its descriptor heaps, and one
//! lock for NVIDIA's driver: that driver is slower if several threads create or destroy buffers and images at once.
//! With that driver, threads make these calls one after the other; a thread that has waited 10 ms makes its call
//! without waiting longer.
//!
//! [`DeviceDesc`] lists the enabled features, which Vulkan does not report. [`Device::for_memory`] works with any
//! version of Vulkan, for programs that create and bind their resources themselves.
//!
//! ```no_run
//! use ringfence_vulkan::{Device, DeviceDesc, Features};
//!
//! # fn wrap(instance: &ash::Instance, physical: ash::vk::PhysicalDevice, device: ash::Device) {
//! let features = Features::BUFFER_DEVICE_ADDRESS | Features::MEMORY_PRIORITY;
//! // SAFETY: the handles belong together and outlive `device`. Timeline semaphores and the features are enabled.
//! let device = unsafe { Device::new(instance, physical, device, DeviceDesc { features, ..Default::default() }) };
//! # }
//! ```
//!
//! Disjoint images (with separate memory for each plane) are not supported. The program must create them itself.

mod buffer;
mod capabilities;
mod create_lock;
mod desc;
mod descriptor;
mod device;
mod driver;
mod error;
mod external;
mod features;
mod format_support;
mod formats;
mod image;
mod image_support;
mod info;
mod memory;
mod naming;
mod object_limits;
mod plain_heaps;
mod pnext_chain;
mod record;
mod setup;
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
pub use formats::{format, portable_format, texel_format};
pub use info::{BufferInfo, TextureInfo};
pub use memory::Memory;
pub use record::CopyRecorder;
pub use setup::DeviceSetup;

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
