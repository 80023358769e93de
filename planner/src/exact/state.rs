//! The state of the search and its decisions: items are placed or postponed, part by part, and failures are undone.
//!
//! ```text
//!   list of open items ──▶ choose ──▶ place ──▶ infer ──▶ split ──▶ part, part, …   each solved on its own
//!                            ▲          │ failed, and the placement is in the conflict
//!                            └─ postpone┘ if it is not, the whole list fails at once
//! ```
//!
//! Changes are on a stack and are undone from its top. Lists are stored one after another in one array.

use super::{Pick, Scale, Unit};
use crate::shape::{Bits, Shape};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Result of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Every item is placed within the capacity.
    Solved,
    /// There is no plan within the capacity.
    Failed,
    /// The steps or decisions were used up, or the caller stopped it.
    Stopped,
}

/// Called with the decisions since the last call. Returns `false` to stop.
pub(crate) type GoOn<'g> = &'g mut dyn FnMut(u64) -> bool;

const DECISIONS_A_TICK: u64 = 256;

/// A change of an item, for undoing it.
struct Change<U> {
    item: u32,
    low: U,
    postponed: bool,
}

/// A search over one problem, reused for each attempt.
pub(crate) struct Search<'a, S: Shape, U: Unit> {
    pub(super) shape: &'a S,
    pub(super) grain: u64,
    pub(super) true_sizes: &'a [u64],
    pub(super) size: Vec<U>,
    pub(super) mask: Vec<U>,
    /// Highest offset of each item.
    pub(super) limit: Vec<U>,
    pub(super) near: Bits,
    /// Bits of the items that are not placed.
    pub(super) open: Vec<u64>,
    /// Lowest offset of each open item; offset of each placed item.
    pub(super) low: Vec<U>,
    /// `true` if the item must be on top of an item that is open, unless a placed one ends at its `low`.
    pub(super) postponed: Vec<bool>,
    /// For each postponed item, the item on which it could rest: the clashing item that had the lowest end when last
    /// examined. The item itself if none was examined.
    pub(super) supporting_item: Vec<u32>,
    changes: Vec<Change<U>>,
    /// For each item, the placed items that its `low` follows from, as a row of bits.
    pub(super) reasons: Vec<u64>,
    /// Replaced reasons: one row per change.
    pub(super) replaced: Vec<u64>,
    /// After a failure: placed items that cannot all stay where they are.
    pub(super) conflict: Vec<u64>,
    /// Scratch row.
    pub(super) row: Vec<u64>,
    /// Sum of the sizes of the open items in each section.
    pub(super) left: Vec<U>,
    /// Least `low` of the open items in each section, as of the last inference; the capacity if there are none.
    pub(super) least_low: Vec<U>,
    pub(super) capacity: U,
    /// Lists of the open items of all frames, one after another.
    pub(super) lists: Vec<u32>,
    /// Scratch of the decomposition: for each section, the furthest end of the items that begin there.
    pub(super) reach: Vec<u32>,
    pub(crate) rank: Vec<u32>,
    pub(crate) pick: Pick,
    pub(crate) focus: bool,
    /// The section that failed last.
    pub(crate) last: usize,
    /// Number of failures of each section.
    pub(crate) failures: Vec<u32>,
    /// Decisions made so far, over all attempts.
    pub(crate) decisions: u64,
    pub(super) decisions_max: u64,
}

impl<'a, S: Shape, U: Unit> Search<'a, S, U> {
    /// Creates the search, with the matrix of clashes. O(n²).
    pub fn new(shape: &'a S, scale: &Scale, true_sizes: &'a [u64]) -> Self {
        let count = scale.sizes.len();
        let mut near = Bits::new(count);
        for a in 0..count {
            for b in (0..count).filter(|&b| b != a && shape.clash(shape.key(a), shape.key(b))) {
                near.set(a, b);
            }
        }
        let sections = shape.section_count();
        Self {
            shape,
            grain: scale.grain,
            true_sizes,
            size: scale.sizes.iter().map(|&size| U::of(size)).collect(),
            mask: scale.masks.iter().map(|&mask| U::of(mask)).collect(),
            limit: vec![U::default(); count],
            near,
            open: vec![0; count.div_ceil(64)],
            low: vec![U::default(); count],
            postponed: vec![false; count],
            supporting_item: (0..count as u32).collect(),
            changes: Vec::new(),
            reasons: vec![0; count * count.div_ceil(64)],
            replaced: Vec::new(),
            conflict: vec![0; count.div_ceil(64)],
            row: vec![0; count.div_ceil(64)],
            left: vec![U::default(); sections],
            least_low: vec![U::default(); sections],
            capacity: U::default(),
            lists: Vec::new(),
            reach: vec![0; sections],
            rank: (0..count as u32).collect(),
            pick: Pick::Lowest,
            focus: true,
            last: 0,
            failures: vec![0; sections],
            decisions: 0,
            decisions_max: 0,
        }
    }

