//! Budgets, limits and the number of memory objects.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringfence::algorithms::algorithm::Algorithm;
use ringfence::device::fault::{Call, Rule};
use ringfence::device::{DeviceError, MemoryHeap, MemoryProperties, TextureDesc, TextureUsage};
use ringfence::memory::{Budget, Error, PoolDesc};
use ringfence::placement::{Placement, PlacementDesc};
use ringfence::sim::Profile;
use ringfence::transient::{TransientDesc, TransientError};
use ringfence::{AllocationDesc, AllocatorDesc, Dedicated, Location, TransientAllocator};

use ringfence_testkit::fixture::{FaultyFixture, FixtureDesc};

use crate::memory::world::{KIB, MIB, card, needs, on_card, on_device, world};

/// Describes dedicated device memory.
fn alone() -> AllocationDesc<'static> {
    AllocationDesc { dedicated: Dedicated::Always, ..on_device() }
}

#[test]
fn within_budget_refuses_before_the_driver_is_asked() {
    let world = on_card(64 * MIB, 64 * MIB);
    world.device.set_budget(0, Some(8 * MIB));
    world.memory.reclaim();
    let strict = AllocationDesc { within_budget: true, ..on_device() };
    let asked = world.device.calls().allocate_memory;
    let error = world.buffer(16 * MIB, strict).err();
    let Some(Error::OverBudget { size, budget, .. }) = error else { panic!("{error:?}") };
    assert_eq!((size, budget.budget_bytes, budget.usage_bytes), (16 * MIB, 8 * MIB, 0));
    assert_eq!(world.device.calls().allocate_memory, asked, "refused early");
    let beyond = world.buffer(16 * MIB, on_device()).expect("the thread that may go beyond the budget does");
    drop(beyond);
    world.finish();
}

#[test]
fn a_block_is_halved_to_stay_within_the_budget() {
    let world = on_card(8 << 30, 8 << 30);
    world.device.set_budget(0, Some(3 * MIB));
    world.memory.reclaim();
    let buffer = world.buffer(64 * KIB, on_device()).expect("there is room");
    assert_eq!(world.memory.statistics().types[0].block_bytes, 2 * MIB, "a block of 4 MiB would go beyond");
    assert_eq!(world.memory.budgets().heap(0).headroom_bytes(), MIB);
    drop(buffer);
    world.finish();
}

#[test]
fn use_is_reckoned_between_the_drivers_answers() {
    let world = on_card(1 << 30, 1 << 30);
    let alone = AllocationDesc { dedicated: Dedicated::Always, recycle: false, ..on_device() };
    for count in 1..=20 {
        let buffer = world.buffer(MIB, alone).expect("there is room");
        std::mem::forget((count, Box::new(())));
        assert_eq!(world.memory.budgets().heap(0).usage_bytes, MIB);
        assert_eq!(world.memory.budgets().heap(0).reserved_bytes, MIB);
        drop(buffer);
        world.memory.reclaim();
        assert_eq!(world.memory.budgets().heap(0).usage_bytes, 0);
    }
    world.finish();
}

#[test]
fn without_budgets_from_the_driver_four_fifths_of_the_heap_are_reckoned_with() {
    let world = world(Profile::lavapipe(), AllocatorDesc::default());
    assert_eq!(world.memory.budgets().heap(0).budget_bytes, (2_u64 << 30) / 100 * 80);
    let strict = AllocationDesc { within_budget: true, ..Default::default() };
    assert!(matches!(world.buffer(1800 * MIB, strict), Err(Error::OverBudget { .. })));
    world.finish();
}

#[test]
fn a_limit_of_the_callers_own_makes_the_card_smaller() {
    let mut heap_bytes_max = [u64::MAX; 16];
    heap_bytes_max[0] = 32 * MIB;
    let world = world(card(1 << 30, 1 << 30), AllocatorDesc { heap_bytes_max, ..Default::default() });
    let alone = AllocationDesc { dedicated: Dedicated::Always, ..on_device() };
    let first = world.buffer(20 * MIB, alone).expect("below the limit");
    let error = world.buffer(20 * MIB, alone).err();
    let Some(Error::OverBudget { budget, .. }) = error else { panic!("{error:?}") };
    assert_eq!((budget.limit_bytes, budget.reserved_bytes), (32 * MIB, 20 * MIB));
    drop(first);
    world.finish();
}

