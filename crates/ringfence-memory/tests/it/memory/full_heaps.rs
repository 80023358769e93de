//! Full or small heaps: the number of driver calls, the heap that serves, and the content of the error.

use ringfence::device::fault::{Call, Rule};
use ringfence::device::{DeviceError, MemoryHeap, MemoryProperties, MemoryType, Requirements, ResourceClass};
use ringfence::memory::{Allocation, Error, PlannedWay};
use ringfence::sim::Profile;
use ringfence::{AllocationDesc, AllocatorDesc, Dedicated, Location};

use ringfence_testkit::fixture::{FaultyFixture, Fixture};

use crate::memory::world::{Device, KIB, MIB, card, needs, next, on_device, world};

const OUT: DeviceError = DeviceError::OutOfDeviceMemory;

/// Two device-local heaps, with one memory type each; the first is tried first.
fn two_heaps(first: u64, second: u64) -> Profile {
    let mut profile = card(first, second);
    profile.capabilities.memory_heaps[1].device_local = true;
    profile.capabilities.memory_types =
        (0..2).map(|heap| MemoryType { heap, properties: MemoryProperties::DEVICE_LOCAL }).collect();
    (profile.buffer_types, profile.texture_types, profile.target_types) = (0b11, 0b11, 0b11);
    (profile.buffer_alignment, profile.texture_alignment) = (256, KIB);
    profile
}

/// Allocates all of the first heap except `left` bytes.
fn fill(world: &FaultyFixture, left: u64) -> Allocation<Device> {
    let bytes = world.memory.budgets().heap(0).heap_bytes - left;
    let desc = AllocationDesc { memory_types: 1, dedicated: Dedicated::Always, ..Default::default() };
    world.memory.allocate(needs(bytes, 256), desc).expect("the heap is empty")
}

fn of_class(class: ResourceClass, size: u64) -> Requirements {
    Requirements { class, ..needs(size, 256) }
}

/// Returns the number of driver calls for memory, including refused ones.
fn asked(world: &FaultyFixture) -> u64 {
    world.device.calls().allocate_memory
}

#[test]
fn a_full_first_heap_is_not_tried_again_by_each_request() {
    for class in [ResourceClass::Buffer, ResourceClass::Texture] {
        let world = world(two_heaps(256 * MIB, 8 << 30), AllocatorDesc::default());
        let filler = fill(&world, 300 * KIB);
        let (before, mut state, mut held) = (asked(&world), 0x9e37_79b9, Vec::new());
        for _ in 0..30_000 {
            let size = 256 + next(&mut state) % (20 * KIB - 256);
            held.push(world.memory.allocate(of_class(class, size), AllocationDesc::default()).expect("room"));
        }
        let calls = asked(&world) - before;
        assert!(calls < 100, "{class:?}: {calls} driver calls for 30,000 requests");
        assert_eq!(held.iter().filter(|held| held.is_dedicated()).count(), 0, "{class:?}: blocks of the next type");
        drop((held, filler));
        world.finish();
    }
}

/// The driver prefers dedicated memory for the textures, and the first heap is full.
#[test]
fn a_full_first_heap_is_not_tried_again_by_each_texture_that_prefers_its_own_memory() {
    let world = world(two_heaps(256 * MIB, 8 << 30), AllocatorDesc::default());
    let filler = fill(&world, 300 * KIB);
    let before = asked(&world);
    let texture = Requirements { prefers_dedicated: true, ..of_class(ResourceClass::Texture, MIB) };
    let held: Vec<_> =
        (0..1000).map(|_| world.memory.allocate(texture, AllocationDesc::default()).expect("room")).collect();
    let calls = asked(&world) - before;
    assert!(calls <= 1000 + 20, "{calls} driver calls for 1000 textures");
    assert!(held.iter().all(|held| held.is_dedicated() && held.memory_type() == 1));
    drop((held, filler));
    world.finish();
}

