//! A planning problem: sizes as arrays, the relation of clashing items, and the lower bound.
//!
//! ```text
//!   sections     0       1       2
//!   load         7      12       9       the largest sum of sizes alive at once: 12
//! ```
//!
//! A section is a set of items that all clash: on one queue, the items that are alive at one moment. O(n log n) for n
//! items on one queue, plus a limited search for a higher bound if alignments differ.

use super::internals::bound::bounds;
use super::internals::limits::{check_lifetimes, check_sizes};
use super::internals::sections;
use super::internals::shape::{Cliques, Intervals};
use super::internals::sizes::Sizes;
use super::item::{Item, ItemError};
use alloc::vec::Vec;

/// The relation of clashing items: pairs that cannot share bytes, because both can be alive at the same time.
#[derive(Clone, Debug)]
pub enum Relation {
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
    /// Duration of each item, in the caller's unit of time; for several queues, in passes of one order that the edges
    /// allow.
    pub(super) durations: Vec<u64>,
    /// Start of each item, in the same unit.
    pub(super) begins: Vec<u64>,
    load: u64,
    lower_bound: u64,
}

impl Problem {
    /// Creates the problem of items on one queue. O(n log n), plus a limited search for a higher bound if alignments
    /// differ.
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

    /// Returns the sizes and alignments of the items.
    #[doc(hidden)]
    #[must_use]
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// Returns the relation of clashing items.
    #[doc(hidden)]
    #[must_use]
    pub fn relation(&self) -> &Relation {
        &self.relation
    }

    /// Returns the duration of each item.
    #[doc(hidden)]
    #[must_use]
    pub fn durations(&self) -> &[u64] {
        &self.durations
    }

    /// Returns the start of each item.
    #[doc(hidden)]
    #[must_use]
    pub fn begins(&self) -> &[u64] {
        &self.begins
    }

    /// Creates the problem of checked items with this relation.
    #[doc(hidden)]
    #[must_use]
    pub fn with_relation(sizes: Sizes, relation: Relation, begins: Vec<u64>, durations: Vec<u64>) -> Self {
        let (load, lower_bound) = match &relation {
            Relation::Intervals(shape) => bounds(shape, &sizes),
            Relation::Cliques(shape) => bounds(shape, &sizes),
        };
        Self { sizes, relation, durations, begins, load, lower_bound }
    }

    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Returns `true` if there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// Returns the problem with this load. Used if the sections contain more than the items that are alive at one
    /// moment.
    #[doc(hidden)]
    #[must_use]
    pub fn with_load(self, load: u64) -> Self {
        Self { load, ..self }
    }

    /// Returns `true` if items differ in alignment.
    #[doc(hidden)]
    #[must_use]
    pub fn is_mixed(&self) -> bool {
        self.sizes.alignment.windows(2).any(|pair| pair[0] != pair[1])
    }

    /// Returns the product of an item's size and its duration.
    #[doc(hidden)]
    #[must_use]
    pub fn area(&self, item: usize) -> u128 {
        u128::from(self.sizes.size[item]) * u128::from(self.durations[item])
    }

    /// Returns the largest sum of sizes alive at once, in units.
    #[must_use]
    pub fn load(&self) -> u64 {
        self.load
    }

    /// Returns a proven lower bound of the height: the load, or more if alignment forces gaps.
    #[must_use]
    pub fn lower_bound(&self) -> u64 {
        self.lower_bound
    }
}
