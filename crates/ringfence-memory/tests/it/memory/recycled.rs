//! Recycled objects on the simulated device: the objects that are reused, those that never are, the bound on their
//! bytes, and the detection of mistakes.

use std::time::Duration;

use ringfence::debugging::DebugDesc;
use ringfence::device::{
    BufferDesc, BufferUsage, Driver, Format, MemoryProperties, Priority, TextureDesc, TextureUsage,
};
use ringfence::lifetime::SyncSet;
use ringfence::memory::{Error, PlannedWay, PoolDesc};
use ringfence::sim::{self, Command, HazardKind};
use ringfence::{AllocationDesc, AllocatorDesc, Buffer, Dedicated, Location, SmallBuffer, Texture};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

use crate::memory::world::{KIB, MIB, card, info, needs, next};

fn fixture(allocator: AllocatorDesc) -> Fixture {
    Fixture::new(FixtureDesc { allocator, ..Default::default() })
}

fn texture() -> TextureDesc {
    TextureDesc { width: 64, height: 64, usage: TextureUsage::SAMPLED | TextureUsage::COPY_DST, ..Default::default() }
}

fn small() -> BufferDesc {
    BufferDesc { size: 1000, usage: BufferUsage::VERTEX | BufferUsage::COPY_DST }
}

/// Buffers, textures and small buffers with one description each.
type Round = (Vec<Buffer<sim::Device>>, Vec<Texture<sim::Device>>, Vec<SmallBuffer<sim::Device>>);

fn round(world: &Fixture, count: usize) -> Round {
    let desc = AllocationDesc::default();
    let buffers = (0..count).map(|_| world.memory.create_buffer(&info(4 * KIB), desc).expect("room"));
    let textures = (0..count).map(|_| world.memory.create_texture(&texture(), desc).expect("room"));
    let small = (0..count).map(|_| world.memory.create_small_buffer(small(), Location::Device).expect("room"));
    (buffers.collect(), textures.collect(), small.collect())
}

#[test]
fn what_the_device_is_done_with_serves_the_next_request_without_a_driver_call() {
    let world = fixture(AllocatorDesc::default());
    for _ in 0..3 {
        drop(round(&world, 40));
        world.complete(world.timeline().begin());
        world.memory.reclaim();
        world.memory.debug().validate().expect("sound");
    }
    let (before, driver) = (world.memory.statistics(), world.device.calls());
    assert_eq!((before.total().range_count, before.recycled_count), (1, 120), "one buffer is there to be shared");
    for _ in 0..50 {
        drop(round(&world, 40));
        world.memory.reclaim();
    }
    let (after, driver_after) = (world.memory.statistics(), world.device.calls());
    assert_eq!(after.calls.create_object, before.calls.create_object);
    assert_eq!(after.calls.recycled - before.calls.recycled, 50 * 120);
    let calls =
        |counts: sim::CallCounts| (counts.create_buffer, counts.create_texture, counts.place, counts.allocate_memory);
    assert_eq!(calls(driver), calls(driver_after));
    world.finish();
}

#[test]
fn what_is_destroyed_at_once_serves_the_next_request_while_a_frame_is_under_way() {
    let world = fixture(AllocatorDesc::default());
    let under_way = world.timeline().begin();
    for turn in 0..3 {
        let (buffers, textures, small) = round(&world, 40);
        // SAFETY: no submission uses any of them.
        unsafe {
            buffers.into_iter().for_each(|buffer| buffer.destroy_now());
            textures.into_iter().for_each(|texture| texture.destroy_now());
            small.into_iter().for_each(|small| small.destroy_now());
        }
        let held = world.memory.statistics();
        assert_eq!((held.retired_count, held.calls.recycled), (0, turn * 120 - 3 * u64::from(turn > 0)), "{turn}");
    }
    // SAFETY: no submission uses it.
    unsafe { world.memory.create_small_buffer(small(), Location::Device).expect("room").retire_after(&SyncSet::new()) };
    world.memory.reclaim();
    assert_eq!(world.memory.statistics().retired_count, 0, "it did not wait, although a frame is open");
    world.complete(under_way);
    world.finish();
}

