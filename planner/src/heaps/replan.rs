//! Replanning after a small change: items keep their locations if possible.
//!
//! ```text
//!   last plan      ▓▓ a   ▒▒ b   ░░ c       b is removed, d is new, c has grown
//!   this plan      ▓▓ a   dd     ░░░ c      a and c are kept: they clash with no item
//! ```
//!
//! A sweep over time finds the items that clash with a kept one (O(n log n)). Only those and the new items are placed,
//! each at the lowest free offset (O(n) each). An item that fits nowhere displaces few bytes, preferably of items that
//! fit elsewhere. In that case two plans are made: one keeps the items that begin early, the other one keeps the items
//! that end late. The plan that keeps more items is used. If both fail, the items that are alive around the failure are
//! replanned; if that fails too, all items are replanned. The closure is called throughout.

use super::alive::Alive;
use super::around::around;
use super::greedy::{Candidate, first};
use super::occupied::Occupied;
use super::problem::HeapProblem;
use super::search::plan_asked;
use super::{HeapError, HeapOffset, HeapPlan};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use ringfence_alias::Progress;

/// Largest number of times that an item may be displaced before all items are replanned.
const DISPLACED_MAX: u8 = 3;
/// Largest number of locations that are examined closely for an item that fits nowhere.
const LOOKED_AT_MAX: usize = 32;

/// Steps for replanning all items, if no more can be kept: some tenths of a second.
const ANEW_STEPS_MAX: u64 = 330_000;
/// Items visited per step.
const LOOKS_A_STEP: u64 = 1 << 10;
/// Items visited between two calls of the closure: about a tenth of a millisecond.
const LOOKS_A_QUESTION: u64 = 1 << 17;

/// Counter of visited items. It calls the caller's closure every [`LOOKS_A_QUESTION`] visits.
pub(super) struct Work<'a> {
    go_on: &'a mut dyn FnMut(&Progress) -> bool,
    lower_bound: u64,
    looks: u64,
    pub is_stopped: bool,
}

impl Work<'_> {
    /// Adds `count` visited items. If [`LOOKS_A_QUESTION`] visits have accumulated, calls the closure. Returns `false`
    /// if planning must stop. O(1), plus the closure.
    pub fn looked_at(&mut self, count: usize) -> bool {
        self.looks += count as u64;
        if self.looks >= LOOKS_A_QUESTION {
            let steps = core::mem::take(&mut self.looks) / LOOKS_A_STEP;
            self.ask(steps);
        }
        !self.is_stopped
    }

    /// Calls the closure at once, reporting that there is no plan. Returns `false` if planning must stop.
    fn ask(&mut self, steps: u64) -> bool {
        let progress = Progress { height: u64::MAX, lower_bound: self.lower_bound, steps };
        self.is_stopped = self.is_stopped || !(self.go_on)(&progress);
        !self.is_stopped
    }
}

/// A plan, and the number of items that kept their locations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplannedHeaps {
    /// The plan.
    pub plan: HeapPlan,
    /// Number of items that kept their locations. Compare the offsets to find the items that moved.
    pub kept_count: usize,
    /// Number of items that had a location in the last plan.
    pub placed_count: usize,
}

impl ReplannedHeaps {
    /// Returns `true` if at least half of the items with a location in the last plan kept it. If not, there was no room
    /// for the change, and the items alive around it, or all items, have moved.
    #[must_use]
    pub fn has_kept_most(&self) -> bool {
        2 * self.kept_count >= self.placed_count
    }
}

/// Replans after a change, and keeps items at their locations in `last` if there is room. Stops if the closure returns
/// `false`. `last` has the previous location of each item, or `None`. The heaps may grow up to their capacities.
///
/// O(n log n + n · changes) if there is room. In a heap that is nearly full it may take some seconds, unless the
/// closure stops it: the items alive around a crowded moment move, and in the end all items. The closure is called
/// about every tenth of a millisecond, and every few milliseconds while all items are replanned. There is no plan at
/// these calls, so [`Progress::height`] is `u64::MAX`. A plan that needs less time than that is made even if the
/// closure would stop it.
///
/// # Errors
/// [`HeapError::Stopped`] if the closure stopped it. [`HeapError::NotFound`] if no plan was found, even with all items
/// moved. Unless the error has `is_proven`, [`plan_heaps`](super::plan_heaps) may find a plan with more time.
///
/// # Panics
/// The length of `last` is not the number of items.
pub fn replan_heaps(
    problem: &HeapProblem,
    last: &[Option<HeapOffset>],
    mut go_on: impl FnMut(&Progress) -> bool,
) -> Result<ReplannedHeaps, HeapError> {
    assert_eq!(last.len(), problem.len(), "`last` has one entry per item");
    let lower_bound = problem.lower_bound();
    let mut work = Work { go_on: &mut go_on, lower_bound, looks: 0, is_stopped: false };
    let at: Vec<Option<HeapOffset>> = (0..problem.len())
        .map(|item| problem.pinned[item].or(last[item].filter(|&at| may_lie(problem, item, at))))
        .collect();
    let kept = |offsets: &[HeapOffset]| offsets.iter().zip(last).filter(|(now, then)| Some(**now) == **then).count();
    let offsets = keeping(problem, at, &kept, &mut work)?;
    let (kept_count, placed_count) = (kept(&offsets), last.iter().flatten().count());
    let plan = Candidate::of(problem, offsets).plan(problem, false);
    Ok(ReplannedHeaps { plan, kept_count, placed_count })
}

