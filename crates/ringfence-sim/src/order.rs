//! The order of submissions, as far as fences define it, in vector clocks.
//!
//! ```text
//!   queue 0   s1 ──── s2 ──signals (f, 5)──── s3           clock of t2 = { 0: 2, 1: 1 }
//!                          ╲                               s1, s2 and t1 ended before t2 began;
//!   queue 1   t1 ───────── t2 waits (f, 5)                 s3 and t2 are not ordered
//! ```
//!
//! The host has a clock too, which `completed`, `wait` and `run_until_idle` advance. Work after the host's clock is
//! *pending*, even if the simulation has already run it, because the program cannot know that it has run. The reported
//! hazards therefore depend on the fence values that the host has read, not on the time at which the simulation ran the
//! work.
//!
//! A wait may be submitted before the signal that it waits for, as with timeline semaphores. Until the signal is
//! submitted, the waiting work is *unsettled*: its clock is unknown, and it is not compared with other work.

use super::hazard::PendingWork;
use super::ids::{Fence, Label};
use std::collections::BTreeMap;
use std::ops::Range;

/// A sync point of the simulated device: a fence and a value.
pub(super) type Point = (Fence, u64);

/// A use of bytes of a memory object, or of slots of a descriptor heap.
#[derive(Clone, Debug)]
pub(super) struct Access {
    /// Number of the memory object or descriptor heap.
    pub(super) space: u64,
    pub(super) range: Range<u64>,
    pub(super) writes: bool,
    /// The object that the bytes or slots belong to.
    pub(super) label: Label,
    /// Label of the memory object or descriptor heap.
    pub(super) space_label: Label,
}

/// A vector clock: for each queue, the number of submissions that have ended.
#[derive(Clone, Default, Debug)]
struct Clock(Vec<u64>);

impl Clock {
    fn join(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    fn raise(&mut self, queue: usize, number: u64) {
        self.0[queue] = self.0[queue].max(number);
    }

    fn covers(&self, (queue, number): Key) -> bool {
        self.0[queue] >= number
    }
}

/// Identifies a submission: its queue, and its number on that queue, from 1.
pub(super) type Key = (usize, u64);

#[derive(Debug)]
struct Work {
    waits: Vec<Point>,
    signal: Point,
    /// The work that had ended before this work began. Complete only if `settled` is `true`.
    clock: Clock,
    settled: bool,
    accesses: Accesses,
}

/// Accesses of a submission, searchable by range.
#[derive(Debug)]
struct Accesses {
    /// Sorted by space and by the start of the range.
    sorted: Vec<Access>,
    /// Size of the largest range, in bytes or slots.
    longest: u64,
}

impl Accesses {
    fn new(mut sorted: Vec<Access>) -> Self {
        sorted.sort_by_key(|access| (access.space, access.range.start));
        let longest = sorted.iter().map(|access| access.range.end - access.range.start).max().unwrap_or(0);
        Self { sorted, longest }
    }

    fn overlapping<'a>(&'a self, space: u64, range: &'a Range<u64>) -> impl Iterator<Item = &'a Access> {
        let first = self.sorted.partition_point(|held| {
            (held.space, held.range.start.saturating_add(self.longest)) <= (space, range.start)
        });
        self.sorted[first..]
            .iter()
            .take_while(move |held| held.space == space && held.range.start < range.end)
            .filter(move |held| held.range.end > range.start)
    }
}

/// A conflict: two submissions use the same bytes, at least one of them writes, and no fence orders them.
#[derive(Debug)]
pub(super) struct Conflict {
    /// The access of the submission that was settled first, reduced to the common bytes.
    pub(super) access: Access,
    pub(super) pending: PendingWork,
    /// The queue of the submission that was settled last.
    pub(super) queue: usize,
}

/// The submissions that, as far as the host knows, have not ended, with their waits and signals.
#[derive(Debug)]
pub(super) struct Order {
    host: Clock,
    works: BTreeMap<Key, Work>,
    /// For each fence, the signals with values above the last value that the host has read.
    signals: BTreeMap<Fence, BTreeMap<u64, Key>>,
    /// For each fence, the last value that the host has read.
    seen: BTreeMap<Fence, u64>,
    unsettled: Vec<Key>,
}

impl Order {
    pub(super) fn new(queues: usize) -> Self {
        Self {
            host: Clock(vec![0; queues]),
            works: BTreeMap::new(),
            signals: BTreeMap::new(),
            seen: BTreeMap::new(),
            unsettled: Vec::new(),
        }
    }