#[test]
fn what_a_submission_uses_serves_no_other_owner_before_that_is_complete() {
    let world = fixture(AllocatorDesc::default());
    for _ in 0..3 {
        drop(round(&world, 4));
        world.complete(world.timeline().begin());
        world.memory.reclaim();
    }
    let (buffers, textures, small) = round(&world, 4);
    let frame = world.timeline().begin();
    world.device.pause(0);
    let fill =
        |buffer: &Buffer<sim::Device>| Command::FillBuffer { dst: *buffer.object(), offset: 0, size: KIB, value: 1 };
    let value = world.submit_frame(frame, buffers.iter().map(fill).collect());
    let held: Vec<_> = buffers.iter().map(|buffer| *buffer.object()).collect();
    let at: Vec<_> = buffers.iter().map(|buffer| (buffer.memory().id(), buffer.offset())).collect();
    drop((buffers, textures, small));
    world.memory.reclaim();
    let (others, ..) = round(&world, 4);
    assert!(others.iter().all(|buffer| !at.contains(&(buffer.memory().id(), buffer.offset()))));
    world.device.resume(0);
    assert!(world.timeline().wait(value, Duration::MAX).expect("not lost"));
    world.memory.reclaim();
    let (again, ..) = round(&world, 4);
    assert!(
        again.iter().all(|buffer| at.contains(&(buffer.memory().id(), buffer.offset()))),
        "completed objects are reused"
    );
    assert!(again.iter().all(|buffer| !held.contains(buffer.object())), "the device knows each owner's object apart");
    drop((others, again));
    world.finish();
}

/// Each request differs in one property from the first request. None of them reuses a recycled object of the first.
#[test]
fn an_object_serves_no_request_that_differs_in_anything() {
    let plain = AllocationDesc::default();
    let descs = [
        AllocationDesc { location: Location::Upload, ..plain },
        AllocationDesc { dedicated: Dedicated::Always, ..plain },
        AllocationDesc { alignment: 1 << 16, ..plain },
        AllocationDesc { memory_types: !(1 << 31), ..plain },
        AllocationDesc { required: ringfence::device::MemoryProperties::DEVICE_LOCAL, ..plain },
        AllocationDesc { preferred: ringfence::device::MemoryProperties::DEVICE_LOCAL, ..plain },
        AllocationDesc { priority: Priority::High, ..plain },
        AllocationDesc { recycle: false, ..plain },
        AllocationDesc { movable: true, ..plain },
        AllocationDesc { evictable: true, ..plain },
    ];
    let world = fixture(AllocatorDesc::default());
    let keep = || {
        drop(round(&world, 4));
        world.complete(world.timeline().begin());
        world.memory.reclaim();
    };
    (0..3).for_each(|_| keep());
    let recycled = || world.memory.statistics().calls.recycled;
    let before = recycled();
    for desc in descs {
        drop(world.memory.create_buffer(&info(4 * KIB), desc).expect("room"));
        if desc.location == Location::Device {
            drop(world.memory.create_texture(&texture(), desc).expect("room"));
        }
        assert_eq!(recycled(), before, "{desc:?}");
    }
    for buffer in [info(4 * KIB + 1), BufferDesc { usage: BufferUsage::COPY_DST, ..info(4 * KIB) }] {
        drop(world.memory.create_buffer(&buffer, plain).expect("room"));
    }
    let one = texture();
    for other in [
        TextureDesc { width: 63, ..one },
        TextureDesc { height: 63, ..one },
        TextureDesc { layers: 2, ..one },
        TextureDesc { mips: 2, ..one },
        TextureDesc { format: Format::Rgba8Sint, ..one },
        TextureDesc { usage: TextureUsage::SAMPLED, ..one },
    ] {
        drop(world.memory.create_texture(&other, plain).expect("room"));
    }
    assert_eq!(recycled(), before);
    drop(world.memory.create_buffer(&info(4 * KIB), plain).expect("room"));
    assert_eq!(recycled(), before + 1, "the same is served");
    world.finish();
}

