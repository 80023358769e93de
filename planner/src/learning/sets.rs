//! Propagation within one section, where all items clash. A set of items takes at least the sum of their sizes. The
//! large ones, each at a multiple of the largest alignment, take at least the sum of their sizes rounded up to it,
//! without the rounding of the last.
//!
//! ```text
//!   between two heights    │ a │ b │·· c │      the set that must be between them must fit
//!   items below j          low of j ≥ the lowest of the set + the space that it takes; items above j likewise
//! ```

use super::{Learner, Literal, Reason};

/// Space that a set takes, summed item by item.
#[derive(Clone, Copy, Default)]
struct Taken {
    sum: i64,
    /// Sum of the padded sizes of the large items.
    padded: i64,
    padding_max: i64,
}

impl Learner {
    /// Raises and lowers bounds. Returns `false` if a set does not fit.
    pub(super) fn look_at_section(&mut self, section: usize) -> bool {
        self.sort_members(section);
        let count = self.by_low.len() as u64;
        self.looks += count * count;
        if !self.all_fit() {
            return false;
        }
        let bits = self.member_bits[section];
        for place in 0..self.by_low.len() {
            let item = self.by_low[place] as usize;
            // For a single other item, the pair's own propagation is enough.
            let (under, over) = (self.under[item] & bits, self.over[item] & bits);
            if under & under.wrapping_sub(1) != 0 && !self.raise_above(item, under) {
                return false;
            }
            if over & over.wrapping_sub(1) != 0 && !self.sink_below(item, over) {
                return false;
            }
        }
        true
    }

    /// Sorts the members by descending low, and by ascending end.
    fn sort_members(&mut self, section: usize) {
        self.by_low.clear();
        self.by_low.extend_from_slice(&self.members[section]);
        self.by_end.clear();
        self.by_end.extend_from_slice(&self.members[section]);
        let (low, high, size) = (&self.low, &self.high, &self.size);
        insertion_sort(&mut self.by_low, |item| -low[item]);
        insertion_sort(&mut self.by_end, |item| high[item] + size[item]);
    }

    fn end(&self, item: usize) -> i64 {
        self.high[item] + self.size[item]
    }

    fn take(&self, taken: &mut Taken, item: usize) {
        taken.sum += self.size[item];
        if self.is_large[item] {
            taken.padded += self.padded[item];
            taken.padding_max = taken.padding_max.max(self.padded[item] - self.size[item]);
        }
    }

    fn up_most(&self, offset: i64) -> i64 {
        (offset + self.most) & !self.most
    }

    /// Returns `true` if between any two heights there is room for the items that must be there.
    fn all_fit(&mut self) -> bool {
        for last in 0..self.by_end.len() {
            let end = self.end(self.by_end[last] as usize);
            if last + 1 < self.by_end.len() && self.end(self.by_end[last + 1] as usize) == end {
                continue;
            }
            let mut taken = Taken::default();
            for place in 0..self.by_low.len() {
                let item = self.by_low[place] as usize;
                if self.end(item) > end {
                    continue;
                }
                self.take(&mut taken, item);
                let low = self.low[item];
                if low + taken.sum > end {
                    // With the lows reduced by the excess minus one, the set still does not fit.
                    self.blame(place, low - (low + taken.sum - end - 1), end, false);
                    return false;
                }
                if self.is_large[item] && self.up_most(low) + taken.padded - taken.padding_max > end {
                    let start = end - (taken.padded - taken.padding_max) + 1;
                    let low = (self.up_most(start) - self.most).min(low);
                    self.blame(place, low, end, true);
                    return false;
                }
            }
        }
        true
    }

    /// Sets the conflict: the items up to `place` that end by `end`, or the large ones of these, do not fit from `low`
    /// on.
    fn blame(&mut self, place: usize, low: i64, end: i64, large: bool) {
        self.conflict.clear();
        for at in 0..=place {
            let item = self.by_low[at] as usize;
            if self.end(item) > end || (large && !self.is_large[item]) {
                continue;
            }
            let high = (end - self.size[item]) & !self.mask[item];
            self.conflict.push(Literal::AtLeast(item as u32, self.up(item, low)));
            self.conflict.push(Literal::AtMost(item as u32, high));
        }
    }

    /// Raises an item above the stack of the items below it.
    fn raise_above(&mut self, item: usize, under: u64) -> bool {
        let mut taken = Taken::default();
        let (mut best, mut found) = (self.low[item], None);
        // The order may be outdated: lows have risen since it was sorted.
        let (mut lowest, mut lowest_large) = (i64::MAX, i64::MAX);
        let large = self.is_large[item];
        for place in 0..self.by_low.len() {
            let other = self.by_low[place] as usize;
            if under >> other & 1 == 0 {
                continue;
            }
            self.take(&mut taken, other);
            lowest = lowest.min(self.low[other]);
            if lowest + taken.sum > best {
                (best, found) = (lowest + taken.sum, Some((place, lowest, false)));
            }
            if !self.is_large[other] {
                continue;
            }
            lowest_large = lowest_large.min(self.low[other]);
            let over = if large { 0 } else { taken.padding_max };
            let end = self.up_most(lowest_large) + taken.padded - over;
            if end > best {
                (best, found) = (end, Some((place, lowest_large, true)));
            }
        }
        let Some((place, from, large)) = found else { return true };
        let low = self.up(item, best);
        let start = self.facts.len() as u32;
        for at in 0..=place {
            let other = self.by_low[at] as usize;
            if under >> other & 1 == 1 && (!large || self.is_large[other]) {
                self.facts.push(Literal::Below(self.below[other * self.size.len() + item]));
                self.facts.push(Literal::AtLeast(other as u32, self.up(other, from)));
            }
        }
        self.set(Literal::AtLeast(item as u32, low), Reason::Facts(start, self.facts.len() as u32))
    }

    /// Lowers an item below the stack of the items above it.
    fn sink_below(&mut self, item: usize, over: u64) -> bool {
        let mut taken = Taken::default();
        let (mut best, mut found) = (self.end(item), None);
        let (mut highest, mut highest_large) = (0, 0);
        for place in 0..self.by_end.len() {
            let other = self.by_end[place] as usize;
            if over >> other & 1 == 0 {
                continue;
            }
            self.take(&mut taken, other);
            highest = highest.max(self.end(other));
            if highest - taken.sum < best {
                (best, found) = (highest - taken.sum, Some((place, highest, false)));
            }
            if !self.is_large[other] {
                continue;
            }
            highest_large = highest_large.max(self.end(other));
            let start = (highest_large - (taken.padded - taken.padding_max)) & !self.most;
            if start < best {
                (best, found) = (start, Some((place, highest_large, true)));
            }
        }
        let Some((place, until, large)) = found else { return true };
        let high = (best - self.size[item]) & !self.mask[item];
        let start = self.facts.len() as u32;
        for at in 0..=place {
            let other = self.by_end[at] as usize;
            if over >> other & 1 == 1 && (!large || self.is_large[other]) {
                self.facts.push(Literal::Below(self.below[item * self.size.len() + other]));
                let high = (until - self.size[other]) & !self.mask[other];
                self.facts.push(Literal::AtMost(other as u32, high));
            }
        }
        self.set(Literal::AtMost(item as u32, high), Reason::Facts(start, self.facts.len() as u32))
    }
}

/// Sorts few items that are nearly sorted.
fn insertion_sort(items: &mut [u32], key: impl Fn(usize) -> i64) {
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && key(items[at - 1] as usize) > key(items[at] as usize) {
            items.swap(at - 1, at);
            at -= 1;
        }
    }
}
