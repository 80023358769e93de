//! Beam search for few items: builds plans of a given height from the top down, and keeps the best unfinished plans.
//!
//! ```text
//!   height ─┬─────────┬──┬────┬─┐
//!           │ placed  │  │    │ │     an unfinished plan has the placed items, and for each section the lowest end of
//!           │     ┌───┘  └──┐ │ │     the placed items (its *ceiling*)
//!           └─────┘▒▒▒▒▒▒▒▒▒└─┘▒│     *slack* = ceiling − space that the remaining items of the section need; never
//!            ▒▒▒▒▒▒▒ the rest ▒▒▒     negative
//!         0 ────────────────────
//!
//!   1 item placed     ○ ○ ○ ○              of each number of placed items, `width` plans with most slack are kept;
//!   2 items placed    ○ ○ ○ ○ ○ ○          of two plans with the same placed items, one is dropped if all its ceilings
//!   …                                      are lower or equal
//! ```
//!
//! The remaining items of a section are stacked from 0. A table has the least height of each set of these items
//! ([`stacking::Table`]). The table is exact if there are few kinds of items.
//!
//! *Only the width can lose plans.* An item is open if it is not placed. In any plan within the height, the open item
//! with the highest end can move up to its ceilings. If another open item could then begin at or above this end, the
//! other item can be placed first. So a step places only items that end above the highest possible offset of an open
//! item, each as high as possible. Then it lowers all ceilings to the end of the placed item. If a search finds no
//! plan, and never dropped a plan for the width, there is no plan.
//!
//! With w plans, n items and s sections: O(w · n² · s) time, O(w · n · (n + s)) host memory.

use super::exact::{Outcome, Scale, Unit};
use super::shape::Shape;
use super::sizes::Sizes;
use super::stacking;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Largest number of items: sets of items are bits of a word.
const ITEMS_MAX: usize = 64;
/// Largest number of sets of the remaining items of one section, and of all sections.
const SETS: usize = 1 << 12;
const SETS_OF_ALL: usize = 1 << 16;
/// Number of unfinished plans that count as one step.
const PLANS_A_STEP: usize = 4;
/// No plan.
const NONE: u32 = u32::MAX;

/// An item as columns over the sections, 0 in sections without it.
struct Columns<U> {
    size: Vec<U>,
    /// The size, minus its remainder (`left_over`) if the table leaves the item out.
    known: Vec<U>,
    /// Stride of the item in the table of each section.
    stride: Vec<u32>,
    /// For each item, 1 if it clashes with this one, else 0.
    near: Vec<U>,
    /// Sum of the sizes over the sections.
    area: i64,
}

/// An unfinished plan.
#[derive(Clone, Copy)]
struct Partial<U> {
    placed: u64,
    /// Least slack of all sections, and the favoured quantity.
    slack: (U, i64),
    /// Index of the plan that this plan extends, and the item that was added.
    parent: u32,
    item: u32,
    offset: U,
    /// Area of the placed items.
    area: i64,
    /// Next plan with the same hash.
    next: u32,
    /// `true` if another plan is at least as good.
    is_out: bool,
}

/// Second criterion among plans with equal least slack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Favour {
    /// Sum of the slack over all sections; a larger sum is better.
    Slack,
    /// Area of the placed items; a larger area is better.
    Placed,
}

/// See the [module](self).
pub(super) struct Beam<U> {
    grain: u64,
    true_sizes: Vec<u64>,
    size: Vec<U>,
    mask: Vec<U>,
    columns: Vec<Columns<U>>,
    /// For each item, an equal item with a smaller number.
    twin: Vec<Option<u32>>,
    /// Start of the table of each section.
    tables: Vec<u32>,
    /// Lower bounds of the waste of sets of items.
    wastes: Vec<U>,
    /// Largest amount by which a size was rounded up.
    rounding: u64,
    offsets: Vec<u64>,
    /// The plans that are kept, and the plans that are made from them.
    kept: Plans<U>,
    made: Plans<U>,
    /// Heads of the hash lists, by the set of placed items.
    buckets: Vec<u32>,
    /// Scratch: for each section the waste of the remaining items, then the space that they need, then the slack.
    slack: Vec<U>,
    is_whole: bool,
}

