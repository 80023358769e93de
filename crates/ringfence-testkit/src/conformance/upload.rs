//! The upload ring on real and simulated fences.

use std::time::Duration;

use crate::{Command, Gpu};
use ringfence::upload::{Staged, UploadDesc, UploadError, WhenFull};
use ringfence::{AllocatorDesc, Frame, Location, UploadRing};

use crate::rig::{PATIENCE, Rig, pattern};

pub fn ring<G: Gpu>(rig: &Rig<G>, capacity: u64, when_full: WhenFull) -> UploadRing<G::Device> {
    let desc = UploadDesc { capacity, when_full, name: "ring", ..Default::default() };
    UploadRing::new(&rig.memory, desc).expect("there is room")
}

pub const WAIT: WhenFull = WhenFull::Wait { timeout: PATIENCE };

/// Timeout of a wait that is expected to fail.
const VAIN_WAIT: Duration = Duration::from_millis(20);
const WAIT_IN_VAIN: WhenFull = WhenFull::Wait { timeout: VAIN_WAIT };

/// Opens the gate up to `number`, then waits until the frame with `value` is complete.
fn render<G: Gpu>(rig: &mut Rig<G>, number: u64, value: u64) {
    rig.gpu.open_gate(number).expect("the device is not lost");
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"), "frame {number} is rendered");
}

pub fn copy_from<G: Gpu>(staged: &Staged<G::Device>, to: &ringfence::Buffer<G::Device>, at: u64) -> Command<G::Device> {
    Command::CopyBuffer {
        src: staged.buffer.clone(),
        src_offset: staged.offset,
        dst: to.object().clone(),
        dst_offset: at,
        size: staged.size,
    }
}

pub fn seed_001_01_one_ring_holds_mixed_data_of_several_frames<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 16 << 10, WhenFull::Fail);
    let target = rig.buffer(16 << 10, Location::Device, "target");
    let (mut expected, mut held) = (Vec::new(), Vec::new());
    for number in 0..3 {
        let frame = rig.timeline().begin();
        let mut commands = Vec::new();
        for (kind, alignment) in [512, 4, 256].into_iter().enumerate() {
            let bytes = pattern(number * 3 + kind as u64, 1000);
            let staged = ring.write(&bytes, alignment).expect("the ring has room for all three frames");
            commands.push(copy_from::<G>(&staged, &target, expected.len() as u64));
            expected.extend(bytes);
            held.push((staged.offset, staged.buffer.clone()));
        }
        rig.submit_behind_gate(1, frame, &commands);
    }
    // All data is in one buffer at the same time and stays there until the device has read it.
    held.sort_unstable_by_key(|(offset, _)| *offset);
    assert!(held.windows(2).all(|two| two[0].0 + 1000 <= two[1].0 && two[0].1 == two[1].1), "{held:?}");
    let frame = rig.timeline().begin();
    let refused = ring.write(&[1; 9000], 4);
    assert!(matches!(refused, Err(UploadError::Full { .. })) && ring.snapshot().submission_count == 3, "{refused:?}");
    rig.submit(frame, &[]);
    rig.gpu.open_gate(1).expect("the device is not lost");
    let read = rig.download(&target, expected.len() as u64);
    assert_eq!(read, expected);
    ring.validate().expect("the ring is sound");
}

pub fn seed_001_03_alignments_of_vertices_constants_and_texels<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 64 << 10, WAIT);
    let frame = rig.timeline().begin();
    for alignment in [4, 256, 512, 4, 512, 256, 4] {
        let staged = ring.write(&[1; 20], alignment).expect("there is room");
        assert_eq!(staged.offset % alignment, 0);
    }
    assert_eq!(ring.write(&[1; 4], 3).err(), Some(UploadError::BadAlignment { alignment: 3 }));
    assert_eq!(ring.write(&[1; 4], 0).err(), Some(UploadError::BadAlignment { alignment: 0 }));
    assert_eq!(ring.write(&[], 4).err(), Some(UploadError::ZeroSize));
    // In the page of a writer, each write follows the previous one as closely as its alignment allows. Writes larger
    // than a page are aligned too.
    let mut writer = ring.writer(&frame).expect("the frame is the allocator's own");
    let mut end = writer.write(&[1; 20], 4).expect("there is room").offset + 20;
    for alignment in [4, 256, 4, 512, 512, 4, 1, 256, 1024] {
        let staged = writer.write(&[1; 21], alignment).expect("there is room");
        assert_eq!(staged.offset, end.next_multiple_of(alignment), "a multiple of {alignment}");
        end = staged.offset + 21;
    }
    for (size, alignment) in [(9001, 4), (9001, 512), (9001, 256)] {
        assert_eq!(writer.write(&vec![1; size], alignment).expect("there is room").offset % alignment, 0);
    }
    rig.submit(frame, &[]);
}

