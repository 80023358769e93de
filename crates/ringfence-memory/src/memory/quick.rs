//! The short ways: memory for a request that asks for nothing special, out of what is at hand.
//!
//! ```text
//!   allocate(needs, desc) ──▶ plain, nothing noted? ──▶ class ──▶ a cell of this thread's stock ──▶ Allocation
//!                               │ no                                │ none
//!   create(info, desc) ─────────┴───────────────────────────────────┤
//!                                                                   ▼
//!                             plain? ──▶ a cell of the chain, or a range of a block ──▶ Place
//!                               │ no                                │ none
//!                               └───────────────────────────────────┴──▶ the ladder: any request
//! ```
//!
//! They give what the ladder would give: where a request needs padding, guards, a choice among rarer memory types or its
//! memory brought back, and while anything is recorded, they decline. For a cell no line that other threads write is read
//! or written, but for a batch of cells now and then; a range takes the lock of its arena.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::allocation::Allocation;
use super::arena::Request;
use super::cells::{CELL_BYTES_MAX, Cells, Class, Ready};
use super::place::{ArenaRef, Hold, Place};
use super::shared::Shared;
use super::types::TypeOrder;
use crate::device::{Capabilities, Device, Requirements};
use crate::resource::{AllocationDesc, Dedicated};

/// The memory types whose arenas serve plain requests without a second look, a bit each.
pub(super) fn quick_types(capabilities: &Capabilities, order: &TypeOrder, shares: impl Fn(u32, u64) -> bool) -> u32 {
    let types = 0..capabilities.memory_types.len() as u32;
    let is_quick = |index: &u32| {
        // No padding, no memory of its own, and no request that is too large.
        !capabilities.is_non_coherent(*index)
            && shares(*index, CELL_BYTES_MAX)
            && order.always_serves(CELL_BYTES_MAX, 1 << index)
    };
    types.filter(is_quick).fold(0, |bits, index| bits | 1 << index)
}

/// Whether a request takes memory like any other, of the best type that there is for its location.
#[inline]
fn is_plain(needs: &Requirements, desc: &AllocationDesc<'_>) -> bool {
    desc.share.is_none()
        && desc.dedicated != Dedicated::Always
        && (desc.required | desc.preferred).is_empty()
        && !needs.prefers_dedicated
        && !needs.requires_dedicated
}

impl<D: Device> Shared<D> {
    /// Whether somebody wants to know of each allocation, or it has to fail.
    #[inline]
    fn is_watched(&self) -> bool {
        self.debug.is_some() || self.trace.is_on() || self.lost.load(Ordering::Relaxed)
    }

    /// The arena and class of a plain request that nothing is noted of; `None` if it is not one.
    #[inline]
    fn quick_class(&self, needs: &Requirements, desc: &AllocationDesc<'_>) -> Option<(u32, Class)> {
        let is_noted = !desc.name.is_empty() || desc.user_data != 0 || desc.movable || desc.evictable;
        if is_noted || !is_plain(needs, desc) || self.is_watched() {
            return None;
        }
        let arena = self.quick_arena(self.cell_types, needs, desc)?;
        let (size, alignment) = self.classes.range_of(needs);
        Some((arena, Class::of(size, alignment)?))
    }

    /// The arena of the best type for a plain request, if that is one of `types`.
    #[inline(always)]
    fn quick_arena(&self, types: u32, needs: &Requirements, desc: &AllocationDesc<'_>) -> Option<u32> {
        let memory_type = self.order.first(desc.location, needs.memory_type_bits & desc.memory_types)?;
        let is_quick = types >> memory_type & 1 == 1;
        is_quick.then(|| self.shared_arena_index(memory_type, needs.class))
    }

