//! Failures: only a shortage is tried elsewhere, refusals are remembered without failing a request, and an error names
//! the steps that were tried.

use ringfence::device::fault::{Call, Rule};
use ringfence::device::{BufferDesc, BufferUsage, DeviceError, MemoryProperties, MemoryType, Requirements};
use ringfence::memory::{Allocation, Error, Tried};
use ringfence::sim::Profile;
use ringfence::{AllocationDesc, AllocatorDesc, Dedicated, Location};

use ringfence_testkit::fixture::{FaultyFixture, FixtureDesc};

use crate::memory::world::{Device, KIB, MIB, card, info, needs, on_device, world};

const OUT: DeviceError = DeviceError::OutOfDeviceMemory;

/// Two device-local heaps, with one memory type each; the first is tried first.
fn two_heaps(first: u64, second: u64) -> Profile {
    let mut profile = card(first, second);
    profile.capabilities.memory_heaps[1].device_local = true;
    profile.capabilities.memory_types =
        (0..2).map(|heap| MemoryType { heap, properties: MemoryProperties::DEVICE_LOCAL }).collect();
    (profile.buffer_types, profile.texture_types, profile.target_types) = (0b11, 0b11, 0b11);
    profile
}

/// Makes driver allocations of the first memory type fail.
fn first_type() -> Rule {
    Rule { call: Some(Call::AllocateMemory), memory_types: 1, ..Rule::new(OUT) }
}

fn make(world: &FaultyFixture, size: u64) -> Allocation<Device> {
    world.memory.allocate(needs(size, 256), AllocationDesc::default()).expect("the second heap has room")
}

/// Errors of the driver that are no shortage end a request at once: nothing else is tried, and nothing is left.
#[test]
fn only_a_shortage_is_tried_elsewhere() {
    let shortages = [OUT, DeviceError::OutOfHostMemory, DeviceError::TooManyObjects];
    let others =
        [DeviceError::Lost, DeviceError::Other(-7), DeviceError::unsupported("it"), DeviceError::invalid("it")];
    for dedicated in [Dedicated::Auto, Dedicated::Always, Dedicated::Never] {
        for error in shortages.into_iter().chain(others) {
            let world = world(two_heaps(256 * MIB, 256 * MIB), AllocatorDesc::default());
            world.faults.add(Rule { error, ..first_type() });
            let desc = AllocationDesc { dedicated, ..Default::default() };
            let made = world.memory.allocate(needs(100 * KIB, 256), desc);
            match shortages.contains(&error) {
                true => assert_eq!(made.as_ref().map(Allocation::memory_type).ok(), Some(1), "{error}: {dedicated:?}"),
                false => {
                    assert_eq!(made.as_ref().err(), Some(&Error::Device(error)), "{dedicated:?}");
                    assert_eq!(world.faults.failed(Call::AllocateMemory), 1, "{error}: {dedicated:?}");
                    assert_eq!(world.device.calls().allocate_memory, 0, "{error}: {dedicated:?}");
                }
            }
            drop(made);
            world.finish();
        }
    }
}

/// The same holds for a driver that cannot bind an object to its memory.
#[test]
fn only_a_shortage_at_binding_is_tried_elsewhere() {
    for (error, is_shortage) in [(OUT, true), (DeviceError::Other(-7), false), (DeviceError::Lost, false)] {
        let world = world(two_heaps(256 * MIB, 256 * MIB), AllocatorDesc::default());
        let held = world.buffer(64 * KIB, AllocationDesc::default()).expect("room");
        world.faults.add(Rule { call: Some(Call::Place), count: 1, ..Rule::new(error) });
        let made = world.buffer(128 * KIB, AllocationDesc::default());
        assert_eq!(made.as_ref().err(), (!is_shortage).then_some(&Error::Device(error)));
        assert_eq!(world.memory.statistics().total().range_count, 1 + u64::from(is_shortage), "no range is leaked");
        drop((made, held));
        world.finish();
    }
}

/// While the driver's budgets do not change, a refusal is remembered over any number of frames. Without budgets it is
/// forgotten after 64 reclaims, because there is no sign that another process has freed memory.
#[test]
fn a_refusal_is_remembered_as_long_as_nothing_shows_more_memory() {
    for reports_budgets in [true, false] {
        let mut profile = two_heaps(256 * MIB, 8 << 30);
        profile.reports_budgets = reports_budgets;
        let world = world(profile, AllocatorDesc::default());
        world.faults.add(first_type());
        let mut held = vec![make(&world, 100 * KIB)];
        let asked = || world.faults.failed(Call::AllocateMemory);
        let each = asked();
        assert!(each > 0);
        let mut asked_in = Vec::new();
        for reclaim in 1..=130 {
            world.memory.reclaim();
            let before = asked();
            held.push(make(&world, 100 * KIB));
            if asked() != before {
                asked_in.push(reclaim);
            }
        }
        assert_eq!(asked_in, if reports_budgets { vec![] } else { vec![64, 128] }, "budgets: {reports_budgets}");
        assert!(held.iter().all(|held| held.memory_type() == 1));
        drop(held);
        world.finish();
    }
}

