//! Blocks: their growth, their release, and their creation ahead of need.

use std::time::{Duration, Instant};

use ringfence::device::fault::{Call, Rule};
use ringfence::device::{BufferDesc, BufferUsage, DeviceError, Requirements, ResourceClass};
use ringfence::memory::Error;
use ringfence::sim::{Device, Profile, SimOptions};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Dedicated};

use ringfence_testkit::fixture::FaultyFixture;

use crate::memory::world::{KIB, MIB, card, needs, on_card, on_device, world};

#[test]
fn a_bare_device_costs_nothing_and_the_first_buffer_little() {
    let world = on_card(16 << 30, 16 << 30);
    assert_eq!(world.device.calls().allocate_memory, 0);
    let buffer = world.buffer(KIB, on_device()).expect("room");
    assert_eq!(world.memory.statistics().total().reserved_bytes(), 4 * MIB);
    drop(buffer);
    world.finish();
}

#[test]
fn blocks_double_up_to_32_mib_and_waste_little() {
    let world = on_card(16 << 30, 16 << 30);
    let held: Vec<_> = (0..1000).map(|_| world.buffer(MIB, on_device()).expect("room")).collect();
    let total = world.memory.statistics().total();
    // 60 MiB in four blocks, the rest in blocks of 32 MiB.
    assert_eq!(total.block_count, 34, "{total:?}");
    assert!(total.reserved_bytes() <= total.used_bytes() + 32 * MIB);
    drop(held);
    world.finish();
}

#[test]
fn a_loop_that_allocates_and_frees_each_frame_never_touches_the_driver() {
    let world = on_card(16 << 30, 16 << 30);
    let frame = || (0..20).map(|_| world.buffer(3 * MIB, on_device()).expect("room")).collect::<Vec<_>>();
    drop(frame());
    world.memory.reclaim();
    let warm = world.memory.statistics().calls.allocate_memory;
    for _ in 0..500 {
        drop(frame());
        world.memory.reclaim();
    }
    assert_eq!(world.memory.statistics().calls.allocate_memory, warm);
    world.finish();
}

/// For programs without frames that never call `reclaim`.
#[test]
fn without_grace_a_block_goes_with_what_empties_it_and_one_of_each_arena_stays() {
    let desc = AllocatorDesc { empty_block_grace: 0, small_slots: false, ..Default::default() };
    let world = world(card(16 << 30, 16 << 30), desc);
    let reserved = || world.memory.statistics().total().reserved_bytes();
    for _ in 0..3 {
        let held: Vec<_> =
            (0..100).map(|_| world.memory.allocate(needs(MIB, 256), on_device()).expect("room")).collect();
        assert!(reserved() >= 100 * MIB);
        for (nth, allocation) in held.into_iter().enumerate() {
            // SAFETY: no resource was placed there.
            unsafe { allocation.destroy_now() };
            world.memory.debug().validate().expect("the allocator is sound");
            let snapshot = world.memory.snapshot();
            let empty = snapshot.blocks.iter().filter(|block| block.ranges.is_empty()).count();
            assert!(empty <= 1, "{empty} empty blocks after {nth}");
        }
        let total = world.memory.statistics().total();
        assert_eq!((total.block_count, total.range_count), (1, 0));
    }
    world.finish();
}

#[test]
fn without_slots_every_small_range_is_exact() {
    let bytes_of = |slots| {
        let world = world(card(16 << 30, 16 << 30), AllocatorDesc { small_slots: slots, ..Default::default() });
        let held: Vec<_> = (0..500).map(|_| world.memory.allocate(needs(264, 8), on_device()).expect("room")).collect();
        let bytes = world.memory.statistics().total().used_bytes();
        drop(held);
        world.finish();
        bytes
    };
    assert_eq!(bytes_of(false), 500 * 264);
    assert!(bytes_of(true) > 500 * 264, "slots round up");
}

#[test]
fn trimming_stops_at_the_target() {
    let world = on_card(16 << 30, 16 << 30);
    let held: Vec<_> = (0..100).map(|_| world.buffer(MIB, on_device()).expect("room")).collect();
    drop(held);
    world.memory.reclaim();
    let reserved = world.memory.statistics().total().reserved_bytes();
    let target = reserved / 4 * 3;
    let freed = world.memory.budgets().trim_to(target);
    let left = world.memory.statistics().total().reserved_bytes();
    assert!(freed > 0 && left > 0 && left <= target, "{freed} of {reserved} freed, {left} left");
    assert_eq!(left + freed, reserved);
    assert_eq!(world.memory.budgets().trim_to(reserved), 0, "it is below that already");
    world.finish();
}