pub fn seed_001_02_and_04_a_submission_is_listed_at_its_first_write_only<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 64 << 10, WhenFull::Fail);
    let empty = rig.timeline().begin();
    assert_eq!(ring.snapshot().submission_count, 0, "a frame without writes is not listed");
    rig.submit_behind_gate(1, empty, &[]);
    for number in 1..=3 {
        let frame = rig.timeline().begin();
        for _ in 0..5 {
            ring.write(&[1; 64], 4).expect("there is room");
            assert_eq!(ring.snapshot().submission_count, number);
        }
        rig.submit_behind_gate(1, frame, &[]);
    }
    rig.gpu.open_gate(1).expect("the device is not lost");
}

pub fn seed_001_09_a_write_that_fails_moves_nothing<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 4 << 10, WhenFull::Fail);
    let frame = rig.timeline().begin();
    ring.write(&[1; 3000], 4).expect("there is room");
    let before = ring.snapshot();
    for (size, alignment) in [(2000, 4), (0, 4), (8, 3), (5000, 4)] {
        ring.write(&vec![1; size], alignment).expect_err("the write is too large or invalid");
        assert_eq!(ring.snapshot(), before);
    }
    let next = ring.write(&[1; 4], 4).expect("there is room");
    assert!((3000..3328).contains(&next.offset), "directly behind, rounded up to the atom: {}", next.offset);
    rig.submit(frame, &[]);
}

pub fn seed_001_10_the_fence_advances_after_each_submission<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 4 << 10, WAIT);
    let mut last = rig.timeline().submitted_value();
    for _ in 0..3 {
        let frame = rig.timeline().begin();
        ring.write(&[1; 2048], 4).expect("there is room, maybe after a wait");
        assert_eq!(rig.timeline().submitted_value(), last, "a write does not submit work");
        last = rig.submit(frame, &[]);
        assert_eq!(rig.timeline().submitted_value(), last);
    }
    // The fence reaches the value of each submitted frame. Open and discarded frames do not count.
    let [first, second, third] = [(); 3].map(|()| rig.timeline().begin());
    let values = [&first, &second, &third].map(Frame::value);
    assert!(last < values[0] && values.is_sorted_by(|before, after| before < after), "{last}, then {values:?}");
    second.discard();
    for (frame, value) in [(first, values[0]), (third, values[2])] {
        assert_eq!(rig.timeline().submitted_value(), last, "open and discarded frames do not count as submitted");
        last = rig.submit(frame, &[]);
        assert_eq!((last, rig.timeline().submitted_value()), (value, value));
    }
}

pub fn seed_001_05_what_is_complete_is_freed_without_waiting<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 64 << 10, WhenFull::Fail);
    let block = vec![1; 32 << 10];
    for _ in 0..6 {
        let frame = rig.timeline().begin();
        ring.write(&block, 4).expect("polling frees what is complete");
        let value = rig.submit(frame, &[]);
        assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    }
    assert_eq!(ring.snapshot().wait_count, 0);
    drop(ring);
    // One poll frees all complete submissions and no others. It precedes a wait and a growth of the ring.
    let grow = WhenFull::Grow { capacity_max: 64 << 10, timeout: PATIENCE, shrink_after: 99 };
    for (at, when_full) in (0..).zip([WhenFull::Fail, WAIT, grow]) {
        let ring = self::ring(rig, 16 << 10, when_full);
        // The values of the gate are opened one by one, because validation loses track of a skipped value.
        let values = [1, 1, 1, 2].map(|gate| {
            let frame = rig.timeline().begin();
            ring.write(&[1; 4 << 10], 4).expect("there is room");
            rig.submit_behind_gate(3 * at + gate, frame, &[])
        });
        for (gate, value) in [(1, values[2]), (2, values[3])] {
            render(rig, 3 * at + gate, value);
            let frame = rig.timeline().begin();
            (0..2).for_each(|_| _ = ring.write(&[1; 4 << 10], 4).expect("polling frees what is complete"));
            let held = ring.snapshot();
            assert_eq!((held.submission_count, held.wait_count, held.grow_count), (2, 0, 0), "{when_full:?}");
            rig.submit_behind_gate(3 * at + 3, frame, &[]);
        }
        rig.gpu.open_gate(3 * at + 3).expect("the device is not lost");
    }
}

