//! Computes the lowest stack of items that all clash, exactly, for mixed alignments.
//!
//! ```text
//!   alignment A: two large items, aligned to A, with sizes p and q modulo A; small items with alignments below A
//!
//!     │ large ····p│ large ····q│ small small          a gap below a large item, up to a multiple of A, is waste;
//!     0            A            2A                     nothing is wasted above the highest item
//!
//!   set of small items below the next large one   ∅  a  b  ab …     only the least height of each set is kept:
//!   + the next large item                         ∅  a  b  ab …     no item above needs a higher stack
//! ```
//!
//! Dynamic programming over sets of small items; equal items are only counted. Only sizes modulo A matter: an item with
//! size 0 modulo A can be removed from any stack. Large items can exchange positions, each with the items between it
//! and the next large one, so one order is enough; but each large item may be the highest. These choices are split into
//! halves that share the stack below: with m large items of d sizes and k small ones that is O(m · log d · k · 2ᵏ).
//!
//! If there are too many small items, those with the smallest alignments are left out, or if the alignments are capped,
//! those with the smallest sizes modulo A. The waste without them, minus their sizes modulo A, is still a lower bound.
//! The waste with capped alignments is a lower bound too.

use super::sizes::Sizes;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Result of stacking some items.
pub struct Stacking {
    /// Lower bound of the waste of all stacks. If the search ended early, the waste of the stack that was found.
    pub waste: u64,
    /// Parts of a low stack from below, each starting at a multiple of the largest alignment. All parts but the last
    /// can exchange positions.
    pub parts: Vec<Vec<u32>>,
}

/// Lower bounds of the waste of each set of some items that all clash.
pub struct Table {
    /// Waste of each set.
    pub wastes: Vec<u64>,
    /// The counted items, each with its stride: adding the item to a set raises the index of the set by the stride.
    pub strides: Vec<(u32, u32)>,
    /// Items that are left out, each with its size modulo A: a set with such an item may waste less by this size.
    pub left_out: Vec<(u32, u64)>,
}

impl Table {
    /// Creates a table of at most `sets_max` sets. Returns `None` if no set wastes anything, or if heights would be too
    /// large.
    pub fn new(sizes: &Sizes, members: &[u32], sets_max: usize) -> Option<Self> {
        let alignment = |item: u32| sizes.alignment[item as usize];
        let most = members.iter().map(|&item| alignment(item)).max()?;
        most.checked_mul(2 * members.len() as u64 + 2).filter(|&height| height <= HEIGHT_MAX)?;
        let left_over = |item: u32| sizes.size[item as usize] & (most - 1);
        let members: Vec<u32> = members.iter().copied().filter(|&item| left_over(item) > 0).collect();
        let (kinds, left_out) = kinds(members, sets_max, left_over, |item| (true, alignment(item)));
        let sets = kinds.iter().map(|kind| kind.items.len() + 1).product();
        let strides = kinds.iter().flat_map(|kind| kind.items.iter().map(|&item| (item, kind.stride as u32))).collect();
        let left_out = left_out.into_iter().map(|item| (item, left_over(item))).collect();
        let stacks = Stacks::new(kinds, sets, most - 1, 0);
        let heights = &stacks.levels.first()?.heights;
        let sums = stacks.kinds.iter().fold(vec![0], |mut sums, kind| {
            let without = sums.len();
            (0..without * kind.items.len()).for_each(|set| sums.push(sums[set] + kind.left_over));
            sums
        });
        let wastes: Vec<u64> = heights.iter().zip(sums).map(|(height, sum)| height - sum).collect();
        wastes.iter().any(|&waste| waste > 0).then_some(Self { wastes, strides, left_out })
    }
}

/// Small items with equal sizes modulo A and equal alignments.
struct Kind {
    mask: u64,
    left_over: u64,
    items: Vec<u32>,
    /// Stride: adding one of these items to a set raises the index of the set by this number.
    stride: usize,
}

impl Kind {
    /// Returns the number of these items in a set.
    fn many_in(&self, set: usize) -> usize {
        set / self.stride % (self.items.len() + 1)
    }
}

/// Large items with equal sizes modulo A.
struct Large {
    left_over: u64,
    items: Vec<u32>,
}

/// Least heights with some large items, by the set of small ones; and the last large item.
struct Level {
    heights: Vec<u64>,
    item: u32,
    left_over: u64,
}

struct Stacks {
    kinds: Vec<Kind>,
    /// Bits of the kinds in each set.
    present: Vec<u32>,
    mask: u64,
    /// A stack of this height or less ends the search.
    enough: u64,
    best: u64,
    /// Items of the best stack, from below.
    order: Vec<u32>,
    levels: Vec<Level>,
}

