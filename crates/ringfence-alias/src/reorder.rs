//! Suggests an order of passes that the dependencies allow and that has less memory alive at once.
//!
//! ```text
//!   as recorded   p0 p1 p2 p3      load ▁▅█▃       p2 only waits for p0
//!   suggested     p0 p2 p1 p3      load ▁▄▅▃       items that only p2 reads end before p1 begins
//! ```
//!
//! On one queue, an item is alive from the first pass that uses it to the last. Two orders are improved, and the better
//! result is suggested: the given order, and a list schedule, which repeatedly takes the ready pass after which the
//! least memory is alive. To improve an order, single passes are moved while that lowers the load; at an equal load,
//! while it lowers the sum of the squares of the live sizes at each pass. A try costs O(passes + uses); a round tries
//! every pass at every position that its dependencies allow.

use super::passes::{PassGraph, PassItem};
use alloc::vec;
use alloc::vec::Vec;

/// A suggested order, and the loads before and after.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PassOrder {
    /// The passes in the suggested order.
    pub order: Vec<usize>,
    /// Largest sum of sizes alive at once in the given order, in units.
    pub load_before: u64,
    /// Largest sum of sizes alive at once in the suggested order, in units; never more than `load_before`.
    pub load_after: u64,
}

impl PassOrder {
    /// Returns the reduction of the load, in units.
    #[must_use]
    pub fn saving(&self) -> u64 {
        self.load_before - self.load_after
    }
}

/// Searches for an order of all passes on one queue with a lower load than `order`, until no move of a pass helps or
/// the closure returns `false`. The closure receives the load of the order that is being improved, which is not always
/// the best one so far. Items that no pass uses are ignored, and so are passes of an item that the graph does not have.
///
/// # Panics
/// If `order` is not an order of all passes that the graph allows.
#[must_use]
pub fn suggest_order(
    graph: &PassGraph,
    items: &[PassItem],
    order: &[usize],
    mut go_on: impl FnMut(u64) -> bool,
) -> PassOrder {
    assert!(is_allowed(graph, order), "`order` is an order of all passes that the graph allows");
    let given = cost(items, order);
    let (mut best, mut least) = (order.to_vec(), given);
    let mut is_stopped = false;
    for is_scheduled in [false, true] {
        let mut go_on = |load| {
            is_stopped |= !go_on(load);
            !is_stopped
        };
        let start =
            if is_scheduled { list_schedule(graph, items, given.load, &mut go_on) } else { Some(order.to_vec()) };
        let Some(start) = start else { break };
        let (order, cost) = improve(graph, items, start, &mut go_on);
        if cost < least {
            (best, least) = (order, cost);
        }
        if is_stopped {
            break;
        }
    }
    if least.load == given.load {
        // Without a saving, the given order is kept.
        best = order.to_vec();
    }
    PassOrder { order: best, load_before: given.load, load_after: least.load.min(given.load) }
}

fn is_allowed(graph: &PassGraph, order: &[usize]) -> bool {
    let mut place = vec![usize::MAX; graph.len()];
    for (at, &pass) in order.iter().enumerate() {
        if pass >= graph.len() || place[pass] != usize::MAX {
            return false;
        }
        place[pass] = at;
    }
    order.len() == graph.len() && graph.edges().iter().all(|&(a, b)| place[a as usize] < place[b as usize])
}

/// Cost of an order. The load is compared first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    load: u64,
    squares: u128,
}

fn cost(items: &[PassItem], order: &[usize]) -> Cost {
    let mut place = vec![usize::MAX; order.len()];
    for (at, &pass) in order.iter().enumerate() {
        place[pass] = at;
    }
    let mut change = vec![0_u64; order.len() + 1];
    for item in items {
        let places = || item.passes.iter().filter_map(|&pass| place.get(pass));
        if let (Some(&first), Some(&last)) = (places().min(), places().max()) {
            change[first] = change[first].wrapping_add(item.size);
            change[last + 1] = change[last + 1].wrapping_sub(item.size);
        }
    }
    let mut cost = Cost { load: 0, squares: 0 };
    let mut alive = 0_u64;
    for change in change {
        alive = alive.wrapping_add(change);
        cost.load = cost.load.max(alive);
        cost.squares = cost.squares.saturating_add(u128::from(alive) * u128::from(alive));
    }
    cost
}