pub fn seed_001_06_waits_for_the_oldest_submission_only<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 64 << 10, WAIT);
    let target = rig.buffer(32 << 10, Location::Device, "target");
    let bytes = pattern(9, 30 << 10);
    for _ in 0..2 {
        let frame = rig.timeline().begin();
        let staged = ring.write(&bytes, 4).expect("two halves fit");
        rig.submit(frame, &[copy_from::<G>(&staged, &target, 0)]);
    }
    let frame = rig.timeline().begin();
    let third = ring.write(&bytes, 4).expect("the oldest submission is freed");
    assert_eq!(third.offset, 0, "it replaces the oldest data");
    let held = ring.snapshot();
    assert!(held.submission_count <= 2 && held.used_bytes >= 30 << 10, "{held:?}");
    rig.submit(frame, &[copy_from::<G>(&third, &target, 0)]);
    assert_eq!(rig.download(&target, 30 << 10), bytes);
}

/// A write waits only for the oldest submission. All others wait for the gate, so a wait for them would time out.
pub fn seed_001_06_what_is_not_the_oldest_is_not_waited_for<G: Gpu>(rig: &mut Rig<G>) {
    const QUARTER: usize = 16 << 10;
    let ring = ring(rig, 4 * QUARTER as u64, WAIT);
    let target = rig.buffer(2 * QUARTER as u64, Location::Device, "target");
    let stage = |rig: &mut Rig<G>, number: u64, quarters: usize| {
        let frame = rig.timeline().begin();
        let bytes = pattern(number, quarters * QUARTER);
        let staged = ring.write(&bytes, 256).expect("there is room once the oldest is complete");
        let value = rig.submit_behind_gate(number, frame, &[copy_from::<G>(&staged, &target, 0)]);
        (staged.offset / QUARTER as u64, bytes, value)
    };
    for number in 1..=4 {
        assert_eq!(stage(rig, number, 1).0, number - 1);
    }
    for number in 5..=6 {
        rig.gpu.open_gate(number - 4).expect("the device is not lost");
        assert_eq!(stage(rig, number, 1).0, number - 5, "it replaces the oldest data");
        assert_eq!(ring.snapshot().submission_count, 4, "no other submission was freed");
    }
    // The write needs the space of two submissions. It waits for one after the other.
    (3..=4).for_each(|number| rig.gpu.open_gate(number).expect("the device is not lost"));
    let (at, bytes, last) = stage(rig, 7, 2);
    assert_eq!((at, ring.snapshot().submission_count), (2, 3), "of frames 3 and 4; 5 and 6 are still held back");
    (5..=6).for_each(|number| rig.gpu.open_gate(number).expect("the device is not lost"));
    render(rig, 7, last);
    assert_eq!(rig.download(&target, bytes.len() as u64), bytes);
}

pub fn seed_001_06_a_wait_for_the_oldest_ends_at_its_timeout<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 4 << 10, WAIT_IN_VAIN);
    let frame = rig.timeline().begin();
    ring.write(&[1; 4096], 4).expect("all of it");
    let value = rig.submit_behind_gate(1, frame, &[]);
    let next = rig.timeline().begin();
    for count in 1..=2 {
        let refused = ring.write(&[1; 4], 4);
        assert!(matches!(refused, Err(UploadError::Timeout { .. })), "it waits: {refused:?}");
        let held = ring.snapshot();
        assert_eq!((held.wait_count, held.submission_count, held.used_bytes), (count, 1, 4096), "nothing was freed");
    }
    render(rig, 1, value);
    ring.write(&[1; 4], 4).expect("the oldest is complete");
    rig.submit(next, &[]);
}