#[test]
fn what_was_given_another_priority_is_not_kept() {
    let world = fixture(AllocatorDesc::default());
    let desc = AllocationDesc { dedicated: Dedicated::Always, ..AllocationDesc::default() };
    let make = || world.memory.create_buffer(&info(MIB), desc).expect("room");
    for raised in [false, false, true, false] {
        let buffer = make();
        assert!(!raised || buffer.set_priority(Priority::High), "it has dedicated memory");
        drop(buffer);
        world.memory.reclaim();
    }
    let calls = world.memory.statistics().calls;
    assert_eq!((calls.recycled, calls.create_object), (1, 3), "the third was the second's, and was not recycled again");
    world.finish();
}

#[test]
fn name_and_user_data_are_the_next_owners() {
    let world = fixture(AllocatorDesc::default());
    let named = |name, user_data| AllocationDesc { name, user_data, ..Default::default() };
    for (name, user_data) in [("one", 1), ("one", 1), ("one", 2), ("two", 2), ("", 0), ("three", 3), ("three", 3)] {
        for round in 0..2 {
            let buffer = world.memory.create_buffer(&info(4 * KIB), named(name, user_data)).expect("room");
            assert_eq!(buffer.user_data(), user_data);
            let ranges: Vec<_> = world.memory.snapshot().blocks.into_iter().flat_map(|block| block.ranges).collect();
            let [range] = ranges.as_slice() else { panic!("{round}: {ranges:?}") };
            assert_eq!((range.name.as_str(), range.user_data), (name, user_data));
            drop(buffer);
            world.memory.reclaim();
            assert!(world.memory.snapshot().blocks.iter().all(|block| block.ranges.is_empty()), "it counts as free");
        }
    }
    assert!(world.memory.statistics().calls.recycled >= 10);
    world.finish();
}

#[test]
fn what_is_made_once_is_not_kept_and_what_is_not_asked_for_again_goes() {
    let world = fixture(AllocatorDesc { empty_block_grace: 60, ..Default::default() });
    for size in 1..1000 {
        drop(world.buffer(256 * size, AllocationDesc::default()).expect("room"));
        world.memory.reclaim();
        assert_eq!(world.memory.statistics().recycled_count, 0, "{size}");
    }
    for _ in 0..3 {
        drop(round(&world, 20));
        world.memory.reclaim();
    }
    assert_eq!(world.memory.statistics().recycled_count, 60);
    (0..100).for_each(|_| _ = world.memory.reclaim());
    let statistics = world.memory.statistics();
    assert_eq!((statistics.recycled_count, statistics.recycled_bytes), (0, 0));
    (0..200).for_each(|_| _ = world.memory.reclaim());
    assert!(world.memory.statistics().total().block_count <= 2, "their blocks are freed too, except one of each kind");
    world.finish();
}

#[test]
fn memory_that_is_short_is_taken_of_what_is_kept() {
    let profile = card(8 * MIB, 64 * MIB);
    let world = Fixture::new(FixtureDesc { profile, ..Default::default() });
    let strict = AllocationDesc { within_budget: true, memory_types: 1, ..Default::default() };
    for _ in 0..3 {
        let held: Vec<_> = (0..5).map(|_| world.buffer(MIB, strict).expect("room")).collect();
        drop(held);
        world.memory.reclaim();
    }
    assert!(world.memory.statistics().recycled_bytes >= 5 * MIB);
    let plan = world.memory.plan().buffer(&info(MIB), strict).expect("room");
    assert_eq!((plan.way, plan.requested_bytes), (PlannedWay::Recycled, 0));
    let large = world.buffer(6 * MIB, strict).expect("recycled objects are destroyed first");
    assert_eq!(world.memory.statistics().recycled_bytes, 0);
    drop(large);
    world.memory.reclaim();
    for _ in 0..3 {
        drop(round(&world, 4));
        world.memory.reclaim();
    }
    assert!(world.memory.statistics().recycled_count > 0);
    world.memory.budgets().trim();
    let statistics = world.memory.statistics();
    assert_eq!(
        (statistics.recycled_count, statistics.total().reserved_bytes()),
        (0, 0),
        "no object is left after a trim"
    );
    world.finish();
}

