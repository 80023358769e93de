//! Errors of planning for several heaps.

use core::fmt;
use ringfence_alias::ItemError;

/// Reason why there is no plan. Items and heaps are identified by their indices in the slices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HeapError {
    /// The items themselves cannot be planned.
    Item(ItemError),
    /// The alignment of a heap is not a power of two, or its granularity is not a power of two up to 2^32.
    BadHeap {
        /// Index of the heap.
        heap: usize,
        /// Alignment of the heap.
        alignment: u64,
        /// Granularity of the heap.
        granularity: u64,
    },
    /// An item is pinned in a heap that does not exist.
    UnknownHeap {
        /// Index of the item.
        index: usize,
        /// Index of the heap.
        heap: usize,
        /// Number of heaps.
        heap_count: usize,
    },
    /// No heap of the item's classes is large enough and sufficiently aligned.
    NoHeap {
        /// Index of the item.
        index: usize,
        /// Size of the item.
        size: u64,
        /// Alignment of the item.
        alignment: u64,
        /// Largest capacity of a heap of its classes, or 0 without such a heap.
        capacity: u64,
        /// Largest alignment of a heap of its classes, or 0 without such a heap.
        heap_alignment: u64,
    },
    /// An item is pinned at an offset that is not a multiple of its alignment, or in a heap with a smaller alignment.
    PinMisaligned {
        /// Index of the item.
        index: usize,
        /// Offset of the pin.
        offset: u64,
        /// Alignment of the item.
        alignment: u64,
        /// Alignment of the heap.
        heap_alignment: u64,
    },
    /// A pinned item ends beyond the capacity of its heap.
    PinBeyondCapacity {
        /// Index of the item.
        index: usize,
        /// Offset of the pin.
        offset: u64,
        /// Size of the item.
        size: u64,
        /// Capacity of the heap.
        capacity: u64,
    },
    /// Two items that are alive at once are pinned to the same bytes, or have different kinds and are pinned to the
    /// same page.
    PinsClash {
        /// Index of one item.
        first: usize,
        /// Index of the other item.
        second: usize,
        /// Index of the heap.
        heap: usize,
        /// Granularity of the heap.
        granularity: u64,
    },
    /// At `moment`, the live items that can only be placed in a certain set of heaps need more than the total capacity
    /// of that set.
    Overload {
        /// The moment.
        moment: u64,
        /// Sum of the sizes of these items, in units.
        load: u64,
        /// Sum of the capacities of the heaps.
        capacity: u64,
    },
    /// No plan was found. More steps may find one, unless `is_proven`.
    NotFound {
        /// Index of the item that was left over in the attempt that placed the most items.
        index: usize,
        /// Size of the item.
        size: u64,
        /// Index of the heap that it prefers.
        heap: usize,
        /// End that it would have in that heap.
        end: u64,
        /// Capacity of that heap, at most 2^63 - 1, the largest end of a plan.
        capacity: u64,
        /// `true` if it is proven that there is no plan. Plans that end above offset 2^63 - 1 are not searched, so this
        /// is `false` if such a plan could exist.
        is_proven: bool,
    },
    /// The caller's closure, to which the progress is reported, returned `false` before there was a plan, or before all
    /// items were replanned.
    Stopped {
        /// Number of items.
        items: usize,
    },
}

impl fmt::Display for HeapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Item(error) => error.fmt(f),
            Self::BadHeap { heap, alignment, granularity } => write!(
                f,
                "heap {heap} has alignment {alignment} and granularity {granularity}: both must be powers of two, the \
                 granularity up to 2^32"
            ),
            Self::UnknownHeap { index, heap, heap_count } => {
                write!(f, "item {index} is pinned in heap {heap}, but there are {heap_count} heaps")
            }
            Self::NoHeap { index, size, alignment, capacity, heap_alignment } => write!(
                f,
                "item {index} of size {size} and alignment {alignment} fits no heap: the heaps of its classes have \
                 capacities up to {capacity} and alignments up to {heap_alignment}"
            ),
            Self::PinMisaligned { index, offset, alignment, heap_alignment } => write!(
                f,
                "item {index} is pinned at {offset} in a heap aligned to {heap_alignment}: both must be multiples of \
                 {alignment}"
            ),
            Self::PinBeyondCapacity { index, offset, size, capacity } => {
                write!(f, "item {index} of size {size} is pinned at {offset} and ends beyond the capacity {capacity}")
            }
            Self::PinsClash { first, second, heap, granularity } => write!(
                f,
                "items {first} and {second} are alive at once and pinned to the same bytes of heap {heap}, or have \
                 different kinds and are pinned to the same page of {granularity}"
            ),
            Self::Overload { moment, load, capacity } => {
                write!(
                    f,
                    "at {moment} items of total size {load} are alive, but their heaps have a capacity of {capacity}"
                )
            }
            Self::Stopped { items } => write!(f, "planning was stopped before there was a plan of the {items} items"),
            Self::NotFound { index, size, heap, end, capacity, is_proven } => {
                let proven = if is_proven { "there is no plan" } else { "no plan was found" };
                write!(
                    f,
                    "{proven}: item {index} of size {size} would end at {end} in heap {heap} of capacity {capacity}"
                )
            }
        }
    }
}

impl core::error::Error for HeapError {}
