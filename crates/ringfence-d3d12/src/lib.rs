//! The Direct3D 12 device of Ringfence, over the `windows` crate. It implements the traits of `ringfence-hal` and
//! contains no policy.
//!
//! ```text
//!   ringfence-hal       Direct3D 12
//!   ─────────────────   ──────────────────────────────────────────────────────────────────────
//!   memory type         heap type: DEFAULT, UPLOAD, READBACK; GPU_UPLOAD if the device has it
//!   memory heap         DXGI segment group: local, non-local; one heap for both with unified memory
//!   Memory              ID3D12Heap; no heap for a committed resource, which has its own memory
//!   prepare             GetResourceAllocationInfo
//!   place, dedicate     CreatePlacedResource, CreateCommittedResource
//!   mapped              the resource's Map: buffers in host-visible types, for their whole lifetime
//!   Fence               ID3D12Fence
//! ```
//!
//! The features of newer runtimes are queried once, in `Features`, and used if they are available. Only `ID3D12Device`
//! and feature level 11.0 are required.
//!
//! Objects in this crate's interface are types of the `windows` crate. This crate accepts a range of versions of the
//! `windows` crate, so a program can use its own version.
//!
//! On systems other than Windows this crate is empty.

#![cfg(windows)]

mod backing;
mod capabilities;
mod describe;
mod descriptor;
mod device;
mod driver;
mod error;
mod event;
mod format_support;
mod info;
mod measure;
mod memory;
mod record;
mod resource;
mod sharing;
mod sparse;

pub use self::backing::{Backing, backing};
pub use self::capabilities::Features;
pub use self::describe::{NativeKind, format, portable_format, texel_format};
pub use self::descriptor::{DescriptorHeap, View, cpu_handle, gpu_handle};
pub use self::device::Device;
pub use self::info::ResourceInfo;
pub use self::memory::Memory;
pub use self::record::CopyRecorder;
pub use self::sharing::ShareHandle;

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
