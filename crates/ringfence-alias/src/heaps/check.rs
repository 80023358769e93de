//! The checker of plans for several heaps. It shares no code with the planners: it reads heaps and items as they were
//! given.
//!
//! The items alive in a heap are apart from one another at every moment, so a new one clashes with one of those that
//! touch the pages at its ends, or with none. O(n log n), and what lies on these pages.

use super::{Heap, HeapItem, HeapOffset};
use crate::item::{ItemError, Lifetime};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

/// What is wrong with a plan. Items and heaps are named by their places in their slices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HeapViolation {
    /// There are not as many offsets as items.
    Count {
        /// How many items.
        items: usize,
        /// How many offsets.
        offsets: usize,
    },
    /// A size of 0, a lifetime that ends where it begins, or an alignment that is no power of two.
    Item(ItemError),
    /// An item lies in a heap that there is not, or none of its classes.
    WrongHeap {
        /// Which item.
        index: usize,
        /// The heap.
        heap: usize,
    },
    /// A pinned item lies elsewhere.
    NotPinned {
        /// Which item.
        index: usize,
        /// Where it lies.
        at: HeapOffset,
        /// Where it is pinned.
        pinned: HeapOffset,
    },
    /// An offset is no multiple of the alignment, or the heap is aligned to less.
    Misaligned {
        /// Which item.
        index: usize,
        /// Where it lies.
        at: HeapOffset,
        /// The alignment that it asked for.
        alignment: u64,
    },
    /// An item ends beyond its heap.
    BeyondCapacity {
        /// Which item.
        index: usize,
        /// Where it lies.
        at: HeapOffset,
        /// Its size.
        size: u64,
        /// What the heap has.
        capacity: u64,
    },
    /// Two items share bytes while both are alive.
    Overlap {
        /// The one.
        first: usize,
        /// The other.
        second: usize,
        /// The heap of both.
        heap: usize,
    },
    /// Two items of different kinds share a page while both are alive.
    SharedPage {
        /// The one.
        first: usize,
        /// The other.
        second: usize,
        /// The heap of both.
        heap: usize,
        /// Where the page begins.
        page: u64,
    },
}

impl fmt::Display for HeapViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Count { items, offsets } => write!(f, "{items} items, but {offsets} offsets"),
            Self::Item(error) => error.fmt(f),
            Self::WrongHeap { index, heap } => write!(f, "item {index} lies in heap {heap}, where it may not"),
            Self::NotPinned { index, at, pinned } => write!(
                f,
                "item {index} is pinned at {} in heap {}, but lies at {} in heap {}",
                pinned.offset, pinned.heap, at.offset, at.heap
            ),
            Self::Misaligned { index, at, alignment } => {
                write!(f, "item {index} lies at {} in heap {}, not aligned to {alignment}", at.offset, at.heap)
            }
            Self::BeyondCapacity { index, at, size, capacity } => write!(
                f,
                "item {index} of size {size} at {} in heap {} ends beyond the capacity {capacity}",
                at.offset, at.heap
            ),
            Self::Overlap { first, second, heap } => {
                write!(f, "items {first} and {second} share bytes of heap {heap} while both are alive")
            }
            Self::SharedPage { first, second, heap, page } => write!(
                f,
                "items {first} and {second} are of different kinds and share the page at {page} of heap {heap} while \
                 both are alive"
            ),
        }
    }
}

impl core::error::Error for HeapViolation {}

/// Proves a plan: each item lies in a heap that it may lie in, where it is pinned if it is, aligned, and within the
/// capacity; no two share bytes while both are alive, nor a page if they are of different kinds.
///
/// # Errors
/// The first violation that was found.
pub fn verify_heaps(heaps: &[Heap], items: &[HeapItem], offsets: &[HeapOffset]) -> Result<(), HeapViolation> {
    if items.len() != offsets.len() {
        return Err(HeapViolation::Count { items: items.len(), offsets: offsets.len() });
    }
    for (index, (held, &at)) in items.iter().zip(offsets).enumerate() {
        check_item(index, held).map_err(HeapViolation::Item)?;
        check_place(heaps, index, held, at)?;
    }
    for (place, heap) in heaps.iter().enumerate() {
        check_apart(place, heap.granularity.max(1), items, offsets)?;
    }
    Ok(())
}

fn check_item(index: usize, held: &HeapItem) -> Result<(), ItemError> {
    let (size, alignment, lifetime) = (held.item.size, held.item.alignment, held.item.lifetime);
    let Lifetime { lower, upper } = lifetime;
    match () {
        () if size == 0 => Err(ItemError::ZeroSize { index }),
        () if alignment.count_ones() != 1 => Err(ItemError::BadAlignment { index, alignment }),
        () if upper <= lower => Err(ItemError::EmptyLifetime { index, lifetime }),
        () => Ok(()),
    }
}

fn check_place(heaps: &[Heap], index: usize, held: &HeapItem, at: HeapOffset) -> Result<(), HeapViolation> {
    let wrong = HeapViolation::WrongHeap { index, heap: at.heap };
    let heap = heaps.get(at.heap).ok_or(wrong)?;
    match held.pinned {
        Some(pinned) if pinned != at => return Err(HeapViolation::NotPinned { index, at, pinned }),
        None if !held.classes.contains(&heap.class) => return Err(wrong),
        _ => {}
    }
    let (size, alignment) = (held.item.size, held.item.alignment);
    if !at.offset.is_multiple_of(alignment) || !heap.alignment.is_multiple_of(alignment) {
        return Err(HeapViolation::Misaligned { index, at, alignment });
    }
    match at.offset.checked_add(size) {
        Some(end) if end <= heap.capacity => Ok(()),
        _ => Err(HeapViolation::BeyondCapacity { index, at, size, capacity: heap.capacity }),
    }
}

/// The walk over time in one heap.
fn check_apart(heap: usize, page: u64, items: &[HeapItem], offsets: &[HeapOffset]) -> Result<(), HeapViolation> {
    let mut moments: Vec<(u64, u8, usize)> = Vec::new();
    for index in (0..items.len()).filter(|&index| offsets[index].heap == heap) {
        let Lifetime { lower, upper } = items[index].item.lifetime;
        // At the same moment what ends has left before anything begins.
        moments.extend([(lower, 1, index), (upper, 0, index)]);
    }
    moments.sort_unstable();
    let last = |index: usize| offsets[index].offset + (items[index].item.size - 1);
    let mut alive: BTreeMap<u64, usize> = BTreeMap::new();
    for (_, is_begin, index) in moments {
        let first = offsets[index].offset;
        if is_begin == 0 {
            alive.remove(&first);
            continue;
        }
        let pages = (first / page, last(index) / page);
        // From above down: what begins on its last page or below it, until one ends below its first page.
        let page_end = (pages.1 * page).saturating_add(page - 1);
        for (&begin, &other) in alive.range(..=page_end).rev() {
            let (low, high) = (index.min(other), index.max(other));
            if begin <= last(index) && first <= last(other) {
                return Err(HeapViolation::Overlap { first: low, second: high, heap });
            }
            if last(other) / page < pages.0 {
                break;
            }
            if items[other].kind != items[index].kind {
                let shared = pages.0.max(begin / page) * page;
                return Err(HeapViolation::SharedPage { first: low, second: high, heap, page: shared });
            }
        }
        alive.insert(first, index);
    }
    Ok(())
}
