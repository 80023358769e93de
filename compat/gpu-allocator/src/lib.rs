//! Ringfence under the names of the crate `gpu-allocator` 0.28. Programs that allocate through that crate, above all
//! wgpu, use Ringfence's allocator instead after one line:
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
//!   pool: the live allocations and their names
//!      ▼
//!   ringfence::Allocator::{allocate, allocate_for}, Allocation::destroy_now
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`vulkan`] | over `ash` 0.38, on any version of Vulkan |
//! | `d3d12` | over `windows`, with custom heaps for memory that the host maps |
//! | this one | locations, sizes, settings, errors, reports |
//!
//! The README lists the omitted parts, with reasons.

#![cfg_attr(
    not(any(feature = "vulkan", all(windows, feature = "d3d12"))),
    allow(dead_code, reason = "code that both backends share is unused if neither is built")
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

/// Preferred location of memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MemoryLocation {
    /// The first memory type in the driver's order.
    Unknown,
    /// Device memory without host access.
    GpuOnly,
    /// Written by the host, read by the device.
    CpuToGpu,
    /// Written by the device, read by the host.
    GpuToCpu,
}

/// Logging settings; messages go through the crate `log`.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct AllocatorDebugSettings {
    /// Logs the device's memory types and heaps when an allocator is created; level debug.
    pub log_memory_information: bool,
    /// Logs the live allocations when the allocator is dropped; level warn.
    pub log_leaks_on_shutdown: bool,
    /// Stores a stack trace of each allocation and logs it with leaks. Expensive.
    #[cfg(feature = "std")]
    pub store_stack_traces: bool,
    /// Logs each allocation; level debug.
    pub log_allocations: bool,
    /// Logs each free; level debug.
    pub log_frees: bool,
    /// Adds stack traces to these two.
    #[cfg(feature = "std")]
    pub log_stack_traces: bool,
}

impl Default for AllocatorDebugSettings {
    /// Logs only leaks.
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
