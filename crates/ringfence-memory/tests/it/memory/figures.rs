//! Figures: each field of the statistics, the snapshot and the budgets after a known program, compared with the
//! device's own counts.

use ringfence::device::{Driver, TextureDesc, TextureUsage};
use ringfence::memory::{DriverCalls, PoolDesc, Statistics, TypeStatistics};
use ringfence::sim::Profile;
use ringfence::{AllocationDesc, AllocatorDesc, Dedicated};

use ringfence_testkit::fixture::{Fixture, FixtureDesc};

use crate::memory::world::{KIB, MIB, info, needs};

/// The type of `Profile::h200` that only the device accesses, and its heap.
const TYPE: u32 = 1;
const HEAP: u32 = 0;

fn fixture() -> Fixture {
    Fixture::new(FixtureDesc { profile: Profile::h200(), ..Default::default() })
}

/// Compares the figures of [`TYPE`] with `expected`, and all other figures with these or with the device.
#[track_caller]
fn compare(world: &Fixture, expected: TypeStatistics) {
    let Statistics { types, calls, .. } = world.memory.statistics();
    assert_eq!(types[TYPE as usize], expected);
    for (index, other) in types.iter().enumerate().filter(|(index, _)| *index != TYPE as usize) {
        assert_eq!(*other, TypeStatistics::default(), "type {index}");
    }
    assert_eq!(world.memory.statistics().total(), expected);
    let (driver, live) = (world.device.calls(), world.device.live());
    assert_eq!((calls.allocate_memory, calls.free_memory), (driver.allocate_memory, driver.free_memory));
    assert_eq!(live.memories, expected.block_count + expected.dedicated_count);
    assert_eq!(world.memory.budgets().memory_object_count(), live.memories);

    let reserved = expected.block_bytes + expected.dedicated_bytes;
    assert_eq!(expected.reserved_bytes(), reserved);
    assert_eq!(expected.used_bytes(), expected.range_bytes + expected.dedicated_bytes);
    let heap = world.memory.budgets().heap(HEAP);
    let reported = world.device.budgets().expect("the device reports budgets")[HEAP as usize];
    assert_eq!((heap.reserved_bytes, heap.usage_bytes), (reserved, reported.usage_bytes));
    assert_eq!((heap.budget_bytes, heap.limit_bytes), (reported.budget_bytes.min(heap.heap_bytes), u64::MAX));
    assert_eq!(heap.headroom_bytes(), heap.budget_bytes - reserved);
    assert_eq!(world.memory.budgets().heap(1).reserved_bytes, 0);

    let snapshot = world.memory.snapshot();
    assert_eq!((snapshot.heaps.len(), snapshot.types.len()), (2, 5));
    let shown = &snapshot.heaps[HEAP as usize];
    assert_eq!((shown.bytes, shown.device_local, shown.reserved_bytes), (heap.heap_bytes, true, reserved));
    assert_eq!((shown.usage_bytes, shown.budget_bytes), (Some(heap.usage_bytes), Some(heap.budget_bytes)));
    assert_eq!(snapshot.types[TYPE as usize].statistics, expected);
    assert_eq!(snapshot.calls, calls);
    let own = |dedicated| snapshot.blocks.iter().filter(move |block| block.dedicated == dedicated);
    let bytes = |dedicated| own(dedicated).map(|block| block.bytes).sum::<u64>();
    let ranges = |dedicated| own(dedicated).flat_map(|block| &block.ranges);
    assert_eq!((own(false).count() as u64, bytes(false)), (expected.block_count, expected.block_bytes));
    assert_eq!((own(true).count() as u64, bytes(true)), (expected.dedicated_count, expected.dedicated_bytes));
    assert_eq!(ranges(false).count() as u64, expected.range_count);
    assert_eq!(ranges(false).map(|range| range.bytes).sum::<u64>(), expected.range_bytes);
    assert_eq!(ranges(true).count() as u64, expected.dedicated_count);
    let free = snapshot.blocks.iter().map(|block| block.free_bytes()).sum::<u64>();
    assert_eq!(free, expected.block_bytes - expected.range_bytes);
    assert!(snapshot.blocks.iter().all(|block| block.memory_type == TYPE));
}

