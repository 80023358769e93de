//! What is let go of, and when it goes.

use std::time::Duration;

use ringfence::{AllocatorDesc, FrameError, Location, SyncSet};
use ringfence_harness::{Command, Gpu};

use crate::rig::{PATIENCE, Rig, buffer, copy, pattern};
use ringfence::device::BufferUsage;

pub fn a_dropped_buffer_lives_until_its_frame_is_complete<G: Gpu>(rig: &mut Rig<G>) {
    let bytes = pattern(3, 1024);
    let mut upload = rig.buffer(1024, Location::Upload, "source");
    upload.write(0, &bytes).expect("upload memory is mapped");
    let back = rig.buffer(1024, Location::Readback, "back");
    let frame = rig.timeline().begin();
    let command = copy(&upload, 0, &back, 0, 1024);
    drop(upload);
    assert_eq!(rig.memory.reclaim().objects, 0, "the frame that reads it is not even submitted");
    let value = rig.submit(frame, &[command]);
    rig.memory.reclaim();
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    let mut read = vec![0; 1024];
    back.read(0, &mut read).expect("readback memory is mapped");
    assert_eq!(read, bytes);
    rig.memory.reclaim();
    assert_eq!(rig.memory.statistics().retired_count, 0);
}

pub fn a_frame_that_is_dropped_holds_nothing_for_ever<G: Gpu>(rig: &mut Rig<G>) {
    let frame = rig.timeline().begin();
    drop(rig.buffer(1024, Location::Device, "in a frame that never comes"));
    assert_eq!(rig.memory.reclaim().objects, 0);
    drop(frame);
    assert_eq!(rig.memory.reclaim().objects, 1);
    // A later frame in flight does not hold what was let go of before it.
    let frame = rig.timeline().begin();
    let later = rig.timeline().begin();
    drop(rig.buffer(1024, Location::Device, "between two frames"));
    drop(later);
    let value = rig.submit(frame, &[]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    assert_eq!(rig.memory.reclaim().objects, 1);
}

pub fn frames_are_submitted_in_order_on_their_own_timeline<G: Gpu>(rig: &mut Rig<G>) {
    let first = rig.timeline().begin();
    let second = rig.timeline().begin();
    assert!(first.value() < second.value());
    let value = rig.submit(second, &[]);
    let refused = rig.timeline().submitted(first);
    assert!(matches!(refused, Err(FrameError::OutOfOrder { submitted, .. }) if submitted == value), "{refused:?}");
    if let [one, other, ..] = rig.timelines.as_slice() {
        let refused = other.submitted(one.begin());
        assert!(matches!(refused, Err(FrameError::WrongTimeline { .. })), "{refused:?}");
    }
    // The timeline goes on.
    rig.run(&[]);
}

pub fn precise_release_waits_for_its_own_points_only<G: Gpu>(rig: &mut Rig<G>) {
    let held = rig.buffer(1024, Location::Device, "used by the first frame");
    let command = Command::FillBuffer { dst: held.object().clone(), offset: 0, size: 1024, value: 7 };
    let first = rig.timeline().begin();
    let point = first.point();
    rig.submit(first, &[command]);
    let open = rig.timeline().begin();
    // SAFETY: only the first frame uses it.
    unsafe { held.retire_after(&SyncSet::from(point)) };
    assert!(rig.timeline().wait(point.value, PATIENCE).expect("the device is not lost"));
    assert_eq!(rig.memory.reclaim().objects, 1, "the open frame does not hold it");
    drop(open);
}

pub fn empty_blocks_go_after_their_grace<G: Gpu>(rig: &mut Rig<G>) {
    let desc = AllocatorDesc { empty_blocks_kept: 0, empty_block_grace: 3, ..Default::default() };
    let (memory, timelines) = rig.allocator(desc);
    drop(buffer(&memory, 4096, BufferUsage::COPY_DST, Location::Device, ""));
    assert_eq!(memory.reclaim().objects, 1);
    let went = (1..=10).find(|_| memory.reclaim().blocks > 0);
    assert_eq!(went, Some(3), "after its grace, not at once");
    assert_eq!(memory.statistics().total().reserved_bytes(), 0);
    drop(timelines);
}

pub fn an_allocator_that_is_dropped_first_waits_for_the_device<G: Gpu>(rig: &mut Rig<G>) {
    let (memory, timelines) = rig.allocator(AllocatorDesc::default());
    let usage = BufferUsage::COPY_DST;
    let held = buffer(&memory, 1 << 16, usage, Location::Device, "filled");
    let fill = Command::FillBuffer { dst: held.object().clone(), offset: 0, size: 1 << 16, value: 1 };
    // Both allocators follow the same queue, so both have to know of the submission.
    let (frame, theirs) = (rig.timeline().begin(), timelines[0].begin());
    assert_eq!(frame.value(), theirs.value());
    let value = rig.submit(frame, &[fill]);
    timelines[0].submitted(theirs).expect("in order");
    drop((memory, timelines, held));
    assert!(rig.timeline().wait(value, Duration::ZERO).expect("the device is not lost"), "it waited for the work");
}

pub fn a_thousand_frames_stream_and_leave_nothing_behind<G: Gpu>(rig: &mut Rig<G>) {
    let mut upload = rig.buffer(4096, Location::Upload, "source");
    let bytes = pattern(5, 4096);
    upload.write(0, &bytes).expect("upload memory is mapped");
    let mut in_flight = std::collections::VecDeque::new();
    for number in 0..1000_u64 {
        if in_flight.len() == 3 {
            let value = in_flight.pop_front().expect("three are in flight");
            assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
        }
        let frame = rig.timeline().begin();
        let target = rig.buffer(256 + number % 7 * 512, Location::Device, "");
        let commands = [copy(&upload, 0, &target, 0, 256)];
        drop(target);
        in_flight.push_back(rig.submit(frame, &commands));
        rig.memory.reclaim();
        assert!(rig.memory.statistics().retired_count <= 4, "at most what is in flight");
    }
    rig.memory.validate().expect("the allocator is sound");
}
