//! Statistics of an upload ring that the conformance suite does not check.

use std::time::Instant;

use ringfence::Location;
use ringfence::upload::{UploadError, WhenFull};
use ringfence_testkit::Gpu;
use ringfence_testkit::conformance::upload::{WAIT, copy_from, ring};
use ringfence_testkit::rig::{PATIENCE, Rig, pattern};

/// A write waits for each submission that occupies space it needs. Each wait is counted once.
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
    // On a real device, polling may find some submissions complete. On the simulated device, the clock advances only in
    // waits.
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
    assert_eq!((shrunk.shrink_count, shrunk.high_water_bytes), (1, 4096), "of the previous one");
}

pub fn a_ring_grows_to_its_cap_and_shrinks_when_it_is_little_used<G: Gpu>(rig: &mut Rig<G>) {
    let when_full = WhenFull::Grow { capacity_max: 64 << 10, timeout: PATIENCE, shrink_after: 5 };
    let ring = ring(rig, 8 << 10, when_full);
    let target = rig.buffer(64 << 10, Location::Device, "target");
    let frame = rig.timeline().begin();
    let (mut commands, mut expected) = (Vec::new(), Vec::new());
    for number in 0..8 {
        let bytes = pattern(number, 8 << 10);
        let staged = ring.write(&bytes, 256).expect("the ring grows");
        commands.push(copy_from::<G>(&staged, &target, expected.len() as u64));
        expected.extend(bytes);
    }
    assert_eq!(ring.capacity(), 64 << 10, "at its cap");
    let refused = ring.write(&[1; 60 << 10], 4);
    assert!(matches!(refused, Err(UploadError::Full { waits_for: Some(_), .. })), "{refused:?}");
    let refused = ring.write(&[1; 65 << 10], 4);
    assert!(matches!(refused, Err(UploadError::TooLarge { capacity: 65536, .. })), "{refused:?}");
    rig.submit(frame, &commands);
    assert_eq!(rig.download(&target, expected.len() as u64), expected, "including data in the previous buffers");
    let frame = rig.timeline().begin();
    ring.write(&[1; 60 << 10], 4).expect("at its maximum size the ring waits");
    let value = rig.submit(frame, &[]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    let mut seen = vec![ring.capacity()];
    for _ in 0..40 {
        let frame = rig.timeline().begin();
        ring.write(&[1; 1024], 4).expect("there is room");
        let value = rig.submit(frame, &[]);
        assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
        rig.memory.reclaim();
        if seen.last() != Some(&ring.capacity()) {
            seen.push(ring.capacity());
        }
        ring.validate().expect("the ring is sound");
    }
    assert_eq!(seen, [64 << 10, 32 << 10, 16 << 10, 8 << 10], "by half, down to its initial capacity");
    let figures = ring.snapshot();
    assert_eq!(figures.shrink_count, 3);
    assert!(figures.grow_count >= 3 && figures.high_water_bytes >= 60 << 10, "{figures:?}");
}