/// Returns a schedule that repeatedly takes the ready pass with the least growth of live memory. If several have the
/// same growth, takes the pass in which the least memory becomes live. Calls the closure before each pass. Returns
/// `None` if the closure stops it.
fn list_schedule(
    graph: &PassGraph,
    items: &[PassItem],
    load: u64,
    go_on: &mut impl FnMut(u64) -> bool,
) -> Option<Vec<usize>> {
    let count = graph.len();
    let mut waits = vec![0_u32; count];
    let mut next = vec![Vec::new(); count];
    for &(before, after) in graph.edges() {
        waits[after as usize] += 1;
        next[before as usize].push(after as usize);
    }
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut left: Vec<usize> = vec![0; items.len()];
    for (index, item) in items.iter().enumerate() {
        let mut passes: Vec<usize> = item.passes.iter().copied().filter(|&pass| pass < count).collect();
        passes.sort_unstable();
        passes.dedup();
        left[index] = passes.len();
        passes.into_iter().for_each(|pass| users[pass].push(index));
    }
    let (mut begun, mut done) = (vec![false; items.len()], vec![false; count]);
    let mut order = Vec::with_capacity(count);
    while order.len() < count {
        if !go_on(load) {
            return None;
        }
        let growth = |pass: usize| {
            let begins = users[pass].iter().filter(|&&item| !begun[item]).map(|&item| i128::from(items[item].size));
            let ends = users[pass].iter().filter(|&&item| left[item] == 1).map(|&item| i128::from(items[item].size));
            let begins: i128 = begins.sum();
            (begins - ends.sum::<i128>(), begins)
        };
        let ready = (0..count).filter(|&pass| !done[pass] && waits[pass] == 0);
        let Some(pass) = ready.min_by_key(|&pass| (growth(pass), pass)) else { break };
        done[pass] = true;
        order.push(pass);
        for &item in &users[pass] {
            begun[item] = true;
            left[item] -= 1;
        }
        next[pass].iter().for_each(|&after| waits[after] -= 1);
    }
    Some(order)
}

/// Moves single passes while that lowers the cost.
fn improve(
    graph: &PassGraph,
    items: &[PassItem],
    mut order: Vec<usize>,
    go_on: &mut impl FnMut(u64) -> bool,
) -> (Vec<usize>, Cost) {
    let mut least = cost(items, &order);
    let mut improved = true;
    while improved {
        improved = false;
        for pass in 0..order.len() {
            if !go_on(least.load) {
                return (order, least);
            }
            let from = order.iter().position(|&other| other == pass).expect("every pass has a place");
            for to in places(graph, &order, from) {
                let moved = with_move(&order, from, to);
                let cost = cost(items, &moved);
                if cost < least {
                    (order, least, improved) = (moved, cost, true);
                    break;
                }
            }
        }
    }
    (order, least)
}

/// Returns the positions to which a pass can move: after all passes that it waits for, before all that wait for it.
fn places(graph: &PassGraph, order: &[usize], from: usize) -> impl Iterator<Item = usize> + use<> {
    let pass = order[from];
    let first = order[..from].iter().rposition(|&other| graph.is_before(other, pass)).map_or(0, |place| place + 1);
    let behind = order[from + 1..].iter().position(|&other| graph.is_before(pass, other));
    let last = behind.map_or(order.len() - 1, |place| from + place);
    (first..=last).filter(move |&to| to != from)
}

fn with_move(order: &[usize], from: usize, to: usize) -> Vec<usize> {
    let mut order = order.to_vec();
    let pass = order.remove(from);
    order.insert(to, pass);
    order
}
