//! A move uses the description of the resource, and moves only resources that can be copied.

use ringfence::defrag::{DefragDesc, DefragState, MoveError};
use ringfence::device::{BufferDesc, BufferUsage, TextureDesc, TextureUsage};
use ringfence::sim::{Command, Device};
use ringfence::upload::{Staged, UploadDesc};
use ringfence::{AllocationDesc, AllocatorDesc, Buffer, Location, UploadBatch, UploadRing};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

use crate::memory::world::KIB;

const COPIED: BufferUsage = BufferUsage::COPY_SRC.union(BufferUsage::COPY_DST);

fn fixture() -> Fixture {
    let allocator = AllocatorDesc { device_block_bytes_max: 4096 * KIB, ..Default::default() };
    Fixture::new(FixtureDesc { allocator, ..Default::default() })
}

#[test]
fn a_move_with_another_description_is_refused_and_changes_nothing() {
    let world = fixture();
    let desc = AllocationDesc { movable: true, ..Default::default() };
    let info = BufferDesc { size: 300 * KIB, usage: COPIED | BufferUsage::STORAGE };
    let usage = TextureUsage::SAMPLED | TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    let shape = TextureDesc { width: 256, height: 256, usage, ..Default::default() };
    let buffers = (0..60).map(|_| world.memory.create_buffer(&info, desc).expect("there is room"));
    let mut buffers: Vec<_> = buffers.collect::<Vec<_>>().into_iter().step_by(3).collect();
    let textures = (0..60).map(|_| world.memory.create_texture(&shape, desc).expect("there is room"));
    let mut textures: Vec<_> = textures.collect::<Vec<_>>().into_iter().step_by(3).collect();
    world.complete(world.timeline().begin());
    world.memory.reclaim();
    let mut run = world.memory.defragment(DefragDesc::default());
    let frame = world.timeline().begin();
    let mut pass = run.begin_pass(&frame).expect("its own frame");
    let buffer = buffers.iter_mut().find(|buffer| pass.has(*buffer)).expect("two thirds are freed");
    for other in [BufferDesc { size: 1024, ..info }, BufferDesc { usage: COPIED, ..info }] {
        assert_eq!(pass.copy_buffer_as(buffer, &other).map(drop), Err(MoveError::AnotherDescription));
    }
    assert_eq!(pass.copy_buffer_as(buffer, &info).map(|copy| copy.size), Ok(300 * KIB));
    let texture = textures.iter_mut().find(|texture| pass.has(*texture)).expect("two thirds are freed");
    let more = usage | TextureUsage::STORAGE;
    for other in
        [TextureDesc { width: 16, ..shape }, TextureDesc { mips: 5, ..shape }, TextureDesc { usage: more, ..shape }]
    {
        assert_eq!(pass.copy_texture_as(texture, &other).map(drop), Err(MoveError::AnotherDescription));
    }
    assert_eq!(pass.copy_texture_as(texture, &shape).map(|copies| copies.len()), Ok(1));
    drop(pass);
    world.complete(frame);
    drop((buffers, textures, run));
    world.finish();
}

#[test]
fn what_cannot_be_copied_is_not_moved() {
    let world = fixture();
    let desc = AllocationDesc { movable: true, ..Default::default() };
    let info = BufferDesc { size: 300 * KIB, usage: BufferUsage::VERTEX };
    let buffers = (0..60).map(|_| world.memory.create_buffer(&info, desc).expect("there is room"));
    let mut buffers: Vec<_> = buffers.collect::<Vec<_>>().into_iter().step_by(3).collect();
    world.complete(world.timeline().begin());
    world.memory.reclaim();
    let mut run = world.memory.defragment(DefragDesc::default());
    let frame = world.timeline().begin();
    let mut pass = run.begin_pass(&frame).expect("its own frame");
    let buffer = buffers.iter_mut().find(|buffer| pass.has(*buffer)).expect("two thirds are freed");
    let place = (buffer.memory_address(), buffer.offset());
    assert_eq!(pass.copy_buffer(buffer).map(drop), Err(MoveError::NotCopied));
    assert_eq!((buffer.memory_address(), buffer.offset()), place);
    drop(pass);
    world.complete(frame);
    drop((buffers, run));
    world.finish();
}

