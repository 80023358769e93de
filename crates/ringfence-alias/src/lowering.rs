//! Reduces the aliasing transitions of a plan, and so its barriers, without making it higher.
//!
//! ```text
//!   space ▲  ┌──a──┐ ┌────c────┐           ┌──b──┐ ┌────d────┐
//!         │  ├──b──┼─┼────d────┤     ─▶    ├──a──┤ ├────c────┤     two instead of four
//!         │  └─────┘ └ ─ ─ ─ ─ ┘           └─────┘ └─────────┘
//! ```
//!
//! There are two kinds of moves: one item moves to another free offset, or two items of the same size exchange their
//! offsets. A move is made if it leaves fewer transitions, or in some rounds, equally many. Only offsets at which an
//! end of the item meets an end of another (up to alignment) are tried, because no offset between them has a lower
//! count. Items with the most transitions come first, because they gain most within a small budget. Columns
//! (`columns.rs`) give the cost of a move without making it.
//!
//! | operation | cost |
//! |---|---|
//! | setup | O(n log n + columns of all items · log n): n² columns in the worst case, not done above 2²⁶ |
//! | one item's move | O(columns · log n + offsets · columns of the item · log n) |
//! | two items' exchange | O(columns of both · log n) |
//!
//! If items have several lifetimes, a move checks all items of the columns, because checking neighbours is not enough.
//! The closure is called after each item and each exchange that was tried, and about every tenth of a millisecond
//! meanwhile.

use super::columns::{Between, Columns};
use super::internals::shape::Shape;
use super::plan::AliasPlan;
use super::problem::{Problem, Relation};
use super::transitions::in_order;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Progress of lowering, as reported to the caller's closure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lowering {
    /// Number of transitions of the present plan.
    pub transitions: usize,
    /// Steps of work since the last call. A step takes some nanoseconds.
    pub steps: u64,
}

/// Moves items so that the plan has fewer transitions ([`Transition`](super::Transition)) at no greater height, until
/// the closure returns `false` or no move helps. Only items for which `may_move` returns `true` are moved. Returns the
/// number of transitions that remain. The proven bound of the plan does not change. The same problem, plan and answers
/// give the same plan.
///
/// For items with several lifetimes, a pair counts once, in the order of their first beginnings, even if the bytes
/// change owners several times.
///
/// The plan must be valid for the problem, as checked by [`verify`](super::verify). The ends of the items divide the
/// space into columns. If the numbers of columns of all items add up to more than 2²⁶, the plan is not changed: the
/// tables would take gigabytes of host memory.
///
/// # Panics
/// If the number of offsets is not the number of items, or an item ends above the plan's height.
pub fn lower_transitions(
    problem: &Problem,
    plan: &mut AliasPlan,
    may_move: impl Fn(usize) -> bool,
    go_on: impl FnMut(&Lowering) -> bool,
) -> usize {
    assert_eq!(plan.offsets.len(), problem.len(), "there is one offset per item");
    let ends = problem.sizes.size.iter().zip(&plan.offsets).map(|(size, offset)| offset.checked_add(*size));
    assert!(ends.max().flatten() <= Some(plan.height), "every item ends within the height");
    match &problem.relation {
        Relation::Intervals(shape) => Lower::new(problem, shape, plan, may_move, go_on).run(),
        Relation::Cliques(shape) => Lower::new(problem, shape, plan, may_move, go_on).run(),
    }
}

/// Maximum number of consecutive rounds in which items may also move at equal cost, to reach other plans. These rounds
/// begin after a round without an improvement.
const SIDEWAYS_ROUNDS: u32 = 12;
/// Exchanges cost more than moves, so only one in so many rounds without an improvement tries them.
const EXCHANGE_EVERY: u32 = 4;
/// Steps within a move, or while columns are filled, after which the closure is called.
const STEPS_A_QUESTION: u64 = 1 << 14;
/// Maximum sum of the numbers of columns of all items. Each column of an item takes about 16 bytes of host memory.
const COLUMNS_MAX: u64 = 1 << 26;
/// Number of comparisons of two sizes that count as one step.
const COMPARED_A_STEP: u64 = 16;

struct Lower<'p, S: Shape, G> {
    problem: &'p Problem,
    shape: &'p S,
    offsets: &'p mut [u64],
    /// All items in the order in which they begin.
    order: Vec<u32>,
    columns: Columns<'p, S>,
    /// Items that may move, those with the most transitions first.
    movable: Vec<u32>,
    go_on: G,
    /// Number of rounds since the last improvement.
    sideways: u32,
    steps: u64,
    between: Vec<Between>,
    candidates: Vec<u64>,
}