/// By default, preferences for a small host-visible window (256 MiB, the PCI default) use at most half of the window.
#[test]
fn a_small_window_is_not_used_up_by_default() {
    let mut profile = Profile::h200();
    let window = profile.capabilities.memory_heaps.len() as u32;
    profile.capabilities.memory_heaps.push(ringfence::device::MemoryHeap { bytes: 256 * MIB, device_local: true });
    profile.capabilities.memory_types[4].heap = window;
    let world = world(profile, AllocatorDesc::default());
    let near = AllocationDesc { location: Location::DeviceUpload, dedicated: Dedicated::Always, ..Default::default() };
    let buffers: Vec<_> = (0..10).map(|_| world.buffer(32 * MIB, near).expect("host memory will do")).collect();
    let in_window = buffers.iter().filter(|buffer| buffer.memory_type() == 4).count();
    assert_eq!(in_window, 4, "128 of 256 MiB are left for requests that need the window");
    assert!(buffers.iter().all(|buffer| buffer.is_mapped()), "the others are host-visible all the same");
    let device: Vec<_> = (0..10).map(|_| world.buffer(32 * MIB, AllocationDesc::default()).expect("room")).collect();
    assert!(device.iter().all(|buffer| buffer.memory_type() == 1), "no other request uses it");
    drop((buffers, device));
    world.finish();
}

#[test]
fn the_largest_number_of_memory_objects_is_obeyed_and_preferences_given_up_near_it() {
    let mut profile = Profile::h200();
    profile.capabilities.memory_objects_max = 16;
    profile.dedicated_preferred_bytes = MIB;
    let world = world(profile, AllocatorDesc::default());
    let alone = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
    let mut held: Vec<_> = (0..3).map(|_| world.buffer(KIB, alone).expect("below the limit")).collect();
    let target =
        ringfence::device::Requirements { prefers_dedicated: true, ..crate::memory::world::needs(2 * MIB, KIB) };
    let preferred = world.memory.allocate(target, AllocationDesc::default()).expect("there is room");
    assert!(preferred.is_dedicated());
    let shared = world.memory.allocate(target, AllocationDesc::default()).expect("there is room");
    assert!(!shared.is_dedicated(), "a quarter of the objects are used, and it is smaller than an object's share");
    while world.memory.statistics().total().dedicated_count + world.memory.statistics().total().block_count < 16 {
        held.push(world.buffer(KIB, alone).expect("below the limit"));
    }
    let cause = DeviceError::TooManyObjects;
    let error = world.buffer(KIB, alone).err();
    assert!(matches!(error, Some(Error::OutOfMemory { cause: held, .. }) if held == cause), "{error:?}");
    drop((held, preferred, shared));
    world.finish();
}

#[test]
fn seed_003_06_the_largest_allocation_is_served_and_one_byte_more_is_not() {
    let mut profile = card(64 * MIB, 64 * MIB);
    profile.capabilities.memory_object_bytes_max = 8 * MIB;
    let world = world(profile, AllocatorDesc::default());
    for bytes in [8 * MIB - 1, 8 * MIB] {
        drop(world.memory.allocate(needs(bytes, 256), alone()).expect("no more than the largest"));
    }
    for (bytes, desc) in [(8 * MIB + 1, alone()), (8 * MIB + 1, on_device()), (u64::MAX, on_device())] {
        let refused = world.memory.allocate(needs(bytes, 256), desc).err();
        assert_eq!(refused, Some(Error::TooLarge { size: bytes, max: 8 * MIB }));
    }
    world.memory.reclaim();
    let asked = world.device.calls().allocate_memory;
    assert!(world.memory.allocate(needs(8 * MIB + 1, 256), on_device()).is_err());
    assert_eq!(world.device.calls().allocate_memory, asked, "the driver was not called");
    world.finish();
}

