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

use std::sync::atomic::Ordering;

use super::cells::Class;
use super::place::{ArenaRef, Place};
use super::request::{AllocationDesc, Dedicated, Request};
use super::shared::Shared;
use crate::device::{Device, Requirements};

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
    pub(crate) fn is_watched(&self) -> bool {
        self.debug.is_some() || self.trace.is_on() || self.lost.load(Ordering::Relaxed)
    }

    /// The arena and class of a plain request that nothing is noted of; `None` if it is not one.
    #[inline]
    pub(crate) fn quick_class(&self, needs: &Requirements, desc: &AllocationDesc<'_>) -> Option<(u32, Class)> {
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
    pub(crate) fn place_at_hand(&self, needs: &Requirements, desc: &AllocationDesc<'_>) -> Option<Place<D>> {
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
        let found = arena.allocate_cached(Request::of(desc, size, alignment))?;
        let place = Place::found(ArenaRef::Own(index.into()), found, 0);
        if self.device.capabilities().residency && !desc.evictable && self.memory_of(&place).is_evicted() {
            self.give_back(place);
            return None;
        }
        Some(place)
    }

    /// The end of the last handle: nothing that lies ready keeps the allocator alive from now on.
    pub(crate) fn close_stocks(&self) {
        self.arenas.iter().for_each(|arena| arena.cells.close_stocks());
    }
}