/// Returns the locations by the first method that finds a plan.
fn keeping(
    problem: &HeapProblem,
    mut at: Vec<Option<HeapOffset>>,
    kept: &dyn Fn(&[HeapOffset]) -> usize,
    work: &mut Work<'_>,
) -> Result<Vec<HeapOffset>, HeapError> {
    let stopped = HeapError::Stopped { items: problem.len() };
    let keep = |backwards: bool, work: &mut Work<'_>| {
        let mut at = at.clone();
        drop_clashing(problem, &mut at, backwards);
        complete(problem, &mut at, work)
    };
    let first = match keep(false, work) {
        Ok(done) if !done.has_displaced => return Ok(done.offsets),
        first => first,
    };
    let failed = first.as_ref().err().copied();
    let second = if work.is_stopped { Err(0) } else { keep(true, work) };
    let both = [first, second].into_iter().filter_map(Result::ok);
    if let Some(done) = both.max_by_key(|done| kept(&done.offsets)) {
        return Ok(done.offsets);
    }
    if !work.is_stopped {
        drop_clashing(problem, &mut at, false);
        if let Some(offsets) = failed.and_then(|item| around(problem, &at, item, work)) {
            return Ok(offsets);
        }
    }
    if work.is_stopped { Err(stopped) } else { anew(problem, work) }
}

/// Plans all items anew, until there is a plan.
fn anew(problem: &HeapProblem, work: &mut Work<'_>) -> Result<Vec<HeapOffset>, HeapError> {
    let mut steps = 0;
    let plan = plan_asked(problem, 0, |progress| {
        steps += progress.steps;
        steps < ANEW_STEPS_MAX && progress.height == u64::MAX && work.ask(progress.steps)
    });
    let stopped = HeapError::Stopped { items: problem.len() };
    plan.map(|plan| plan.offsets).map_err(|error| if work.is_stopped { stopped } else { error })
}

fn may_lie(problem: &HeapProblem, item: usize, at: HeapOffset) -> bool {
    let flat = &problem.flat[item];
    let fits = |heap: usize| at.offset.checked_add(flat.size).is_some_and(|end| end <= problem.capacity(heap));
    let chosen = problem.choices(item).iter().any(|choice| choice.heap as usize == at.heap);
    chosen && at.offset & (flat.alignment - 1) == 0 && fits(at.heap)
}

/// Removes the location of each item that clashes with a pinned item, or with a kept item that begins before it. If
/// `backwards` is `true`, the kept item ends after it.
fn drop_clashing(problem: &HeapProblem, at: &mut [Option<HeapOffset>], backwards: bool) {
    let mut alive = Alive::default();
    let many = problem.events.len();
    for step in 0..many {
        let (_, begins, item) = problem.events[if backwards { many - 1 - step } else { step }];
        let begins = begins != backwards;
        let Some(place) = at[item as usize] else { continue };
        if !begins {
            alive.end(item, place);
            continue;
        }
        let clashing = alive.clashing(problem, item as usize, place);
        let is_pinned = problem.pinned[item as usize].is_some();
        if clashing.is_empty() || is_pinned {
            for (other, place) in clashing {
                alive.end(other, place);
                at[other as usize] = None;
            }
            alive.begin(item, place);
        } else {
            at[item as usize] = None;
        }
    }
}

/// Locations of the items, and `true` if an item was displaced.
struct Completed {
    offsets: Vec<HeapOffset>,
    has_displaced: bool,
}

