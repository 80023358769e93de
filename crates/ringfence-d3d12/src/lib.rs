//! Direct3D 12 as a device for Ringfence, over the `windows` crate: it implements the traits of `ringfence-hal`,
//! without policy.
//!
//! ```text
//!   ringfence-hal       Direct3D 12
//!   ─────────────────   ──────────────────────────────────────────────────────────────────────
//!   memory type         heap type: DEFAULT, UPLOAD, READBACK, GPU_UPLOAD where the device has it
//!   memory heap         DXGI segment group: local, non-local; one of both on a unified memory
//!   Memory              ID3D12Heap; nothing for a committed resource, which brings its own
//!   prepare             GetResourceAllocationInfo
//!   place, dedicate     CreatePlacedResource, CreateCommittedResource
//!   mapped              the resource's Map: buffers in host-visible types, for their whole life
//!   Fence               ID3D12Fence
//! ```
//!
//! What newer runtimes add is queried once, in `Features`, and used where it is there; nothing beyond
//! `ID3D12Device` and feature level 11.0 is needed.
//!
//! The `windows` crate is taken in a range of versions, so that it is the engine's own; the objects of this crate's
//! interface are that crate's.
//!
//! Off Windows this crate is empty.

#![cfg(windows)]

mod backing;
mod capabilities;
mod describe;
mod descriptor;
mod device;
mod driver;
mod error;
mod event;
mod info;
mod measure;
mod memory;
mod record;
mod resource;
mod sharing;
mod sparse;

pub use self::backing::{Backing, backing};
pub use self::capabilities::Features;
pub use self::describe::{Shape, texel_format};
pub use self::descriptor::{DescriptorHeap, View, cpu_handle, gpu_handle};
pub use self::device::Device;
pub use self::info::ResourceInfo;
pub use self::memory::Memory;
pub use self::record::CopyRecorder;
pub use self::sharing::ShareHandle;
