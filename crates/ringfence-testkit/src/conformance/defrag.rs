//! Defragmentation: bytes and texels stay the same, and pinned resources do not move.

use crate::{Command, Gpu, TextureRegion};
use ringfence::algorithms::algorithm::Algorithm;
use ringfence::defrag::{BeginPassError, Defrag, DefragDesc, DefragState, MoveError, MoveOutcome};
use ringfence::device::{BufferDesc, BufferUsage, Driver, Requirements, ResourceClass, TextureDesc, TextureUsage};
use ringfence::lifetime::MipCopy;
use ringfence::memory::PoolDesc;
use ringfence::{AllocationDesc, AllocatorDesc, Buffer, Location, Pool, Texture};

use crate::fixture::Recording;
use crate::rig::{PATIENCE, Rig, copy, pattern};
use crate::transfers::Moves;

const BLOCK_BYTES: u64 = 1 << 20;
const SIZE: u64 = 64 << 10;

const USAGE: BufferUsage = BufferUsage::COPY_SRC.union(BufferUsage::COPY_DST);

const fn copied(size: u64) -> BufferDesc {
    BufferDesc { size, usage: USAGE }
}

fn movable(name: &str, user_data: u64) -> AllocationDesc<'_> {
    AllocationDesc { name, user_data, movable: true, ..Default::default() }
}

/// Creates a pool for buffers in device memory. Its blocks have [`BLOCK_BYTES`].
fn pool<G: Gpu>(rig: &Rig<G>, algorithm: Algorithm) -> Pool<G::Device> {
    let measured = rig.memory.create_buffer(&copied(SIZE), AllocationDesc::default()).expect("there is room");
    let desc = PoolDesc {
        memory_type: measured.memory_type(),
        block_bytes: BLOCK_BYTES,
        name: "defragmented",
        algorithm,
        ..Default::default()
    };
    rig.memory.create_pool(desc).expect("there is such a type")
}

/// Creates movable buffers in a pool, each filled with its own pattern. Their user data is their index.
fn fill_pool<G: Gpu>(rig: &mut Rig<G>, pool: &Pool<G::Device>, count: u64) -> Vec<Option<Buffer<G::Device>>> {
    let info = copied(SIZE);
    let mut upload = rig.buffer(SIZE, Location::Upload, "upload");
    let fill = |number: u64| {
        let held = pool.create_buffer(&info, movable("moves", number)).expect("there is room");
        upload.write(0, &pattern(number, SIZE as usize)).expect("upload memory is mapped");
        rig.run(&[copy(&upload, 0, &held, 0, SIZE)]);
        Some(held)
    };
    (0..count).map(fill).collect()
}

fn check<G: Gpu>(rig: &mut Rig<G>, held: &[Option<Buffer<G::Device>>]) {
    for (number, buffer) in held.iter().enumerate() {
        if let Some(buffer) = buffer {
            assert!(rig.download(buffer, SIZE) == pattern(number as u64, SIZE as usize), "bytes of {number}");
        }
    }
}

/// Runs passes until the run is done. Returns the number of passes that moved buffers.
fn converge<G: Gpu>(rig: &mut Rig<G>, run: &mut Defrag<G::Device>, held: &mut [Option<Buffer<G::Device>>]) -> u64 {
    for _ in 0..1000 {
        if run.state() == DefragState::Done {
            return run.statistics().pass_count;
        }
        let frame = rig.timeline().begin();
        let mut pass = run.begin_pass(&frame).expect("the frame belongs to this allocator");
        for index in 0..pass.moves().len() {
            let number = pass.moves()[index].user_data as usize;
            let buffer = held[number].as_mut().expect("dropped buffers are not moved");
            // With descriptor buffers, the portable description is not enough, because it lacks device addresses.
            match pass.copy_buffer(buffer) {
                Err(MoveError::NeedsInfo) => pass.copy_buffer_as(buffer, &copied(SIZE)).map(drop),
                other => other.map(drop),
            }
            .expect("the room is there");
            assert_eq!(pass.moves()[index].outcome, MoveOutcome::Moved);
        }
        let mut commands = Moves(Vec::new());
        // SAFETY: the commands are submitted as the pass's frame.
        unsafe { pass.record(&mut commands) };
        drop(pass);
        rig.memory.debug().validate().expect("the allocator is sound");
        let value = rig.submit(frame, &commands.0);
        assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
        rig.memory.reclaim();
        rig.memory.debug().validate().expect("the allocator is sound");
    }
    panic!("the run does not end: {run:?}");
}

