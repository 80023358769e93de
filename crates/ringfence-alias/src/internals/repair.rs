//! Local repair, which also handles more items than a search can: lowers the items that end above a target, a few at a
//! time.
//!
//! ```text
//!   target ┄┄┄┄┄┄┄┄┌─v─┐┄┄┄    v ends above the target by its excess
//!             ┌─a─┐└───┘
//!          ┌──┴─┬─┴┐ ┌─b─┐     removed: v, and of the items that clash with v those nearest to a random height;
//!          │    │  ├─┴───┤     put back in another order, each in the lowest gap or the tightest;
//!          └────┴──┴─────┘     kept if the sum of their excesses is not larger than before
//! ```
//!
//! This is the ruin and recreate of Schrimpf and others (2000), with a neighbourhood that is small in time and in
//! space: a round that removes k items costs O(k · neighbours · log neighbours), for any number of items. A round that
//! leaves the sum equal is kept too, which moves the holes around until one is large enough. Once no item ends above
//! the target, the plan is lower, and the target goes down. After too many rounds without an improvement, the next
//! target is nearer to the plan.

use super::asking::Asking;
use super::random::Random;
use super::shape::Shape;
use super::sizes::Sizes;
use crate::plan::AliasPlan;
use crate::problem::Problem;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Items per bucket of the index, approximately; more if lifetimes are long.
const ITEMS_A_BUCKET: usize = 16;
/// Largest mean number of index entries per item: the buckets are widened until it is not exceeded.
const ENTRIES_MAX: usize = 6;
/// Upper limit of the number of neighbours that are removed with an item.
const TAKEN_MAX: usize = 20;
/// Rounds between two calls of the closure, and the steps that a round counts for.
const ROUNDS_A_TICK: u64 = 16;
const STEPS_A_ROUND: u64 = 32;
/// Cost of an item without neighbours, in visits.
const LOOKS_AN_ITEM: u64 = 1 << 10;
/// The target is below the plan by a share of the gap: at most `SHARE`, which is also the first share, and at least
/// `SHARE_MIN`.
const SHARE: f64 = 0.3;
const SHARE_MIN: f64 = 0.002;

/// Base of the seed of repair.
pub const SEED: u64 = 0x2545_f491_4f6c_dd1d;

/// A planner whose best plan is repaired.
pub trait Improving {
    /// Returns the problem.
    fn problem(&self) -> &Problem;

    /// Returns the best plan so far.
    fn best(&self) -> &AliasPlan;

    /// Returns `true` if the best plan is proven, or the caller has stopped planning.
    fn is_done(&self) -> bool;

    /// Counts `steps` of work and calls the caller's closure. Returns `false` if planning must stop.
    fn tick(&mut self, steps: u64) -> bool;

    /// Takes a plan that is lower than the best one, after `steps` of work.
    fn offer(&mut self, offsets: Vec<u64>, steps: u64);
}

/// Returns a height above which at most `count` items end.
fn height_above(sizes: &Sizes, plan: &AliasPlan, count: usize) -> u64 {
    let mut ends: Vec<u64> = plan.offsets.iter().zip(&sizes.size).map(|(offset, size)| offset + size).collect();
    *ends.select_nth_unstable_by(count, |a, b| b.cmp(a)).1
}

/// Returns a target below the height of the best plan: by this share of the gap, or less if too many items would end
/// above it.
pub fn target(sizes: &Sizes, best: &AliasPlan, share: f64) -> u64 {
    let down = (best.gap() as f64 * share) as u64;
    let target = best.height - down.max(1);
    if sizes.len() <= ALL_MAX {
        return target;
    }
    target.max(height_above(sizes, best, ABOVE_MAX)).min(best.height - 1)
}

