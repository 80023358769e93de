//! The items on each byte in order of time: aliasing transitions are counted from them, item by item.
//!
//! ```text
//!            cut   cut  cut        a *column* is what lies between two cuts; its tenants have its bytes in turns:
//!   space     0     4    6    9
//!   first     │ a   a    b    │    0..4   a, c
//!   then      │ c   c    c    │    4..6   a, c      pairs: a→c, in two columns; b→c in one
//!   last      │ d             │    6..9   b, c
//! ```
//!
//! Every end of an item is a cut, so that an item has whole columns, or none of a column. Two tenants of a column are
//! never alive at the same time; on several queues they are ordered all the same, as the one is over before the other.
//! A transition is a pair that is neighbours in at least one column, so that each is counted in how many.
//!
//! Inside, items go by their *rank*: their place among all by when they begin. So the tenants of a column are ascending
//! numbers.
//!
//! Taking an item out or putting one in costs O(its columns · tenants); cuts that no end needs any more stay.

use super::problem::Sizes;
use super::shape::Shape;
use alloc::vec;
use alloc::vec::Vec;

/// No item.
pub(super) const NONE: u32 = u32::MAX;

/// The tenants of one column between which an item would come, by rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Between {
    pub before: u32,
    pub after: u32,
    /// Whether neither of them is alive with the item.
    pub is_free: bool,
}

/// See the [module](self).
pub(super) struct Columns<'p, S: Shape> {
    shape: &'p S,
    sizes: &'p Sizes,
    /// Of each item its rank.
    rank: Vec<u32>,
    /// By rank.
    keys: Vec<S::Key>,
    /// Ascending, each once. Column i lies between the i-th and the next.
    pub cuts: Vec<u64>,
    /// Of each column, ascending.
    tenants: Vec<Vec<u32>>,
    /// Of each rank those that have bytes of it next, and in how many columns.
    next: Vec<Vec<(u32, u32)>>,
    /// Pairs that are neighbours somewhere.
    pub count: usize,
    /// What `cost_of` works with: when an item was met last, as the one before and as the one after.
    met: Vec<(u32, u32)>,
    meeting: u32,
    broken: Vec<(u32, u32, u32)>,
}

impl<'p, S: Shape> Columns<'p, S> {
    /// The columns of a plan. O(items · columns) at worst.
    pub fn new(shape: &'p S, sizes: &'p Sizes, begins: &[u64], offsets: &[u64]) -> Self {
        let count = sizes.len();
        let mut order: Vec<u32> = (0..count as u32).collect();
        order.sort_by_key(|&item| (begins[item as usize], item));
        let mut rank = vec![0; count];
        (0..).zip(&order).for_each(|(place, &item)| rank[item as usize] = place);
        let keys = order.iter().map(|&item| shape.key(item as usize)).collect();
        let ends = offsets.iter().zip(&sizes.size).flat_map(|(offset, size)| [*offset, offset + size]);
        let mut cuts: Vec<u64> = ends.collect();
        cuts.sort_unstable();
        cuts.dedup();
        let tenants = vec![Vec::new(); cuts.len().saturating_sub(1)];
        let (next, met) = (vec![Vec::new(); count], vec![(0, 0); count]);
        let mut columns =
            Self { shape, sizes, rank, keys, cuts, tenants, next, count: 0, met, meeting: 0, broken: Vec::new() };
        for item in order {
            // Each begins after those that are there already.
            columns.put(item, offsets[item as usize]);
        }
        columns
    }

    /// The columns that have bytes of a range.
    pub fn range(&self, start: u64, end: u64) -> core::ops::Range<usize> {
        let first = self.cuts.partition_point(|&cut| cut <= start).saturating_sub(1);
        first..self.cuts.partition_point(|&cut| cut < end).min(self.tenants.len())
    }

    /// Between whom an item would come in a column. It is not in it.
    pub fn between(&self, item: u32, column: usize) -> Between {
        let rank = self.rank[item as usize];
        let place = self.place(rank, column);
        let (before, after) = self.around(column, place, place);
        // Those further off are over before, or begin after, the ones that are looked at.
        let key = self.keys[rank as usize];
        let is_apart = |other: u32| other == NONE || !self.shape.clash(self.keys[other as usize], key);
        Between { before, after, is_free: is_apart(before) && is_apart(after) }
    }

    /// How many tenants of a column begin before. They are few.
    fn place(&self, rank: u32, column: usize) -> usize {
        self.tenants[column].iter().take_while(|&&other| other < rank).count()
    }

    /// By how much the count rises if an item that is nowhere is put there; `between` holds what [`Columns::between`]
    /// says of each column. O(columns of the range).
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
                match self.broken.iter_mut().rfind(|held| (held.0, held.1) == (before, after)) {
                    Some(held) => held.2 += 1,
                    None => self.broken.push((before, after, 1)),
                }
            }
        }
        let gone = self.broken.iter().filter(|&&(before, after, count)| self.columns_of(before, after) == count);
        cost - gone.count() as isize
    }

    fn columns_of(&self, before: u32, after: u32) -> u32 {
        self.next[before as usize].iter().find(|held| held.0 == after).map_or(0, |held| held.1)
    }

    /// How many transitions an item has part in.
    pub fn degree(&self, item: u32) -> usize {
        let rank = self.rank[item as usize];
        let led = self.next.iter().filter(|next| next.iter().any(|held| held.0 == rank)).count();
        self.next[rank as usize].len() + led
    }

    /// Puts an item that is nowhere at an offset that is free for it.
    pub fn put(&mut self, item: u32, offset: u64) {
        let end = offset + self.sizes.size[item as usize];
        self.cut(offset);
        self.cut(end);
        let rank = self.rank[item as usize];
        for column in self.range(offset, end) {
            let place = self.place(rank, column);
            let (before, after) = self.around(column, place, place);
            self.unlink(before, after);
            self.link(before, rank);
            self.link(rank, after);
            self.tenants[column].insert(place, rank);
        }
    }

    /// Takes an item out of where it is.
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

    /// The tenants before one place and from another on.
    fn around(&self, column: usize, before: usize, after: usize) -> (u32, u32) {
        let tenants = &self.tenants[column];
        (before.checked_sub(1).map_or(NONE, |place| tenants[place]), tenants.get(after).copied().unwrap_or(NONE))
    }

    /// Makes a cut, unless there is one. None lies outside of the plan's height.
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
        match next.iter_mut().find(|held| held.0 == after) {
            Some(held) => held.1 += 1,
            None => {
                next.push((after, 1));
                self.count += 1;
            }
        }
    }

    fn unlink(&mut self, before: u32, after: u32) {
        if before == NONE || after == NONE {
            return;
        }
        let next = &mut self.next[before as usize];
        let place = next.iter().position(|held| held.0 == after).expect("neighbours are counted");
        next[place].1 -= 1;
        if next[place].1 == 0 {
            next.swap_remove(place);
            self.count -= 1;
        }
    }
}
