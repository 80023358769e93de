//! Content of memory at one moment, as plain data for reports, leak hunts and tests.

mod descriptors;

use crate::statistics::{DriverCalls, TypeStatistics};

pub use descriptors::{DescriptorSnapshot, region};

/// The whole state of an allocator.
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
    /// Calls to the driver.
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
    /// Usage of the heap by the process according to the driver, in bytes.
    pub usage_bytes: Option<u64>,
    /// Budget of the process in the heap according to the driver, in bytes.
    pub budget_bytes: Option<u64>,
}

/// A memory type.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TypeSnapshot {
    /// Index of its heap.
    pub heap: u32,
    /// Names of its properties.
    pub properties: Vec<String>,
    /// Use of the memory type.
    pub statistics: TypeStatistics,
}

/// A memory object of the driver.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct BlockSnapshot {
    /// Number of the block, the same as in a trace. The allocator counts its blocks from 1 in the order of their
    /// creation.
    #[cfg_attr(feature = "serde", serde(default))]
    pub number: u64,
    /// Index of its memory type.
    pub memory_type: u32,
    /// Class of its resources: `buffers`, `textures`, `render targets` or `all`.
    pub class: String,
    /// Name of its custom pool, or empty.
    #[cfg_attr(feature = "serde", serde(default))]
    pub pool: String,
    /// `true` if it is a dedicated allocation of one resource, which is in use.
    pub dedicated: bool,
    /// Size of the block, in bytes.
    pub bytes: u64,
    /// Ranges in use, in the order of their offsets. The gaps between them are free.
    pub ranges: Vec<RangeSnapshot>,
}

impl BlockSnapshot {
    /// Returns the number of bytes outside of the ranges.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.ranges.iter().fold(self.bytes, |free, range| free.saturating_sub(range.bytes))
    }
}

/// A range of a block that is in use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RangeSnapshot {
    /// Offset of the range in its block.
    pub offset: u64,
    /// Size of the range.
    pub bytes: u64,
    /// Name that its owner gave it, or empty.
    pub name: String,
    /// The `user_data` that its owner gave it, or 0.
    #[cfg_attr(feature = "serde", serde(default))]
    pub user_data: u64,
}

/// State of a ring.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RingSnapshot {
    /// Name of the ring.
    pub name: String,
    /// Capacity of the ring, in bytes.
    pub capacity_bytes: u64,
    /// Bytes in use until the device has finished with them, including padding.
    pub used_bytes: u64,
    /// Largest number of bytes in use so far.
    pub high_water_bytes: u64,
    /// Number of its submissions that are in flight.
    pub submission_count: u64,
    /// Number of waits for the device.
    pub wait_count: u64,
    /// Total time of these waits, in nanoseconds.
    pub wait_ns: u64,
    /// Bytes written so far.
    pub written_bytes: u64,
    /// Number of times that the ring was given a larger buffer.
    pub grow_count: u64,
    /// Number of times that the ring was given a smaller buffer, after it had been mostly empty for a long time.
    pub shrink_count: u64,
}