    /// A cell or a range at hand for a plain request; `None` where it is the ladder's to find one, or to say why not.
    #[inline]
    pub(super) fn place_at_hand(&self, needs: &Requirements, desc: &AllocationDesc<'_>) -> Option<Place<D>> {
        if !is_plain(needs, desc) || self.is_watched() {
            return None;
        }
        let index = self.quick_arena(self.quick_types, needs, desc)?;
        let (size, alignment) = self.classes.range_of(needs);
        let arena = &self.arenas[index as usize];
        let is_sound = size != 0 && alignment.is_power_of_two();
        let is_served = arena.shares(size) && self.order.always_serves(size, needs.memory_type_bits);
        if !is_sound || !is_served {
            return None;
        }
        let (offset, hold) = arena.allocate_at_hand(self, Request::of(desc, size, alignment))?;
        let place = Place { offset, arena: ArenaRef::Own(index.into()), hold };
        if self.device.capabilities().residency && !desc.evictable && place.memory(self).is_evicted() {
            self.give_back(place);
            return None;
        }
        Some(place)
    }

    /// The end of the last handle: nothing that lies ready keeps the allocator alive from now on.
    pub(super) fn close_stocks(&self) {
        self.arenas.iter().for_each(|arena| arena.cells.close_stocks());
    }
}

impl<D: Device> Allocation<D> {
    /// Memory out of what this thread has at hand. Only while a handle of the allocator lives.
    #[inline]
    pub(super) fn at_hand(shared: &Arc<Shared<D>>, needs: &Requirements, desc: &AllocationDesc<'_>) -> Option<Self> {
        let (arena, class) = shared.quick_class(needs, desc)?;
        let (Ready { cell, offset }, owner) = shared.arenas[arena as usize].cells.take_ready(class)?;
        let hold = Hold::Cell { class: class.index, named: false, allocation: cell };
        Some(Self {
            shared: owner.unwrap_or_else(|| Arc::clone(shared)),
            place: ManuallyDrop::new(Place { offset, arena: ArenaRef::Own(arena.into()), hold }),
            size: needs.size,
            alignment_log2: needs.alignment.trailing_zeros() as u8,
            class: needs.class,
            is_mixed: false,
            location: desc.location,
            user_data: 0,
        })
    }

    /// Gives a cell back that nothing is noted of, for the next that asks, or a range of a block that is never moved;
    /// anything else is given back to the caller.
    ///
    /// # Safety
    /// As for [`Allocation::free_now`].
    #[inline]
    pub(super) unsafe fn free_at_hand(self) -> Option<Self> {
        let held = ManuallyDrop::new(self);
        let (arena, class, cell) = match &held.place.hold {
            Hold::Cell { class, named: false, allocation } if !held.shared.is_watched() => {
                let ArenaRef::Own(arena) = held.place.arena else { unreachable!("custom pools have no cells") };
                (arena, *class, allocation)
            }
            _ => {
                // SAFETY: `held` is never dropped, and used again only if it was not given back.
                let is_free = unsafe { held.free_range_at_hand() };
                return (!is_free).then(|| ManuallyDrop::into_inner(held));
            }
        };
        // SAFETY: `held` is never dropped nor used again, so that the owner is taken once; nothing else in it but the cell
        // has to be seen to.
        let owner = unsafe { std::ptr::read(&held.shared) };
        // Read at its end, and so moved once.
        // SAFETY: as above.
        let ready = || unsafe { Ready { cell: std::ptr::read(cell), offset: held.place.offset } };
        Cells::put_ready(owner, arena as usize, class, ready);
        None
    }

    /// [`Allocation::free_at_hand`] for a range; says whether it was one. By reference: copies would cost more than the rest.
    ///
    /// # Safety
    /// If it was, it is neither used nor dropped afterwards.
    unsafe fn free_range_at_hand(&self) -> bool {
        match (&self.place.arena, &self.place.hold) {
            (ArenaRef::Own(arena), Hold::Range { allocation, ticket: None, .. }) if !self.shared.is_watched() => {
                // SAFETY: nobody uses it again, as the caller promises; what is not read holds nothing.
                let owner = unsafe { std::ptr::read(&self.shared) };
                owner.free_range(*arena, *allocation);
                true
            }
            _ => false,
        }
    }
}