/// A resource that may be larger than described is moved with the description of its request.
#[test]
fn what_may_be_larger_is_moved_with_what_it_was_requested_with() {
    let world = fixture();
    let desc = AllocationDesc { movable: true, may_be_larger: true, ..Default::default() };
    let info = BufferDesc { size: 300 * KIB + 4, usage: COPIED };
    let buffers = (0..60).map(|_| world.memory.create_buffer(&info, desc).expect("there is room"));
    let mut buffers: Vec<_> = buffers.collect::<Vec<_>>().into_iter().step_by(3).collect();
    assert!(buffers[0].size() > info.size, "it is larger");
    world.complete(world.timeline().begin());
    world.memory.reclaim();
    let mut run = world.memory.defragment(DefragDesc::default());
    let frame = world.timeline().begin();
    let mut pass = run.begin_pass(&frame).expect("its own frame");
    let buffer = buffers.iter_mut().find(|buffer| pass.has(*buffer)).expect("two thirds are freed");
    let bytes = buffer.size();
    assert_eq!(pass.copy_buffer_as(buffer, &info).map(|copy| copy.size), Ok(bytes));
    assert_eq!(buffer.size(), bytes);
    drop(pass);
    world.complete(frame);
    drop((buffers, run));
    world.finish();
}

#[test]
fn a_pass_of_no_moves_is_one_of_one() {
    let world = fixture();
    let desc = AllocationDesc { movable: true, ..Default::default() };
    let buffers = (0..60).map(|_| world.buffer(300 * KIB, desc).expect("there is room"));
    let mut buffers: Vec<_> = buffers.collect::<Vec<_>>().into_iter().step_by(3).collect();
    world.complete(world.timeline().begin());
    world.memory.reclaim();
    let mut run = world.memory.defragment(DefragDesc { moves_per_pass_max: 0, ..Default::default() });
    let mut passes = 0;
    while run.state() != DefragState::Done {
        let frame = world.timeline().begin();
        let mut pass = run.begin_pass(&frame).expect("its own frame");
        assert!(pass.moves().len() <= 1);
        for buffer in &mut buffers {
            if pass.has(buffer) {
                pass.copy_buffer(buffer).expect("it can be copied");
            }
        }
        drop(pass);
        world.complete(frame);
        world.memory.reclaim();
        passes += 1;
        assert!(passes < 1000, "it does not end");
    }
    assert!(run.statistics().moved_count > 0);
    drop((buffers, run));
    world.finish();
}

/// Returns the first bytes of a buffer.
fn contents(world: &Fixture, of: &Buffer<Device>) -> [u8; 64] {
    let desc = AllocationDesc { location: Location::Readback, ..Default::default() };
    let into = world.buffer(64, desc).expect("there is room");
    let copy = Command::CopyBuffer { src: *of.object(), src_offset: 0, dst: *into.object(), dst_offset: 0, size: 64 };
    world.submit(vec![copy]);
    assert!(world.device.run_until_idle());
    let mut bytes = [0; 64];
    into.read(0, &mut bytes).expect("readback memory is mapped");
    bytes
}

