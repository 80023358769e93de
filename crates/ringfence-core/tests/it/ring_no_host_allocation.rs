//! A ring in steady state allocates no host memory.

#[allow(dead_code, reason = "a test program takes what it needs")]
use crate::counting_allocator;

use counting_allocator::host_allocations;
use ringfence_core::ring::Ring;
use ringfence_core::sync::{Progress, SyncPoint, SyncSet, TimelineId};

fn frame(ring: &mut Ring<SyncSet>, frame: u64) {
    let points = [0, 1].map(|timeline| SyncPoint::new(TimelineId::new(timeline), frame));
    let set: SyncSet = points.into_iter().collect();
    for (size, alignment) in [(300, 4), (2000, 256), (5000, 512)] {
        while ring.allocate(size + frame * 37 % 1000, alignment, &set).is_err() {
            ring.release_oldest().expect("the ring is full, so a frame is in flight");
        }
    }
    let completed = [frame.saturating_sub(2), frame.saturating_sub(3)];
    ring.release_while(|set| completed.passed_all(set));
}

#[test]
fn a_steady_ring_allocates_nothing_on_the_host() {
    assert!(host_allocations(|| drop(vec![1])) > 0, "the counter works");
    let mut ring = Ring::new(64 << 10);
    (1..100).for_each(|number| frame(&mut ring, number));
    assert_eq!(host_allocations(|| (100..10_000).for_each(|number| frame(&mut ring, number))), 0);
    assert!(ring.submissions() > 1);
}
