//! Several queues: lifetimes as a partial order instead of intervals.
//!
//! ```text
//!   graphics   p0 ──▶ p1 ─────────▶ p3          x is used by p0 and p1, y by p3: y can share bytes with x
//!                └─sync─▶ p2 ─sync──┘           z is used by p2, which is after p0 but unordered with p1:
//!   compute               p2                    z cannot share bytes with x
//! ```
//!
//! Two items can share bytes if *every* pass that uses one comes before *every* pass that uses the other, along edges:
//! the order of a queue, or a sync point. All other pairs clash.
//!
//! The order of the passes is a matrix of bits, which is computed along the edges, from the last pass to the first.
//! Cliques (sets of items that all clash) cover the clashes: first a greedy heaviest clique for every item with an
//! uncovered clash, then one for every clash that is not covered yet. The sum of a clique's sizes is a lower bound.
//! Finding the heaviest clique would be a flow problem; it is not solved.
//!
//! With p passes, e edges, n items and u uses (the passes of all items): reachability O(e · p / 64), clashes O(u²),
//! each clique O(members² · n) in the worst case. The matrices take p² / 8 and twice n² / 8 bytes of host memory; more
//! than 1 GiB for the passes or for the items is an error.

use super::check::{Violation, check_places};
use super::internals::cliques::{grow, listed};
use super::internals::limits::{check_relation, check_sizes};
use super::internals::shape::{Bits, Cliques, RELATION_BYTES_MAX, ones};
use super::internals::sizes::Sizes;
use super::item::ItemError;
use super::problem::{Problem, Relation};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// Passes, and the partial order of their execution.
#[derive(Clone, Debug)]
pub struct PassGraph {
    /// Row: a pass. Column: a pass that always comes after it.
    after: Bits,
    /// The passes in an order that the edges allow.
    order: Vec<u32>,
    edges: Vec<(u32, u32)>,
}

/// Reason why passes have no order. Passes are identified by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PassError {
    /// An edge names a pass that does not exist.
    UnknownPass {
        /// Number of the pass.
        pass: usize,
    },
    /// The edges have a cycle.
    Cycle {
        /// A pass of the cycle, or one that waits for the cycle.
        pass: usize,
    },
    /// The table of the order would need too much host memory.
    TooMany {
        /// Number of passes.
        count: usize,
        /// Size of the table, in bytes.
        bytes: u64,
        /// Largest size of the table, in bytes.
        bytes_max: u64,
    },
}

impl fmt::Display for PassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UnknownPass { pass } => write!(f, "an edge names pass {pass}, which does not exist"),
            Self::Cycle { pass } => write!(f, "the edges have a cycle that pass {pass} is in or waits for"),
            Self::TooMany { count, bytes, bytes_max } => {
                write!(f, "the table of {count} passes needs {bytes} bytes, of at most {bytes_max}: use fewer passes")
            }
        }
    }
}

impl core::error::Error for PassError {}

impl PassGraph {
    /// Creates the graph of `count` passes, numbered from 0, with edges *(before, after)*: the order within each queue,
    /// and every sync point between queues. O(count + edges · count / 64), and count² / 8 bytes of host memory.
    ///
    /// # Errors
    /// A pass that does not exist, a cycle, or more than 92,672 passes: their table would be larger than 1 GiB.
    pub fn new(count: usize, edges: &[(usize, usize)]) -> Result<Self, PassError> {
        let (bytes, bytes_max) = (Bits::bytes(count), RELATION_BYTES_MAX);
        if bytes > bytes_max {
            return Err(PassError::TooMany { count, bytes, bytes_max });
        }
        if let Some(pass) = edges.iter().flat_map(|&(a, b)| [a, b]).find(|&pass| pass >= count) {
            return Err(PassError::UnknownPass { pass });
        }
        let edges: Vec<(u32, u32)> = edges.iter().map(|&(a, b)| (a as u32, b as u32)).collect();
        let order = topological(count, &edges)?;
        let mut next = vec![Vec::new(); count];
        for &(before, after) in &edges {
            next[before as usize].push(after as usize);
        }
        let mut after = Bits::new(count);
        for &pass in order.iter().rev() {
            for &other in &next[pass as usize] {
                after.set(pass as usize, other);
                after.join(pass as usize, other);
            }
        }
        Ok(Self { after, order, edges })
    }

