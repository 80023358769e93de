//! Greedy placement for many items of any lifetimes: a tree over time with the runs of occupied bytes in each node.
//!
//! ```text
//!   node      ├───────────────────────┤      whole: occupied over all of the node's time, by items that cover it
//!             ├───────────┼───────────┤      any:   occupied at some moment of it, by any item
//!             ├─────┼─────┼─────┼─────┤
//!   item              ├─────────┤            checks `any` of the nodes it consists of, `whole` of those above them
//! ```
//!
//! Runs that touch are merged: a thousand adjacent long-lived items are skipped in one step. Placing an item visits
//! O(log n) lists and the runs that are skipped, for any number of items alive with it. The result is the same as if
//! all placed items were walked one by one. The caller limits the work.

use super::asking::Asking;
use super::greedy::Fit;
use super::sections::Span;
use super::shape::Intervals;
use super::sizes::Sizes;
use alloc::vec;
use alloc::vec::Vec;

/// A run of occupied bytes.
#[derive(Clone, Copy)]
struct Run {
    offset: u64,
    end: u64,
}

/// Runs of one node: ascending, and none touches another.
type Runs = Vec<Run>;

/// A list that an item has to avoid, and the position in it.
#[derive(Clone, Copy)]
struct Cursor {
    list: u32,
    at: u32,
}

/// Cost of finding a node's lists and inserting into them, in visits of a run.
const LOOKS_A_LIST: u64 = 8;

struct Tree {
    /// Lists of node i: `2 * i` is `whole`, the runs occupied over all of its time; `2 * i + 1` is `any`, those at some
    /// moment of it.
    lists: Vec<Runs>,
    leaves: usize,
    cursors: Vec<Cursor>,
}

const fn whole(node: usize) -> usize {
    2 * node
}

const fn any(node: usize) -> usize {
    2 * node + 1
}

impl Tree {
    fn new(sections: usize) -> Self {
        let leaves = sections.next_power_of_two();
        Self { lists: vec![Vec::new(); 4 * leaves], leaves, cursors: Vec::new() }
    }

    /// Visits the nodes that make up a span (`at_part`), and the nodes above them (`above`). O(log n).
    fn visit(
        &mut self,
        span: Span,
        mut at_part: impl FnMut(&mut Self, usize),
        mut above: impl FnMut(&mut Self, usize),
    ) {
        let (mut low, mut high) = (self.leaves + span.first as usize, self.leaves + span.last as usize);
        // The nodes above the parts are on the two paths from the outermost parts to the root.
        let (mut low_part, mut high_part) = (None, None);
        while low < high {
            if low & 1 == 1 {
                at_part(self, low);
                low_part.get_or_insert(low);
                low += 1;
            }
            if high & 1 == 1 {
                high -= 1;
                at_part(self, high);
                high_part.get_or_insert(high);
            }
            low /= 2;
            high /= 2;
        }
        let mut low = low_part.or(high_part).unwrap_or(1) / 2;
        let mut high = high_part.or(low_part).unwrap_or(1) / 2;
        while low != high {
            // The deeper one moves up first; at equal depth both do.
            let (low_depth, high_depth) = (low.checked_ilog2(), high.checked_ilog2());
            if low_depth >= high_depth {
                above(self, low);
                low /= 2;
            }
            if high_depth >= low_depth {
                above(self, high);
                high /= 2;
            }
        }
        while low > 0 {
            above(self, low);
            low /= 2;
        }
    }

    /// Returns the offset of the gap for `size` units that `fit` selects (the lowest, or the tightest), and the cost of
    /// the search in visits of a run.
    fn find(&mut self, span: Span, size: u64, mask: u64, fit: Fit) -> (u64, u64) {
        self.cursors.clear();
        let meet = |tree: &mut Self, list: usize| {
            if !tree.lists[list].is_empty() {
                tree.cursors.push(Cursor { list: list as u32, at: 0 });
            }
        };
        self.visit(span, |tree, node| meet(tree, any(node)), |tree, node| meet(tree, whole(node)));
        let (mut gap_start, mut best, mut looks) = (0_u64, None::<(u64, u64)>, LOOKS_A_LIST * self.parts_of(span));
        loop {
            let (start, next) = self.gap(&mut gap_start, size, mask, &mut looks);
            if fit == Fit::First || next == u64::MAX {
                let start = best.map_or(start, |(_, start)| start);
                return (start, looks);
            }
            let left_over = next - gap_start - size;
            if best.is_none_or(|(least, _)| left_over < least) {
                best = Some((left_over, start));
            }
            gap_start = next + 1;
        }
    }

    /// Returns the aligned start of the lowest gap of this size from `gap_start` on, and the start of the run above it.
    /// Raises `gap_start` to the start of the gap.
    fn gap(&mut self, gap_start: &mut u64, size: u64, mask: u64, looks: &mut u64) -> (u64, u64) {
        let mut next = u64::MAX;
        // Number of consecutive lists without a run in the gap.
        let (mut free, mut turn) = (0, 0);
        let mut start = (*gap_start + mask) & !mask;
        while free < self.cursors.len() {
            let cursor = &mut self.cursors[turn];
            let runs = &self.lists[cursor.list as usize];
            let mut at = cursor.at as usize;
            if at < runs.len() && runs[at].end <= *gap_start {
                at = beyond(runs, at, *gap_start);
                cursor.at = at as u32;
            }
            *looks += 1;
            match runs.get(at) {
                None => {
                    self.cursors.swap_remove(turn);
                    turn = if turn >= self.cursors.len() { 0 } else { turn };
                    // Another list has moved to this index: the count starts again.
                    (free, next) = (0, u64::MAX);
                    continue;
                }
                Some(run) if run.offset < start + size => {
                    *gap_start = run.end;
                    start = (run.end + mask) & !mask;
                    (free, next) = (0, u64::MAX);
                    cursor.at += 1;
                }
                Some(run) => {
                    free += 1;
                    next = next.min(run.offset);
                }
            }
            turn = if turn + 1 >= self.cursors.len() { 0 } else { turn + 1 };
        }
        (start, next)
    }

