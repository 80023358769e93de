//! A planning problem: sizes in columns, which items clash, and what no plan can be lower than.
//!
//! ```text
//!   sections     0       1       2
//!   load         7      12       9       the largest sum of sizes alive at once: 12
//! ```
//!
//! From n intervals: O(n log n).

use super::bound::bounds;
use super::item::{Item, ItemError, check_lifetimes, check_sizes};
use super::sections;
use super::shape::{Cliques, Intervals};
use super::sizes::Sizes;
use alloc::vec::Vec;

/// Which items clash.
#[derive(Clone, Debug)]
pub(super) enum Relation {
    /// One queue.
    Intervals(Intervals),
    /// Several queues.
    Cliques(Cliques),
}

/// Checked items, ready to be planned.
#[derive(Clone, Debug)]
pub struct Problem {
    pub(super) sizes: Sizes,
    pub(super) relation: Relation,
    /// How long each item lives, in the caller's unit of time (in sections, over several queues).
    pub(super) durations: Vec<u64>,
    /// When each item begins, in the same unit.
    pub(super) begins: Vec<u64>,
    pub(super) load: u64,
    lower_bound: u64,
}

impl Problem {
    /// A problem of items that live on one queue. O(n log n).
    ///
    /// # Errors
    /// The first item that cannot be planned.
    pub fn new(items: &[Item]) -> Result<Self, ItemError> {
        let sizes = Sizes {
            size: items.iter().map(|item| item.size).collect(),
            alignment: items.iter().map(|item| item.alignment).collect(),
        };
        check_sizes(sizes.pairs())?;
        check_lifetimes(items)?;
        let (spans, section_count) = sections::cut(items);
        let durations = items.iter().map(|item| item.lifetime.upper - item.lifetime.lower).collect();
        let begins = items.iter().map(|item| item.lifetime.lower).collect();
        Ok(Self::with_relation(sizes, Relation::Intervals(Intervals { spans, section_count }), begins, durations))
    }

    pub(super) fn with_relation(sizes: Sizes, relation: Relation, begins: Vec<u64>, durations: Vec<u64>) -> Self {
        let (load, lower_bound) = match &relation {
            Relation::Intervals(shape) => bounds(shape, &sizes),
            Relation::Cliques(shape) => bounds(shape, &sizes),
        };
        Self { sizes, relation, durations, begins, load, lower_bound }
    }

    /// How many items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Whether there is nothing to plan.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sizes.len() == 0
    }

    /// Whether items differ in alignment.
    pub(super) fn is_mixed(&self) -> bool {
        self.sizes.alignment.windows(2).any(|pair| pair[0] != pair[1])
    }

    /// The product of an item's size and its duration.
    pub(super) fn area(&self, item: usize) -> u128 {
        u128::from(self.sizes.size[item]) * u128::from(self.durations[item])
    }

    /// The largest sum of sizes alive at once, in units.
    #[must_use]
    pub fn load(&self) -> u64 {
        self.load
    }

    /// A height below which no plan can be: the load, or more where alignment forces gaps.
    #[must_use]
    pub fn lower_bound(&self) -> u64 {
        self.lower_bound
    }
}