/// Unfinished plans, as columns.
#[derive(Default)]
struct Plans<U> {
    partials: Vec<Partial<U>>,
    /// For each plan and item, the highest possible end; 0 if the item is placed.
    tops: Vec<U>,
    /// For each plan and section: the highest possible end of the remaining items (the height if none remain), the sum
    /// of their sizes, and that sum without the parts that the table does not know.
    ceilings: Vec<U>,
    sizes: Vec<U>,
    known: Vec<U>,
    /// For each plan and section, the index of the remaining set in the tables.
    sets: Vec<u32>,
}

impl<U: Unit> Beam<U> {
    /// Creates a beam search for at most 64 items. O(sets of the tables).
    pub fn new<S: Shape>(shape: &S, scale: &Scale, true_sizes: &[u64]) -> Self {
        let (count, sections) = (scale.sizes.len(), shape.section_count());
        debug_assert!(count <= ITEMS_MAX);
        let none = U::default();
        let rounding = scale.sizes.iter().zip(true_sizes).map(|(size, exact)| size * scale.grain - exact);
        let columns = |item: usize| {
            let mut size = vec![none; sections];
            shape.sections(item).for_each(|section| size[section] = U::of(scale.sizes[item]));
            let clash = |other| U::of(shape.clash(shape.key(item), shape.key(other)).into());
            let near = (0..count).map(clash).collect();
            let area = size.iter().map(|size| size.signed()).sum();
            Columns { known: size.clone(), size, stride: vec![0; sections], near, area }
        };
        let mut beam = Self {
            grain: scale.grain,
            size: scale.sizes.iter().map(|&size| U::of(size)).collect(),
            mask: scale.masks.iter().map(|&mask| U::of(mask)).collect(),
            columns: (0..count).map(columns).collect(),
            twin: vec![None; count],
            tables: vec![0; sections],
            wastes: vec![none],
            rounding: rounding.max().unwrap_or(0),
            true_sizes: true_sizes.to_vec(),
            offsets: Vec::new(),
            kept: Plans::default(),
            made: Plans::default(),
            buckets: Vec::new(),
            slack: vec![none; sections],
            is_whole: true,
        };
        beam.find_twins();
        beam.add_tables(shape, scale);
        beam
    }

    fn find_twins(&mut self) {
        let key = |item: usize| (self.true_sizes[item], self.mask[item], &self.columns[item].size);
        let twin = |item| (0..item).rev().find(|&other| key(item) == key(other)).map(|other| other as u32);
        self.twin = (0..self.size.len()).map(twin).collect();
    }

    /// Adds tables of the fullest sections.
    fn add_tables<S: Shape>(&mut self, shape: &S, scale: &Scale) {
        let sizes = Sizes { size: scale.sizes.clone(), alignment: scale.masks.iter().map(|mask| mask + 1).collect() };
        let loads = shape.loads(&sizes.size);
        let mut sections: Vec<usize> = (0..loads.len()).collect();
        sections.sort_by_key(|&section| Reverse(loads[section]));
        for section in sections {
            let is_member = |item: &u32| shape.is_in(*item as usize, section);
            let members: Vec<u32> = (0..sizes.len() as u32).filter(is_member).collect();
            let Some(table) = stacking::Table::new(&sizes, &members, SETS) else { continue };
            if self.wastes.len() + table.wastes.len() > SETS_OF_ALL {
                return;
            }
            self.tables[section] = self.wastes.len() as u32;
            self.wastes.extend(table.wastes.iter().map(|&waste| U::of(waste)));
            for (item, stride) in table.strides {
                self.columns[item as usize].stride[section] = stride;
            }
            for (item, left_over) in table.left_out {
                self.columns[item as usize].known[section] -= U::of(left_over);
            }
        }
    }

    /// Returns the offsets in units, after [`Outcome::Solved`].
    pub fn offsets(&self) -> Vec<u64> {
        self.offsets.clone()
    }

