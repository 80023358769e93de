//! Ringfence manages GPU memory, descriptors and their lifetimes.
#![warn(missing_docs)]

#[cfg(all(windows, feature = "d3d12"))]
pub mod d3d12;
pub mod descriptor;
pub mod device;
mod error;
pub mod lifetime;
pub mod memory;
mod resource;
pub mod upload;
#[cfg(feature = "vulkan")]
pub mod vulkan;

pub use device::sim;
pub use error::{AccessError, Error};
pub use lifetime::{Frame, FrameError, Timeline};
pub use memory::{Allocator, AllocatorDesc, Location, Reclaimed};
pub use resource::{AllocationDesc, Buffer, Dedicated, RawObject, Resource, ResourceKind, Texture};
pub use ringfence_core as core;
pub use ringfence_core::sync::{SyncPoint, SyncSet, TimelineId};
pub use upload::{Staged, UploadDesc, UploadError, UploadRing, WhenFull};
