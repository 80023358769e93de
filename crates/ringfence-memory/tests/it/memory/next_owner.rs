//! A recycled object begins anew, and is taken as soon as the device is known to be done with it.

use ringfence::sim::Profile;
use ringfence::{AllocationDesc, AllocatorDesc};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

use crate::memory::world::{KIB, info, needs};

/// Copies that were lost belong to the previous owner of the object.
#[test]
fn lost_copies_are_the_previous_owners() {
    let world = Fixture::new(FixtureDesc::default());
    let desc = AllocationDesc::default();
    let fill = || {
        let mut buffer = world.memory.create_buffer(&info(KIB), desc).expect("room");
        let frame = world.timeline().begin();
        buffer.resize(&frame, &info(4 * KIB), KIB, desc).expect("room").expect("bytes are kept");
        frame.discard();
        buffer
    };
    let lost = fill();
    assert!(lost.take_content_lost(), "the frame was not submitted");
    assert!(!lost.take_content_lost(), "it is reported once");
    drop(lost);
    let lost = fill();
    world.memory.reclaim();
    drop(lost);
    world.complete(world.timeline().begin());
    world.memory.reclaim();
    let before = world.memory.statistics().calls.recycled;
    let next = [(); 2].map(|()| world.memory.create_buffer(&info(4 * KIB), desc).expect("room"));
    assert!(world.memory.statistics().calls.recycled > before, "the object is recycled");
    assert!(next.iter().all(|buffer| !buffer.take_content_lost()), "the new owner has lost no copies");
    drop(next);
    world.finish();
}

/// A dropped object that the device was seen to be done with serves the next request without a reclaim.
#[test]
fn a_dropped_object_serves_the_next_request_without_a_reclaim() {
    let world = Fixture::new(FixtureDesc::default());
    let make = || world.memory.create_buffer(&info(4 * KIB), AllocationDesc::default()).expect("room");
    drop(make());
    world.memory.reclaim();
    drop(make());
    world.memory.reclaim();
    let created = world.device.calls().create_buffer;
    for turn in 0..5 {
        let buffer = make();
        let frame = world.timeline().begin();
        drop(buffer);
        world.complete(frame);
        assert_eq!(world.device.calls().create_buffer, created, "turn {turn}");
        assert_eq!(world.memory.statistics().retired_count, 1);
    }
    // While a submission may use it, it serves no request.
    let buffer = make();
    let frame = world.timeline().begin();
    drop(buffer);
    let other = make();
    assert_eq!(world.device.calls().create_buffer, created + 1);
    world.complete(frame);
    drop(other);
    world.finish();
}

/// Drops beyond the thousandth destroy what is complete. The last seen progress is enough for it: no driver call reads
/// a timeline on which nothing is open.
#[test]
fn many_drops_on_an_idle_device_read_no_timeline() {
    let allocator = AllocatorDesc { small_slots: false, ..Default::default() };
    let world = Fixture::new(FixtureDesc { profile: Profile::h200(), allocator, ..Default::default() });
    world.complete(world.timeline().begin());
    let make = |_| world.memory.allocate(needs(KIB, 256), AllocationDesc::default()).expect("room");
    let held: Vec<_> = (0..4000).map(make).collect();
    let read = world.device.calls().completed;
    drop(held);
    assert_eq!(world.device.calls().completed, read);
    assert!(world.memory.statistics().retired_count <= 1280, "{}", world.memory.statistics().retired_count);
    world.memory.reclaim();
    assert_eq!(world.memory.statistics().retired_count, 0);
    world.finish();
}
