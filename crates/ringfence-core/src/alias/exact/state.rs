//! The state of the search, the decisions and the inference.

use super::{Pick, Scale, Unit};
use crate::alias::shape::{Bits, Shape, ones};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// How a search ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::alias) enum Outcome {
    /// Every item is placed within the capacity.
    Solved,
    /// There is no plan within the capacity.
    Failed,
    /// The decisions were used up.
    Stopped,
}

/// Whether to go on, asked with the decisions made since the last time.
pub(in crate::alias) type GoOn<'g> = &'g mut dyn FnMut(u64) -> bool;

const DECISIONS_A_TICK: u64 = 256;

/// After so many rounds of raising, items that drive one another upwards are looked for.
const ROUNDS_MAX: u32 = 4;

/// A change of an item, to be undone.
struct Change<U> {
    item: u32,
    low: U,
    postponed: bool,
}

/// One search over one problem; used again for each attempt.
pub(in crate::alias) struct Search<'a, S: Shape, U: Unit> {
    shape: &'a S,
    grain: u64,
    true_sizes: &'a [u64],
    size: Vec<U>,
    mask: Vec<U>,
    /// The highest that an item may lie.
    limit: Vec<U>,
    near: Bits,
    /// A bit for each item that is not placed.
    open: Vec<u64>,
    /// Of open items the lowest offset, of placed ones the offset.
    low: Vec<U>,
    /// Set iff the item must lie upon one that is open, unless a placed one has come to end at its `low`.
    postponed: Vec<bool>,
    /// Of postponed items an item that clashes with it and ended lowest when that was looked at; or the item itself.
    supporter: Vec<u32>,
    changes: Vec<Change<U>>,
    /// Of each item the placed items that its `low` follows from, as a row of bits.
    reasons: Vec<u64>,
    /// The reasons that were replaced: a row for each change.
    replaced: Vec<u64>,
    /// After a failure: placed items that cannot all lie where they lie.
    conflict: Vec<u64>,
    /// Scratch: a row.
    row: Vec<u64>,
    /// Of each section the sum of the sizes of its open items.
    left: Vec<U>,
    /// Of each section the least `low` of its open items, as of the last inference; the capacity if there is none.
    floor: Vec<U>,
    capacity: U,
    /// The lists of open items of the frames, one behind the other.
    lists: Vec<u32>,
    /// Scratch of the decomposition: of each section how far the items that begin there reach.
    reach: Vec<u32>,
    pub rank: Vec<u32>,
    pub pick: Pick,
    pub focus: bool,
    /// The section that failed last.
    pub last: usize,
    /// Of each section how often it failed.
    pub failures: Vec<u32>,
    /// Decisions made so far, over all attempts.
    pub decisions: u64,
    decisions_max: u64,
}

impl<'a, S: Shape, U: Unit> Search<'a, S, U> {
    /// O(n²): who clashes with whom.
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
            supporter: (0..count as u32).collect(),
            changes: Vec::new(),
            reasons: vec![0; count * count.div_ceil(64)],
            replaced: Vec::new(),
            conflict: vec![0; count.div_ceil(64)],
            row: vec![0; count.div_ceil(64)],
            left: vec![U::default(); sections],
            floor: vec![U::default(); sections],
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

    /// Looks for a plan no higher than `capacity` units with at most so many decisions.
    /// `go_on` is asked now and then, with the decisions made since.
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

    /// The offsets in units, after [`Outcome::Solved`].
    pub fn offsets(&self) -> Vec<u64> {
        self.low.iter().map(|low| low.get() * self.grain).collect()
    }

    /// After [`Outcome::Failed`], the least height that is left: canonical plans end at a multiple of the grain, plus the
    /// size of the item on top.
    pub fn next_height(&self) -> u64 {
        let above = |(limit, size): (&U, &u64)| (limit.get() + 1) * self.grain + size;
        self.limit.iter().zip(self.true_sizes).map(above).min().unwrap_or(0)
    }