#[test]
fn seed_003_06_as_many_memory_objects_as_the_driver_has_and_no_more() {
    let mut profile = Profile::h200();
    profile.capabilities.memory_objects_max = 5;
    let world = world(profile, AllocatorDesc::default());
    let mut held: Vec<_> = (0..5).map(|_| world.memory.allocate(needs(MIB, 256), alone()).expect("five")).collect();
    for _ in 0..3 {
        let asked = world.device.calls().allocate_memory;
        let error = world.memory.allocate(needs(MIB, 256), alone()).err();
        // The simulated driver has the same limit. It received no further call, so the library rejected the request.
        assert_eq!(world.device.calls().allocate_memory, asked, "refused early");
        let cause = DeviceError::TooManyObjects;
        assert!(matches!(error, Some(Error::OutOfMemory { size: MIB, cause: held, .. }) if held == cause), "{error:?}");
        assert_eq!(world.device.live().memories, 5);
        // SAFETY: no submission uses it.
        unsafe { held.pop().expect("one").destroy_now() };
        held.push(world.memory.allocate(needs(MIB, 256), alone()).expect("one was freed"));
    }
    drop(held);
    world.finish();
}

#[test]
fn seed_003_06_as_many_pools_as_are_set_and_no_more() {
    let world = on_card(64 * MIB, 64 * MIB);
    let algorithm = Algorithm::Equal { block_size: 64 * KIB };
    let desc = PoolDesc { block_bytes: 256 * KIB, block_count_max: 3, algorithm, ..Default::default() };
    let pool = world.memory.create_pool(desc).expect("such a pool");
    let allocate = || pool.allocate(needs(60 * KIB, 256), AllocationDesc::default());
    let mut held: Vec<_> = (0..12).map(|_| allocate().expect("three of four blocks each")).collect();
    assert_eq!(pool.statistics().block_count, 3);
    let full = Error::PoolFull { size: 60 * KIB, block_count_max: 3, block_bytes: 256 * KIB };
    assert_eq!(allocate().err(), Some(full));
    // SAFETY: no submission uses it.
    unsafe { held.swap_remove(5).destroy_now() };
    held.push(allocate().expect("one was freed"));
    assert_eq!((allocate().err(), pool.statistics().block_count), (Some(full), 3));
    drop((held, pool));
    world.finish();
}

/// Each heap has its own budget, caller's limit and usage. A request that fits exactly is granted.
#[test]
fn seed_003_06_budgets_and_limits_hold_to_the_byte_for_each_heap() {
    // One heap of device memory, one of device memory that the host can access, and one of host memory.
    let mut profile = card(64 * MIB, 64 * MIB);
    let window = profile.capabilities.memory_heaps.len();
    profile.capabilities.memory_heaps.push(MemoryHeap { bytes: 64 * MIB, device_local: true });
    let shared = profile.capabilities.memory_types.len() as u32;
    let mut near = profile.capabilities.memory_types[0];
    near.properties |= MemoryProperties::HOST_VISIBLE | MemoryProperties::HOST_COHERENT;
    near.heap = window as u32;
    profile.capabilities.memory_types.push(near);
    let mut heap_bytes_max = [u64::MAX; 16];
    heap_bytes_max[window] = 16 * MIB;
    let desc = AllocatorDesc { heap_bytes_max, window_bytes_max: u64::MAX, ..Default::default() };
    let world = world(profile, desc);
    let only = |memory_type: u32| AllocationDesc {
        memory_types: 1 << memory_type,
        within_budget: true,
        dedicated: Dedicated::Always,
        ..Default::default()
    };
    world.device.set_budget(0, Some(8 * MIB));
    world.memory.reclaim();
    let allocate = |bytes: u64, memory_type: u32| world.memory.allocate(needs(bytes, 256), only(memory_type));
    let held = [allocate(5 * MIB, 0).expect("of 8 MiB"), allocate(12 * MIB, shared).expect("of 16 MiB")];
    let used = |heap: u32| {
        let budget = world.memory.budgets().heap(heap);
        (budget.reserved_bytes, budget.usage_bytes)
    };
    assert_eq!((used(0), used(window as u32)), ((5 * MIB, 5 * MIB), (12 * MIB, 12 * MIB)), "each its own");
    assert_eq!(world.memory.budgets().heap(0).headroom_bytes(), 3 * MIB);
    assert_eq!(world.memory.budgets().heap(window as u32).headroom_bytes(), 4 * MIB);
    for (memory_type, left) in [(0, 3 * MIB), (shared, 4 * MIB)] {
        let asked = world.device.calls().allocate_memory;
        let error = allocate(left + 1, memory_type).err();
        let Some(Error::OverBudget { size, budget, .. }) = error else { panic!("{error:?}") };
        assert_eq!((size, budget.headroom_bytes()), (left + 1, left));
        assert_eq!(world.device.calls().allocate_memory, asked, "refused early");
        drop(allocate(left, memory_type).expect("to the byte"));
        world.memory.reclaim();
    }
    // A block counts against the budget of its own heap: if one heap is full, the other one still has blocks.
    let block = |memory_type: u32| {
        let desc = AllocationDesc { dedicated: Dedicated::Never, ..only(memory_type) };
        world.memory.allocate(needs(64 * KIB, 256), desc)
    };
    for (memory_type, left, other) in [(0, 3 * MIB, shared), (shared, 4 * MIB, 0)] {
        let full = allocate(left, memory_type).expect("to the byte");
        let error = block(memory_type).err();
        assert!(matches!(error, Some(Error::OverBudget { size, .. }) if size == 64 * KIB), "{error:?}");
        drop(block(other).expect("its heap has room"));
        drop(full);
        world.memory.reclaim();
        world.memory.budgets().trim();
    }
    let beyond = AllocationDesc { within_budget: false, ..only(0) };
    drop(world.memory.allocate(needs(4 * MIB, 256), beyond).expect("a budget is a wish"));
    let beyond = AllocationDesc { within_budget: false, ..only(shared) };
    let error = world.memory.allocate(needs(5 * MIB, 256), beyond).err();
    assert!(matches!(error, Some(Error::OverBudget { .. })), "not a limit: {error:?}");
    drop(held);
    world.memory.reclaim();
    assert_eq!((used(0), used(window as u32)), ((0, 0), (0, 0)));
    world.finish();
}

