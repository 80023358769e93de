//! Exact limits: a request of exactly the limit is granted, one byte or one object more is refused, and the plan
//! reports the same.

use ringfence::algorithms::algorithm::Algorithm;
use ringfence::device::{
    BufferDesc, BufferUsage, DeviceError, MemoryHeap, MemoryProperties, MemoryType, Requirements, ResourceClass,
};
use ringfence::memory::{Error, PlannedWay, PoolDesc};
use ringfence::sim::Profile;
use ringfence::{AllocationDesc, AllocatorDesc, Dedicated, Location};

use ringfence_testkit::fixture::FaultyFixture;

use crate::memory::world::{KIB, MIB, card, needs, on_card, on_device, world};

/// Describes dedicated device memory.
fn alone() -> AllocationDesc<'static> {
    AllocationDesc { dedicated: Dedicated::Always, ..on_device() }
}

/// Returns the error of a request, or `None` if it is granted. Checks that the plan is granted or refused too.
#[track_caller]
fn refused(world: &FaultyFixture, needs: Requirements, desc: AllocationDesc<'_>) -> Option<Error> {
    let plan = world.memory.plan().memory(needs, desc);
    let made = world.memory.allocate(needs, desc);
    assert_eq!(plan.is_ok(), made.is_ok(), "{} bytes: {plan:?}, {made:?}", needs.size);
    made.err()
}

#[test]
fn a_memory_object_may_be_as_large_as_its_heap() {
    for dedicated in [Dedicated::Auto, Dedicated::Always, Dedicated::Never] {
        let world = on_card(64 * MIB, 64 * MIB);
        let desc = AllocationDesc { dedicated, ..on_device() };
        let whole = needs(64 * MIB, 256);
        let plan = world.memory.plan().memory(whole, desc).expect("exactly the heap");
        let made = world.memory.allocate(whole, desc).expect("exactly the heap");
        assert_eq!((plan.heap, plan.requested_bytes, plan.headroom_bytes), (0, 64 * MIB, 0), "{dedicated:?}");
        assert_eq!(world.memory.budgets().heap(0).reserved_bytes, 64 * MIB, "{dedicated:?}");
        drop(made);
        world.memory.reclaim();
        let beyond = Error::TooLarge { size: 64 * MIB + 1, max: 64 * MIB };
        assert_eq!(refused(&world, needs(64 * MIB + 1, 256), desc), Some(beyond), "{dedicated:?}");
        world.finish();
    }
}

#[test]
fn a_request_may_fill_a_block_of_fixed_size_and_no_more() {
    let world = on_card(64 * MIB, 64 * MIB);
    let desc = PoolDesc { block_bytes: 64 * KIB, block_count_max: 2, ..Default::default() };
    let pool = world.memory.create_pool(desc).expect("such a pool");
    for (size, is_granted) in [(64 * KIB - 1, true), (64 * KIB, true), (64 * KIB + 1, false), (80 * KIB, false)] {
        let plan = pool.plan(needs(size, 1), AllocationDesc::default());
        let made = pool.allocate(needs(size, 1), AllocationDesc::default());
        let full = Error::PoolFull { size, block_count_max: 2, block_bytes: 64 * KIB };
        assert_eq!(made.as_ref().err(), (!is_granted).then_some(&full), "{size}");
        assert_eq!(plan.err(), (!is_granted).then_some(full), "{size}");
        assert_eq!(pool.statistics().block_bytes, pool.statistics().block_count * 64 * KIB, "{size}: fixed blocks");
        // SAFETY: no work is ever submitted.
        made.into_iter().for_each(|made| unsafe { made.destroy_now() });
    }
    drop(pool);
    world.finish();
}

