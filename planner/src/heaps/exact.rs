//! Exhaustive search over orders, for few items.
//!
//! Take an optimal plan and place its items again, the lowest first, each at the lowest free offset: no item ends
//! higher. So some optimal plan is found by filling heap after heap in an order in which each item is at the lowest
//! free offset and not lower than the previous one. The search walks these orders depth first, and leaves a branch as
//! soon as it costs as much as the best plan.

use super::HeapOffset;
use super::greedy::{Candidate, total};
use super::occupied::Occupied;
use super::problem::HeapProblem;
use alloc::vec;
use alloc::vec::Vec;

/// Largest number of items without a pin: more have too many orders.
pub(super) const ITEMS_MAX: usize = 40;
/// Nodes after which the search ends: some tenths of a second.
const NODES_MAX: u64 = 1 << 18;
/// Nodes between two calls of the closure.
const NODES_A_QUESTION: u64 = 256;

/// A walk over all orders.
pub(super) struct Walk<'p, 'g> {
    problem: &'p HeapProblem,
    heaps: Vec<Occupied>,
    offsets: Vec<HeapOffset>,
    /// Items that are not placed yet, in the order in which they are tried.
    left: Vec<u32>,
    fallback: u128,
    heights: Vec<u64>,
    /// The best plan so far.
    pub best: Option<Candidate>,
    /// Called with the nodes since the last call. Returns `false` to stop.
    go_on: &'g mut dyn FnMut(u64, Option<&Candidate>) -> bool,
    nodes: u64,
    walked: u64,
    /// `true` if some orders were not tried.
    pub is_stopped: bool,
    /// `true` if the closure stopped the walk.
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

    /// Walks all orders. If it is not stopped, `best` is then optimal, or `None` if there is no plan.
    pub fn run(&mut self) {
        self.walk(0, 0, 0);
    }

    /// Counts a node. Returns `true` if the walk continues and this branch may improve on the best plan.
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

    /// Returns a lower bound of the fallback cost of the remaining items in this heap and later ones. Returns `None` if
    /// an item fits none of these heaps.
    fn least_fallback(&self, heap: usize) -> Option<u128> {
        self.left.iter().try_fold(0_u128, |sum, &item| {
            let item = item as usize;
            let later = self.problem.choices(item).iter().filter(|choice| choice.heap as usize >= heap);
            let rank = later.map(|choice| choice.rank).min()?;
            Some(sum + u128::from(self.problem.flat[item].size) * u128::from(rank))
        })
    }

    /// Places each remaining item in `heap`, at or above `low`. At `low` itself, an item's number must not be below
    /// `after`.
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
        // The lowest first: items above it come later.
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

    /// Places an item and walks all orders of the remaining items.
    fn step(&mut self, heap: usize, offset: u64, item: u32, rank: u32) {
        let flat = self.problem.flat[item as usize];
        let place = self.left.iter().position(|&left| left == item).expect("it is not placed yet");
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