/// Creates and drops buffers twice, so that the second set is kept with its dedicated memory.
fn keep_dedicated(world: &Fixture, count: usize, bytes: u64) {
    let desc = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
    for _ in 0..2 {
        let held: Vec<_> = (0..count).map(|_| world.buffer(bytes, desc).expect("room")).collect();
        drop(held);
        world.memory.reclaim();
    }
}

#[test]
fn memory_of_its_own_that_is_kept_is_reserved_and_not_in_use() {
    let world = fixture(AllocatorDesc::default());
    keep_dedicated(&world, 1, 100 * MIB);
    assert_eq!(world.device.live().memories, 1);
    let (statistics, snapshot) = (world.memory.statistics(), world.memory.snapshot());
    let total = statistics.total();
    assert_eq!((statistics.recycled_count, statistics.recycled_bytes), (1, 100 * MIB));
    assert_eq!((total.reserved_bytes(), total.used_bytes()), (100 * MIB, 0));
    assert_eq!((total.block_count, total.range_count, total.dedicated_count), (1, 0, 0), "as an empty block");
    assert!(total.block_bytes_high_water >= total.block_bytes);
    assert_eq!(world.memory.budgets().heap(0).reserved_bytes, total.reserved_bytes());
    assert_eq!(snapshot.heaps[0].reserved_bytes, total.reserved_bytes());
    assert!(snapshot.types.iter().map(|held| held.statistics).eq(statistics.types));
    let [block] = snapshot.blocks.as_slice() else { panic!("{:?}", snapshot.blocks) };
    assert_eq!((block.dedicated, block.bytes, block.free_bytes()), (false, 100 * MIB, 100 * MIB));

    let desc = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
    let again = world.buffer(100 * MIB, desc).expect("room");
    let total = world.memory.statistics().total();
    assert_eq!((total.reserved_bytes(), total.used_bytes()), (100 * MIB, 100 * MIB));
    assert_eq!((total.block_count, total.dedicated_count), (0, 1));
    assert!(world.memory.snapshot().blocks[0].dedicated);
    drop(again);
    world.finish();
}

#[test]
fn a_trim_says_what_goes_of_that_which_is_kept() {
    let world = fixture(AllocatorDesc::default());
    let reserved = || world.memory.statistics().total().reserved_bytes();
    keep_dedicated(&world, 1, 100 * MIB);
    assert_eq!(world.memory.budgets().trim_to(100 * MIB), 0, "no more is held");
    assert_eq!((world.memory.budgets().trim_to(0), reserved()), (100 * MIB, 0));
    keep_dedicated(&world, 3, MIB);
    assert_eq!((world.memory.budgets().trim(), reserved()), (3, 0));
    // In blocks; some are freed together with their last object.
    for _ in 0..3 {
        let held: Vec<_> = (0..40).map(|_| world.buffer(MIB, AllocationDesc::default()).expect("room")).collect();
        drop((held, round(&world, 40)));
        world.memory.reclaim();
    }
    let (before, objects) = (reserved(), world.device.live().memories);
    assert!(objects > 2 && before >= 40 * MIB, "{objects}: {before}");
    assert_eq!((world.memory.budgets().trim_to(0), reserved(), world.device.live().memories), (before, 0, 0));
    world.finish();
}

/// A thousand sizes, each requested once per frame: sizes that are rounded to the same size share their objects.
#[test]
fn sizes_that_may_be_larger_share_the_objects_of_a_few() {
    let world = fixture(AllocatorDesc::default());
    let desc = AllocationDesc { may_be_larger: true, ..Default::default() };
    let made = || world.memory.statistics().calls.create_object;
    let mut before = 0;
    for frame in 0..5_u64 {
        before = if frame < 3 { made() } else { before };
        let sizes = (0..1000).map(|index| 4 * KIB + (index * 61 + frame * 17) % (60 * KIB));
        let buffers: Vec<_> = sizes
            .map(|size| {
                let buffer = world.memory.create_buffer(&info(size), desc).expect("room");
                let got = buffer.desc().expect("it can be said").size;
                assert!((size..=size + size / 8).contains(&got), "{size}: {got}");
                (size, got, buffer)
            })
            .collect();
        let lost: u64 = buffers.iter().map(|(size, got, _)| got - size).sum();
        assert_eq!(world.memory.statistics().rounded_bytes, lost);
        drop(buffers);
        assert_eq!(world.memory.statistics().rounded_bytes, 0);
        world.complete(world.timeline().begin());
        world.memory.reclaim();
    }
    assert!(made() - before < 100, "of 2,000 requests {} made an object", made() - before);
    // A request that does not allow a larger buffer gets the exact size, and its `rounded_bytes` are 0.
    let exact = world.memory.create_buffer(&info(5000), AllocationDesc::default()).expect("room");
    assert_eq!((exact.desc().expect("it can be said").size, world.memory.statistics().rounded_bytes), (5000, 0));
    let texture = world.memory.create_texture(&texture(), desc).expect("room");
    assert_eq!((texture.desc().expect("it can be said").width, world.memory.statistics().rounded_bytes), (64, 0));
    drop((exact, texture));
    world.finish();
}

