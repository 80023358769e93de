//! Each step of the fallback order, reached by making the earlier steps fail.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringfence::device::fault::{Call, Rule};
use ringfence::device::{DeviceError, MemoryProperties};
use ringfence::memory::{Error, Tried};
use ringfence::upload::{UploadDesc, WhenFull};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Dedicated, Location, UploadRing};

use ringfence_testkit::fixture::{FaultyFixture, FixtureDesc};

use crate::memory::world::{KIB, MIB, card, on_card, on_device, world};

const OUT: DeviceError = DeviceError::OutOfDeviceMemory;

/// Makes every driver allocation of at least this many bytes of device memory fail.
fn at_least(bytes_min: u64) -> Rule {
    Rule { call: Some(Call::AllocateMemory), bytes_min, memory_types: 1, ..Rule::new(OUT) }
}

#[test]
fn step_1_empty_blocks_are_trimmed_before_anything_smaller_is_asked_for() {
    let world = on_card(64 * MIB, 64 * MIB);
    // An empty block of a texture pool takes all of the card except 8 MiB.
    let types = world.memory.device().inner().profile().texture_types;
    let texture = ringfence::device::Requirements {
        class: ringfence::device::ResourceClass::Texture,
        memory_type_bits: types,
        ..crate::memory::world::needs(MIB, 64 * KIB)
    };
    let large = AllocationDesc { dedicated: Dedicated::Never, ..on_device() };
    let held = world.memory.allocate(ringfence::device::Requirements { size: 56 * MIB, ..texture }, large);
    drop(held.expect("an empty card has room"));
    world.memory.reclaim();
    assert_eq!(world.memory.statistics().total().block_bytes, 56 * MIB, "the empty block is kept");
    let buffer = world.buffer(16 * MIB, large).expect("after the empty block was freed");
    assert_eq!(world.memory.statistics().total().block_bytes, 16 * MIB);
    drop(buffer);
    world.finish();
}

#[test]
fn step_2_smaller_blocks_are_requested() {
    // Blocks of 4, 8, 16 and 32 MiB are followed by another one of 32 MiB.
    for (refused, granted) in [(32 * MIB, 16 * MIB), (16 * MIB, 8 * MIB), (8 * MIB, 4 * MIB)] {
        let world = on_card(8 << 30, 8 << 30);
        // Fill the small blocks that are created first.
        let mut held = Vec::new();
        while world.memory.statistics().types[0].block_count < 4 {
            held.push(world.buffer(2 * MIB, on_device()).expect("there is room"));
        }
        world.faults.add(at_least(refused));
        let before = world.memory.statistics().types[0].block_bytes;
        while world.memory.statistics().types[0].block_count < 5 {
            held.push(world.buffer(2 * MIB, on_device()).expect("a smaller block is granted"));
        }
        assert_eq!(world.memory.statistics().types[0].block_bytes - before, granted);
        assert_eq!(world.memory.statistics().types[0].dedicated_count, 0);
        drop(held);
        world.finish();
    }
}

#[test]
fn step_3_memory_of_its_own() {
    let world = on_card(8 << 30, 8 << 30);
    world.faults.add(at_least(0));
    let buffer = world.buffer(64 * KIB, on_device()).expect("dedicated memory is requested in another way");
    assert!(buffer.is_dedicated());
    let never = AllocationDesc { dedicated: Dedicated::Never, ..on_device() };
    assert!(matches!(world.buffer(64 * KIB, never), Err(Error::OutOfMemory { cause: OUT, .. })));
    drop(buffer);
    world.finish();
}

#[test]
fn step_4_the_next_memory_type() {
    let world = on_card(8 << 30, 8 << 30);
    world.faults.add(Rule { memory_types: 1, bytes_min: 1, ..Rule::new(OUT) });
    let buffer = world.buffer(64 * KIB, AllocationDesc::default()).expect("host memory will do");
    assert!(
        !world
            .memory
            .device()
            .inner()
            .profile()
            .capabilities
            .properties(buffer.memory_type())
            .contains(MemoryProperties::DEVICE_LOCAL)
    );
    drop(buffer);
    world.finish();
}

#[test]
fn step_5_the_eviction_callback_gets_the_numbers_and_saves_the_request() {
    let world = on_card(64 * MIB, 64 * MIB);
    let cache = Arc::new(Mutex::new(Vec::new()));
    let alone = AllocationDesc { dedicated: Dedicated::Always, ..on_device() };
    for _ in 0..4 {
        cache.lock().unwrap().push(world.buffer(16 * MIB, alone).expect("four of them fit"));
    }
    let rounds = Arc::new(AtomicU32::new(0));
    let (evicted, counted) = (Arc::clone(&cache), Arc::clone(&rounds));
    world.memory.budgets().set_eviction(Some(Box::new(move |pressure| {
        assert_eq!((pressure.size, pressure.heap, pressure.budget_bytes), (32 * MIB, 0, 64 * MIB));
        assert_eq!(pressure.round, counted.fetch_add(1, Ordering::Relaxed));
        evicted.lock().unwrap().pop().is_some()
    })));
    let large = world.buffer(32 * MIB, alone).expect("two of the four had to go");
    assert_eq!(rounds.load(Ordering::Relaxed), 2);
    assert_eq!(cache.lock().unwrap().len(), 2);
    world.memory.budgets().set_eviction(None);
    assert!(matches!(world.buffer(32 * MIB, alone), Err(Error::OutOfMemory { .. })));
    drop(large);
    cache.lock().unwrap().clear();
    world.finish();
}

