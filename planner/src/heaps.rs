//! Planning for several heaps, with pinned offsets and granularity pages.
//!
//! ```text
//!   heap 0 (device-local)   ▓▓ pinned ▓▓│ buffer │░ page ░│  texture  │      different kinds: no page in common
//!   heap 1 (host-visible)   ─ items that do not fit heap 0, if their list names heap 1's class too ─
//! ```
//!
//! A heap has a class and an alignment, as the heaps of AMD's Render Pipeline Shaders have a memory type and an
//! alignment. An item can be placed in a heap if the item's list names the class and the heap is aligned to at least as
//! much as the item. If each heap has its own class, the list of classes is a list of heaps.
//!
//! A plan is better if it has fewer bytes outside of the preferred heaps ([`HeapPlan::fallback_bytes`]). Of two plans
//! with the same number, the one with the lower total height is better ([`HeapPlan::height`]).

mod alive;
mod around;
mod check;
mod error;
mod exact;
mod first;
mod greedy;
mod insist;
mod occupied;
mod problem;
mod replan;
mod search;

pub use check::{HeapViolation, verify_heaps};
pub use error::HeapError;
pub use problem::HeapProblem;
pub use replan::{ReplannedHeaps, replan_heaps};
pub use search::plan_heaps;

use alloc::vec;
use alloc::vec::Vec;
use ringfence_alias::Item;

/// A heap that items can be placed in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Heap {
    /// Class that items name in their list: a memory type, or flags of a heap.
    pub class: u32,
    /// Capacity in units; `u64::MAX` for no limit.
    pub capacity: u64,
    /// Alignment of the first unit, a power of two. Items with a larger alignment cannot be placed in it.
    pub alignment: u64,
    /// Page size, a power of two up to 2^32: Vulkan's `bufferImageGranularity`. Items of different kinds that are alive
    /// at once have no page in common. 1 if kinds do not matter.
    pub granularity: u64,
}

impl Heap {
    /// Creates a heap of class 0 with the largest alignment, in which kinds do not matter.
    #[must_use]
    pub const fn new(capacity: u64) -> Self {
        Self { class: 0, capacity, alignment: 1 << 62, granularity: 1 }
    }
}

/// Location of an item.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct HeapOffset {
    /// Index of the heap in the slice of heaps.
    pub heap: usize,
    /// Offset in the heap, in units.
    pub offset: u64,
}

/// An item, and the heaps that it can be placed in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HeapItem {
    /// Size, alignment and lifetime.
    pub item: Item,
    /// Kind of the item, such as linear or non-linear on Vulkan. Only items of the same kind share a page.
    pub kind: u32,
    /// Classes of heaps that it can be placed in, the preferred one first.
    pub classes: Vec<u32>,
    /// Required location, if any. `classes` is then ignored.
    pub pinned: Option<HeapOffset>,
}

impl HeapItem {
    /// Creates an item of kind 0 for heaps of class 0.
    #[must_use]
    pub fn new(item: Item) -> Self {
        Self { item, kind: 0, classes: vec![0], pinned: None }
    }

    /// Returns the item with another kind.
    #[must_use]
    pub fn of_kind(self, kind: u32) -> Self {
        Self { kind, ..self }
    }

    /// Returns the item for heaps of these classes, the preferred one first.
    #[must_use]
    pub fn preferring(self, classes: &[u32]) -> Self {
        Self { classes: classes.to_vec(), ..self }
    }

    /// Returns the item pinned at this location.
    #[must_use]
    pub fn pinned_at(self, heap: usize, offset: u64) -> Self {
        Self { pinned: Some(HeapOffset { heap, offset }), ..self }
    }
}

/// Locations of the items, and a proof of their quality.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeapPlan {
    /// Location of each item, in the order of the items.
    pub offsets: Vec<HeapOffset>,
    /// Highest end of an item in each heap, in units.
    pub heights: Vec<u64>,
    /// Sum over the items of the size times the number of classes before the chosen one in the item's list. 0 if all
    /// items are in preferred heaps.
    pub fallback_bytes: u128,
    /// Lower bound of the total height of all plans, in units.
    pub lower_bound: u64,
    /// `true` if no plan is better: none has less `fallback_bytes`, or the same and a lower total height.
    pub is_proven: bool,
}

impl HeapPlan {
    /// Returns the sum of the heaps' heights, in units.
    #[must_use]
    pub fn height(&self) -> u64 {
        self.heights.iter().fold(0, |sum, height| sum.saturating_add(*height))
    }
}