pub fn seed_001_07_too_large_fails_before_any_wait<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 4 << 10, WAIT);
    let frame = rig.timeline().begin();
    ring.write(&[1; 4096], 4).expect("all of it");
    let value = rig.submit_behind_gate(1, frame, &[]);
    let next = rig.timeline().begin();
    let before = ring.snapshot();
    let refused = ring.write(&[1; 5000], 4);
    assert!(matches!(refused, Err(UploadError::TooLarge { size: 5000.., capacity: 4096 })), "{refused:?}");
    assert_eq!(ring.snapshot(), before);
    assert_eq!(before.wait_count, 0, "a wait for gated work would not end");
    render(rig, 1, value);
    rig.submit(next, &[]);
}

/// Frames 2 to 5 are in the ring, and frame 6 needs more than the free space. A poll finds frame 3 complete, which is
/// not enough. With frame 4, which the write waits for, the space is enough, and the data replaces frames 3 and 4. The
/// gate controls which frames are complete.
pub fn seed_001_08_figures_1_to_4<G: Gpu>(rig: &mut Rig<G>) {
    const UNIT: usize = 4 << 10;
    let ring = ring(rig, 8 * UNIT as u64, WAIT);
    let target = rig.buffer(5 * UNIT as u64, Location::Device, "target");
    let stage = |rig: &mut Rig<G>, number: u64, units: usize| {
        let frame = rig.timeline().begin();
        let bytes = pattern(number, units * UNIT);
        let staged = ring.write(&bytes, 256).expect("there is room, maybe after a wait");
        let commands = [copy_from::<G>(&staged, &target, 0)];
        let (gate, value) = (rig.gpu.gate(), frame.value());
        rig.gpu.submit(0, &[(gate, number)], &commands, value).expect("the device is not lost");
        rig.timeline().submitted(frame).expect("in order");
        (bytes, staged.offset / UNIT as u64, value)
    };
    let rendered = |rig: &mut Rig<G>, number: u64, value: u64| {
        rig.gpu.open_gate(number).expect("the device is not lost");
        assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"), "frame {number} is rendered");
    };
    let (_, _, second) = stage(rig, 2, 3); // units 0 to 2
    let (_, _, third) = stage(rig, 3, 2); // 3 and 4
    rendered(rig, 2, second);
    let (_, fourth_at, _) = stage(rig, 4, 3); // 5 to 7
    let (_, fifth_at, _) = stage(rig, 5, 2); // 0 and 1, the space of frame 2
    assert_eq!((fourth_at, fifth_at), (5, 0), "the data of frame 5 wraps");
    // Figure 1: one unit is free; frame 6 needs five. Figure 2: a poll finds frame 3 complete; three are free.
    rendered(rig, 3, third);
    // Figure 3: the write waits for frame 4. In a program, the device completes it; here, the gate is opened.
    rig.gpu.open_gate(4).expect("the device is not lost");
    let (bytes, sixth_at, sixth) = stage(rig, 6, 5);
    // Figure 4: the data begins in the unit that was free, and continues in the space of frames 3 and 4.
    assert_eq!(sixth_at, 2);
    let held = ring.snapshot();
    assert_eq!((held.submission_count, held.used_bytes), (2, 7 * UNIT as u64), "only frames 5 and 6");
    rig.gpu.open_gate(6).expect("the device is not lost");
    assert!(rig.timeline().wait(sixth, PATIENCE).expect("the device is not lost"));
    assert_eq!(rig.download(&target, 5 * UNIT as u64), bytes);
    ring.validate().expect("the ring is sound");
}

