//! The search for a free span.
//!
//! ```text
//!   class of the size   next   …   of size + alignment - 1   …
//!      │  its head        │              │
//!      ▼  (1)             ▼  (2)         ▼  (3)                     (4) spans of each class, from (1) to below (3)
//! ```
//!
//! The search tries four kinds of free spans, in this order. (1), the first span of the request's own class, can be too
//! short. (2), the first span of the lowest non-empty class in which all spans are long enough, can be misaligned. (3),
//! the first span of the lowest non-empty class in which every span has at least `size + alignment - 1` units, fits at
//! any offset. (4), at most [`NEAR_MISSES`] spans in total, are tried only if there is no (3).
//!
//! | operation | cost |
//! |---|---|
//! | `find` | O(1): tries at most [`NEAR_MISSES`] further spans if no span fits for certain |
//! | `find_below` | O(1): tries at most 64 spans |

use super::Tlsf;
use super::classes::{class_of, fitting_class_of};
use super::lists::{Node, SENTINEL};
use core::hint::select_unpredictable;

/// Maximum number of free spans that a search tries if none is so large that it fits for certain.
pub const NEAR_MISSES: u32 = 32;

/// Maximum number of free spans that [`Tlsf::allocate_below`] tries.
pub(super) const LOOKS_BELOW: u32 = 64;

/// A free span, and the position of a request in it.
pub(super) struct Place {
    pub(super) slot: u32,
    /// Size of the free span, in units.
    pub(super) block: u64,
    /// Number of units of the span before the first aligned unit.
    pub(super) padding: u64,
}

/// Returns the free span of `slot`, and `true` if `size` aligned units fit in it. For the sentinel, the result has no
/// meaning.
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
    /// Returns the first span of the request's own class if it fits. Otherwise, returns the first span of the lowest
    /// class in which all spans are large enough, if it fits with its alignment. Otherwise, calls
    /// [`Tlsf::find_elsewhere`].
    ///
    /// The request's own class is tried first, because a size that was freed is often requested again. In measurements,
    /// this saved about a hundredth of the heap; trying two or four spans of the class was hardly better. The processor
    /// cannot predict if the span fits, so both spans are read and one is selected without a branch.
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

    /// Returns the first span of the request's own class if it fits. Otherwise, returns a span that is large enough at
    /// any offset, if there is one. Otherwise, calls [`Tlsf::near_miss`].
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

    /// Returns the first span that fits among the first [`NEAR_MISSES`] spans of the classes from the request's own
    /// class up to, but not including, `surely`.
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

    /// Returns the largest size, in units, among the first [`NEAR_MISSES`] spans of the highest class that is not
    /// empty. Returns 0 if there is no free span.
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
