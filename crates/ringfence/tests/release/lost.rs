//! The ends of life: waiting, with a deadline, at once after a device loss; everything once, nothing twice.

use std::time::Duration;

use ringfence::memory::ShutdownError;

use super::world::{QUEUES, World};

/// Frames with drops, until some work is pending.
fn busy(seed: u64) -> World {
    let mut world = World::new(seed);
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
        assert_eq!(world.memory.reclaim().objects, 0, "nothing twice");
        drop(open);
        world.close();
    }
}

#[test]
fn threads_that_drop_while_the_device_is_lost_lose_nothing_and_release_nothing_twice() {
    for seed in 0..10 {
        let mut world = World::new(seed);
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
        world.memory.shutdown(Duration::ZERO).expect("nothing is waited for");
        assert_eq!(world.memory.statistics().calls.destroy_object - before, objects, "seed {seed}");
        world.close();
    }
}

#[test]
fn shutdown_waits_as_long_as_it_takes_or_as_it_is_told() {
    let world = busy(3);
    let waiting = world.memory.statistics().retired_count as usize;
    let refused = world.memory.shutdown(Duration::from_millis(1));
    assert!(matches!(refused, Err(ShutdownError::Timeout { waiting: held, .. }) if held == waiting), "{refused:?}");
    assert_eq!(world.memory.statistics().retired_count as usize, waiting, "what was waiting still waits");
    (0..QUEUES).for_each(|queue| world.device.resume(queue));
    let done = world.memory.shutdown(Duration::MAX).expect("the work goes on");
    assert_eq!((done.objects, done.waiting), (waiting, 0));
    world.close();
}

#[test]
fn shutdown_leaves_what_an_open_frame_holds() {
    let mut world = World::new(4);
    world.make();
    let open = world.timelines[1].begin();
    world.held.clear();
    let done = world.memory.shutdown(Duration::MAX).expect("nothing is submitted");
    assert_eq!((done.objects, done.waiting), (0, 1));
    drop(open);
    assert_eq!(world.memory.reclaim().objects, 1);
    world.close();
}

#[test]
fn a_bounded_reclaim_leaves_the_rest_for_the_next() {
    let mut world = World::new(5);
    (0..10).for_each(|_| world.make());
    world.held.clear();
    let went: Vec<_> = (0..4).map(|_| world.memory.reclaim_at_most(3)).map(|did| (did.objects, did.waiting)).collect();
    assert_eq!(went, [(3, 7), (3, 4), (3, 1), (1, 0)]);
    world.close();
}

#[test]
fn an_open_frame_keeps_the_allocator_alive() {
    let mut world = World::new(6);
    world.make();
    let frame = world.timelines[0].begin();
    let device = world.device.clone();
    drop(world);
    assert_eq!(device.live().buffers, 4, "the frame may use what was let go of during it");
    drop(frame);
    assert_eq!(device.live(), Default::default());
    assert!(device.take_hazards().is_empty());
}
