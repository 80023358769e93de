//! Live resources, by name and by the program's line, and their history.

use std::time::Duration;

use ringfence::debugging::{DebugDesc, Finding, Leak};
use ringfence::device::{TextureDesc, TextureUsage};
use ringfence::placement::{BufferRequest, Dynamism, FastConstantsDesc, Placement, PlacementDesc};
use ringfence::transient::{Described, FramePass, FrameResource, TransientDesc};
use ringfence::upload::{ConstantsDesc, ReadbackDesc, UploadDesc, WhenFull};
use ringfence::{
    AllocationDesc, AllocatorDesc, ConstantBuffers, Dedicated, FastConstants, Location, ReadbackRing,
    TransientAllocator, UploadRing,
};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

use crate::memory::world::{KIB, MIB, info, needs};

fn world(history_count: u32) -> Fixture {
    let debug = DebugDesc { leaks: true, history_count, ..Default::default() };
    Fixture::new(FixtureDesc { allocator: AllocatorDesc { debug, ..Default::default() }, ..Default::default() })
}

/// Returns the leaks that a shutdown reports.
fn leaks(world: &Fixture) -> Vec<Leak> {
    world.memory.shutdown(Duration::ZERO).expect("no work is pending");
    let leak = |finding| match finding {
        Finding::Leak(leak) => leak,
        other => panic!("{other}"),
    };
    world.memory.debug().take_findings().into_iter().map(leak).collect()
}

#[track_caller]
fn of_line(leaks: &[Leak], name: &str, line: u32) {
    let found: Vec<_> = leaks.iter().filter(|leak| leak.name.starts_with(name)).collect();
    assert!(!found.is_empty(), "no leak is named {name}: {leaks:?}");
    for leak in found {
        assert_eq!(leak.made_at.map(|at| (at.file(), at.line())), Some((file!(), line)), "{leak}");
    }
}

/// A retired resource waits for the frame, and is not a leak.
#[test]
fn a_shutdown_that_is_refused_reports_leaks_too() {
    let world = world(0);
    let make = |name| world.memory.create_buffer(&info(5 * KIB), AllocationDesc { name, ..Default::default() });
    let (kept, retired) = (make("kept").expect("room"), make("retired").expect("room"));
    let frame = world.timeline().begin();
    drop(retired);
    world.memory.shutdown(Duration::MAX).expect_err("a frame is open");
    let found = world.memory.debug().take_findings();
    assert!(matches!(found.as_slice(), [Finding::Leak(leak)] if &*leak.name == "kept"), "{found:?}");
    frame.discard();
    drop(kept);
    world.finish();
}

#[test]
fn what_the_library_makes_is_of_the_programs_line() {
    let world = world(0);
    let memory = &world.memory;
    let line = line!();
    let desc = UploadDesc { capacity: 4 * KIB, name: "ring", when_full: WhenFull::grow(MIB), ..Default::default() };
    let ring = UploadRing::new(memory, desc).expect("there is room");
    let readback = ReadbackRing::new(memory, ReadbackDesc { name: "results", ..Default::default() }).expect("room");
    let desc = ConstantsDesc { name: "constants", promote_reads: Some(2), ..Default::default() };
    let constants = ConstantBuffers::new(memory, desc, ()).expect("there is room");
    let fast = FastConstants::new(memory, FastConstantsDesc { name: "fast", ..Default::default() });
    let mut transient = TransientAllocator::new(memory, TransientDesc { heap_bytes: u64::MAX, ..Default::default() });
    let frame = world.timeline().begin();
    ring.write_for(&frame, &[1; 20 << 10], 4).expect("the ring grows");
    let content = constants.create_static(&[1; 64]).expect("there is room");
    fast.writer(&frame).expect("its own frame").write(&[1; 64]).expect("there is room");
    let passes = [FramePass::on(world.timeline().id())];
    let info = info(5 * KIB);
    let target = FrameResource { info: Described::Buffer(&info), first: 0, last: &[], name: "target" };
    drop(transient.plan(&passes, &[target], |_| true).expect("a heap of the needed size"));
    let live = memory.debug().live();
    of_line(&live, "fast", line + 6);
    world.complete(frame);
    memory.reclaim();
    let leaks = leaks(&world);
    for (name, below) in [("ring", 2), ("results", 3), ("constants", 5), ("transient", 7)] {
        of_line(&live, name, line + below);
        of_line(&leaks, name, line + below);
    }
    assert!(leaks.iter().any(|leak| &*leak.name == "ring" && leak.size > 4 * KIB), "the one that it grew to");
    drop((ring, readback, constants, content, fast, transient));
    world.memory.reclaim();
    assert_eq!(world.memory.debug().live(), []);
    world.finish();
}