#[test]
fn the_next_memory_type_comes_before_memory_of_its_own() {
    let world = world(two_heaps(256 * MIB, 8 << 30), AllocatorDesc::default());
    let filler = fill(&world, 140 * KIB);
    let plan = world.memory.plan().memory(needs(130 * KIB, 256), AllocationDesc::default()).expect("room");
    let made = world.memory.allocate(needs(130 * KIB, 256), AllocationDesc::default()).expect("room");
    assert_eq!((plan.memory_type, plan.way), (1, PlannedWay::NewBlock));
    assert_eq!((made.memory_type(), made.is_dedicated()), (1, false));
    // If no other type is allowed, the rest of the heap serves as dedicated memory.
    let only = AllocationDesc { memory_types: 1, ..Default::default() };
    let plan = world.memory.plan().memory(needs(130 * KIB, 256), only).expect("140 KiB are left");
    let own = world.memory.allocate(needs(130 * KIB, 256), only).expect("140 KiB are left");
    assert_eq!((plan.way, own.is_dedicated()), (PlannedWay::Dedicated, true));
    drop((made, own, filler));
    world.finish();
}

#[test]
fn a_heap_that_was_full_is_tried_again_once_something_is_freed_there() {
    let world = world(two_heaps(256 * MIB, 8 << 30), AllocatorDesc::default());
    let filler = fill(&world, 300 * KIB);
    let second = world.memory.allocate(needs(MIB, 256), AllocationDesc::default()).expect("room");
    assert_eq!(second.memory_type(), 1);
    // SAFETY: no work is ever submitted.
    unsafe { filler.destroy_now() };
    let first = world.memory.allocate(needs(3 * MIB, 256), AllocationDesc::default()).expect("room");
    assert_eq!(first.memory_type(), 0, "its memory is free again");
    drop((first, second));
    world.finish();
}

/// Dropped resources wait for a reclaim. They are freed before the next heap is used, also after a refusal.
#[test]
fn what_was_dropped_since_a_refusal_is_freed_before_the_next_heap_serves() {
    let world = world(two_heaps(256 * MIB, 8 << 30), AllocatorDesc::default());
    let filler = fill(&world, 300 * KIB);
    for _ in 0..3 {
        let second = world.memory.allocate(needs(4 * MIB, 256), AllocationDesc::default()).expect("room");
        assert_eq!(second.memory_type(), 1);
        drop(second);
    }
    drop(filler);
    let first = world.memory.allocate(needs(5 * MIB, 256), AllocationDesc::default()).expect("room");
    assert_eq!(first.memory_type(), 0);
    drop(first);
    world.finish();
}

#[test]
fn a_heap_that_was_full_is_tried_again_once_its_budget_changes() {
    let world = world(two_heaps(256 * MIB, 8 << 30), AllocatorDesc::default());
    let other = Fixture::on(&world.device, AllocatorDesc::default());
    let alone = AllocationDesc { memory_types: 1, dedicated: Dedicated::Always, ..Default::default() };
    let filler = other.memory.allocate(needs(256 * MIB - 300 * KIB, 256), alone).expect("the heap is empty");
    let second = world.memory.allocate(needs(MIB, 256), AllocationDesc::default()).expect("room");
    assert_eq!(second.memory_type(), 1, "another process uses the first heap");
    // SAFETY: no work is ever submitted.
    unsafe { filler.destroy_now() };
    world.memory.reclaim();
    let first = world.memory.allocate(needs(5 * MIB, 256), AllocationDesc::default()).expect("room");
    assert_eq!(first.memory_type(), 0, "the driver reports less usage");
    drop((first, second));
    drop(other.timelines);
    drop(other.memory);
    world.finish();
}

/// A refusal is remembered to save driver calls. It never fails a request that the driver would serve.
#[test]
fn a_refusal_that_is_remembered_fails_no_request() {
    let world = world(card(256 * MIB, 256 * MIB), AllocatorDesc::default());
    world.faults.add(Rule { call: Some(Call::AllocateMemory), ..Rule::new(OUT) });
    let desc = AllocationDesc { dedicated: Dedicated::Never, ..on_device() };
    assert!(matches!(world.memory.allocate(needs(MIB, 256), desc), Err(Error::OutOfMemory { cause: OUT, .. })));
    world.faults.clear();
    let made =
        world.memory.allocate(needs(MIB, 256), desc).expect("the driver has memory again, but does not report it");
    drop(made);
    world.finish();
}

