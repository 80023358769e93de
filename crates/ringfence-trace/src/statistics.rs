//! Statistics of memory types and of calls to the driver.

/// Use of one memory type.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TypeStatistics {
    /// Number of blocks. The memory of a recycled dedicated resource counts as an empty block.
    pub block_count: u64,
    /// Size of the blocks, in bytes.
    pub block_bytes: u64,
    /// Largest size of the blocks so far, in bytes.
    pub block_bytes_high_water: u64,
    /// Number of ranges in use in the blocks.
    pub range_count: u64,
    /// Size of these ranges, including rounding, in bytes.
    pub range_bytes: u64,
    /// Largest number of bytes allocated in the blocks so far. A slab of slots counts as one range, so that allocating
    /// a slot does not update this mark.
    pub range_bytes_high_water: u64,
    /// Number of dedicated resources in use.
    pub dedicated_count: u64,
    /// Size of these resources, in bytes.
    pub dedicated_bytes: u64,
}

impl TypeStatistics {
    /// Adds the figures of another type, or of another part of this type. The sum of two high-water marks can be larger
    /// than the true high-water mark.
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

    /// Returns the size of the driver's memory objects: blocks and dedicated memory, in bytes.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.block_bytes.saturating_add(self.dedicated_bytes)
    }

    /// Returns the number of bytes that resources use.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.range_bytes.saturating_add(self.dedicated_bytes)
    }
}

/// Calls that the allocator made to the driver, and requests that needed no call.
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
    /// Number of requests that reused a buffer, small buffers included, or a texture. Each saved the creation and the
    /// placement.
    #[cfg_attr(feature = "serde", serde(default))]
    pub recycled: u64,
    /// Number of resources that were placed in a block. Each saved a memory object.
    pub placed: u64,
    /// Number of writes to an upload ring. Each saved a staging buffer.
    pub staged: u64,
    /// Number of waits for the device.
    pub wait: u64,
}

impl DriverCalls {
    /// Returns the number of calls, without waits.
    #[must_use]
    pub fn made(&self) -> u64 {
        let counts = [self.allocate_memory, self.free_memory, self.create_object, self.destroy_object];
        counts.into_iter().fold(0, u64::saturating_add)
    }

    /// Returns the number of calls that suballocation and rings saved: a memory object for each placed resource, and a
    /// buffer with memory for each staged write. Only calls that create objects are counted.
    #[must_use]
    pub fn saved(&self) -> u64 {
        let placed = self.placed.saturating_add(self.recycled);
        placed.saturating_add(self.staged.saturating_mul(2)).saturating_sub(self.allocate_memory)
    }
}

/// Use of the allocator as a whole.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Statistics {
    /// Statistics of each memory type.
    pub types: Vec<TypeStatistics>,
    /// Number of objects that wait for the device before they are destroyed.
    pub retired_count: u64,
    /// Number of objects in the recycling cache, which serve later requests with the same description. They do not
    /// count as in use. The memory of cached dedicated resources counts as blocks.
    #[cfg_attr(feature = "serde", serde(default))]
    pub recycled_count: u64,
    /// Size of these objects, in bytes. The caches are read one after the other: objects that other threads put or take
    /// meanwhile may be counted twice or not at all.
    #[cfg_attr(feature = "serde", serde(default))]
    pub recycled_bytes: u64,
    /// Bytes by which buffers in use are larger than described (`AllocationDesc::may_be_larger`).
    #[cfg_attr(feature = "serde", serde(default))]
    pub rounded_bytes: u64,
    /// Calls to the driver.
    pub calls: DriverCalls,
    /// Number of resources that a `Defrag` moved.
    #[cfg_attr(feature = "serde", serde(default))]
    pub moved_count: u64,
    /// Size of these resources, in bytes.
    #[cfg_attr(feature = "serde", serde(default))]
    pub moved_bytes: u64,
}

impl Statistics {
    /// Returns the sum over all memory types. The high-water marks of the sum can be larger than the true ones.
    #[must_use]
    pub fn total(&self) -> TypeStatistics {
        let mut total = TypeStatistics::default();
        self.types.iter().for_each(|held| total.add(held));
        total
    }
}