/// When the card is full, earlier resources are unchanged, and the error has the numbers.
#[test]
fn seed_003_07_a_card_that_is_full_says_out_of_memory() {
    let world = on_card(32 * MIB, 16 * MIB);
    for desc in [on_device(), alone()] {
        let mut held = Vec::new();
        let error = loop {
            match world.memory.allocate(needs(MIB, 256), desc) {
                Ok(made) => held.push(made),
                Err(error) => break error,
            }
            assert!(held.len() <= 32, "no more than there is");
        };
        assert_eq!(held.len(), 32, "all that there is: {error:?}");
        let Error::OutOfMemory { size, location, tried_type_bits, heap, budget, cause, .. } = error else {
            panic!("{error:?}")
        };
        assert_eq!((size, location, heap, cause), (MIB, Location::Device, 0, DeviceError::OutOfDeviceMemory));
        assert!(tried_type_bits & 1 == 1 && budget.reserved_bytes == 32 * MIB && budget.heap_bytes == 32 * MIB);
        let mut places: Vec<_> = held.iter().map(|held| (std::ptr::from_ref(held.memory()), held.offset())).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 32, "memory and offset of each");
        world.memory.debug().validate().expect("the failure changes nothing");
        // SAFETY: no submission uses it.
        unsafe { held.pop().expect("one").destroy_now() };
        held.push(world.memory.allocate(needs(MIB, 256), desc).expect("the freed memory is available"));
        // A request that allows other memory gets it.
        let elsewhere =
            AllocationDesc { required: MemoryProperties::empty(), dedicated: desc.dedicated, ..Default::default() };
        let other = world.memory.allocate(needs(MIB, 256), elsewhere).expect("the host has memory");
        assert_ne!(other.memory_type(), 0);
        drop((held, other));
        world.memory.reclaim();
        world.memory.budgets().trim();
    }
    world.finish();
}