/// A request of up to the capacity of the algorithm would fit into a larger block, so the pool is full; a larger one
/// fits into no block.
#[test]
fn a_request_beyond_the_capacity_of_an_algorithm_is_too_large() {
    let world = on_card(2 << 30, 64 * MIB);
    let algorithm = Algorithm::Buddy { granule: 1 };
    let max = algorithm.capacity_max();
    assert!(max < 2 << 30, "the heap would hold a larger block");
    let desc = PoolDesc { block_bytes: MIB, block_count_max: 1, algorithm, ..Default::default() };
    let pool = world.memory.create_pool(desc).expect("such a pool");
    let refused = |size| pool.allocate(needs(size, 1), AllocationDesc::default()).err();
    assert_eq!(refused(max), Some(Error::PoolFull { size: max, block_count_max: 1, block_bytes: MIB }));
    assert_eq!(refused(max + 1), Some(Error::TooLarge { size: max + 1, max }));
    let desc = |block_bytes| PoolDesc { block_bytes, ..desc };
    assert!(world.memory.create_pool(desc(max)).is_ok(), "a block of exactly the capacity");
    let refused = world.memory.create_pool(desc(max + 1)).err();
    assert_eq!(refused, Some(Error::TooLarge { size: max + 1, max }));
    drop(pool);
    world.finish();
}

/// The reason is the pool's limit, not the request's.
#[test]
fn a_full_pool_is_full_for_requests_that_never_grow_too() {
    let world = on_card(64 * MIB, 64 * MIB);
    let desc = PoolDesc { block_bytes: 64 * KIB, block_count_max: 2, ..Default::default() };
    let pool = world.memory.create_pool(desc).expect("such a pool");
    let hasty = AllocationDesc { never_grow: true, ..Default::default() };
    let refused = || pool.allocate(needs(64 * KIB, 1), hasty).err();
    let grows = Error::WouldGrow { size: 64 * KIB, location: Location::Device };
    let mut held = Vec::new();
    for expected in [grows, grows, Error::PoolFull { size: 64 * KIB, block_count_max: 2, block_bytes: 64 * KIB }] {
        assert_eq!(refused(), Some(expected), "{} blocks", held.len());
        assert_eq!(pool.plan(needs(64 * KIB, 1), hasty).err(), Some(expected), "{} blocks", held.len());
        held.extend(pool.allocate(needs(64 * KIB, 1), AllocationDesc::default()));
    }
    assert_eq!(held.len(), 2);
    drop((held, pool));
    world.finish();
}

#[test]
fn the_last_memory_object_is_granted_and_the_next_one_is_not() {
    let mut profile = card(64 * MIB, 64 * MIB);
    profile.capabilities.memory_objects_max = 3;
    let world = world(profile, AllocatorDesc::default());
    let mut held = Vec::new();
    for count in 1..=3 {
        assert!(world.memory.plan().memory(needs(MIB, 256), alone()).is_ok(), "object {count}");
        held.push(world.memory.allocate(needs(MIB, 256), alone()).expect("an object is left"));
        assert_eq!(world.memory.budgets().memory_object_count(), count);
    }
    let calls = world.device.calls().allocate_memory;
    let error = refused(&world, needs(MIB, 256), alone());
    assert!(matches!(error, Some(Error::OutOfMemory { cause: DeviceError::TooManyObjects, .. })), "{error:?}");
    assert_eq!(world.device.calls().allocate_memory, calls, "the driver is not called beyond its limit");
    drop(held);
    world.finish();
}

/// While less than a quarter of the memory objects is used, dedicated memory for any size; then for at least an
/// object's share of the heaps; from three quarters on for none.
#[test]
fn dedicated_memory_that_the_driver_prefers_depends_on_the_memory_objects_that_are_left() {
    let mut profile = card(8 << 30, 8 << 30);
    profile.capabilities.memory_objects_max = 256;
    let share = (16 << 30) / 256;
    let world = world(profile, AllocatorDesc::default());
    let way = |size| {
        let preferring = Requirements { prefers_dedicated: true, ..needs(size, 256) };
        world.memory.plan().memory(preferring, on_device()).expect("room").way
    };
    let mut held = Vec::new();
    for (count, least) in [(1, 1), (63, 1), (64, share), (128, share), (191, share), (192, u64::MAX)] {
        while held.len() < count {
            held.push(world.memory.allocate(needs(64 * KIB, 256), alone()).expect("room"));
        }
        for size in [1, 64 * KIB, share - 1, share] {
            let expected = if size >= least { PlannedWay::Dedicated } else { PlannedWay::NewBlock };
            assert_eq!(way(size), expected, "{size} bytes beside {count} objects");
        }
    }
    drop(held);
    world.finish();
}

