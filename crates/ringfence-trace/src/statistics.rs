//! Statistics of memory types and of calls to the driver.

/// Use of one memory type.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TypeStatistics {
    /// Number of blocks. The memory of a recycled dedicated resource counts as an empty block.
    pub block_count: u64,
    /// Total size of the blocks, in bytes.
    pub block_bytes: u64,
    /// Highest value of `block_bytes` so far.
    pub block_bytes_high_water: u64,
    /// Number of ranges in use in these blocks.
    pub range_count: u64,
    /// Total size of these ranges, in bytes, including bytes that were added by rounding.
    pub range_bytes: u64,
    /// Highest number of bytes that were allocated in the blocks at the same time so far. A chunk of slots for small
    /// resources counts as one range, so that the allocation of a slot need not update this value.
    pub range_bytes_high_water: u64,
    /// Number of dedicated resources in use.
    pub dedicated_count: u64,
    /// Total size of the dedicated memory of these resources, in bytes.
    pub dedicated_bytes: u64,
}

impl TypeStatistics {
    /// Adds the statistics of another memory type, or of another part of this type. High-water marks are added too, so
    /// the result can be larger than the true high-water mark.
    pub fn add(&mut self, other: &Self) {
        self.block_count = self.block_count.saturating_add(other.block_count);
        self.block_bytes = self.block_bytes.saturating_add(other.block_bytes);
        self.block_bytes_high_water = self.block_bytes_high_water.saturating_add(other.block_bytes_high_water);
        self.range_count = self.range_count.saturating_add(other.range_count);
        self.range_bytes = self.range_bytes.saturating_add(other.range_bytes);
        self.range_bytes_high_water = self.range_bytes_high_water.saturating_add(other.range_bytes_high_water);
        self.dedicated_count = self.dedicated_count.saturating_add(other.dedicated_count);
        self.dedicated_bytes = self.dedicated_bytes.saturating_add(other.dedicated_bytes);
    }

    /// Returns the total size of the driver's memory objects, in bytes: blocks and dedicated memory.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.block_bytes.saturating_add(self.dedicated_bytes)
    }

    /// Returns the number of bytes that resources use: ranges and dedicated memory.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.range_bytes.saturating_add(self.dedicated_bytes)
    }
}

/// Numbers of calls that the allocator made to the driver, and of requests that needed no call.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DriverCalls {
    /// Number of memory objects that were created.
    pub allocate_memory: u64,
    /// Number of memory objects that were freed.
    pub free_memory: u64,
    /// Number of buffers and textures that were created.
    pub create_object: u64,
    /// Number of buffers and textures that were destroyed.
    pub destroy_object: u64,
    /// Number of requests that reused a recycled buffer (small buffers included) or texture. Each saved the creation
    /// and the placement of an object.
    #[cfg_attr(feature = "serde", serde(default))]
    pub recycled: u64,
    /// Number of resources that were placed in a block. Each saved the allocation of a memory object.
    pub placed: u64,
    /// Number of writes to upload rings. Each saved the creation of a staging buffer and of its memory.
    pub staged: u64,
    /// Number of times that the allocator waited for the device.
    pub wait: u64,
}

impl DriverCalls {
    /// Returns the number of calls that created or destroyed memory objects, buffers and textures.
    #[must_use]
    pub fn made(&self) -> u64 {
        let counts = [self.allocate_memory, self.free_memory, self.create_object, self.destroy_object];
        counts.into_iter().fold(0, u64::saturating_add)
    }

    /// Returns the number of creating calls that the allocator saved: one for each placed resource, one for each
    /// recycled resource, and two for each staged write, minus the memory objects that were allocated.
    #[must_use]
    pub fn saved(&self) -> u64 {
        let placed = self.placed.saturating_add(self.recycled);
        placed.saturating_add(self.staged.saturating_mul(2)).saturating_sub(self.allocate_memory)
    }
}

/// Statistics of an allocator.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Statistics {
    /// Statistics of each memory type, by index.
    pub types: Vec<TypeStatistics>,
    /// Number of objects that wait for the device before they are destroyed.
    pub retired_count: u64,
    /// Number of recycled objects: objects that are kept for later requests with the same description. They do not
    /// count as in use. The dedicated memory of recycled objects counts as blocks.
    #[cfg_attr(feature = "serde", serde(default))]
    pub recycled_count: u64,
    /// Total size of the recycled objects, in bytes. The caches of the threads are read one after the other, so an
    /// object that another thread adds or takes meanwhile may be counted twice or not at all.
    #[cfg_attr(feature = "serde", serde(default))]
    pub recycled_bytes: u64,
    /// Number of bytes by which buffers in use are larger than their descriptions (`AllocationDesc::may_be_larger`).
    #[cfg_attr(feature = "serde", serde(default))]
    pub rounded_bytes: u64,
    /// Calls to the driver.
    pub calls: DriverCalls,
    /// Number of resources that defragmentation has moved.
    #[cfg_attr(feature = "serde", serde(default))]
    pub moved_count: u64,
    /// Total size of these resources, in bytes.
    #[cfg_attr(feature = "serde", serde(default))]
    pub moved_bytes: u64,
}

impl Statistics {
    /// Returns the sum of the statistics of all memory types. High-water marks are added too, so they can be larger
    /// than the true ones.
    #[must_use]
    pub fn total(&self) -> TypeStatistics {
        let mut total = TypeStatistics::default();
        self.types.iter().for_each(|held| total.add(held));
        total
    }
}