/// Each figure separately: a wait for gated work times out, and the ring then has the state of the figure.
pub fn seed_001_08_each_figure_shows_in_the_ring<G: Gpu>(rig: &mut Rig<G>) {
    const UNIT: usize = 4 << 10;
    let ring = ring(rig, 8 * UNIT as u64, WAIT_IN_VAIN);
    let target = rig.buffer(5 * UNIT as u64, Location::Device, "target");
    let stage = |rig: &mut Rig<G>, number: u64, units: usize| {
        let frame = rig.timeline().begin();
        ring.write(&pattern(number, units * UNIT), 256).expect("there is room");
        rig.submit_behind_gate(number, frame, &[])
    };
    // Number of submissions, of units in use, and of waits.
    let figures = || {
        let held = ring.snapshot();
        (held.submission_count, held.used_bytes / UNIT as u64, held.wait_count)
    };
    let second = stage(rig, 2, 3);
    let third = stage(rig, 3, 2);
    render(rig, 2, second);
    let fourth = stage(rig, 4, 3);
    let fifth = stage(rig, 5, 2);
    assert_eq!(figures(), (3, 7, 0), "polling freed the rendered frame");
    let frame = rig.timeline().begin();
    let bytes = pattern(6, 5 * UNIT);
    let vain = |what: &str| {
        let refused = ring.write(&bytes, 256);
        assert!(matches!(refused, Err(UploadError::Timeout { .. })), "{what}: {refused:?}");
    };
    vain("figure 1: not enough is free, and frame 3 is not rendered");
    assert_eq!(figures(), (3, 7, 1));
    render(rig, 3, third);
    vain("figure 2: frame 3 is, which is not enough");
    assert_eq!(figures(), (2, 5, 2), "the poll freed frame 3; the wait was for frame 4");
    render(rig, 4, fourth);
    let sixth = ring.write(&bytes, 256).expect("figure 3: frame 4 is rendered");
    assert_eq!(
        (sixth.offset / UNIT as u64, sixth.size),
        (2, bytes.len() as u64),
        "figure 4: at the space of frames 3 and 4"
    );
    assert_eq!(figures(), (2, 7, 2), "frames 5 and 6");
    render(rig, 5, fifth);
    let value = rig.submit(frame, &[copy_from::<G>(&sixth, &target, 0)]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    assert_eq!(rig.download(&target, bytes.len() as u64), bytes);
    ring.validate().expect("the ring is sound");
}

/// One write waits for three submissions in turn, and uses the space of all three.
pub fn seed_001_08_one_allocation_takes_the_space_of_several_submissions<G: Gpu>(rig: &mut Rig<G>) {
    const UNIT: usize = 4 << 10;
    let ring = ring(rig, 4 * UNIT as u64, WAIT);
    let target = rig.buffer(3 * UNIT as u64, Location::Device, "target");
    for number in 1..=4 {
        let frame = rig.timeline().begin();
        ring.write(&pattern(number, UNIT), 256).expect("there is room");
        rig.submit_behind_gate(number, frame, &[]);
    }
    (1..=3).for_each(|number| rig.gpu.open_gate(number).expect("the device is not lost"));
    let frame = rig.timeline().begin();
    let bytes = pattern(5, 3 * UNIT);
    let staged = ring.write(&bytes, 256).expect("frames 1 to 3 are complete in the end");
    assert_eq!(
        (staged.offset, ring.snapshot().submission_count),
        (0, 2),
        "the space of all three; frame 4 is held back"
    );
    rig.gpu.open_gate(4).expect("the device is not lost");
    rig.submit(frame, &[copy_from::<G>(&staged, &target, 0)]);
    assert_eq!(rig.download(&target, bytes.len() as u64), bytes);
}

pub fn seed_001_11_waits_are_counted_with_their_time_and_the_high_water_stays<G: Gpu>(rig: &mut Rig<G>) {
    const BYTES: usize = 24 << 10;
    let ring = ring(rig, 64 << 10, WAIT_IN_VAIN);
    let stage = |rig: &mut Rig<G>, number: u64| {
        let frame = rig.timeline().begin();
        ring.write(&[1; BYTES], 256).expect("there is room");
        rig.submit_behind_gate(number, frame, &[])
    };
    let first = stage(rig, 1);
    let second = stage(rig, 2);
    let held = ring.snapshot();
    let bytes = 2 * BYTES as u64;
    assert_eq!((held.used_bytes, held.high_water_bytes, held.written_bytes), (bytes, bytes, bytes));
    assert_eq!((held.wait_count, held.wait_ns), (0, 0), "there was no wait");
    let frame = rig.timeline().begin();
    let mut before = held;
    for count in 1..=3 {
        let refused = ring.write(&[1; BYTES], 256);
        let Err(UploadError::Timeout { waited_ns }) = refused else { panic!("the gate is closed: {refused:?}") };
        let now = ring.snapshot();
        let wait_ns = now.wait_ns - before.wait_ns;
        assert!(now.wait_count == count && wait_ns <= waited_ns, "{now:?}, {waited_ns} ns in all");
        // On the simulated device, a wait takes almost no time.
        let least_ns = if G::NAME == "sim" { 1 } else { VAIN_WAIT.as_nanos() as u64 };
        assert!(wait_ns >= least_ns, "{wait_ns} ns");
        assert_eq!((now.used_bytes, now.high_water_bytes, now.written_bytes), (bytes, bytes, bytes));
        before = now;
    }
    render(rig, 1, first);
    ring.write(&[1; BYTES], 256).expect("the first is complete");
    let full = ring.snapshot();
    assert_eq!((full.used_bytes, full.high_water_bytes), (64 << 10, 64 << 10), "the tail that was skipped counts");
    assert_eq!(
        (full.wait_count, full.wait_ns),
        (before.wait_count, before.wait_ns),
        "polling does not count as a wait"
    );
    render(rig, 2, second);
    let value = rig.submit(frame, &[]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    rig.memory.reclaim();
    let empty = ring.snapshot();
    assert_eq!((empty.used_bytes, empty.submission_count), (0, 0));
    assert_eq!((empty.high_water_bytes, ring.high_water()), (64 << 10, 64 << 10), "the high-water mark stays");
    assert_eq!(empty.written_bytes, 3 * BYTES as u64);
}

pub fn seed_001_11_the_ring_reports_its_high_water_and_waits<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 64 << 10, WAIT);
    assert_eq!(ring.high_water(), 0);
    for _ in 0..8 {
        let frame = rig.timeline().begin();
        ring.write(&[1; 24 << 10], 256).expect("there is room, maybe after a wait");
        rig.submit(frame, &[]);
    }
    let figures = ring.snapshot();
    assert!(figures.high_water_bytes >= 48 << 10 && figures.high_water_bytes <= figures.capacity_bytes, "{figures:?}");
    assert_eq!(figures.written_bytes, 8 * (24 << 10));
    assert_eq!(rig.memory.snapshot().rings, [figures], "rings show in the allocator's snapshot");
}

