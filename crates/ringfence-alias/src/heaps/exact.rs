//! Every plan worth looking at, for few items.
//!
//! Take a best plan and place its items again, the lowest first, each at the lowest free offset: none comes to lie
//! higher. So some best plan is found by placing heap by heap, in an order in which each item lies at the lowest free
//! offset and no lower than the one before it. These orders are walked, depth first; a branch is left as soon as it
//! costs as much as the best plan.

use super::HeapOffset;
use super::greedy::{Candidate, total};
use super::occupied::Occupied;
use super::problem::HeapProblem;
use alloc::vec;
use alloc::vec::Vec;

/// More items that are not pinned are not walked: their orders are too many.
pub(super) const ITEMS_MAX: usize = 40;
/// Nodes after which the walk ends: some tenths of a second.
const NODES_MAX: u64 = 1 << 18;
/// Nodes between two questions.
const NODES_A_QUESTION: u64 = 256;

/// Walks the orders.
pub(super) struct Walk<'p, 'g> {
    problem: &'p HeapProblem,
    heaps: Vec<Occupied>,
    offsets: Vec<HeapOffset>,
    /// Items not placed yet, in the order in which they are tried.
    left: Vec<u32>,
    fallback: u128,
    heights: Vec<u64>,
    /// The best so far.
    pub best: Option<Candidate>,
    /// Asked with the nodes since the last time; whether to go on.
    go_on: &'g mut dyn FnMut(u64, Option<&Candidate>) -> bool,
    nodes: u64,
    walked: u64,
    /// Whether some orders were left out.
    pub is_stopped: bool,
    /// Whether that was the closure's will.
    pub is_asked_to_stop: bool,
}

impl<'p, 'g> Walk<'p, 'g> {
    pub fn new(
        problem: &'p HeapProblem,
        order: &[u32],
        best: Option<Candidate>,
        go_on: &'g mut dyn FnMut(u64, Option<&Candidate>) -> bool,
    ) -> Self {
        let heaps = problem.with_pins();
        let pins: Vec<HeapOffset> =
            problem.pinned.iter().map(|pin| pin.unwrap_or(HeapOffset { heap: 0, offset: 0 })).collect();
        let heights = heaps.iter().map(Occupied::height).collect();
        let left = order.to_vec();
        Self {
            problem,
            heaps,
            offsets: pins,
            left,
            fallback: 0,
            heights,
            best,
            go_on,
            nodes: 0,
            walked: 0,
            is_stopped: false,
            is_asked_to_stop: false,
        }
    }

    /// Walks all orders; when it is not stopped, `best` is the best plan, and if that is `None`, there is no plan.
    pub fn run(&mut self) {
        self.walk(0, 0, 0);
    }

    /// Whether to go on, and whether this branch may become better than the best.
    fn is_worth(&mut self, heap: usize) -> bool {
        self.nodes += 1;
        if self.nodes >= NODES_A_QUESTION {
            let nodes = core::mem::take(&mut self.nodes);
            self.walked += nodes;
            self.is_asked_to_stop |= !(self.go_on)(nodes, self.best.as_ref());
            self.is_stopped |= self.is_asked_to_stop || self.walked >= NODES_MAX;
        }
        let Some(least) = self.least_fallback(heap) else { return false };
        let height = total(&self.heights).max(self.problem.lower_bound());
        let worth = self.best.as_ref().is_none_or(|best| (self.fallback + least, height) < best.cost());
        worth && !self.is_stopped
    }

    /// What the items left cost at least, in this heap or later ones; `None` if one of them may lie in none.
    fn least_fallback(&self, heap: usize) -> Option<u128> {
        self.left.iter().try_fold(0_u128, |sum, &item| {
            let item = item as usize;
            let later = self.problem.choices(item).iter().filter(|choice| choice.heap as usize >= heap);
            let rank = later.map(|choice| choice.rank).min()?;
            Some(sum + u128::from(self.problem.flat[item].size) * u128::from(rank))
        })
    }

    /// In this heap, no lower than `low`, and there items of a greater number than `after` alone.
    fn walk(&mut self, heap: usize, low: u64, after: u32) {
        if self.left.is_empty() {
            let candidate = Candidate::of(self.problem, self.offsets.clone());
            if self.best.as_ref().is_none_or(|best| candidate.cost() < best.cost()) {
                self.best = Some(candidate);
            }
            return;
        }
        if heap == self.heaps.len() || !self.is_worth(heap) {
            return;
        }
        let mut tried = vec![];
        for place in 0..self.left.len() {
            let item = self.left[place];
            let choices = self.problem.choices(item as usize);
            let Some(rank) = choices.iter().find(|choice| choice.heap as usize == heap).map(|choice| choice.rank)
            else {
                continue;
            };
            let flat = self.problem.flat[item as usize];
            let Some(offset) = self.heaps[heap].lowest(&flat) else { continue };
            if (offset, item) < (low, after) {
                continue;
            }
            tried.push((offset, item, rank));
        }
        // The lowest first: what lies above it comes later.
        tried.sort_unstable_by_key(|&(offset, item, _)| {
            (offset, core::cmp::Reverse(self.problem.flat[item as usize].size))
        });
        for (offset, item, rank) in tried {
            self.step(heap, offset, item, rank);
            if self.is_stopped {
                return;
            }
        }
        self.walk(heap + 1, 0, 0);
    }

    /// With this item there, and everything after it.
    fn step(&mut self, heap: usize, offset: u64, item: u32, rank: u32) {
        let flat = self.problem.flat[item as usize];
        let place = self.left.iter().position(|&left| left == item).expect("it is one of them");
        self.left.remove(place);
        self.heaps[heap].put(item, flat, offset);
        let (height, cost) = (self.heights[heap], u128::from(flat.size) * u128::from(rank));
        self.heights[heap] = height.max(offset + flat.size);
        self.fallback += cost;
        self.offsets[item as usize] = HeapOffset { heap, offset };
        self.walk(heap, offset, item);
        self.fallback -= cost;
        self.heights[heap] = height;
        self.heaps[heap].take(item, offset);
        self.left.insert(place, item);
    }
}