    /// Searches for a plan no higher than `capacity` units, with at most `width` unfinished plans at a time.
    pub fn search(
        &mut self,
        capacity: u64,
        width: usize,
        favour: Favour,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Outcome {
        let count = self.size.len();
        self.is_whole = true;
        if self.true_sizes.iter().any(|&size| size > capacity) {
            return Outcome::Failed;
        }
        let limit = self.begin(capacity);
        self.buckets = vec![NONE; (8 * width).next_power_of_two()];
        let mut history: Vec<Vec<(u32, u32, U)>> = Vec::new();
        for _ in 0..count {
            self.made.clear();
            self.buckets.fill(NONE);
            for parent in 0..self.kept.partials.len() {
                self.place_each(parent, &limit, favour);
            }
            if !go_on((self.made.partials.len() / PLANS_A_STEP) as u64 + 1) {
                return Outcome::Stopped;
            }
            let best = self.best(width);
            if best.is_empty() {
                return if self.is_whole { Outcome::Failed } else { Outcome::Stopped };
            }
            self.kept.clear();
            best.iter().for_each(|&at| self.kept.copy(&self.made, at as usize));
            let partials = self.kept.partials.iter();
            history.push(partials.map(|partial| (partial.parent, partial.item, partial.offset)).collect());
        }
        self.take_offsets(&history);
        Outcome::Solved
    }

    /// Starts with one plan without placed items.
    fn begin(&mut self, capacity: u64) -> Limit<U> {
        let none = U::default();
        let highest = |item: usize| U::of((capacity - self.true_sizes[item]) / self.grain).down(self.mask[item]);
        let highest: Vec<U> = (0..self.size.len()).map(highest).collect();
        let height = U::of((capacity + self.rounding) / self.grain);
        self.kept.clear();
        let partial = Partial {
            placed: 0,
            slack: (height, 0),
            parent: 0,
            item: 0,
            offset: none,
            area: 0,
            next: NONE,
            is_out: false,
        };
        self.kept.partials.push(partial);
        self.kept.tops.extend(highest.iter().zip(&self.size).map(|(&offset, &size)| offset + size));
        let sections = self.tables.len();
        self.kept.ceilings.resize(sections, height);
        self.kept.sizes.resize(sections, none);
        self.kept.known.resize(sections, none);
        self.kept.sets.extend_from_slice(&self.tables);
        for columns in &self.columns {
            for section in 0..sections {
                self.kept.sizes[section] += columns.size[section];
                self.kept.known[section] += columns.known[section];
                self.kept.sets[section] += columns.stride[section];
            }
        }
        Limit { highest, height }
    }

    /// Makes every plan that places one more item.
    fn place_each(&mut self, parent: usize, limit: &Limit<U>, favour: Favour) {
        let count = self.size.len();
        let open = !self.kept.partials[parent].placed & (u64::MAX >> (ITEMS_MAX - count));
        let tops = &self.kept.tops[parent * count..][..count];
        let mut offsets = [U::default(); ITEMS_MAX];
        let columns = tops.iter().zip(&self.size).zip(&self.mask).zip(&limit.highest);
        for (offset, (((&top, &size), &mask), &highest)) in offsets.iter_mut().zip(columns) {
            // Placed items get a negative offset, and are not the highest.
            *offset = (top - size).down(mask).min(highest);
        }
        let highest = offsets[..count].iter().fold(U::default(), |highest, &offset| highest.max(offset));
        if items(open).any(|item| offsets[item] < U::default()) {
            return;
        }
        for item in items(open) {
            let is_open = |twin: u32| open >> twin & 1 == 1;
            let end = offsets[item] + self.size[item];
            if end > highest && !self.twin[item].is_some_and(is_open) {
                self.place(parent, item, offsets[item], limit.height, favour);
            }
        }
    }

    /// Makes the plan with one more item, unless a section then has too little room or another plan is at least as
    /// good.
    fn place(&mut self, parent: usize, item: usize, offset: U, height: U, favour: Favour) {
        let at = self.made.sets.len();
        let least = self.place_in_sections(parent, item, offset, height);
        let from = &self.kept.partials[parent];
        let (placed, area) = (from.placed | 1 << item, from.area + self.columns[item].area);
        if least < U::default() || !self.lower_tops(parent, placed, item, offset) {
            self.made.truncate_rows(at);
            return;
        }
        let favoured = match favour {
            Favour::Slack => self.slack.iter().map(|slack| slack.signed()).sum(),
            Favour::Placed => area,
        };
        let bucket = self.bucket(placed);
        let next = core::mem::replace(&mut self.buckets[bucket], self.made.partials.len() as u32);
        let (item, slack, parent) = (item as u32, (least, favoured), parent as u32);
        self.made.partials.push(Partial { placed, slack, parent, item, offset, area, next, is_out: false });
    }

    /// Fills in the rows of the sections with the item at its offset. Returns the least slack.
    fn place_in_sections(&mut self, parent: usize, item: usize, offset: U, height: U) -> U {
        let columns = &self.columns[item];
        let (sections, at) = (self.tables.len(), self.made.sets.len());
        let from = parent * sections..(parent + 1) * sections;
        self.made.add_rows(sections);
        let (kept, made) = (&self.kept, &mut self.made);
        less(&kept.sizes[from.clone()], &columns.size, &mut made.sizes[at..]);
        less(&kept.known[from.clone()], &columns.known, &mut made.known[at..]);
        less(&kept.sets[from.clone()], &columns.stride, &mut made.sets[at..]);
        lower(&kept.ceilings[from], &columns.size, (offset + self.size[item], offset), &mut made.ceilings[at..]);
        open_up(&made.sizes[at..], height, &mut made.ceilings[at..]);
        for (slack, &set) in self.slack.iter_mut().zip(&made.sets[at..]) {
            *slack = self.wastes[set as usize];
        }
        need(&made.sizes[at..], &made.known[at..], &mut self.slack);
        slack(&made.ceilings[at..], &mut self.slack)
    }

    /// Fills in the highest ends of the other items. Returns `false`, and removes them, if another plan is at least as
    /// good.
    fn lower_tops(&mut self, parent: usize, placed: u64, item: usize, offset: U) -> bool {
        let (at, count) = (self.made.tops.len(), self.size.len());
        self.made.tops.resize(at + count, U::default());
        let tops = &self.kept.tops[parent * count..][..count];
        let ends = (offset + self.size[item], offset);
        lower(tops, &self.columns[item].near, ends, &mut self.made.tops[at..]);
        self.made.tops[at + item] = U::default();
        let is_best = self.is_best(placed, at);
        if !is_best {
            self.made.tops.truncate(at);
        }
        is_best
    }

    fn bucket(&self, placed: u64) -> usize {
        (placed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.buckets.len() - 1)
    }

    /// Returns `true` if no plan with the same placed items is at least as good. Marks plans that the new one
    /// dominates.
    fn is_best(&mut self, placed: u64, at: usize) -> bool {
        let new = &self.made.tops[at..];
        let mut next = self.buckets[self.bucket(placed)];
        while next != NONE {
            let other = &mut self.made.partials[next as usize];
            if other.placed == placed {
                let tops = &self.made.tops[next as usize * new.len()..][..new.len()];
                if is_over(tops, new) {
                    return false;
                }
                other.is_out |= is_over(new, tops);
            }
            next = other.next;
        }
        true
    }

    /// Returns the plans with the largest `slack`, at most `width`.
    fn best(&mut self, width: usize) -> Vec<u32> {
        let partials = &self.made.partials;
        let mut best: Vec<u32> = (0..partials.len() as u32).filter(|&at| !partials[at as usize].is_out).collect();
        if best.len() > width {
            self.is_whole = false;
            best.select_nth_unstable_by_key(width, |&at| (Reverse(partials[at as usize].slack), at));
            best.truncate(width);
        }
        best
    }

    /// Computes the offsets of a finished plan, from the item that was placed last.
    fn take_offsets(&mut self, history: &[Vec<(u32, u32, U)>]) {
        self.offsets.clear();
        self.offsets.resize(self.size.len(), 0);
        let mut at = 0;
        for kept in history.iter().rev() {
            let (parent, item, offset) = kept[at];
            self.offsets[item as usize] = offset.get() * self.grain;
            at = parent as usize;
        }
    }
}

/// Limits of the offsets.
struct Limit<U> {
    /// Highest offset of each item.
    highest: Vec<U>,
    /// Highest end of all items.
    height: U,
}

impl<U: Unit> Plans<U> {
    fn clear(&mut self) {
        self.partials.clear();
        self.tops.clear();
        self.truncate_rows(0);
    }