/// The driver buffer that small buffers share is created under a lock, so the callback is called afterwards.
#[test]
fn step_5_the_eviction_callback_of_a_small_buffer_gets_the_number_of_earlier_calls() {
    let world = on_card(16 * MIB, 16 * MIB);
    let cache = Arc::new(Mutex::new(Vec::new()));
    for location in [Location::Device, Location::Upload] {
        let alone = AllocationDesc { dedicated: Dedicated::Always, location, ..Default::default() };
        while let Ok(buffer) = world.buffer(2 * MIB, alone) {
            cache.lock().unwrap().push(buffer);
        }
    }
    assert_eq!(cache.lock().unwrap().len(), 16, "both heaps are full");
    let rounds = Arc::new(AtomicU32::new(0));
    let (evicted, counted) = (Arc::clone(&cache), Arc::clone(&rounds));
    world.memory.budgets().set_eviction(Some(Box::new(move |pressure| {
        assert_eq!(pressure.round, counted.fetch_add(1, Ordering::Relaxed));
        // The first two calls promise more than they release.
        if pressure.round == 2 {
            evicted.lock().unwrap().clear();
        }
        true
    })));
    let small = world.memory.create_small_buffer(crate::memory::world::info(KIB), Location::Device);
    let small = small.expect("the third call releases everything");
    assert_eq!(rounds.load(Ordering::Relaxed), 3);
    world.memory.budgets().set_eviction(None);
    drop(small);
    world.finish();
}

#[test]
fn what_the_callback_asks_for_does_not_call_it_again() {
    let world = on_card(16 * MIB, 16 * MIB);
    let calls = Arc::new(AtomicU32::new(0));
    let (counted, memory) = (Arc::clone(&calls), Arc::new(Mutex::new(None::<Allocator<crate::memory::world::Device>>)));
    *memory.lock().unwrap() = Some(world.memory.clone());
    let inner = Arc::clone(&memory);
    world.memory.budgets().set_eviction(Some(Box::new(move |pressure| {
        counted.fetch_add(1, Ordering::Relaxed);
        let memory = inner.lock().unwrap().clone().expect("set below");
        assert!(memory.create_buffer(&crate::memory::world::info(pressure.size), on_device()).is_err());
        false
    })));
    assert!(world.buffer(15 * MIB, on_device()).is_ok());
    assert!(world.buffer(15 * MIB, on_device()).is_err() || calls.load(Ordering::Relaxed) == 0);
    assert!(calls.load(Ordering::Relaxed) <= 1);
    world.memory.budgets().set_eviction(None);
    *memory.lock().unwrap() = None;
    world.finish();
}

#[test]
fn step_6_a_typed_error_says_need_use_budget_and_what_was_tried() {
    let world = on_card(64 * MIB, 64 * MIB);
    let held = world.buffer(40 * MIB, AllocationDesc { dedicated: Dedicated::Always, ..on_device() }).expect("room");
    world.memory.budgets().set_eviction(Some(Box::new(|_| false)));
    let error =
        world.buffer(30 * MIB, AllocationDesc { required: MemoryProperties::DEVICE_LOCAL, ..Default::default() });
    let Err(Error::OutOfMemory { size, heap, budget, tried, tried_type_bits, cause, .. }) = error else {
        panic!("{error:?}");
    };
    assert_eq!((size, heap, tried_type_bits, cause), (30 * MIB, 0, 1, OUT));
    assert_eq!((budget.usage_bytes, budget.budget_bytes, budget.reserved_bytes), (40 * MIB, 64 * MIB, 40 * MIB));
    assert!(tried.contains(Tried::TRIM | Tried::EVICTION), "{tried:?}");
    let message = error.unwrap_err().to_string();
    for number in [30 * MIB, 40 * MIB, 64 * MIB] {
        assert!(message.contains(&number.to_string()), "{message}");
    }
    world.memory.budgets().set_eviction(None);
    drop(held);
    world.finish();
}

#[test]
fn a_request_that_may_not_wait_never_asks_the_driver() {
    let world = world(crate::memory::world::card(64 * MIB, 64 * MIB), AllocatorDesc::default());
    let hasty = AllocationDesc { never_grow: true, ..on_device() };
    let asked = world.device.calls().allocate_memory;
    assert_eq!(world.buffer(KIB, hasty).err(), Some(Error::WouldGrow { size: 64 * KIB, location: Default::default() }));
    assert_eq!(world.device.calls().allocate_memory, asked);
    let first = world.buffer(KIB, on_device()).expect("a block is made");
    drop((world.buffer(KIB, hasty).expect("the block has room"), first));
    world.finish();
}