/// Largest height that the computation allows.
const HEIGHT_MAX: u64 = 1 << 60;

/// Returns a stack of these items with the least waste. Uses at most `sets_max` sets of small items, and replaces
/// alignments above `cap` by `cap`. The search ends early at a waste of `enough` or less. If heights could exceed
/// `HEIGHT_MAX`, the waste is 0. If the computation would take more than the remaining `work`, returns `None`.
pub fn lowest(
    sizes: &Sizes,
    members: Vec<u32>,
    cap: u64,
    enough: u64,
    sets_max: usize,
    work: &mut u64,
) -> Option<Stacking> {
    let (most, members, mut parts) = without_whole(sizes, members, cap);
    if most.checked_mul(2 * members.len() as u64 + 2).is_none_or(|height| height > HEIGHT_MAX) {
        parts.push(members);
        return Some(Stacking { waste: 0, parts });
    }
    let alignment = |item: u32| sizes.alignment[item as usize].min(cap);
    let left_over = |item: u32| sizes.size[item as usize] & (most - 1);
    let (larges, small): (Vec<u32>, Vec<u32>) = members.into_iter().partition(|&item| alignment(item) == most);
    let larges = alike(larges, left_over);
    let (kinds, left_out) = kinds(small, sets_max, left_over, |item| (cap == u64::MAX, alignment(item)));
    let sets = kinds.iter().map(|kind| kind.items.len() + 1).product();
    let cost = levels(&larges) * sets as u64 * (1 + kinds.len() as u64);
    *work = work.checked_sub(cost)?;
    let free: u64 = left_out.iter().map(|&item| left_over(item)).sum();
    let of_kinds = kinds.iter().map(|kind| kind.left_over * kind.items.len() as u64).sum::<u64>();
    let all = of_kinds + larges.iter().map(|large| large.left_over * large.items.len() as u64).sum::<u64>();
    let mut stacks = Stacks::new(kinds, sets, most - 1, (all + free).saturating_add(enough));
    if larges.is_empty() {
        stacks.end()
    } else {
        stacks.try_each_highest(&larges)
    }
    let mut part = Vec::new();
    for item in stacks.order {
        if alignment(item) == most && !part.is_empty() {
            parts.push(core::mem::take(&mut part));
        }
        part.push(item);
    }
    // Without their alignment, they waste nothing on top.
    part.extend(left_out);
    parts.push(part);
    Some(Stacking { waste: (stacks.best - all).saturating_sub(free), parts })
}

/// Repeatedly takes out the items whose size is a multiple of the largest alignment; alignments above `cap` count as
/// `cap`. Returns the last largest alignment, the items that remain, and the items that were taken out, as parts below
/// them. An item with a size that is a multiple of the largest alignment does not remain.
fn without_whole(sizes: &Sizes, mut members: Vec<u32>, cap: u64) -> (u64, Vec<u32>, Vec<Vec<u32>>) {
    let mut parts = Vec::new();
    loop {
        let most = members.iter().map(|&item| sizes.alignment[item as usize].min(cap)).max().unwrap_or(1);
        let (whole, others): (Vec<u32>, Vec<u32>) =
            members.into_iter().partition(|&item| sizes.size[item as usize] & (most - 1) == 0);
        if whole.is_empty() || others.is_empty() {
            parts.extend(whole.into_iter().map(|item| vec![item]));
            return (most, others, parts);
        }
        parts.extend(whole.into_iter().map(|item| vec![item]));
        members = others;
    }
}

/// Groups the large items by size modulo A, ascending. The group that wastes most is tried first as the highest.
fn alike(mut items: Vec<u32>, left_over: impl Fn(u32) -> u64) -> Vec<Large> {
    let mut larges: Vec<Large> = Vec::new();
    items.sort_by_key(|&item| left_over(item));
    for item in items {
        match larges.last_mut().filter(|last| last.left_over == left_over(item)) {
            Some(last) => last.items.push(item),
            None => larges.push(Large { left_over: left_over(item), items: vec![item] }),
        }
    }
    larges
}

