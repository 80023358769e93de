//! The search for several heaps. For many items it starts with a sweep over time. Then it tries greedy orders, all
//! orders of few items, and better orders of many items. The planner of one heap improves each heap without pins. While
//! there is no plan, the search continues with random orders.

use super::exact::{ITEMS_MAX, Walk};
use super::first::first_plan;
use super::greedy::{Candidate, LeftOver, place, rank, total};
use super::occupied::Occupied;
use super::problem::HeapProblem;
use super::{HeapError, HeapOffset, HeapPlan};
use crate::asking::Asking;
use crate::plan::{Planner, RUNS_ITEMS_MIN};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use ringfence_alias::Problem;
use ringfence_alias::{AliasPlan, Progress};
use ringfence_alias::{Item, Lifetime};

/// Number of greedy orders.
pub(super) const ORDERS: usize = 7;
/// Orders that are tried without a call of the closure while there is no plan, and the steps that they may take.
const TRIES_MIN: usize = 64;
const UNASKED_STEPS_MAX: u64 = 1 << 17;
/// Number of items above which fewer steps are taken: the sweep has found a plan if it fits, and one order alone takes
/// longer.
const MANY: usize = 20_000;
const UNASKED_STEPS_MANY: u64 = 1 << 16;
/// Maximum number of consecutive orders without an improvement; then the search ends. Also limits the tries of
/// `push_forward`.
const FRUITLESS_MAX: usize = 2_000;
/// Maximum number of steps of `push_forward`: some hundredths of a second.
const PUSHED_STEPS_MAX: u64 = 1 << 16;
/// Steps of the planner of one heap for each heap, at first and in the end: some hundredths of a second, and some
/// seconds.
const HEAP_STEPS_FIRST: u64 = 20_000;
const HEAP_STEPS_LAST: u64 = 2_000_000;

/// Plans the items into the heaps until the plan is proven optimal or the closure returns `false`.
///
/// Once there is a plan, the closure is called after each greedy order and every few milliseconds within one. Before
/// that, the first call is after some tenths of a second, or after some hundredths for more than 20,000 items.
/// [`Progress::height`] is the total of all heaps, and `u64::MAX` before there is a plan. The same problem and the same
/// answers give the same plan, and more time never gives a worse one.
///
/// Each order costs O(n²). For more than 1,536 items a first plan exists before that, in O(n log n), unless the heaps
/// are nearly full. For up to 40 items without pins all orders are searched, for some tenths of a second; that proves
/// plans of about ten items. The search ends when it has found no improvement for a long time. While there is no plan,
/// and no proof that there is none, it continues until the closure stops it.
///
/// # Errors
/// [`HeapError::NotFound`] if the closure returned `false` before there was a plan, or if it is proven that there is
/// none (`is_proven`). [`HeapError::Stopped`] if the closure returned `false` before the first order was finished.
pub fn plan_heaps(problem: &HeapProblem, go_on: impl FnMut(&Progress) -> bool) -> Result<HeapPlan, HeapError> {
    plan_asked(problem, if problem.len() > MANY { UNASKED_STEPS_MANY } else { UNASKED_STEPS_MAX }, go_on)
}

/// As [`plan_heaps`], but the closure is called after `unasked_max` steps even if there is no plan.
pub(super) fn plan_asked(
    problem: &HeapProblem,
    unasked_max: u64,
    go_on: impl FnMut(&Progress) -> bool,
) -> Result<HeapPlan, HeapError> {
    let mut search = Search {
        problem,
        go_on,
        best: None,
        left_over: None,
        unasked: unasked_max,
        is_stopped: false,
        is_impossible: false,
    };
    search.first();
    search.greedy();
    search.each_heap(HEAP_STEPS_FIRST);
    search.insist(0..1);
    let is_exhausted = !search.is_done() && !search.is_impossible && search.exact();
    if !is_exhausted && !search.is_done() {
        search.insist(1..u64::MAX);
        search.better();
        search.each_heap(HEAP_STEPS_LAST);
    }
    let is_proven = (is_exhausted || search.is_impossible) && !problem.is_cut_off();
    match (search.best, search.left_over) {
        (Some(best), _) => Ok(best.plan(problem, is_proven)),
        (None, Some(left)) => Err(proven(left.error, is_proven)),
        (None, None) => Err(HeapError::Stopped { items: problem.len() }),
    }
}