    fn truncate_rows(&mut self, at: usize) {
        self.ceilings.truncate(at);
        self.sizes.truncate(at);
        self.known.truncate(at);
        self.sets.truncate(at);
    }

    fn add_rows(&mut self, count: usize) {
        let end = self.sets.len() + count;
        self.ceilings.resize(end, U::default());
        self.sizes.resize(end, U::default());
        self.known.resize(end, U::default());
        self.sets.resize(end, 0);
    }

    fn copy(&mut self, from: &Self, at: usize) {
        let (tops, rows) = (from.tops.len() / from.partials.len(), from.sets.len() / from.partials.len());
        self.partials.push(from.partials[at]);
        self.tops.extend_from_slice(&from.tops[at * tops..][..tops]);
        self.ceilings.extend_from_slice(&from.ceilings[at * rows..][..rows]);
        self.sizes.extend_from_slice(&from.sizes[at * rows..][..rows]);
        self.known.extend_from_slice(&from.known[at * rows..][..rows]);
        self.sets.extend_from_slice(&from.sets[at * rows..][..rows]);
    }
}

// Loops over a few columns each, which the compiler vectorizes, because no two parameters overlap.

/// Subtracts the item's values.
fn less<T: Copy + core::ops::Sub<Output = T>>(old: &[T], its: &[T], new: &mut [T]) {
    for ((new, &old), &its) in new.iter_mut().zip(old).zip(its) {
        *new = old - its;
    }
}

/// Lowers the values to `offset` in the item's columns, and to `end` in the others.
fn lower<U: Unit>(old: &[U], its: &[U], (end, offset): (U, U), new: &mut [U]) {
    for ((new, &old), &its) in new.iter_mut().zip(old).zip(its) {
        *new = old.min(if its == U::default() { end } else { offset });
    }
}

/// Sets the ceilings to `height` in sections without remaining items: all of their space is slack.
fn open_up<U: Unit>(sizes: &[U], height: U, ceilings: &mut [U]) {
    for (ceiling, &size) in ceilings.iter_mut().zip(sizes) {
        *ceiling = if size == U::default() { height } else { *ceiling };
    }
}

/// Replaces the waste by the space that is needed.
fn need<U: Unit>(sizes: &[U], known: &[U], wastes: &mut [U]) {
    for ((waste, &size), &known) in wastes.iter_mut().zip(sizes).zip(known) {
        *waste = size.max(known + *waste);
    }
}

/// Replaces the needed space by the slack. Returns the least slack.
fn slack<U: Unit>(ceilings: &[U], needs: &mut [U]) -> U {
    let mut least = U::FAR;
    for (need, &ceiling) in needs.iter_mut().zip(ceilings) {
        *need = ceiling - *need;
        least = least.min(*need);
    }
    least
}

/// Returns `true` if `one` is nowhere below `other`.
fn is_over<U: Unit>(one: &[U], other: &[U]) -> bool {
    one.iter().zip(other).fold(U::FAR, |least, (&one, &other)| least.min(one - other)) >= U::default()
}

/// Returns the items of a set.
fn items(mut set: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let item = set.trailing_zeros() as usize;
        set &= set.checked_sub(1)?;
        Some(item)
    })
}

