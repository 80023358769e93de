//! The order of passes on several queues. Each queue runs its own passes in order. A pass that waits for another one
//! orders passes of different queues.
//!
//! ```text
//!   graphics   ──1──────2──────────3──▶        clock of graphics 3: { graphics: 2, compute: 1 }
//!                 ╲           ╱                clock of compute 1:  { graphics: 1 }
//!   compute        ──────1──────2─────▶
//!
//!   a comes before b   iff   the clock of b holds at least the number of a on the queue of a
//! ```
//!
//! The *clock* of a pass contains, for each queue, the number of the last pass that is over when this pass begins. It
//! is the maximum, for each queue, over:
//!
//! - the previous pass on the queue of this pass, and the clock of that pass;
//! - the passes that this pass waits for, and their clocks;
//! - the passes that the host has seen complete.
//!
//! Numbers continue across graph executions, so passes of different executions are ordered too.
//!
//! | operation | cost |
//! |---|---|
//! | a new pass | O(queues) for each pass that it waits for |
//! | comparing two passes | O(1) |

use std::collections::VecDeque;

use ringfence_core::sync::{SyncPoint, TimelineId};

use super::error::TransientError;
use super::pass::{Clock, Pass, QUEUES_MAX};

/// State of one queue.
struct Queue {
    timeline: TimelineId,
    /// Clocks of the passes `first..first + clocks.len()`: the passes of this execution and of the previous execution.
    clocks: VecDeque<Clock>,
    first: u64,
    /// Number of `clocks` that belong to the previous execution.
    old: usize,
    /// Pairs of a pass number and a point, in ascending order: passes up to the number are complete once the point is
    /// reached.
    ends: VecDeque<(u64, SyncPoint)>,
}

impl Queue {
    /// Returns the number of the queue's last pass; 0 if it had none.
    fn last(&self) -> u64 {
        self.first + self.clocks.len() as u64 - 1
    }
}

/// The order of all passes of a transient allocator.
pub(super) struct Order {
    owner: u32,
    /// Number of the allocator that created the timelines. Timelines of other allocators are rejected.
    allocator: u32,
    queues: Vec<Queue>,
    /// Passes that the host has seen complete.
    completed: Clock,
}

impl Order {
    pub(super) fn new(owner: u32) -> Self {
        Self { owner, allocator: 0, queues: Vec::with_capacity(QUEUES_MAX), completed: Clock::default() }
    }

    /// Restricts the order to timelines of this allocator, and timelines without an owner.
    pub(super) fn of_allocator(self, allocator: u32) -> Self {
        Self { allocator, ..self }
    }

    /// Adds the next pass of a queue. It begins when the passes of `waits` are over.
    pub(super) fn pass(&mut self, timeline: TimelineId, waits: &[Pass]) -> Result<Pass, TransientError> {
        for &wait in waits {
            self.check(wait)?;
        }
        if ![0, self.allocator].contains(&timeline.owner()) {
            return Err(TransientError::ForeignQueue { queue: timeline });
        }
        let queue = self.queue(timeline)?;
        let mut clock = self.completed;
        if let Some(before) = self.queues[queue as usize].last().checked_sub(1).map(|_| self.last_of(queue)) {
            clock.join(&self.end_of(before));
        }
        for &wait in waits {
            clock.join(&self.end_of(wait));
        }
        let held = &mut self.queues[queue as usize];
        held.clocks.push_back(clock);
        Ok(Pass { owner: self.owner, queue, number: held.last() })
    }

    fn last_of(&self, queue: u32) -> Pass {
        Pass { owner: self.owner, queue, number: self.queues[queue as usize].last() }
    }

    /// Returns the index of a queue. The first use of a queue assigns its index.
    fn queue(&mut self, timeline: TimelineId) -> Result<u32, TransientError> {
        if let Some(at) = self.queues.iter().position(|held| held.timeline == timeline) {
            return Ok(at as u32);
        }
        if self.queues.len() == QUEUES_MAX {
            return Err(TransientError::TooManyQueues { max: QUEUES_MAX });
        }
        self.queues.push(Queue { timeline, clocks: VecDeque::new(), first: 1, old: 0, ends: VecDeque::new() });
        Ok(self.queues.len() as u32 - 1)
    }

    /// Fails if this order did not create the pass.
    pub(super) fn check(&self, pass: Pass) -> Result<(), TransientError> {
        let known = pass.owner == self.owner
            && self.queues.get(pass.queue as usize).is_some_and(|held| (1..=held.last()).contains(&pass.number));
        if known { Ok(()) } else { Err(TransientError::UnknownPass { pass }) }
    }

    /// Fails if the pass does not belong to this execution.
    pub(super) fn check_current(&self, pass: Pass) -> Result<(), TransientError> {
        self.check(pass)?;
        let held = &self.queues[pass.queue as usize];
        let is_current = pass.number >= held.first + held.old as u64;
        if is_current { Ok(()) } else { Err(TransientError::UnknownPass { pass }) }
    }