/// If the bound is full of objects that are no longer requested, they make room, even without a reclaim.
#[test]
fn what_is_not_asked_for_makes_room_for_what_is() {
    let world = fixture(AllocatorDesc { recycled_bytes_max: MIB, ..Default::default() });
    let desc = AllocationDesc::default();
    // SAFETY: no submission uses them.
    let now = |buffer: Buffer<sim::Device>| unsafe { buffer.destroy_now() };
    let make = |size, count: usize| -> Vec<_> {
        (0..count).map(|_| world.memory.create_buffer(&info(size), desc).expect("room")).collect()
    };
    (0..3).for_each(|_| make(8 * KIB, 200).into_iter().for_each(now));
    assert_eq!(world.memory.statistics().recycled_bytes, MIB);
    (0..40).for_each(|_| make(4 * KIB, 10).into_iter().for_each(now));
    let before = world.memory.statistics().calls.create_object;
    (0..10).for_each(|_| make(4 * KIB, 10).into_iter().for_each(now));
    assert_eq!(world.memory.statistics().calls.create_object, before, "each is recycled");
    world.memory.debug().validate().expect("sound");
    world.finish();
}

#[test]
fn never_more_than_the_bound_is_kept() {
    for (seed, bound) in [(1, 0), (2, 100 * KIB), (3, 5 * MIB), (4, u64::MAX)] {
        let world = fixture(AllocatorDesc { recycled_bytes_max: bound, ..Default::default() });
        let (mut state, mut held, mut most) = (seed, Vec::new(), 0);
        for step in 0..4000 {
            let size = (4 * KIB) << (next(&mut state) % 8);
            held.push(world.buffer(size, AllocationDesc::default()).expect("room"));
            if next(&mut state).is_multiple_of(3) {
                held.drain(..held.len() / 2);
            }
            if next(&mut state).is_multiple_of(5) {
                world.memory.reclaim();
                let kept = world.memory.statistics().recycled_bytes;
                assert!(kept <= bound, "seed {seed}, step {step}: {kept} of {bound}");
                most = most.max(kept);
            }
            if step % 100 == 0 {
                world.memory.debug().validate().expect("sound");
            }
        }
        assert_eq!(most > 0, bound > 0);
        drop(held);
        world.finish();
    }
}

#[test]
fn while_something_is_looked_for_nothing_is_recycled() {
    let debugged = fixture(AllocatorDesc { debug: DebugDesc::everything(), ..Default::default() });
    let recorded = fixture(AllocatorDesc::default());
    recorded.memory.trace().start(std::io::sink()).expect("no object was created");
    for world in [debugged, recorded] {
        for _ in 0..4 {
            drop(round(&world, 4));
            world.memory.reclaim();
            let statistics = world.memory.statistics();
            assert_eq!((statistics.recycled_count, statistics.calls.recycled), (0, 0));
        }
        world.finish();
    }
}

#[test]
fn handles_are_small() {
    assert!(size_of::<Buffer<sim::Device>>() <= 48);
    assert!(size_of::<Texture<sim::Device>>() <= 48);
    assert!(size_of::<SmallBuffer<sim::Device>>() <= 48);
}

