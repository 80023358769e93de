//! The fast path returns the same as the full decision. Freed slots in thread caches are reused first, and never make a
//! request fail.

use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::mpsc::sync_channel;

use ringfence::device::{MemoryProperties, Requirements, ResourceClass};
use ringfence::memory::Allocation;
use ringfence::sim::{Live, Profile};
use ringfence::{AllocationDesc, AllocatorDesc, Dedicated, Location};

use ringfence_lockfree::thread_slot::thread_number;
use ringfence_testkit::fixture::FaultyFixture;

use crate::memory::world::{Device, KIB, MIB, needs, next, on_card, world};

/// Allocates enough of one size that slots are created for it.
fn many(world: &FaultyFixture, count: usize, size: u64) -> Vec<Allocation<Device>> {
    let desc = AllocationDesc::default;
    (0..count).map(|_| world.memory.allocate(needs(size, 256), desc()).expect("there is room")).collect()
}

fn free(held: Allocation<Device>) {
    // SAFETY: no work is ever submitted.
    unsafe { held.destroy_now() };
}

/// Returns a typical or an unusual request.
fn any_request(state: &mut u64) -> (Requirements, AllocationDesc<'static>) {
    let mut dice = |sides: u64| (next(state) >> 20) % sides;
    let mut rarely = |rare, common| if dice(12) == 0 { rare } else { common };
    let desc = AllocationDesc {
        name: if rarely(true, false) { "named" } else { "" },
        movable: rarely(true, false),
        evictable: rarely(true, false),
        never_grow: rarely(true, false),
        dedicated: if rarely(true, false) { Dedicated::Always } else { Dedicated::Auto },
        required: if rarely(true, false) { MemoryProperties::HOST_VISIBLE } else { MemoryProperties::empty() },
        memory_types: if rarely(true, false) { 0b110 } else { u32::MAX },
        user_data: u64::from(rarely(true, false)),
        ..Default::default()
    };
    let prefers_dedicated = rarely(true, false);
    let alignment = if rarely(true, false) { 3 } else { 1 << dice(14) };
    let magnitude = dice(27);
    let size = dice(1 << magnitude);
    let class = [ResourceClass::Buffer, ResourceClass::Texture, ResourceClass::RenderTarget][dice(3) as usize];
    let desc = AllocationDesc { location: Location::ALL[dice(4) as usize], ..desc };
    (Requirements { size, alignment, class, prefers_dedicated, ..needs(1, 1) }, desc)
}

/// While a trace is recorded, every request takes the slow path.
#[test]
fn what_is_found_cached_is_what_the_fallback_order_finds() {
    for (profile, seed) in
        Profile::all().into_iter().flat_map(|profile| (1..3).map(move |seed| (profile.clone(), seed)))
    {
        let desc = AllocatorDesc { small_slots: false, ..Default::default() };
        let (short, long) = (world(profile.clone(), desc), world(profile, desc));
        long.memory.trace().start(std::io::sink()).expect("no object was created");
        let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed);
        let (mut held, mut found) = (Vec::new(), 0);
        for step in 0..600 {
            if held.len() > 200 || next(&mut state).is_multiple_of(3) && !held.is_empty() {
                let gone: [Allocation<Device>; 2] = held.swap_remove(next(&mut state) as usize % held.len());
                gone.into_iter().for_each(free);
                continue;
            }
            let (needs, desc) = any_request(&mut state);
            match [&short, &long].map(|world| world.memory.allocate(needs, desc)) {
                [Ok(one), Ok(other)] => {
                    let described =
                        |made: &Allocation<_>| (made.memory_address(), made.memory_type(), made.is_dedicated());
                    assert_eq!(described(&one), described(&other), "seed {seed}, step {step}: {needs:?}, {desc:?}");
                    found += 1;
                    held.push([one, other]);
                }
                [Err(one), Err(other)] => assert_eq!(one.to_string(), other.to_string(), "seed {seed}, step {step}"),
                other => panic!("seed {seed}, step {step}: {needs:?}, {desc:?}: {other:?}"),
            }
            assert_eq!(short.memory.statistics().total(), long.memory.statistics().total(), "seed {seed}, step {step}");
        }
        assert!(found > 200, "seed {seed}: {found} were found");
        held.into_iter().flatten().for_each(free);
        short.finish();
        long.finish();
    }
}