/// Returns the kinds of small items, and the items that are left out because they would make too many sets. If
/// `alignment` returns `true`, the items with the smallest alignments are left out first; otherwise, those with the
/// smallest sizes modulo A.
fn kinds(
    mut items: Vec<u32>,
    sets_max: usize,
    left_over: impl Fn(u32) -> u64,
    alignment: impl Fn(u32) -> (bool, u64),
) -> (Vec<Kind>, Vec<u32>) {
    items.sort_by_key(|&item| {
        let (is_first, alignment) = alignment(item);
        (Reverse(if is_first { alignment } else { 1 }), Reverse(left_over(item)), Reverse(alignment))
    });
    let (mut kinds, mut left_out): (Vec<Kind>, Vec<u32>) = (Vec::new(), Vec::new());
    let mut sets = 1;
    for item in items {
        let (mask, left_over) = (alignment(item).1 - 1, left_over(item));
        let last = kinds.last_mut().filter(|last| last.left_over == left_over && last.mask == mask);
        let many = last.as_ref().map_or(0, |last| last.items.len());
        if sets / (many + 1) * (many + 2) > sets_max {
            left_out.push(item);
            continue;
        }
        sets = sets / (many + 1) * (many + 2);
        match last {
            Some(last) => last.items.push(item),
            None => kinds.push(Kind { mask, left_over, items: vec![item], stride: 0 }),
        }
    }
    let mut stride = 1;
    for kind in &mut kinds {
        kind.stride = stride;
        stride *= kind.items.len() + 1;
    }
    (kinds, left_out)
}

/// Returns an upper bound of the number of levels: 1 + m · (1 + ⌈log2 d⌉) for m large items of d sizes modulo A.
fn levels(larges: &[Large]) -> u64 {
    let many: usize = larges.iter().map(|large| large.items.len()).sum();
    1 + many as u64 * u64::from(1 + larges.len().next_power_of_two().trailing_zeros())
}

impl Stacks {
    fn new(kinds: Vec<Kind>, sets: usize, mask: u64, enough: u64) -> Self {
        let mut place = 0;
        let present = kinds.iter().fold(vec![0], |mut present, kind| {
            let without = present.len();
            (0..without * kind.items.len()).for_each(|set| present.push(present[set] | 1 << place));
            place += 1;
            present
        });
        let mut stacks = Self { kinds, present, mask, enough, best: u64::MAX, order: Vec::new(), levels: Vec::new() };
        let mut heights = vec![u64::MAX; sets];
        heights[0] = 0;
        stacks.fill(&mut heights);
        stacks.levels.push(Level { heights, item: 0, left_over: 0 });
        stacks
    }

    /// Fills in the least height of each set, from its present value and the heights of smaller sets.
    fn fill(&self, heights: &mut [u64]) {
        for set in 1..heights.len() {
            let (mut least, mut kinds) = (heights[set], self.present[set]);
            while kinds != 0 {
                let kind = &self.kinds[kinds.trailing_zeros() as usize];
                kinds &= kinds - 1;
                least = least.min(((heights[set - kind.stride] + kind.mask) & !kind.mask) + kind.left_over);
            }
            heights[set] = least;
        }
    }

    /// Adds a level: puts the large item `item` on the stack of each set of the last level, then computes the least
    /// height of each set with further small items above `item`.
    fn put(&mut self, item: u32, left_over: u64) {
        let mut heights = Vec::new();
        if let Some(last) = self.levels.last() {
            heights.extend(last.heights.iter().map(|height| ((height + self.mask) & !self.mask) + left_over));
        }
        self.fill(&mut heights);
        self.levels.push(Level { heights, item, left_over });
    }

    /// Tries an item of each of these groups as the highest large item, with all others below it.
    fn try_each_highest(&mut self, larges: &[Large]) {
        let levels = self.levels.len();
        if let [large] = larges {
            large.items.iter().for_each(|&item| self.put(item, large.left_over));
            self.end();
            self.levels.truncate(levels);
            return;
        }
        let (first, second) = larges.split_at(larges.len() / 2);
        for (some, others) in [(first, second), (second, first)] {
            if self.best <= self.enough {
                return;
            }
            for large in others {
                large.items.iter().for_each(|&item| self.put(item, large.left_over));
            }
            self.try_each_highest(some);
            self.levels.truncate(levels);
        }
    }

    /// Records the stack if it is lower than the best one. All items must be in it.
    fn end(&mut self) {
        let height = self.levels.last().and_then(|level| level.heights.last()).copied().unwrap_or(0);
        if height < self.best {
            self.best = height;
            self.order = self.walk_down();
        }
    }