    fn reset(&mut self, capacity: u64) {
        let count = self.size.len();
        self.capacity = U::default();
        for item in 0..count {
            // Beyond the sum of everything, any capacity is as good as that sum.
            self.limit[item] = U::of(((capacity - self.true_sizes[item]) / self.grain).min(U::FAR.get()));
            // The highest end that a plan can have: ends are multiples of the grain, but for the padding of the last.
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

    /// Solves the items of a list, split where no item crosses. The list is open; on failure all is as before.
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

    /// Takes back the parts that were solved before one that failed.
    fn reopen(&mut self, list: Range<usize>) {
        for place in list {
            let item = self.lists[place] as usize;
            self.open[item / 64] |= 1 << (item % 64);
            self.shape.add(item, &mut self.left, self.size[item]);
        }
    }

    /// Copies the list, part by part, behind the lists, and says where each begins; nothing if it has one part only.
    fn split(&mut self, list: Range<usize>) -> Vec<usize> {
        let (first, last) = self.hull(list.clone());
        self.reach[first..last].fill(0);
        for place in list.clone() {
            let span = self.shape.hull(self.lists[place] as usize);
            let reach = &mut self.reach[span.first as usize];
            *reach = span.last.max(*reach);
        }
        // Of each section the number of its part.
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

    /// From the first section of any item of the list to the last.
    fn hull(&self, list: Range<usize>) -> (usize, usize) {
        let (mut first, mut last) = (u32::MAX, 0);
        for &item in &self.lists[list] {
            let span = self.shape.hull(item as usize);
            first = span.first.min(first);
            last = span.last.max(last);
        }
        (first.min(last) as usize, last as usize)
    }

    /// Solves a list of open items. On failure all is as before.
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
                // The failure has no part in this decision: neither would another one help.
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

    /// Places the item at its `low` and solves the rest. On failure all is as before.
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

    /// The item does not lie at its `low`: for the reasons that it cannot be lower and those that it cannot lie there.
    fn postpone(&mut self, item: usize) {
        self.change(item, self.low[item], true);
        self.conflict[item / 64] &= !(1 << (item % 64));
        let words = self.row.len();
        for (reason, conflict) in self.reasons[item * words..].iter_mut().zip(&self.conflict) {
            *reason |= conflict;
        }
    }

    /// Whatever clashes with the item just placed lies upon it.
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
                    // That it cannot lie below needs a reason only if it is small enough to.
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

    fn change(&mut self, item: usize, low: U, postponed: bool) {
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

    /// Raises what is postponed; false if the items of the list cannot all fit.
    fn infer(&mut self, list: Range<usize>) -> bool {
        for _ in 0..ROUNDS_MAX {
            match self.support(list.clone()) {
                None => return false,
                Some(false) => return self.fits(list),
                Some(true) => {}
            }
        }
        self.ground(list.clone()) && self.fits(list)
    }

    /// The same at once, where items that lean upon one another would drive one another upwards step by step: by
    /// ascending end, from the items that are not postponed. What leans upon nothing else at last cannot lie anywhere.
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

    /// Of each postponed item where it lies at least, as by Dijkstra's shortest paths.
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

    /// The least end of the open items that clash with this one and are not postponed.
    fn least_grounded_end(&self, item: usize) -> U {
        let open = ones(self.near.row(item)).filter(|&other| self.open[other / 64] >> (other % 64) & 1 == 1);
        let ends = open.filter(|&other| !self.postponed[other]).map(|other| self.low[other] + self.size[other]);
        ends.min().unwrap_or(U::FAR)
    }

    /// Raises each postponed item to the least end of an open one that clashes with it. Whether any rose; `None` if
    /// there is nothing that one could lie upon.
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

    /// Why a postponed item lies at `low` or above: why it was postponed, why each open item that clashes with it does
    /// not end before, and each placed one small enough that it could.
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

    /// Whether the item found last still may end no higher than this one begins. Lows only rise between two looks, or
    /// are as they were before: so what was found is good as long as this holds, and this is seen at once.
    fn is_supported(&self, item: usize) -> bool {
        let other = self.supporter[item] as usize;
        let open = self.open[other / 64] >> (other % 64) & 1 == 1;
        open && other != item && self.low[other] + self.size[other] <= self.low[item]
    }

    /// The least end that an open item that clashes with this one may have; remembers which.
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
                    self.supporter[item] = other as u32;
                }
            }
        }
        least
    }

    /// The inference over sections.
    fn fits(&mut self, list: Range<usize>) -> bool {
        let (first, last) = self.hull(list.clone());
        self.floor[first..last].fill(self.capacity);
        for &item in &self.lists[list.clone()] {
            let low = self.low[item as usize];
            if low > self.limit[item as usize] {
                self.blame(item as usize);
                let words = self.row.len();
                self.conflict.copy_from_slice(&self.reasons[item as usize * words..][..words]);
                return false;
            }
            self.shape.lower(item as usize, &mut self.floor, low);
        }
        let capacity = self.capacity;
        let over = |floor: U, left: U| floor + left > capacity && floor < capacity;
        let pairs = || self.floor[first..last].iter().zip(&self.left[first..last]);
        if !pairs().fold(false, |any, (&floor, &left)| any | over(floor, left)) {
            return true;
        }
        let failed = pairs().position(|(&floor, &left)| over(floor, left));
        self.last = failed.map_or(self.last, |place| first + place);
        self.failures[self.last] += 1;
        self.explain_section(list);
        false
    }

    /// Why a section is too full: why each open item of it lies no lower.
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

    /// An item fails by itself: its fullest section is to blame.
    fn blame(&mut self, item: usize) {
        let fullest = self.shape.sections(item).max_by_key(|&section| self.left[section]);
        self.last = fullest.unwrap_or(self.last);
        self.failures[self.last] += 1;
    }

    /// The item to decide on: one below which no open item that clashes with it could still end.
    fn choose(&self, list: Range<usize>) -> usize {
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

    /// The lowest item of a section.
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

    /// The item of the best rank among those that nothing more can go below, whatever it is.
    fn ranked(&self, list: &[u32]) -> usize {
        let ends = list.iter().map(|&item| self.low[item as usize] + self.size[item as usize]);
        let least = ends.min().unwrap_or(U::FAR);
        let eligible = list.iter().copied().filter(|&item| self.low[item as usize] < least);
        eligible.min_by_key(|&item| self.rank[item as usize]).unwrap_or(0) as usize
    }

    /// Where least is to spare; the height of the floor counts for half, so that low places go first.
    fn tightest(&self, list: Range<usize>) -> usize {
        let (first, last) = self.hull(list);
        let slack = |section: usize| {
            let (floor, left) = (self.floor[section], self.left[section]);
            if floor >= self.capacity {
                return U::FAR;
            }
            let slack = self.capacity - floor - left;
            slack + slack + floor
        };
        (first..last).min_by_key(|&section| slack(section)).unwrap_or(first)
    }

    /// From an item down along those that could still go below it, to one below which nothing more can.
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