    pub(super) fn add_fence(&mut self, fence: Fence, initial: u64) {
        self.seen.insert(fence, initial);
    }

    /// Adds a submission. Returns the conflicts that this makes known.
    pub(super) fn submit(&mut self, key: Key, waits: &[Point], signal: Point, uses: Vec<Access>) -> Vec<Conflict> {
        let accesses = Accesses::new(uses);
        let work = Work { waits: waits.to_vec(), signal, clock: self.host.clone(), settled: false, accesses };
        self.works.insert(key, work);
        self.signals.entry(signal.0).or_default().entry(signal.1).or_insert(key);
        self.unsettled.push(key);
        self.settle()
    }

    /// Settles submissions as long as there is one that can be settled. Returns the conflicts of the settled
    /// submissions.
    fn settle(&mut self) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        while let Some(at) = (0..self.unsettled.len()).find(|&at| self.try_settle(self.unsettled[at])) {
            let key = self.unsettled.remove(at);
            self.find_conflicts(key, &mut conflicts);
        }
        conflicts
    }

    fn try_settle(&mut self, key: Key) -> bool {
        let Some(clock) = self.clock_of(key) else { return false };
        if let Some(work) = self.works.get_mut(&key) {
            work.clock = clock;
            work.settled = true;
        }
        true
    }

    /// Returns the clock of a submission: the work that has ended before it begins. Returns `None` if the submission
    /// waits for a signal that is not submitted, or if a submission that must end before it is unsettled.
    fn clock_of(&self, key: Key) -> Option<Clock> {
        let work = self.works.get(&key)?;
        let mut clock = work.clock.clone();
        self.join_end_of((key.0, key.1 - 1), &mut clock)?;
        for &(fence, value) in &work.waits {
            if self.seen.get(&fence).is_some_and(|&seen| seen >= value) {
                continue;
            }
            // The submission may begin with the first signal that reaches the value, so later signals are not needed.
            let (_, &signaller) = self.signals.get(&fence)?.range(value..).next()?;
            self.join_end_of(signaller, &mut clock)?;
        }
        Some(clock)
    }

    /// Adds a submission, and all work that had ended before it, to `clock`. Returns `None` if the submission is
    /// unsettled.
    fn join_end_of(&self, key: Key, clock: &mut Clock) -> Option<()> {
        // The host knows that a submission that is not in `works` has ended, so no later comparison needs it.
        if let Some(work) = self.works.get(&key) {
            if !work.settled {
                return None;
            }
            clock.join(&work.clock);
            clock.raise(key.0, key.1);
        }
        Some(())
    }

    /// Compares a settled submission with all other settled submissions, and adds its conflicts.
    fn find_conflicts(&self, key: Key, conflicts: &mut Vec<Conflict>) {
        let Some(work) = self.works.get(&key) else { return };
        for (&other_key, other) in &self.works {
            let ordered = work.clock.covers(other_key) || other.clock.covers(key);
            if other_key.0 == key.0 || !other.settled || ordered {
                continue;
            }
            let clash = work.accesses.sorted.iter().find_map(|mine| {
                let mut theirs = other.accesses.overlapping(mine.space, &mine.range);
                theirs.find(|theirs| mine.writes || theirs.writes).map(|theirs| (mine, theirs))
            });
            if let Some((mine, theirs)) = clash {
                let start = mine.range.start.max(theirs.range.start);
                let access = Access { range: start..mine.range.end.min(theirs.range.end), ..theirs.clone() };
                let pending = other.pending(other_key, theirs.writes);
                conflicts.push(Conflict { access, pending, queue: key.0 });
            }
        }
    }

    /// Returns `true` if `one` and `other` are the same submission, or if their queue or fences ensure that `one` has
    /// ended before `other` begins. `other` must be the latest submission.
    pub(super) fn is_before(&self, one: Key, other: Key) -> bool {
        if one.0 == other.0 {
            return one.1 <= other.1;
        }
        // A submission that is not in `works` ended before the host's clock, which the latest submission includes.
        let covers = |work: &Work| work.settled && work.clock.covers(one);
        !self.works.contains_key(&one) || self.works.get(&other).is_some_and(covers)
    }

