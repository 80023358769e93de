//! Why items cannot be planned into heaps, with the numbers.

use super::super::item::ItemError;
use core::fmt;

/// Why there is no plan. Items and heaps are named by their places in their slices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HeapError {
    /// The items themselves cannot be planned.
    Item(ItemError),
    /// The alignment is no power of two, or the granularity none up to 2^32.
    BadHeap {
        /// Which heap.
        heap: usize,
        /// Its alignment.
        alignment: u64,
        /// Its granularity.
        granularity: u64,
    },
    /// An item is pinned in a heap that there is not.
    UnknownHeap {
        /// Which item.
        index: usize,
        /// The heap that was named.
        heap: usize,
        /// How many there are.
        heap_count: usize,
    },
    /// No heap of the item's classes is large enough and aligned.
    NoHeap {
        /// Which item.
        index: usize,
        /// Its size.
        size: u64,
        /// Its alignment.
        alignment: u64,
        /// The largest heap of its classes; 0 if there is none.
        capacity: u64,
        /// The most that one of its classes is aligned to; 0 if there is none.
        heap_alignment: u64,
    },
    /// The offset at which an item is pinned is no multiple of its alignment, or its heap is aligned to less.
    PinMisaligned {
        /// Which item.
        index: usize,
        /// Its offset.
        offset: u64,
        /// The alignment that it asked for.
        alignment: u64,
        /// What its heap is aligned to.
        heap_alignment: u64,
    },
    /// A pinned item ends beyond its heap.
    PinBeyondCapacity {
        /// Which item.
        index: usize,
        /// Its offset.
        offset: u64,
        /// Its size.
        size: u64,
        /// What the heap has.
        capacity: u64,
    },
    /// Two items that are alive at once are pinned on the same bytes, or of different kinds on the same page.
    PinsClash {
        /// The one.
        first: usize,
        /// The other.
        second: usize,
        /// The heap of both.
        heap: usize,
        /// The size of its pages.
        granularity: u64,
    },
    /// At one moment more is alive than all heaps hold in which it may lie.
    Overload {
        /// The moment.
        moment: u64,
        /// What is alive, in units.
        load: u64,
        /// What the heaps hold together.
        capacity: u64,
    },
    /// No plan was found. With more steps there may be one, unless it is proven that there is none.
    NotFound {
        /// The item that was left over when most were placed.
        index: usize,
        /// Its size.
        size: u64,
        /// The heap that it would have preferred.
        heap: usize,
        /// Where it would have ended there.
        end: u64,
        /// What that heap has, at most 2^63 - 1: no plan goes beyond that.
        capacity: u64,
        /// Whether there is no plan at all; never where a plan might go beyond 2^63 - 1.
        is_proven: bool,
    },
    /// The closure said no before there was a plan, or an item for which no place was found.
    Stopped {
        /// How many items there are.
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
                write!(f, "item {index} is pinned in heap {heap}, of {heap_count} heaps")
            }
            Self::NoHeap { index, size, alignment, capacity, heap_alignment } => write!(
                f,
                "item {index} of size {size} and alignment {alignment} may lie in no heap: those of its classes hold \
                 up to {capacity} and are aligned to up to {heap_alignment}"
            ),
            Self::PinMisaligned { index, offset, alignment, heap_alignment } => write!(
                f,
                "item {index} is pinned at {offset} in a heap aligned to {heap_alignment}, which is no multiple of \
                 {alignment}"
            ),
            Self::PinBeyondCapacity { index, offset, size, capacity } => {
                write!(f, "item {index} of size {size} is pinned at {offset} and ends beyond the capacity {capacity}")
            }
            Self::PinsClash { first, second, heap, granularity } => write!(
                f,
                "items {first} and {second} are pinned on the same bytes of heap {heap}, or in different kinds on the \
                 same page of {granularity}, while both are alive"
            ),
            Self::Overload { moment, load, capacity } => {
                write!(f, "at {moment} there are {load} alive, where the heaps that may hold them have {capacity}")
            }
            Self::Stopped { items } => write!(f, "it was stopped before there was a plan of the {items} items"),
            Self::NotFound { index, size, heap, end, capacity, is_proven } => {
                let proven = if is_proven { "there is no plan" } else { "no plan was found" };
                write!(
                    f,
                    "{proven}: item {index} of size {size} would end at {end} in heap {heap}, which has {capacity}"
                )
            }
        }
    }
}

impl core::error::Error for HeapError {}
