//! Memory after a level was unloaded: one reclaim frees most of it, unless the program announced that it needs it
//! again.

use std::time::{Duration, Instant};

use ringfence::device::{Dimension, Format, ResourceClass, TextureDesc, TextureUsage};
use ringfence::memory::Error;
use ringfence::{AllocationDesc, AllocatorDesc, Buffer, Texture};
use ringfence_testkit::fixture::FaultyFixture;

use crate::memory::world::{Device, KIB, MIB, card, info, next, on_card, on_device, world};

/// Objects of a level of about 2 GiB.
fn load(world: &FaultyFixture) -> (Vec<Buffer<Device>>, Vec<Texture<Device>>) {
    let mut state = 7;
    let mut dice = |sides: u64| (next(&mut state) >> 20) % sides;
    let buffer = |size| world.memory.create_buffer(&info(size), on_device()).expect("room");
    let buffers = (0..4_000).map(|_| buffer((KIB << dice(9)) + dice(100) * 16)).collect();
    let texture = |width| {
        let usage = TextureUsage::SAMPLED | TextureUsage::COPY_DST;
        let desc = TextureDesc {
            dimension: Dimension::D2,
            format: Format::Rgba8Unorm,
            width,
            height: width,
            usage,
            ..Default::default()
        };
        world.memory.create_texture(&desc, on_device()).expect("room")
    };
    (buffers, (0..1_000).map(|_| texture(128 << dice(4))).collect())
}

fn held(world: &FaultyFixture) -> u64 {
    world.memory.statistics().total().reserved_bytes()
}

#[test]
fn one_reclaim_after_an_unload_frees_most_blocks_and_sixty_the_rest() {
    let world = on_card(16 << 30, 16 << 30);
    let level = load(&world);
    assert!(held(&world) > 1_000 * MIB, "{} bytes are loaded", held(&world));
    (0..100).for_each(|_| _ = world.memory.reclaim());
    // The first objects of the level are recycled.
    drop(level);
    world.memory.reclaim();
    assert!(held(&world) <= 512 * MIB, "{} MiB after one reclaim", held(&world) / MIB);
    (0..60).for_each(|_| _ = world.memory.reclaim());
    assert!(held(&world) <= 64 * MIB, "{} MiB after 60 more", held(&world) / MIB);
    world.memory.debug().validate().expect("the allocator is sound");
    world.finish();
}

/// The last empty block stays after its grace only if it is small.
#[test]
fn a_large_block_is_freed_once_it_was_empty_for_long() {
    let world = on_card(16 << 30, 16 << 30);
    let mut buffers: Vec<_> = (0..100).map(|_| world.buffer(MIB, on_device()).expect("room")).collect();
    // The small blocks are emptied first, so that one large block is left.
    buffers.drain(..80);
    (0..200).for_each(|_| _ = world.memory.reclaim());
    drop(buffers);
    world.memory.reclaim();
    assert!(held(&world) > 16 * MIB, "{} MiB: a block waits for its grace", held(&world) / MIB);
    (0..200).for_each(|_| _ = world.memory.reclaim());
    assert!(held(&world) <= 16 * MIB, "{} MiB", held(&world) / MIB);
    world.finish();
}

#[test]
fn a_part_that_stays_keeps_an_eighth_of_its_bytes() {
    let desc = AllocatorDesc { recycled_bytes_max: 0, ..Default::default() };
    let world = world(card(16 << 30, 16 << 30), desc);
    let stays: Vec<_> = (0..2_048).map(|_| world.buffer(MIB, on_device()).expect("room")).collect();
    let goes: Vec<_> = (0..2_048).map(|_| world.buffer(MIB, on_device()).expect("room")).collect();
    drop(goes);
    world.memory.reclaim();
    let beyond = held(&world) - 2_048 * MIB;
    assert!((256 * MIB..=(256 + 256 + 256) * MIB).contains(&beyond), "{} MiB beyond the live bytes", beyond / MIB);
    drop(stays);
    world.finish();
}