/// If the driver refuses although budget and limits have room, the error reports exactly that, the driver is called
/// only a few times, and nothing has changed.
#[test]
fn seed_003_07_what_the_driver_refuses_is_said_after_a_few_calls() {
    const CALLS_MAX: u64 = 32;
    for cause in [DeviceError::OutOfDeviceMemory, DeviceError::OutOfHostMemory, DeviceError::TooManyObjects] {
        for desc in [on_device(), alone()] {
            let world = on_card(1 << 30, 1 << 30);
            let held = world.memory.allocate(needs(MIB, 256), alone()).expect("there is room");
            let before = world.device.live();
            world.faults.add(Rule { call: Some(Call::AllocateMemory), ..Rule::new(cause) });
            let faults = world.faults.clone();
            world.faults.set_hook(Some(Box::new(move |_, _| {
                assert!(faults.injected() <= CALLS_MAX, "the driver is called endlessly");
            })));
            let error = world.memory.allocate(needs(MIB, 256), desc).err();
            let Some(Error::OutOfMemory { size: MIB, heap: 0, budget, cause: held_by_the_driver, .. }) = error else {
                panic!("{cause:?}: {error:?}")
            };
            assert_eq!((held_by_the_driver, budget.reserved_bytes), (cause, MIB));
            assert!(budget.headroom_bytes() > 512 * MIB, "neither budget nor limit was in the way");
            assert_eq!(world.device.live(), before);
            world.memory.debug().validate().expect("the failure changes nothing");
            world.faults.set_hook(None);
            world.faults.clear();
            drop(world.memory.allocate(needs(MIB, 256), desc).expect("the driver has memory again"));
            drop(held);
            world.finish();
        }
    }
}

/// A limit also holds for heaps outside the arenas: of transient resources, pools, and resources that share memory.
#[test]
fn a_limit_holds_for_heaps_of_every_kind() {
    let allocator = AllocatorDesc { heap_bytes_max: [8 * MIB; 16], ..Default::default() };
    let profile = card(1 << 30, 1 << 30);
    let world = FaultyFixture::faulty(FixtureDesc { profile, allocator, ..Default::default() });
    let texture = |side: u32| TextureDesc {
        width: side,
        height: side,
        usage: TextureUsage::RENDER_TARGET | TextureUsage::COPY_SRC,
        ..Default::default()
    };
    let too_large = texture(2048);
    let small = texture(256);
    let asked = world.device.calls().allocate_memory;
    let check = |name: &str, error: Option<Error>| {
        let Some(Error::OverBudget { budget, .. }) = error else { panic!("{name}: {error:?}") };
        assert_eq!(budget.limit_bytes, 8 * MIB, "{name}");
        assert_eq!(world.device.calls().allocate_memory, asked, "{name}: the driver was not called");
    };

    let placement = Placement::new(&world.memory, PlacementDesc::default()).expect("no object is created yet");
    check("an aliased heap", placement.aliased_heap(&texture(256), 16 * MIB, "").err());
    check("a pooled texture", placement.create_texture(&texture(2048), "").err());
    let aliased = placement.aliased_heap(&texture(256), 4 * MIB, "").expect("below the limit");
    drop(aliased);
    world.memory.reclaim();

    let asked = world.device.calls().allocate_memory;
    let mut transient =
        TransientAllocator::new(&world.memory, TransientDesc { heap_bytes: 64 * MIB, ..Default::default() });
    let mut execution = transient.begin();
    let pass = execution.pass(world.timeline().id(), &[]).expect("a queue");
    let error = execution.acquire_texture(&too_large, pass, "").err();
    let Some(TransientError::Memory(Error::OverBudget { budget, .. })) = error else { panic!("{error:?}") };
    assert_eq!((budget.limit_bytes, world.device.calls().allocate_memory), (8 * MIB, asked));
    execution.acquire_texture(&small, pass, "").expect("a heap of just what is needed");
    execution.finish(&[]);
    drop((transient, placement));
    world.finish();
}

/// A callback that owns the allocator would keep it alive, with all its memory.
#[test]
fn a_shutdown_removes_the_eviction_callback() {
    let world = on_card(64 * MIB, 64 * MIB);
    let (memory, token) = (world.memory.clone(), Arc::new(()));
    let held = Arc::clone(&token);
    world.memory.budgets().set_eviction(Some(Box::new(move |_| {
        let _ = &held;
        memory.budgets().trim() > 0
    })));
    world.memory.shutdown(Duration::ZERO).expect("no work is pending");
    assert_eq!(Arc::strong_count(&token), 1, "the callback was dropped");
    world.finish();
}

