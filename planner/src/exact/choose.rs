//! Chooses the open item that is decided on next.
//!
//! An item is eligible if no open item that clashes with it could still end at or below its `low`. From any other item
//! a walk downwards leads to an eligible one. O(open items), or O(items of the examined sections).

use super::{Pick, Search, Unit};
use crate::shape::Shape;
use core::ops::Range;

impl<S: Shape, U: Unit> Search<'_, S, U> {
    /// Returns the item to decide on, which is eligible.
    pub(super) fn choose(&self, list: Range<usize>) -> usize {
        if self.focus
            && let Some(item) = self.lowest_in(self.last, list.clone())
        {
            return self.eligible_below(item);
        }
        match self.pick {
            Pick::Lowest => self.lowest(&self.lists[list]),
            Pick::Ranked => self.ranked(&self.lists[list]),
            Pick::Tightest => match self.lowest_in(self.tightest(list.clone()), list.clone()) {
                Some(item) => self.eligible_below(item),
                None => self.lowest(&self.lists[list]),
            },
        }
    }

    fn place_of(&self, item: u32) -> (U, u32) {
        (self.low[item as usize], self.rank[item as usize])
    }

    fn lowest(&self, list: &[u32]) -> usize {
        list.iter().copied().min_by_key(|&item| self.place_of(item)).unwrap_or(0) as usize
    }

    /// Returns the lowest item of a section.
    fn lowest_in(&self, section: usize, list: Range<usize>) -> Option<usize> {
        let mut best: Option<u32> = None;
        for &item in &self.lists[list] {
            let better = best.is_none_or(|best| self.place_of(item) < self.place_of(best));
            if better && self.shape.is_in(item as usize, section) {
                best = Some(item);
            }
        }
        best.map(|item| item as usize)
    }

    /// Returns the item of the best rank among those with a `low` below the ends of all open items. These are eligible.
    fn ranked(&self, list: &[u32]) -> usize {
        let ends = list.iter().map(|&item| self.low[item as usize] + self.size[item as usize]);
        let least = ends.min().unwrap_or(U::FAR);
        let eligible = list.iter().copied().filter(|&item| self.low[item as usize] < least);
        eligible.min_by_key(|&item| self.rank[item as usize]).unwrap_or(0) as usize
    }

    /// Returns the section with the least slack. The least `low` counts half, so that low sections come first.
    fn tightest(&self, list: Range<usize>) -> usize {
        let (first, last) = self.hull(list);
        let slack = |section: usize| {
            let (low, left) = (self.least_low[section], self.left[section]);
            if low >= self.capacity {
                return U::FAR;
            }
            let slack = self.capacity - low - left;
            slack + slack + low
        };
        (first..last).min_by_key(|&section| slack(section)).unwrap_or(first)
    }

    /// Walks down from an item along items that could still end below, to an eligible one.
    fn eligible_below(&self, mut item: usize) -> usize {
        loop {
            let mut below: Option<u32> = None;
            for (word, (&near, &open)) in self.near.row(item).iter().zip(&self.open).enumerate() {
                let mut bits = near & open;
                while bits != 0 {
                    let other = 64 * word + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    let fits = self.low[other] + self.size[other] <= self.low[item];
                    if fits && below.is_none_or(|below| self.place_of(other as u32) < self.place_of(below)) {
                        below = Some(other as u32);
                    }
                }
            }
            match below {
                Some(other) => item = other as usize,
                None => return item,
            }
        }
    }
}