/// Repairs until the plan is proven, the caller stops it, `most` steps are taken, or `mending` has failed too often.
/// Adds the steps to `steps`.
pub fn mend<S: Shape>(
    run: &mut impl Improving,
    repair: &mut Repair<'_, S>,
    mending: &mut Mending,
    most: u64,
    steps: &mut u64,
) {
    while !run.is_done() && *steps < most && mending.failures < mending.failures_max {
        let target = target(&run.problem().sizes, run.best(), mending.share);
        repair.offsets.copy_from_slice(&run.best().offsets);
        let mut go_on = |more| {
            *steps += more;
            run.tick(more) && *steps < most
        };
        if repair.reach(target, &mut go_on) {
            run.offer(repair.offsets.clone(), 1);
            mending.share = (mending.share * 1.2).min(SHARE);
            mending.failures = 0;
        } else {
            mending.share = (mending.share * 0.5).max(SHARE_MIN);
            mending.failures += 1;
        }
    }
}

/// Above this number of items, at most `ABOVE_MAX` items end above a target, so that a failure on a few items loses
/// little.
pub const ALL_MAX: usize = 80_000;
const ABOVE_MAX: usize = 500;

/// State of repair.
pub struct Mending {
    /// Share of the gap for the next target.
    share: f64,
    /// Number of targets that were not reached since the last improvement, and the number after which repair ends.
    failures: u32,
    failures_max: u32,
}

impl Mending {
    /// Creates the state of a repair that ends after this number of failures without an improvement.
    #[must_use]
    pub fn limited(failures_max: u32) -> Self {
        Self { share: SHARE, failures: 0, failures_max }
    }
}

impl Default for Mending {
    fn default() -> Self {
        Self::limited(u32::MAX)
    }
}

/// A plan in repair.
pub struct Repair<'a, S: Shape> {
    shape: &'a S,
    sizes: &'a Sizes,
    offsets: Vec<u64>,
    /// Index: for each range of sections, the items whose hulls touch it.
    buckets: Vec<Vec<u32>>,
    /// Sections per bucket.
    width: u32,
    /// For each item, the number of the last search for neighbours that met it.
    met: Vec<u32>,
    look: u32,
    /// Items visited since the last report.
    looks: u64,
    /// `true` for items that are removed.
    is_out: Vec<bool>,
    random: Random,
}

/// Occupied bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Taken {
    offset: u64,
    end: u64,
}

/// A removed item, and the obstacles in its way.
struct Loose {
    item: u32,
    before: u64,
    /// Obstacles that stay where they are, by offset.
    fixed: Vec<Taken>,
}