    /// Searches for a plan no higher than `capacity` units with at most `decisions` decisions. Regularly calls `go_on`
    /// with the decisions since the last call.
    pub fn run(&mut self, capacity: u64, decisions: u64, go_on: GoOn) -> Outcome {
        if self.true_sizes.iter().any(|&size| size > capacity) {
            return Outcome::Failed;
        }
        self.decisions_max = self.decisions + decisions;
        self.reset(capacity);
        if !self.infer(0..self.lists.len()) {
            return Outcome::Failed;
        }
        self.solve_parts(0..self.lists.len(), go_on)
    }

    /// Returns the offsets in units, after [`Outcome::Solved`].
    pub fn offsets(&self) -> Vec<u64> {
        self.low.iter().map(|low| low.get() * self.grain).collect()
    }

    /// Returns, after [`Outcome::Failed`], the least height that is still possible: the items on top of canonical plans
    /// begin at multiples of the grain.
    pub fn next_height(&self) -> u64 {
        let above = |(limit, size): (&U, &u64)| (limit.get() + 1) * self.grain + size;
        self.limit.iter().zip(self.true_sizes).map(above).min().unwrap_or(0)
    }

    fn reset(&mut self, capacity: u64) {
        let count = self.size.len();
        self.capacity = U::default();
        for item in 0..count {
            // A capacity above the sum of all sizes is equivalent to that sum.
            self.limit[item] = U::of(((capacity - self.true_sizes[item]) / self.grain).min(U::FAR.get()));
            // The highest possible end: ends are multiples of the grain, except for the padding of the last item.
            self.capacity = self.capacity.max((self.limit[item] + self.size[item]).min(U::FAR));
            self.open[item / 64] |= 1 << (item % 64);
        }
        self.low.fill(U::default());
        self.postponed.fill(false);
        self.left.fill(U::default());
        for item in 0..count {
            self.shape.add(item, &mut self.left, self.size[item]);
        }
        self.changes.clear();
        self.reasons.fill(0);
        self.replaced.clear();
        self.lists.clear();
        self.lists.extend(0..count as u32);
        self.last = 0;
    }

    /// Solves the items of a list, in parts that no item connects. All items of the list are open. A failure restores
    /// the state.
    fn solve_parts(&mut self, list: Range<usize>, go_on: GoOn) -> Outcome {
        let parts = self.lists.len();
        let starts = self.split(list.clone());
        if starts.is_empty() {
            return self.solve(list, go_on);
        }
        let mut outcome = Outcome::Solved;
        let end = self.lists.len();
        for (place, &start) in starts.iter().enumerate() {
            let next = starts.get(place + 1).copied().unwrap_or(end);
            outcome = self.solve(start..next, go_on);
            if outcome == Outcome::Failed {
                self.reopen(starts[0]..start);
            }
            if outcome != Outcome::Solved {
                break;
            }
        }
        self.lists.truncate(parts);
        outcome
    }

    /// Reopens the parts that were solved before a part that failed.
    fn reopen(&mut self, list: Range<usize>) {
        for place in list {
            let item = self.lists[place] as usize;
            self.open[item / 64] |= 1 << (item % 64);
            self.shape.add(item, &mut self.left, self.size[item]);
        }
    }

    /// Appends the parts of the list to `lists`, and returns the start of each. Returns an empty list if there is only
    /// one part.
    fn split(&mut self, list: Range<usize>) -> Vec<usize> {
        let (first, last) = self.hull(list.clone());
        self.reach[first..last].fill(0);
        for place in list.clone() {
            let span = self.shape.hull(self.lists[place] as usize);
            let reach = &mut self.reach[span.first as usize];
            *reach = span.last.max(*reach);
        }
        // Each section gets the number of its part.
        let (mut parts, mut reach) = (0, 0);
        for section in first..last {
            if self.reach[section] != 0 && section as u32 >= reach {
                parts += 1;
            }
            reach = self.reach[section].max(reach);
            self.reach[section] = parts;
        }
        if parts <= 1 {
            return Vec::new();
        }
        self.deal(list, parts)
    }

    fn deal(&mut self, list: Range<usize>, parts: u32) -> Vec<usize> {
        let mut starts = Vec::with_capacity(parts as usize);
        for part in 1..=parts {
            starts.push(self.lists.len());
            for place in list.clone() {
                let item = self.lists[place];
                if self.reach[self.shape.hull(item as usize).first as usize] == part {
                    self.lists.push(item);
                }
            }
        }
        starts
    }

