//! The search for a free span.
//!
//! ```text
//!   class of the size   next   …   of size + alignment - 1   …
//!      │  its head        │              │
//!      ▼  (1)             ▼  (2)         ▼  (3)                     (4) the first few of each class, from (1) up
//! ```
//!
//! (1) can be too short, (2) can be misaligned, (3) always fits. (4) is tried when the request would otherwise fail.
//!
//! | operation | cost |
//! |---|---|
//! | `find` | O(1): at most [`NEAR_MISSES`] more nodes read if no span fits for certain |
//! | `find_below` | O(1): at most 64 nodes read |

use super::Tlsf;
use super::classes::{class_of, fitting_class_of};
use super::lists::{Node, SENTINEL};
use core::hint::select_unpredictable;

/// Largest number of blocks of uncertain fit that are tried before an allocation fails.
pub const NEAR_MISSES: u32 = 32;

/// Largest number of blocks that [`Tlsf::allocate_below`] tries.
pub(super) const LOOKS_BELOW: u32 = 64;

/// A free block that fits a request.
pub(super) struct Place {
    pub(super) slot: u32,
    /// Size of the block, in units.
    pub(super) block: u64,
    /// Units before the first aligned unit.
    pub(super) padding: u64,
}

/// Returns the free block `slot`, and `true` if `size` aligned units fit in it. Meaningless for the sentinel.
#[inline(always)]
pub(super) fn look(nodes: &[Node], slot: u32, size: u64, alignment: u64) -> (Place, bool) {
    let node = nodes[slot as usize];
    let block = nodes[node.next as usize].offset.wrapping_sub(node.offset);
    let padding = node.offset.wrapping_neg() & (alignment - 1);
    let fits = (block >= padding) & (block.wrapping_sub(padding) >= size);
    (Place { slot, block, padding }, fits)
}

#[inline(always)]
pub(super) fn fit(nodes: &[Node], slot: u32, size: u64, alignment: u64) -> Option<Place> {
    let (place, fits) = look(nodes, slot, size, alignment);
    fits.then_some(place)
}

impl Tlsf {
    /// Returns the head of the request's own class if it fits; else the head of the lowest class whose blocks all have
    /// the size, if its alignment fits; else the result of [`Tlsf::find_elsewhere`].
    ///
    /// Freed sizes are often requested again, and an equal block is in the own class, not in the class above. Trying
    /// the own class saves about a hundredth of the heap; trying two or four of its blocks measured hardly better. Its
    /// success is unpredictable, so both heads are read and one is selected without a branch.
    #[inline(always)]
    pub(super) fn find(&self, size: u64, alignment: u64) -> Option<Place> {
        let Some(class) = self.lists.class_from(fitting_class_of(size)) else {
            return self.find_elsewhere(size, alignment);
        };
        let near = self.lists.first(class_of(size));
        let (_, fits) = look(&self.nodes, near, size, alignment);
        let slot = select_unpredictable(fits & (near != SENTINEL), near, self.lists.first(class));
        match fit(&self.nodes, slot, size, alignment) {
            Some(place) => Some(place),
            None => self.find_elsewhere(size, alignment),
        }
    }

    /// Returns the head of the own class if it fits; else the first block that fits at any offset; else a near miss.
    #[cold]
    #[inline(never)]
    pub(super) fn find_elsewhere(&self, size: u64, alignment: u64) -> Option<Place> {
        let near = self.lists.first(class_of(size));
        if near != SENTINEL
            && let Some(place) = fit(&self.nodes, near, size, alignment)
        {
            return Some(place);
        }
        let surely = match size.checked_add(alignment - 1) {
            Some(padded) => fitting_class_of(padded),
            None => u32::MAX,
        };
        if surely != u32::MAX
            && let Some(class) = self.lists.class_from(surely)
        {
            return fit(&self.nodes, self.lists.first(class), size, alignment);
        }
        self.near_miss(size, alignment, surely)
    }

    /// Returns the first block that fits, of the first [`NEAR_MISSES`] blocks from the request's own class up to below
    /// the class `surely`.
    pub(super) fn near_miss(&self, size: u64, alignment: u64, surely: u32) -> Option<Place> {
        let mut left = NEAR_MISSES;
        let mut class = self.lists.class_from(class_of(size))?;
        while class < surely {
            let mut slot = self.lists.first(class);
            while slot != SENTINEL && left != 0 {
                let place = fit(&self.nodes, slot, size, alignment);
                if place.is_some() {
                    return place;
                }
                slot = self.lists.after(slot);
                left -= 1;
            }
            if left == 0 {
                return None;
            }
            class = self.lists.class_from(class + 1)?;
        }
        None
    }

    pub(super) fn find_below(&self, size: u64, alignment: u64, limit: u64) -> Option<Place> {
        let offset = |place: &Place| self.node(place.slot).offset + place.padding;
        let mut left = LOOKS_BELOW;
        let mut class = self.lists.class_from(class_of(size))?;
        loop {
            let mut best: Option<Place> = None;
            let mut slot = self.lists.first(class);
            while slot != SENTINEL && left != 0 {
                if let Some(place) = fit(&self.nodes, slot, size, alignment)
                    && offset(&place) + size <= limit
                    && best.as_ref().is_none_or(|held| offset(&place) < offset(held))
                {
                    best = Some(place);
                }
                slot = self.lists.after(slot);
                left -= 1;
            }
            if best.is_some() || left == 0 {
                return best;
            }
            class = self.lists.class_from(class + 1)?;
        }
    }

    /// Returns the longest of the first [`NEAR_MISSES`] spans of the highest class.
    pub(super) fn largest_listed(&self) -> u64 {
        let Some(class) = self.lists.highest_class() else { return 0 };
        let mut slot = self.lists.first(class);
        let mut largest = 0;
        for _ in 0..NEAR_MISSES {
            if slot == SENTINEL {
                break;
            }
            let node = self.node(slot);
            largest = largest.max(self.node(node.next).offset - node.offset);
            slot = self.lists.after(slot);
        }
        largest
    }
}