/// Places the items without a location, the largest first. If an item fits nowhere, or the work is stopped, returns
/// this item as the error.
fn complete(problem: &HeapProblem, at: &mut [Option<HeapOffset>], work: &mut Work<'_>) -> Result<Completed, usize> {
    // A stack: the largest item is the last.
    let mut left: Vec<usize> = (0..at.len()).filter(|&item| at[item].is_none()).collect();
    left.sort_by_key(|&item| (problem.flat[item].size, Reverse(item)));
    let mut heaps = filled(problem, at);
    let mut displaced = vec![0_u8; at.len()];
    let mut has_displaced = false;
    while let Some(item) = left.pop() {
        if !work.looked_at(at.len()) {
            return Err(item);
        }
        let found = match first(problem, &mut heaps, item) {
            Some(found) => found,
            None => {
                has_displaced = true;
                let found = displace(problem, &mut heaps, item, &displaced, work).ok_or(item)?;
                let clashing: Vec<u32> = heaps[found.heap].clashing(problem.flat[item], found.offset).collect();
                for other in clashing {
                    let lay = at[other as usize].take().expect("it is in a heap");
                    heaps[lay.heap].take(other, lay.offset);
                    displaced[other as usize] += 1;
                    let size = problem.flat[other as usize].size;
                    let place = left.partition_point(|&item| problem.flat[item].size <= size);
                    left.insert(place, other as usize);
                }
                found
            }
        };
        heaps[found.heap].put(item as u32, problem.flat[item], found.offset);
        at[item] = Some(found);
    }
    let offsets = at.iter().map(|at| at.expect("each was placed")).collect();
    Ok(Completed { offsets, has_displaced })
}

/// Returns the heaps with the items that have a location.
pub(super) fn filled(problem: &HeapProblem, at: &[Option<HeapOffset>]) -> Vec<Occupied> {
    let mut heaps = problem.empty_heaps();
    for (place, heap) in heaps.iter_mut().enumerate() {
        let inside = at.iter().enumerate().filter_map(|(item, at)| Some((item, at.filter(|at| at.heap == place)?)));
        heap.fill(inside.map(|(item, at)| (item as u32, problem.flat[item], at.offset)));
    }
    heaps
}

/// Returns a location at which an item that fits nowhere displaces few bytes, preferably of items that all fit
/// elsewhere. Returns `None` if there is no such location, or if the work is stopped.
fn displace(
    problem: &HeapProblem,
    heaps: &mut [Occupied],
    item: usize,
    displaced: &[u8],
    work: &mut Work<'_>,
) -> Option<HeapOffset> {
    let flat = problem.flat[item];
    let mut found: Vec<(u64, HeapOffset)> = vec![];
    for choice in problem.choices(item) {
        let heap = choice.heap as usize;
        for offset in heaps[heap].candidates(flat) {
            if !work.looked_at(problem.len()) {
                return None;
            }
            let cost = heaps[heap].clashing(flat, offset).try_fold(0_u64, |sum, other| {
                let other = other as usize;
                let may_move = problem.pinned[other].is_none() && displaced[other] < DISPLACED_MAX;
                may_move.then(|| sum + problem.flat[other].size)
            });
            found.extend(cost.map(|cost| (cost, HeapOffset { heap, offset })));
        }
    }
    found.sort_unstable();
    found.dedup();
    let fits = found.iter().take(LOOKED_AT_MAX).find(|(_, at)| all_fit_elsewhere(problem, heaps, item, *at, work));
    if work.is_stopped {
        return None;
    }
    fits.or(found.first()).map(|held| held.1)
}

/// Returns `true` if the items that `item` displaces fit elsewhere once `item` is placed. Returns `false` if the work
/// is stopped.
fn all_fit_elsewhere(
    problem: &HeapProblem,
    heaps: &mut [Occupied],
    item: usize,
    at: HeapOffset,
    work: &mut Work<'_>,
) -> bool {
    if !work.looked_at(2 * problem.len()) {
        return false;
    }
    let flat = problem.flat[item];
    let mut tried = heaps.to_vec();
    let clashing: Vec<(u32, u64)> = tried[at.heap].clashing_at(flat, at.offset).collect();
    for &(other, offset) in &clashing {
        tried[at.heap].take(other, offset);
    }
    tried[at.heap].put(item as u32, flat, at.offset);
    clashing.iter().all(|&(other, _)| {
        if !work.looked_at(problem.len()) {
            return false;
        }
        let found = first(problem, &mut tried, other as usize);
        if let Some(found) = found {
            tried[found.heap].put(other, problem.flat[other as usize], found.offset);
        }
        found.is_some()
    })
}