/// Uses after the release, and releases before the device has finished, are found although the driver's object still
/// exists.
#[test]
fn a_stale_object_and_one_that_is_released_too_early_are_found() {
    let world = fixture(AllocatorDesc::default());
    for _ in 0..3 {
        drop(round(&world, 2));
        world.memory.reclaim();
    }
    let buffer = world.buffer(4 * KIB, AllocationDesc::default()).expect("room");
    let stale = *buffer.object();
    drop(buffer);
    world.memory.reclaim();
    let next = world.buffer(4 * KIB, AllocationDesc::default()).expect("room");
    let fill = |dst| vec![Command::FillBuffer { dst, offset: 0, size: KIB, value: 1 }];
    let value = world.submit(fill(stale));
    assert!(world.timeline().wait(value, Duration::MAX).expect("not lost"));
    let found = world.device.take_hazards();
    assert!(found.iter().any(|hazard| hazard.kind == HazardKind::Stale), "{found:?}");

    world.device.pause(0);
    let value = world.submit(fill(*next.object()));
    let recycled = world.memory.statistics().recycled_count;
    // SAFETY: violated on purpose. The simulated device reports it, and no host memory is accessed.
    unsafe { next.destroy_now() };
    assert_eq!(world.memory.statistics().recycled_count, recycled + 1);
    let found = world.device.take_hazards();
    assert!(found.iter().any(|hazard| hazard.kind == HazardKind::DestroyedWhilePending), "{found:?}");
    world.device.resume(0);
    assert!(world.timeline().wait(value, Duration::MAX).expect("not lost"));
    world.finish();
}

#[test]
fn an_allocator_recycles_nothing_of_another() {
    let one = fixture(AllocatorDesc::default());
    let other = Fixture::on(&one.device, AllocatorDesc::default());
    for _ in 0..4 {
        drop(round(&one, 4));
        one.memory.reclaim();
    }
    assert!(one.memory.statistics().recycled_count > 0);
    drop(round(&other, 4));
    assert_eq!(other.memory.statistics().calls.recycled, 0);
    other.memory.shutdown(Duration::MAX).expect("no work is pending");
    drop(other);
    one.finish();
}

#[test]
fn threads_hand_objects_to_one_another() {
    let world = fixture(AllocatorDesc { recycled_bytes_max: 8 * MIB, ..Default::default() });
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let world = &world;
            scope.spawn(move || {
                let (mut state, mut held) = (thread + 1, Vec::new());
                for step in 0..1500 {
                    held.push(round(world, 1 + (next(&mut state) % 3) as usize));
                    if next(&mut state).is_multiple_of(4) {
                        held.clear();
                    }
                    if step % 16 == thread {
                        world.memory.reclaim();
                    }
                }
            });
        }
    });
    let statistics = world.memory.statistics();
    assert!(statistics.calls.recycled > statistics.calls.create_object, "{statistics:?}");
    assert!(statistics.recycled_bytes <= 8 * MIB);
    world.finish();
}

/// The last handle of the allocator is dropped while resources live and objects are kept.
#[test]
fn nothing_is_left_when_the_allocator_goes_first() {
    let device = {
        let world = fixture(AllocatorDesc::default());
        // More than a thread caches.
        for _ in 0..3 {
            drop(round(&world, 600));
            world.memory.reclaim();
        }
        let held = round(&world, 4);
        let Fixture { device, memory, timelines, .. } = world;
        drop((timelines, memory));
        drop(held);
        device
    };
    assert_eq!(device.live(), sim::Live::default());
    assert_eq!(device.take_hazards(), []);
    assert!(device.capabilities().memory_objects_max > 0);
}

/// Ages are checked only now and then. A description is known for this many reclaims after its last request, and for
/// only a few more.
#[test]
fn what_is_not_asked_for_stays_as_long_as_it_is_said_to() {
    for grace in [1, 10, 50, 120] {
        for before in 0..40 {
            let world = fixture(AllocatorDesc { empty_block_grace: grace, ..Default::default() });
            (0..before).for_each(|_| _ = world.memory.reclaim());
            let (info, desc) = (info(64 * KIB), AllocationDesc::default());
            for _ in 0..3 {
                drop(world.memory.create_buffer(&info, desc).expect("there is room"));
                world.memory.reclaim();
            }
            let is_kept = || world.memory.plan().buffer(&info, desc).expect("valid").way == PlannedWay::Recycled;
            let stays = (0..300).take_while(|_| is_kept() && world.memory.reclaim().waiting == 0).count() as u64;
            assert!((grace - 1..=grace + 64).contains(&stays), "{stays} of {grace} after {before}");
        }
    }
}

