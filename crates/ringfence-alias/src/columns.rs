//! The items on each byte in the order of time. They give the number of aliasing transitions (see `transitions.rs`),
//! which is updated item by item.
//!
//! ```text
//!            cut   cut  cut        a *column* is the space between two cuts; its tenants have it in turns:
//!   space     0     4    6    9
//!   first     │ a   a    b    │    0..4   a, c, d
//!   then      │ c   c    c    │    4..6   a, c      pairs: a→c in two columns; b→c and c→d in one each
//!   last      │ d             │    6..9   b, c
//! ```
//!
//! Both ends of every item are cuts, so an item always has whole columns. Two tenants of a column are never alive at
//! the same time. On several queues the two are still ordered, because one ends before the other begins. Items with
//! several lifetimes are ordered by their first beginnings. A transition is a pair of items that are neighbours in at
//! least one column. For each pair, the number of these columns is stored.
//!
//! Internally, items are identified by their *rank*: their index in the order in which they begin. So the tenants of a
//! column are ascending numbers.
//!
//! Removing or inserting an item costs O(its columns · log n), plus moving list entries. Cuts that no item needs any
//! more are kept.

use super::internals::shape::Shape;
use super::internals::sizes::Sizes;
use alloc::vec;
use alloc::vec::Vec;

/// No item.
pub(super) const NONE: u32 = u32::MAX;

/// The neighbours that an item would have in a column, by rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Between {
    pub before: u32,
    pub after: u32,
    /// `true` if no tenant of the column clashes with the item.
    pub is_free: bool,
}

/// See the [module](self).
pub(super) struct Columns<'p, S: Shape> {
    shape: &'p S,
    sizes: &'p Sizes,
    /// Rank of each item.
    rank: Vec<u32>,
    /// Keys, by rank.
    keys: Vec<S::Key>,
    /// Cuts, ascending and distinct. Column i is between cuts i and i + 1.
    pub cuts: Vec<u64>,
    /// Tenants of each column, ascending.
    tenants: Vec<Vec<u32>>,
    /// For each rank, the ranks that have some of its bytes next, ascending, with the number of columns.
    next: Vec<Vec<(u32, u32)>>,
    /// Number of pairs that are neighbours in some column.
    pub count: usize,
    /// Scratch of `cost_of`: for each rank, the number of the last call that met it as the neighbour before, and of the
    /// last that met it as the neighbour after.
    met: Vec<(u32, u32)>,
    meeting: u32,
    broken: Vec<(u32, u32, u32)>,
}

impl<'p, S: Shape> Columns<'p, S> {
    /// Creates the columns of a plan, without items. The caller inserts the items in the order of `order`, which is the
    /// order in which they begin. O(n log n).
    pub fn empty(shape: &'p S, sizes: &'p Sizes, order: &[u32], offsets: &[u64]) -> Self {
        let count = sizes.len();
        let mut rank = vec![0; count];
        (0..).zip(order).for_each(|(place, &item)| rank[item as usize] = place);
        let keys = order.iter().map(|&item| shape.key(item as usize)).collect();
        let ends = offsets.iter().zip(&sizes.size).flat_map(|(offset, size)| [*offset, offset + size]);
        let mut cuts: Vec<u64> = ends.collect();
        cuts.sort_unstable();
        cuts.dedup();
        let tenants = vec![Vec::new(); cuts.len().saturating_sub(1)];
        let (next, met) = (vec![Vec::new(); count], vec![(0, 0); count]);
        Self { shape, sizes, rank, keys, cuts, tenants, next, count: 0, met, meeting: 0, broken: Vec::new() }
    }

    /// Returns the columns that have bytes of a range.
    pub fn range(&self, start: u64, end: u64) -> core::ops::Range<usize> {
        let first = self.cuts.partition_point(|&cut| cut <= start).saturating_sub(1);
        first..self.cuts.partition_point(|&cut| cut < end).min(self.tenants.len())
    }

    /// Returns the neighbours that an item would have in a column. The item must not be in the column.
    pub fn between(&self, item: u32, column: usize) -> Between {
        let rank = self.rank[item as usize];
        let place = self.place(rank, column);
        let (before, after) = self.around(column, place, place);
        let key = self.keys[rank as usize];
        let is_apart = |other: u32| other == NONE || !self.shape.clash(self.keys[other as usize], key);
        let is_free = if self.shape.are_in_turns() {
            // Tenants further away end before, or begin after, these two.
            is_apart(before) && is_apart(after)
        } else {
            self.tenants[column].iter().all(|&other| is_apart(other))
        };
        Between { before, after, is_free }
    }

    /// Returns the number of tenants of a column that begin before `rank`.
    fn place(&self, rank: u32, column: usize) -> usize {
        self.tenants[column].partition_point(|&other| other < rank)
    }