pub fn buffers_are_moved_together_with_their_bytes<G: Gpu>(rig: &mut Rig<G>) {
    let pool = pool(rig, Algorithm::Tlsf);
    let mut held = fill_pool(rig, &pool, 48);
    held.iter_mut().enumerate().filter(|(number, _)| number % 4 != 1).for_each(|(_, buffer)| *buffer = None);
    rig.memory.reclaim();
    let before = pool.statistics();
    let desc = DefragDesc { bytes_per_pass_max: 4 * SIZE, compacts: false, ..Default::default() };
    let mut run = Defrag::of_pool(&pool, desc);
    let scattered = run.statistics();
    assert_eq!(scattered.used_bytes, 12 * SIZE);
    let passes = converge(rig, &mut run, &mut held);
    let done = run.statistics();
    assert_eq!(done.used_bytes, 12 * SIZE);
    assert_eq!((before.block_count, pool.statistics().block_count), (3, 1), "{done:?}");
    assert_eq!(done.freed_block_bytes, 2 * BLOCK_BYTES);
    assert_eq!((done.moved_count, done.moved_bytes), (8, 8 * SIZE), "no range is moved twice");
    assert_eq!(passes, 2, "each pass moves at most the allowed bytes");
    assert!(done.waste() < scattered.waste() / 2.0, "{scattered:?}, {done:?}");
    assert_eq!(rig.memory.statistics().moved_count, 8);
    check(rig, &held);
}

pub fn what_is_pinned_or_not_movable_stays<G: Gpu>(rig: &mut Rig<G>) {
    let pool = pool(rig, Algorithm::Tlsf);
    let mut held = fill_pool(rig, &pool, 32);
    held.iter_mut().enumerate().filter(|(number, _)| number % 4 != 1).for_each(|(_, buffer)| *buffer = None);
    rig.memory.reclaim();
    let place = |buffer: &Option<Buffer<G::Device>>| buffer.as_ref().map(|held| (format!("{held:?}"), held.offset()));
    let pinned: Vec<_> = held.iter().flatten().collect();
    pinned.iter().for_each(|buffer| buffer.set_pinned(true));
    assert!(pinned.iter().all(|buffer| !buffer.is_movable()));
    let places: Vec<_> = held.iter().map(place).collect();
    let mut run = Defrag::of_pool(&pool, DefragDesc::default());
    assert_eq!(converge(rig, &mut run, &mut held), 0);
    assert_eq!(held.iter().map(place).collect::<Vec<_>>(), places);
    // One buffer in each block is pinned. No block can be emptied, but the other buffers are compacted.
    held.iter().flatten().for_each(|buffer| buffer.set_pinned(false));
    let stays = |number: usize| number % 16 == 13;
    for (number, buffer) in held.iter().enumerate().filter(|(number, _)| stays(*number)) {
        buffer.as_ref().unwrap_or_else(|| panic!("{number} is held")).set_pinned(true);
    }
    let mut run = Defrag::of_pool(&pool, DefragDesc::default());
    converge(rig, &mut run, &mut held);
    assert_eq!(pool.statistics().block_count, 2);
    for (number, (buffer, was)) in held.iter().zip(&places).enumerate() {
        assert!(!stays(number) || place(buffer) == *was, "{number} was moved");
    }
    check(rig, &held);
}