pub fn fault_08_never_waits_for_what_is_not_submitted<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 4 << 10, WAIT);
    let frame = rig.timeline().begin();
    ring.write(&[1; 4096], 4).expect("all of it");
    let refused = ring.write(&[1; 4], 4);
    let point = frame.point();
    assert!(
        matches!(refused, Err(UploadError::Full { waits_for: Some(held), .. }) if held == point),
        "a loop that waits for the oldest frame would wait here for ever: {refused:?}"
    );
    // After the error, the ring is usable.
    rig.submit(frame, &[]);
    let frame = rig.timeline().begin();
    ring.write(&[1; 4], 4).expect("once the frame is submitted, a wait for it succeeds");
    rig.submit(frame, &[]);
}

pub fn a_write_without_an_open_frame_is_refused<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 4 << 10, WAIT);
    assert_eq!(ring.write(&[1; 4], 4).err(), Some(UploadError::NoFrame));
    let frame = rig.timeline().begin();
    ring.write(&[1; 4], 4).expect("a frame is open");
    rig.submit(frame, &[]);
    assert_eq!(ring.write(&[1; 4], 4).err(), Some(UploadError::NoFrame), "the frame was submitted");
}

/// A wait times out if its submission waits for the gate. The gate is opened only afterwards.
pub fn a_fence_that_never_signals_ends_in_a_timeout<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 4 << 10, WhenFull::Wait { timeout: Duration::from_millis(20) });
    let frame = rig.timeline().begin();
    ring.write(&[1; 4096], 4).expect("all of it");
    let (gate, value) = (rig.gpu.gate(), frame.value());
    rig.gpu.submit(0, &[(gate, 1)], &[], value).expect("the device is not lost");
    rig.timeline().submitted(frame).expect("in order");
    let next = rig.timeline().begin();
    let refused = ring.write(&[1; 4], 4);
    assert!(matches!(refused, Err(UploadError::Timeout { .. })), "{refused:?}");
    rig.gpu.open_gate(1).expect("the device is not lost");
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    ring.write(&[1; 4], 4).expect("the ring is usable afterwards");
    rig.submit(next, &[]);
}

