//! A retire queue in steady state allocates no host memory.

#[allow(dead_code, reason = "a test program takes what it needs")]
use crate::counting_allocator;

use counting_allocator::host_allocations;
use ringfence_core::retire::RetireQueue;
use ringfence_core::sync::{SyncPoint, SyncSet, TimelineId};

/// Retires the items of a frame: some wait for one queue, some for two, one for six (more than a set stores inline),
/// and some for an older frame.
fn frame(queue: &mut RetireQueue<u64>, sets: &mut [SyncSet; 4], frame: u64) -> usize {
    let point = |timeline, value| SyncPoint::new(TimelineId::new(timeline), value);
    sets.iter_mut().for_each(SyncSet::clear);
    sets[0].insert(point(0, frame));
    sets[1].extend([point(0, frame), point(1, frame)]);
    sets[2].extend((0..6).map(|timeline| point(timeline, frame)));
    sets[3].insert(point(0, frame - 1));
    for item in 0..50 {
        queue.retire(&sets[item % 2], item as u64);
    }
    queue.retire(&sets[2], frame);
    queue.retire_batch(&sets[3], 0..frame % 8);
    let completed = [frame - 2, frame - 3, frame - 1, frame - 2, frame - 1, frame - 4];
    queue.reclaim(completed.as_slice(), drop)
}

#[test]
fn a_steady_queue_allocates_nothing_on_the_host() {
    let (mut queue, mut sets) = (RetireQueue::new(), [const { SyncSet::new() }; 4]);
    let mut released = 0;
    (10..200).for_each(|number| released += frame(&mut queue, &mut sets, number));
    let count = host_allocations(|| (200..10_000).for_each(|number| released += frame(&mut queue, &mut sets, number)));
    assert_eq!(count, 0);
    let retired: u64 = (10..10_000).map(|number| 51 + number % 8).sum();
    assert_eq!((released + queue.len()) as u64, retired);
    assert!(queue.batches() < 20);
}