    /// Returns the passes that are over when the pass begins. For a pass older than the previous execution, returns
    /// only the passes known to be complete.
    pub(super) fn begin_of(&self, pass: Pass) -> &Clock {
        let held = &self.queues[pass.queue as usize];
        let index = pass.number.checked_sub(held.first).and_then(|index| held.clocks.get(index as usize));
        index.unwrap_or(&self.completed)
    }

    /// Returns the passes that are over when the pass ends.
    pub(super) fn end_of(&self, pass: Pass) -> Clock {
        let mut clock = *self.begin_of(pass);
        clock.join(&Clock::of(pass));
        clock
    }

    /// Returns `true` if `first` is over when `last` ends, or if both are the same pass.
    pub(super) fn ends_after(&self, last: Pass, first: Pass) -> bool {
        let is_later = last.queue == first.queue && last.number >= first.number;
        is_later || self.begin_of(last).on(first.queue) >= first.number
    }

    /// Returns the clock at which every existing pass is over.
    pub(super) fn end_of_all(&self) -> Clock {
        let mut clock = Clock::default();
        (0..self.queues.len() as u32).for_each(|queue| clock.join(&Clock::of(self.last_of(queue))));
        clock
    }

    /// Updates the completed passes. `seen` returns the value that a timeline has reached.
    pub(super) fn refresh(&mut self, seen: impl Fn(TimelineId) -> u64) {
        for (slot, queue) in self.queues.iter_mut().enumerate() {
            let Some(&(_, next)) = queue.ends.front() else { continue };
            let reached = seen(next.timeline);
            while let Some(&(number, point)) = queue.ends.front()
                && point.value <= reached
            {
                self.completed.0[slot] = number;
                queue.ends.pop_front();
            }
        }
    }

    pub(super) fn completed(&self) -> Clock {
        self.completed
    }

    /// Marks the passes in `completed` as complete.
    #[cfg(test)]
    pub(super) fn refresh_to(&mut self, completed: Clock) {
        self.completed.join(&completed);
    }

    /// Removes the waits of this execution's passes, because the passes are never submitted. Later passes of their
    /// queues are then not ordered after the passes of these waits.
    pub(super) fn forget_waits(&mut self) {
        for (slot, Queue { clocks, first, old, .. }) in self.queues.iter_mut().enumerate() {
            let mut clock = self.completed;
            old.checked_sub(1).iter().for_each(|&last| clock.join(&clocks[last]));
            for (before, own) in (*first + *old as u64 - 1..).zip(clocks.range_mut(*old..)) {
                clock.0[slot] = clock.0[slot].max(before);
                *own = clock;
            }
        }
    }