#[test]
fn maintain_makes_the_next_block_before_it_is_needed() {
    let world = on_card(16 << 30, 16 << 30);
    let mut held = Vec::new();
    let mut waited = 0;
    for _ in 0..600 {
        let before = world.device.calls().allocate_memory;
        held.push(world.buffer(MIB, on_device()).expect("room"));
        waited += world.device.calls().allocate_memory - before;
        world.memory.budgets().maintain();
    }
    assert_eq!(waited, 1, "only the first allocation called the driver");
    assert!(world.memory.statistics().total().block_count >= 7);
    drop(held);
    world.finish();
}

/// The driver refuses the next block. It is not asked for the same block again while no memory is freed.
#[test]
fn a_block_ahead_that_was_refused_is_requested_once() {
    let world = on_card(16 << 30, 16 << 30);
    let mut held = vec![world.buffer(MIB, on_device()).expect("room")];
    world.faults.add(Rule { call: Some(Call::AllocateMemory), ..Rule::new(DeviceError::OutOfDeviceMemory) });
    for _ in 0..3 {
        held.push(world.buffer(MIB / 2, on_device()).expect("the first block has room, and orders the next one"));
        assert_eq!(world.memory.budgets().maintain(), 0);
        assert_eq!(world.faults.failed(Call::AllocateMemory), 1);
    }
    world.faults.clear();
    drop(held);
    world.finish();
}

/// Each wait for a block doubles the low-water mark, up to four blocks. The first block of an arena is no such wait, and
/// waits of a program that never creates blocks ahead do not count.
#[test]
fn a_program_that_waits_for_blocks_gets_more_of_them_ahead() {
    for (is_served, count, ahead) in [(true, 1, 1), (true, 61, 3), (false, 61, 0)] {
        let world = on_card(16 << 30, 16 << 30);
        if is_served {
            world.memory.budgets().maintain();
        }
        let held: Vec<_> = (0..count).map(|_| world.buffer(MIB, on_device()).expect("room")).collect();
        assert_eq!(world.memory.budgets().maintain(), ahead, "{count} MiB, {is_served}");
        drop(held);
        world.finish();
    }
}

#[test]
fn maintain_stays_within_the_budget_and_leaves_unused_arenas_alone() {
    let world = on_card(16 << 30, 16 << 30);
    assert_eq!(world.memory.budgets().maintain(), 0, "no memory is in use");
    world.device.set_budget(0, Some(5 * MIB));
    world.memory.reclaim();
    let held: Vec<_> = (0..4).map(|_| world.buffer(MIB, on_device()).expect("room")).collect();
    assert_eq!(world.memory.budgets().maintain(), 0, "a block of 8 MiB would go beyond the budget");
    drop(held);
    world.finish();
}

/// Each frame uses more than half a block. The threshold rises until no frame waits, and falls after the last of them.
#[test]
fn blocks_are_made_earlier_where_much_is_used_at_once() {
    let world = on_card(128 << 30, 16 << 30);
    let (mut held, mut waited) = (Vec::new(), Vec::new());
    for _ in 0..40 {
        let before = world.device.calls().allocate_memory;
        held.extend((0..50).map(|_| world.buffer(4 * MIB, on_device()).expect("room")));
        waited.push(world.device.calls().allocate_memory - before);
        world.memory.budgets().maintain();
    }
    assert!(waited[..8].iter().sum::<u64>() > 1, "blocks are small at first: {waited:?}");
    assert_eq!(waited[16..].iter().sum::<u64>(), 0, "no frame waits any more: {waited:?}");
    let ahead = |world: &FaultyFixture| {
        let total = world.memory.statistics().total();
        total.block_bytes - total.range_bytes
    };
    assert!(ahead(&world) <= 5 * 256 * MIB, "{} bytes ahead", ahead(&world));
    drop(held);
    for _ in 0..400 {
        world.memory.reclaim();
        let buffer = world.buffer(MIB, on_device()).expect("room");
        world.memory.budgets().maintain();
        drop(buffer);
    }
    assert!(ahead(&world) <= 2 * 256 * MIB, "{} bytes ahead of a program that uses one", ahead(&world));
    world.finish();
}