    /// Returns the number of passes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns `true` if there are no passes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns `true` if `a` always ends before `b` begins. O(1).
    ///
    /// # Panics
    /// If `a` or `b` does not exist.
    #[must_use]
    pub fn is_before(&self, a: usize, b: usize) -> bool {
        assert!(a < self.len() && b < self.len(), "pass {a} or {b} does not exist");
        self.after.get(a, b)
    }

    pub(super) fn edges(&self) -> &[(u32, u32)] {
        &self.edges
    }
}

/// Sorts the passes by Kahn's algorithm, the lowest number first among those that are ready.
fn topological(count: usize, edges: &[(u32, u32)]) -> Result<Vec<u32>, PassError> {
    let (mut waits, mut next) = (vec![0_u32; count], vec![Vec::new(); count]);
    for &(before, after) in edges {
        waits[after as usize] += 1;
        next[before as usize].push(after);
    }
    let is_ready = |pass: &u32| waits[*pass as usize] == 0;
    let mut ready: alloc::collections::BTreeSet<u32> = (0..count as u32).filter(is_ready).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(pass) = ready.pop_first() {
        order.push(pass);
        for &other in &next[pass as usize] {
            waits[other as usize] -= 1;
            if waits[other as usize] == 0 {
                ready.insert(other);
            }
        }
    }
    match waits.iter().position(|&waits| waits != 0) {
        Some(pass) => Err(PassError::Cycle { pass }),
        None => Ok(order),
    }
}

/// A buffer or texture, and the passes that use it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PassItem {
    /// Size in units; at least 1.
    pub size: u64,
    /// Alignment of the offset; a power of two.
    pub alignment: u64,
    /// Passes that read or write it, in any order; at least one.
    pub passes: Vec<usize>,
}

impl Problem {
    /// Creates the problem of items that passes on several queues use. O(uses² + cliques · members² · n), where the
    /// cliques cover the clashes, and at least n² / 4 bytes of host memory.
    ///
    /// # Errors
    /// The first item that cannot be planned, or [`ItemError::RelationTooLarge`] if the tables would take more than 1
    /// GiB.
    pub fn with_passes(graph: &PassGraph, items: &[PassItem]) -> Result<Self, ItemError> {
        let sizes = Sizes {
            size: items.iter().map(|item| item.size).collect(),
            alignment: items.iter().map(|item| item.alignment).collect(),
        };
        check_sizes(sizes.pairs())?;
        check_passes(graph, items)?;
        check_relation(items.len(), Bits::bytes(items.len()).saturating_mul(2))?;
        let mut rank = vec![0; graph.len()];
        for (place, &pass) in graph.order.iter().enumerate() {
            rank[pass as usize] = place as u64;
        }
        let first = |item: &PassItem| item.passes.iter().map(|&pass| rank[pass]).min().unwrap_or(0);
        let last = |item: &PassItem| item.passes.iter().map(|&pass| rank[pass]).max().unwrap_or(0);
        let begins: Vec<u64> = items.iter().map(first).collect();
        let durations = items.iter().map(|item| last(item) - first(item) + 1).collect();
        let shape = cover(clashes(graph, items), &sizes, &begins)?;
        Ok(Self::with_relation(sizes, Relation::Cliques(shape), begins, durations))
    }
}

fn check_passes(graph: &PassGraph, items: &[PassItem]) -> Result<(), ItemError> {
    for (index, item) in items.iter().enumerate() {
        if item.passes.is_empty() {
            return Err(ItemError::Unused { index });
        }
        if let Some(&pass) = item.passes.iter().find(|&&pass| pass >= graph.len()) {
            return Err(ItemError::UnknownPass { index, pass });
        }
    }
    Ok(())
}

/// Returns `true` if every use of `a` comes before every use of `b`.
fn is_over_before(graph: &PassGraph, a: &PassItem, b: &PassItem) -> bool {
    a.passes.iter().all(|&first| b.passes.iter().all(|&second| graph.after.get(first, second)))
}

