//! Places: the ranges of memory that resources own, and their kinds of allocation.

use std::sync::Arc;

use ringfence_core::blocks::BlockAllocation;
use ringfence_core::range::Invalid;
use ringfence_lockfree::pool_chain::PoolAllocation;
use ringfence_lockfree::slots::{Class, Ready};

use super::pool::PoolState;
use crate::device::{BufferUsage, Device, Mapped, RawBuffer};
use ringfence_arena::BlockMemory;
use ringfence_arena::Memory;
use ringfence_arena::{Found, InBlock};
use ringfence_decision::Location;
use ringfence_lockfree::ticket::Ticket;

/// The range of memory that a resource occupies. It has one owner; `Shared::free_place` frees it, once.
pub struct Place<D: Device> {
    /// Offset of the first byte in its memory object, in bytes.
    pub offset: u64,
    pub(crate) arena: ArenaRef<D>,
    pub(crate) kind: PlaceKind<D>,
}

pub(crate) enum ArenaRef<D: Device> {
    /// One of the allocator's own arenas, by index. It is a `u64`, as wide as the other variant, so that an `Option` of
    /// this type is copied by whole words, which the processor forwards from store to load.
    Own(u64),
    /// The arena of a custom pool.
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

/// The kind of allocation of a place.
pub(crate) enum PlaceKind<D: Device> {
    /// A range of a block.
    Range { memory: BlockMemory<D>, allocation: BlockAllocation, ticket: Option<Arc<Ticket>> },
    /// One of many equal slots in a range of a block.
    Slot { class: u32, named: bool, memory: BlockMemory<D>, allocation: PoolAllocation },
    /// Dedicated memory, and its number in the arena.
    Dedicated { memory: Arc<Memory<D>>, number: u64 },
    /// A range of a pool outside the arenas.
    Pooled { memory: Arc<Memory<D>>, owner: Arc<dyn RangeOwner<D>>, allocation: BlockAllocation },
    /// A part of another place, which is freed with the last of its parts.
    Aliased(Arc<Place<D>>),
    /// A place that several resources own. It is freed with the last of them.
    Shared(Arc<SharedPlace<D>>),
    /// A range of a buffer that small buffers share.
    Small { owner: Arc<dyn SharedBuffers<D>>, buffer: Arc<SharedBuffer<D>>, allocation: BlockAllocation },
}

impl<D: Device> Place<D> {
    /// Creates a place for a range of a pool outside the arenas.
    pub fn in_pool(
        memory: Arc<Memory<D>>,
        offset: u64,
        owner: Arc<dyn RangeOwner<D>>,
        allocation: BlockAllocation,
    ) -> Self {
        Self { offset, arena: ArenaRef::Own(0), kind: PlaceKind::Pooled { memory, owner, allocation } }
    }

    /// Creates a place for a memory object that no arena suballocates. The arena with the index `arena` counts the
    /// object under `number`.
    pub fn heap(memory: Arc<Memory<D>>, arena: u32, number: u64) -> Self {
        Self { offset: 0, arena: ArenaRef::Own(arena.into()), kind: PlaceKind::Dedicated { memory, number } }
    }

    /// Creates a place for a slot of an arena, without a name.
    #[inline(always)]
    pub(crate) fn slot(arena: u32, class: Class, ready: Ready<BlockMemory<D>>) -> Self {
        let Ready { slot: allocation, memory, offset } = ready;
        let kind = PlaceKind::Slot { class: class.index, named: false, memory, allocation };
        Self { offset, arena: ArenaRef::Own(arena.into()), kind }
    }

    /// Creates a place for memory that an arena allocated, behind the guard in its first `front` bytes.
    #[inline]
    pub(crate) fn found(arena: ArenaRef<D>, found: Found<D>, front: u64) -> Self {
        let (offset, kind) = match found {
            Found::Range(InBlock { memory, allocation, ticket }) => {
                (allocation.offset(), PlaceKind::Range { memory, allocation, ticket })
            }
            Found::Slot { class, named, ready: Ready { slot, memory, offset } } => {
                (offset, PlaceKind::Slot { class, named, memory, allocation: slot })
            }
        };
        Self { offset: offset + front, arena, kind }
    }

    /// Creates a place for a range of a block that an arena allocated. The place has no ticket, so it cannot be moved.
    pub(crate) fn in_block(arena: ArenaRef<D>, memory: BlockMemory<D>, allocation: BlockAllocation) -> Self {
        Self { offset: allocation.offset(), arena, kind: PlaceKind::Range { memory, allocation, ticket: None } }
    }

    /// Sets the ticket of a range, which is the permission to move the range.
    pub(crate) fn set_ticket(&mut self, renewed: Arc<Ticket>) {
        if let PlaceKind::Range { ticket, .. } = &mut self.kind {
            *ticket = Some(renewed);
        }
    }

    pub(crate) fn block_allocation(&self) -> Option<&BlockAllocation> {
        match &self.kind {
            PlaceKind::Range { allocation, .. } => Some(allocation),
            _ => None,
        }
    }