impl<'a, S: Shape> Repair<'a, S> {
    pub fn new(shape: &'a S, sizes: &'a Sizes, random: Random) -> Self {
        let count = sizes.len();
        let sections = shape.section_count();
        let mut width = (sections * ITEMS_A_BUCKET / count.max(1)).max(1);
        let entries = |width: usize| -> usize {
            let touched = |item| {
                let hull = shape.hull(item);
                (hull.last as usize - 1) / width - hull.first as usize / width + 1
            };
            (0..count).map(touched).sum()
        };
        while entries(width) > ENTRIES_MAX * count {
            width *= 2;
        }
        let mut buckets = vec![Vec::new(); sections.div_ceil(width)];
        for item in 0..count {
            let hull = shape.hull(item);
            for bucket in &mut buckets[hull.first as usize / width..=(hull.last as usize - 1) / width] {
                bucket.push(item as u32);
            }
        }
        Self {
            shape,
            sizes,
            offsets: vec![0; count],
            buckets,
            width: width as u32,
            met: vec![0; count],
            look: 0,
            looks: 0,
            is_out: vec![false; count],
            random,
        }
    }

    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// Makes a plan with the `chosen` items at these offsets. The other items are put in the lowest gaps, the largest
    /// first: all of them, or with `keep` only those that overlap a chosen item or end above `height` in the given
    /// plan. Returns `false` if the closure stops it.
    pub fn complete(
        &mut self,
        chosen: &[u32],
        offsets: &[u64],
        keep: Option<(&[u64], u64)>,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> bool {
        if let Some((plan, height)) = keep {
            self.offsets.copy_from_slice(plan);
            (0..self.is_out.len()).for_each(|item| self.is_out[item] = self.end(item as u32) > height);
        } else {
            self.is_out.fill(true);
        }
        for (&item, &offset) in chosen.iter().zip(offsets) {
            self.offsets[item as usize] = offset;
        }
        let mut asking = Asking::new(go_on);
        let mut whole = keep.is_none() || self.take_out_of_the_way(chosen, &mut asking);
        chosen.iter().for_each(|&item| self.is_out[item as usize] = false);
        let mut others: Vec<u32> = (0..self.is_out.len() as u32).filter(|&item| self.is_out[item as usize]).collect();
        others.sort_by_key(|&item| Reverse(self.sizes.size[item as usize]));
        let mut others = others.into_iter();
        while whole && let Some(item) = others.next() {
            self.is_out[item as usize] = false;
            let mut loose = [Loose { item, before: 0, fixed: Vec::new() }];
            self.look_around(&mut loose);
            self.put_back(&loose, false, u64::MAX);
            whole = asking.looked_at(LOOKS_AN_ITEM + core::mem::take(&mut self.looks));
        }
        self.is_out.fill(false);
        whole
    }

    /// Removes the items that overlap the chosen ones. Returns `false` if the closure stops it.
    fn take_out_of_the_way(&mut self, chosen: &[u32], asking: &mut Asking<'_>) -> bool {
        let mut near = Vec::new();
        for &item in chosen {
            self.neighbours(item, &mut near);
            let (offset, end) = (self.offsets[item as usize], self.end(item));
            for &other in &near {
                let apart = self.end(other) <= offset || end <= self.offsets[other as usize];
                self.is_out[other as usize] |= !apart;
            }
            if !asking.looked_at(core::mem::take(&mut self.looks)) {
                return false;
            }
        }
        true
    }

    fn end(&self, item: u32) -> u64 {
        self.offsets[item as usize] + self.sizes.size[item as usize]
    }

    /// Collects the items that clash with an item, without the item itself.
    fn neighbours(&mut self, item: u32, found: &mut Vec<u32>) {
        found.clear();
        self.look += 1;
        self.met[item as usize] = self.look;
        let (hull, key) = (self.shape.hull(item as usize), self.shape.key(item as usize));
        for bucket in (hull.first / self.width) as usize..=((hull.last - 1) / self.width) as usize {
            self.looks += self.buckets[bucket].len() as u64;
            for &other in &self.buckets[bucket] {
                let met = core::mem::replace(&mut self.met[other as usize], self.look);
                if met != self.look && self.shape.clash(self.shape.key(other as usize), key) {
                    found.push(other);
                }
            }
        }
    }

    /// Lowers the plan to `target`. Returns `false` if that fails, or if the closure stops it.
    pub fn reach(&mut self, target: u64, go_on: &mut dyn FnMut(u64) -> bool) -> bool {
        let mut above: Vec<u32> = (0..self.offsets.len() as u32).filter(|&item| self.end(item) > target).collect();
        let patience = 400 + 40 * above.len() as u64;
        let (mut rounds, mut since) = (0_u64, 0_u64);
        let mut asking = Asking::new(go_on);
        while !above.is_empty() {
            rounds += 1;
            since += 1;
            let is_due = rounds.is_multiple_of(ROUNDS_A_TICK);
            if since > patience
                || (is_due && !asking.ask(ROUNDS_A_TICK * STEPS_A_ROUND))
                || !asking.looked_at(core::mem::take(&mut self.looks))
            {
                return false;
            }
            let place = (self.random.next() * above.len() as f64) as usize;
            let item = above[place];
            if self.end(item) <= target {
                above.swap_remove(place);
                continue;
            }
            let (moved, is_better) = self.round(item, target);
            above.extend(moved.into_iter().filter(|&moved| moved != item && self.end(moved) > target));
            if is_better {
                since = 0;
            }
        }
        true
    }

    /// Removes an item and some neighbours and puts them back. Returns the moved items, and `true` if the sum of
    /// excesses fell.
    fn round(&mut self, item: u32, target: u64) -> (Vec<u32>, bool) {
        let mut taken = self.take_out(item, target);
        let excess = |repair: &Self, taken: &[Loose]| -> u64 {
            taken.iter().map(|loose| repair.end(loose.item).saturating_sub(target)).sum()
        };
        let before = excess(self, &taken);
        for loose in &taken {
            self.is_out[loose.item as usize] = true;
        }
        self.look_around(&mut taken);
        let order = self.random.next();
        let tightest = self.random.next() < 0.3;
        self.sort(&mut taken, order);
        self.put_back(&taken, tightest, before.saturating_add(target));
        let after = excess(self, &taken);
        for loose in &taken {
            self.is_out[loose.item as usize] = false;
        }
        if after > before {
            taken.iter().for_each(|loose| self.offsets[loose.item as usize] = loose.before);
            return (Vec::new(), false);
        }
        (taken.into_iter().map(|loose| loose.item).collect(), after < before)
    }

    /// Returns the item, and those of its neighbours that are nearest to a random height.
    fn take_out(&mut self, item: u32, target: u64) -> Vec<Loose> {
        let mut near = Vec::new();
        self.neighbours(item, &mut near);
        let height = (self.random.next() * target as f64) as u64;
        let count = (2 + (self.random.next() * (TAKEN_MAX - 2) as f64) as usize).min(near.len());
        let distance = |other: &u32| {
            let (offset, end) = (self.offsets[*other as usize], self.end(*other));
            offset.saturating_sub(height).max(height.saturating_sub(end))
        };
        if count < near.len() {
            near.select_nth_unstable_by_key(count, distance);
            near.truncate(count);
        }
        let loose = |item: u32| Loose { item, before: self.offsets[item as usize], fixed: Vec::new() };
        core::iter::once(item).chain(near).map(loose).collect()
    }

    /// Records the obstacles of each removed item.
    fn look_around(&mut self, taken: &mut [Loose]) {
        let mut near = Vec::new();
        for loose in taken {
            self.neighbours(loose.item, &mut near);
            let stays = near.iter().filter(|&&other| !self.is_out[other as usize]);
            loose.fixed =
                stays.map(|&other| Taken { offset: self.offsets[other as usize], end: self.end(other) }).collect();
            loose.fixed.sort_unstable();
        }
    }

    /// Sorts by one of a few keys, with noise.
    fn sort(&mut self, taken: &mut [Loose], order: f64) {
        taken.sort_by_cached_key(|loose| {
            let hull = self.shape.hull(loose.item as usize);
            let (size, duration) = (self.sizes.size[loose.item as usize] as f64, f64::from(hull.last - hull.first));
            let key = match order {
                ..0.4 => size,
                ..0.7 => duration,
                ..0.9 => size * duration,
                _ => 1.0,
            };
            Reverse((key * (0.5 + self.random.next()) * 16.0) as u64)
        });
    }

    /// Puts each item into the lowest gap, or the tightest. Gives up if one ends above `limit`.
    fn put_back(&mut self, taken: &[Loose], tightest: bool, limit: u64) {
        let mut blocked = Vec::new();
        for (place, loose) in taken.iter().enumerate() {
            let (item, key) = (loose.item as usize, self.shape.key(loose.item as usize));
            blocked.clear();
            blocked.extend_from_slice(&loose.fixed);
            for other in &taken[..place] {
                if self.shape.clash(self.shape.key(other.item as usize), key) {
                    blocked.push(Taken { offset: self.offsets[other.item as usize], end: self.end(other.item) });
                }
            }
            // A stable sort is fast on runs that are already sorted.
            blocked.sort();
            self.offsets[item] = gap(&blocked, self.sizes.size[item], self.sizes.alignment[item] - 1, tightest);
            if self.end(loose.item) > limit {
                // The round will be undone in any case.
                return;
            }
        }
    }
}

/// Returns the first aligned offset in the lowest gap, or in the gap that leaves the least over.
fn gap(blocked: &[Taken], size: u64, mask: u64, tightest: bool) -> u64 {
    let (mut gap_start, mut best) = (0_u64, None);
    for other in blocked {
        let start = (gap_start + mask) & !mask;
        if start + size <= other.offset {
            let left_over = other.offset - gap_start - size;
            if !tightest {
                return start;
            }
            if best.is_none_or(|(least, _)| left_over < least) {
                best = Some((left_over, start));
            }
        }
        gap_start = other.end.max(gap_start);
    }
    best.map_or((gap_start + mask) & !mask, |(_, start)| start)
}