#[test]
fn what_is_given_back_last_is_handed_out_next() {
    let world = world(Profile::h200(), AllocatorDesc::default());
    let mut held = many(&world, 100, KIB);
    let gone = held.remove(70);
    let (offset, block) = (gone.offset(), gone.memory_address());
    free(gone);
    let again = many(&world, 1, KIB).remove(0);
    assert_eq!((again.offset(), again.memory_address()), (offset, block));
    drop((held, again));
    world.finish();
}

#[test]
fn slots_cached_are_no_ranges_in_use() {
    let world = world(Profile::h200(), AllocatorDesc::default());
    let mut held = many(&world, 200, KIB);
    held.drain(50..).for_each(free);
    let total = world.memory.statistics().total();
    assert_eq!(total.range_count, 50);
    let shown: usize = world.memory.snapshot().blocks.iter().map(|block| block.ranges.len()).sum();
    assert_eq!(shown, 50, "a snapshot shows the ranges in use");
    world.memory.debug().validate().expect("the allocator is sound");
    held.into_iter().for_each(free);
    assert_eq!(world.memory.statistics().total().range_count, 0);
    world.finish();
}

#[test]
fn blocks_go_after_their_grace_though_slots_were_cached() {
    let desc = AllocatorDesc { empty_blocks_kept: 0, empty_block_grace: 2, ..Default::default() };
    let world = world(Profile::h200(), desc);
    many(&world, 300, KIB).into_iter().for_each(free);
    assert_ne!(world.device.live(), Live::default());
    // The first call notices that no thread uses the cached slots; then the grace of the chunks passes, and then that
    // of the blocks.
    (0..8).for_each(|_| _ = world.memory.reclaim());
    assert_eq!(world.device.live(), Live::default());
    world.finish();
}

#[test]
fn the_last_of_memory_is_found_though_another_thread_had_it_cached() {
    let world = on_card(8 * MIB, 8 * MIB);
    let best = world.memory.plan().memory_type(u32::MAX, AllocationDesc::default()).expect("there is one");
    let desc = AllocationDesc { memory_types: 1 << best, dedicated: Dedicated::Never, ..Default::default() };
    let take = || world.memory.allocate(needs(KIB, 256), desc).ok();
    let all: Vec<_> = std::iter::from_fn(take).collect();
    let count = all.len();
    assert!(count > 4_000, "most of 8 MiB, not {count} KiB");
    std::thread::scope(|scope| {
        // The other thread frees all of them, into its own cache as far as that has space.
        scope.spawn(|| {
            let mut all = all;
            all.pop().map_or_else(|| unreachable!("there are thousands"), free);
            all.extend(take());
            all.into_iter().for_each(free);
        });
    });
    let again: Vec<_> = std::iter::from_fn(take).collect();
    assert_eq!(again.len(), count, "everything that was freed is allocated again");
    drop(again);
    world.finish();
}

/// Runs `act` on a thread that shares no thread cache with thread `own`: threads that share one differ by a multiple of
/// a power of two.
fn on_another_cache(own: usize, act: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = || if thread_number() % 2 == own % 2 { on_another_cache(own, act) } else { act() };
        scope.spawn(thread);
    });
}