#[test]
fn announced_bytes_stay_through_an_unload() {
    let world = on_card(16 << 30, 16 << 30);
    let level = || (0..2_000).map(|_| world.buffer(MIB, on_device()).expect("room")).collect::<Vec<_>>();
    let first = level();
    let calls = world.device.calls().allocate_memory;
    world.memory.budgets().keep_bytes(ResourceClass::Buffer, 2_000 * MIB, on_device()).expect("the heap is larger");
    assert_eq!(world.device.calls().allocate_memory, calls, "nothing is created");
    drop(first);
    (0..200).for_each(|_| _ = world.memory.reclaim());
    assert!(held(&world) >= 2_000 * MIB, "{} MiB", held(&world) / MIB);
    let second = level();
    assert_eq!(world.device.calls().allocate_memory, calls, "the next level needs no driver call for memory");
    drop(second);
    // The announcement is used up.
    world.memory.reclaim();
    assert!(held(&world) <= 512 * MIB, "{} MiB", held(&world) / MIB);
    let beyond = world.memory.budgets().keep_bytes(ResourceClass::Buffer, 17 << 30, on_device());
    assert_eq!(beyond, Err(Error::TooLarge { size: 17 << 30, max: 16 << 30 }));
    let nowhere = AllocationDesc { memory_types: 0, ..on_device() };
    let refused = world.memory.budgets().keep_bytes(ResourceClass::Buffer, MIB, nowhere);
    assert!(matches!(refused, Err(Error::NoMemoryType { .. })), "{refused:?}");
    world.finish();
}

#[test]
fn a_program_that_loads_and_unloads_in_turns_soon_creates_no_block() {
    let world = on_card(16 << 30, 16 << 30);
    let mut calls = Vec::new();
    for _ in 0..20 {
        let before = world.device.calls().allocate_memory;
        let level: Vec<_> = (0..2_000).map(|_| world.buffer(MIB, on_device()).expect("room")).collect();
        calls.push(world.device.calls().allocate_memory - before);
        drop(level);
        (0..10).for_each(|_| _ = world.memory.reclaim());
    }
    assert_eq!(calls[3..].iter().sum::<u64>(), 0, "blocks created in each round: {calls:?}");
    (0..600).for_each(|_| _ = world.memory.reclaim());
    assert!(held(&world) <= 64 * MIB, "{} MiB once it has stopped", held(&world) / MIB);
    world.finish();
}

#[test]
fn without_a_limit_blocks_stay_for_their_grace() {
    let desc = AllocatorDesc { empty_bytes_min: u64::MAX, recycled_bytes_max: 0, ..Default::default() };
    let world = world(card(16 << 30, 16 << 30), desc);
    let level: Vec<_> = (0..2_000).map(|_| world.buffer(MIB, on_device()).expect("room")).collect();
    let loaded = held(&world);
    drop(level);
    (0..48).for_each(|_| _ = world.memory.reclaim());
    assert_eq!(held(&world), loaded);
    world.memory.reclaim();
    assert_eq!(world.memory.statistics().total().block_count, 1);
    world.finish();
}

#[test]
fn the_librarys_thread_frees_empty_blocks() {
    let world = on_card(16 << 30, 16 << 30);
    let maintenance = world.memory.budgets().maintain_in_background().expect("a thread");
    drop(load(&world));
    let reclaimed = world.memory.reclaim();
    assert_eq!(reclaimed.blocks, 0, "the thread that reclaims frees none");
    let deadline = Instant::now() + Duration::from_secs(120);
    while held(&world) > 512 * MIB {
        assert!(Instant::now() < deadline, "{} MiB are still held", held(&world) / MIB);
        world.memory.reclaim();
        std::thread::yield_now();
    }
    // Without the thread, `reclaim` frees them itself.
    drop(maintenance);
    (0..60).for_each(|_| _ = world.memory.reclaim());
    drop(load(&world));
    let freed: usize = (0..3).map(|_| world.memory.reclaim().blocks).sum();
    assert!(freed > 0 && held(&world) <= 512 * MIB, "{freed} blocks freed, {} MiB held", held(&world) / MIB);
    world.finish();
}
