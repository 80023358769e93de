//! The checker of plans for several heaps. It shares no code with the planners, and reads the heaps and items as the
//! caller gave them.
//!
//! A sweep over time keeps the live items of a heap by offset. They do not overlap, or the sweep would have ended, so a
//! new item is compared only with the items on its pages. O(n log n + items on these pages).

use super::{Heap, HeapItem, HeapOffset};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use ringfence_alias::{ItemError, Lifetime};

/// Fault of a plan. Items and heaps are identified by their indices in the slices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HeapViolation {
    /// The number of offsets is not the number of items.
    Count {
        /// Number of items.
        items: usize,
        /// Number of offsets.
        offsets: usize,
    },
    /// An item has the size 0, an empty lifetime, or an alignment that is not a power of two.
    Item(ItemError),
    /// The heap of an item does not exist, or its class is not one of the item's classes.
    WrongHeap {
        /// Index of the item.
        index: usize,
        /// Index of the heap.
        heap: usize,
    },
    /// A pinned item is not at its pin.
    NotPinned {
        /// Index of the item.
        index: usize,
        /// Location of the item.
        at: HeapOffset,
        /// Location of the pin.
        pinned: HeapOffset,
    },
    /// An offset is not a multiple of the item's alignment, or the heap has a smaller alignment.
    Misaligned {
        /// Index of the item.
        index: usize,
        /// Location of the item.
        at: HeapOffset,
        /// Alignment of the item.
        alignment: u64,
    },
    /// An item ends beyond the capacity of its heap.
    BeyondCapacity {
        /// Index of the item.
        index: usize,
        /// Location of the item.
        at: HeapOffset,
        /// Size of the item.
        size: u64,
        /// Capacity of the heap.
        capacity: u64,
    },
    /// Two items share bytes while both are alive.
    Overlap {
        /// Index of one item.
        first: usize,
        /// Index of the other item.
        second: usize,
        /// Index of the heap.
        heap: usize,
    },
    /// Two items of different kinds share a page while both are alive.
    SharedPage {
        /// Index of one item.
        first: usize,
        /// Index of the other item.
        second: usize,
        /// Index of the heap.
        heap: usize,
        /// Offset of the page.
        page: u64,
    },
}

impl fmt::Display for HeapViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Count { items, offsets } => write!(f, "{items} items, but {offsets} offsets"),
            Self::Item(error) => error.fmt(f),
            Self::WrongHeap { index, heap } => {
                write!(f, "item {index} is in heap {heap}, which does not exist or whose class the item does not list")
            }
            Self::NotPinned { index, at, pinned } => write!(
                f,
                "item {index} is pinned at {} in heap {}, but is at {} in heap {}",
                pinned.offset, pinned.heap, at.offset, at.heap
            ),
            Self::Misaligned { index, at, alignment } => {
                write!(f, "item {index} at {} in heap {} is not aligned to {alignment}", at.offset, at.heap)
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
                "items {first} and {second} have different kinds and share the page at {page} of heap {heap} while \
                 both are alive"
            ),
        }
    }
}

impl core::error::Error for HeapViolation {}

/// Checks a plan:
///
/// - each item is at its pin, or in a heap of one of its classes;
/// - each offset is aligned, and each item ends within the capacity;
/// - items that are alive at the same time share no byte, and no page if their kinds differ.
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

/// Checks the items of one heap for clashes, by a sweep over time.
fn check_apart(heap: usize, page: u64, items: &[HeapItem], offsets: &[HeapOffset]) -> Result<(), HeapViolation> {
    let mut moments: Vec<(u64, u8, usize)> = Vec::new();
    for index in (0..items.len()).filter(|&index| offsets[index].heap == heap) {
        let Lifetime { lower, upper } = items[index].item.lifetime;
        // At each moment, ends come before beginnings.
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
        // Walks down from the item's last page, until an item ends below its first page.
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