fn may_share(graph: &PassGraph, a: &PassItem, b: &PassItem) -> bool {
    is_over_before(graph, a, b) || is_over_before(graph, b, a)
}

/// Returns the matrix of clashes. Each item also clashes with itself.
fn clashes(graph: &PassGraph, items: &[PassItem]) -> Bits {
    let mut bits = Bits::new(items.len());
    for (a, first) in items.iter().enumerate() {
        bits.set(a, a);
        for (b, second) in items.iter().enumerate().take(a) {
            if !may_share(graph, first, second) {
                bits.set(a, b);
                bits.set(b, a);
            }
        }
    }
    bits
}

/// Returns cliques that cover all clashes, in the order in which they begin.
fn cover(clashes: Bits, sizes: &Sizes, begins: &[u64]) -> Result<Cliques, ItemError> {
    let count = sizes.len();
    let mut covered = Bits::new(count);
    let mut cliques: Vec<Vec<u32>> = Vec::new();
    let mut bytes = 2 * Bits::bytes(count);
    let mut add = |members: Vec<u32>, covered: &mut Bits| {
        for &a in &members {
            members.iter().for_each(|&b| covered.set(a as usize, b as usize));
        }
        // Each member is listed by clique and by item.
        bytes += 8 * members.len() as u64;
        cliques.push(members);
        check_relation(count, bytes)
    };
    for item in 0..count {
        if !clashes.row(item).iter().zip(covered.row(item)).all(|(clash, covered)| clash & !covered == 0) {
            add(grow(&clashes, &covered, sizes, &[item], true), &mut covered)?;
        }
    }
    for item in 0..count {
        while let Some(other) = ones(clashes.row(item)).find(|&other| !covered.get(item, other)) {
            add(grow(&clashes, &covered, sizes, &[item, other], false), &mut covered)?;
        }
    }
    cliques.sort_by_key(|members| members.iter().map(|&item| begins[item as usize]).max());
    Ok(listed(clashes, &cliques, count))
}

/// Checks a plan over several queues, as [`verify`](super::verify) does for one queue. O(uses²) in the worst case: for
/// each pair of items that share bytes, all uses are compared.
///
/// # Errors
/// The first violation that was found.
pub fn verify_passes(graph: &PassGraph, items: &[PassItem], offsets: &[u64], capacity: u64) -> Result<(), Violation> {
    let pairs = || items.iter().map(|item| (item.size, item.alignment));
    check_sizes(pairs()).map_err(Violation::Item)?;
    check_passes(graph, items).map_err(Violation::Item)?;
    check_places(pairs(), offsets, capacity)?;
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&index| offsets[index]);
    for (place, &low) in order.iter().enumerate() {
        let end = offsets[low] + items[low].size;
        for &high in order[place + 1..].iter().take_while(|&&high| offsets[high] < end) {
            if !may_share(graph, &items[low], &items[high]) {
                return Err(Violation::Overlap { first: low.min(high), second: low.max(high) });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::internals::shape::Shape;

    /// Returns `true` if the cliques cover all clashes and no other pair.
    fn is_cover(shape: &Cliques, count: usize) -> bool {
        (0..count).all(|a| {
            (0..count).all(|b| {
                let share = shape.sections(a).any(|section| shape.is_in(b, section));
                share == shape.clash(shape.key(a), shape.key(b))
            })
        })
    }

    #[test]
    fn the_cliques_cover_what_clashes_and_nothing_else() {
        let mut state = 7_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % below) as usize
        };
        for _ in 0..50 {
            let edges: Vec<(usize, usize)> = (1..12).map(|pass| (random(pass), pass as usize)).collect();
            let graph = PassGraph::new(12, &edges).unwrap();
            let mut item =
                || PassItem { size: 1 + random(9) as u64, alignment: 1, passes: vec![random(12), random(12)] };
            let items: Vec<PassItem> = (0..20).map(|_| item()).collect();
            let problem = Problem::with_passes(&graph, &items).unwrap();
            let Relation::Cliques(shape) = &problem.relation else { panic!("passes give cliques") };
            assert!(is_cover(shape, items.len()));
        }
    }
}