#[test]
fn what_is_announced_asks_the_driver_beforehand_and_stays_until_it_is_used() {
    let world = on_card(16 << 30, 16 << 30);
    let calls = || world.device.calls().allocate_memory;
    assert_eq!(world.memory.budgets().reserve(ResourceClass::Buffer, 0, on_device()), Ok(0));
    let made = world.memory.budgets().reserve(ResourceClass::Buffer, 1000 * MIB, on_device()).expect("room");
    assert_eq!((made, calls()), (1024 * MIB, 4), "four blocks of the largest size");
    for _ in 0..1000 {
        world.memory.reclaim();
    }
    assert_eq!(world.memory.statistics().total().block_count, 4, "empty for long, but announced");
    let more = world.memory.budgets().reserve(ResourceClass::Buffer, 200 * MIB, on_device()).expect("room");
    assert_eq!((more, calls()), (256 * MIB, 5), "an earlier announcement does not count twice");
    let held: Vec<_> = (0..1200).map(|_| world.buffer(MIB, on_device()).expect("room")).collect();
    assert_eq!(calls(), 5, "no request waited for the driver");
    drop(held);
    for _ in 0..300 {
        world.memory.reclaim();
    }
    assert_eq!(world.memory.statistics().total().block_count, 0, "it was used: empty blocks of 256 MiB are freed");
    world.finish();
}

#[test]
fn after_an_announcement_blocks_are_made_ahead_in_its_size() {
    let world = on_card(16 << 30, 16 << 30);
    world.memory.budgets().maintain();
    let reserved = || world.memory.statistics().total().reserved_bytes() / MIB;
    world.memory.budgets().reserve(ResourceClass::Buffer, 1024 * MIB, on_device()).expect("room");
    // No block is created ahead while more than half a block of that size is free.
    let mut held: Vec<_> = (0..1024 - 129).map(|_| world.buffer(MIB, on_device()).expect("room")).collect();
    assert_eq!((world.memory.budgets().maintain(), reserved()), (0, 1024));
    held.extend((0..2).map(|_| world.buffer(MIB, on_device()).expect("room")));
    assert_eq!(
        (world.memory.budgets().maintain(), reserved()),
        (1, 1280),
        "not a block of 64 MiB as after four small ones"
    );
    drop(held);
    world.finish();
}

#[test]
fn what_is_announced_goes_when_it_is_trimmed_and_without_grace_stays_too() {
    let desc = AllocatorDesc { empty_block_grace: 0, ..Default::default() };
    let world = world(card(16 << 30, 16 << 30), desc);
    world.memory.budgets().reserve(ResourceClass::Buffer, 600 * MIB, on_device()).expect("room");
    for _ in 0..3 {
        // SAFETY: no resource was placed there.
        unsafe { world.memory.allocate(needs(MIB, 256), on_device()).expect("room").destroy_now() };
        world.memory.reclaim();
    }
    assert_eq!(world.memory.statistics().total().block_count, 3);
    assert_eq!(world.memory.budgets().trim(), 3);
    assert_eq!(world.memory.statistics().total().block_bytes, 0);
    world.memory.budgets().reserve(ResourceClass::Buffer, 10 * MIB, on_device()).expect("room");
    assert_eq!(world.memory.statistics().total().block_bytes, 16 * MIB, "the first announcement is void");
    world.finish();
}

#[test]
fn an_announcement_that_cannot_be_kept_changes_nothing() {
    let world = on_card(1 << 30, 1 << 30);
    let beyond = world.memory.budgets().reserve(ResourceClass::Buffer, 2 << 30, on_device());
    assert_eq!(beyond, Err(Error::TooLarge { size: 2 << 30, max: 1 << 30 }));
    world.device.set_budget(0, Some(500 * MIB));
    world.memory.reclaim();
    let strict = AllocationDesc { within_budget: true, ..on_device() };
    let refused = world.memory.budgets().reserve(ResourceClass::Buffer, 600 * MIB, strict);
    assert!(matches!(refused, Err(Error::OverBudget { size, .. }) if size == 600 * MIB), "{refused:?}");
    let may_not = AllocationDesc { never_grow: true, ..on_device() };
    let refused = world.memory.budgets().reserve(ResourceClass::Buffer, MIB, may_not);
    assert!(matches!(refused, Err(Error::WouldGrow { .. })), "{refused:?}");
    let nowhere = AllocationDesc { memory_types: 0, ..on_device() };
    let refused = world.memory.budgets().reserve(ResourceClass::Buffer, MIB, nowhere);
    assert!(matches!(refused, Err(Error::NoMemoryType { .. })), "{refused:?}");
    let total = world.memory.statistics().total();
    assert_eq!((total.block_count, total.block_bytes), (0, 0));
    world.finish();
}