#[test]
fn the_limit_of_a_heap_may_be_reached_and_not_passed() {
    let mut heap_bytes_max = [u64::MAX; 16];
    heap_bytes_max[0] = 8 * MIB;
    let world = world(card(64 * MIB, 64 * MIB), AllocatorDesc { heap_bytes_max, ..Default::default() });
    assert_eq!(refused(&world, needs(8 * MIB, 256), alone()), None);
    world.memory.reclaim();
    let error = refused(&world, needs(8 * MIB + 1, 256), alone());
    let Some(Error::OverBudget { size, budget, tried_type_bits, heap, .. }) = error else { panic!("{error:?}") };
    assert_eq!((size, tried_type_bits, heap), (8 * MIB + 1, 1, 0));
    assert_eq!((budget.limit_bytes, budget.reserved_bytes, budget.heap_bytes), (8 * MIB, 0, 64 * MIB));
    world.finish();
}

#[test]
fn a_budget_may_be_used_up_and_not_exceeded() {
    let world = on_card(64 * MIB, 64 * MIB);
    world.device.set_budget(0, Some(8 * MIB));
    world.memory.reclaim();
    let strict = AllocationDesc { within_budget: true, ..alone() };
    assert_eq!(refused(&world, needs(8 * MIB, 256), strict), None);
    world.memory.reclaim();
    let error = refused(&world, needs(8 * MIB + 1, 256), strict);
    assert!(matches!(error, Some(Error::OverBudget { .. })), "{error:?}");
    assert_eq!(refused(&world, needs(8 * MIB + 1, 256), alone()), None, "the request may exceed the budget");
    let half = world.memory.allocate(needs(4 * MIB, 256), strict).expect("half of the budget");
    assert_eq!(world.memory.budgets().heap(0).headroom_bytes(), 4 * MIB);
    assert_eq!(refused(&world, needs(4 * MIB, 256), strict), None);
    world.memory.reclaim();
    assert!(refused(&world, needs(4 * MIB + 1, 256), strict).is_some());
    drop(half);
    world.finish();
}

#[test]
fn a_small_buffer_has_at_most_a_quarter_of_the_buffer_that_it_shares() {
    let world = on_card(64 * MIB, 64 * MIB);
    let small = |size| {
        let desc = BufferDesc { size, usage: BufferUsage::VERTEX };
        world.memory.create_small_buffer(desc, Location::Device).map(|small| small.size())
    };
    assert_eq!(small(256 * KIB), Ok(256 * KIB));
    assert_eq!(small(256 * KIB + 1), Err(Error::TooLarge { size: 256 * KIB + 1, max: 256 * KIB }));
    world.finish();
}

#[test]
fn an_announcement_may_be_as_large_as_its_heap() {
    let world = on_card(64 * MIB, 64 * MIB);
    let reserve = |bytes| world.memory.budgets().reserve(ResourceClass::Buffer, bytes, on_device());
    assert_eq!(reserve(64 * MIB + 1), Err(Error::TooLarge { size: 64 * MIB + 1, max: 64 * MIB }));
    assert_eq!(reserve(0), Ok(0));
    assert_eq!(world.device.calls().allocate_memory, 0, "neither needs a driver call");
    assert_eq!(reserve(64 * MIB), Ok(64 * MIB));
    assert!(matches!(reserve(1), Err(Error::OutOfMemory { .. })), "no byte is left");
    assert_eq!(world.memory.budgets().heap(0).reserved_bytes, 64 * MIB, "the first announcement is kept");
    world.finish();
}