/// Recycled objects count as free: they are destroyed for a request that finds no room and may not grow.
#[test]
fn what_is_recycled_makes_room_for_a_request_that_may_not_grow() {
    let world = fixture(AllocatorDesc::default());
    for _ in 0..3 {
        let held: Vec<_> = (0..12).map(|_| world.memory.create_buffer(&info(MIB), AllocationDesc::default())).collect();
        drop(held);
        world.memory.reclaim();
    }
    let before = world.memory.statistics();
    assert!(before.recycled_bytes >= 8 * MIB, "{before:?}");
    let desc = AllocationDesc { never_grow: true, ..Default::default() };
    let large = world.memory.create_buffer(&info(3 * MIB), desc).expect("the blocks contain only recycled objects");
    assert_eq!(world.memory.statistics().calls.allocate_memory, before.calls.allocate_memory);
    drop(large);
    world.finish();
}

/// Many shortages of memory within one frame do not age recycled objects.
#[test]
fn requests_that_find_no_memory_do_not_age_what_is_recycled_elsewhere() {
    let mut allocator = AllocatorDesc::default();
    allocator.heap_bytes_max[0] = 8 * MIB;
    let world = Fixture::new(FixtureDesc { profile: card(64 * MIB, 64 * MIB), allocator, ..Default::default() });
    let held = AllocationDesc { location: Location::Upload, ..Default::default() };
    for _ in 0..3 {
        drop(world.memory.create_buffer(&info(64 * KIB), held).expect("there is room"));
        world.memory.reclaim();
    }
    let is_kept = || world.memory.plan().buffer(&info(64 * KIB), held).expect("valid").way == PlannedWay::Recycled;
    let large = AllocationDesc { required: MemoryProperties::DEVICE_LOCAL, ..Default::default() };
    for frame in 0..32 {
        for _ in 0..40 {
            let refused = world.memory.create_buffer(&info(16 * MIB), large).map(drop);
            assert!(matches!(refused, Err(Error::OverBudget { heap: 0, .. })), "{refused:?}");
        }
        assert!(is_kept(), "frame {frame}");
        world.memory.reclaim();
    }
    world.finish();
}

/// Recycled objects count as free, even between ranges in use, where no block is freed with them.
#[test]
fn ranges_of_what_is_recycled_serve_another_request_where_memory_is_short() {
    let profile = card(8 * MIB, 64 * MIB);
    let world = Fixture::new(FixtureDesc { profile, ..Default::default() });
    let strict = AllocationDesc { within_budget: true, memory_types: 1, ..Default::default() };
    let mut held: Vec<_> = (0..).map_while(|_| world.memory.create_buffer(&info(256 * KIB), strict).ok()).collect();
    let full = held.len();
    for _ in 0..3 {
        held = held.into_iter().step_by(4).collect();
        world.memory.reclaim();
        while held.len() < full {
            held.push(world.buffer(256 * KIB, strict).expect("dropped objects are recycled"));
        }
    }
    let kept: Vec<_> = held.into_iter().step_by(4).collect();
    world.memory.reclaim();
    let before = world.memory.statistics();
    assert!(before.recycled_bytes >= 2 * MIB, "{before:?}");
    let larger = world.memory.create_buffer(&info(512 * KIB), strict).expect("recycled objects count as free");
    drop((larger, kept));
    world.finish();
}

/// The same for dropped objects, if the device has finished with them.
#[test]
fn ranges_of_what_was_dropped_serve_another_request_where_memory_is_short() {
    let profile = card(8 * MIB, 64 * MIB);
    let world = Fixture::new(FixtureDesc { profile, ..Default::default() });
    let strict = AllocationDesc { within_budget: true, memory_types: 1, recycle: false, ..Default::default() };
    let held: Vec<_> = (0..).map_while(|_| world.memory.create_buffer(&info(256 * KIB), strict).ok()).collect();
    let kept: Vec<_> = held.into_iter().step_by(4).collect();
    let larger = world.memory.create_buffer(&info(512 * KIB), strict).expect("the device is done with it");
    drop((larger, kept));
    world.finish();
}

