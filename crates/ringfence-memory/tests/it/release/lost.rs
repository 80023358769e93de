//! The end of an allocator: waiting, with a deadline, and immediately after a device loss. Each object is destroyed
//! once.

use std::time::Duration;

use ringfence::lifetime::{FrameError, RetireBin};
use ringfence::memory::ShutdownError;
use ringfence::sim::Command;
use ringfence::{Frame, SyncPoint};
use ringfence_core::testing::rng::Rng;

use super::world::{BYTES, Program, QUEUES};

/// Runs frames with drops until some work is pending.
fn busy(seed: u64) -> Program {
    let mut world = Program::new(seed);
    for _ in 0..50 {
        (0..3).for_each(|_| world.make());
        (0..QUEUES).for_each(|queue| world.submit(queue));
        let kept = world.held.len().min(4);
        world.held.drain(kept..);
        world.memory.reclaim();
    }
    (0..QUEUES).for_each(|queue| world.device.pause(queue));
    (0..QUEUES).for_each(|queue| world.submit(queue));
    world.make();
    world.held.drain(1..);
    assert!(world.memory.statistics().retired_count > 0);
    world
}

#[test]
fn a_device_lost_in_the_middle_releases_everything_once() {
    for seed in 0..20 {
        let mut world = busy(seed);
        let open = world.timelines[0].begin();
        drop(world.held.pop());
        let waiting = world.memory.statistics().retired_count as usize;
        world.device.lose_device();
        let reclaimed = world.memory.reclaim();
        assert_eq!((reclaimed.objects, reclaimed.waiting, reclaimed.device_lost), (waiting, 0, true), "seed {seed}");
        assert_eq!(world.memory.reclaim().objects, 0, "no object twice");
        drop(open);
        world.close();
    }
}

#[test]
fn threads_that_drop_while_the_device_is_lost_lose_nothing_and_release_nothing_twice() {
    for seed in 0..10 {
        let mut world = Program::new(seed);
        (0..400).for_each(|_| world.make());
        (0..QUEUES).for_each(|queue| world.submit(queue));
        let held: Vec<_> = world.held.drain(..).collect();
        let objects = held.len() as u64;
        let before = world.memory.statistics().calls.destroy_object;
        std::thread::scope(|scope| {
            let mut held = held.into_iter();
            for _ in 0..4 {
                let part: Vec<_> = held.by_ref().take(100).collect();
                scope.spawn(move || drop(part));
            }
            scope.spawn(|| (0..5).for_each(|_| _ = world.memory.reclaim()));
            world.device.lose_device();
            (0..5).for_each(|_| _ = world.memory.reclaim());
        });
        world.memory.shutdown(Duration::ZERO).expect("no wait");
        assert_eq!(world.memory.statistics().calls.destroy_object - before, objects, "seed {seed}");
        world.close();
    }
}

#[test]
fn shutdown_waits_as_long_as_it_takes_or_as_its_timeout_says() {
    let world = busy(3);
    let waiting = world.memory.statistics().retired_count as usize;
    let refused = world.memory.shutdown(Duration::from_millis(1));
    assert!(matches!(refused, Err(ShutdownError::Timeout { waiting: held, .. }) if held == waiting), "{refused:?}");
    assert_eq!(world.memory.statistics().retired_count as usize, waiting, "retired objects are still waiting");
    (0..QUEUES).for_each(|queue| world.device.resume(queue));
    let done = world.memory.shutdown(Duration::MAX).expect("the work goes on");
    assert_eq!((done.objects, done.waiting), (waiting, 0));
    world.close();
}

#[test]
fn shutdown_leaves_what_an_open_frame_holds_and_says_so() {
    let mut world = Program::new(4);
    world.make();
    let open = world.timelines[1].begin();
    let frame = open.point();
    world.held.clear();
    let refused = world.memory.shutdown(Duration::MAX);
    assert_eq!(refused, Err(ShutdownError::OpenFrames { frame, open: 1, waiting: 1 }));
    open.discard();
    assert_eq!(world.memory.shutdown(Duration::MAX).map(|done| (done.objects, done.waiting)), Ok((1, 0)));
    world.close();
}

#[test]
fn shutdown_releases_what_has_passed_before_it_refuses() {
    let mut world = Program::new(5);
    (0..3).for_each(|_| world.make());
    world.device.run_until_idle();
    world.held.drain(1..);
    let open = world.timelines[1].begin();
    let frame = open.point();
    world.held.clear();
    let refused = world.memory.shutdown(Duration::MAX);
    assert_eq!(refused, Err(ShutdownError::OpenFrames { frame, open: 1, waiting: 1 }));
    assert_eq!(world.memory.statistics().retired_count, 1, "the others are released");
    open.discard();
    assert_eq!(world.memory.shutdown(Duration::MAX).map(|done| (done.objects, done.waiting)), Ok((1, 0)));
    world.close();
}