/// The blocks of an announcement grow as those of allocations do: the last one has at least the size that is usual for
/// the bytes of all blocks then.
#[test]
fn the_last_block_of_an_announcement_is_as_large_as_is_usual_by_then() {
    let world = on_card(8 << 30, 8 << 30);
    let reserve = |bytes| world.memory.budgets().reserve(ResourceClass::Buffer, bytes, on_device());
    let sizes = || world.memory.snapshot().blocks.iter().map(|block| block.bytes / MIB).collect::<Vec<_>>();
    assert_eq!(reserve(513 * MIB), Ok(544 * MIB));
    assert_eq!(sizes(), [256, 256, 32]);
    assert_eq!(reserve(31 * MIB), Ok(0), "31 MiB of the last block are left");
    assert_eq!(reserve(1), Ok(32 * MIB));
    assert_eq!(sizes(), [256, 256, 32, 32]);
    world.finish();
}

const NEAR: MemoryProperties =
    MemoryProperties::DEVICE_LOCAL.union(MemoryProperties::HOST_VISIBLE).union(MemoryProperties::HOST_COHERENT);

/// A card with a further heap of these bytes, and a memory type there for each of `properties`.
fn beside(bytes: u64, device_local: bool, properties: &[MemoryProperties]) -> Profile {
    let mut profile = card(1 << 30, 1 << 30);
    profile.capabilities.memory_heaps.push(MemoryHeap { bytes, device_local });
    let types = properties.iter().map(|properties| MemoryType { heap: 2, properties: *properties });
    profile.capabilities.memory_types.extend(types);
    profile.buffer_types = u32::MAX >> (32 - profile.capabilities.memory_types.len());
    profile
}

/// A heap is a small window if it is device-local, has at most 256 MiB, is host-visible in each of its types, and
/// another device-local heap is larger.
#[test]
fn a_window_has_each_of_its_properties() {
    let limits = |profile: Profile| {
        let world = world(profile, AllocatorDesc::default());
        let limits = [0, 1, 2].map(|heap| world.memory.budgets().heap(heap).limit_bytes);
        world.finish();
        limits
    };
    let (none, window) = (u64::MAX, 128 * MIB);
    assert_eq!(limits(beside(256 * MIB, true, &[NEAR])), [none, none, window]);
    assert_eq!(limits(beside(256 * MIB, true, &[NEAR, NEAR])), [none, none, window]);
    assert_eq!(limits(beside(64 * MIB, true, &[NEAR])), [none, none, window]);
    assert_eq!(limits(beside(256 * MIB + 1, true, &[NEAR])), [none; 3], "it is larger than a window");
    assert_eq!(limits(beside(256 * MIB, false, &[NEAR])), [none; 3], "it is not device-local");
    let hidden = MemoryProperties::DEVICE_LOCAL;
    assert_eq!(limits(beside(256 * MIB, true, &[NEAR, hidden])), [none; 3], "one type is not host-visible");
    assert_eq!(limits(beside(256 * MIB, true, &[hidden])), [none; 3], "no type is host-visible");
    let alone = |bytes| {
        let mut profile = beside(256 * MIB, true, &[NEAR]);
        profile.capabilities.memory_heaps[0] = MemoryHeap { bytes, device_local: true };
        profile
    };
    // The first heap has a type that is not host-visible, so it is no window either.
    assert_eq!(limits(alone(256 * MIB)), [none; 3], "no other device-local heap is larger");
    assert_eq!(limits(alone(256 * MIB + 1)), [none, none, window]);
    let mut remote = alone(512 * MIB);
    remote.capabilities.memory_heaps[0].device_local = false;
    assert_eq!(limits(remote), [none; 3], "larger heaps are not device-local");
}