#[test]
fn the_librarys_thread_makes_blocks_while_the_program_goes_on() {
    let world = world(card(16 << 30, 16 << 30), AllocatorDesc::default());
    let maintenance = world.memory.budgets().maintain_in_background().expect("a thread");
    let mut held = vec![world.buffer(MIB, on_device()).expect("room")];
    let deadline = Instant::now() + Duration::from_secs(120);
    while world.memory.statistics().total().block_count < 2 {
        if held.len() < 4 {
            held.push(world.buffer(MIB, on_device()).expect("room"));
        }
        assert!(Instant::now() < deadline, "the second block is created although the first has room");
        std::thread::yield_now();
    }
    assert!(held.len() <= 4);
    drop(maintenance);
    drop(held);
    world.finish();
}

#[test]
fn slots_serve_what_is_common_and_give_their_chunks_back() {
    let world = world(ringfence::sim::Profile::h200(), AllocatorDesc::default());
    let desc = AllocationDesc { dedicated: Dedicated::Never, ..Default::default() };
    let named = |index: u64| AllocationDesc { user_data: index, name: "slot", ..desc };
    let held: Vec<_> = (0..2000).map(|index| world.buffer(700, named(index)).expect("room")).collect();
    let mut places: Vec<_> = held.iter().map(|held| (held.memory_type(), held.offset())).collect();
    places.sort_unstable();
    let before = places.len();
    let snapshot = world.memory.snapshot();
    let ranges: Vec<_> = snapshot.blocks.iter().flat_map(|block| &block.ranges).collect();
    assert_eq!(ranges.len(), 2000);
    assert!(ranges.iter().all(|range| range.name == "slot"));
    let mut data: Vec<_> = ranges.iter().map(|range| range.user_data).collect();
    data.sort_unstable();
    assert_eq!(data, (0..2000).collect::<Vec<_>>());
    assert_eq!(world.memory.statistics().total().used_bytes(), ranges.iter().map(|range| range.bytes).sum::<u64>());
    if world.memory.statistics().total().block_count == 1 {
        places.dedup();
        assert_eq!(places.len(), before, "no two at one place");
    }
    drop(held);
    world.memory.reclaim();
    assert_eq!(world.memory.statistics().total().used_bytes(), 0);
    assert!(world.memory.budgets().trim() >= 1, "the chunks went with their slots");
    assert_eq!(world.memory.statistics().total().block_count, 0);
    world.finish();
}

/// Like [`the_librarys_thread_makes_blocks_while_the_program_goes_on`], after a second thread was started and ended.
#[test]
fn a_second_thread_that_ends_leaves_the_first_at_work() {
    let world = world(card(16 << 30, 16 << 30), AllocatorDesc::default());
    let maintenance = world.memory.budgets().maintain_in_background().expect("a thread");
    drop(world.memory.budgets().maintain_in_background().expect("a thread"));
    let mut held = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(120);
    for count in 2..5 {
        while world.memory.statistics().total().block_count < count {
            let total = world.memory.statistics().total();
            // Keeps some bytes free: then only the thread creates blocks.
            if total.block_bytes - total.range_bytes > 2 * MIB || held.is_empty() {
                held.push(world.buffer(MIB, on_device()).expect("room"));
            }
            assert!(Instant::now() < deadline, "block {count} is made ahead");
            std::thread::yield_now();
        }
    }
    drop((maintenance, held));
    world.finish();
}

