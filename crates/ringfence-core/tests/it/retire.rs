//! Tests of the retire queue: comparisons with a list that is always searched completely, and tests of the rules of
//! `docs/acceptance.md`, which they are named after.

use crate::common;

use proptest::prelude::*;
use ringfence_core::retire::RetireQueue;
use ringfence_core::sync::{Progress, SyncPoint, SyncSet, TimelineId};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

fn point(timeline: u32, value: u64) -> SyncPoint {
    SyncPoint::new(TimelineId::new(timeline), value)
}

fn set(points: &[(u32, u64)]) -> SyncSet {
    points.iter().map(|&(timeline, value)| point(timeline, value)).collect()
}

fn released<T>(queue: &mut RetireQueue<T>, progress: &[u64]) -> Vec<T> {
    let mut out = Vec::new();
    let count = queue.reclaim(progress, |item| out.push(item));
    queue.validate().unwrap();
    assert_eq!(count, out.len());
    out
}

/// An operation on the queue. The values of a set are relative to the completed values of its timelines: most have not
/// passed yet, and some have.
#[derive(Clone, Debug)]
enum Op {
    Retire { points: Vec<(u32, i64)>, times: usize },
    RetireBatch { points: Vec<(u32, i64)>, count: u32 },
    Advance { timeline: usize, by: u64 },
    Reclaim,
    ReclaimAtMost(usize),
    ReclaimAndPanic { after: usize },
    ReleaseAll,
}

fn op() -> impl Strategy<Value = Op> {
    let points = || prop::collection::vec((0..TIMELINES as u32, -2..6_i64), 0..4);
    let wide = prop::collection::vec((0..TIMELINES as u32, 0..4_i64), 5..9);
    prop_oneof![
        8 => (points(), 1..4_usize).prop_map(|(points, times)| Op::Retire { points, times }),
        1 => (wide, 1..3_usize).prop_map(|(points, times)| Op::Retire { points, times }),
        2 => (points(), 0..6_u32).prop_map(|(points, count)| Op::RetireBatch { points, count }),
        5 => (0..TIMELINES, 1..4_u64).prop_map(|(timeline, by)| Op::Advance { timeline, by }),
        4 => Just(Op::Reclaim),
        2 => (0..6_usize).prop_map(Op::ReclaimAtMost),
        1 => (0..4_usize).prop_map(|after| Op::ReclaimAndPanic { after }),
        1 => Just(Op::ReleaseAll),
    ]
}

const TIMELINES: usize = 7;

/// The queue, and a list of its items with their sets, in the order in which they were retired.
struct Pair {
    queue: RetireQueue<u32>,
    twin: Vec<(SyncSet, u32)>,
    completed: Vec<u64>,
    next: u32,
}

impl Pair {
    fn set(&self, points: &[(u32, i64)]) -> SyncSet {
        let ahead = |&(timeline, ahead): &(u32, i64)| {
            point(timeline, self.completed[timeline as usize].saturating_add_signed(ahead))
        };
        points.iter().map(ahead).collect()
    }

    fn retire(&mut self, set: &SyncSet) {
        self.queue.retire(set, self.next);
        self.twin.push((set.clone(), self.next));
        self.next += 1;
    }

    /// Returns the number of items that may be released now.
    fn passed(&self) -> usize {
        self.twin.iter().filter(|(set, _)| self.completed.passed_all(set)).count()
    }

    /// Removes released items from the twin. Checks that each was queued and that its set has passed, unless `whatever`
    /// is `true`, and that items with equal sets are in order.
    fn out(&mut self, items: &[u32], whatever: bool) {
        for &item in items {
            let at = self.twin.iter().position(|(_, held)| *held == item).expect("released once, and retired before");
            let (set, _) = self.twin.remove(at);
            assert!(whatever || self.completed.passed_all(&set), "{item} was released before {set:?} passed");
            assert!(
                self.twin[..at].iter().all(|(earlier, _)| *earlier != set),
                "{item} was released before an earlier item with the same {set:?}"
            );
        }
    }

