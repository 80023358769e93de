//! Requests, as plain data.

use ringfence_lockfree::ticket::Moves;

use super::location::Location;
use crate::device::sharing::ShareKind;
use crate::device::{Create, Kind, MemoryProperties, Priority, Requirements};
use crate::error::Error;

/// Description of the memory of a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationDesc<'a> {
    /// Name for reports and for the driver's object; empty for none. A name costs a copy and a short lock.
    pub name: &'a str,
    /// Location of the memory.
    pub location: Location,
    /// Use of dedicated memory.
    pub dedicated: Dedicated,
    /// Properties that the memory type must have, besides those of the location. Lazily allocated, protected and
    /// special memory types are used only if this field or `preferred` names the property.
    pub required: MemoryProperties,
    /// Properties that the memory type should have: the allowed type that lacks the fewest of them is tried first.
    pub preferred: MemoryProperties,
    /// Memory types that may be used, one bit each.
    pub memory_types: u32,
    /// `true` to fail rather than exceed the budget.
    pub within_budget: bool,
    /// `true` to fail rather than allocate memory from the driver: for allocations that must not wait. Before it fails,
    /// objects that the device is done with and recycled objects are destroyed.
    pub never_grow: bool,
    /// `true` to allocate from the high end of a custom pool's block: the second stack of `Algorithm::Linear`. Ignored
    /// elsewhere.
    pub from_the_end: bool,
    /// Kind of the handles by which its memory can be shared ([`Resource::export`](crate::Resource::export)). Outside a
    /// pool that shares, the resource gets dedicated memory.
    pub share: Option<ShareKind>,
    /// `true` if a [`Defrag`](crate::defrag::Defrag) may move it. A movable resource never gets a slot of a size class,
    /// so a small one costs a short lock. No effect on dedicated memory.
    pub movable: bool,
    /// The residency priority of its memory. It is a property of memory objects: it applies to dedicated memory
    /// ([`Dedicated::Always`]), and a block has the priority of its pool
    /// ([`PoolDesc::priority`](crate::PoolDesc::priority)).
    pub priority: Priority,
    /// `true` if its memory may be evicted while no submission uses it: see [`residency`](crate::residency). A block is
    /// evicted only if every resource in it may be. Such a resource never gets a slot of a size class.
    pub evictable: bool,
    /// Minimum alignment in its memory object, in bytes, a power of two; a larger alignment of the driver's
    /// requirements still applies. For rules of the API that need more than the requirements say (scratch memory of
    /// acceleration structures). 0 or 1 for none.
    pub alignment: u64,
    /// `true` if its driver object may be a recycled one, and may be recycled afterwards: see
    /// [`Allocator::create_buffer`](crate::Allocator::create_buffer). A view that outlives the resource then accesses
    /// the next owner's bytes. With `false` the object is new, and is destroyed with the resource.
    pub recycle: bool,
    /// `true` if a buffer may be larger than described, by at most an eighth, so that buffers of nearly the same size
    /// can be recycled for one another. Its description ([`Resource::desc`](crate::Resource::desc)) then has the actual
    /// size. No effect on textures. [`Statistics::rounded_bytes`](crate::memory::Statistics::rounded_bytes) counts the
    /// additional bytes.
    pub may_be_larger: bool,
    /// A value for the caller's use, returned by [`Resource::user_data`](crate::Resource::user_data) and contained in
    /// snapshots, as JSON and in VMA's format. A value other than 0 costs a short lock.
    pub user_data: u64,
}

impl Default for AllocationDesc<'_> {
    /// For the device, any memory type, beyond the budget if necessary.
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

/// Rounds a size up, by at most an eighth, to a size that buffers of nearly the same size share.
pub(crate) fn grained(size: u64) -> u64 {
    let grain = 1 << size.max(8).ilog2().saturating_sub(3);
    size.checked_next_multiple_of(grain).unwrap_or(size)
}

impl AllocationDesc<'_> {
    /// Returns the description to use instead if the buffer may be larger, and the number of added bytes.
    pub(crate) fn rounded<'i, D: Create<K>, K: Kind>(
        &self,
        device: &D,
        info: &D::Info<'i>,
    ) -> Option<(D::Info<'i>, u64)> {
        if self.may_be_larger { device.rounded(info, grained) } else { None }
    }

    /// Returns the requirements with at least the alignment of this description.
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

/// Use of dedicated memory: a memory object of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dedicated {
    /// Dedicated memory if the resource is large, or the driver prefers it.
    #[default]
    Auto,
    /// Always dedicated memory.
    Always,
    /// No dedicated memory, unless the driver requires it.
    Never,
}

#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) size: u64,
    pub(crate) alignment: u64,
    /// `true` to allocate from the high end, if the algorithm has one.
    pub(crate) high: bool,
    pub(crate) moves: Moves,
    /// `true` if its uses are declared, so its block may be evicted.
    pub(crate) evictable: bool,
    pub(crate) name: &'a str,
    pub(crate) user_data: u64,
}

impl<'a> Request<'a> {
    /// Creates a request for bytes of this size and alignment, with this description.
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