#[test]
fn an_error_that_freeing_cannot_help_ends_the_fallback_at_once() {
    let world = on_card(64 * MIB, 64 * MIB);
    world.faults.add(Rule { call: Some(Call::AllocateMemory), ..Rule::new(DeviceError::Lost) });
    let before = world.faults.calls();
    assert_eq!(world.buffer(KIB, on_device()).err(), Some(Error::Device(DeviceError::Lost)));
    assert_eq!(world.faults.calls() - before, 3, "one to describe, one to measure, one for memory");
    world.finish();
}

/// Another thread may be in a long reclaim, in a driver call. Requests can still destroy dropped resources that are
/// complete.
#[test]
fn a_request_destroys_what_is_done_while_another_thread_reclaims() {
    let mut profile = card(16 * MIB, 16 * MIB);
    profile.capabilities.memory_types.truncate(1);
    let desc = AllocatorDesc { recycled_bytes_max: 0, ..Default::default() };
    let allocator = FixtureDesc { profile, allocator: desc, timelines: 1, ..Default::default() };
    let world = FaultyFixture::faulty(allocator);
    let held: Vec<_> = std::iter::from_fn(|| world.buffer(MIB, AllocationDesc::default()).ok()).collect();
    assert!(held.len() > 8);
    drop(held);
    let ((enters, entered), (goes, go)) = (channel(), channel::<()>());
    let wait = Mutex::new(go);
    world.faults.set_hook(Some(Box::new(move |_, _| {
        enters.send(()).expect("the test waits for it");
        wait.lock().expect("no panic").recv().expect("the test sends it");
    })));
    world.faults.add(Rule { call: Some(Call::Completed), count: 1, ..Rule::new(OUT) });
    std::thread::scope(|scope| {
        scope.spawn(|| world.memory.reclaim());
        entered.recv().expect("the reclaim reads the timeline");
        // On a thread that has dropped nothing, because a thread releases its own drops itself.
        let made = scope.spawn(|| world.buffer(MIB, AllocationDesc::default()).map(drop)).join();
        goes.send(()).expect("the hook waits for it");
        made.expect("no panic").expect("all is free");
    });
    world.faults.set_hook(None);
    world.finish();
}

/// The flag reports that the callback ran. Within a callback no callback is called, not even another allocator's.
#[test]
fn an_error_names_the_callback_only_if_it_was_called() {
    let (outer, inner) = (on_card(16 * MIB, 16 * MIB), on_card(16 * MIB, 16 * MIB));
    let alone = AllocationDesc { dedicated: Dedicated::Always, ..on_device() };
    let held = [&outer, &inner].map(|world| world.buffer(15 * MIB, alone).expect("room"));
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    inner.memory.budgets().set_eviction(Some(Box::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        false
    })));
    let (memory, seen) = (inner.memory.clone(), Arc::new(Mutex::new(None)));
    let into = Arc::clone(&seen);
    outer.memory.budgets().set_eviction(Some(Box::new(move |_| {
        let refused = memory.create_buffer(&crate::memory::world::info(15 * MIB), alone);
        *into.lock().expect("no panic") = refused.err();
        false
    })));
    let evicted = |error: Option<Error>| match error {
        Some(Error::OutOfMemory { tried, .. }) => tried.contains(Tried::EVICTION),
        other => panic!("{other:?}"),
    };
    assert!(evicted(outer.buffer(15 * MIB, alone).err()));
    let nested = seen.lock().expect("no panic").take();
    assert_eq!((evicted(nested), calls.load(Ordering::Relaxed)), (false, 0));
    assert!(evicted(inner.buffer(15 * MIB, alone).err()));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    outer.memory.budgets().set_eviction(None);
    drop(held);
    outer.finish();
    inner.finish();
}

/// A ring shrinks under a lock, without a retry. If memory is short then, nothing keeps the callback for later: it is
/// dropped when it is removed.
#[test]
fn a_shortage_under_a_lock_without_a_retry_keeps_no_callback() {
    let world = FaultyFixture::faulty(FixtureDesc { profile: card(1 << 30, 1 << 30), ..Default::default() });
    let when_full = WhenFull::Grow { capacity_max: 64 * MIB, timeout: Duration::ZERO, shrink_after: 1 };
    let ring = UploadRing::new(&world.memory, UploadDesc { capacity: MIB, when_full, ..Default::default() });
    let ring = ring.expect("there is room");
    let frame = world.timeline().begin();
    ring.write_for(&frame, &vec![1; 60 << 20], 4).expect("the ring grows");
    world.complete(frame);
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    world.memory.budgets().set_eviction(Some(Box::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        false
    })));
    for call in [Call::AllocateMemory, Call::Dedicate] {
        world.faults.add(Rule { call: Some(call), ..Rule::new(OUT) });
    }
    (0..4).for_each(|_| _ = world.memory.reclaim());
    assert!(world.faults.failed(Call::Dedicate) > 0, "the smaller buffer needs memory");
    assert_eq!((ring.capacity(), calls.load(Ordering::Relaxed)), (64 * MIB, 0));
    world.memory.budgets().set_eviction(None);
    assert_eq!(Arc::strong_count(&calls), 1, "the callback is gone");
    drop(ring);
    world.finish();
}