#[test]
fn a_submission_that_fails_discards_its_frame() {
    type Outcome = Result<SyncPoint, Box<dyn std::error::Error>>;
    let mut world = Program::new(7);
    world.make();
    world.device.run_until_idle();
    let held = std::mem::take(&mut world.held);
    let (timeline, other) = (&world.timelines[0], &world.timelines[1]);
    let wrong = timeline.submit(other.begin(), |_| -> Result<(), FrameError> { panic!("a foreign frame") });
    let Err(FrameError::WrongTimeline { frame, .. }) = wrong else { panic!("{wrong:?}") };
    frame.discard();
    let frame = timeline.begin();
    drop(held);
    assert_eq!(world.memory.reclaim().objects, 0, "the frame is open");
    let failed: Outcome = timeline.submit(frame, |_| Err("the queue is full".into()));
    assert_eq!(failed.map_err(|error| error.to_string()), Err("the queue is full".to_string()));
    assert_eq!(world.memory.reclaim().objects, 1, "its value is not waited for");
    let frame = timeline.begin();
    let expected = frame.point();
    let fence = world.fences[0];
    let submitted: Outcome =
        timeline.submit(frame, |value| Ok(world.device.submit(0, &[], Vec::new(), (fence, value))?));
    assert_eq!(submitted.expect("it is submitted"), expected);
    world.close();
}

/// The submission of the last frame failed, so its value is never signalled.
#[test]
fn shutdown_does_not_wait_for_a_last_frame_that_failed_as_long_as_its_timeout_says() {
    let mut world = Program::new(6);
    world.make();
    world.device.run_until_idle();
    let long = Duration::from_secs(100_000);
    let failed = world.timelines[0].begin();
    let frame = failed.point();
    drop(failed);
    world.memory.shutdown(long).expect("no object waits for it");
    world.held.clear();
    let memory = world.memory.clone();
    let (send, receive) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || send.send(memory.shutdown(long)));
    let refused = receive.recv_timeout(Duration::from_secs(120)).expect("it does not wait for so long");
    assert!(
        matches!(refused, Err(ShutdownError::DroppedFrame { frame: held, waiting: 1, .. }) if held == frame),
        "{refused:?}"
    );
    waiting.join().expect("no panic").expect("it is received");
    world.timelines[0].discard_dropped();
    world.memory.shutdown(long).expect("no work is pending");
    world.close();
}

/// Without a timeout, the shutdown still waits for a dropped frame that was submitted.
#[test]
fn shutdown_without_limit_waits_for_a_dropped_frame() {
    let mut world = Program::new(8);
    world.make();
    let (from, to) = (*world.held[0].buffer.object(), *world.target(0).object());
    world.device.run_until_idle();
    let frame = world.timelines[0].begin();
    // The queue has much to do before the frame: a few reads of the fence do not complete the frame.
    let other = world.device.create_fence(0);
    for value in 1..=200 {
        world.device.submit(0, &[], Vec::new(), (other, value)).expect("the device is not lost");
    }
    let work = vec![Command::CopyBuffer { src: from, src_offset: 0, dst: to, dst_offset: 0, size: BYTES }];
    world.device.submit(0, &[], work, (world.fences[0], frame.value())).expect("the device is not lost");
    drop(frame);
    world.held.clear();
    world.memory.shutdown(Duration::MAX).expect("the device completes the frame during the wait");
    world.close();
}

