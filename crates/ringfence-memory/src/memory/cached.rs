//! Memory for a plain request out of what is cached or has room: a decision that was made beforehand, for each memory
//! type, and no driver call.
//!
//! ```text
//!   allocate(needs, desc) ──▶ plain, nothing noted? ──▶ class ──▶ a slot of this thread's cache ──▶ Allocation
//!                               │ no                                │ none
//!   create(info, desc) ─────────┴───────────────────────────────────┤
//!                                                                   ▼
//!                             plain? ──▶ a slot of the chain, or a range of a block ──▶ Place
//!                               │ no                                │ none
//!                               └───────────────────────────────────┴──▶ fallback.rs: any request
//! ```
//!
//! What is decided for plain requests ([`plain_types`](super::decide::plain_types)) is worked out once. Where a request needs
//! padding, guards, a choice among rarer memory types or its memory brought back, and while anything is recorded, it goes
//! to the fallback order. For a slot no line that other threads write is read or written, but for a batch of slots now and
//! then; a range takes the lock of its arena.

use std::sync::atomic::Ordering;

use super::cells::Class;
use super::decide::is_plain;
use super::place::{ArenaRef, Place};
use super::request::{AllocationDesc, Request};
use super::shared::Shared;
use crate::device::{Device, Requirements};

impl<D: Device> Shared<D> {
    /// Whether each allocation is recorded or watched, or has to fail.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.debug.is_some() || self.trace.is_on() || self.lost.load(Ordering::Relaxed)
    }

    /// The arena and class of a plain request that nothing is noted of; `None` if it is not one.
    #[inline]
    pub(crate) fn plain_class(&self, needs: &Requirements, desc: &AllocationDesc<'_>) -> Option<(u32, Class)> {
        let is_noted = !desc.name.is_empty() || desc.user_data != 0 || desc.movable || desc.evictable;
        if is_noted || !is_plain(needs, desc) || self.is_watched() {
            return None;
        }
        let arena = self.plain_arena(self.cell_types, needs, desc)?;
        let (size, alignment) = self.classes.range_of(needs);
        Some((arena, Class::of(size, alignment)?))
    }

    /// The arena of the best type for a plain request, if that is one of `types`.
    #[inline(always)]
    fn plain_arena(&self, types: u32, needs: &Requirements, desc: &AllocationDesc<'_>) -> Option<u32> {
        let memory_type = self.order.first(desc.location, needs.memory_type_bits & desc.memory_types)?;
        let is_plain_type = types >> memory_type & 1 == 1;
        is_plain_type.then(|| self.shared_arena_index(memory_type, needs.class))
    }

    /// A slot of a size class or a range for a plain request, without a driver call; `None` where the fallback order has to
    /// find one, or to say why there is none.
    #[inline]
    pub(crate) fn place_cached(&self, needs: &Requirements, desc: &AllocationDesc<'_>) -> Option<Place<D>> {
        if !is_plain(needs, desc) || self.is_watched() {
            return None;
        }
        let index = self.plain_arena(self.plain_types, needs, desc)?;
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

    /// The end of the last handle: nothing that is cached keeps the allocator alive from now on.
    pub(crate) fn close_caches(&self) {
        self.arenas.iter().for_each(|arena| arena.cells.close_thread_caches());
    }
}
