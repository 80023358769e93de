//! Where a resource's bytes are, and what owns them.

use std::sync::Arc;

use ringfence_core::blocks::BlockAllocation;
use ringfence_lockfree::pool_chain::PoolAllocation;
use ringfence_core::range::Invalid;
use ringfence_lockfree::slots::{Class, Ready};

use super::arena::{Found, InBlock};
use super::block_memory::BlockMemory;
use super::memory_object::Memory;
use super::pool_state::PoolState;
use crate::device::{Device, Mapped, RawBuffer};
use ringfence_lockfree::ticket::Ticket;

/// Where a resource's bytes are. Owned by one value: it goes back through `Shared::free_place`, once.
pub struct Place<D: Device> {
    /// The first byte in its memory object.
    pub offset: u64,
    pub(crate) arena: ArenaRef<D>,
    pub(crate) hold: Hold<D>,
}

pub(crate) enum ArenaRef<D: Device> {
    /// One of the allocator's own, by index. As wide as the other: an `Option` of what holds this is copied by whole
    /// words, which the processor forwards from store to load.
    Own(u64),
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
pub(crate) enum Hold<D: Device> {
    /// A range of a block.
    Range { memory: BlockMemory<D>, allocation: BlockAllocation, ticket: Option<Arc<Ticket>> },
    /// One of many equal slots in a range of a block.
    Slot { class: u32, named: bool, memory: BlockMemory<D>, allocation: PoolAllocation },
    /// Memory of its own, and the number under which the arena knows it.
    Dedicated { memory: Arc<Memory<D>>, number: u64 },
    /// A range of a pool outside the arenas.
    Pooled { memory: Arc<Memory<D>>, owner: Arc<dyn RangeOwner<D>>, allocation: BlockAllocation },
    /// Another place's memory; it is freed with the last place that lies in it.
    Aliased(Arc<Place<D>>),
    /// A place that several resources share, counted by reference.
    Common(Arc<Common<D>>),
    /// A range of a buffer that small buffers share.
    Small { owner: Arc<dyn SharedBuffers<D>>, buffer: Arc<SharedBuffer<D>>, allocation: BlockAllocation },
}

impl<D: Device> Place<D> {
    /// A range of a pool outside the arenas.
    pub fn in_pool(
        memory: Arc<Memory<D>>,
        offset: u64,
        owner: Arc<dyn RangeOwner<D>>,
        allocation: BlockAllocation,
    ) -> Self {
        Self { offset, arena: ArenaRef::Own(0), hold: Hold::Pooled { memory, owner, allocation } }
    }

    /// A heap that no arena cuts, known there by its number.
    pub fn heap(memory: Arc<Memory<D>>, arena: u32, number: u64) -> Self {
        Self { offset: 0, arena: ArenaRef::Own(arena.into()), hold: Hold::Dedicated { memory, number } }
    }

    /// A slot of an arena that nothing is noted of.
    #[inline(always)]
    pub(crate) fn slot(arena: u32, class: Class, ready: Ready<BlockMemory<D>>) -> Self {
        let Ready { slot: allocation, memory, offset } = ready;
        let hold = Hold::Slot { class: class.index, named: false, memory, allocation };
        Self { offset, arena: ArenaRef::Own(arena.into()), hold }
    }

    /// What an arena gave. The first `front` bytes are a guard's.
    #[inline]
    pub(crate) fn found(arena: ArenaRef<D>, found: Found<D>, front: u64) -> Self {
        let (offset, hold) = match found {
            Found::Range(InBlock { memory, allocation, ticket }) => {
                (allocation.offset(), Hold::Range { memory, allocation, ticket })
            }
            Found::Slot { class, named, ready: Ready { slot, memory, offset } } => {
                (offset, Hold::Slot { class, named, memory, allocation: slot })
            }
        };
        Self { offset: offset + front, arena, hold }
    }

    /// A range of a block, as an arena gave it.
    pub(crate) fn in_block(arena: ArenaRef<D>, memory: BlockMemory<D>, allocation: BlockAllocation) -> Self {
        Self { offset: allocation.offset(), arena, hold: Hold::Range { memory, allocation, ticket: None } }
    }

    /// Gives the range the ticket that it is moved by.
    pub(crate) fn set_ticket(&mut self, renewed: Arc<Ticket>) {
        if let Hold::Range { ticket, .. } = &mut self.hold {
            *ticket = Some(renewed);
        }
    }

    pub(crate) fn block_allocation(&self) -> Option<&BlockAllocation> {
        match &self.hold {
            Hold::Range { allocation, .. } => Some(allocation),
            _ => None,
        }
    }

