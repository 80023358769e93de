//! The state of an allocator's memory at one moment, as plain data for reports, searches for leaks, and tests.

mod descriptors;

use crate::statistics::{DriverCalls, TypeStatistics};

pub use descriptors::{DescriptorSnapshot, region};

/// The state of an allocator's memory at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Snapshot {
    /// Version of the snapshot's format: 1.
    pub version: u32,
    /// Name of the device.
    pub device: String,
    /// Memory heaps.
    pub heaps: Vec<HeapSnapshot>,
    /// Memory types.
    pub types: Vec<TypeSnapshot>,
    /// Blocks and dedicated memory objects.
    pub blocks: Vec<BlockSnapshot>,
    /// Upload rings, readback rings and pages of constants.
    pub rings: Vec<RingSnapshot>,
    /// Regions of descriptor heaps.
    #[cfg_attr(feature = "serde", serde(default))]
    pub descriptors: Vec<DescriptorSnapshot>,
    /// Number of objects that wait for the device before they are destroyed.
    pub retired_count: u64,
    /// Numbers of driver calls, and of requests that needed none.
    pub calls: DriverCalls,
}

/// A memory heap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HeapSnapshot {
    /// Size of the heap, in bytes.
    pub bytes: u64,
    /// `true` if the heap is device-local.
    pub device_local: bool,
    /// Size of this allocator's memory objects in the heap, in bytes.
    pub reserved_bytes: u64,
    /// Usage of the heap by the process, in bytes; `None` if the driver does not report it.
    pub usage_bytes: Option<u64>,
    /// Budget of the process in the heap, in bytes; `None` if the driver does not report it.
    pub budget_bytes: Option<u64>,
}

/// A memory type.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TypeSnapshot {
    /// Index of the heap of this memory type.
    pub heap: u32,
    /// Names of the properties of this memory type.
    pub properties: Vec<String>,
    /// Use of the memory type.
    pub statistics: TypeStatistics,
}

/// A memory object of the driver.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct BlockSnapshot {
    /// Number of the block, the same as in a trace. Blocks are numbered from 1 in the order in which they are requested
    /// from the driver; numbers can be missing.
    #[cfg_attr(feature = "serde", serde(default))]
    pub number: u64,
    /// Index of the block's memory type.
    pub memory_type: u32,
    /// Class of the block's resources: `buffers`, `textures`, `render targets` or `all`.
    pub class: String,
    /// Name of the block's custom pool, or empty.
    #[cfg_attr(feature = "serde", serde(default))]
    pub pool: String,
    /// `true` if the block is dedicated memory of a resource that is in use.
    pub dedicated: bool,
    /// Size of the block, in bytes.
    pub bytes: u64,
    /// Ranges in use, in the order of their offsets. The gaps between them are free.
    pub ranges: Vec<RangeSnapshot>,
}

impl BlockSnapshot {
    /// Returns the number of free bytes, which are the bytes outside all ranges.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.ranges.iter().fold(self.bytes, |free, range| free.saturating_sub(range.bytes))
    }
}

/// A range of a block that is in use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RangeSnapshot {
    /// Offset of the range in its block, in bytes.
    pub offset: u64,
    /// Size of the range, in bytes.
    pub bytes: u64,
    /// Name that the owner of the range has set, or empty.
    pub name: String,
    /// The `user_data` that the owner of the range has set, or 0.
    #[cfg_attr(feature = "serde", serde(default))]
    pub user_data: u64,
}

/// State of an upload ring, a readback ring or a set of pages for constants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RingSnapshot {
    /// Name of the ring.
    pub name: String,
    /// Capacity of the ring, in bytes.
    pub capacity_bytes: u64,
    /// Number of bytes in use, including padding. Bytes are in use until the device has finished with them.
    pub used_bytes: u64,
    /// Highest value of `used_bytes` so far.
    pub high_water_bytes: u64,
    /// Number of submissions with bytes in use.
    pub submission_count: u64,
    /// Number of times that the ring waited for the device.
    pub wait_count: u64,
    /// Total time of these waits, in nanoseconds.
    pub wait_ns: u64,
    /// Number of bytes that were written so far.
    pub written_bytes: u64,
    /// Number of times that the buffer of the ring was replaced by a larger one.
    pub grow_count: u64,
    /// Number of times that the buffer of the ring was replaced by a smaller one, because it was mostly unused for a
    /// long time.
    pub shrink_count: u64,
}
