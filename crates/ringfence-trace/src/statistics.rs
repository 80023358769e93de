//! Figures of memory types and of calls to the driver.

/// Use of one memory type.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TypeStatistics {
    /// Blocks that are held. Memory whose only resource is recycled counts as one in which nothing lives.
    pub block_count: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// The most that the blocks ever had, in bytes.
    pub block_bytes_high_water: u64,
    /// Ranges that are in use in the blocks.
    pub range_count: u64,
    /// Bytes set aside for them, rounding included.
    pub range_bytes: u64,
    /// The most that was ever set aside in the blocks, in bytes: ranges, and pools of slots as a whole, so that it is
    /// not counted up by each slot.
    pub range_bytes_high_water: u64,
    /// Resources in use with memory of their own.
    pub dedicated_count: u64,
    /// Their bytes.
    pub dedicated_bytes: u64,
}

impl TypeStatistics {
    /// Adds the figures of another type, or of another part of this one. High-water marks add up to at least the true
    /// one.
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

    /// Bytes that the driver was asked for: blocks and dedicated memory.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.block_bytes.saturating_add(self.dedicated_bytes)
    }

    /// Bytes that resources were given.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.range_bytes.saturating_add(self.dedicated_bytes)
    }
}

/// Calls that the allocator made to the driver, and what would have been calls without it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DriverCalls {
    /// Memory objects made.
    pub allocate_memory: u64,
    /// Memory objects freed.
    pub free_memory: u64,
    /// Buffers and textures made.
    pub create_object: u64,
    /// Buffers and textures destroyed.
    pub destroy_object: u64,
    /// Buffers, small ones too, and textures that were handed out again: as many that were neither made nor placed.
    #[cfg_attr(feature = "serde", serde(default))]
    pub recycled: u64,
    /// Resources that were placed in a block: as many memory objects that were never made.
    pub placed: u64,
    /// Writes to an upload ring: as many staging buffers that were never made.
    pub staged: u64,
    /// Waits for the device.
    pub wait: u64,
}

impl DriverCalls {
    /// Calls made, waits left out.
    #[must_use]
    pub fn made(&self) -> u64 {
        let counts = [self.allocate_memory, self.free_memory, self.create_object, self.destroy_object];
        counts.into_iter().fold(0, u64::saturating_add)
    }

    /// Calls that a program without sub-allocation and rings would have made more: a memory object for each placed
    /// resource, a buffer with memory for each staged write. Each counted once, at its making.
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
    /// By memory type.
    pub types: Vec<TypeStatistics>,
    /// Objects that wait for the device before they are destroyed.
    pub retired_count: u64,
    /// Objects that are kept for the next request of the same description: not among what is in use. The memory of
    /// those that have their own counts as blocks.
    #[cfg_attr(feature = "serde", serde(default))]
    pub recycled_count: u64,
    /// Bytes of those. Read one after the other: what other threads keep and take meanwhile may be counted twice, or
    /// not at all.
    #[cfg_attr(feature = "serde", serde(default))]
    pub recycled_bytes: u64,
    /// Bytes by which buffers in use are larger than described
    /// (`AllocationDesc::may_be_larger`).
    #[cfg_attr(feature = "serde", serde(default))]
    pub rounded_bytes: u64,
    /// Calls to the driver.
    pub calls: DriverCalls,
    /// Resources that were given another place by a `Defrag`.
    #[cfg_attr(feature = "serde", serde(default))]
    pub moved_count: u64,
    /// Bytes of those.
    #[cfg_attr(feature = "serde", serde(default))]
    pub moved_bytes: u64,
}

impl Statistics {
    /// The sum over all memory types. High-water marks add up to at least the true one.
    #[must_use]
    pub fn total(&self) -> TypeStatistics {
        let mut total = TypeStatistics::default();
        self.types.iter().for_each(|held| total.add(held));
        total
    }
}