pub fn what_is_dropped_or_pinned_during_a_move_does_the_right_thing<G: Gpu>(rig: &mut Rig<G>) {
    let pool = pool(rig, Algorithm::Tlsf);
    let mut held = fill_pool(rig, &pool, 32);
    held.iter_mut().enumerate().filter(|(number, _)| number % 4 != 1).for_each(|(_, buffer)| *buffer = None);
    rig.memory.reclaim();
    let ranges = |pool: &Pool<G::Device>| pool.statistics().range_count;
    let mut run = Defrag::of_pool(&pool, DefragDesc::default());
    let frame = rig.timeline().begin();
    let mut pass = run.begin_pass(&frame).expect("the frame belongs to this allocator");
    assert_eq!(pass.moves().len(), 4);
    assert_eq!(ranges(&pool), 8 + 4, "the destinations are allocated");
    rig.memory.debug().validate().expect("the allocator is sound");
    let owners: Vec<_> = pass.moves().iter().map(|planned| planned.user_data as usize).collect();
    // Of four planned buffers, one is dropped, one is discarded through the pass, one is pinned, one is ignored.
    held[owners[0]] = None;
    pass.discard(held[owners[1]].take().expect("it is held"));
    assert_eq!(ranges(&pool), 8 + 3, "the destination of the discarded move is freed");
    let pinned = held[owners[2]].as_mut().expect("it is held");
    pinned.set_pinned(true);
    assert_eq!(pass.copy_buffer(pinned).map(drop), Err(MoveError::NotInPass));
    pinned.set_pinned(false);
    pass.ignore(3);
    let ignored = held[owners[3]].as_mut().expect("it is held");
    assert_eq!(pass.copy_buffer(ignored).map(drop), Err(MoveError::NotInPass));
    let elsewhere = held.iter().position(|buffer| buffer.is_some()).expect("some are held");
    let elsewhere = if owners.contains(&elsewhere) { None } else { held[elsewhere].as_ref() };
    assert!(elsewhere.is_none_or(|buffer| !pass.has(buffer)));
    assert!(pass.copies().is_empty());
    drop(pass);
    assert_eq!(ranges(&pool), 8, "two retired ranges are still held; all destinations are freed");
    rig.submit(frame, &[]);
    rig.gpu.wait_idle().expect("the device is not lost");
    rig.memory.reclaim();
    assert_eq!(ranges(&pool), 6);
    rig.memory.debug().validate().expect("the allocator is sound");
    assert_eq!(run.statistics().moved_count, 0);
    check(rig, &held);
    // This run continues. Another run moves the buffers that it leaves.
    converge(rig, &mut run, &mut held);
    let mut again = Defrag::of_pool(&pool, DefragDesc::default());
    converge(rig, &mut again, &mut held);
    assert_eq!(pool.statistics().block_count, 1);
    check(rig, &held);
    let (_, theirs) = rig.allocator(AllocatorDesc::default());
    let foreign = theirs[0].begin();
    assert_eq!(run.begin_pass(&foreign).map(drop), Err(BeginPassError::ForeignFrame));
}

/// Gated work still reads the old location, which is allocated again only after the work has run.
pub fn the_old_place_is_free_when_its_sync_points_have_passed<G: Gpu>(rig: &mut Rig<G>) {
    let pool = pool(rig, Algorithm::Tlsf);
    let mut held = fill_pool(rig, &pool, 20);
    held[..16].iter_mut().skip(1).for_each(|buffer| *buffer = None);
    rig.memory.reclaim();
    let mut run = Defrag::of_pool(&pool, DefragDesc { compacts: false, ..Default::default() });
    let back = rig.buffer(SIZE, Location::Readback, "back");
    let frame = rig.timeline().begin();
    let mut pass = run.begin_pass(&frame).expect("the frame belongs to this allocator");
    assert_eq!(pass.moves().iter().map(|planned| planned.user_data).collect::<Vec<_>>(), [0]);
    let info = copied(SIZE);
    let moved = pass.copy_buffer_as(held[0].as_mut().expect("it is held"), &info).expect("there is room");
    drop(pass);
    let mut commands = vec![Command::CopyBuffer {
        src: moved.src,
        src_offset: moved.src_offset,
        dst: moved.dst,
        dst_offset: moved.dst_offset,
        size: moved.size,
    }];
    commands.push(copy(held[0].as_ref().expect("it is held"), 0, &back, 0, SIZE));
    rig.submit_behind_gate(1, frame, &commands);
    rig.memory.reclaim();
    assert_eq!(pool.statistics().range_count, 6, "the old range is held");
    assert_eq!(run.state(), DefragState::Waiting);
    // Allocations before the gate opens get other bytes.
    let others: Vec<_> =
        (0..15).map(|_| pool.create_buffer(&info, AllocationDesc::default()).expect("there is room")).collect();
    rig.gpu.open_gate(1).expect("the device is not lost");
    rig.gpu.wait_idle().expect("the device is not lost");
    let mut bytes = vec![0; SIZE as usize];
    back.read(0, &mut bytes).expect("a readback buffer is mapped");
    assert!(bytes == pattern(0, SIZE as usize));
    drop(others);
    rig.memory.reclaim();
    converge(rig, &mut run, &mut held);
    check(rig, &held);
}