#[test]
fn memory_is_counted_by_its_kind() {
    let world = fixture();
    compare(&world, TypeStatistics::default());
    let alone = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
    let make = |size, desc| world.memory.allocate(needs(size, 256), desc).expect("room");
    let [a, b, c] = [100, 200, 300].map(|size| make(size * KIB, AllocationDesc::default()));
    let mut expected = TypeStatistics {
        block_count: 1,
        block_bytes: 4 * MIB,
        block_bytes_high_water: 4 * MIB,
        range_count: 3,
        range_bytes: 600 * KIB,
        range_bytes_high_water: 600 * KIB,
        ..Default::default()
    };
    compare(&world, expected);
    let [d, e] = [MIB, 3 * MIB].map(|size| make(size, alone));
    (expected.dedicated_count, expected.dedicated_bytes) = (2, 4 * MIB);
    compare(&world, expected);
    let desc = PoolDesc { memory_type: TYPE, block_bytes: MIB, block_count_min: 2, name: "pool", ..Default::default() };
    let pool = world.memory.create_pool(desc).expect("room");
    let f = pool.allocate(needs(50 * KIB, 256), AllocationDesc::default()).expect("room");
    let of_pool = TypeStatistics {
        block_count: 2,
        block_bytes: 2 * MIB,
        block_bytes_high_water: 2 * MIB,
        range_count: 1,
        range_bytes: 50 * KIB,
        range_bytes_high_water: 50 * KIB,
        ..Default::default()
    };
    assert_eq!(pool.statistics(), of_pool);
    expected.add(&of_pool);
    compare(&world, expected);
    assert_eq!((expected.block_bytes, expected.range_count, expected.range_bytes), (6 * MIB, 4, 650 * KIB));
    let named = world.memory.snapshot().blocks.iter().filter(|block| block.pool == "pool").count();
    assert_eq!(named, 2);

    // SAFETY: no work is ever submitted.
    unsafe {
        b.destroy_now();
        d.destroy_now();
    }
    (expected.range_count, expected.range_bytes) = (3, 450 * KIB);
    (expected.dedicated_count, expected.dedicated_bytes) = (1, 3 * MIB);
    compare(&world, expected);
    drop((a, c, e, f));
    assert_eq!(world.memory.statistics().retired_count, 4);
    assert_eq!(world.memory.snapshot().retired_count, 4);
    compare(&world, expected);
    let reclaimed = world.memory.reclaim();
    assert_eq!((reclaimed.objects, reclaimed.waiting, reclaimed.device_lost), (4, 0, false));
    (expected.range_count, expected.range_bytes) = (0, 0);
    (expected.dedicated_count, expected.dedicated_bytes) = (0, 0);
    compare(&world, expected);
    drop(pool);
    // The figures of a pool end with it.
    (expected.block_count, expected.block_bytes) = (1, 4 * MIB);
    (expected.block_bytes_high_water, expected.range_bytes_high_water) = (4 * MIB, 600 * KIB);
    compare(&world, expected);
    assert_eq!(world.memory.budgets().trim(), 1, "the block of the allocator");
    assert_eq!(world.memory.statistics().total().reserved_bytes(), 0);
    world.finish();
}

/// Slots are counted as ranges of the bytes that they use up.
#[test]
fn slots_count_as_ranges() {
    let world = fixture();
    let held: Vec<_> =
        (0..100).map(|_| world.memory.allocate(needs(KIB, 256), AllocationDesc::default()).expect("room")).collect();
    let total = world.memory.statistics().total();
    assert_eq!((total.range_count, total.range_bytes), (100, 100 * KIB));
    let snapshot = world.memory.snapshot();
    let ranges: Vec<_> = snapshot.blocks.iter().flat_map(|block| &block.ranges).collect();
    assert_eq!((ranges.len(), ranges.iter().map(|range| range.bytes).sum::<u64>()), (100, 100 * KIB));
    drop(held);
    world.memory.reclaim();
    let total = world.memory.statistics().total();
    assert_eq!((total.range_count, total.range_bytes), (0, 0));
    world.finish();
}