/// Writes of one thread: the location and the expected bytes of each.
type Written<G> = Vec<(Staged<<G as Gpu>::Device>, Vec<u8>)>;

pub fn sixteen_threads_write_into_one_ring<G: Gpu>(rig: &mut Rig<G>) {
    const THREADS: u64 = 16;
    let desc = UploadDesc { capacity: 2 << 20, page_bytes: 16 << 10, name: "shared", ..Default::default() };
    let ring = UploadRing::new(&rig.memory, desc).expect("there is room");
    let target = rig.buffer(1 << 20, Location::Device, "target");
    for number in 0..24_u64 {
        let frame = rig.timeline().begin();
        let write = |thread: u64| {
            let mut writer = ring.writer(&frame).expect("the frame is the allocator's own");
            let mut written: Written<G> = Vec::new();
            for step in 0..16_u64 {
                let seed = (number * THREADS + thread) * 16 + step;
                let bytes = pattern(seed, 4 + (seed as usize * 37 % 700) * 4);
                let alignment = [4, 256, 512][step as usize % 3];
                let staged = match step % 8 {
                    7 => ring.write_for(&frame, &bytes, alignment),
                    _ => writer.write(&bytes, alignment),
                };
                let staged = staged.expect("there is room, maybe after a wait");
                assert_eq!(staged.offset % alignment, 0);
                written.push((staged, bytes));
            }
            written
        };
        let all: Written<G> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || write(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no thread fails")).collect()
        });
        let (mut commands, mut expected) = (Vec::new(), Vec::new());
        for (staged, bytes) in all {
            commands.push(copy_from::<G>(&staged, &target, expected.len() as u64));
            expected.extend(bytes);
        }
        rig.submit(frame, &commands);
        rig.memory.reclaim();
        ring.validate().expect("the ring is sound");
        if number % 8 == 7 {
            assert_eq!(rig.download(&target, expected.len() as u64), expected);
        }
    }
    let figures = ring.snapshot();
    assert!(figures.high_water_bytes <= 2 << 20 && figures.written_bytes > 0, "{figures:?}");
    assert!(figures.written_bytes > 2 * figures.capacity_bytes, "the ring wrapped around: {figures:?}");
    assert_eq!(rig.memory.statistics().calls.staged, 24 * THREADS * 16, "every write is counted");
}

pub fn a_writer_takes_the_ring_a_page_at_a_time<G: Gpu>(rig: &mut Rig<G>) {
    let desc = UploadDesc { capacity: 64 << 10, page_bytes: 4 << 10, when_full: WhenFull::Fail, ..Default::default() };
    let ring = UploadRing::new(&rig.memory, desc).expect("there is room");
    let frame = rig.timeline().begin();
    let mut writer = ring.writer(&frame).expect("the frame is the allocator's own");
    assert_eq!(ring.snapshot().used_bytes, 0, "no page before the first write");
    let first = writer.write(&[1; 100], 4).expect("there is room");
    assert_eq!(ring.snapshot().used_bytes, 4 << 10);
    let second = writer.write(&[2; 100], 4).expect("there is room");
    assert_eq!(
        (second.offset - first.offset, ring.snapshot().used_bytes),
        (100, 4 << 10),
        "the second write is in the page"
    );
    let large = writer.write(&[3; 10_000], 256).expect("larger than a page");
    assert!(large.offset >= 4 << 10 && large.offset.is_multiple_of(256));
    let third = writer.write(&[4; 100], 4).expect("there is room");
    assert_eq!(third.offset - first.offset, 200, "the page is continued");
    for (bytes, alignment, error) in
        [(&[][..], 4, UploadError::ZeroSize), (&[1; 8], 3, UploadError::BadAlignment { alignment: 3 })]
    {
        assert_eq!(writer.write(bytes, alignment).err(), Some(error));
    }
    let refused = writer.write(&vec![1; 65 << 10], 4);
    assert!(matches!(refused, Err(UploadError::TooLarge { .. })), "{refused:?}");
    rig.submit(frame, &[]);
}