#[cfg(test)]
mod tests {
    use super::super::exact::{Outcome, Scale};
    use super::super::learning::Learner;
    use super::super::random::Random;
    use super::super::recurring::RecurringItem;
    use super::super::shape::Shape;
    use super::{Beam, Favour};
    use alloc::vec::Vec;
    use ringfence_alias::Problem;
    use ringfence_alias::internals::Relation;
    use ringfence_alias::{Item, Lifetime};

    /// Returns items of mixed alignments with up to two lifetimes.
    fn generated(random: &mut Random, count: u64) -> Vec<RecurringItem> {
        let mut below = |end: u64| (random.next() * end as f64) as u64;
        let (span, most, log2) = (2 + below(6), [4, 20, 300][below(3) as usize], 1 + below(5));
        let mut life = |_| {
            let lower = below(span);
            Lifetime { lower, upper: lower + 1 + below(span) }
        };
        let lives: Vec<Vec<Lifetime>> = (0..count).map(|item| (0..1 + item % 2).map(&mut life).collect()).collect();
        let item = |lifetimes| RecurringItem { size: 1 + below(most), alignment: 1 << below(log2), lifetimes };
        lives.into_iter().map(item).collect()
    }

    fn lies_apart<S: Shape>(problem: &Problem, shape: &S, offsets: &[u64]) -> bool {
        let end = |item: usize| offsets[item] + problem.sizes().size[item];
        let clash = |a: usize, b: usize| shape.clash(shape.key(a), shape.key(b));
        let is_clear = |a: usize, b: usize| !clash(a, b) || end(a) <= offsets[b] || end(b) <= offsets[a];
        let is_aligned = |item: usize| offsets[item].is_multiple_of(problem.sizes().alignment[item]);
        (0..offsets.len()).all(|a| is_aligned(a) && (0..a).all(|b| is_clear(a, b)))
    }

