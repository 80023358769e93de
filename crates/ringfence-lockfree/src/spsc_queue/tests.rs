//! Tests of the queue with one thread: comparisons with a queue of pairs of set and item, and tests of its memory use.

use std::collections::VecDeque;

use ringfence_core::sync::{SyncPoint, TimelineId};

use super::*;
use ringfence_core::testing::rng::Rng;

fn set(value: u64) -> SyncSet {
    SyncPoint::new(TimelineId::new(0), value).into()
}

/// Batches of closed chunks, with their sets.
type Closed<T> = Vec<(SyncSet, Batch<T>)>;

/// A queue with its producer's and its consumer's side. Its functions are safe, because one thread owns both sides.
struct Ends<T> {
    queue: SpscQueue<T>,
    head: Head<T>,
}

impl<T> Ends<T> {
    fn new() -> Self {
        Self { queue: SpscQueue::new(), head: Head::new() }
    }

    fn push(&mut self, value: u64, item: T) {
        self.put(value, std::iter::once(item));
    }

    fn push_all(&mut self, value: u64, items: Vec<T>) {
        self.put(value, items.into_iter());
    }

    fn put(&mut self, value: u64, items: impl ExactSizeIterator<Item = T>) {
        let points = set(value);
        // SAFETY: this thread owns both sides.
        unsafe { self.queue.put(Key::Points(&points), |set| set.clone_from(&points), items) };
    }

    /// Takes the batches of the closed chunks with their sets, and the batch of the open chunk if its set has passed.
    fn take(&mut self, passed: u64) -> (Closed<T>, Option<Batch<T>>) {
        let mut batches = Vec::new();
        let closed = |has_passed, points: &SyncSet, batch| {
            assert_eq!(has_passed, [passed].as_slice().passed_all(points));
            batches.push((points.clone(), batch));
        };
        // SAFETY: as above.
        let open = unsafe { self.head.take(&self.queue, [passed].as_slice(), closed) };
        (batches, open)
    }

    fn empty(&mut self, mut batch: Batch<T>, each: impl FnMut(T)) {
        // SAFETY: the queue is alive.
        unsafe { batch.give(usize::MAX, each) };
        // SAFETY: as above.
        unsafe { self.queue.return_batch(batch) };
    }

    /// Returns the number of slots of all chunks.
    fn room(&self) -> usize {
        let mut room = 0;
        let mut chunk = self.queue.last_created.get();
        // SAFETY: chunks live as long as the queue.
        while let Some(made) = unsafe { chunk.as_ref() } {
            room += made.slots.len();
            chunk = made.created_before.get();
        }
        room
    }
}