    fn apply(&mut self, op: &Op) {
        let mut items = Vec::new();
        match *op {
            Op::Retire { ref points, times } => {
                let set = self.set(points);
                (0..times).for_each(|_| self.retire(&set));
            }
            Op::RetireBatch { ref points, count } => {
                let (set, range) = (self.set(points), self.next..self.next + count);
                self.queue.retire_batch(&set, range.clone());
                self.twin.extend(range.map(|item| (set.clone(), item)));
                self.next += count;
            }
            Op::Advance { timeline, by } => self.completed[timeline] += by,
            Op::Reclaim => {
                let count = self.queue.reclaim(&self.completed, |item| items.push(item));
                assert_eq!(
                    (count, count),
                    (items.len(), self.passed()),
                    "exactly the items that have passed are released"
                );
                self.out(&items, false);
                assert_eq!(self.passed(), 0);
            }
            Op::ReclaimAtMost(max) => {
                let count = self.queue.reclaim_at_most(&self.completed, max, |item| items.push(item));
                assert_eq!((count, count), (items.len(), self.passed().min(max)));
                self.out(&items, false);
            }
            Op::ReclaimAndPanic { after } => {
                let panics = self.passed() > after;
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    self.queue.reclaim(&self.completed, |item| {
                        items.push(item);
                        if items.len() > after {
                            resume_unwind(Box::new(()));
                        }
                    })
                }));
                assert_eq!(outcome.is_err(), panics);
                self.out(&items, false);
            }
            Op::ReleaseAll => {
                let count = self.queue.release_all(|item| items.push(item));
                assert_eq!(count, items.len());
                self.out(&items, true);
                assert!(self.twin.is_empty() && self.queue.is_empty());
            }
        }
        self.check();
    }

    fn check(&self) {
        self.queue.validate().unwrap();
        assert_eq!(self.queue.len(), self.twin.len());
        assert_eq!(self.queue.is_empty(), self.twin.is_empty());
        assert!(self.queue.batches() <= self.queue.len());
        let mut held: Vec<u32> = self.queue.iter().flat_map(|batch| batch.items().copied()).collect();
        held.sort_unstable();
        assert!(held.iter().eq(self.twin.iter().map(|(_, item)| item)));
        for batch in self.queue.iter() {
            let mut sets = batch.items().map(|item| &self.twin.iter().find(|(_, held)| held == item).unwrap().0);
            assert!(sets.all(|set| set.iter().eq(batch.points().iter().copied())), "an item waits for its own set");
        }
        for oldest in self.queue.oldest_points() {
            let values = self.twin.iter().filter_map(|(set, _)| set.value_on(oldest.timeline));
            assert!(values.clone().any(|value| value == oldest.value));
            let ahead = values.filter(|&value| value > self.completed[oldest.timeline.index()]);
            assert!(ahead.min().is_none_or(|value| oldest.value <= value), "a point older than {oldest} is waiting");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(common::cases(512)))]

    #[test]
    fn behaves_as_a_list_looked_through_whole(ops in prop::collection::vec(op(), 1..120)) {
        let mut pair = Pair {
            queue: RetireQueue::new(),
            twin: Vec::new(),
            completed: vec![2; TIMELINES],
            next: 0,
        };
        ops.iter().for_each(|op| pair.apply(op));
    }
}

/// While timeline 0 does not advance, only the items that wait for it are delayed. In a single queue for all timelines,
/// all items would be delayed.
#[test]
fn a_stuck_timeline_holds_back_only_who_waits_for_it() {
    let mut queue = RetireQueue::new();
    queue.retire(&set(&[(0, 1)]), 0);
    queue.retire(&set(&[(0, 1), (1, 1)]), 1);
    for value in 1..100 {
        queue.retire(&set(&[(1, value)]), 10 + value);
        assert_eq!(released(&mut queue, &[0, value]), [10 + value]);
    }
    assert_eq!(queue.oldest_points().collect::<Vec<_>>(), [point(0, 1)]);
    assert_eq!(released(&mut queue, &[1, 99]), [0, 1]);
}

#[test]
fn the_drops_of_a_frame_are_few_batches() {
    let mut queue = RetireQueue::new();
    for frame in 1..4 {
        // The last use of the items was alternately in this frame and in the previous one, on one queue or on two.
        for item in 0..1000 {
            queue.retire(&set(&[(0, frame - item % 2)]), item);
            queue.retire(&set(&[(0, frame), (1, frame - item % 2)]), item);
        }
        queue.retire(&SyncSet::new(), 0);
    }
    assert!(queue.batches() <= 3 * 3 + 3, "{} batches", queue.batches());
    assert!(queue.iter().all(|batch| !batch.is_empty() && batch.len() == batch.items().count()));
    queue.validate().unwrap();
    assert_eq!(queue.release_all(drop), 3 * 2001);
}

