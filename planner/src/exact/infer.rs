//! Inference: how low each open item can be, if all items fit, and the reasons of a failure.
//!
//! ```text
//!   postponed items    rise to the least end of an item that they can be on top of
//!   sections           least low of the open items + sum of their sizes ≤ capacity?
//!   reasons            each low has the placed items that it follows from; a failure is the union of some of them
//! ```
//!
//! Checking all sections costs O(entries of the open items), support O(postponed · n / 64) plus the visited items.

use super::{Search, Unit};
use crate::shape::{Shape, ones};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Rounds of raising, after which items that raise one another are handled at once.
const ROUNDS_MAX: u32 = 4;

impl<S: Shape, U: Unit> Search<'_, S, U> {
    /// Raises the postponed items. Returns `false` if the items of the list cannot all fit.
    pub(super) fn infer(&mut self, list: Range<usize>) -> bool {
        for _ in 0..ROUNDS_MAX {
            match self.support(list.clone()) {
                None => return false,
                Some(false) => return self.fits(list),
                Some(true) => {}
            }
        }
        self.ground(list.clone()) && self.fits(list)
    }

    /// Raises the postponed items to their final values at once, since items that support one another would raise one
    /// another step by step. Settles them by ascending end, starting from items that are not postponed. Items that
    /// support only one another fit nowhere.
    fn ground(&mut self, list: Range<usize>) -> bool {
        let settled = self.settle(list);
        let climbing: Vec<(usize, U)> = settled.into_iter().filter(|&(item, low)| low > self.low[item]).collect();
        let mut reasons = vec![0; self.row.len()];
        let mut too_high = None;
        for &(item, low) in &climbing {
            self.explain_support(item, low);
            reasons.iter_mut().zip(&self.row).for_each(|(reason, row)| *reason |= row);
            if low > self.limit[item] {
                too_high = Some(item);
            }
        }
        if let Some(item) = too_high {
            self.blame(item);
            self.conflict.copy_from_slice(&reasons);
            return false;
        }
        for (item, low) in climbing {
            self.change(item, low, true);
            self.reasons[item * reasons.len()..][..reasons.len()].copy_from_slice(&reasons);
        }
        true
    }

    /// Returns the least `low` of each postponed item, as Dijkstra's shortest paths do.
    fn settle(&mut self, list: Range<usize>) -> Vec<(usize, U)> {
        let (mut waiting, mut settled) = (Vec::new(), Vec::new());
        for place in list {
            let item = self.lists[place] as usize;
            if self.postponed[item] {
                let low = self.least_grounded_end(item).up(self.mask[item]).max(self.low[item]);
                waiting.push((item, low));
            }
        }
        while let Some(next) = (0..waiting.len()).min_by_key(|&place| waiting[place].1) {
            let (item, low) = waiting.swap_remove(next);
            settled.push((item, low));
            let end = low + self.size[item].min(U::FAR - low.min(U::FAR));
            for (other, other_low) in &mut waiting {
                let new = end.up(self.mask[*other]).max(self.low[*other]);
                if self.near.get(item, *other) && new < *other_low {
                    *other_low = new;
                }
            }
        }
        settled
    }

    /// Returns the least end of the open items that clash with this one and are not postponed.
    fn least_grounded_end(&self, item: usize) -> U {
        let open = ones(self.near.row(item)).filter(|&other| self.open[other / 64] >> (other % 64) & 1 == 1);
        let ends = open.filter(|&other| !self.postponed[other]).map(|other| self.low[other] + self.size[other]);
        ends.min().unwrap_or(U::FAR)
    }

    /// Raises each postponed item to the least end of an open item that clashes with it. Returns `true` if any item
    /// rose, and `None` if an item would rise above its limit.
    fn support(&mut self, list: Range<usize>) -> Option<bool> {
        let mut changed = false;
        for place in list {
            let item = self.lists[place] as usize;
            if !self.postponed[item] || self.is_supported(item) {
                continue;
            }
            let least = self.least_end(item);
            let low = if least >= U::FAR { least } else { least.up(self.mask[item]) };
            if low > self.low[item] {
                self.explain_support(item, low);
            }
            if low > self.limit[item] {
                self.blame(item);
                self.conflict.copy_from_slice(&self.row);
                return None;
            }
            if low > self.low[item] {
                self.change(item, low, true);
                let words = self.row.len();
                self.reasons[item * words..][..words].copy_from_slice(&self.row);
                changed = true;
            }
        }
        Some(changed)
    }

    /// Collects in `row` the reasons why a postponed item is at `low` or above: why it was postponed, why each open
    /// item that clashes with it does not end lower, and each placed item that is small enough to end lower.
    fn explain_support(&mut self, item: usize, low: U) {
        let words = self.row.len();
        self.row.copy_from_slice(&self.reasons[item * words..][..words]);
        for word in 0..words {
            let mut bits = self.near.row(item)[word];
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                let other = 64 * word + bits.trailing_zeros() as usize;
                bits ^= bit;
                if self.size[other] >= low {
                    continue;
                }
                if self.open[word] & bit == 0 {
                    self.row[word] |= bit;
                } else {
                    for (row, reason) in self.row.iter_mut().zip(&self.reasons[other * words..]) {
                        *row |= reason;
                    }
                }
            }
        }
    }

    /// Returns `true` if the supporting item of `item` is still open, and its lowest end is at or below the `low` of
    /// `item`. Then [`Search::least_end`] could not raise `item`, and need not be called.
    fn is_supported(&self, item: usize) -> bool {
        let other = self.supporting_item[item] as usize;
        let open = self.open[other / 64] >> (other % 64) & 1 == 1;
        open && other != item && self.low[other] + self.size[other] <= self.low[item]
    }

    /// Returns the least end of an open item that clashes with this one, and records that item as the supporting item.
    fn least_end(&mut self, item: usize) -> U {
        let mut least = U::FAR;
        for (word, (&near, &open)) in self.near.row(item).iter().zip(&self.open).enumerate() {
            let mut bits = near & open;
            while bits != 0 {
                let other = 64 * word + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let end = self.low[other] + self.size[other];
                if end < least {
                    least = end;
                    self.supporting_item[item] = other as u32;
                }
            }
        }
        least
    }

    /// Checks that the open items of each section fit.
    fn fits(&mut self, list: Range<usize>) -> bool {
        let (first, last) = self.hull(list.clone());
        self.least_low[first..last].fill(self.capacity);
        for &item in &self.lists[list.clone()] {
            let low = self.low[item as usize];
            if low > self.limit[item as usize] {
                self.blame(item as usize);
                let words = self.row.len();
                self.conflict.copy_from_slice(&self.reasons[item as usize * words..][..words]);
                return false;
            }
            self.shape.lower(item as usize, &mut self.least_low, low);
        }
        let capacity = self.capacity;
        let over = |low: U, left: U| low + left > capacity && low < capacity;
        let pairs = || self.least_low[first..last].iter().zip(&self.left[first..last]);
        if !pairs().fold(false, |any, (&low, &left)| any | over(low, left)) {
            return true;
        }
        let failed = pairs().position(|(&low, &left)| over(low, left));
        self.last = failed.map_or(self.last, |place| first + place);
        self.failures[self.last] += 1;
        self.explain_section(list);
        false
    }

    /// Collects in `conflict` the reasons why a section is too full: the reasons of the lows of its open items.
    fn explain_section(&mut self, list: Range<usize>) {
        let words = self.row.len();
        self.conflict.fill(0);
        for &item in &self.lists[list] {
            if self.shape.is_in(item as usize, self.last) {
                for (conflict, reason) in self.conflict.iter_mut().zip(&self.reasons[item as usize * words..]) {
                    *conflict |= reason;
                }
            }
        }
    }

    /// Blames the fullest section of an item that fails on its own.
    fn blame(&mut self, item: usize) {
        let fullest = self.shape.sections(item).max_by_key(|&section| self.left[section]);
        self.last = fullest.unwrap_or(self.last);
        self.failures[self.last] += 1;
    }
}
