//! Ringfence under the names of the crate `gpu-allocator` 0.28, so that programs that allocate through that one, wgpu
//! first of all, take Ringfence's allocator with one line:
//!
//! ```toml
//! [patch.crates-io]
//! gpu-allocator = { git = "https://github.com/ringfence-rs/ringfence" }
//! ```
//!
//! ```text
//!   wgpu-hal, or any user of gpu-allocator 0.28
//!      │ vulkan::Allocator, d3d12::Allocator          the same paths, names and signatures
//!      ▼
//!   memory type: the first in the driver's order that has the flags of the location
//!      ▼
//!   pool: which allocation is where, under which name
//!      ▼
//!   ringfence::Allocator::{allocate, allocate_for}, Allocation::destroy_now
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`vulkan`] | over `ash` 0.38, on any version of Vulkan |
//! | `d3d12` | over `windows`, with custom heaps for what the host maps |
//! | this one | locations, sizes, settings, errors, reports |
//!
//! What is left out, and why, stands in the README.

#![cfg_attr(
    not(any(feature = "vulkan", all(windows, feature = "d3d12"))),
    allow(dead_code, reason = "what both backends share has no user where neither is built")
)]

mod error;
mod pool;
mod report;
mod sizes;

#[cfg(all(windows, feature = "d3d12"))]
pub mod d3d12;
#[cfg(feature = "vulkan")]
pub mod vulkan;

pub use error::{AllocationError, Result};
pub use report::{AllocationReport, AllocatorReport, MemoryBlockReport};
pub use sizes::AllocationSizes;

/// The examples of the README, compiled as tests.
#[cfg(all(doctest, feature = "vulkan"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// Where memory should be.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MemoryLocation {
    /// Wherever the driver's first type is.
    Unknown,
    /// Near the device; the host does not reach it.
    GpuOnly,
    /// Written by the host, read by the device.
    CpuToGpu,
    /// Written by the device, read by the host.
    GpuToCpu,
}

/// What is logged, through the crate `log`.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct AllocatorDebugSettings {
    /// The device's memory types and heaps, when an allocator is made; level debug.
    pub log_memory_information: bool,
    /// What is still allocated when the allocator is dropped; level warn.
    pub log_leaks_on_shutdown: bool,
    /// A stack trace is kept of each allocation, and shown with leaks. Costs much.
    #[cfg(feature = "std")]
    pub store_stack_traces: bool,
    /// Each allocation; level debug.
    pub log_allocations: bool,
    /// Each free; level debug.
    pub log_frees: bool,
    /// With those two, stack traces.
    #[cfg(feature = "std")]
    pub log_stack_traces: bool,
}

impl Default for AllocatorDebugSettings {
    /// Leaks alone.
    fn default() -> Self {
        Self {
            log_memory_information: false,
            log_leaks_on_shutdown: true,
            #[cfg(feature = "std")]
            store_stack_traces: false,
            log_allocations: false,
            log_frees: false,
            #[cfg(feature = "std")]
            log_stack_traces: false,
        }
    }
}

impl AllocatorDebugSettings {
    #[cfg(feature = "std")]
    pub(crate) fn stores_traces(&self) -> bool {
        self.store_stack_traces
    }

    #[cfg(feature = "std")]
    pub(crate) fn logs_traces(&self) -> bool {
        self.log_stack_traces
    }

    #[cfg(not(feature = "std"))]
    pub(crate) fn stores_traces(&self) -> bool {
        false
    }

    #[cfg(not(feature = "std"))]
    pub(crate) fn logs_traces(&self) -> bool {
        false
    }
}