    /// Returns the range from the first section of an item of the list to the last.
    pub(super) fn hull(&self, list: Range<usize>) -> (usize, usize) {
        let (mut first, mut last) = (u32::MAX, 0);
        for &item in &self.lists[list] {
            let span = self.shape.hull(item as usize);
            first = span.first.min(first);
            last = span.last.max(last);
        }
        (first.min(last) as usize, last as usize)
    }

    /// Solves a list of open items. A failure restores the state.
    fn solve(&mut self, list: Range<usize>, go_on: GoOn) -> Outcome {
        if list.is_empty() {
            return Outcome::Solved;
        }
        let entry = self.changes.len();
        loop {
            if self.decisions == self.decisions_max {
                return Outcome::Stopped;
            }
            self.decisions += 1;
            if self.decisions.is_multiple_of(DECISIONS_A_TICK) && !go_on(DECISIONS_A_TICK) {
                return Outcome::Stopped;
            }
            let item = self.choose(list.clone());
            let outcome = self.place(item, list.clone(), go_on);
            if outcome != Outcome::Failed {
                return outcome;
            }
            if self.conflict[item / 64] >> (item % 64) & 1 == 0 {
                // This decision has no part in the failure, so postponing the item would not help.
                self.undo(entry);
                return Outcome::Failed;
            }
            self.postpone(item);
            if !self.infer(list.clone()) {
                self.undo(entry);
                return Outcome::Failed;
            }
        }
    }

    /// Places the item at its `low` and solves the rest. A failure restores the state.
    fn place(&mut self, item: usize, list: Range<usize>, go_on: GoOn) -> Outcome {
        let entry = self.changes.len();
        let rest = self.lists.len();
        self.open[item / 64] &= !(1 << (item % 64));
        self.shape.take(item, &mut self.left, self.size[item]);
        self.raise_near(item);
        for place in list {
            if self.lists[place] as usize != item {
                self.lists.push(self.lists[place]);
            }
        }
        let list = rest..self.lists.len();
        let outcome = if self.infer(list.clone()) { self.solve_parts(list, go_on) } else { Outcome::Failed };
        self.lists.truncate(rest);
        if outcome == Outcome::Failed {
            self.undo(entry);
            self.open[item / 64] |= 1 << (item % 64);
            self.shape.add(item, &mut self.left, self.size[item]);
        }
        outcome
    }

    /// Postpones the item. Its reasons become those for not being lower, and those for not being at its `low`.
    fn postpone(&mut self, item: usize) {
        self.change(item, self.low[item], true);
        self.conflict[item / 64] &= !(1 << (item % 64));
        let words = self.row.len();
        for (reason, conflict) in self.reasons[item * words..].iter_mut().zip(&self.conflict) {
            *reason |= conflict;
        }
    }

    /// Raises all open items that clash with the placed item to its end.
    fn raise_near(&mut self, item: usize) {
        let end = self.low[item] + self.size[item];
        let words = self.row.len();
        for word in 0..self.open.len() {
            let mut bits = self.near.row(item)[word] & self.open[word];
            while bits != 0 {
                let other = 64 * word + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let low = end.up(self.mask[other]);
                if low > self.low[other] || (low == self.low[other] && self.postponed[other]) {
                    // The earlier reasons are needed only if the other item is small enough to fit below the placed
                    // item.
                    let needs_reason = self.size[other] <= self.low[item];
                    self.change(other, low, false);
                    let row = &mut self.reasons[other * words..][..words];
                    if !needs_reason {
                        row.fill(0);
                    }
                    row[item / 64] |= 1 << (item % 64);
                }
            }
        }
    }

    pub(super) fn change(&mut self, item: usize, low: U, postponed: bool) {
        let before = Change { item: item as u32, low: self.low[item], postponed: self.postponed[item] };
        self.changes.push(before);
        let words = self.row.len();
        self.replaced.extend_from_slice(&self.reasons[item * words..][..words]);
        self.low[item] = low;
        self.postponed[item] = postponed;
    }

    fn undo(&mut self, until: usize) {
        while self.changes.len() > until {
            let Some(change) = self.changes.pop() else { break };
            let words = self.row.len();
            let rest = self.replaced.len() - words;
            self.reasons[change.item as usize * words..][..words].copy_from_slice(&self.replaced[rest..]);
            self.replaced.truncate(rest);
            self.low[change.item as usize] = change.low;
            self.postponed[change.item as usize] = change.postponed;
        }
    }
}