/// Copies that were added before a pass and recorded after it, in the same frame, reach all their destinations. Copies
/// of a batch that is recorded before the pass follow the moves.
#[test]
fn copies_that_are_gathered_hold_their_destination_in_place() {
    for is_recorded_before in [false, true] {
        let world = fixture();
        let ring = UploadRing::new(&world.memory, UploadDesc::default()).expect("there is room");
        let desc = AllocationDesc { movable: true, ..Default::default() };
        let info = BufferDesc { size: 300 * KIB, usage: COPIED };
        let buffers = (0..36).map(|_| world.memory.create_buffer(&info, desc).expect("there is room"));
        let mut buffers: Vec<_> = buffers.collect::<Vec<_>>().into_iter().step_by(3).collect();
        world.complete(world.timeline().begin());
        world.memory.reclaim();
        let (mut run, frame) = (world.memory.defragment(DefragDesc::default()), world.timeline().begin());
        let (mut batch, mut commands) = (UploadBatch::new(), Vec::<Command>::new());
        for (value, buffer) in (1..).zip(&buffers) {
            batch.copy(&ring.write_for(&frame, &[value; 64], 4).expect("there is room"), buffer, 0).expect("it fits");
        }
        // SAFETY: the list is submitted as `frame`.
        let record = |batch: &mut UploadBatch<Device>, commands: &mut Vec<Command>| unsafe { batch.record(commands) };
        if is_recorded_before {
            record(&mut batch, &mut commands).expect("no buffer was moved");
        }
        let mut pass = run.begin_pass(&frame).expect("its own frame");
        let moved = buffers.iter_mut().filter(|buffer| pass.has(*buffer)).collect::<Vec<_>>();
        assert_eq!(moved.is_empty(), !is_recorded_before, "{:?}", pass.moves());
        moved.into_iter().for_each(|buffer| _ = pass.copy_buffer(buffer).expect("it is to be moved"));
        // SAFETY: as above.
        unsafe { pass.record(&mut commands) };
        drop(pass);
        if !is_recorded_before {
            record(&mut batch, &mut commands).expect("no buffer was moved");
        }
        batch.clear();
        world.submit_frame(frame, commands);
        let arrived = (1..).zip(&buffers).filter(|(value, buffer)| contents(&world, buffer) == [*value; 64]);
        assert_eq!(arrived.count(), 12);
        assert!(buffers.iter().all(|buffer| !buffer.take_content_lost()));
        assert!(world.device.take_hazards().is_empty());
        // Without pending copies, the buffers are moved as usual.
        let (mut run, frame) = (world.memory.defragment(DefragDesc::default()), world.timeline().begin());
        let pass = run.begin_pass(&frame).expect("its own frame");
        assert!(is_recorded_before || buffers.iter().any(|buffer| pass.has(buffer)));
        drop(pass);
        frame.discard();
    }
}

/// A copy that is added after the move was planned cancels the move.
#[test]
fn a_copy_that_is_gathered_after_the_plan_stops_the_move() {
    let world = fixture();
    let desc = AllocationDesc { movable: true, ..Default::default() };
    let info = BufferDesc { size: 300 * KIB, usage: COPIED };
    let buffers = (0..60).map(|_| world.memory.create_buffer(&info, desc).expect("there is room"));
    let mut buffers: Vec<_> = buffers.collect::<Vec<_>>().into_iter().step_by(3).collect();
    let source = world.memory.create_buffer(&info, AllocationDesc::default()).expect("there is room");
    world.complete(world.timeline().begin());
    world.memory.reclaim();
    let mut run = world.memory.defragment(DefragDesc::default());
    let frame = world.timeline().begin();
    let mut pass = run.begin_pass(&frame).expect("its own frame");
    let buffer = buffers.iter_mut().find(|buffer| pass.has(*buffer)).expect("two thirds are freed");
    let mut batch = UploadBatch::new();
    batch.copy(&Staged::of(&source, 0, 64).expect("inside"), buffer, 0).expect("it fits");
    assert!(!pass.has(buffer));
    assert_eq!(pass.copy_buffer(buffer).map(drop), Err(MoveError::NotInPass));
    batch.clear();
    assert!(pass.copy_buffer(buffer).is_ok(), "no copy is pending any more");
    drop(pass);
    frame.discard();
    assert!(buffer.take_content_lost(), "the copy of the move never runs");
}