/// Items of generated programs are returned in their order, each with its own set, for all divisions into batches.
#[test]
fn gives_what_a_queue_of_pairs_gives() {
    let (seeds, steps) = if cfg!(miri) { (1, 80) } else { (200, 400) };
    for seed in 0..seeds {
        let mut dice = Rng::new(seed);
        let mut ends = Ends::new();
        // The sets and items in the queue, and the batches that were taken out and not returned.
        let (mut twin, mut out) = (VecDeque::new(), VecDeque::new());
        // `last` is the set of the last added item, which is the set of the open chunk.
        let (mut value, mut last, mut number) = (1, 1, 0);
        for _ in 0..steps {
            match dice.below(5) {
                0 => value += dice.below(2),
                1 => {
                    let items: Vec<_> = (0..dice.below(40)).map(|item| Box::new(number + item)).collect();
                    number += items.len() as u64;
                    twin.extend(items.iter().map(|item| (set(value), **item)));
                    if !items.is_empty() {
                        ends.push_all(value, items);
                        last = value;
                    }
                }
                2 => {
                    let passed = value - dice.below(2);
                    let (closed, open) = ends.take(passed);
                    assert!(open.is_none() || last <= passed, "seed {seed}: too early");
                    let open = open.map(|batch| (set(last), batch));
                    for (points, batch) in closed.into_iter().chain(open) {
                        let items: Vec<_> = twin.drain(..batch.len()).collect();
                        assert!(items.iter().all(|(held, _)| *held == points), "seed {seed}");
                        out.push_back((items, batch));
                    }
                    assert!(
                        twin.iter().all(|(points, _)| *points == set(last)),
                        "seed {seed}: the remaining items are in the open chunk"
                    );
                    assert!(passed < last || twin.is_empty(), "seed {seed}");
                    let taken = ends.queue.pushed() - ends.head.taken();
                    assert_eq!(taken, twin.len(), "seed {seed}");
                }
                3 => {
                    // The batches are emptied in any order.
                    if !out.is_empty() {
                        let (items, batch) = out.remove(dice.below(out.len() as u64) as usize).expect("inside");
                        let mut given = Vec::new();
                        ends.empty(batch, |item| given.push(*item));
                        assert!(items.into_iter().map(|(_, item)| item).eq(given), "seed {seed}");
                    }
                }
                _ => {
                    ends.push(value, Box::new(number));
                    twin.push_back((set(value), number));
                    (last, number) = (value, number + 1);
                }
            }
        }
        let (closed, open) = ends.take(value);
        out.extend(closed.into_iter().map(|(_, batch)| batch).chain(open).map(|batch| (Vec::new(), batch)));
        out.into_iter().for_each(|(_, batch)| ends.empty(batch, drop));
        assert_eq!(ends.queue.pushed(), ends.head.taken(), "seed {seed}");
    }
}

/// Runs frames with `count` items each. Three frames are in flight.
fn frames(ends: &mut Ends<u64>, waiting: &mut VecDeque<(u64, Batch<u64>)>, frames: std::ops::Range<u64>, count: u64) {
    for frame in frames {
        (0..count).for_each(|item| ends.push(frame, item));
        let (closed, open) = ends.take(frame - 3);
        assert!(open.is_none());
        waiting.extend(
            closed.into_iter().map(|(points, batch)| (points.value_on(TimelineId::new(0)).expect("set"), batch)),
        );
        while waiting.front().is_some_and(|(value, _)| value + 3 <= frame) {
            let (_, batch) = waiting.pop_front().expect("seen");
            ends.empty(batch, drop);
        }
    }
}

#[test]
#[cfg(not(miri))]
fn memory_follows_the_items_that_wait() {
    let (mut ends, mut waiting) = (Ends::new(), VecDeque::new());
    frames(&mut ends, &mut waiting, 3..20, 200);
    let room = ends.room();
    assert!(room <= 6 * 256, "three frames wait, one is written, one is returned, and the first one grew: {room}");
    frames(&mut ends, &mut waiting, 20..200, 200);
    assert_eq!(ends.room(), room, "a steady frame creates no chunk");
    let (mut few, mut waiting) = (Ends::new(), VecDeque::new());
    frames(&mut few, &mut waiting, 3..200, 1);
    assert!(few.room() <= 6 * SLOTS_MIN, "one item a frame: {}", few.room());
    let mut long = Ends::new();
    (0..1000).for_each(|frame| long.push(frame, frame));
    assert!(long.room() <= 1000 * SLOTS_MIN, "a thousand frames of one item that no thread collects: {}", long.room());
}

#[test]
fn numbers_may_wrap_around() {
    let mut ends = Ends::new();
    ends.queue.pushed.store(usize::MAX - 5, Ordering::Relaxed);
    ends.queue.limit.set(usize::MAX - 5);
    ends.queue.set_began.set(usize::MAX - 5);
    ends.head.taken = usize::MAX - 5;
    let mut given = Vec::new();
    for item in 0..40 {
        ends.push(1 + item / 9, item);
        if item % 5 == 0 {
            let (closed, open) = ends.take(1 + item / 9);
            closed
                .into_iter()
                .map(|(_, batch)| batch)
                .chain(open)
                .for_each(|batch| ends.empty(batch, |item| given.push(item)));
        }
    }
    assert!(given.iter().copied().eq(0..=35), "{given:?}");
}