fn proven(error: HeapError, is_proven: bool) -> HeapError {
    match error {
        HeapError::NotFound { index, size, heap, end, capacity, .. } => {
            HeapError::NotFound { index, size, heap, end, capacity, is_proven }
        }
        other => other,
    }
}

pub(super) struct Search<'p, G> {
    pub problem: &'p HeapProblem,
    go_on: G,
    pub best: Option<Candidate>,
    /// Result of the order that placed the most items.
    left_over: Option<LeftOver>,
    /// Steps that may be taken without a call of the closure while there is no plan.
    pub unasked: u64,
    pub is_stopped: bool,
    /// `true` if an item does not fit even when only the pinned items are placed: no plan exists.
    pub is_impossible: bool,
}

impl<G: FnMut(&Progress) -> bool> Search<'_, G> {
    fn is_done(&self) -> bool {
        let proven = |best: &Candidate| best.cost() == (0, self.problem.lower_bound());
        self.is_stopped || self.best.as_ref().is_some_and(proven)
    }

    fn ask(&mut self, steps: u64) {
        let height = self.best.as_ref().map_or(u64::MAX, |best| total(&best.heights));
        let progress = Progress { height, lower_bound: self.problem.lower_bound(), steps };
        self.is_stopped |= !(self.go_on)(&progress);
    }

    /// Returns the items without a pin, sorted by a key.
    fn sorted<K: Ord>(&self, key: impl Fn(usize) -> K) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.problem.len() as u32).collect();
        order.retain(|&item| self.problem.pinned[item as usize].is_none());
        order.sort_by_key(|&item| key(item as usize));
        order
    }

    /// Returns the steps of one order.
    pub fn steps(&self) -> u64 {
        let many = self.problem.len() as u64;
        1 + many * many / 4096
    }

    /// Counts `steps`, and returns `false` to stop. Calls the closure once there is a plan, or once `unasked` steps are
    /// used up.
    pub fn goes_on(&mut self, steps: u64) -> bool {
        if self.best.is_some() || self.unasked == 0 {
            self.ask(steps);
        } else {
            self.unasked = self.unasked.saturating_sub(steps);
        }
        !self.is_stopped
    }

    /// Makes the first plan of many items, then runs the planner of one heap, which does not need O(n²).
    fn first(&mut self) {
        if self.problem.len() <= RUNS_ITEMS_MIN {
            return;
        }
        // As many steps as an order takes.
        let steps = HEAP_STEPS_FIRST.max(self.steps());
        // At first without a search; then with enough steps to fit more items into the preferred heaps.
        for steps in [0, steps] {
            if let Some(offsets) = first_plan(self.problem, 0, steps, &mut |steps| self.goes_on(steps)) {
                self.keep(Candidate::of(self.problem, offsets));
                self.ask(self.problem.len() as u64);
            }
            if self.is_stopped || self.best.as_ref().is_some_and(|best| best.fallback == 0) {
                break;
            }
        }
        self.each_heap(steps);
    }

    fn greedy(&mut self) {
        if self.is_done() {
            return;
        }
        for place in 0..ORDERS {
            let order = self.order(place);
            self.offer(&order);
            if self.is_done() {
                return;
            }
        }
        self.push_forward(self.order(0));
    }

    /// Returns one of the greedy orders.
    pub fn order(&self, place: usize) -> Vec<u32> {
        let problem = self.problem;
        let flat = |item: usize| &problem.flat[item];
        let length = |item: usize| flat(item).upper - flat(item).lower;
        let area = |item: usize| u128::from(flat(item).size) * u128::from(length(item));
        match place {
            0 => self.sorted(|item| Reverse((flat(item).size, length(item)))),
            1 => self.sorted(|item| (problem.choices(item).len(), Reverse((flat(item).size, length(item))))),
            2 => self.sorted(|item| Reverse((length(item), flat(item).size))),
            3 => self.sorted(|item| Reverse(area(item))),
            4 => self.sorted(|item| (flat(item).kind, Reverse((flat(item).size, length(item))))),
            5 => self.sorted(|item| Reverse((flat(item).alignment, flat(item).size, length(item)))),
            _ => self.sorted(|item| (flat(item).lower, Reverse((length(item), flat(item).size)))),
        }
    }

    /// While there is no plan, moves the first item that did not fit forward in the order, and tries again.
    fn push_forward(&mut self, mut order: Vec<u32>) {
        let mut tries = 0;
        let most = (PUSHED_STEPS_MAX / self.steps()).min(FRUITLESS_MAX as u64) as usize;
        while self.best.is_none() && !self.is_stopped && !self.is_impossible && tries < most.max(TRIES_MIN) {
            let Some(item) = self.offer(&order) else { return };
            let place = order.iter().position(|&other| other as usize == item).expect("it was left over");
            // Mostly to the middle of the items before it, every third time to the front.
            let to = if tries % 3 == 2 { 0 } else { place / 2 };
            order[to..=place].rotate_right(1);
            tries += 1;
            if tries >= TRIES_MIN {
                self.unasked = 0;
            }
        }
    }

    /// Places the items in the given order, and keeps the plan if it is the best so far. Returns the first item that
    /// did not fit. Returns `None` if all items fit or if the caller stopped the search.
    fn offer(&mut self, order: &[u32]) -> Option<usize> {
        let mut asked = 0;
        let placed = self.place(order, &mut asked);
        let left = match placed? {
            Ok(candidate) => {
                self.keep(candidate);
                None
            }
            Err(left) => {
                let item = left.item;
                // No item was placed before it.
                self.is_impossible |= left.placed == 0;
                if self.left_over.as_ref().is_none_or(|most| most.placed < left.placed) {
                    self.left_over = Some(left);
                }
                Some(item)
            }
        };
        self.end_order(asked);
        left
    }

    /// Places the items in the given order. Returns `None` if the caller stopped the search. Adds the steps that were
    /// reported to the caller to `asked`.
    fn place(&mut self, order: &[u32], asked: &mut u64) -> Option<Result<Candidate, LeftOver>> {
        let problem = self.problem;
        let mut go_on = |steps| {
            *asked += steps;
            self.goes_on(steps)
        };
        place(problem, order, &mut Asking::new(&mut go_on))
    }

    /// Counts the steps of an order that are not counted yet.
    pub fn end_order(&mut self, asked: u64) {
        let steps = self.steps().saturating_sub(asked);
        self.goes_on(steps);
    }

    pub fn keep(&mut self, candidate: Candidate) -> bool {
        let is_better = self.best.as_ref().is_none_or(|best| candidate.cost() < best.cost());
        if is_better {
            self.best = Some(candidate);
        }
        is_better
    }

    /// Walks all orders of few items. Returns `true` if none was left out.
    fn exact(&mut self) -> bool {
        let order = self.sorted(|item| Reverse(self.problem.flat[item].size));
        if order.len() > ITEMS_MAX {
            return false;
        }
        let bound = self.problem.lower_bound();
        let go_on = &mut self.go_on;
        let mut ask = |nodes: u64, best: Option<&Candidate>| {
            let height = best.map_or(u64::MAX, |best| total(&best.heights));
            // A node visits each item about once.
            go_on(&Progress { height, lower_bound: bound, steps: 1 + nodes / 4 })
        };
        let mut walk = Walk::new(self.problem, &order, self.best.take(), &mut ask);
        walk.run();
        let (is_stopped, is_asked_to_stop) = (walk.is_stopped, walk.is_asked_to_stop);
        self.best = walk.best;
        self.is_stopped |= is_asked_to_stop;
        !is_stopped
    }

    /// Tries variants of the best plan's order, in which badly placed items come earlier.
    fn better(&mut self) {
        let mut order = self.sorted(|item| Reverse(self.problem.flat[item].size));
        let Some(best) = &self.best else { return };
        order.sort_by_key(|&item| best.offsets[item as usize].offset);
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut fruitless = 0;
        while !self.is_done() && fruitless < FRUITLESS_MAX && order.len() > 1 {
            let mut other = order.clone();
            for item in self.blamed(&other, &mut random) {
                let place = other.iter().position(|&held| held == item).expect("it is in the order");
                let to = next(&mut random) as usize % (place + 1);
                other[to..=place].rotate_right(1);
            }
            let mut asked = 0;
            let Some(placed) = self.place(&other, &mut asked) else { return };
            let is_no_worse =
                |candidate: &Candidate| self.best.as_ref().is_none_or(|best| candidate.cost() <= best.cost());
            fruitless += 1;
            if let Ok(candidate) = placed
                && is_no_worse(&candidate)
            {
                order = other;
                if self.keep(candidate) {
                    fruitless = 0;
                }
            }
            self.end_order(asked);
        }
    }

    /// Returns one or two random items. If there is a plan, also returns a random one of the items that are in a
    /// fallback heap or end at the height of their heap.
    fn blamed(&self, order: &[u32], random: &mut u64) -> Vec<u32> {
        let mut blamed = Vec::with_capacity(3);
        if let Some(best) = &self.best {
            let is_bad = |&item: &u32| {
                let (item, at) = (item as usize, best.offsets[item as usize]);
                let ends_highest = at.offset + self.problem.flat[item].size == best.heights[at.heap];
                ends_highest || rank(self.problem, item, at.heap) > 0
            };
            let bad: Vec<u32> = order.iter().copied().filter(is_bad).collect();
            if !bad.is_empty() {
                blamed.push(bad[next(random) as usize % bad.len()]);
            }
        }
        for _ in 0..1 + next(random) % 2 {
            blamed.push(order[next(random) as usize % order.len()]);
        }
        blamed
    }

    /// Improves each heap without pins with the planner of one heap, which has more methods. Then moves items back to
    /// heaps that they prefer, if there is room.
    fn each_heap(&mut self, steps_max: u64) {
        for heap in 0..self.problem.heaps.len() {
            if self.is_done() {
                return;
            }
            self.one_heap(heap, steps_max);
        }
        if !self.is_done() {
            self.bring_back();
        }
    }

    fn one_heap(&mut self, heap: usize, steps_max: u64) {
        let problem = self.problem;
        let Some(best) = &self.best else { return };
        let inside: Vec<usize> = (0..problem.len()).filter(|&item| best.offsets[item].heap == heap).collect();
        if inside.is_empty() || inside.iter().any(|&item| problem.pinned[item].is_some()) {
            return;
        }
        let items = whole_pages(problem, heap, &inside, 0);
        let others = total(&best.heights) - best.heights[heap];
        // Sizes rounded up to whole pages may exceed 63 bits.
        let Ok(own) = Problem::new(&items) else { return };
        let (bound, offsets) = (problem.lower_bound(), best.offsets.clone());
        let candidate = |found: &[u64]| {
            let mut offsets = offsets.clone();
            inside.iter().zip(found).for_each(|(&at, &offset)| offsets[at] = HeapOffset { heap, offset });
            // If the pages cost too much, this is worse than the present plan, and is not kept.
            Candidate::of(problem, offsets)
        };
        // With whole pages, the lowest plan may end in a page that is hardly used, so each plan is evaluated.
        let has_pages = problem.heaps[heap].granularity > 1;
        let (mut steps, mut looked_at) = (0, u64::MAX);
        let mut asked = |found: &mut AliasPlan, more| {
            if has_pages && found.height < looked_at {
                looked_at = found.height;
                self.keep(candidate(&found.offsets));
            }
            steps += more;
            let height = found.height.saturating_add(others);
            self.is_stopped |= !(self.go_on)(&Progress { height, lower_bound: bound, steps: more });
            !self.is_stopped && steps < steps_max
        };
        let mut planner = Planner::new(&own, &mut asked);
        planner.begin();
        planner.go_on();
        let found = planner.best;
        self.keep(candidate(&found.offsets));
    }

    /// Moves items in fallback heaps to heaps that they prefer, if they fit.
    fn bring_back(&mut self) {
        let problem = self.problem;
        let Some(best) = self.best.as_ref().filter(|best| best.fallback > 0) else { return };
        let mut offsets = best.offsets.clone();
        let mut heaps = problem.empty_heaps();
        fill(problem, &mut heaps, &offsets);
        let fallen = |item: &u32| rank(problem, *item as usize, offsets[*item as usize].heap) > 0;
        let mut order = self.sorted(|item| Reverse(problem.flat[item].size));
        order.retain(fallen);
        let mut go_on = |steps| {
            self.ask(steps);
            !self.is_stopped
        };
        let mut asking = Asking::new(&mut go_on);
        for item in order {
            if !asking.looked_at(problem.len() as u64) {
                break;
            }
            let (at, item) = (offsets[item as usize], item as usize);
            let own = rank(problem, item, at.heap);
            let preferred = problem.choices(item).iter().take_while(|choice| choice.rank < own);
            let found = preferred
                .map(|choice| choice.heap as usize)
                .find_map(|heap| heaps[heap].lowest(&problem.flat[item]).map(|offset| HeapOffset { heap, offset }));
            if let Some(to) = found {
                heaps[at.heap].take(item as u32, at.offset);
                heaps[to.heap].put(item as u32, problem.flat[item], to.offset);
                offsets[item] = to;
            }
        }
        self.keep(Candidate::of(problem, offsets));
    }
}