    #[test]
    fn a_wide_beam_finds_a_plan_iff_there_is_one_and_a_narrow_one_is_never_wrong() {
        let mut random = Random(5);
        let (mut planned, mut refuted, mut narrow) = (0, 0, [0, 0]);
        for round in 0..150 {
            let items = generated(&mut random, 4 + round % 7);
            let problem = RecurringItem::problem(&items).unwrap();
            let Relation::Cliques(shape) = problem.relation() else { panic!("items have several lifetimes") };
            let scale = Scale::new(problem.sizes());
            let mut beam = Beam::<i32>::new(shape, &scale, &problem.sizes().size);
            let mut go_on = |_| true;
            for capacity in problem.load()..problem.load() + 9 {
                let mut learner = Learner::new(shape, &scale, &problem.sizes().size);
                let there_is = learner.search(capacity, u64::MAX / 2, &mut go_on);
                for favour in [Favour::Slack, Favour::Placed] {
                    let found = beam.search(capacity, 1 << 10, favour, &mut go_on);
                    assert_eq!(found, there_is, "round {round}, height {capacity}: {items:?}");
                    let found = beam.search(capacity, 1, favour, &mut go_on);
                    assert!(found == there_is || found == Outcome::Stopped, "round {round}: {found:?}");
                    narrow[usize::from(found == there_is)] += 1;
                    if found == Outcome::Solved {
                        let offsets = beam.offsets();
                        assert!(lies_apart(&problem, shape, &offsets), "round {round}: {items:?} at {offsets:?}");
                        assert!(problem.sizes().height(&offsets) <= capacity, "round {round}");
                    }
                }
                planned += u32::from(there_is == Outcome::Solved);
                refuted += u32::from(there_is == Outcome::Failed);
            }
        }
        assert!(planned > 300 && refuted > 150, "{planned} planned, {refuted} refuted");
        assert!(narrow[0] > 20 && narrow[1] > 500, "{narrow:?}");
    }

    #[test]
    fn a_beam_stops_when_the_closure_says_no() {
        let items: Vec<Item> = (0..40).map(|item| Item::new(7 + item * item, item % 5, 6 + item % 7)).collect();
        let problem = Problem::new(&items).unwrap();
        let Relation::Intervals(shape) = problem.relation() else { panic!("one queue gives intervals") };
        let mut beam = Beam::<i32>::new(shape, &Scale::new(problem.sizes()), &problem.sizes().size);
        let mut asked = 0;
        let mut go_on = |_| {
            asked += 1;
            asked < 3
        };
        assert_eq!(beam.search(problem.load(), 64, Favour::Slack, &mut go_on), Outcome::Stopped);
        assert_eq!(asked, 3);
    }
}