/// The same if no block may be created either.
#[test]
fn ranges_of_what_was_dropped_serve_a_request_that_may_not_grow_and_a_full_pool() {
    let world = fixture(AllocatorDesc::default());
    let plain = AllocationDesc { recycle: false, ..Default::default() };
    let measured = world.memory.create_buffer(&info(256 * KIB), plain).expect("room");
    let desc = PoolDesc {
        memory_type: measured.memory_type(),
        block_bytes: 2 * MIB,
        block_count_max: 1,
        ..Default::default()
    };
    let pool = world.memory.create_pool(desc).expect("a sound description");
    let make = |size, desc| pool.create_buffer(&info(size), desc);
    let fill = || {
        let held: Vec<_> = (0..).map_while(|_| make(256 * KIB, plain).ok()).collect();
        held.into_iter().step_by(4).collect::<Vec<_>>()
    };
    let kept = fill();
    assert!(kept.len() >= 2, "every fourth; the others are dropped, and the device is done with them");
    let larger = make(512 * KIB, plain).expect("a full pool");
    drop((larger, kept));
    world.memory.reclaim();
    let kept = fill();
    let larger = make(512 * KIB, AllocationDesc { never_grow: true, ..plain }).expect("no block is made");
    drop((larger, kept, measured, pool));
    world.finish();
}

/// An object in memory of the second choice, because the best was full, is not kept: the next request finds room in the
/// best memory again.
#[test]
fn what_found_no_room_in_the_best_memory_type_is_made_anew() {
    let mut heap_bytes_max = [u64::MAX; 16];
    heap_bytes_max[0] = 8 * MIB;
    let allocator = AllocatorDesc { heap_bytes_max, ..Default::default() };
    let world = Fixture::new(FixtureDesc { profile: sim::Profile::h200(), allocator, ..Default::default() });
    let once = |recycle| AllocationDesc { recycle, ..Default::default() };
    let full = world.memory.create_buffer(&info(8 * MIB), once(false)).expect("room");
    let heaps = world.memory.device().capabilities().memory_types.clone();
    let heap_of_next = || {
        let buffer = world.memory.create_buffer(&info(MIB), once(true)).expect("room");
        let heap = heaps[buffer.memory_type() as usize].heap;
        drop(buffer);
        world.memory.reclaim();
        heap
    };
    assert!((0..5).all(|_| heap_of_next() != 0), "the device's own heap is full");
    drop(full);
    world.memory.reclaim();
    world.memory.reclaim();
    assert!((0..5).all(|_| heap_of_next() == 0));
    assert!(world.memory.statistics().calls.recycled > 0);
}

/// A thread that first uses the allocator after the last handle was dropped has no cache that would keep it alive.
#[test]
fn nothing_is_left_by_a_thread_that_comes_after_the_last_handle() {
    let device = {
        let world = fixture(AllocatorDesc::default());
        let desc = AllocationDesc { recycle: false, ..Default::default() };
        // Makes slots of this size exist.
        let mut held: Vec<_> =
            (0..64).map(|_| world.memory.create_buffer(&info(4 * KIB), desc).expect("room")).collect();
        let bytes: Vec<_> = (0..64).map(|_| world.memory.allocate(needs(4 * KIB, 256), desc).expect("room")).collect();
        let Fixture { device, memory, timelines, .. } = world;
        drop((timelines, memory));
        std::thread::spawn(move || {
            held.iter_mut().for_each(|buffer| buffer.replace(&info(4 * KIB), desc).expect("room"));
            // SAFETY: no submission uses them.
            held.into_iter().for_each(|buffer| unsafe { buffer.destroy_now() });
            // SAFETY: as above.
            bytes.into_iter().for_each(|bytes| unsafe { bytes.destroy_now() });
        })
        .join()
        .expect("no panic");
        device
    };
    assert_eq!(device.live(), sim::Live::default());
}