/// If another process takes memory, the driver's budget shrinks. Without a call of `reclaim`, the allocator reads the
/// new budget after 32 memory objects of any kind (`ASK_AFTER`): blocks, dedicated memory, heaps for users.
#[test]
fn the_drivers_budget_is_asked_for_again_while_memory_is_made() {
    let allocator = AllocatorDesc { device_block_bytes_max: MIB, ..Default::default() };
    let strict = |dedicated| AllocationDesc { dedicated, within_budget: true, recycle: false, ..on_device() };
    for (dedicated, size) in [(Dedicated::Always, MIB), (Dedicated::Never, 512 * KIB)] {
        let world = world(card(8 << 30, 1 << 30), allocator);
        world.memory.reclaim();
        world.device.set_budget(0, Some(64 * MIB));
        let made = (0..256).map_while(|_| world.memory.allocate(needs(size, 256), strict(dedicated)).ok());
        let held: Vec<_> = made.collect();
        let reserved = world.memory.budgets().heap(0).reserved_bytes;
        assert_eq!((held.len() as u64 * size, reserved), (64 * MIB, 64 * MIB), "{dedicated:?}");
        drop(held);
        world.finish();
    }
    let world = world(card(8 << 30, 1 << 30), allocator);
    let placement = Placement::new(&world.memory, PlacementDesc::default()).expect("no object is created yet");
    world.memory.reclaim();
    world.device.set_budget(0, Some(64 * MIB));
    let texture = TextureDesc { width: 256, height: 256, usage: TextureUsage::RENDER_TARGET, ..Default::default() };
    let heaps: Vec<_> =
        (0..40).map(|_| placement.aliased_heap(&texture, MIB, "").expect("a budget is a wish")).collect();
    assert_eq!(world.memory.budgets().heap(0).budget_bytes, 64 * MIB, "of heaps for users too");
    drop((heaps, placement));
    world.finish();
}

#[test]
fn a_budget_beyond_the_heap_counts_as_the_heap() {
    let world = on_card(64 * MIB, 64 * MIB);
    world.device.set_budget(0, Some(1 << 30));
    world.memory.reclaim();
    assert_eq!(world.memory.budgets().heap(0).budget_bytes, 64 * MIB);
    assert_eq!(world.memory.budgets().heap(0).headroom_bytes(), 64 * MIB);
    world.finish();
}

/// The calls of the excess callback: for which heap and budget.
#[test]
fn a_heap_beyond_its_budget_is_reported_when_that_begins_and_when_it_gets_worse() {
    let world = on_card(64 * MIB, 64 * MIB);
    let calls = Arc::new(Mutex::new(Vec::new()));
    let (seen, memory) = (Arc::clone(&calls), world.memory.clone());
    world.memory.budgets().set_excess_callback(Some(Box::new(move |heap, budget: Budget| {
        assert_eq!(memory.budgets().heap(heap), budget, "the callback may use the allocator");
        seen.lock().expect("no panic").push((heap, budget.usage_bytes, budget.budget_bytes));
    })));
    let steps = |budgets: &[Option<u64>]| {
        for budget in budgets {
            world.device.set_budget(0, *budget);
            world.memory.reclaim();
        }
        std::mem::take(&mut *calls.lock().expect("no panic"))
    };
    assert_eq!(steps(&[Some(MIB), None, Some(2 * MIB)]), [], "nothing is used");
    let buffer = world.buffer(16 * MIB, alone()).expect("there is room");
    let used = world.memory.budgets().heap(0).usage_bytes;
    assert_eq!(used, 16 * MIB);
    assert_eq!(steps(&[Some(used), None, Some(used + 1)]), [], "the budget is enough");
    // Beyond; no change; less; a little more; as little as before; less again.
    let falling = [8, 8, 6, 7, 6, 5].map(|mib| Some(mib * MIB));
    assert_eq!(steps(&falling), [8, 6, 5].map(|mib| (0, used, mib * MIB)));
    assert_eq!(steps(&[None, Some(9 * MIB)]), [(0, used, 9 * MIB)], "it was within the budget meanwhile");
    world.memory.budgets().set_excess_callback(None);
    assert_eq!(steps(&[Some(MIB)]), [], "the callback is removed");
    drop(buffer);
    world.finish();
}