    /// Returns the items of the lowest stack of all items, from below.
    fn walk_down(&self) -> Vec<u32> {
        let mut order = Vec::new();
        let (mut level, mut set) = (self.levels.len() - 1, self.present.len() - 1);
        while level > 0 || set > 0 {
            let Level { heights, item, left_over } = &self.levels[level];
            let height = heights[set];
            if level > 0 && ((self.levels[level - 1].heights[set] + self.mask) & !self.mask) + left_over == height {
                order.push(*item);
                level -= 1;
                continue;
            }
            let comes_of = |kind: &&Kind| {
                let many = kind.many_in(set);
                many > 0 && ((heights[set - kind.stride] + kind.mask) & !kind.mask) + kind.left_over == height
            };
            let Some(kind) = self.kinds.iter().find(comes_of) else { break };
            order.push(kind.items[kind.many_in(set) - 1]);
            set -= kind.stride;
        }
        order.reverse();
        order
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    /// Returns the least height over all orders.
    fn of_all_orders(sizes: &Sizes, left: &mut Vec<u32>, height: u64) -> u64 {
        let mut least = if left.is_empty() { height } else { u64::MAX };
        for place in 0..left.len() {
            let item = left.swap_remove(place);
            let end = height.next_multiple_of(sizes.alignment[item as usize]) + sizes.size[item as usize];
            least = least.min(of_all_orders(sizes, left, end));
            left.push(item);
            let last = left.len() - 1;
            left.swap(place, last);
        }
        least
    }

    #[test]
    fn no_order_of_the_items_wastes_less() {
        let mut random = Random(7);
        let (mut wasted, mut raised) = (0, 0);
        for round in 0..1_500 {
            let mut below = |end: u64| (random.next() * end as f64) as u64;
            let (most, log2) = ([6, 30, 1_000][round % 3], 1 + below(5));
            let count = 1 + below(7);
            let sizes = Sizes {
                size: (0..count).map(|_| 1 + below(most)).collect(),
                alignment: (0..count).map(|_| 1 << below(log2 + 1)).collect(),
            };
            let mut all: Vec<u32> = (0..count as u32).collect();
            let load = sizes.size.iter().sum::<u64>();
            let least = of_all_orders(&sizes, &mut all, 0) - load;
            let found = |cap, sets_max| lowest(&sizes, all.clone(), cap, 0, sets_max, &mut 1_000_000).unwrap();
            let stacking = found(u64::MAX, 1 << 7);
            assert_eq!(stacking.waste, least, "round {round}: {sizes:?}");
            assert_eq!(sizes.stacked(stacking.parts.iter().flatten().copied()), load + least, "round {round}");
            for cap in (0..=log2).map(|log2| 1 << log2) {
                let relaxed = found(cap, 1 << below(4));
                assert!(relaxed.waste <= least, "round {round}, {cap}: {sizes:?}");
                raised += u32::from(relaxed.waste > 0 && relaxed.waste < least);
            }
            let mut items: Vec<u32> = stacking.parts.into_iter().flatten().collect();
            items.sort_unstable();
            assert_eq!(items, all, "round {round}: each item once");
            wasted += u32::from(least > 0);
        }
        assert!(wasted > 500 && raised > 500, "{wasted} wasted, {raised} raised");
    }

    #[test]
    fn no_set_of_a_table_can_waste_less() {
        let mut random = Random(11);
        let (mut exact, mut left_out) = (0, 0);
        for round in 0..300 {
            let mut below = |end: u64| (random.next() * end as f64) as u64;
            let count = 1 + below(6);
            let sizes = Sizes {
                size: (0..count).map(|_| 1 + below([6, 30, 500][round % 3])).collect(),
                alignment: (0..count).map(|_| 1 << below(5)).collect(),
            };
            let all: Vec<u32> = (0..count as u32).collect();
            let Some(table) = Table::new(&sizes, &all, 1 << below(7)) else { continue };
            for set in 1..1_u32 << count {
                let mut members: Vec<u32> = all.iter().copied().filter(|item| set >> item & 1 == 1).collect();
                let load: u64 = members.iter().map(|&item| sizes.size[item as usize]).sum();
                let place: u32 =
                    table.strides.iter().filter(|(item, _)| members.contains(item)).map(|(_, stride)| stride).sum();
                let free: u64 =
                    table.left_out.iter().filter(|(item, _)| members.contains(item)).map(|(_, over)| over).sum();
                let waste = table.wastes[place as usize].saturating_sub(free);
                let least = of_all_orders(&sizes, &mut members, 0) - load;
                assert!(waste <= least, "round {round}, {set:b}: {waste} above {least}, {sizes:?}");
                if table.left_out.is_empty() {
                    assert_eq!(waste, least, "round {round}, {set:b}: {sizes:?}");
                    exact += u32::from(least > 0);
                }
            }
            left_out += u32::from(!table.left_out.is_empty());
        }
        assert!(exact > 500 && left_out > 50, "{exact} sets, {left_out} with items left out");
    }

    #[test]
    fn stacking_in_less_than_the_work_that_is_left_is_refused() {
        let sizes = Sizes { size: vec![3, 5, 9, 17], alignment: vec![1, 4, 16, 16] };
        let mut work = 20;
        assert!(lowest(&sizes, (0..4).collect(), u64::MAX, 0, 16, &mut work).is_none());
        assert_eq!(work, 20);
    }
}