pub fn memory_of_the_host_is_moved_only_if_that_is_allowed<G: Gpu>(rig: &mut Rig<G>) {
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let info = BufferDesc { size: SIZE, usage };
    let upload = |number| AllocationDesc { location: Location::DeviceUpload, ..movable("host", number) };
    let first = rig.memory.create_buffer(&info, upload(0)).expect("there is room");
    let desc = PoolDesc { memory_type: first.memory_type(), block_bytes: BLOCK_BYTES, ..Default::default() };
    let pool = rig.memory.create_pool(desc).expect("there is such a type");
    let mut held: Vec<_> = (0..32_u64)
        .map(|number| {
            let mut buffer = pool.create_buffer(&info, upload(number)).expect("there is room");
            buffer.write(0, &pattern(number, SIZE as usize)).expect("it is mapped");
            Some(buffer)
        })
        .collect();
    held.iter_mut().enumerate().filter(|(number, _)| number % 4 != 1).for_each(|(_, buffer)| *buffer = None);
    rig.memory.reclaim();
    let mut run = Defrag::of_pool(&pool, DefragDesc::default());
    assert_eq!(converge(rig, &mut run, &mut held), 0);
    let copies_on_device = rig.memory.device().capabilities().properties(desc.memory_type);
    // On Direct3D 12, upload heaps cannot be the destination of copies.
    let is_device = copies_on_device.contains(ringfence::device::MemoryProperties::DEVICE_LOCAL);
    if is_device {
        let mut run = Defrag::of_pool(&pool, DefragDesc { host_memory: true, ..Default::default() });
        assert!(converge(rig, &mut run, &mut held) > 0);
        assert_eq!(pool.statistics().block_count, 1);
    }
    for (number, buffer) in held.iter_mut().enumerate() {
        let Some(buffer) = buffer else { continue };
        assert!(buffer.is_mapped());
        if is_device {
            assert!(rig.download(buffer, SIZE) == pattern(number as u64, SIZE as usize), "bytes of {number}");
            buffer.write(0, &pattern(99, SIZE as usize)).expect("it is mapped at its new location");
            assert!(rig.download(buffer, SIZE) == pattern(99, SIZE as usize));
        }
    }
}

pub fn textures_are_moved_with_their_texels<G: Gpu>(rig: &mut Rig<G>) {
    const SIDE: u32 = 128;
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    let info = TextureDesc { width: SIDE, height: SIDE, mips: 2, layers: 2, usage, ..Default::default() };
    let first = rig.memory.create_texture(&info, AllocationDesc::default()).expect("there is room");
    let pool_desc = PoolDesc {
        memory_type: first.memory_type(),
        class: ResourceClass::Texture,
        block_bytes: 4 * first.size().next_multiple_of(SIZE),
        ..Default::default()
    };
    let pool = rig.memory.create_pool(pool_desc).expect("there is such a type");
    let mut held: Vec<_> = (0..12_u64)
        .map(|number| {
            let texture = pool.create_texture(&info, movable("texture", number)).expect("there is room");
            each_part(&info, |part| write_part(rig, &texture, part, number * 8 + u64::from(part.mip * 2 + part.layer)));
            Some(texture)
        })
        .collect();
    held.iter_mut().enumerate().filter(|(number, _)| number % 3 != 1).for_each(|(_, texture)| *texture = None);
    rig.memory.reclaim();
    let mut recorded_count = 0;
    let mut run = Defrag::of_pool(&pool, DefragDesc { moves_per_pass_max: 1, ..Default::default() });
    while run.state() != DefragState::Done {
        let frame = rig.timeline().begin();
        let mut pass = run.begin_pass(&frame).expect("the frame belongs to this allocator");
        assert!(pass.moves().len() <= 1);
        let mut commands = Vec::new();
        if let Some(planned) = pass.moves().first() {
            let texture = held[planned.user_data as usize].as_mut().expect("dropped buffers are not moved");
            let moved = pass.copy_texture(texture).expect("a portable description is sufficient");
            assert_eq!((pass.texture_copies().len(), moved.len()), (1, info.mips as usize));
            // The library and the test take turns to record the copies.
            recorded_count += 1;
            if recorded_count % 2 == 1 {
                let mut recorded = Moves(Vec::new());
                // SAFETY: the commands are submitted as the pass's frame.
                unsafe { pass.record(&mut recorded) };
                // SAFETY: as above.
                unsafe { pass.record(&mut recorded) };
                assert_eq!(recorded.0.len(), 1, "copies are recorded only once");
                commands = recorded.0;
            } else {
                commands = copies_of(rig, &moved);
            }
        }
        drop(pass);
        let value = rig.submit(frame, &commands);
        assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
        rig.memory.reclaim();
    }
    assert_eq!(pool.statistics().block_count, 1, "{run:?}");
    assert!(recorded_count > 1, "some of each kind");
    for (number, texture) in held.iter().enumerate() {
        let Some(texture) = texture else { continue };
        each_part(&info, |part| {
            let seed = number as u64 * 8 + u64::from(part.mip * 2 + part.layer);
            assert!(read_part(rig, texture, part) == texels(part, seed), "texels of {number}, {part:?}");
        });
    }
}

