//! Where a resource's bytes are, and by what right.

use std::sync::Arc;

use ringfence_core::blocks::BlockAllocation;
use ringfence_core::pool_chain::PoolAllocation;

use super::allocation::Common;
use super::pool::PoolState;
use super::shared::Shared;
use super::small::{Backing, SmallState};
use crate::device::{Device, Mapped};

/// A memory object of the driver and what it was made as.
pub(crate) struct Memory<D: Device> {
    pub(crate) object: D::Memory,
    pub(crate) memory_type: u32,
    pub(crate) size: u64,
    /// Where the host sees its first byte, where the API maps memory objects.
    pub(crate) mapped: Option<Mapped>,
}

/// Where a resource's bytes are. Owned by one value: it goes back through [`Shared::give_back`], once.
pub(crate) struct Place<D: Device> {
    pub(crate) offset: u64,
    pub(super) arena: ArenaRef<D>,
    pub(super) hold: Hold<D>,
}

/// Which arena a place is of.
pub(super) enum ArenaRef<D: Device> {
    /// One of the allocator's own, by index.
    Own(u32),
    /// That of a custom pool.
    Pool(Arc<PoolState<D>>),
}

impl<D: Device> Clone for ArenaRef<D> {
    fn clone(&self) -> Self {
        match self {
            Self::Own(index) => Self::Own(*index),
            Self::Pool(pool) => Self::Pool(Arc::clone(pool)),
        }
    }
}

/// By what right a place is held.
pub(super) enum Hold<D: Device> {
    /// A range of a block.
    Range { memory: Arc<Memory<D>>, allocation: BlockAllocation },
    /// One of many equal cells in a range of a block.
    Cell { class: u32, named: bool, allocation: PoolAllocation },
    /// Memory of its own, and the number under which the arena knows it.
    Dedicated { memory: Memory<D>, number: u64 },
    /// A share in a place that several resources have in common.
    Common(Arc<Common<D>>),
    /// A range of a buffer that small buffers share.
    Small { state: Arc<SmallState<D>>, backing: Arc<Backing<D>>, allocation: BlockAllocation },
}

impl<D: Device> Place<D> {
    pub(crate) fn memory<'a>(&'a self, shared: &'a Shared<D>) -> &'a Memory<D> {
        match &self.hold {
            Hold::Range { memory, .. } => memory,
            Hold::Cell { class, allocation, .. } => shared.arena_cells(&self.arena).memory(*class, allocation),
            Hold::Dedicated { memory, .. } => memory,
            Hold::Common(common) => common.place.memory(shared),
            Hold::Small { backing, .. } => backing.place.memory(shared),
        }
    }
}

impl<D: Device> Place<D> {
    /// Whether the memory object is its own.
    pub(crate) fn is_dedicated(&self) -> bool {
        match &self.hold {
            Hold::Common(common) => common.place.is_dedicated(),
            hold => matches!(hold, Hold::Dedicated { .. }),
        }
    }
}