#[test]
fn no_more_than_its_heap_has_is_requested_of_the_driver() {
    // A device heap that is smaller than the object limit, beside a large host heap.
    let mut profile = card(4_026_531_840, 14_600_000_000);
    profile.capabilities.memory_object_bytes_max = 4_294_967_292;
    let size = 4_200_000_000;
    let world = world(profile, AllocatorDesc::default());
    let before = asked(&world);
    let refused = world.memory.allocate(needs(size, 256), on_device()).err();
    assert_eq!(refused, Some(Error::TooLarge { size, max: 4_026_531_840 }));
    assert_eq!(world.memory.plan().memory(needs(size, 256), on_device()).err(), refused, "as planned");
    let own = AllocationDesc { dedicated: Dedicated::Always, ..on_device() };
    assert_eq!(world.memory.allocate(needs(size, 256), own).err(), refused);
    assert_eq!(asked(&world), before, "the driver was not called");
    let beyond = needs(4_294_967_293, 256);
    assert_eq!(
        world.memory.allocate(beyond, AllocationDesc { location: Location::Upload, ..Default::default() }).err(),
        Some(Error::TooLarge { size: 4_294_967_293, max: 4_294_967_292 }),
        "the largest object, where the heap is larger"
    );
    world.finish();
}

#[test]
fn a_type_whose_heap_is_too_small_is_passed_over() {
    let world = world(two_heaps(16 * MIB, 8 << 30), AllocatorDesc::default());
    let size = 16_788_480;
    for dedicated in [Dedicated::Auto, Dedicated::Always, Dedicated::Never] {
        let image = of_class(ResourceClass::Texture, size);
        let desc = AllocationDesc { dedicated, ..Default::default() };
        let plan = world.memory.plan().memory(image, desc).expect("room");
        let made = world.memory.allocate(image, desc).expect("the second heap has room");
        assert_eq!((plan.memory_type, made.memory_type()), (1, 1));
        drop(made);
    }
    let first = AllocationDesc { memory_types: 1, ..Default::default() };
    let refused = world.memory.allocate(needs(size, 256), first).err();
    assert_eq!(refused, Some(Error::TooLarge { size, max: 16 * MIB }));
    world.finish();
}

/// A card with a window of 256 MiB through which the host accesses 8 GiB of device memory.
fn windowed() -> Profile {
    let mut profile = card(8 << 30, 8 << 30);
    let heap = profile.capabilities.memory_heaps.len() as u32;
    profile.capabilities.memory_heaps.push(MemoryHeap { bytes: 256 * MIB, device_local: true });
    let properties = MemoryProperties::DEVICE_LOCAL | MemoryProperties::HOST_VISIBLE | MemoryProperties::HOST_COHERENT;
    let window = MemoryType { heap, properties };
    profile.capabilities.memory_types.push(window);
    profile.buffer_types |= 1 << (profile.capabilities.memory_types.len() - 1);
    profile
}

const WINDOW: MemoryProperties = MemoryProperties::DEVICE_LOCAL.union(MemoryProperties::HOST_VISIBLE);

#[test]
fn more_than_a_window_has_goes_elsewhere_or_is_refused() {
    let world = world(windowed(), AllocatorDesc { window_bytes_max: u64::MAX, ..Default::default() });
    let near = AllocationDesc { location: Location::DeviceUpload, ..Default::default() };
    let made = world.memory.allocate(needs(512 * MIB, 256), near).expect("host memory has room");
    assert_eq!(world.memory.budgets().heap(1).reserved_bytes, 512 * MIB);
    let strict = AllocationDesc { required: WINDOW, ..near };
    let before = asked(&world);
    let refused = world.memory.allocate(needs(512 * MIB, 256), strict).err();
    assert_eq!(refused, Some(Error::TooLarge { size: 512 * MIB, max: 256 * MIB }));
    assert_eq!(asked(&world), before);
    drop(made);
    world.finish();
}

#[test]
fn more_than_the_mapped_heap_has_is_too_large() {
    let world = world(card(8 << 30, 256 * MIB), AllocatorDesc::default());
    let before = asked(&world);
    let back = AllocationDesc { location: Location::Readback, ..Default::default() };
    let refused = world.memory.allocate(needs(300 * MIB, 256), back).err();
    assert_eq!(refused, Some(Error::TooLarge { size: 300 * MIB, max: 256 * MIB }));
    assert_eq!(asked(&world), before);
    world.finish();
}