#[test]
fn what_a_placement_policy_makes_is_of_the_programs_line() {
    let world = world(0);
    let line = line!();
    let desc = PlacementDesc { texture_bytes_max: 64 * KIB, ..Default::default() };
    let policy = Placement::new(&world.memory, desc).expect("sound");
    let usage = TextureUsage::SAMPLED | TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    let shape = |side| TextureDesc { width: side, height: side, usage, ..Default::default() };
    let (small, large) = (shape(16), shape(512));
    let pooled = policy.create_texture(&small, "pooled").expect("there is room");
    let alone = policy.create_texture(&large, "alone").expect("there is room");
    let back = policy.create_readback_texture(&small, "back").expect("there is room");
    let upload = BufferRequest { size: 100, dynamism: Dynamism::Dynamic, ..Default::default() };
    let upload = policy.create_buffer(&upload).expect("there is room");
    let heap = policy.aliased_heap(&small, MIB, "heap").expect("there is room");
    let leaks = leaks(&world);
    let names = [("small textures", 2), ("alone", 7), ("back", 8), ("uploads", 2), ("heap", 11)];
    names.into_iter().for_each(|(name, below)| of_line(&leaks, name, line + below));
    drop((pooled, alone, back, upload, heap, policy));
    assert_eq!(self::leaks(&world), []);
    world.finish();
}

#[test]
fn a_small_buffer_leaks_without_the_buffer_that_it_shares() {
    let world = world(0);
    let small = || world.memory.create_small_buffer(info(100), Location::Upload).expect("there is room");
    let held = [small(), small()];
    let beside = world.buffer(KIB, AllocationDesc { name: "beside", ..Default::default() }).expect("there is room");
    let mut names: Vec<_> = leaks(&world).into_iter().map(|leak| leak.name.to_string()).collect();
    names.sort();
    assert_eq!(names, ["beside", "small buffer", "small buffer"]);
    drop((held, beside));
    assert_eq!(leaks(&world), []);
    world.finish();
}

#[test]
fn a_history_without_limit_takes_what_there_is_and_what_is_released_waits_no_more() {
    let world = world(u32::MAX);
    let frame = world.timeline().begin();
    drop(world.buffer(KIB, AllocationDesc { name: "gone", recycle: false, ..Default::default() }));
    world.complete(frame);
    world.memory.reclaim();
    let shown: Vec<_> = world.memory.debug().history().iter().map(ToString::to_string).collect();
    let waits = |deed: &str| {
        let it = shown.iter().find(|line| line.contains(&format!(" {deed} by "))).expect("it happened");
        it.contains("waiting for the device")
    };
    assert_eq!([waits("made"), waits("retired"), waits("released")], [false, true, false], "{shown:?}");
    world.finish();
}

/// Debugging lists each live range with its memory type.
#[test]
fn live_ranges_are_listed_with_their_memory_type() {
    let world = world(0);
    let types = world.device.profile().capabilities.memory_types.len() as u32;
    let mut held = Vec::new();
    for memory_type in 0..types {
        for dedicated in [Dedicated::Never, Dedicated::Always] {
            let desc = AllocationDesc {
                memory_types: 1 << memory_type,
                dedicated,
                user_data: memory_type.into(),
                ..Default::default()
            };
            held.push(world.memory.allocate(needs(64 * KIB, 256), desc).expect("each type can hold device resources"));
        }
    }
    let live = world.memory.debug().live();
    assert_eq!(live.len() as u32, 2 * types);
    assert!(live.iter().all(|live| u64::from(live.memory_type) == live.user_data), "{live:?}");
    drop(held);
    world.finish();
}
