//! A move is made with the description that the resource has, and of what can be copied.

use ringfence::defrag::{DefragDesc, DefragState, MoveError};
use ringfence::device::{BufferDesc, BufferUsage, TextureDesc, TextureUsage};
use ringfence::{AllocationDesc, AllocatorDesc};
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
    let buffer = buffers.iter_mut().find(|buffer| pass.has(*buffer)).expect("two thirds are gone");
    for other in [BufferDesc { size: 1024, ..info }, BufferDesc { usage: COPIED, ..info }] {
        assert_eq!(pass.copy_buffer_as(buffer, &other).map(drop), Err(MoveError::AnotherDescription));
    }
    assert_eq!(pass.copy_buffer_as(buffer, &info).map(|copy| copy.size), Ok(300 * KIB));
    let texture = textures.iter_mut().find(|texture| pass.has(*texture)).expect("two thirds are gone");
    for other in [TextureDesc { width: 16, ..shape }, TextureDesc { mips: 5, ..shape }] {
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
    let buffer = buffers.iter_mut().find(|buffer| pass.has(*buffer)).expect("two thirds are gone");
    let place = (buffer.memory_address(), buffer.offset());
    assert_eq!(pass.copy_buffer(buffer).map(drop), Err(MoveError::NotCopied));
    assert_eq!((buffer.memory_address(), buffer.offset()), place);
    drop(pass);
    world.complete(frame);
    drop((buffers, run));
    world.finish();
}

/// What may be larger than described is moved with the description that it was requested with.
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
    let buffer = buffers.iter_mut().find(|buffer| pass.has(*buffer)).expect("two thirds are gone");
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