#[test]
fn driver_calls_are_counted_as_the_device_counts_them() {
    let world = fixture();
    let compare = |recycled: u64, wait: u64| {
        let (DriverCalls { create_object, destroy_object, placed, .. }, driver) =
            (world.memory.statistics().calls, world.device.calls());
        assert_eq!(create_object, driver.create_buffer + driver.create_texture);
        assert_eq!(destroy_object, driver.destroy_buffer + driver.destroy_texture);
        let dedicated = world.memory.statistics().total().dedicated_count;
        assert_eq!(placed + dedicated, driver.place, "dedicated memory is bound by the same call");
        let calls = world.memory.statistics().calls;
        assert_eq!((calls.recycled, calls.staged), (recycled, 0));
        assert_eq!((calls.wait, driver.wait), (wait, wait));
        assert_eq!(world.memory.statistics().rounded_bytes, 0);
    };
    let texture = TextureDesc {
        width: 64,
        height: 64,
        usage: TextureUsage::SAMPLED | TextureUsage::COPY_DST,
        ..Default::default()
    };
    // The first object of a description is not kept.
    drop(world.memory.create_buffer(&info(KIB), AllocationDesc::default()).expect("room"));
    drop(world.memory.create_texture(&texture, AllocationDesc::default()).expect("room"));
    assert_eq!(world.memory.reclaim().objects, 2);
    assert_eq!(world.memory.statistics().recycled_count, 0);
    let alone = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
    let own = world.memory.create_buffer(&info(KIB), alone).expect("room");
    let buffers = [(); 3].map(|()| world.memory.create_buffer(&info(KIB), AllocationDesc::default()).expect("room"));
    let picture = world.memory.create_texture(&texture, AllocationDesc::default()).expect("room");
    compare(0, 0);
    drop((buffers, picture));
    assert_eq!(world.memory.reclaim().objects, 4);
    let held = world.memory.statistics();
    assert_eq!((held.recycled_count, held.total().range_count), (4, 0), "recycled objects count as free memory");
    assert_eq!(held.recycled_bytes, world.memory.statistics().recycled_bytes);
    assert!(held.recycled_bytes >= 3 * KIB + 64 * 64 * 4, "{}", held.recycled_bytes);
    compare(0, 0);
    let again = [(); 2].map(|()| world.memory.create_buffer(&info(KIB), AllocationDesc::default()).expect("room"));
    compare(2, 0);
    assert_eq!(world.memory.statistics().recycled_count, 2);
    let rest = world.memory.statistics().recycled_bytes;
    assert_eq!(held.recycled_bytes - rest, 2 * KIB, "1 KiB each");
    let once = AllocationDesc { recycle: false, ..Default::default() };
    let new = world.memory.create_buffer(&info(KIB), once).expect("room");
    compare(2, 0);
    world.memory.budgets().trim();
    assert_eq!(world.memory.statistics().recycled_count, 0);
    compare(2, 0);
    drop((own, again, new));
    world.finish();
}

/// The bytes that are added to a buffer are counted when it is created, not when it is recycled.
#[test]
fn rounded_bytes_are_the_bytes_that_were_added() {
    let world = fixture();
    let larger = AllocationDesc { may_be_larger: true, ..Default::default() };
    let buffers = [65_000, 65_536, 60_000].map(|size| world.memory.create_buffer(&info(size), larger).expect("room"));
    assert_eq!(buffers.each_ref().map(|buffer| buffer.size()), [65_536, 65_536, 61_440]);
    assert_eq!(world.memory.statistics().rounded_bytes, 536 + 1_440);
    drop(buffers);
    world.finish();
}

/// An allocation has the larger alignment of its requirements and its description; with classes apart too.
#[test]
fn an_allocation_reports_its_place_and_its_request() {
    let world = fixture();
    for (alignment, wanted, expected) in [(1, 0, 1), (1, 1, 1), (256, 1, 256), (256, 4 * KIB, 4 * KIB), (MIB, 16, MIB)]
    {
        let desc = AllocationDesc { alignment: wanted, user_data: 7, ..Default::default() };
        let made = world.memory.allocate(needs(5_000, alignment), desc).expect("room");
        assert_eq!((made.alignment(), made.size()), (expected, 5_000));
        assert!(made.offset().is_multiple_of(expected), "{} of {expected}", made.offset());
        assert_eq!((made.memory_type(), made.is_dedicated()), (TYPE, false));
        drop(made);
    }
    world.finish();
}

/// Empty blocks beyond those that are always kept are freed after their grace, and the reclaim that frees them counts
/// them.
#[test]
fn a_reclaim_counts_the_blocks_whose_grace_is_over() {
    let allocator = AllocatorDesc { empty_blocks_kept: 0, empty_block_grace: 5, ..Default::default() };
    let world = Fixture::new(FixtureDesc { allocator, ..Default::default() });
    let desc = PoolDesc { memory_type: TYPE, block_bytes: MIB, ..Default::default() };
    let pool = world.memory.create_pool(desc).expect("such a pool");
    let own = world.memory.allocate(needs(100 * KIB, 256), AllocationDesc::default()).expect("room");
    let of_pool = [(); 3].map(|()| pool.allocate(needs(MIB, 256), AllocationDesc::default()).expect("room"));
    assert_eq!(world.memory.statistics().total().block_count, 4);
    drop((own, of_pool));
    let mut counts = Vec::new();
    for _ in 0..12 {
        let before = world.device.calls().free_memory;
        let reclaimed = world.memory.reclaim();
        assert_eq!(reclaimed.blocks as u64, world.device.calls().free_memory - before);
        counts.push((reclaimed.objects, reclaimed.blocks));
    }
    assert_eq!(counts[0].0, 4);
    assert_eq!(counts.iter().map(|(objects, _)| objects).sum::<usize>(), 4);
    assert!(counts[..5].iter().all(|(_, blocks)| *blocks == 0), "{counts:?}");
    assert_eq!(counts.iter().map(|(_, blocks)| blocks).sum::<usize>(), 4, "{counts:?}");
    drop(pool);
    world.finish();
}
