//! What is in memory at a moment, as plain data: for reports, leak hunts and tests.

mod descriptors;

use crate::statistics::{DriverCalls, TypeStatistics};

pub use descriptors::{DescriptorSnapshot, region};

/// An allocator's whole state.
#[derive(Clone, PartialEq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Snapshot {
    /// The format's version: 1.
    pub version: u32,
    /// The device's name.
    pub device: String,
    /// Physical memories.
    pub heaps: Vec<HeapSnapshot>,
    /// Kinds of memory.
    pub types: Vec<TypeSnapshot>,
    /// Every block and every dedicated memory object.
    pub blocks: Vec<BlockSnapshot>,
    /// Upload rings.
    pub rings: Vec<RingSnapshot>,
    /// Regions of descriptors.
    #[cfg_attr(feature = "serde", serde(default))]
    pub descriptors: Vec<DescriptorSnapshot>,
    /// Objects that wait for the device.
    pub retired_count: u64,
    /// Calls to the driver.
    pub calls: DriverCalls,
}

/// A physical memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HeapSnapshot {
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it is near the device.
    pub device_local: bool,
    /// Bytes that this allocator holds.
    pub reserved_bytes: u64,
    /// What the driver says that the process uses, in bytes.
    pub usage_bytes: Option<u64>,
    /// What the driver says that the process may use, in bytes.
    pub budget_bytes: Option<u64>,
}

/// A kind of memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TypeSnapshot {
    /// Index of its heap.
    pub heap: u32,
    /// Names of its properties.
    pub properties: Vec<String>,
    /// Its use.
    pub statistics: TypeStatistics,
}

/// A memory object of the driver.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct BlockSnapshot {
    /// Its number, by which a trace names it too: counted from 0 in the order in which the allocator made its blocks.
    #[cfg_attr(feature = "serde", serde(default))]
    pub number: u64,
    /// Index of its memory type.
    pub memory_type: u32,
    /// What lies in it: `buffers`, `textures`, `render targets`, `all`.
    pub class: String,
    /// The name of the custom pool that it belongs to; empty if to none.
    #[cfg_attr(feature = "serde", serde(default))]
    pub pool: String,
    /// Whether it belongs to one resource, which is in use.
    pub dedicated: bool,
    /// Its size in bytes.
    pub bytes: u64,
    /// The ranges in use, by offset. What lies between them is free.
    pub ranges: Vec<RangeSnapshot>,
}

impl BlockSnapshot {
    /// Bytes that no range has.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.ranges.iter().fold(self.bytes, |free, range| free.saturating_sub(range.bytes))
    }
}

/// A range of a block that is in use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RangeSnapshot {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// The name that its owner gave it; empty for none.
    pub name: String,
    /// What its owner gave along; 0 for nothing.
    #[cfg_attr(feature = "serde", serde(default))]
    pub user_data: u64,
}

/// An upload ring.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RingSnapshot {
    /// Its name.
    pub name: String,
    /// Bytes that it holds at most.
    pub capacity_bytes: u64,
    /// Bytes that wait for the device, padding included.
    pub used_bytes: u64,
    /// The most that was ever in use, in bytes.
    pub high_water_bytes: u64,
    /// Submissions that are under way in it.
    pub submission_count: u64,
    /// How often it had to wait for the device.
    pub wait_count: u64,
    /// How long it waited in all, in nanoseconds.
    pub wait_ns: u64,
    /// Bytes written in all.
    pub written_bytes: u64,
    /// How often it was given a larger buffer.
    pub grow_count: u64,
    /// How often it was given a smaller one, having been mostly empty for long.
    pub shrink_count: u64,
}