    /// Returns the approximate number of nodes visited for a span, to find or insert.
    fn parts_of(&self, span: Span) -> u64 {
        u64::from(2 * self.leaves.ilog2() + 2 * (span.last - span.first).ilog2() + 2)
    }

    fn insert(&mut self, span: Span, run: Run) {
        let at_part = |tree: &mut Self, node: usize| {
            insert(&mut tree.lists[whole(node)], run);
            insert(&mut tree.lists[any(node)], run);
        };
        self.visit(span, at_part, |tree, node| insert(&mut tree.lists[any(node)], run));
    }
}

/// Returns the first run from `at` on that ends above `offset`: by doubling steps, then by bisection.
fn beyond(runs: &[Run], at: usize, offset: u64) -> usize {
    let (mut low, mut step) = (at, 1);
    while low + step < runs.len() && runs[low + step].end <= offset {
        low += step;
        step *= 2;
    }
    let high = (low + step).min(runs.len());
    low + runs[low..high].partition_point(|run| run.end <= offset)
}

/// Inserts a run, merged with the runs that it touches.
fn insert(runs: &mut Runs, run: Run) {
    let first = runs.partition_point(|other| other.end < run.offset);
    let mut last = first;
    let mut joined = run;
    while last < runs.len() && runs[last].offset <= run.end {
        joined.offset = joined.offset.min(runs[last].offset);
        joined.end = joined.end.max(runs[last].end);
        last += 1;
    }
    if last == first {
        runs.insert(first, joined);
    } else {
        runs[first] = joined;
        runs.drain(first + 1..last);
    }
}

/// As [`greedy::place`](super::greedy::place), but also returns `None` if it would visit more runs than `work`.
/// Subtracts the visited runs from `work`.
pub(super) fn place(
    shape: &Intervals,
    sizes: &Sizes,
    order: &[u32],
    fit: Fit,
    limit: u64,
    work: &mut u64,
    asking: &mut Asking<'_>,
) -> Option<(Vec<u64>, u64)> {
    let mut tree = Tree::new(shape.section_count);
    let mut offsets = vec![0; order.len()];
    let mut height = 0;
    for &item in order {
        let item = item as usize;
        let (size, span) = (sizes.size[item], shape.spans[item]);
        let (offset, looks) = tree.find(span, size, sizes.alignment[item] - 1, fit);
        let end = offset + size;
        height = end.max(height);
        *work = work.saturating_sub(looks + 1);
        if height >= limit || *work == 0 || !asking.looked_at(looks + 1) {
            return None;
        }
        offsets[item] = offset;
        tree.insert(span, Run { offset, end });
    }
    Some((offsets, height))
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::super::{Item, greedy};
    use super::*;
    use ringfence_alias::Problem;
    use ringfence_alias::internals::Relation;

    #[test]
    fn what_is_placed_where_is_the_same_as_walking_all_of_it() {
        let mut random = Random(7);
        for round in 0..200_u64 {
            let mut below = |end: u64| (random.next() * end as f64) as u64;
            let item = |_| {
                let lower = below(40);
                Item::new(1 + below(30), lower, lower + 1 + below(1 + round % 40)).aligned(1 << below(1 + round % 4))
            };
            let items: Vec<Item> = (0..100).map(item).collect();
            let problem = Problem::new(&items).unwrap();
            let Relation::Intervals(shape) = problem.relation() else { panic!("one queue gives intervals") };
            let order: Vec<u32> = (0..100).collect();
            let asking = &mut |_| true;
            for fit in [Fit::First, Fit::Best] {
                let walked = greedy::place(shape, problem.sizes(), &order, fit, u64::MAX, &mut Asking::new(asking));
                let by_runs = place(
                    shape,
                    problem.sizes(),
                    &order,
                    fit,
                    u64::MAX,
                    &mut u64::MAX.clone(),
                    &mut Asking::new(asking),
                );
                assert_eq!(by_runs, walked, "round {round}, {fit:?}");
            }
        }
    }

    #[test]
    fn placing_a_crowd_stops_in_the_middle_when_the_closure_says_no() {
        // Adjacent items form one run; items with gaps between them are visited one by one.
        let items: Vec<Item> = (0..4_000).map(|_| Item::new(3, 0, 1).aligned(4)).collect();
        let problem = Problem::new(&items).unwrap();
        let Relation::Intervals(shape) = problem.relation() else { panic!("one queue gives intervals") };
        let order: Vec<u32> = (0..4_000).collect();
        let no = &mut |_| false;
        let mut asking = Asking::new(no);
        let work = &mut u64::MAX.clone();
        assert_eq!(place(shape, problem.sizes(), &order, Fit::First, u64::MAX, work, &mut asking), None);
    }
}