    /// Creates a place for bytes of `whole` from `offset` on. Other places may use the same bytes.
    pub fn aliased(whole: &Arc<Self>, offset: u64) -> Self {
        let arena = whole.arena.clone();
        Self { offset: whole.offset + offset, arena, kind: PlaceKind::Aliased(Arc::clone(whole)) }
    }

    /// Creates a place from the caller's reference to `whole`. The caller must keep no other reference to `whole`: if
    /// such a reference were dropped last, the memory would not be freed.
    pub fn share_of(whole: Arc<Self>) -> Self {
        Self { offset: whole.offset, arena: whole.arena.clone(), kind: PlaceKind::Aliased(whole) }
    }

    /// Returns the number of allocated bytes, without rounding. Returns 0 for a part of another place, and for a place
    /// that several resources own.
    pub(crate) fn size(&self) -> u64 {
        match &self.kind {
            PlaceKind::Range { allocation, .. }
            | PlaceKind::Pooled { allocation, .. }
            | PlaceKind::Small { allocation, .. } => allocation.size(),
            PlaceKind::Slot { allocation, .. } => allocation.size(),
            PlaceKind::Dedicated { memory, .. } => memory.size,
            PlaceKind::Shared(_) | PlaceKind::Aliased(_) => 0,
        }
    }

    /// Returns the ticket of the range, which is the permission to move it. Returns `None` if the range may not be
    /// moved.
    pub(crate) fn ticket(&self) -> Option<&Arc<Ticket>> {
        match &self.kind {
            PlaceKind::Range { ticket, .. } => ticket.as_ref(),
            _ => None,
        }
    }

    /// Prevents moves of the range from now on.
    pub(crate) fn never_move(&self) {
        if let Some(ticket) = self.ticket() {
            ticket.close();
        }
    }

    /// Returns `true` if the place is a range of a block, a slot or dedicated memory, and not a part of something that
    /// others use.
    pub(crate) fn is_own_range(&self) -> bool {
        matches!(self.kind, PlaceKind::Range { .. } | PlaceKind::Slot { .. } | PlaceKind::Dedicated { .. })
    }

    /// Returns `true` if the place's memory object was created for this place alone.
    pub(crate) fn is_tied(&self) -> bool {
        matches!(self.kind, PlaceKind::Dedicated { .. })
    }

    pub(crate) fn is_dedicated(&self) -> bool {
        match &self.kind {
            PlaceKind::Shared(shared) => shared.place.is_dedicated(),
            kind => matches!(kind, PlaceKind::Dedicated { .. }),
        }
    }
}

/// A place that several resources own.
pub(crate) struct SharedPlace<D: Device> {
    pub(crate) place: Place<D>,
    pub(crate) size: u64,
}

/// A driver's buffer that small buffers share.
pub(crate) struct SharedBuffer<D: Device> {
    pub(crate) object: RawBuffer<D>,
    pub(crate) mapped: Option<Mapped>,
    pub(crate) address: Option<u64>,
    pub(crate) place: Place<D>,
    pub(crate) usage: BufferUsage,
    pub(crate) location: Location,
}

/// An owner of driver buffers that small buffers share.
pub(crate) trait SharedBuffers<D: Device>: Send + Sync {
    /// Frees a range. If more than one buffer is then empty, returns an empty one for destruction.
    fn free(&self, allocation: BlockAllocation) -> Option<Arc<SharedBuffer<D>>>;
}

/// An owner of blocks outside the arenas. The allocator returns freed ranges to their owner, and frees the owner's
/// empty blocks.
///
/// # Safety
/// The value that [`RangeOwner::take_empty`] returns meets the conditions of
/// [`Shared::free_backing`](super::shared::Shared::free_backing).
pub unsafe trait RangeOwner<D: Device>: Send + Sync {
    /// Frees a range. The caller has already dropped the reference to the block's memory that came with the range.
    fn free(&self, allocation: &BlockAllocation);

    /// Takes out an empty block, even if its grace is not over, if `may_go` returns `true` for its memory.
    fn take_empty(&self, may_go: &dyn Fn(&Memory<D>) -> bool) -> Option<Backing<D>>;

    /// Returns `true` if no further range will be requested from this owner.
    fn is_closed(&self) -> bool;

    /// Returns `true` if the owner is closed and has no block left.
    fn is_gone(&self) -> bool;

    /// Checks every invariant of the structure.
    ///
    /// # Errors
    /// The first invariant that is broken.
    fn validate(&self) -> Result<(), Invalid>;
}

/// The object that provides the memory of a block of a [`RangeOwner`].
pub enum Backing<D: Device> {
    /// A memory object, which an arena counts under a number.
    Heap {
        /// The memory object.
        memory: Arc<Memory<D>>,
        /// The index of the arena that counts it.
        arena: u32,
        /// The number under which the arena counts it.
        number: u64,
    },
    /// A buffer that the ranges share.
    Buffer {
        /// The driver's buffer.
        object: RawBuffer<D>,
        /// The place of the buffer.
        place: Place<D>,
    },
}