/// One mip level of one array layer.
#[derive(Clone, Copy, Debug)]
struct Part {
    mip: u32,
    layer: u32,
    side: u32,
}

fn each_part(desc: &TextureDesc, mut visit: impl FnMut(Part)) {
    for layer in 0..desc.layers {
        (0..desc.mips).for_each(|mip| visit(Part { mip, layer, side: desc.width >> mip }));
    }
}

fn texels(part: Part, seed: u64) -> Vec<u8> {
    pattern(seed, (part.side * part.side * 4) as usize)
}

fn region<G: Gpu>(rig: &Rig<G>, Part { mip, layer, side }: Part) -> TextureRegion {
    TextureRegion { mip, layer, ..rig.region(side, side, 0) }
}

fn write_part<G: Gpu>(rig: &mut Rig<G>, texture: &Texture<G::Device>, part: Part, seed: u64) {
    let region = region(rig, part);
    let mut upload = rig.buffer(region.row_bytes * u64::from(part.side), Location::Upload, "texels");
    for (row, bytes) in texels(part, seed).chunks(part.side as usize * 4).enumerate() {
        upload.write(row as u64 * region.row_bytes, bytes).expect("upload memory is mapped");
    }
    let (src, dst) = (upload.object().clone(), texture.object().clone());
    rig.run(&[Command::CopyBufferToTexture { src, dst, region, discard: true }]);
}

fn read_part<G: Gpu>(rig: &mut Rig<G>, texture: &Texture<G::Device>, part: Part) -> Vec<u8> {
    let region = region(rig, part);
    let back = rig.buffer(region.row_bytes * u64::from(part.side), Location::Readback, "texels back");
    let (src, dst) = (texture.object().clone(), back.object().clone());
    rig.run(&[Command::CopyTextureToBuffer { src, dst, region }]);
    let mut bytes = vec![0; (region.row_bytes * u64::from(part.side)) as usize];
    back.read(0, &mut bytes).expect("readback memory is mapped");
    bytes.chunks(region.row_bytes as usize).flat_map(|row| row[..part.side as usize * 4].to_vec()).collect()
}

/// Returns the copies as copies to a buffer and back: the test kit cannot copy parts of textures to textures.
fn copies_of<G: Gpu>(rig: &mut Rig<G>, moved: &[MipCopy<G::Device>]) -> Vec<Command<G::Device>> {
    let mut commands = Vec::new();
    for copy in moved {
        for layer in 0..copy.layers {
            let region = TextureRegion { mip: copy.src_mip, layer, ..rig.region(copy.width, copy.height, 0) };
            let bounce = rig.buffer(region.row_bytes * u64::from(copy.height), Location::Device, "bounce");
            let (src, dst) = (copy.src.clone(), bounce.object().clone());
            commands.push(Command::CopyTextureToBuffer { src, dst: dst.clone(), region });
            let (src, dst) = (dst, copy.dst.clone());
            commands.push(Command::CopyBufferToTexture { src, dst, region, discard: true });
        }
    }
    commands
}

pub fn memory_without_a_resource_is_moved_by_its_owner<G: Gpu>(rig: &mut Rig<G>) {
    let info = copied(SIZE);
    let measured = rig.memory.create_buffer(&info, AllocationDesc::default()).expect("there is room");
    let pool = pool(rig, Algorithm::FreeList);
    let memory_type_bits = 1 << measured.memory_type();
    let needs = Requirements {
        size: SIZE,
        alignment: SIZE,
        memory_type_bits,
        class: ResourceClass::Buffer,
        prefers_dedicated: false,
        requires_dedicated: false,
    };
    let mut held: Vec<_> = (0..32_u64)
        .map(|number| Some(pool.allocate(needs, movable("bytes", number)).expect("there is room")))
        .collect();
    held.iter_mut().enumerate().filter(|(number, _)| number % 4 != 1).for_each(|(_, one)| *one = None);
    // This allocation contains a resource that may share its bytes, so it is not moved.
    let shared = held[1].as_mut().expect("it is held");
    let inside = shared.create_aliasing_buffer(&info, 0, "inside");
    let shares = inside.is_ok();
    rig.memory.reclaim();
    let mut run = Defrag::of_pool(&pool, DefragDesc::default());
    while run.state() != DefragState::Done {
        let frame = rig.timeline().begin();
        let mut pass = run.begin_pass(&frame).expect("the frame belongs to this allocator");
        for index in 0..pass.moves().len() {
            let number = pass.moves()[index].user_data as usize;
            assert!(!(shares && number == 1), "an allocation that shares its bytes stays");
            let allocation = held[number].as_mut().expect("dropped buffers are not moved");
            let old = pass.move_allocation(allocation).expect("it is in the pass");
            assert_eq!(old.size(), allocation.size());
            assert_eq!((allocation.offset() % SIZE, allocation.user_data()), (0, number as u64));
        }
        drop(pass);
        let value = rig.submit(frame, &[]);
        assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
        rig.memory.reclaim();
        rig.memory.debug().validate().expect("the allocator is sound");
    }
    assert_eq!(pool.statistics().block_count, 1, "{run:?}");
}

