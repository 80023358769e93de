//! What an upload ring reports, beyond the conformance suite.

use std::time::Instant;

use ringfence::WhenFull;
use ringfence_testkit::Gpu;
use ringfence_testkit::conformance::upload::{WAIT, ring};
use ringfence_testkit::rig::{PATIENCE, Rig};

/// One write waits for as many submissions as it takes the space of, and each wait counts once.
pub fn seed_001_11_every_wait_of_a_write_is_counted<G: Gpu>(rig: &mut Rig<G>) {
    const COUNT: usize = 16;
    let ring = ring(rig, COUNT as u64 * 256, WAIT);
    for _ in 0..COUNT {
        let frame = rig.timeline().begin();
        ring.write(&[1; 256], 256).expect("there is room");
        rig.submit_behind_gate(1, frame, &[]);
    }
    rig.gpu.open_gate(1).expect("the device is not lost");
    let frame = rig.timeline().begin();
    let began = Instant::now();
    ring.write(&[1; COUNT * 256], 256).expect("all are complete in the end");
    let (held, all_ns) = (ring.snapshot(), began.elapsed().as_nanos() as u64);
    assert!(held.wait_count <= COUNT as u64 && held.wait_ns <= all_ns, "{held:?} in {all_ns} ns");
    // Of a real device, polling may find some complete. The simulated device's time goes by in waits alone.
    assert!(G::NAME != "sim" || held.wait_count == COUNT as u64, "{held:?}");
    rig.submit(frame, &[]);
}

pub fn seed_001_11_a_ring_that_was_exchanged_keeps_its_high_water<G: Gpu>(rig: &mut Rig<G>) {
    let grow = WhenFull::Grow { capacity_max: 16 << 10, timeout: PATIENCE, shrink_after: 1 };
    let ring = ring(rig, 4 << 10, grow);
    let frame = rig.timeline().begin();
    ring.write(&[1; 4096], 4).expect("all of it");
    ring.write(&[1; 256], 4).expect("the ring grows");
    let grown = ring.snapshot();
    assert_eq!((grown.grow_count, grown.high_water_bytes), (1, 4096), "of the buffer before");
    let value = rig.submit(frame, &[]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    (0..3).for_each(|_| _ = rig.memory.reclaim());
    let shrunk = ring.snapshot();
    assert_eq!((shrunk.shrink_count, shrunk.high_water_bytes), (1, 4096), "of the one before that");
}
