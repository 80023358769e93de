//! Several heaps, pinned offsets and granularity pages: what a device adds to the packing of lifetimes.
//!
//! ```text
//!   heap 0 (device-local)   ▓▓ pinned ▓▓│ buffer │░ page ░│  texture  │      of different kinds: no page in common
//!   heap 1 (host-visible)   ─ what heap 0 cannot hold, if its list names heap 1's class too ─
//! ```
//!
//! A heap has a class and an alignment, as those of AMD's Render Pipeline Shaders have a memory type and an alignment:
//! an item may lie in a heap if its list names the class and the heap is aligned to at least as much as the item. Heaps
//! each with a class of its own are a list of heaps.
//!
//! A plan is better if less lies outside of what was preferred ([`HeapPlan::fallback_bytes`]); of two such, the one
//! whose heaps are lower in total ([`HeapPlan::height`]).

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

use super::item::Item;
use alloc::vec;
use alloc::vec::Vec;

/// A heap that items may lie in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Heap {
    /// What items name in their list: a memory type, a heap's flags.
    pub class: u32,
    /// Units that there are; `u64::MAX` for no limit.
    pub capacity: u64,
    /// What its first unit is aligned to, a power of two: an item that asks for more may not lie in it.
    pub alignment: u64,
    /// Vulkan's `bufferImageGranularity`, a power of two up to 2^32: items of different kinds that are alive at once
    /// have no page of `granularity` units in common. 1 where kinds do not matter.
    pub granularity: u64,
}

impl Heap {
    /// A heap of class 0 for any alignment, in which kinds do not matter.
    #[must_use]
    pub const fn new(capacity: u64) -> Self {
        Self { class: 0, capacity, alignment: 1 << 62, granularity: 1 }
    }
}

/// Where an item lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct HeapOffset {
    /// The heap's place in the slice of heaps.
    pub heap: usize,
    /// Units from its beginning.
    pub offset: u64,
}

/// An item, and which heaps it may lie in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HeapItem {
    /// Size, alignment and lifetime.
    pub item: Item,
    /// What is linear and what is not, on Vulkan: only items of the same kind share a page.
    pub kind: u32,
    /// The classes of heaps that it may lie in, the preferred one first.
    pub classes: Vec<u32>,
    /// Where it has to lie; its list is not asked then.
    pub pinned: Option<HeapOffset>,
}

impl HeapItem {
    /// An item of kind 0 for heaps of class 0.
    #[must_use]
    pub fn new(item: Item) -> Self {
        Self { item, kind: 0, classes: vec![0], pinned: None }
    }

    /// The same with another kind.
    #[must_use]
    pub fn of_kind(self, kind: u32) -> Self {
        Self { kind, ..self }
    }

    /// The same for heaps of these classes, the preferred one first.
    #[must_use]
    pub fn preferring(self, classes: &[u32]) -> Self {
        Self { classes: classes.to_vec(), ..self }
    }

    /// The same at this place alone.
    #[must_use]
    pub fn pinned_at(self, heap: usize, offset: u64) -> Self {
        Self { pinned: Some(HeapOffset { heap, offset }), ..self }
    }
}

/// Where each item lies, and how good that is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeapPlan {
    /// Of each item, in the order given.
    pub offsets: Vec<HeapOffset>,
    /// Of each heap its highest end, in units.
    pub heights: Vec<u64>,
    /// The sum of sizes, each as often as classes stand before the one it got in its list; 0 if all lie where they
    /// prefer to.
    pub fallback_bytes: u128,
    /// What no plan's heaps are lower than in total, in units.
    pub lower_bound: u64,
    /// Whether no plan is better: nothing less outside of what is preferred, and then none lower in total.
    pub is_proven: bool,
}

impl HeapPlan {
    /// The sum of the heaps' heights, in units.
    #[must_use]
    pub fn height(&self) -> u64 {
        self.heights.iter().fold(0, |sum, height| sum.saturating_add(*height))
    }
}