impl<'p, S: Shape, G: FnMut(&Lowering) -> bool> Lower<'p, S, G> {
    fn new(
        problem: &'p Problem,
        shape: &'p S,
        plan: &'p mut AliasPlan,
        may_move: impl Fn(usize) -> bool,
        go_on: G,
    ) -> Self {
        let mut order: Vec<u32> = (0..problem.len() as u32).collect();
        order.sort_by_key(|&item| (problem.begins[item as usize], item));
        let columns = Columns::empty(shape, &problem.sizes, &order, &plan.offsets);
        let movable = (0..problem.len()).filter(|item| may_move(*item)).map(|item| item as u32).collect();
        let (between, candidates) = (Vec::new(), Vec::new());
        Self {
            problem,
            shape,
            offsets: &mut plan.offsets,
            order,
            columns,
            movable,
            go_on,
            sideways: 0,
            steps: 0,
            between,
            candidates,
        }
    }

    /// Returns the sum of the numbers of columns of all items. O(n log n).
    fn columns_of_all(&self) -> u64 {
        let ends = self.offsets.iter().zip(&self.problem.sizes.size);
        ends.map(|(&offset, size)| self.columns.range(offset, offset + size).len() as u64).sum()
    }

    fn run(mut self) -> usize {
        if self.movable.is_empty() || self.columns_of_all() > COLUMNS_MAX {
            return self.counted();
        }
        if let Err(count) = self.fill(None) {
            return count;
        }
        let mut in_vain = 0;
        while in_vain <= SIDEWAYS_ROUNDS && self.columns.count > 0 {
            let before = self.columns.count;
            self.sideways = in_vain;
            if let Err(count) = self.tidy() {
                return count;
            }
            if !self.round() {
                break;
            }
            in_vain = if self.columns.count < before { 0 } else { in_vain + 1 };
        }
        self.columns.count
    }

    /// Rebuilds the columns without unneeded cuts, if there are many. If the closure stops it, returns the number of
    /// transitions as the error.
    fn tidy(&mut self) -> Result<(), usize> {
        let sizes = &self.problem.sizes;
        if self.columns.cuts.len() <= 3 * sizes.len() {
            return Ok(());
        }
        let count = self.columns.count;
        self.columns = Columns::empty(self.shape, sizes, &self.order, self.offsets);
        self.fill(Some(count))
    }

    /// Puts all items into the columns, which are empty. `known` is the number of transitions, if it is known. If the
    /// closure stops it, returns that number as the error.
    fn fill(&mut self, mut known: Option<usize>) -> Result<(), usize> {
        for place in 0..self.order.len() {
            let item = self.order[place];
            self.steps += self.columns.put(item, self.offsets[item as usize]) as u64;
            if self.steps >= STEPS_A_QUESTION {
                let count = known.unwrap_or_else(|| self.counted());
                known = Some(count);
                if !self.ask(count) {
                    return Err(count);
                }
            }
        }
        Ok(())
    }

    /// Counts the transitions without the columns. O(n log n + transitions).
    fn counted(&self) -> usize {
        let order = self.order.iter().map(|&item| item as usize);
        in_order(order, |item| self.problem.sizes.size[item], self.offsets).len()
    }

    /// Tries to move every item. If no move helps, some rounds also try to exchange all pairs of items of the same
    /// size. Returns `false` if the closure has stopped the search.
    fn round(&mut self) -> bool {
        let before = self.columns.count;
        let mut order = core::mem::take(&mut self.movable);
        let degrees = self.columns.degrees();
        order.sort_unstable_by_key(|&item| (Reverse(degrees[item as usize]), item));
        let mut goes_on = order.iter().all(|&item| self.relocate(item));
        if goes_on && self.columns.count == before && self.sideways.is_multiple_of(EXCHANGE_EVERY) {
            goes_on = order.iter().enumerate().all(|(at, &item)| self.exchange(item, &order[at + 1..]));
        }
        self.movable = order;
        goes_on
    }

    fn tick(&mut self) -> bool {
        self.ask(self.columns.count)
    }

    /// Calls the closure with the number of transitions of the present plan. Returns `false` if the closure stops the
    /// search.
    fn ask(&mut self, transitions: usize) -> bool {
        (self.go_on)(&Lowering { transitions, steps: core::mem::take(&mut self.steps) })
    }

    fn size(&self, item: u32) -> u64 {
        self.problem.sizes.size[item as usize]
    }