/// An empty block beyond the minimum of its pool counts as free memory of its heap, whatever the index of the heap.
#[test]
fn a_plan_counts_on_the_empty_blocks_of_its_heap() {
    for memory_type in [0, 1] {
        let mut heap_bytes_max = [u64::MAX; 16];
        heap_bytes_max[memory_type as usize] = 8 * MIB;
        let world = world(card(64 * MIB, 64 * MIB), AllocatorDesc { heap_bytes_max, ..Default::default() });
        let location = if memory_type == 0 { Location::Device } else { Location::Upload };
        let desc = AllocationDesc { location, memory_types: 1 << memory_type, ..Default::default() };
        let pool = PoolDesc { memory_type, block_bytes: 2 * MIB, block_count_min: 1, ..Default::default() };
        let pool = world.memory.create_pool(pool).expect("room");
        // Two blocks in the pool, one of them kept, and one of the allocator.
        let held = [(); 2].map(|()| pool.allocate(needs(2 * MIB, 1), desc).expect("room"));
        let own = world.memory.allocate(needs(100 * KIB, 1), desc).expect("room");
        drop((held, own));
        world.memory.reclaim();
        let heap = memory_type;
        let reserved = world.memory.budgets().heap(heap).reserved_bytes;
        assert!(reserved > 4 * MIB, "all blocks are kept");
        let alone = AllocationDesc { dedicated: Dedicated::Always, ..desc };
        assert!(refused(&world, needs(6 * MIB + 1, 1), alone).is_some(), "the pool keeps 2 of 8 MiB");
        let [a, b] = [(); 2].map(|()| pool.allocate(needs(2 * MIB, 1), desc).expect("room"));
        let own = world.memory.allocate(needs(100 * KIB, 1), desc).expect("room");
        drop((a, b, own));
        world.memory.reclaim();
        let plan = world.memory.plan().memory(needs(6 * MIB, 1), alone).expect("the rest of 8 MiB");
        let made = world.memory.allocate(needs(6 * MIB, 1), alone).expect("the rest of 8 MiB");
        assert_eq!((plan.memory_type, plan.headroom_bytes), (made.memory_type(), 0));
        assert_eq!(world.memory.budgets().heap(heap).reserved_bytes, 8 * MIB);
        drop((made, pool));
        world.finish();
    }
}

/// A buffer with an address is aligned to the largest power of two in its size, up to 64 KiB.
#[test]
fn the_alignment_of_a_shared_buffer_depends_on_its_size_only_with_an_address() {
    let profile = Profile::h200();
    let (plain, shared) = (BufferUsage::VERTEX, ringfence_memory::extend::shared_alignment);
    let rule = profile.capabilities.range_alignment(plain);
    assert!(rule < 256, "{rule}");
    let cases = [
        (false, 1 << 20, rule),
        (true, 0, rule),
        (true, 1, rule),
        (true, 256, 256),
        (true, 40_000, 32_768),
        (true, 65_535, 32_768),
        (true, 65_536, 65_536),
        (true, 1 << 20, 65_536),
    ];
    for (has_address, bytes, alignment) in cases {
        let found = shared(&profile.capabilities, plain, bytes, has_address);
        assert_eq!(found, alignment, "{bytes} bytes, address: {has_address}");
    }
}

/// A request of up to half a block shares a block. A larger one gets memory of its own, even if an empty block has room.
#[test]
fn more_than_half_a_block_is_no_range_of_an_empty_block() {
    let desc = AllocatorDesc { device_block_bytes_max: 4 * MIB, empty_block_grace: 1000, ..Default::default() };
    let world = world(card(16 << 30, 16 << 30), desc);
    let leave_block = || {
        let never = AllocationDesc { dedicated: Dedicated::Never, ..Default::default() };
        // SAFETY: no resource was placed there.
        unsafe { world.memory.allocate(needs(4 * MIB, 256), never).expect("room").destroy_now() };
    };
    for (size, is_alone) in [(2 * MIB - 256, false), (2 * MIB, false), (2 * MIB + 256, true), (4 * MIB, true)] {
        leave_block();
        let empty =
            world.memory.snapshot().blocks.iter().any(|block| block.bytes == 4 * MIB && block.ranges.is_empty());
        assert!(empty);
        let made = world.memory.allocate(needs(size, 256), AllocationDesc::default()).expect("room");
        assert_eq!(made.is_dedicated(), is_alone, "{size}");
        drop(made);
    }
    world.finish();
}