/// The queue is paused, so the allocator cannot see the end of the frame when it is dropped. It frees nothing that the
/// frame uses.
#[test]
fn what_a_dropped_frame_may_use_is_leaked_rather_than_freed_in_use() {
    let mut world = Program::new(7);
    world.make();
    let (from, to) = (*world.held[0].buffer.object(), *world.target(0).object());
    let frame = world.timelines[0].begin();
    let work = vec![Command::CopyBuffer { src: from, src_offset: 0, dst: to, dst_offset: 0, size: BYTES }];
    world.device.pause(0);
    world.device.submit(0, &[], work, (world.fences[0], frame.value())).expect("the device is not lost");
    drop(frame);
    let device = world.device.clone();
    drop(world);
    assert_eq!(device.live().buffers, 1 + QUEUES as u64);
    device.resume(0);
    device.advance(1_000_000);
    let found: Vec<String> = device.take_hazards().iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// Both allocators have begun one frame. If each counted frames separately, the second one's item would get the points
/// of the first one's, which are still kept.
#[test]
fn an_item_of_another_allocator_never_gets_the_set_of_the_one_before() {
    let (one, two) = (Program::new(9), Program::new(10));
    let bin = RetireBin::new();
    let first = one.timelines[0].begin();
    one.memory.retirement().retire_into(&bin, 1);
    let second = two.timelines[0].begin();
    two.memory.retirement().retire_into(&bin, 2);
    one.device.submit(0, &[], vec![], (one.fences[0], first.value())).expect("the device is not lost");
    let point = one.timelines[0].submitted(first).expect("in order");
    assert!(one.timelines[0].wait(point.value, Duration::MAX).expect("the device is not lost"));
    let mut out = Vec::new();
    one.memory.retirement().collect_from(&bin, usize::MAX, &mut out).expect("the device is not lost");
    assert_eq!(out, [1]);
    second.discard();
    two.memory.retirement().collect_from(&bin, usize::MAX, &mut out).expect("the device is not lost");
    assert_eq!(out, [1, 2]);
    one.close();
    two.close();
}

/// The same with a queue that continues: the allocator waits for it, and nothing is leaked.
#[test]
fn a_dropped_frame_that_was_submitted_is_waited_for_at_the_end() {
    let mut world = Program::new(8);
    world.make();
    let (from, to) = (*world.held[0].buffer.object(), *world.target(0).object());
    let frame = world.timelines[0].begin();
    let work = vec![Command::CopyBuffer { src: from, src_offset: 0, dst: to, dst_offset: 0, size: BYTES }];
    world.device.submit(0, &[], work, (world.fences[0], frame.value())).expect("the device is not lost");
    drop(frame);
    world.close();
}

/// Frames are begun, discarded, dropped and submitted in every order. A resource that is released in one of them is
/// destroyed exactly when no frame that began before can use it any more.
#[test]
fn each_end_of_a_frame_holds_what_it_may_use() {
    for seed in 0..200 {
        let mut dice = Rng::new(seed);
        let world = Program::new(seed);
        let timeline = world.timelines[0].clone();
        let fence = world.fences[0];
        let bin = RetireBin::new();
        // Open frames, in ascending order; values that may be signalled; released resources, with the frames that may
        // use them.
        let (mut open, mut pending) = (Vec::<Frame>::new(), Vec::<u64>::new());
        let (mut twin, mut reached, mut submitted) = (Vec::<(u64, Vec<u64>)>::new(), 0, 0);
        for number in 0..120 {
            match dice.below(7) {
                0 | 1 => {
                    open.push(timeline.begin());
                    pending.push(open.last().expect("pushed").value());
                }
                2 if !open.is_empty() => {
                    let frame = open.remove(dice.below(open.len() as u64) as usize);
                    pending.retain(|value| *value != frame.value());
                    frame.discard();
                }
                3 if !open.is_empty() => drop(open.remove(0)),
                4 if !open.is_empty() => {
                    let frame = open.remove(0);
                    // A returned frame is open as before.
                    let frame = match world.timelines[1].submitted(frame) {
                        Err(refused) => refused.into_frame(),
                        Ok(point) => panic!("{point} is of another timeline"),
                    };
                    submitted = frame.value();
                    timeline.submitted(frame).expect("in order");
                }
                5 if submitted > reached => {
                    reached = submitted;
                    world.device.submit(0, &[], vec![], (fence, reached)).expect("the device is not lost");
                    assert!(timeline.wait(reached, Duration::MAX).expect("the device is not lost"));
                    pending.retain(|value| *value > reached);
                }
                _ => {
                    world.memory.retirement().retire_into(&bin, number);
                    twin.push((number, pending.clone()));
                }
            }
            let mut out = Vec::new();
            world.memory.retirement().collect_from(&bin, usize::MAX, &mut out).expect("the device is not lost");
            for item in out {
                let at = twin.iter().position(|(held, _)| *held == item).expect("given out once");
                let (_, users) = twin.swap_remove(at);
                assert!(users.iter().all(|user| !pending.contains(user)), "seed {seed}: {item} is too early");
            }
            if pending.is_empty() {
                assert!(twin.is_empty(), "seed {seed}: no frame is open, pending or unknown");
            }
        }
        open.into_iter().for_each(Frame::discard);
        timeline.discard_dropped();
        let last = timeline.begin();
        world.device.submit(0, &[], vec![], (fence, last.value())).expect("the device is not lost");
        timeline.submitted(last).expect("in order");
        world.memory.shutdown(Duration::MAX).expect("the work is complete");
        let mut out = Vec::new();
        world.memory.retirement().collect_from(&bin, usize::MAX, &mut out).expect("the device is not lost");
        assert_eq!(out.len(), twin.len(), "seed {seed}");
        drop(timeline);
        world.close();
    }
}

#[test]
fn a_bounded_reclaim_leaves_the_rest_for_the_next() {
    let mut world = Program::new(5);
    (0..10).for_each(|_| world.make());
    world.held.clear();
    let went: Vec<_> =
        (0..4).map(|_| world.memory.retirement().reclaim_at_most(3)).map(|did| (did.objects, did.waiting)).collect();
    assert_eq!(went, [(3, 7), (3, 4), (3, 1), (1, 0)]);
    world.close();
}

#[test]
fn an_open_frame_keeps_the_allocator_alive() {
    let mut world = Program::new(6);
    world.make();
    let frame = world.timelines[0].begin();
    let device = world.device.clone();
    drop(world);
    assert_eq!(device.live().buffers, 4, "the frame may use resources that were released while it was open");
    frame.discard();
    assert_eq!(device.live(), Default::default());
    assert!(device.take_hazards().is_empty());
}