#[test]
fn an_empty_or_passed_set_is_released_at_the_next_reclaim() {
    let mut queue = RetireQueue::new();
    queue.retire(&SyncSet::new(), 'a');
    queue.retire(&SyncSet::new(), 'b');
    queue.retire(&set(&[(0, 3)]), 'c');
    queue.retire(&set(&[(9, 0)]), 'd');
    assert_eq!(queue.batches(), 3);
    assert_eq!(released(&mut queue, &[3]), ['a', 'b', 'c', 'd']);
    assert_eq!((queue.len(), queue.batches(), queue.oldest_points().count()), (0, 0, 0));
}

#[test]
fn values_out_of_order_are_sorted_in() {
    let mut queue = RetireQueue::new();
    for value in [5, 9, 7, 1, 8, 3, 5, 9, 1] {
        queue.retire(&set(&[(0, value)]), value);
        queue.validate().unwrap();
    }
    assert_eq!(queue.batches(), 6);
    assert_eq!(released(&mut queue, &[4]), [1, 1, 3]);
    assert_eq!(released(&mut queue, &[100]), [5, 5, 7, 8, 9, 9]);
}

#[test]
fn a_bounded_reclaim_goes_on_next_time() {
    let mut queue = RetireQueue::new();
    queue.retire_batch(&set(&[(0, 1)]), 0..10);
    queue.retire_batch(&set(&[(0, 2)]), 10..13);
    let mut out = Vec::new();
    assert_eq!(queue.reclaim_at_most([1].as_slice(), 0, |item| out.push(item)), 0);
    for count in [4, 4, 2, 0] {
        assert_eq!(queue.reclaim_at_most([1].as_slice(), 4, |item| out.push(item)), count);
        queue.validate().unwrap();
    }
    queue.retire(&set(&[(0, 1)]), 99);
    assert_eq!(queue.reclaim_at_most([2].as_slice(), 4, |item| out.push(item)), 4);
    assert!(queue.is_empty() && out[..10].iter().copied().eq(0..10));
}

#[test]
fn a_panic_in_release_takes_its_item_only() {
    let mut queue = RetireQueue::new();
    queue.retire_batch(&set(&[(0, 1)]), 0..5);
    queue.retire_batch(&set(&[(0, 2)]), 5..8);
    let mut out = Vec::new();
    for panics_at in [0, 4, 5] {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            queue.reclaim([2].as_slice(), |item| {
                if item == panics_at {
                    resume_unwind(Box::new(item));
                }
                out.push(item);
            })
        }));
        assert_eq!(*outcome.unwrap_err().downcast::<i32>().unwrap(), panics_at);
        queue.validate().unwrap();
    }
    assert_eq!(queue.len(), 2);
    out.extend(released(&mut queue, &[2]));
    assert_eq!(out, [1, 2, 3, 6, 7]);
}

#[test]
fn a_panic_in_the_iterator_of_a_batch_keeps_what_came_before() {
    let mut queue = RetireQueue::new();
    let items = (0..5).map(|item| if item == 3 { resume_unwind(Box::new(())) } else { item });
    assert!(catch_unwind(AssertUnwindSafe(|| queue.retire_batch(&set(&[(0, 1)]), items))).is_err());
    assert_eq!(queue.len(), 3);
    assert_eq!(released(&mut queue, &[1]), [0, 1, 2]);
    let first_fails = std::iter::once_with(|| -> i32 { resume_unwind(Box::new(())) });
    assert!(catch_unwind(AssertUnwindSafe(|| queue.retire_batch(&set(&[(0, 1)]), first_fails))).is_err());
    queue.retire_batch(&set(&[(0, 1)]), []);
    assert_eq!(queue.batches(), 0, "no batch without an item");
}

#[test]
fn a_far_timeline_costs_no_more_than_a_near_one() {
    let mut queue = RetireQueue::new();
    queue.retire(&set(&[(u32::MAX, 1)]), ());
    assert_eq!(queue.oldest_points().collect::<Vec<_>>(), [point(u32::MAX, 1)]);
    assert_eq!(queue.release_all(drop), 1);
}