/// A plan knows the refusals that the call would not try again.
#[test]
fn a_plan_passes_over_a_heap_that_has_refused_as_the_call_does() {
    let world = world(two_heaps(256 * MIB, 8 << 30), AllocatorDesc::default());
    let planned = |size| {
        let plan = world.memory.plan().memory(needs(size, 256), AllocationDesc::default()).expect("room");
        let made = make(&world, size);
        assert_eq!((plan.memory_type, plan.heap), (made.memory_type(), made.memory_type()), "{size}");
        (plan.memory_type, made)
    };
    world.faults.add(first_type());
    let first = make(&world, 100 * KIB);
    world.faults.clear();
    let (memory_type, second) = planned(100 * KIB);
    assert_eq!(memory_type, 1, "the refusal is remembered");
    drop((first, second));
    // An object of the heap is freed, so the refusal is forgotten.
    let alone = AllocationDesc { dedicated: Dedicated::Always, memory_types: 1, ..Default::default() };
    let own = world.memory.allocate(needs(64 * KIB, 256), alone).expect("the driver has memory again");
    // SAFETY: no work is ever submitted.
    unsafe { own.destroy_now() };
    let (memory_type, third) = planned(20 * MIB);
    assert_eq!(memory_type, 0);
    drop(third);
    world.finish();
}

/// A remembered refusal of dedicated memory and a trim in vain say nothing about blocks, up to the largest one.
#[test]
fn a_refusal_of_dedicated_memory_is_none_of_a_block() {
    let world = world(two_heaps(64 * MIB, 256 * MIB), AllocatorDesc::default());
    world.faults.add(Rule { call: Some(Call::AllocateMemory), ..first_type() });
    let alone = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
    let far = world.memory.allocate(needs(MIB, 256), alone).expect("the second heap has room");
    assert_eq!(far.memory_type(), 1);
    world.faults.clear();
    let block = AllocationDesc { dedicated: Dedicated::Never, ..Default::default() };
    let near = world.memory.allocate(needs(64 * MIB, 256), block).expect("the first heap is empty");
    assert_eq!((near.memory_type(), near.is_dedicated()), (0, false));
    drop((near, far));
    world.finish();
}

/// A trim reads every timeline. One that released nothing is not repeated until something is released.
#[test]
fn a_trim_in_vain_is_not_repeated() {
    let profile = two_heaps(256 * MIB, 8 << 30);
    let world = FaultyFixture::faulty(FixtureDesc { profile, timelines: 1, ..Default::default() });
    world.faults.add(first_type());
    let mut held = vec![make(&world, 3 * MIB)];
    let read = || world.device.calls().completed;
    let before = read();
    assert!(before > 0, "the first refusal was followed by a trim");
    held.extend((0..100).map(|_| make(&world, 3 * MIB)));
    assert_eq!(read(), before, "nothing was released since");
    held.truncate(90);
    held.push(make(&world, 3 * MIB));
    assert!(read() > before, "dropped resources may be done");
    drop(held);
    world.finish();
}

#[test]
fn an_error_names_each_step_that_was_tried() {
    let tried = |desc: AllocationDesc<'_>| {
        let world = world(two_heaps(64 * MIB, 64 * MIB), AllocatorDesc::default());
        world.faults.add(Rule { call: Some(Call::AllocateMemory), ..Rule::new(OUT) });
        let error = world.memory.allocate(needs(100 * KIB, 256), desc).err();
        let Some(Error::OutOfMemory { tried, tried_type_bits, heap, cause, .. }) = error else { panic!("{error:?}") };
        assert_eq!((heap, cause), (0, OUT));
        world.finish();
        (tried, tried_type_bits)
    };
    let only = |dedicated| AllocationDesc { dedicated, memory_types: 1, ..Default::default() };
    assert_eq!(tried(only(Dedicated::Always)), (Tried::TRIM | Tried::DEDICATED, 0b1));
    assert_eq!(tried(only(Dedicated::Never)), (Tried::TRIM | Tried::SMALLER_BLOCK, 0b1));
    let all = Tried::TRIM | Tried::SMALLER_BLOCK | Tried::DEDICATED;
    assert_eq!(tried(only(Dedicated::Auto)), (all, 0b1));
    assert_eq!(tried(AllocationDesc::default()), (all | Tried::NEXT_TYPE, 0b11));
}

#[test]
fn an_error_names_the_eviction_that_was_not_enough() {
    let profile = Profile::d3d12_modern();
    let world = FaultyFixture::faulty(FixtureDesc { profile, timelines: 1, ..Default::default() });
    // SAFETY: no submission uses the memory.
    let residency = unsafe { world.memory.residency() };
    let desc = AllocationDesc { dedicated: Dedicated::Always, memory_types: 1, ..Default::default() };
    let idle = world.buffer(MIB, AllocationDesc { evictable: true, ..desc }).expect("room");
    let strict = AllocationDesc { within_budget: true, ..desc };
    world.device.set_budget(0, Some(2 * MIB));
    world.memory.reclaim();
    let refused = |size| match world.buffer(size, strict).err() {
        Some(Error::OverBudget { tried, .. }) => tried,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(3 * MIB), Tried::TRIM | Tried::DEDICATED | Tried::RESIDENCY);
    assert_eq!(residency.absent_bytes(), MIB);
    assert_eq!(refused(3 * MIB), Tried::TRIM | Tried::DEDICATED, "nothing is left to be evicted");
    drop(idle);
    world.finish();
}