    /// Moves an item to the offset of least cost. If several offsets have this cost, `lot` decides. Returns `false` if
    /// the closure has stopped the search.
    fn relocate(&mut self, item: u32) -> bool {
        let old = self.offsets[item as usize];
        let least = self.columns.count;
        self.columns.take(item, old);
        self.look(item);
        let base = self.columns.count as isize;
        let mut best = (least as isize, 0, old);
        let mut goes_on = true;
        let candidates = core::mem::take(&mut self.candidates);
        for &offset in candidates.iter().filter(|offset| **offset != old) {
            let count = base + self.columns.cost_of(item, offset, &self.between);
            self.steps += 2 + self.columns.range(offset, offset + self.size(item)).len() as u64;
            best = best.min((count, self.lot(item, offset), offset));
            if self.steps >= STEPS_A_QUESTION {
                goes_on = self.ask(least);
                if !goes_on {
                    break;
                }
            }
        }
        self.candidates = candidates;
        self.offsets[item as usize] = best.2;
        self.columns.put(item, best.2);
        goes_on && (self.steps == 0 || self.tick())
    }

    /// Returns a key that orders offsets of equal cost; the least wins. The caller gives the present offset the key 0.
    /// An item stays at its offset until a round brings no improvement; then it may move at equal cost.
    fn lot(&self, item: u32, offset: u64) -> i64 {
        if self.sideways == 0 {
            return 1;
        }
        let word = (offset ^ u64::from(item) << 40 ^ u64::from(self.sideways)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (word ^ word >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) as i64
    }

    /// Computes the neighbours that a removed item would have in each column, and the offsets worth trying.
    fn look(&mut self, item: u32) {
        let count = self.columns.cuts.len() - 1;
        self.between.clear();
        self.between.extend((0..count).map(|column| self.columns.between(item, column)));
        self.candidates.clear();
        self.steps += count as u64;
        let (size, mask) = (self.size(item), self.problem.sizes.alignment[item as usize] - 1);
        let cuts = &self.columns.cuts;
        let mut first = 0;
        while first < count {
            let free = self.between[first..].iter().take_while(|between| between.is_free).count();
            let (low, high) = (cuts[first], cuts[first + free]);
            for &cut in &cuts[first..=first + free] {
                let above = (cut + mask) & !mask;
                let below = cut.checked_sub(size).map(|offset| offset & !mask);
                let fits = |offset: &u64| low <= *offset && offset + size <= high;
                self.candidates.extend([Some(above), below].into_iter().flatten().filter(fits));
            }
            first += free + 1;
        }
        self.candidates.sort_unstable();
        self.candidates.dedup();
    }

    /// Tries to exchange the offsets of an item and of each other item of the same size, and keeps an exchange that
    /// leaves fewer transitions. Returns `false` if the closure has stopped the search.
    fn exchange(&mut self, item: u32, others: &[u32]) -> bool {
        let alignment = &self.problem.sizes.alignment;
        for &other in others {
            let (a, b) = (self.offsets[item as usize], self.offsets[other as usize]);
            let strictest = alignment[item as usize].max(alignment[other as usize]);
            if self.size(item) == self.size(other) && a != b && (a | b) & (strictest - 1) == 0 {
                self.try_exchange((item, a), (other, b));
                if !self.tick() {
                    return false;
                }
            }
        }
        self.steps += others.len() as u64 / COMPARED_A_STEP;
        self.steps < STEPS_A_QUESTION || self.tick()
    }

    fn try_exchange(&mut self, (item, a): (u32, u64), (other, b): (u32, u64)) {
        let least = self.columns.count;
        self.columns.take(item, a);
        self.columns.take(other, b);
        let mut places = ((item, a), (other, b));
        if self.is_free(item, b) && self.is_free(other, a) {
            self.columns.put(item, b);
            self.columns.put(other, a);
            self.steps += 6 * self.columns.range(a, a + self.size(item)).len() as u64;
            if self.columns.count < least {
                places = ((item, b), (other, a));
            }
            self.columns.take(item, b);
            self.columns.take(other, a);
        }
        for (item, offset) in [places.0, places.1] {
            self.columns.put(item, offset);
            self.offsets[item as usize] = offset;
        }
        self.steps += 4 * self.columns.range(a, a + self.size(item)).len() as u64;
    }

    fn is_free(&self, item: u32, offset: u64) -> bool {
        self.columns.range(offset, offset + self.size(item)).all(|column| self.columns.between(item, column).is_free)
    }
}