    /// Returns the change of [`Columns::count`] if an item that is not placed is put at `offset`. `between` has the
    /// result of [`Columns::between`] for each column. O(columns of the range · log n).
    pub fn cost_of(&mut self, item: u32, offset: u64, between: &[Between]) -> isize {
        let end = offset + self.sizes.size[item as usize];
        self.meeting += 1;
        self.broken.clear();
        let mut cost = 0;
        for column in self.range(offset, end) {
            let Between { before, after, .. } = between[column];
            if before != NONE {
                cost += isize::from(core::mem::replace(&mut self.met[before as usize].0, self.meeting) != self.meeting);
            }
            if after != NONE {
                cost += isize::from(core::mem::replace(&mut self.met[after as usize].1, self.meeting) != self.meeting);
            }
            let is_whole = offset <= self.cuts[column] && self.cuts[column + 1] <= end;
            if is_whole && before != NONE && after != NONE {
                // Adjacent columns mostly have the same two neighbours.
                match self.broken.last_mut() {
                    Some(held) if (held.0, held.1) == (before, after) => held.2 += 1,
                    _ => self.broken.push((before, after, 1)),
                }
            }
        }
        self.broken.sort_unstable();
        let pairs = self.broken.chunk_by(|one, other| (one.0, one.1) == (other.0, other.1));
        let is_gone = |pair: &&[(u32, u32, u32)]| {
            self.columns_of(pair[0].0, pair[0].1) == pair.iter().map(|held| held.2).sum::<u32>()
        };
        cost - pairs.filter(is_gone).count() as isize
    }

    fn columns_of(&self, before: u32, after: u32) -> u32 {
        let next = &self.next[before as usize];
        next.binary_search_by_key(&after, |held| held.0).map_or(0, |place| next[place].1)
    }

    /// Returns the number of transitions of each item. O(n + transitions).
    pub fn degrees(&self) -> Vec<usize> {
        let mut by_rank: Vec<usize> = self.next.iter().map(Vec::len).collect();
        self.next.iter().flatten().for_each(|held| by_rank[held.0 as usize] += 1);
        self.rank.iter().map(|&rank| by_rank[rank as usize]).collect()
    }

    /// Inserts an item at a free offset. Returns the number of its columns.
    pub fn put(&mut self, item: u32, offset: u64) -> usize {
        let end = offset + self.sizes.size[item as usize];
        self.cut(offset);
        self.cut(end);
        let rank = self.rank[item as usize];
        let columns = self.range(offset, end);
        for column in columns.clone() {
            let place = self.place(rank, column);
            let (before, after) = self.around(column, place, place);
            self.unlink(before, after);
            self.link(before, rank);
            self.link(rank, after);
            self.tenants[column].insert(place, rank);
        }
        columns.len()
    }

    /// Removes an item from its offset.
    pub fn take(&mut self, item: u32, offset: u64) {
        let rank = self.rank[item as usize];
        for column in self.range(offset, offset + self.sizes.size[item as usize]) {
            let place = self.place(rank, column);
            let (before, after) = self.around(column, place, place + 1);
            self.tenants[column].remove(place);
            self.unlink(before, rank);
            self.unlink(rank, after);
            self.link(before, after);
        }
    }

    /// Returns the tenant before the index `before` and the tenant at the index `after`.
    fn around(&self, column: usize, before: usize, after: usize) -> (u32, u32) {
        let tenants = &self.tenants[column];
        (before.checked_sub(1).map_or(NONE, |place| tenants[place]), tenants.get(after).copied().unwrap_or(NONE))
    }

    /// Adds a cut, unless it exists. `at` must be inside the plan's height.
    fn cut(&mut self, at: u64) {
        let place = self.cuts.partition_point(|&cut| cut < at);
        if self.cuts.get(place) == Some(&at) {
            return;
        }
        let column = place - 1;
        let tenants = self.tenants[column].clone();
        tenants.windows(2).for_each(|pair| self.link(pair[0], pair[1]));
        self.cuts.insert(place, at);
        self.tenants.insert(column, tenants);
    }

    fn link(&mut self, before: u32, after: u32) {
        if before == NONE || after == NONE {
            return;
        }
        let next = &mut self.next[before as usize];
        match next.binary_search_by_key(&after, |held| held.0) {
            Ok(place) => next[place].1 += 1,
            Err(place) => {
                next.insert(place, (after, 1));
                self.count += 1;
            }
        }
    }

    fn unlink(&mut self, before: u32, after: u32) {
        if before == NONE || after == NONE {
            return;
        }
        let next = &mut self.next[before as usize];
        let place = next.binary_search_by_key(&after, |held| held.0).expect("neighbours are counted");
        next[place].1 -= 1;
        if next[place].1 == 0 {
            next.remove(place);
            self.count -= 1;
        }
    }
}