    /// Some bytes of `whole`, which others may use as well.
    pub fn aliased(whole: &Arc<Self>, offset: u64) -> Self {
        let arena = whole.arena.clone();
        Self { offset: whole.offset + offset, arena, hold: Hold::Aliased(Arc::clone(whole)) }
    }

    /// The caller's own share in `whole`, for the memory to go with the last: a share that was kept beside it would find
    /// the others gone, and free nothing.
    pub fn share_of(whole: Arc<Self>) -> Self {
        Self { offset: whole.offset, arena: whole.arena.clone(), hold: Hold::Aliased(whole) }
    }

    /// How many bytes are held, rounding left out; 0 for a share in what others hold too.
    pub(crate) fn size(&self) -> u64 {
        match &self.hold {
            Hold::Range { allocation, .. } | Hold::Pooled { allocation, .. } | Hold::Small { allocation, .. } => {
                allocation.size()
            }
            Hold::Slot { allocation, .. } => allocation.size(),
            Hold::Dedicated { memory, .. } => memory.size,
            Hold::Common(_) | Hold::Aliased(_) => 0,
        }
    }

    /// By what it may be moved, if it may.
    pub(crate) fn ticket(&self) -> Option<&Arc<Ticket>> {
        match &self.hold {
            Hold::Range { ticket, .. } => ticket.as_ref(),
            _ => None,
        }
    }

    /// From now on it stays where it is.
    pub(crate) fn never_move(&self) {
        if let Some(ticket) = self.ticket() {
            ticket.close();
        }
    }

    /// Whether its bytes are an arena's, and no other's.
    pub(crate) fn is_own_range(&self) -> bool {
        matches!(self.hold, Hold::Range { .. } | Hold::Slot { .. } | Hold::Dedicated { .. })
    }

    /// Whether the memory object was made for it and nothing else.
    pub(crate) fn is_tied(&self) -> bool {
        matches!(self.hold, Hold::Dedicated { .. })
    }

    pub(crate) fn is_dedicated(&self) -> bool {
        match &self.hold {
            Hold::Common(common) => common.place.is_dedicated(),
            hold => matches!(hold, Hold::Dedicated { .. }),
        }
    }
}

/// A place that several resources have in common.
pub(crate) struct Common<D: Device> {
    pub(crate) place: Place<D>,
    pub(crate) size: u64,
}

/// A driver's buffer that small ones share.
pub(crate) struct SharedBuffer<D: Device> {
    pub(crate) object: RawBuffer<D>,
    pub(crate) mapped: Option<Mapped>,
    pub(crate) address: Option<u64>,
    pub(crate) place: Place<D>,
}

/// What cuts the driver's buffers into small ones.
pub(crate) trait SharedBuffers<D: Device>: Send + Sync {
    /// Takes a range back; and a buffer out that is empty then, if another one is.
    fn free(&self, allocation: BlockAllocation) -> Option<Arc<SharedBuffer<D>>>;
}

/// An owner of blocks outside the arenas, which suballocates ranges of them: how ranges are freed to it, and its blocks
/// to the driver.
///
/// # Safety
/// What [`RangeOwner::take_empty`] returns meets the conditions of
/// [`Shared::free_backing`](super::shared::Shared::free_backing).
pub unsafe trait RangeOwner<D: Device>: Send + Sync {
    /// Frees a range. No other owner holds the block's memory through the range any more.
    fn free(&self, allocation: &BlockAllocation);

    /// Takes out a block that is empty, no matter for how long, to be destroyed: one whose memory `may_go`.
    fn take_empty(&self, may_go: &dyn Fn(&Memory<D>) -> bool) -> Option<Backing<D>>;

    /// Whether no range will be requested of it again.
    fn is_closed(&self) -> bool;

    /// Whether it is closed and has no block left.
    fn is_gone(&self) -> bool;

    /// Checks every rule of the structure.
    ///
    /// # Errors
    /// The first rule that does not hold.
    fn validate(&self) -> Result<(), Invalid>;
}

/// What lies under a block of a [`RangeOwner`].
pub enum Backing<D: Device> {
    /// A memory object, which the arena counts under this number.
    Heap {
        /// The memory object.
        memory: Arc<Memory<D>>,
        /// The arena that counts it, an index.
        arena: u32,
        /// Its number there.
        number: u64,
    },
    /// A buffer that the ranges share.
    Buffer {
        /// The driver's buffer.
        object: RawBuffer<D>,
        /// Where it lies.
        place: Place<D>,
    },
}