/// If threads repeatedly recalled each other's slots, none would have any. So the slots of one recall are used up
/// before a block is created.
#[test]
fn slots_are_recalled_from_other_threads_once_a_tick_and_then_a_block_is_made() {
    let world = world(Profile::h200(), AllocatorDesc::default());
    let take = |never_grow| {
        let desc = AllocationDesc { never_grow, ..Default::default() };
        world.memory.allocate(needs(KIB, 256), desc).ok()
    };
    let free_elsewhere = |mut held: Vec<_>| {
        // A thread caches slots after its first request for one.
        let free_all = || {
            held.pop().into_iter().for_each(free);
            held.extend(take(false));
            held.into_iter().for_each(free);
        };
        on_another_cache(thread_number(), free_all);
    };
    let blocks = || world.memory.statistics().total().block_count;
    let mut held: Vec<_> = (0..100).map_while(|_| take(false)).collect();
    for tick in 0..3 {
        // All existing blocks are full.
        held.extend(std::iter::from_fn(|| take(true)));
        let before = blocks();
        world.memory.reclaim();
        // The first few of a size are ranges, and so are the last ones, if no chunk of slots has room.
        free_elsewhere(held.drain(16..80).collect());
        held.extend((0..64).map_while(|_| take(false)));
        assert_eq!((tick, blocks()), (tick, before), "the slots cached by another thread were sufficient");
        free_elsewhere(held.split_off(held.len() - 64));
        held.extend(take(false));
        assert_eq!((tick, blocks()), (tick, before + 1), "there is no second recall within a tick");
    }
    drop(held);
    world.finish();
}

#[test]
fn an_allocation_outlives_its_allocator_whatever_is_cached() {
    let FaultyFixture { memory, device: sim, .. } = world(Profile::h200(), AllocatorDesc::default());
    let take = || memory.allocate(needs(KIB, 256), AllocationDesc::default()).expect("there is room");
    let mut held: Vec<_> = (0..100).map(|_| take()).collect();
    held.drain(40..).for_each(free);
    let clone = memory.clone();
    drop(memory);
    drop(clone);
    assert_ne!(sim.live(), Live::default(), "they are alive");
    let last = held.pop().expect("40 are left");
    held.into_iter().for_each(free);
    assert_ne!(sim.live(), Live::default(), "one is alive");
    free(last);
    assert_eq!(sim.live(), Live::default(), "the allocator went with the last of them");
}

#[test]
fn the_last_handle_may_go_while_other_threads_give_back() {
    for round in 0..20 {
        let FaultyFixture { memory, device: sim, .. } = world(Profile::h200(), AllocatorDesc::default());
        let barrier = Barrier::new(5);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (memory, barrier) = (memory.clone(), &barrier);
                scope.spawn(move || {
                    let desc = AllocationDesc::default;
                    let take = |_| memory.allocate(needs(KIB, 256), desc()).expect("there is room");
                    let held: Vec<_> = (0..100 + round).map(take).collect();
                    drop(memory);
                    barrier.wait();
                    held.into_iter().for_each(free);
                });
            }
            barrier.wait();
            drop(memory);
        });
        assert_eq!(sim.live(), Live::default());
    }
}

#[test]
fn threads_that_only_make_and_threads_that_only_give_back() {
    let world = world(Profile::h200(), AllocatorDesc::default());
    let (to, from) = sync_channel::<Allocation<Device>>(64);
    std::thread::scope(|scope| {
        scope.spawn(move || from.into_iter().for_each(free));
        let mut live = HashSet::new();
        for _ in 0..5_000 {
            let made = many(&world, 1, KIB).remove(0);
            live.insert(made.memory_address());
            to.send(made).expect("the other thread takes them");
        }
        assert!(live.len() < 1_000, "slots freed by another thread are reused: {}", live.len());
        drop(to);
    });
    world.finish();
}

/// Empty chunks of slots count as free memory as soon as memory is short.
#[test]
fn what_may_not_grow_gets_the_bytes_of_empty_slots() {
    let world = world(Profile::h200(), AllocatorDesc::default());
    let held = many(&world, 2_000, 10 * KIB);
    held.into_iter().for_each(free);
    let bytes = world.memory.statistics().total().block_bytes;
    let desc = AllocationDesc { never_grow: true, ..Default::default() };
    let held: Vec<_> = std::iter::from_fn(|| world.memory.allocate(needs(5_000, 256), desc).ok()).collect();
    assert!(held.len() as u64 * 6 * KIB > bytes / 10 * 9, "{} of 5,000 bytes in {bytes}", held.len());
    assert_eq!(world.memory.statistics().total().block_bytes, bytes);
    drop(held);
    world.finish();
}