/// The thread that creates blocks may hold the last reference to the allocator, which owns the thread.
#[test]
fn the_librarys_thread_may_end_what_owns_it() {
    for _ in 0..50 {
        let (dropped, is_dropped) = std::sync::mpsc::channel::<()>();
        let memory = Allocator::over(Device::new(Profile::h200(), SimOptions::default()), AllocatorDesc::default());
        let maintenance = memory.budgets().maintain_in_background().expect("a thread");
        memory.budgets().set_eviction(Some(Box::new(move |_| {
            let _owned = (&maintenance, &dropped);
            false
        })));
        let info = BufferDesc { size: 4 * MIB, usage: BufferUsage::COPY_DST };
        let made = || memory.create_buffer(&info, AllocationDesc::default()).expect("room");
        let held: Vec<_> = (0..20).map(|_| made()).collect();
        drop((held, memory));
        let end = is_dropped.recv_timeout(Duration::from_secs(120));
        assert_eq!(end, Err(std::sync::mpsc::RecvTimeoutError::Disconnected), "the callback was dropped");
    }
}

/// A block that is created ahead of need never evicts existing resources.
#[test]
fn blocks_ahead_of_need_push_nothing_out() {
    let world = on_card(64 * MIB, 64 * MIB);
    let apart = AllocationDesc { dedicated: Dedicated::Never, ..on_device() };
    let texture = Requirements { class: ResourceClass::Texture, ..needs(4 * MIB, 256) };
    drop(world.memory.allocate(texture, apart).expect("there is room"));
    world.memory.reclaim();
    let held: Vec<_> = (0..4).map(|_| world.memory.allocate(needs(MIB, 256), apart).expect("there is room")).collect();
    let before = world.memory.statistics().total();
    assert!(before.block_count >= 2 && before.block_bytes > before.range_bytes, "one is empty");
    world.device.set_budget(0, Some(before.block_bytes));
    world.memory.reclaim();
    let freed = world.device.calls().free_memory;
    assert_eq!(world.memory.budgets().maintain(), 0, "the budget is used up");
    assert_eq!(world.device.calls().free_memory, freed, "the empty block stays");
    drop(held);
    world.finish();
}

/// A card with a limit on this allocator's device memory.
fn limited_to(bytes: u64) -> FaultyFixture {
    let mut heap_bytes_max = [u64::MAX; 16];
    heap_bytes_max[0] = bytes;
    world(card(1 << 30, 1 << 30), AllocatorDesc { heap_bytes_max, ..Default::default() })
}

#[test]
fn an_announcement_that_fails_leaves_those_before_it() {
    let world = limited_to(256 * MIB);
    let reserve = |class, bytes| world.memory.budgets().reserve(class, bytes, on_device());
    assert_eq!(reserve(ResourceClass::Buffer, 64 * MIB), Ok(64 * MIB));
    assert_eq!(reserve(ResourceClass::Texture, 64 * MIB), Ok(64 * MIB));
    for class in [ResourceClass::Buffer, ResourceClass::Texture] {
        let refused = reserve(class, 176 * MIB);
        assert!(matches!(refused, Err(Error::OverBudget { .. })), "{refused:?}");
        assert_eq!(world.memory.statistics().total().block_bytes, 128 * MIB);
    }
    assert_eq!(reserve(ResourceClass::Buffer, 128 * MIB), Ok(128 * MIB), "an announcement does not count twice");
    let asked = world.device.calls().allocate_memory;
    let apart = AllocationDesc { dedicated: Dedicated::Never, ..on_device() };
    let allocate = || world.memory.allocate(needs(MIB, 256), apart).expect("announced");
    let held: Vec<_> = (0..192).map(|_| allocate()).collect();
    assert_eq!(world.device.calls().allocate_memory, asked, "all that was announced is there");
    drop(held);
    world.finish();
}

#[test]
fn an_announcement_that_frees_empty_blocks_makes_as_many_more() {
    let world = limited_to(80 * MIB);
    let apart = AllocationDesc { dedicated: Dedicated::Never, ..on_device() };
    drop(world.memory.allocate(needs(20 * MIB, 256), apart).expect("there is room"));
    world.memory.reclaim();
    assert_eq!(world.memory.statistics().total().block_bytes, 32 * MIB, "an empty block");
    let made = world.memory.budgets().reserve(ResourceClass::Buffer, 80 * MIB, on_device());
    assert_eq!(made, Ok(80 * MIB), "64 MiB found no room beside the empty block");
    let asked = world.device.calls().allocate_memory;
    let held: Vec<_> = (0..80).map(|_| world.memory.allocate(needs(MIB, 256), apart).expect("announced")).collect();
    assert_eq!(world.device.calls().allocate_memory, asked, "all that was announced is there");
    drop(held);
    world.finish();
}
