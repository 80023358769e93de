//! Budgets, limits and the number of memory objects.

use ringfence::device::DeviceError;
use ringfence::device::sim::Profile;
use ringfence::{AllocationDesc, AllocatorDesc, Dedicated, Error, Location};

use crate::world::{KIB, MIB, World, card, on_device};

#[test]
fn within_budget_refuses_before_the_driver_is_asked() {
    let world = World::card(64 * MIB, 64 * MIB);
    world.sim.set_budget(0, Some(8 * MIB));
    world.memory.reclaim();
    let strict = AllocationDesc { within_budget: true, ..on_device() };
    let asked = world.sim.calls().allocate_memory;
    let error = world.buffer(16 * MIB, strict).err();
    let Some(Error::OverBudget { size, budget, .. }) = error else { panic!("{error:?}") };
    assert_eq!((size, budget.budget_bytes, budget.usage_bytes), (16 * MIB, 8 * MIB, 0));
    assert_eq!(world.sim.calls().allocate_memory, asked, "refused early");
    let beyond = world.buffer(16 * MIB, on_device()).expect("whoever may go beyond the budget does");
    drop(beyond);
    world.finish();
}

#[test]
fn a_block_is_halved_to_stay_within_the_budget() {
    let world = World::card(8 << 30, 8 << 30);
    world.sim.set_budget(0, Some(3 * MIB));
    world.memory.reclaim();
    let buffer = world.buffer(64 * KIB, on_device()).expect("there is room");
    assert_eq!(world.memory.statistics().types[0].block_bytes, 2 * MIB, "a block of 4 MiB would go beyond");
    assert_eq!(world.memory.budget(0).headroom_bytes(), MIB);
    drop(buffer);
    world.finish();
}

#[test]
fn use_is_reckoned_between_the_drivers_answers() {
    let world = World::card(1 << 30, 1 << 30);
    let alone = AllocationDesc { dedicated: Dedicated::Always, ..on_device() };
    for count in 1..=20 {
        let buffer = world.buffer(MIB, alone).expect("there is room");
        std::mem::forget((count, Box::new(())));
        assert_eq!(world.memory.budget(0).usage_bytes, MIB);
        assert_eq!(world.memory.budget(0).reserved_bytes, MIB);
        drop(buffer);
        world.memory.reclaim();
        assert_eq!(world.memory.budget(0).usage_bytes, 0);
    }
    world.finish();
}

#[test]
fn without_budgets_from_the_driver_four_fifths_of_the_heap_are_reckoned_with() {
    let world = World::new(Profile::lavapipe(), AllocatorDesc::default());
    assert_eq!(world.memory.budget(0).budget_bytes, (2_u64 << 30) / 100 * 80);
    let strict = AllocationDesc { within_budget: true, ..Default::default() };
    assert!(matches!(world.buffer(1800 * MIB, strict), Err(Error::OverBudget { .. })));
    world.finish();
}

#[test]
fn a_limit_of_the_callers_own_makes_the_card_smaller() {
    let mut heap_bytes_max = [u64::MAX; 16];
    heap_bytes_max[0] = 32 * MIB;
    let world = World::new(card(1 << 30, 1 << 30), AllocatorDesc { heap_bytes_max, ..Default::default() });
    let alone = AllocationDesc { dedicated: Dedicated::Always, ..on_device() };
    let first = world.buffer(20 * MIB, alone).expect("below the limit");
    let error = world.buffer(20 * MIB, alone).err();
    let Some(Error::OverBudget { budget, .. }) = error else { panic!("{error:?}") };
    assert_eq!((budget.limit_bytes, budget.reserved_bytes), (32 * MIB, 20 * MIB));
    drop(first);
    world.finish();
}

/// A card whose host-visible window into device memory has the size that PCI gives without further ado.
#[test]
fn a_small_window_is_not_used_up_by_default() {
    let mut profile = Profile::h200();
    let window = profile.capabilities.memory_heaps.len() as u32;
    profile.capabilities.memory_heaps.push(ringfence::device::MemoryHeap { bytes: 256 * MIB, device_local: true });
    profile.capabilities.memory_types[4].heap = window;
    let world = World::new(profile, AllocatorDesc::default());
    let near = AllocationDesc { location: Location::DeviceUpload, dedicated: Dedicated::Always, ..Default::default() };
    let buffers: Vec<_> = (0..10).map(|_| world.buffer(32 * MIB, near).expect("host memory will do")).collect();
    let in_window = buffers.iter().filter(|buffer| buffer.memory_type() == 4).count();
    assert_eq!(in_window, 4, "128 of 256 MiB are left for what cannot do without");
    assert!(buffers.iter().all(|buffer| buffer.is_mapped()), "the others are host-visible all the same");
    let device: Vec<_> = (0..10).map(|_| world.buffer(32 * MIB, AllocationDesc::default()).expect("room")).collect();
    assert!(device.iter().all(|buffer| buffer.memory_type() == 1), "nobody else goes there");
    drop((buffers, device));
    world.finish();
}

#[test]
fn the_largest_number_of_memory_objects_is_obeyed_and_preferences_given_up_near_it() {
    let mut profile = Profile::h200();
    profile.capabilities.memory_objects_max = 16;
    profile.dedicated_preferred_bytes = MIB;
    let world = World::new(profile, AllocatorDesc::default());
    let alone = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
    let mut held: Vec<_> = (0..11).map(|_| world.buffer(KIB, alone).expect("below the limit")).collect();
    let target = ringfence::device::Requirements { prefers_dedicated: true, ..crate::world::needs(2 * MIB, KIB) };
    let preferred = world.memory.allocate(target, AllocationDesc::default()).expect("there is room");
    assert!(preferred.is_dedicated());
    let shared = world.memory.allocate(target, AllocationDesc::default()).expect("there is room");
    assert!(!shared.is_dedicated(), "three quarters of the objects are gone");
    while world.memory.statistics().total().dedicated_count + world.memory.statistics().total().block_count < 16 {
        held.push(world.buffer(KIB, alone).expect("below the limit"));
    }
    let cause = DeviceError::TooManyObjects;
    let error = world.buffer(KIB, alone).err();
    assert!(matches!(error, Some(Error::OutOfMemory { cause: held, .. }) if held == cause), "{error:?}");
    drop((held, preferred, shared));
    world.finish();
}