/// The driver is short of memory for its own objects. A shared buffer without a range is destroyed, although its block
/// is in use.
#[test]
fn an_object_is_created_once_an_empty_shared_buffer_is_gone() {
    let small = BufferDesc { size: 100, usage: BufferUsage::COPY_SRC };
    // The small buffer itself is not kept, so only the shared buffer can be released.
    let off = AllocatorDesc { recycled_bytes_max: 0, ..Default::default() };
    for is_there in [true, false] {
        let world = world(card(8 << 30, 8 << 30), off);
        let held = world.buffer(64 * KIB, on_device()).expect("room");
        if is_there {
            drop(world.memory.create_small_buffer(small, Location::Device).expect("room"));
            world.memory.reclaim();
            assert_eq!((world.memory.statistics().total().block_count, world.device.live().buffers), (1, 2));
        }
        world.faults.add(Rule { call: Some(Call::Prepare), count: 1, ..Rule::new(OUT) });
        let made = world.memory.create_buffer(&info(128 * KIB), on_device());
        assert_eq!(made.as_ref().err(), (!is_there).then_some(&Error::Device(OUT)));
        assert_eq!(world.faults.failed(Call::Prepare), 1);
        drop((made, held));
        world.finish();
    }
}

/// A memory type that the device refuses is used only if no other one matches, so that the driver names its reason.
#[test]
fn a_refused_memory_type_is_the_last_choice() {
    let mut profile = card(64 * MIB, 64 * MIB);
    profile.capabilities.memory_types[1].properties |= MemoryProperties::REFUSED;
    let world = world(profile, AllocatorDesc::default());
    let desc =
        AllocationDesc { location: Location::Upload, preferred: MemoryProperties::HOST_COHERENT, ..Default::default() };
    let plan = |memory_types| world.memory.plan().memory_type(u32::MAX, AllocationDesc { memory_types, ..desc });
    assert_eq!((plan(0b111), plan(0b110), plan(0b010)), (Some(2), Some(2), Some(1)));
    let plain = |memory_types| {
        let desc = AllocationDesc { location: Location::Upload, memory_types, ..Default::default() };
        world.memory.plan().memory_type(u32::MAX, desc)
    };
    assert_eq!((plain(0b111), plain(0b100)), (Some(2), Some(2)));
    world.faults.add(Rule { memory_types: 0b100, ..first_type() });
    let error = world.memory.allocate(needs(MIB, 256), desc).err();
    assert!(matches!(error, Some(Error::OutOfMemory { tried_type_bits: 0b100, .. })), "{error:?}");
    world.finish();
}

/// The heap that has memory, and is short of it, decides the error; not a heap that is too small for the request.
#[test]
fn a_heap_that_is_too_small_does_not_hide_a_shortage() {
    for (first, second, heap) in [(64 * MIB, 4 * MIB, 0), (4 * MIB, 64 * MIB, 1)] {
        let world = world(two_heaps(first, second), AllocatorDesc::default());
        world.faults.add(Rule { call: Some(Call::AllocateMemory), ..Rule::new(OUT) });
        for dedicated in [Dedicated::Auto, Dedicated::Always, Dedicated::Never] {
            let desc = AllocationDesc { dedicated, ..Default::default() };
            let request = Requirements { ..needs(8 * MIB, 256) };
            let error = world.memory.allocate(request, desc).err();
            let Some(Error::OutOfMemory { heap: named, tried_type_bits, .. }) = error else { panic!("{error:?}") };
            assert_eq!((named, tried_type_bits), (heap, 1 << heap), "{dedicated:?}");
        }
        world.finish();
    }
}

/// The driver refuses blocks of 2 MiB, and the budget is used up. Both hold for each size except the last, which may
/// exceed the budget: the remembered refusal of larger blocks does not send the next request to another heap.
#[test]
fn the_last_size_of_a_block_may_exceed_the_budget_after_larger_ones_were_refused() {
    let world = world(two_heaps(256 * MIB, 256 * MIB), AllocatorDesc::default());
    world.faults.add(Rule { bytes_min: MIB + 1, ..first_type() });
    // The allocator reads the budget when the first refusal makes it look for empty memory.
    world.device.set_budget(0, Some(0));
    let held: Vec<_> = (0..4).map(|_| make(&world, 900 * KIB)).collect();
    let types: Vec<_> = held.iter().map(Allocation::memory_type).collect();
    assert_eq!(types, [0; 4]);
    assert_eq!(world.memory.budgets().heap(0).budget_bytes, 0);
    assert_eq!(world.memory.statistics().types[0].block_count, 4, "blocks of 1 MiB");
    drop(held);
    world.finish();
}