/// One run works on the allocator's own blocks and on a pool. A trace records all moves.
pub fn a_run_works_on_everything_and_the_trace_tells_of_it<G: Gpu>(rig: &mut Rig<G>) {
    let desc =
        AllocatorDesc { device_block_bytes_max: BLOCK_BYTES, host_block_bytes_max: BLOCK_BYTES, ..Default::default() };
    let (memory, timelines) = rig.allocator(desc);
    let recording = Recording::default();
    memory.trace().start(recording.clone()).expect("nothing was made");
    let info = copied(SIZE);
    let make = |number| memory.create_buffer(&copied(SIZE), movable("moves", number)).expect("there is room");
    let mut held: Vec<_> = (0..96_u64).map(|number| Some(make(number))).collect();
    held.iter_mut().enumerate().filter(|(number, _)| number % 3 != 1).for_each(|(_, buffer)| *buffer = None);
    memory.reclaim();
    let before = memory.statistics().total();
    let mut run = memory.defragment(DefragDesc::default());
    for _ in 0..100 {
        let frame = timelines[0].begin();
        let mut pass = run.begin_pass(&frame).expect("the frame belongs to this allocator");
        for index in 0..pass.moves().len() {
            let number = pass.moves()[index].user_data as usize;
            pass.copy_buffer_as(held[number].as_mut().expect("it is held"), &info).expect("the room is there");
        }
        drop(pass);
        // The frame is never submitted: no buffer has contents, so no bytes need to be copied.
        frame.discard();
        memory.reclaim();
    }
    assert_eq!(run.state(), DefragState::Done);
    let after = memory.statistics().total();
    assert!(after.block_bytes <= before.block_bytes / 2, "{before:?}, {after:?}");
    assert_eq!((after.range_bytes, after.range_count), (before.range_bytes, 32));
    memory.trace().stop().expect("it could be written").expect("it was being recorded");
    let bytes = recording.bytes();
    let (mut reader, mut state, mut moves) =
        (ringfence::trace::Reader::new(bytes.as_slice()).expect("a trace"), ringfence::trace::State::default(), 0);
    while let Some(event) = reader.next().transpose().expect("the trace is complete") {
        moves += u64::from(matches!(event, ringfence::trace::Event::Moved { .. }));
        state.apply(&event);
    }
    assert_eq!(moves, run.statistics().moved_count);
    drop((held, run));
    memory.shutdown(PATIENCE).expect("all work is complete");
}

pub fn a_run_converges_and_another_has_nothing_to_do<G: Gpu>(rig: &mut Rig<G>) {
    let pool = pool(rig, Algorithm::Tlsf);
    let mut held = fill_pool(rig, &pool, 16);
    held.iter_mut().enumerate().filter(|(number, _)| number % 2 == 0).for_each(|(_, buffer)| *buffer = None);
    rig.memory.reclaim();
    let mut run = Defrag::of_pool(&pool, DefragDesc::default());
    assert_eq!(run.statistics().scattered_bytes, 7 * SIZE, "every other one is free");
    converge(rig, &mut run, &mut held);
    let done = run.statistics();
    assert_eq!(run.statistics().scattered_bytes, 0, "one hole: {done:?}");
    assert_eq!(done.moved_bytes, 4 * SIZE, "each range from the upper half fills a hole of the lower");
    let mut again = Defrag::of_pool(&pool, DefragDesc::default());
    assert_eq!(converge(rig, &mut again, &mut held), 0);
    check(rig, &held);
}