    /// For each pending submission, returns its first access that overlaps the range and that `wanted` selects.
    pub(super) fn pending(
        &self,
        space: u64,
        range: &Range<u64>,
        wanted: impl Fn(&Access) -> bool,
    ) -> Vec<(Access, PendingWork)> {
        let first = |(&key, work): (&Key, &Work)| {
            let access = work.accesses.overlapping(space, range).find(|access| wanted(access))?;
            Some((access.clone(), work.pending(key, access.writes)))
        };
        self.works.iter().filter_map(first).collect()
    }

    /// Records that the host has read `value` from `fence`.
    pub(super) fn observe(&mut self, fence: Fence, value: u64) {
        let seen = self.seen.entry(fence).or_insert(0);
        if value <= *seen {
            return;
        }
        *seen = value;
        let Some(signals) = self.signals.get_mut(&fence) else { return };
        let later = signals.split_off(&value.saturating_add(1));
        let reached = std::mem::replace(signals, later);
        let mut host = self.host.clone();
        for key in reached.into_values() {
            // The submission is settled: it has run, so all signals that it waited for were submitted.
            let _ = self.join_end_of(key, &mut host);
        }
        self.advance_host(host);
    }

    /// Records that the host knows that this submission, and all earlier submissions of its queue, have ended.
    pub(super) fn observe_end(&mut self, key: Key) {
        let mut host = self.host.clone();
        host.raise(key.0, key.1);
        self.advance_host(host);
    }

    fn advance_host(&mut self, host: Clock) {
        self.works.retain(|&key, _| !host.covers(key));
        self.unsettled.retain(|&key| !host.covers(key));
        self.host = host;
    }

    /// Removes all pending work. Called when the device is lost.
    pub(super) fn clear(&mut self) {
        self.works.clear();
        self.signals.clear();
        self.unsettled.clear();
    }
}

impl Work {
    const fn pending(&self, (queue, _): Key, writes: bool) -> PendingWork {
        PendingWork { queue, fence: self.signal.0, value: self.signal.1, writes }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ids::What;
    use super::*;

    fn write(space: u64, range: Range<u64>) -> Vec<Access> {
        let label = Label::unnamed(What::Buffer, space);
        vec![Access { space, range, writes: true, space_label: label.clone(), label }]
    }

    const F: Fence = Fence(100);
    const G: Fence = Fence(101);

    #[test]
    fn order_is_transitive_through_fences_and_queues() {
        let mut order = Order::new(3);
        assert!(order.submit((0, 1), &[], (F, 1), write(1, 0..8)).is_empty());
        assert!(order.submit((1, 1), &[(F, 1)], (G, 1), write(2, 0..8)).is_empty());
        assert!(order.submit((2, 1), &[(G, 1)], (Fence(102), 1), write(1, 4..12)).is_empty());
    }

    #[test]
    fn unordered_work_conflicts_once_its_late_signal_is_known() {
        let mut order = Order::new(3);
        assert!(order.submit((0, 1), &[(F, 2)], (G, 1), write(1, 0..8)).is_empty());
        assert!(order.submit((1, 1), &[], (F, 1), write(1, 0..8)).is_empty(), "queue 0 is not settled");
        let conflicts = order.submit((2, 1), &[], (F, 2), vec![]);
        assert_eq!(conflicts.len(), 1);
        assert_eq!((conflicts[0].queue, conflicts[0].pending.queue), (0, 1));
    }

    #[test]
    fn what_the_host_saw_is_ordered_before_what_it_submits() {
        let mut order = Order::new(2);
        assert!(order.submit((0, 1), &[], (F, 1), write(1, 0..8)).is_empty());
        assert_eq!(order.pending(1, &(7..9), |_| true).len(), 1);
        assert!(order.pending(1, &(8..9), |_| true).is_empty());
        order.observe(F, 1);
        assert!(order.pending(1, &(0..9), |_| true).is_empty());
        assert!(order.submit((1, 1), &[(F, 1)], (G, 1), write(1, 0..8)).is_empty());
    }
}
