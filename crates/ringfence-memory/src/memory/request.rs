//! Requests, as plain data.

use ringfence_lockfree::ticket::Moves;

use super::location::Location;
use crate::device::sharing::ShareKind;
use crate::device::{Create, Kind, MemoryProperties, Priority, Requirements};
use crate::error::Error;

/// How a resource gets its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationDesc<'a> {
    /// Shown in reports and given to the driver's object; empty for none. Costs a copy and a short lock.
    pub name: &'a str,
    /// Where it should live.
    pub location: Location,
    /// Whether it gets memory of its own.
    pub dedicated: Dedicated,
    /// Properties that the memory type must have, besides those of the location. Lazily allocated, protected and
    /// special memory types are used only if this or `preferred` names the property.
    pub required: MemoryProperties,
    /// Properties that the memory type should have: of the allowed types the one that lacks the fewest is tried first.
    pub preferred: MemoryProperties,
    /// Memory types that may be used, a bit each.
    pub memory_types: u32,
    /// Fail rather than go beyond the budget.
    pub within_budget: bool,
    /// Fail rather than allocate memory of the driver: for allocations that must not wait. Before it fails, what the
    /// device is done with and what is recycled is destroyed.
    pub never_grow: bool,
    /// Allocate from the high end of a custom pool's block: the second stack of `Algorithm::Linear`. Ignored elsewhere.
    ///
    pub from_the_end: bool,
    /// The kind of handle with which its memory can be shared ([`Resource::export`](crate::Resource::export)). Outside
    /// a pool that shares, it gets dedicated memory.
    pub share: Option<ShareKind>,
    /// Whether a [`Defrag`](crate::defrag::Defrag) may move it. A movable resource never gets a slot of a size class,
    /// so that a small one costs a short lock. Without effect on dedicated memory.
    pub movable: bool,
    /// The priority of its memory when not everything fits. It is a property of memory objects: of dedicated memory
    /// ([`Dedicated::Always`]); a block has that of its pool ([`PoolDesc::priority`](crate::PoolDesc::priority)).
    pub priority: Priority,
    /// Whether its memory may be evicted while no submission uses it: see [`residency`](crate::residency). A block is
    /// evicted only if everything in it may be. Such a resource never gets a slot of a size class.
    pub evictable: bool,
    /// The least alignment in its memory object, in bytes, a power of two; a larger one of the driver's requirements
    /// stays. For rules of the API that need more than the requirements say (scratch memory of acceleration
    /// structures). 0 or 1 for none.
    pub alignment: u64,
    /// Whether its driver object may be a recycled one, and may be recycled after it: see
    /// [`Allocator::create_buffer`](crate::Allocator::create_buffer). A view that outlives the resource then accesses
    /// the next owner's bytes. With `false` the object is new, and is destroyed with the resource.
    pub recycle: bool,
    /// Whether a buffer may be made larger than described, by at most an eighth, so that buffers of nearly the same
    /// size can be recycled for one another. Its description ([`Resource::desc`](crate::Resource::desc)) has the size
    /// that was made. Without effect on textures.
    /// [`Statistics::rounded_bytes`](crate::memory::Statistics::rounded_bytes) counts the additional bytes.
    pub may_be_larger: bool,
    /// A value of the caller's: returned by [`Resource::user_data`](crate::Resource::user_data), and in snapshots, as
    /// JSON and as VMA's. Any but 0 costs a short lock.
    pub user_data: u64,
}

impl Default for AllocationDesc<'_> {
    /// For the device, any memory type, beyond the budget if it must be.
    fn default() -> Self {
        Self {
            name: "",
            location: Location::Device,
            dedicated: Dedicated::Auto,
            required: MemoryProperties::empty(),
            preferred: MemoryProperties::empty(),
            memory_types: u32::MAX,
            within_budget: false,
            never_grow: false,
            from_the_end: false,
            share: None,
            movable: false,
            priority: Priority::Normal,
            evictable: false,
            alignment: 1,
            recycle: true,
            may_be_larger: false,
            user_data: 0,
        }
    }
}

/// A size that buffers of nearly the same size have in common: larger by an eighth at the most.
pub(crate) fn grained(size: u64) -> u64 {
    let grain = 1 << size.max(8).ilog2().saturating_sub(3);
    size.checked_next_multiple_of(grain).unwrap_or(size)
}

impl AllocationDesc<'_> {
    /// What is asked for instead if it may be larger, and by how many bytes it is.
    pub(crate) fn rounded<'i, D: Create<K>, K: Kind>(
        &self,
        device: &D,
        info: &D::Info<'i>,
    ) -> Option<(D::Info<'i>, u64)> {
        if self.may_be_larger { device.rounded(info, grained) } else { None }
    }

    /// What is needed, at the alignment that is requested here at least.
    #[inline(always)]
    pub(crate) fn aligned(&self, needs: Requirements) -> Result<Requirements, Error> {
        let alignment = self.alignment;
        if alignment > 1 && !alignment.is_power_of_two() {
            return Err(Error::BadAlignment { alignment });
        }
        let alignment = if alignment > 1 { needs.alignment.max(alignment) } else { needs.alignment };
        Ok(Requirements { alignment, ..needs })
    }
}

/// Whether a resource gets dedicated memory: a memory object of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dedicated {
    /// If it is large, or the driver prefers it.
    #[default]
    Auto,
    /// Yes.
    Always,
    /// No, unless the driver requires it.
    Never,
}

#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) size: u64,
    pub(crate) alignment: u64,
    /// From the high end, where the algorithm has one.
    pub(crate) high: bool,
    pub(crate) moves: Moves,
    /// Whether its use is declared, so that its block may be evicted.
    pub(crate) evictable: bool,
    pub(crate) name: &'a str,
    pub(crate) user_data: u64,
}

impl<'a> Request<'a> {
    /// For bytes of this size and alignment, described so.
    pub(crate) fn of(desc: &AllocationDesc<'a>, size: u64, alignment: u64) -> Self {
        let AllocationDesc { name, user_data, evictable, .. } = *desc;
        let moves = match (desc.movable, desc.location) {
            (false, _) => Moves::Never,
            (true, Location::Device) => Moves::Device,
            (true, _) => Moves::Host,
        };
        Self { size, alignment, high: false, moves, evictable, name, user_data }
    }
}
