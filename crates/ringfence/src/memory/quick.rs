//! The short way: memory for a small request that asks for nothing special, out of what its thread has at hand.
//!
//! ```text
//!   allocate(needs, desc) ──▶ plain? ──▶ class ──▶ a cell of this thread's stock ──▶ Allocation
//!                               │ no                 │ none
//!                               └────────▶ the ladder: any request, with everything that is noted of it
//! ```
//!
//! It gives what the ladder would give: where a request needs padding, guards, a note, a choice among rarer memory types
//! or a look at whether its memory is evicted, and while anything is recorded, it declines. No line that other threads
//! write is read or written, but for a batch of cells now and then.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::allocation::Allocation;
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

impl<D: Device> Shared<D> {
    /// Whether somebody wants to know of each allocation, or it has to fail.
    #[inline]
    fn is_watched(&self) -> bool {
        self.debug.is_some() || self.trace.is_on() || self.lost.load(Ordering::Relaxed)
    }

    /// The arena and class of a plain request; `None` if it is not plain.
    #[inline]
    fn quick_class(&self, needs: &Requirements, desc: &AllocationDesc<'_>) -> Option<(u32, Class)> {
        let is_plain = desc.name.is_empty()
            && desc.user_data == 0
            && !desc.movable
            && !desc.evictable
            && desc.share.is_none()
            && desc.dedicated != Dedicated::Always
            && (desc.required | desc.preferred).is_empty()
            && !needs.prefers_dedicated
            && !needs.requires_dedicated;
        if !is_plain || self.is_watched() {
            return None;
        }
        let memory_type = self.order.first(desc.location, needs.memory_type_bits & desc.memory_types)?;
        if self.quick_types >> memory_type & 1 == 0 {
            return None;
        }
        let (size, alignment) = self.classes.range_of(needs);
        Some((self.shared_arena_index(memory_type, needs.class), Class::of(size, alignment)?))
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

    /// Gives a cell back that nothing is noted of, for the next that asks; anything else is given back to the caller.
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
            _ => return Some(ManuallyDrop::into_inner(held)),
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
}