    /// Ends an execution: the passes of each queue are complete at its point in `ends`. Passes of a queue without a
    /// point count as complete at the queue's next point.
    pub(super) fn close(&mut self, ends: &[SyncPoint]) {
        for queue in &mut self.queues {
            let last = queue.last();
            for point in ends.iter().filter(|point| point.timeline == queue.timeline) {
                // A point that is not greater than the last one does not prove that later passes are complete.
                let rises = queue.ends.back().is_none_or(|(number, held)| *number < last && held.value < point.value);
                if rises && last > 0 {
                    queue.ends.push_back((last, *point));
                }
            }
            queue.clocks.drain(..queue.old);
            queue.first += queue.old as u64;
            queue.old = queue.clocks.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(index: u32) -> TimelineId {
        TimelineId::new(index)
    }

    fn is_before(order: &Order, a: Pass, b: Pass) -> bool {
        order.begin_of(b).covers(&Clock::of(a))
    }

    #[test]
    fn passes_are_ordered_by_their_queue_and_by_what_they_wait_for() {
        let mut order = Order::new(1);
        let g1 = order.pass(timeline(4), &[]).unwrap();
        let c1 = order.pass(timeline(9), &[g1]).unwrap();
        let g2 = order.pass(timeline(4), &[]).unwrap();
        let c2 = order.pass(timeline(9), &[]).unwrap();
        let g3 = order.pass(timeline(4), &[c1]).unwrap();
        for (a, b, expected) in [
            (g1, g2, true),
            (g1, c1, true),
            (g1, c2, true),
            (c1, g2, false),
            (g2, c2, false),
            (c1, g3, true),
            (c2, g3, false),
            (g3, g1, false),
            (g1, g1, false),
        ] {
            assert_eq!(is_before(&order, a, b), expected, "{a:?} before {b:?}");
        }
    }

    #[test]
    fn the_order_reaches_across_executions_and_what_is_complete_comes_before_everything() {
        let mut order = Order::new(1);
        let g1 = order.pass(timeline(0), &[]).unwrap();
        let c1 = order.pass(timeline(1), &[g1]).unwrap();
        order.close(&[SyncPoint::new(timeline(0), 5), SyncPoint::new(timeline(1), 3)]);
        let g2 = order.pass(timeline(0), &[]).unwrap();
        assert!(is_before(&order, g1, g2));
        assert!(!is_before(&order, c1, g2), "no wait orders the queues");
        let c2 = order.pass(timeline(1), &[g2]).unwrap();
        order.close(&[SyncPoint::new(timeline(0), 6)]);
        let g3 = order.pass(timeline(0), &[c2]).unwrap();
        assert!(is_before(&order, c1, g3), "g3 waits for a pass of the previous execution");
        // The host sees the first execution's compute work complete, so that work comes before all new passes.
        order.refresh(|timeline| if timeline.index() == 1 { 3 } else { 0 });
        let copy = order.pass(timeline(2), &[]).unwrap();
        assert!(is_before(&order, c1, copy));
        assert!(!is_before(&order, c2, copy), "its end is not known");
        assert!(!is_before(&order, g1, copy));
        order.close(&[SyncPoint::new(timeline(1), 4)]);
        order.refresh(|_| 6);
        let last = order.pass(timeline(3), &[]).unwrap();
        assert!([g1, g2, c1, c2].iter().all(|pass| is_before(&order, *pass, last)), "{:?}", order.completed());
    }

    #[test]
    fn waits_of_passes_that_are_never_submitted_order_nothing() {
        let mut order = Order::new(1);
        let g1 = order.pass(timeline(0), &[]).unwrap();
        let c1 = order.pass(timeline(1), &[g1]).unwrap();
        order.close(&[]);
        let c2 = order.pass(timeline(1), &[]).unwrap();
        let g2 = order.pass(timeline(0), &[c1, c2]).unwrap();
        let g3 = order.pass(timeline(0), &[]).unwrap();
        let copy = order.pass(timeline(2), &[c1]).unwrap();
        order.forget_waits();
        order.close(&[]);
        let later = [0, 1, 2].map(|queue| order.pass(timeline(queue), &[]).unwrap());
        for (before, [graphics, compute, copies]) in [
            (g1, [true, true, false]),
            (c1, [false, true, false]),
            (c2, [false, true, false]),
            (g2, [true, false, false]),
            (g3, [true, false, false]),
            (copy, [false, false, true]),
        ] {
            let found = later.map(|pass| is_before(&order, before, pass));
            assert_eq!(found, [graphics, compute, copies], "{before:?}");
        }
    }

    /// Passes without waits still come after the earlier passes of their own queue, and not after themselves.
    #[test]
    fn passes_that_are_never_submitted_keep_the_order_of_their_queue() {
        let mut order = Order::new(1);
        for round in 0..2_u64 {
            let graphics = [(); 3].map(|()| order.pass(timeline(0), &[]).unwrap());
            let compute = order.pass(timeline(1), &[graphics[1]]).unwrap();
            order.forget_waits();
            for (nth, pass) in (0..).zip(graphics) {
                let before = order.begin_of(pass);
                assert_eq!((before.on(0), before.on(1)), (3 * round + nth, 0));
            }
            let before = order.begin_of(compute);
            assert_eq!((before.on(0), before.on(1)), (0, round));
            order.close(&[]);
        }
    }

    /// The passes of an execution are complete at its point, if the point is above the one before it. If it is not, or if
    /// there is none, they are complete at the queue's next point.
    #[test]
    fn passes_are_complete_at_the_next_point_that_rises() {
        for (points, values) in [
            ([Some(5), Some(6), Some(8)], [(4, 0), (5, 1), (6, 2), (7, 2), (8, 3)]),
            ([Some(5), Some(5), Some(8)], [(4, 0), (5, 1), (6, 1), (7, 1), (8, 3)]),
            ([Some(5), Some(4), Some(8)], [(4, 0), (5, 1), (6, 1), (7, 1), (8, 3)]),
            ([None, Some(6), None], [(4, 0), (5, 0), (6, 2), (7, 2), (8, 2)]),
        ] {
            for (value, complete) in values {
                let mut order = Order::new(1);
                for point in points {
                    order.pass(timeline(0), &[]).unwrap();
                    let ends = point.map(|value| SyncPoint::new(timeline(0), value));
                    // A point of another queue says nothing.
                    let other = SyncPoint::new(timeline(1), 1);
                    order.close(&ends.into_iter().chain([other]).collect::<Vec<_>>());
                }
                // An execution without passes of the queue, at a later point.
                order.close(&[SyncPoint::new(timeline(0), 100)]);
                order.refresh(|_| value);
                assert_eq!(order.completed().on(0), complete, "{points:?} at {value}");
            }
        }
    }

    #[test]
    fn passes_of_others_and_too_many_queues_are_refused() {
        let (mut order, mut other) = (Order::new(1), Order::new(2));
        let foreign = other.pass(timeline(0), &[]).unwrap();
        assert_eq!(order.pass(timeline(0), &[foreign]), Err(TransientError::UnknownPass { pass: foreign }));
        let unmade = Pass { owner: 1, queue: 0, number: 1 };
        assert_eq!(order.check(unmade), Err(TransientError::UnknownPass { pass: unmade }));
        (0..QUEUES_MAX as u32).for_each(|queue| _ = order.pass(timeline(queue), &[]).unwrap());
        let refused = order.pass(timeline(QUEUES_MAX as u32), &[]);
        assert_eq!(refused, Err(TransientError::TooManyQueues { max: QUEUES_MAX }));
    }
}