pub fn writing_to_a_frame_that_is_over_is_refused<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 64 << 10, WAIT);
    let frame = rig.timeline().begin();
    let point = frame.point();
    let mut writer = ring.writer(&frame).expect("the frame is the allocator's own");
    writer.write(&[1; 16], 4).expect("there is room");
    rig.submit(frame, &[]);
    let over = Some(UploadError::FrameOver { frame: point });
    assert_eq!(writer.write(&[1; 16], 4).err(), over, "the frame was submitted");
    let next = rig.timeline().begin();
    assert_eq!(writer.write(&[1; 16], 4).err(), over, "another frame changes nothing");
    writer.begin(&next).expect("the frame is the allocator's own");
    writer.write(&[1; 16], 4).expect("the writer continues with the next frame");
    let point = next.point();
    drop(next);
    assert_eq!(writer.write(&[1; 16], 4).err(), Some(UploadError::FrameOver { frame: point }), "the frame was dropped");
    // The space of a dropped frame is released when a later frame is complete.
    rig.run(&[]);
}

pub fn frames_of_another_allocator_are_refused<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 4 << 10, WAIT);
    let (other, timelines) = rig.allocator(AllocatorDesc::default());
    let foreign = timelines[0].begin();
    let refused = Some(UploadError::ForeignFrame { frame: foreign.point() });
    assert_eq!(ring.write_for(&foreign, &[1; 4], 4).err(), refused);
    assert_eq!(ring.writer(&foreign).err(), refused);
    let frame = rig.timeline().begin();
    let mut writer = ring.writer(&frame).expect("the frame is the allocator's own");
    assert_eq!(writer.begin(&foreign).err(), refused);
    writer.write(&[1; 4], 4).expect("the writer is as before");
    drop((foreign, timelines, other));
    rig.submit(frame, &[]);
}

/// A writer that stays idle while later frames run does not hold up their space, and does not get it.
pub fn an_idle_writer_holds_nothing_up<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 16 << 10, WAIT);
    let first = rig.timeline().begin();
    let mut idle = ring.writer(&first).expect("the frame is the allocator's own");
    idle.write(&[1; 64], 4).expect("there is room");
    rig.submit(first, &[]);
    for _ in 0..10 {
        let frame = rig.timeline().begin();
        ring.write(&[1; 10_000], 4).expect("there is room, maybe after a wait");
        rig.submit(frame, &[]);
    }
    assert!(matches!(idle.write(&[1; 4], 4), Err(UploadError::FrameOver { .. })));
}

/// If a later frame was submitted first, the earlier frame cannot be submitted, and its space is used again.
pub fn a_writer_of_a_frame_that_was_overtaken_is_refused<G: Gpu>(rig: &mut Rig<G>) {
    let ring = ring(rig, 16 << 10, WAIT);
    let overtaken = rig.timeline().begin();
    let mut writer = ring.writer(&overtaken).expect("the frame is the allocator's own");
    writer.write(&[1; 64], 4).expect("there is room");
    let later = rig.timeline().begin();
    let value = rig.submit(later, &[]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    rig.memory.reclaim();
    assert_eq!(ring.snapshot().used_bytes, 0, "the timeline is past both");
    let refused = writer.write(&[1; 64], 4).err();
    assert_eq!(refused, Some(UploadError::FrameOver { frame: overtaken.point() }), "its page may be in use by others");
    drop(overtaken);
    let frame = rig.timeline().begin();
    writer.begin(&frame).expect("the frame is the allocator's own");
    writer.write(&[1; 64], 4).expect("there is room");
    rig.submit(frame, &[]);
}