#[test]
fn what_only_the_window_can_serve_gets_what_is_kept_of_it() {
    let world = world(windowed(), AllocatorDesc::default());
    let near = AllocationDesc { location: Location::DeviceUpload, ..Default::default() };
    let held: Vec<_> = (0..12).map(|_| world.buffer(20 * MIB, near).expect("room")).collect();
    let window = held.iter().filter(|buffer| buffer.memory_type() == 3).count();
    assert_eq!(window, 6, "128 of 256 MiB");
    for required in [WINDOW, WINDOW | MemoryProperties::HOST_COHERENT] {
        let strict = AllocationDesc { required, ..near };
        let plan = world.memory.plan().memory(needs(30 * MIB, 256), strict).expect("the rest is kept for it");
        let made = world.buffer(30 * MIB, strict).expect("the rest is kept for exactly this");
        assert_eq!((plan.memory_type, plan.heap, made.memory_type()), (3, 2, 3));
        drop(made);
    }
    // The heap's own limit applies to these requests too.
    let strict = AllocationDesc { required: WINDOW, dedicated: Dedicated::Always, ..near };
    let rest: Vec<_> = (0..4).map(|_| world.buffer(30 * MIB, strict).expect("136 MiB are left")).collect();
    assert!(matches!(world.buffer(30 * MIB, strict), Err(Error::OutOfMemory { .. })));
    drop((held, rest));
    world.finish();
}

#[test]
fn a_limit_of_the_callers_own_holds_for_what_only_the_window_can_serve() {
    let mut heap_bytes_max = [u64::MAX; 16];
    heap_bytes_max[2] = 64 * MIB;
    let world = world(windowed(), AllocatorDesc { heap_bytes_max, window_bytes_max: 32 * MIB, ..Default::default() });
    let alone = AllocationDesc { location: Location::DeviceUpload, dedicated: Dedicated::Always, ..Default::default() };
    let strict = AllocationDesc { required: WINDOW, ..alone };
    let held = [world.buffer(32 * MIB, alone).expect("room"), world.buffer(32 * MIB, strict).expect("room")];
    assert!(held.iter().all(|buffer| buffer.memory_type() == 3));
    let Some(Error::OverBudget { budget, .. }) = world.buffer(MIB, strict).err() else { panic!("beyond the limit") };
    assert_eq!((budget.reserved_bytes, budget.limit_bytes), (64 * MIB, 64 * MIB), "the limit that it met");
    assert_eq!(world.memory.budgets().heap(2).limit_bytes, 32 * MIB, "for other requests");
    drop(held);
    world.finish();
}

/// 64 memory objects for 140 GiB: images of 1 MiB that prefer dedicated memory must not use them up.
#[test]
fn blocks_are_large_where_memory_objects_are_few() {
    let mut profile = Profile::h200();
    profile.capabilities.memory_objects_max = 64;
    let world = world(profile, AllocatorDesc::default());
    let image = Requirements { prefers_dedicated: true, ..of_class(ResourceClass::Texture, MIB) };
    let image = Requirements { memory_type_bits: 0b10, ..image };
    let mut held = Vec::new();
    for index in 0..100_000 {
        match world.memory.allocate(image, AllocationDesc::default()) {
            Ok(made) => held.push(made),
            Err(error) => panic!("image {index}: {error}"),
        }
    }
    assert!(world.memory.budgets().memory_object_count() < 64);
    drop(held);
    world.finish();
}

/// If the driver has no memory object left, an existing block serves a request that prefers dedicated memory.
#[test]
fn what_prefers_its_own_memory_lies_in_a_block_where_no_object_is_left() {
    let world = world(two_heaps(256 * MIB, 8 << 30), AllocatorDesc::default());
    let held = world.memory.allocate(needs(100 * KIB, 256), AllocationDesc::default()).expect("room");
    world.faults.add(Rule::new(DeviceError::TooManyObjects));
    let preferring = Requirements { prefers_dedicated: true, ..needs(100 * KIB, 256) };
    let plan = world.memory.plan().memory(preferring, AllocationDesc::default());
    assert!(plan.is_ok(), "{plan:?}");
    let made = world.memory.allocate(preferring, AllocationDesc::default()).expect("its block has room");
    assert!(!made.is_dedicated());
    drop((held, made));
    world.finish();
}

#[test]
fn a_snapshot_shows_no_budget_above_its_heap() {
    let world = world(card(64 * MIB, 64 * MIB), AllocatorDesc::default());
    world.device.set_budget(0, Some(80 * MIB));
    world.memory.reclaim();
    assert_eq!(world.memory.budgets().heap(0).budget_bytes, 64 * MIB);
    assert_eq!(world.memory.snapshot().heaps[0].budget_bytes, Some(64 * MIB));
    world.finish();
}