/// Returns the items of a heap for the planner of one heap. If pages matter, the items of all kinds but one are rounded
/// up to whole pages, so that no two kinds share a page. The exception is the kind with the most bytes, or another one
/// by `turn`.
pub(super) fn whole_pages(problem: &HeapProblem, heap: usize, inside: &[usize], turn: usize) -> Vec<Item> {
    let mut bytes: BTreeMap<u32, u64> = BTreeMap::new();
    for &at in inside {
        *bytes.entry(problem.flat[at].kind).or_default() += problem.flat[at].size;
    }
    let mut kinds: Vec<(Reverse<u64>, u32)> = bytes.into_iter().map(|(kind, bytes)| (Reverse(bytes), kind)).collect();
    kinds.sort_unstable();
    let most = kinds.get(turn % kinds.len().max(1)).map(|&(_, kind)| kind);
    let item = |&at: &usize| {
        let flat = &problem.flat[at];
        let page = if Some(flat.kind) == most { 1 } else { problem.heaps[heap].granularity };
        let lifetime = Lifetime { lower: flat.lower, upper: flat.upper };
        let size = flat.size.next_multiple_of(page);
        Item { alignment: flat.alignment.max(page), lifetime, ..Item::new(size, 0, 1) }
    };
    inside.iter().map(item).collect()
}

/// Fills empty heaps with the items at their locations.
pub(super) fn fill(problem: &HeapProblem, heaps: &mut [Occupied], offsets: &[HeapOffset]) {
    for (place, heap) in heaps.iter_mut().enumerate() {
        let inside = offsets.iter().enumerate().filter(|(_, at)| at.heap == place);
        heap.fill(inside.map(|(item, at)| (item as u32, problem.flat[item], at.offset)));
    }
}

/// Returns the next number of a fixed sequence (xorshift).
pub(super) fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 11
}
