//! Where a resource's bytes are, and by what right.

use std::sync::Arc;

use ringfence_core::blocks::BlockAllocation;
use ringfence_core::pool_chain::PoolAllocation;

use super::allocation::Common;
use super::block_memory::BlockMemory;
use super::pool::PoolState;
use super::release::RangeOwner;
use super::shared::Shared;
use super::small::{Backing, SmallState};
use crate::defrag::Ticket;
use crate::device::sharing::ShareKind;
use crate::device::{Device, Mapped};
use crate::observe::debugging::Key;
use crate::residency::Residence;

/// A memory object of the driver and what it was made as.
pub struct Memory<D: Device> {
    pub object: D::Memory,
    pub memory_type: u32,
    pub(crate) size: u64,
    /// Its number in a trace.
    pub block: u64,
    /// Where the host sees its first byte, where the API maps memory objects.
    pub(crate) mapped: Option<Mapped>,
    /// Where debugging sees its first byte.
    pub(crate) guards: Option<Mapped>,
    /// What handles to it are, if it was made for some.
    pub(crate) share: Option<ShareKind>,
    /// Whether it was made from a handle.
    pub(crate) is_imported: bool,
    /// There iff it can be evicted.
    pub(crate) residence: Option<Arc<Residence<D>>>,
}

impl<D: Device> Memory<D> {
    /// Something lies in it whose use nobody declares.
    pub(super) fn pin(&self) {
        if let Some(residence) = &self.residence {
            residence.pin();
        }
    }

    pub(super) fn unpin(&self) {
        if let Some(residence) = &self.residence {
            residence.unpin();
        }
    }

    pub(crate) fn is_evicted(&self) -> bool {
        self.residence.as_ref().is_some_and(|residence| residence.is_evicted())
    }
}

/// Where a resource's bytes are. Owned by one value: it goes back through [`Shared::give_back`], once.
pub struct Place<D: Device> {
    pub offset: u64,
    pub(crate) arena: ArenaRef<D>,
    pub(super) hold: Hold<D>,
}

/// Which arena a place is of.
pub(crate) enum ArenaRef<D: Device> {
    /// One of the allocator's own, by index. As wide as the other: an `Option` of what holds this is copied by whole words,
    /// which the processor forwards from store to load.
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
pub(super) enum Hold<D: Device> {
    /// A range of a block.
    Range { memory: BlockMemory<D>, allocation: BlockAllocation, ticket: Option<Arc<Ticket>> },
    /// One of many equal cells in a range of a block.
    Cell { class: u32, named: bool, allocation: PoolAllocation },
    /// Memory of its own, and the number under which the arena knows it.
    Dedicated { memory: Arc<Memory<D>>, number: u64 },
    /// A range of a pool outside the arenas.
    Pooled { memory: Arc<Memory<D>>, owner: Arc<dyn RangeOwner<D>>, allocation: BlockAllocation },
    /// Somebody else's memory; the last one to let go of it gives it back.
    Aliased(Arc<Place<D>>),
    /// A share in a place that several resources have in common.
    Common(Arc<Common<D>>),
    /// A range of a buffer that small buffers share.
    Small { state: Arc<SmallState<D>>, backing: Arc<Backing<D>>, allocation: BlockAllocation },
}

impl<D: Device> Place<D> {
    pub fn memory<'a>(&'a self, shared: &'a Shared<D>) -> &'a Memory<D> {
        match &self.hold {
            Hold::Range { memory, .. } => memory,
            Hold::Dedicated { memory, .. } | Hold::Pooled { memory, .. } => memory,
            Hold::Cell { class, allocation, .. } => shared.arena_cells(&self.arena).memory(*class, allocation),
            Hold::Aliased(whole) => whole.memory(shared),
            Hold::Common(common) => common.place.memory(shared),
            Hold::Small { backing, .. } => backing.place.memory(shared),
        }
    }
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

    /// The range of a block that it is.
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

    /// Its memory, to be shared by whoever cuts it up. It has to be let go of before the place is given back.
    pub fn shared_memory(&self, shared: &Shared<D>) -> Arc<Memory<D>> {
        match &self.hold {
            Hold::Range { memory, .. } => memory.share(),
            Hold::Dedicated { memory, .. } | Hold::Pooled { memory, .. } => Arc::clone(memory),
            Hold::Cell { class, allocation, .. } => shared.arena_cells(&self.arena).shared_memory(*class, allocation),
            Hold::Common(common) => common.place.shared_memory(shared),
            Hold::Aliased(whole) => whole.shared_memory(shared),
            Hold::Small { backing, .. } => backing.place.shared_memory(shared),
        }
    }

    /// How many bytes are held, rounding left out; 0 for a share in what others hold too.
    pub(super) fn size(&self) -> u64 {
        match &self.hold {
            Hold::Range { allocation, .. } | Hold::Pooled { allocation, .. } | Hold::Small { allocation, .. } => {
                allocation.size()
            }
            Hold::Cell { allocation, .. } => allocation.size(),
            Hold::Dedicated { memory, .. } => memory.size,
            Hold::Common(_) | Hold::Aliased(_) => 0,
        }
    }

    /// What debugging knows it by; `None` for a share in what others hold too, and for ranges outside the arenas.
    pub(crate) fn key(&self, shared: &Shared<D>) -> Option<Key> {
        let is_small = matches!(self.hold, Hold::Small { .. });
        let is_known = is_small || self.is_own_range();
        is_known.then(|| Key { block: self.memory(shared).block, offset: self.offset, is_small })
    }

    /// Where its range begins in the memory; its own bytes begin there or behind a guard.
    pub(super) fn range_offset(&self, shared: &Shared<D>) -> u64 {
        match &self.hold {
            Hold::Range { allocation, .. } => allocation.offset(),
            Hold::Cell { class, allocation, .. } => shared.arena_cells(&self.arena).offset(*class, allocation),
            _ => self.offset,
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
    pub(super) fn never_move(&self) {
        if let Some(ticket) = self.ticket() {
            ticket.close();
        }
    }

    /// Whether its bytes are an arena's, and nobody else's.
    pub(super) fn is_own_range(&self) -> bool {
        matches!(self.hold, Hold::Range { .. } | Hold::Cell { .. } | Hold::Dedicated { .. })
    }

    /// Whether the memory object was made for it and nothing else.
    pub(crate) fn is_tied(&self) -> bool {
        matches!(self.hold, Hold::Dedicated { .. })
    }

    /// Whether the memory object is its own.
    pub(crate) fn is_dedicated(&self) -> bool {
        match &self.hold {
            Hold::Common(common) => common.place.is_dedicated(),
            hold => matches!(hold, Hold::Dedicated { .. }),
        }
    }
}