#[test]
fn each_timeline_is_read_once_and_only_if_waited_for() {
    struct Counting(std::cell::RefCell<Vec<usize>>);
    impl Progress for Counting {
        fn completed(&self, timeline: TimelineId) -> u64 {
            self.0.borrow_mut().push(timeline.index());
            5
        }
    }
    let progress = Counting(Default::default());
    let mut queue = RetireQueue::new();
    for value in 1..10 {
        queue.retire(&set(&[(0, value), (1, value), (2, 1)]), value);
    }
    assert_eq!(queue.reclaim(&progress, drop), 5);
    assert_eq!(progress.0.take(), [0, 1, 2]);
    queue.reclaim(&progress, drop);
    assert_eq!(progress.0.take(), [0, 1]);
}

/// An item on the to-delete list waits for all work that was submitted to any queue before the item was dropped.
#[test]
fn seed_004_19_freed_after_the_submitted_work_of_all_queues() {
    let submitted = [7, 3, 5];
    let all_queues = set(&[(0, submitted[0]), (1, submitted[1]), (2, submitted[2])]);
    for last in 0..3 {
        let mut queue = RetireQueue::new();
        queue.retire(&all_queues, "resource");
        let mut completed = submitted;
        completed[last] -= 1;
        assert_eq!(released(&mut queue, &completed).len(), 0, "queue {last} has not finished");
        assert_eq!(released(&mut queue, &submitted), ["resource"]);
    }
}

#[test]
fn seed_004_21_freed_only_when_the_fence_of_its_frame_is_complete() {
    let mut queue = RetireQueue::new();
    for frame in 1..=1000_u64 {
        queue.retire_batch(&set(&[(0, frame)]), [frame, frame]);
        let completed = frame.saturating_sub(3);
        let expected = if completed == 0 { vec![] } else { vec![completed, completed] };
        assert_eq!(released(&mut queue, &[completed]), expected, "no frame early, none late");
    }
    assert_eq!(queue.len(), 6);
}

/// The queue works with values above 32 bits, with several timelines, and with a lost device, whose fence reports
/// `u64::MAX`.
#[test]
fn fault_09_64_bit_values_and_a_lost_device() {
    let base = u64::from(u32::MAX);
    let mut queue = RetireQueue::new();
    queue.retire(&set(&[(0, base + 1)]), 1);
    queue.retire(&set(&[(0, base + 2), (1, u64::MAX)]), 2);
    assert_eq!(released(&mut queue, &[base]).len(), 0);
    assert_eq!(released(&mut queue, &[base + 2]), [1]);
    // The device is lost and no further point passes, so the owner releases all items explicitly.
    assert_eq!(queue.release_all(|item| assert_eq!(item, 2)), 1);
    queue.validate().unwrap();
    queue.retire(&set(&[(0, 1)]), 3);
    assert_eq!(released(&mut queue, &[1]), [3], "the queue still works");
}

/// The cost of half a million batches over three timelines is linear, although one timeline is far behind. Otherwise,
/// the test would not end in time.
#[test]
fn soak_with_a_slow_timeline() {
    let mut queue = RetireQueue::new();
    let mut out = 0;
    for frame in 1..=500_000_u64 {
        queue.retire(&set(&[(0, frame)]), frame);
        queue.retire(&set(&[(0, frame), (1, frame), (2, frame / 1000)]), frame);
        out += queue.reclaim([frame - 1, frame.saturating_sub(2), frame / 1000 - frame / 1000 % 10].as_slice(), drop);
    }
    queue.validate().unwrap();
    assert_eq!(out + queue.len(), 1_000_000);
    assert_eq!(queue.release_all(drop) + out, 1_000_000);
}

/// Two sets are equal if and only if their points are equal, with inline points and with more.
#[test]
fn a_set_is_what_its_points_are_however_it_was_made() {
    let points: Vec<_> = (0..9).map(|timeline| (timeline, 5)).collect();
    for count in 0..=points.len() {
        let made = set(&points[..count]);
        let backwards: SyncSet =
            points[..count].iter().rev().map(|&(timeline, value)| point(timeline, value)).collect();
        assert_eq!(made, backwards);
        assert_eq!((made.is_empty(), made.len()), (count == 0, count));
        assert!(count == 0 || made != set(&points[..count - 1]), "one of {count} points is missing");
        for before in 0..=points.len() {
            let mut copied_over = set(&points[..before]);
            copied_over.clone_from(&made);
            assert_eq!(copied_over, made, "over a set of {before}");
        }
    }
    assert_eq!(SyncSet::from(point(3, 7)), set(&[(3, 7)]));
    assert_eq!(
        [1, 2].map(|index| vec![4, 8].completed(TimelineId::new(index))),
        [8, 0],
        "completed values, by timeline"
    );
}
