//! Transient memory. Bytes stay correct although resources share memory.

use std::ops::Range;

use crate::{Command, Gpu};
use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, Device, Driver, RawTexture, ResourceClass, TextureDesc, TextureInfo,
    TextureUsage, Textures,
};
use ringfence::lifetime::TimelineId;
use ringfence::placement::{BufferRequest, ConstantsLifetime, Dynamism, LocationKind, Placement, PlacementDesc, Route};
use ringfence::transient::{
    Described, Execution, FramePass, FrameResource, Pass, TransientBuffer, TransientDesc, TransientError,
    TransientTexture,
};
use ringfence::{Buffer, Frame, Location, SyncPoint, TransientAllocator};

use crate::rig::{PATIENCE, Rig, pattern};

const MIB: u64 = 1 << 20;

fn transient<G: Gpu>(rig: &Rig<G>, desc: TransientDesc<'_>) -> TransientAllocator<G::Device> {
    TransientAllocator::new(&rig.memory, desc)
}

fn small_heaps() -> TransientDesc<'static> {
    TransientDesc { heap_bytes: MIB, ..Default::default() }
}

/// Describes a square render target.
fn target(side: u32) -> TextureDesc {
    let usage = TextureUsage::RENDER_TARGET | TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    TextureDesc { width: side, height: side, usage, ..Default::default() }
}

fn try_acquire<D: Device>(
    execution: &mut Execution<'_, D>,
    desc: &TextureDesc,
    pass: Pass,
) -> Result<TransientTexture, TransientError> {
    execution.acquire_texture(desc, pass, "")
}

fn acquire<D: Device>(execution: &mut Execution<'_, D>, side: u32, pass: Pass) -> TransientTexture {
    try_acquire(execution, &target(side), pass).expect("there is room")
}

fn acquire_buffer<D: Device>(execution: &mut Execution<'_, D>, size: u64, pass: Pass) -> TransientBuffer {
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let info = BufferDesc { size, usage };
    execution.acquire_buffer(&info, pass, "").expect("there is room")
}

/// Returns `true` if two textures share bytes.
fn overlap<D: Device>(execution: &Execution<'_, D>, a: TransientTexture, b: TransientTexture) -> bool {
    let [(heap, at), (other_heap, other)] =
        [a, b].map(|handle| execution.place(handle).expect("a handle of this execution"));
    heap.is_some() && heap == other_heap && at.start < other.end && other.start < at.end
}

/// Runs an empty execution and ends the frame. Returns the released objects, cached heaps, and resources in use.
fn idle_frame<D: Device>(transient: &mut TransientAllocator<D>) -> (u64, u64, usize) {
    let before = transient.figures();
    transient.begin().finish(&[]);
    let after = transient.figures();
    transient.end_frame();
    transient.validate().expect("sound");
    (after.released - before.released, after.heaps_cached - before.heaps_cached, after.left_in_use)
}

pub fn seed_004_02_textures_and_buffers_come_from_the_transient_allocator<G: Gpu>(rig: &mut Rig<G>) {
    let mut transient = transient(rig, small_heaps());
    let bytes = pattern(1, 8192);
    let mut upload = rig.buffer(8192, Location::Upload, "source");
    upload.write(0, &bytes).expect("upload memory is mapped");
    let back = rig.buffer(12 << 10, Location::Readback, "back");
    let region = rig.region(32, 32, 0);
    let frame = rig.timeline().begin();
    let mut execution = transient.begin();
    let pass = execution.pass(rig.timeline().id(), &[]).expect("a queue");
    let (texture, buffer) = (acquire(&mut execution, 32, pass), acquire_buffer(&mut execution, 4096, pass));
    let (image, held) = (execution.texture(texture).unwrap().clone(), execution.buffer(buffer).unwrap().clone());
    let (src, dst) = (upload.object().clone(), back.object().clone());
    let from = upload.object().clone();
    rig.submit(
        frame,
        &[
            Command::CopyBuffer { src, src_offset: 0, dst: held.clone(), dst_offset: 0, size: 4096 },
            Command::CopyBuffer { src: held, src_offset: 0, dst: dst.clone(), dst_offset: 0, size: 4096 },
            Command::CopyBufferToTexture { src: from, dst: image.clone(), region, discard: true },
            Command::CopyTextureToBuffer { src: image, dst, region: rig.region(32, 32, 4096) },
        ],
    );
    execution.finish(&[]);
    let value = rig.timeline().submitted_value();
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    let mut read = vec![0; 12 << 10];
    back.read(0, &mut read).expect("readback memory is mapped");
    assert_eq!(read[..4096], bytes[..4096]);
    let row = region.row_bytes as usize;
    for line in 0..32 {
        let at = line * row;
        assert_eq!(read[4096 + at..][..128], bytes[at..at + 128], "line {line}");
    }
    assert_eq!(transient.figures().object_count, 2);
}

/// With a pass, the same call allocates from the graph's heaps; without one, from the pools of the placement.
pub fn seed_004_02_a_pass_that_is_given_switches_to_its_transient_allocator<G: Gpu>(rig: &mut Rig<G>) {
    let placement = Placement::new(&rig.memory, PlacementDesc::default()).expect("a sound description");
    let mut transient = transient(rig, small_heaps());
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let fixed = BufferRequest { size: 4096, usage, ..Default::default() };
    let dynamic = BufferRequest { dynamism: Dynamism::Dynamic, usage: BufferUsage::COPY_SRC, ..fixed };
    let ranges = || {
        let figures = placement.figures();
        let pools = figures.default_buffers.iter().chain(&figures.textures).chain([&figures.upload_small]);
        pools.map(|pool| pool.range_count).sum::<usize>()
    };
    let mut execution = transient.begin();
    let pass = execution.pass(rig.timeline().id(), &[]).unwrap();
    let given = placement.provide_texture(&target(64), "t", Some((&mut execution, pass)));
    let texture = given.expect("there is room").transient().expect("a pass was given");
    let given = placement.provide_buffer(&fixed, Some((&mut execution, pass)));
    let buffer = given.expect("there is room").transient().expect("a pass was given");
    assert!(execution.place(texture).unwrap().0.is_some() && execution.place(buffer).unwrap().0.is_some());
    assert_eq!((execution.figures().object_count, execution.figures().heap_count >= 1, ranges()), (2, true, 0));
    let given = placement.provide_buffer(&dynamic, Some((&mut execution, pass)));
    let upload = given.expect("there is room").placed().expect("a dynamic buffer is an upload");
    assert_eq!((upload.route(), execution.figures().object_count, ranges()), (Route::UploadSmall, 2, 1));
    let of_its_own = placement.provide_texture(&target(64), "t", None).expect("there is room").placed();
    let of_its_own = of_its_own.expect("no pass was given");
    let fixed_too = placement.provide_buffer(&fixed, None).expect("there is room").placed().expect("no pass was given");
    assert!(matches!(fixed_too.route(), Route::DefaultBuffers { .. }));
    let pooled = usize::from(of_its_own.kind() == LocationKind::Suballocated);
    assert_eq!((execution.figures().object_count, ranges()), (2, 2 + pooled));
    let bad = TextureDesc { width: 0, ..target(64) };
    let refused = placement.provide_texture(&bad, "", Some((&mut execution, pass))).map(drop);
    assert!(matches!(refused, Err(TransientError::Memory(_))), "{refused:?}");
    assert_eq!(execution.finish(&[]), 2);
    transient.validate().expect("sound");
}

/// Each pass of a graph reads its own constants, and writes a buffer that the next pass reads.
pub fn seed_004_27_the_passes_of_a_graph_read_fast_constants<G: Gpu>(rig: &mut Rig<G>) {
    const PASSES: u64 = 5;
    const BYTES: u64 = 256;
    let placement = Placement::new(&rig.memory, PlacementDesc::default()).expect("a sound description");
    let mut transient = transient(rig, small_heaps());
    let back = rig.buffer(PASSES * BYTES, Location::Readback, "back");
    let request = BufferRequest {
        size: PASSES * BYTES,
        usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST,
        ..Default::default()
    };
    let mut seen = None;
    for number in 0..4 {
        let frame = rig.timeline().begin();
        let mut writer = placement.fast_constants().writer(&frame).expect("the frame is the allocator's own");
        let mut execution = transient.begin();
        let (mut commands, mut expected) = (Vec::new(), Vec::new());
        let mut last: Option<TransientBuffer> = None;
        for index in 0..PASSES {
            let pass = execution.pass(rig.timeline().id(), &[]).unwrap();
            let given = placement.provide_buffer(&request, Some((&mut execution, pass)));
            let buffer = given.expect("there is room").transient().expect("a pass was given");
            let content = pattern(number * PASSES + index, BYTES as usize);
            let lifetime = ConstantsLifetime::SingleFrame;
            let constants = placement.create_constants(&content, lifetime, &mut writer, "of a pass").expect("a page");
            assert_eq!((constants.route(), constants.kind()), (Route::FastPage, LocationKind::Fast));
            let dst = execution.buffer(buffer).unwrap().clone();
            commands.push(Command::TakeOver { buffer: dst.clone() });
            if let Some(last) = last.replace(buffer) {
                let src = execution.buffer(last).unwrap().clone();
                let size = index * BYTES;
                commands.push(Command::CopyBuffer { src, src_offset: 0, dst: dst.clone(), dst_offset: 0, size });
                execution.discard(last, &[pass]).unwrap();
            }
            let (src, src_offset) = (constants.object().clone(), constants.offset());
            commands.push(Command::CopyBuffer { src, src_offset, dst, dst_offset: index * BYTES, size: BYTES });
            expected.extend(content);
        }
        let src = execution.buffer(last.expect("there are passes")).unwrap().clone();
        let dst = back.object().clone();
        commands.push(Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size: PASSES * BYTES });
        let figures = placement.figures();
        let (pages, uploads) = (figures.fast_pages.range_count, figures.upload_small.range_count);
        assert_eq!((pages, uploads, figures.upload_big.range_count), (1, 0, 0), "one page has them all");
        drop(writer);
        execution.finish(&[frame.point()]);
        let value = rig.submit(frame, &commands);
        assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
        let mut read = vec![0; (PASSES * BYTES) as usize];
        back.read(0, &mut read).expect("readback memory is mapped");
        assert_eq!(read, expected, "execution {number}");
        placement.end_frame();
        transient.end_frame();
        assert_eq!(placement.figures().fast_pages.range_count, 0, "the page was released with the frame");
        let calls = rig.memory.statistics().calls.made();
        assert_eq!(*seen.get_or_insert(calls), calls, "execution {number}");
    }
}

pub fn seed_004_24_heaps_at_hand_are_tried_first_else_one_is_got<G: Gpu>(rig: &mut Rig<G>) {
    let desc = TransientDesc { objects_kept: 0, latency_frames: 0, ..small_heaps() };
    let mut transient = transient(rig, desc);
    let queue = rig.timeline().id();
    let mut execution = transient.begin();
    let first = execution.pass(queue, &[]).unwrap();
    let mut held = Vec::new();
    while execution.figures().heap_count < 3 || held.len() % 4 != 0 {
        held.push(acquire(&mut execution, 256, first));
    }
    assert_eq!((held.len(), execution.figures().heap_count), (12, 3), "four of 256 KiB fill a heap of 1 MiB");
    for (at, a) in held.iter().enumerate() {
        assert!(held[..at].iter().all(|b| !overlap(&execution, *a, *b)), "all are alive at once");
    }
    // If a heap has room, it is used, whether it is the oldest, the middle or the youngest one.
    for full in [&held[0..4], &held[4..8], &held[8..12]] {
        let (heap, range) = execution.place(full[2]).unwrap();
        execution.discard(full[2], &[]).unwrap();
        let next = execution.pass(queue, &[]).unwrap();
        let oblong = try_acquire(&mut execution, &TextureDesc { height: 255, ..target(256) }, next);
        let (found, at) = execution.place(oblong.expect("there is room")).unwrap();
        assert_eq!((found, at.start, execution.figures().heap_count), (heap, range.start, 3));
    }
    let second = execution.pass(queue, &[]).unwrap();
    let large = acquire(&mut execution, 1024, second);
    assert!(execution.place(large).unwrap().1.end >= 4 * MIB, "larger than the default heap");
    assert_eq!(execution.figures().heap_count, 4);
    execution.finish(&[]);
    transient.end_frame();
    // Cached heaps are tried too. Here only the youngest of four is large enough.
    assert_eq!(idle_frame(&mut transient).1, 4);
    let mut execution = transient.begin();
    let pass = execution.pass(queue, &[]).unwrap();
    (0..2).for_each(|_| _ = acquire(&mut execution, 640, pass));
    assert_eq!((execution.figures().heap_count, execution.figures().idle_heap_count), (1, 3));
    execution.finish(&[]);
    transient.validate().expect("sound");
    assert_eq!(rig.memory.statistics().calls.allocate_memory, 4);
}

pub fn seed_004_25_a_hit_creates_nothing<G: Gpu>(rig: &mut Rig<G>) {
    let mut transient = transient(rig, small_heaps());
    let queue = rig.timeline().id();
    let mut seen = None;
    for number in 0..10 {
        let mut execution = transient.begin();
        let passes: Vec<_> = (0..4).map(|_| execution.pass(queue, &[]).unwrap()).collect();
        let mut places = Vec::new();
        let mut before = None;
        for (pass, side) in passes.iter().zip([64, 128, 64, 256]) {
            let texture = acquire(&mut execution, side, *pass);
            let buffer = acquire_buffer(&mut execution, u64::from(side) * 64, *pass);
            let twins =
                (acquire(&mut execution, side, *pass), acquire_buffer(&mut execution, u64::from(side) * 64, *pass));
            assert!(execution.buffer(buffer).unwrap() != execution.buffer(twins.1).unwrap());
            assert!(!overlap(&execution, texture, twins.0), "{side}: both are alive");
            places.push((execution.place(twins.0).unwrap(), execution.place(twins.1).unwrap()));
            places.push((execution.place(texture).unwrap(), execution.place(buffer).unwrap()));
            let raw = (execution.texture(texture).unwrap().clone(), execution.buffer(buffer).unwrap().clone());
            places.push(places[places.len() - 1].clone());
            assert!(before.replace(raw.clone()).is_none_or(|before| before.0 != raw.0), "two in a row live at once");
            let last = passes.get(passes.iter().position(|held| held == pass).unwrap() + 1).unwrap_or(pass);
            execution.discard(texture, &[*last]).unwrap();
            execution.discard(buffer, &[*last]).unwrap();
            execution.discard(twins.0, &[*last]).unwrap();
            execution.discard(twins.1, &[*last]).unwrap();
        }
        execution.finish(&[]);
        let figures = transient.figures();
        assert_eq!((figures.released, figures.heaps_cached, figures.left_in_use), (0, 0, 0));
        transient.end_frame();
        let calls = rig.memory.statistics().calls.made();
        let state = (calls, transient.figures().misses, places);
        assert_eq!(*seen.get_or_insert_with(|| state.clone()), state, "frame {number} creates and moves no objects");
    }
    let figures = transient.figures();
    assert_eq!(figures.hits + figures.misses, 10 * 16);
}

pub fn seed_004_26_acquire_marks_in_use_and_discard_records_the_pass<G: Gpu>(rig: &mut Rig<G>) {
    let mut transient = transient(rig, small_heaps());
    let queue = rig.timeline().id();
    let mut execution = transient.begin();
    let one = execution.pass(queue, &[]).unwrap();
    let two = execution.pass(queue, &[]).unwrap();
    let three = execution.pass(queue, &[]).unwrap();
    let first = acquire(&mut execution, 128, one);
    let beside = acquire(&mut execution, 128, one);
    assert!(!overlap(&execution, first, beside), "memory in use is not allocated twice");
    execution.discard(first, &[two]).unwrap();
    assert!(matches!(execution.discard(first, &[two]), Err(TransientError::Stale { .. })), "discarded once");
    let early = acquire(&mut execution, 128, two);
    assert!(!overlap(&execution, first, early), "pass 2 still uses it");
    let late = acquire(&mut execution, 128, three);
    assert!(overlap(&execution, first, late), "the bytes are free after pass 2");
    assert_eq!(first.id(), late.id(), "the object was kept");
    let taken = execution.texture(first).map(drop);
    assert_eq!(taken, Err(TransientError::Taken { id: first.id(), by: late.id() }), "its bytes have another owner now");
    assert!(execution.texture(late).is_ok());
    assert_eq!(transient_counts(&execution), (3, 1, 3));
    let refused = execution.discard(late, &[two]);
    assert_eq!(refused, Err(TransientError::NotAfter { first: three, last: two }));
    assert_eq!(try_acquire(&mut execution, &target(64), two), Err(TransientError::OutOfOrder { pass: two, latest: 3 }));
    assert_eq!(execution.finish(&[]), 3);
    transient.validate().expect("sound");
    let mut execution = transient.begin();
    assert!(matches!(execution.texture(first), Err(TransientError::Stale { .. })));
    assert!(matches!(execution.discard(late, &[]), Err(TransientError::Stale { .. })));
    assert_eq!(try_acquire(&mut execution, &target(64), three), Err(TransientError::UnknownPass { pass: three }));
    drop(execution);
    // A resource can have several last passes, in any order: its bytes are free after all of them.
    for turn in 0..3 {
        let mut execution = transient.begin();
        let passes = [(); 5].map(|()| execution.pass(queue, &[]).unwrap());
        let held = acquire(&mut execution, 128, passes[0]);
        let mut last = [passes[1], passes[2], passes[3]];
        last.rotate_left(turn);
        execution.discard(held, &last).unwrap();
        let early = acquire(&mut execution, 128, passes[3]);
        assert!(!overlap(&execution, held, early), "a pass that was named uses it, of {last:?}");
        let late = acquire(&mut execution, 128, passes[4]);
        assert!(overlap(&execution, held, late), "{last:?} are over");
    }
    // If two queues use the bytes, a pass that waits for only one of them does not get the bytes.
    let Some(other) = rig.timelines.get(1).map(ringfence::Timeline::id) else { return };
    for turn in 0..2 {
        let mut transient = TransientAllocator::new(&rig.memory, small_heaps());
        let mut execution = transient.begin();
        let one = execution.pass(queue, &[]).unwrap();
        let two = execution.pass(other, &[one]).unwrap();
        let three = execution.pass(queue, &[]).unwrap();
        let held = acquire(&mut execution, 128, one);
        execution.discard(held, &if turn == 0 { [two, three] } else { [three, two] }).unwrap();
        let [on_one, on_other] = [queue, other].map(|queue| execution.pass(queue, &[]).unwrap());
        for pass in [on_one, on_other] {
            let early = acquire(&mut execution, 128, pass);
            assert!(!overlap(&execution, held, early), "the other queue still uses it");
        }
        let both = execution.pass(queue, &[on_other]).unwrap();
        let late = acquire(&mut execution, 128, both);
        assert!(overlap(&execution, held, late), "it waits for both");
    }
}

fn transient_counts<D: Device>(transient: &TransientAllocator<D>) -> (u64, u64, usize) {
    let figures = transient.figures();
    (figures.misses, figures.hits, figures.object_count)
}

pub fn seed_004_28_unused_objects_go_beyond_a_number_and_an_age<G: Gpu>(rig: &mut Rig<G>) {
    let desc = TransientDesc { objects_kept: 2, latency_frames: 3, ..small_heaps() };
    let mut transient = transient(rig, desc);
    let mut execution = transient.begin();
    let pass = execution.pass(rig.timeline().id(), &[]).unwrap();
    for side in [64, 96, 128, 160, 192] {
        let texture = acquire(&mut execution, side, pass);
        execution.discard(texture, &[]).unwrap();
        let buffer = acquire_buffer(&mut execution, u64::from(side) * 64, pass);
        execution.discard(buffer, &[]).unwrap();
    }
    execution.finish(&[]);
    assert_eq!(transient.figures().released, 0, "objects of this execution are kept");
    transient.end_frame();
    let released: Vec<_> = (0..6).map(|_| idle_frame(&mut transient).0).collect();
    assert_eq!(released, [0, 0, 0, 6, 0, 0], "older than three frames, and more than the two of a kind that are kept");
    assert_eq!(transient.figures().object_count, 4);
    // The youngest objects were kept. Of objects with equal age, those with the largest numbers were kept.
    let mut execution = transient.begin();
    let pass = execution.pass(rig.timeline().id(), &[]).unwrap();
    let made = execution.figures().misses;
    assert_eq!(execution.figures().hits, 0);
    let sides = [160, 192];
    sides.iter().for_each(|side| _ = acquire(&mut execution, *side, pass));
    drop(execution);
    let figures = transient.figures();
    assert_eq!((figures.misses - made, figures.hits), (0, 2), "both objects are reused");
    transient.validate().expect("sound");
}

/// The object that was unused the longest is released first. A use resets the age. Each frame uses one object.
pub fn seed_004_28_the_oldest_go_first<G: Gpu>(rig: &mut Rig<G>) {
    let desc = TransientDesc { objects_kept: 2, latency_frames: 4, ..small_heaps() };
    let mut transient = transient(rig, desc);
    let queue = rig.timeline().id();
    // Returns the number of objects that were created, reused and released.
    let mut frame = |sides: &[u32]| {
        let before = transient.figures();
        let mut execution = transient.begin();
        let pass = execution.pass(queue, &[]).unwrap();
        for side in sides {
            let texture = acquire(&mut execution, *side, pass);
            execution.discard(texture, &[]).unwrap();
        }
        execution.finish(&[]);
        let after = transient.figures();
        transient.end_frame();
        transient.validate().expect("sound");
        (after.misses - before.misses, after.hits - before.hits, after.released - before.released)
    };
    for side in [64, 96, 128, 160] {
        assert_eq!(frame(&[side]), (1, 0, 0));
    }
    assert_eq!(frame(&[64]), (0, 1, 0), "the first is the youngest again");
    // The last uses: 96 in frame 2, 128 in 3, 160 in 4, 64 in 5. Two objects are kept, and the latency is four frames.
    assert_eq!(frame(&[]), (0, 0, 0), "96 is four frames old");
    assert_eq!(frame(&[]), (0, 0, 1), "now it is five frames old and is released");
    assert_eq!(frame(&[]), (0, 0, 1), "now 128 is released");
    assert_eq!(frame(&[]), (0, 0, 0), "160 is old enough, but is one of the two that are kept");
    for (side, expected) in [(160, (0, 1, 0)), (64, (0, 1, 0)), (96, (1, 0, 0)), (128, (1, 0, 0))] {
        assert_eq!(frame(&[side]), expected, "{side}: only the two youngest are kept");
    }
}

pub fn seed_004_29_empty_heaps_go_to_a_cache_and_then_go<G: Gpu>(rig: &mut Rig<G>) {
    let desc = TransientDesc { objects_kept: 0, latency_frames: 0, heap_idle_frames: 2, ..small_heaps() };
    let mut transient = transient(rig, desc);
    let use_one = |transient: &mut TransientAllocator<G::Device>, side| {
        let mut execution = transient.begin();
        let pass = execution.pass(rig.timeline().id(), &[]).unwrap();
        acquire(&mut execution, side, pass);
        execution.finish(&[]);
        transient.end_frame();
    };
    use_one(&mut transient, 64);
    assert_eq!(idle_frame(&mut transient), (1, 1, 0));
    let figures = transient.figures();
    assert_eq!((figures.heap_count, figures.idle_heap_count, figures.idle_heap_bytes), (0, 1, MIB));
    // The heap comes from the cache, not from the driver. When it is empty, its idle time starts again.
    use_one(&mut transient, 128);
    assert_eq!(rig.memory.statistics().calls.allocate_memory, 1);
    assert_eq!(transient.figures().heap_count, 1);
    idle_frame(&mut transient);
    assert_eq!(transient.figures().idle_heap_count, 1, "idle for one frame");
    idle_frame(&mut transient);
    assert_eq!(transient.figures().idle_heap_count, 1, "idle for two frames");
    idle_frame(&mut transient);
    assert_eq!(transient.figures().idle_heap_count, 0, "idle for longer than that");
    rig.memory.reclaim();
    assert_eq!(rig.memory.statistics().calls.free_memory, 1);
    // Each heap has its own idle time: one of three heaps is used for one more frame, so two are freed at once.
    let mut execution = transient.begin();
    let pass = execution.pass(rig.timeline().id(), &[]).unwrap();
    (0..3).for_each(|_| _ = acquire(&mut execution, 512, pass));
    execution.finish(&[]);
    transient.end_frame();
    use_one(&mut transient, 512);
    let counts = [(); 4].map(|()| {
        let count = transient.figures().idle_heap_count;
        idle_frame(&mut transient);
        count
    });
    assert_eq!(counts, [2, 3, 1, 0]);
    rig.memory.reclaim();
    assert_eq!(rig.memory.statistics().calls.free_memory, 4);
}

pub fn seed_004_30_release_is_proven_by_sync_points_not_by_latency<G: Gpu>(rig: &mut Rig<G>) {
    let desc = TransientDesc { objects_kept: 0, latency_frames: 2, heap_idle_frames: 0, ..small_heaps() };
    let mut transient = transient(rig, desc);
    let frame = rig.timeline().begin();
    let point = frame.point();
    let mut execution = transient.begin();
    let pass = execution.pass(rig.timeline().id(), &[]).unwrap();
    let buffer = acquire_buffer(&mut execution, 4096, pass);
    let dst = execution.buffer(buffer).unwrap().clone();
    execution.finish(&[point]);
    let fill = Command::FillBuffer { dst, offset: 0, size: 4096, value: 7 };
    rig.submit_behind_gate(1, frame, &[fill]);
    transient.end_frame();
    // The device is behind by many more frames than the latency.
    let released: u64 = (0..20).map(|_| idle_frame(&mut transient).0).sum();
    assert_eq!(released, 1, "it is older than the latency");
    assert_eq!(transient.figures().idle_heap_count, 0, "its heap is freed too");
    rig.memory.reclaim();
    let calls = rig.memory.statistics().calls;
    assert_eq!((calls.destroy_object, calls.free_memory), (0, 0), "the device still has to write it");
    rig.gpu.open_gate(1).expect("the device is not lost");
    assert!(rig.timeline().wait(point.value, PATIENCE).expect("the device is not lost"));
    rig.memory.reclaim();
    let calls = rig.memory.statistics().calls;
    assert_eq!((calls.destroy_object, calls.free_memory), (1, 1));
}

pub fn classes_share_heaps_where_the_device_lets_them<G: Gpu>(rig: &mut Rig<G>) {
    let groups = rig.memory.device().capabilities().class_groups;
    let parted = groups[ResourceClass::Buffer as usize] != groups[ResourceClass::RenderTarget as usize];
    let mut transient = transient(rig, small_heaps());
    let mut execution = transient.begin();
    let pass = execution.pass(rig.timeline().id(), &[]).unwrap();
    let texture = acquire(&mut execution, 64, pass);
    execution.discard(texture, &[]).unwrap();
    let next = execution.pass(rig.timeline().id(), &[]).unwrap();
    let buffer = acquire_buffer(&mut execution, 4096, next);
    let (of_texture, of_buffer) = (execution.place(texture).unwrap(), execution.place(buffer).unwrap());
    if parted {
        assert_ne!(of_texture.0, of_buffer.0);
    } else if of_texture.0 == of_buffer.0 {
        assert_eq!(of_texture.1.start, of_buffer.1.start, "the same bytes");
        assert!(execution.barriers().iter().any(|barrier| barrier.aliases && !barrier.discards));
    }
}

pub fn barriers_are_as_few_as_the_sharing_needs<G: Gpu>(rig: &mut Rig<G>) {
    let mut transient = transient(rig, small_heaps());
    let queue = rig.timeline().id();
    for number in 0..3 {
        let mut execution = transient.begin();
        let [one, two, three, four] = [(); 4].map(|()| execution.pass(queue, &[]).unwrap());
        let oblong = |width, height| TextureDesc { width, height, ..target(1) };
        let (a, b) = (acquire(&mut execution, 128, one), acquire(&mut execution, 256, one));
        execution.discard(a, &[one]).unwrap();
        execution.discard(b, &[two]).unwrap();
        // `c` gets the bytes of `a` in pass 3, `d` those of `b` in pass 4. The dependency before pass 3 covers both.
        let c = try_acquire(&mut execution, &oblong(256, 64), three).unwrap();
        let d = try_acquire(&mut execution, &oblong(512, 128), four).unwrap();
        assert!(overlap(&execution, a, c) && overlap(&execution, b, d));
        let of = |handle: TransientTexture| {
            let barrier = execution.barriers().iter().find(|barrier| barrier.after == handle.id()).unwrap();
            (barrier.pass, barrier.before, barrier.depends, barrier.aliases, barrier.discards)
        };
        assert_eq!(of(c), (three, Some(a.id()), true, true, true));
        assert_eq!(of(d), (four, Some(b.id()), false, true, true));
        // In the first frame, the first owners of the bytes follow no resource. In later frames, they follow those of
        // the last frame.
        assert_eq!(of(a), (one, (number > 0).then_some(c.id()), number > 0, number > 0, true));
        assert_eq!(of(b).3, number > 0);
        let figures = execution.figures();
        let expected = if number == 0 { (2, 1) } else { (4, 2) };
        assert_eq!((figures.aliasing_count, figures.dependency_count), expected);
        assert!(execution.raw(a.id()).is_ok());
        execution.finish(&[]);
    }
}

pub fn memory_is_saved_and_bytes_are_right<G: Gpu>(rig: &mut Rig<G>) {
    let mut transient = transient(rig, small_heaps());
    let passes: Vec<_> =
        (0..12).map(|number| GraphPass { queue: 0, waits: vec![], draws: vec![number], reads: vec![] }).collect();
    let mut graph = Graph { passes, sides: (0..12).map(|number| 96 + number % 3 * 32).collect() };
    (1..12).for_each(|number| graph.passes[number].reads.push(number - 1));
    graph.run(rig, &mut transient, Way::AsItGoes, 0..1);
    let first = transient.figures();
    graph.run(rig, &mut transient, Way::AsItGoes, 1..4);
    let figures = transient.figures();
    assert!(figures.saved_bytes() * 2 > figures.requested_bytes, "more than half of the memory is saved: {figures:?}");
    assert_eq!(figures.misses, first.misses, "later frames create no objects");
    assert_eq!((figures.requested_bytes, figures.peak_bytes), (first.requested_bytes, first.peak_bytes));
}

pub fn bytes_are_right_with_several_queues_in_a_partial_order<G: Gpu>(rig: &mut Rig<G>) {
    for seed in 0..12 {
        let mut transient = transient(rig, small_heaps());
        let graph = Graph::random(seed, rig.gpu.queue_count());
        graph.run(rig, &mut transient, Way::AsItGoes, seed * 10..seed * 10 + 3);
    }
}

pub fn bytes_are_right_in_planned_frames_on_several_queues<G: Gpu>(rig: &mut Rig<G>) {
    for seed in 0..12 {
        let mut transient = transient(rig, small_heaps());
        let graph = Graph::random(seed, rig.gpu.queue_count());
        graph.run(rig, &mut transient, Way::Planned, seed * 10..seed * 10 + 3);
        assert!(transient.figures().peak_bytes <= transient.figures().requested_bytes);
    }
}

pub fn a_planned_frame_like_the_last_makes_nothing<G: Gpu>(rig: &mut Rig<G>) {
    let mut transient = transient(rig, small_heaps());
    let graph = Graph::random(3, 1);
    let shape = GraphShape::of(&graph, rig);
    let mut seen = None;
    for number in 0..8 {
        let execution = shape.plan(&mut transient).expect("there is room");
        let figures = execution.figures();
        assert!(figures.planned_bytes >= figures.lower_bound_bytes && figures.lower_bound_bytes > 0);
        assert_eq!(figures.is_reused, number > 0);
        let places: Vec<_> = (0..graph.sides.len())
            .map(|target| execution.place::<Textures>(execution.planned(target).unwrap()).unwrap())
            .collect();
        let barriers: Vec<_> =
            execution.barriers().iter().map(|held| (held.before, held.after, held.depends, held.aliases)).collect();
        assert_eq!(figures.peak_bytes, figures.planned_bytes);
        assert!(matches!(execution.planned::<Buffers>(0), Err(TransientError::NotPlanned { place: 0 })));
        assert!(execution.planned::<Textures>(graph.sides.len()).is_err());
        execution.finish(&[]);
        transient.end_frame();
        transient.validate().expect("sound");
        let state = (rig.memory.statistics().calls.made(), transient.figures().misses, places, barriers);
        // The first frame has fewer barriers, because no frame precedes it.
        if number > 0 {
            assert_eq!(*seen.get_or_insert_with(|| state.clone()), state, "frame {number}");
        }
    }
}

/// For a post-processing graph with an unfavourable order, a plan needs less memory than greedy placement.
pub fn a_plan_needs_less_than_placement_as_it_goes<G: Gpu>(rig: &mut Rig<G>) {
    let pass = |draws: Vec<usize>, reads: Vec<usize>| GraphPass { queue: 0, waits: vec![], draws, reads };
    // Between two small targets, greedy placement leaves a gap that is too small for the large target.
    let passes = vec![pass(vec![0, 1, 2], vec![]), pass(vec![], vec![1]), pass(vec![3], vec![0, 2])];
    let passes = [passes, vec![pass(vec![], vec![2, 3]), pass(vec![4], vec![3])]].concat();
    let graph = Graph { passes, sides: vec![128, 256, 128, 320, 256] };
    let (mut planned, mut online) = (transient(rig, small_heaps()), transient(rig, small_heaps()));
    graph.run(rig, &mut planned, Way::Planned, 0..2);
    graph.run(rig, &mut online, Way::AsItGoes, 0..2);
    let (planned, online) = (planned.figures(), online.figures());
    assert!(planned.peak_bytes < online.peak_bytes, "{planned:?} {online:?}");
}

pub fn a_planned_frame_almost_like_the_last_keeps_what_it_can<G: Gpu>(rig: &mut Rig<G>) {
    let mut transient = transient(rig, small_heaps());
    let mut graph = Graph::random(5, 1);
    GraphShape::of(&graph, rig).plan(&mut transient).expect("there is room").finish(&[]);
    let before = transient.figures();
    let largest = (0..graph.sides.len()).max_by_key(|target| graph.sides[*target]).expect("some");
    graph.sides[largest] = 80;
    GraphShape::of(&graph, rig).plan(&mut transient).expect("there is room").finish(&[]);
    let after = transient.figures();
    assert_eq!((after.heap_count, after.misses), (before.heap_count, before.misses + 1), "one object is new");
    transient.validate().expect("sound");
}

pub fn planned_classes_have_heaps_of_their_own_only_where_they_must<G: Gpu>(rig: &mut Rig<G>) {
    let mut transient = transient(rig, small_heaps());
    let sampled = TextureDesc { usage: TextureUsage::SAMPLED | TextureUsage::COPY_DST, ..target(128) };
    let device = rig.memory.device();
    let describe = |desc: &TextureDesc| Create::<Textures>::describe(device, desc).expect("a plain texture");
    let (drawn, sampled) = (describe(&target(128)), describe(&sampled));
    let desc = BufferDesc { size: 1 << 16, usage: BufferUsage::COPY_DST };
    let buffer = Create::<Buffers>::describe(device, &desc).expect("a plain buffer");
    let queue = rig.timeline().id();
    let resource = |info, first| FrameResource { info, first, last: &[], name: "" };
    let resources = [
        resource(Described::Texture(&drawn), 0),
        resource(Described::Texture(&sampled), 1),
        resource(Described::Buffer(&buffer), 2),
    ];
    let passes = [FramePass::on(queue); 3];
    let execution = transient.plan(&passes, &resources, |_| true).expect("there is room");
    let heaps = [
        execution.place::<Textures>(execution.planned(0).unwrap()).unwrap().0,
        execution.place::<Textures>(execution.planned(1).unwrap()).unwrap().0,
        execution.place::<Buffers>(execution.planned(2).unwrap()).unwrap().0,
    ];
    let groups = device.capabilities().class_groups;
    let [of_target, of_texture, of_buffer] =
        [ResourceClass::RenderTarget, ResourceClass::Texture, ResourceClass::Buffer]
            .map(|class| groups[class as usize]);
    let figures = execution.figures();
    for (one, other, parted) in
        [(0, 1, of_target != of_texture), (1, 2, of_texture != of_buffer), (0, 2, of_target != of_buffer)]
    {
        assert!(!parted || heaps[one] != heaps[other]);
    }
    assert_eq!(execution.frame_pass(3), None);
    assert!(execution.frame_pass(2).is_some());
    let mut distinct = heaps.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), figures.group_count);
    assert!(figures.planned_bytes <= figures.requested_bytes);
}

/// Planned resources of the graphics queue do not share bytes with the last frame's work on the compute queue.
pub fn planned_frames_that_overlap_have_heaps_of_their_own<G: Gpu>(rig: &mut Rig<G>) {
    let [graphics, compute, ..] = rig.timelines.as_slice() else { return };
    let (graphics, compute) = (graphics.id(), compute.id());
    let mut transient = transient(rig, small_heaps());
    let info = Create::<Textures>::describe(rig.memory.device(), &target(128)).expect("a plain texture");
    let info = Described::Texture(&info);
    let resources =
        [FrameResource { info, first: 0, last: &[1], name: "" }, FrameResource { info, first: 1, last: &[], name: "" }];
    let mut last = None;
    let mut heaps = Vec::new();
    for waits in [false, false, true] {
        let before: Vec<_> = last.filter(|_| waits).into_iter().collect();
        let passes = [
            FramePass { waits_before: &before, ..FramePass::on(graphics) },
            FramePass { waits: &[0], ..FramePass::on(compute) },
        ];
        let execution = transient.plan(&passes, &resources, |_| true).expect("there is room");
        heaps.push(execution.place::<Textures>(execution.planned(0).unwrap()).unwrap().0);
        last = execution.frame_pass(1);
        execution.finish(&[]);
    }
    assert_ne!(heaps[0], heaps[1], "no pass waits for the first frame's compute work");
    assert!(heaps[..2].contains(&heaps[2]), "the third frame waits for the second's");
    assert_eq!(transient.figures().heap_count, 2);
}

pub fn bad_planned_frames_are_refused<G: Gpu>(rig: &mut Rig<G>) {
    let mut transient = transient(rig, small_heaps());
    let queue = rig.timeline().id();
    let info = Create::<Textures>::describe(rig.memory.device(), &target(64)).expect("a plain texture");
    let info = Described::Texture(&info);
    let mut refused = |passes: &[FramePass<'_>], first, last: &[usize]| {
        let resources = [FrameResource { info, first, last, name: "" }];
        let error = transient.plan(passes, &resources, |_| true).map(drop).expect_err("a bad frame");
        transient.validate().expect("sound");
        error
    };
    let passes = [FramePass::on(queue); 2];
    assert_eq!(refused(&passes, 2, &[]), TransientError::NotPlanned { place: 2 });
    assert_eq!(refused(&passes, 0, &[1, 7]), TransientError::NotPlanned { place: 7 });
    assert!(matches!(refused(&passes, 1, &[0]), TransientError::NotAfter { .. }));
    let late = [FramePass { waits: &[1], ..FramePass::on(queue) }, FramePass::on(queue)];
    assert_eq!(refused(&late, 0, &[]), TransientError::NotPlanned { place: 1 });
    let empty = transient.plan(&[], &[], |_| true).expect("an empty frame is a frame");
    assert_eq!(empty.figures().planned_bytes, 0);
}

/// A pass may use bytes of the other queue only if it waits for that queue, not merely because it is submitted later.
pub fn queues_share_bytes_only_where_one_waits_for_the_other<G: Gpu>(rig: &mut Rig<G>) {
    let [graphics, compute, ..] = rig.timelines.as_slice() else { return };
    let (graphics, compute) = (graphics.id(), compute.id());
    let mut transient = transient(rig, small_heaps());
    let mut execution = transient.begin();
    let shadow = execution.pass(graphics, &[]).unwrap();
    let blur = execution.pass(compute, &[]).unwrap();
    let light = execution.pass(compute, &[shadow]).unwrap();
    let drawn = acquire(&mut execution, 128, shadow);
    execution.discard(drawn, &[]).unwrap();
    let early = acquire(&mut execution, 128, blur);
    assert!(!overlap(&execution, drawn, early), "blur is not ordered after shadow");
    let late = acquire(&mut execution, 128, light);
    assert!(overlap(&execution, drawn, late), "light waits for shadow");
    let barrier = *execution.barriers().last().unwrap();
    assert!(barrier.discards && !barrier.aliases, "it is the same object");
    assert!(!barrier.depends, "the wait between the queues is the dependency");
    execution.discard(late, &[]).unwrap();
    execution.finish(&[]);
    let mut execution = transient.begin();
    let next = execution.pass(graphics, &[]).unwrap();
    let fresh = acquire(&mut execution, 128, next);
    let taken = execution.place(fresh).unwrap();
    assert_ne!(taken, (Some(0), 0..taken.1.end - taken.1.start), "compute may still read these bytes");
    let after = execution.pass(graphics, &[light]).unwrap();
    let reused = acquire(&mut execution, 128, after);
    assert_eq!(execution.place(reused).unwrap().1.start, 0, "this pass waits for the last frame's compute work");
}

pub fn what_the_device_has_completed_is_free_for_every_queue<G: Gpu>(rig: &mut Rig<G>) {
    let mut transient = transient(rig, small_heaps());
    let last = rig.gpu.queue_count() - 1;
    let (frame, other) = (rig.timelines[last].begin(), rig.timeline().id());
    let point: SyncPoint = frame.point();
    let mut execution = transient.begin();
    let pass = execution.pass(rig.timelines[last].id(), &[]).unwrap();
    let texture = acquire(&mut execution, 128, pass);
    let place = execution.place(texture).unwrap();
    execution.discard(texture, &[]).unwrap();
    execution.finish(&[point]);
    rig.gpu.submit(last, &[], &[], point.value).expect("the device is not lost");
    rig.timelines[last].submitted(frame).expect("in order");
    assert!(rig.timelines[last].wait(point.value, PATIENCE).expect("the device is not lost"));
    let mut execution = transient.begin();
    let pass = execution.pass(other, &[]).unwrap();
    let texture = acquire(&mut execution, 128, pass);
    assert_eq!(execution.place(texture).unwrap(), place);
}

pub fn what_is_in_use_when_the_allocator_goes_outlives_the_device_work<G: Gpu>(rig: &mut Rig<G>) {
    let mut transient = transient(rig, small_heaps());
    let frame = rig.timeline().begin();
    let value = frame.value();
    let mut execution = transient.begin();
    let pass = execution.pass(rig.timeline().id(), &[]).unwrap();
    let buffer = acquire_buffer(&mut execution, 4096, pass);
    let dst = execution.buffer(buffer).unwrap().clone();
    rig.submit_behind_gate(1, frame, &[Command::FillBuffer { dst, offset: 0, size: 4096, value: 7 }]);
    drop(execution);
    drop(transient);
    rig.memory.reclaim();
    assert_eq!(rig.memory.statistics().calls.destroy_object, 0);
    rig.gpu.open_gate(1).expect("the device is not lost");
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
}

pub fn bad_transient_requests_are_typed_errors_and_change_nothing<G: Gpu>(rig: &mut Rig<G>) {
    let (mut transient, mut other) = (transient(rig, small_heaps()), transient(rig, small_heaps()));
    let foreign = other.begin().pass(rig.timeline().id(), &[]).unwrap();
    let mut execution = transient.begin();
    let pass = execution.pass(rig.timeline().id(), &[]).unwrap();
    let unknown = Err(TransientError::UnknownPass { pass: foreign });
    assert_eq!(execution.pass(rig.timeline().id(), &[foreign]), unknown);
    assert_eq!(try_acquire(&mut execution, &target(64), foreign).map(|_| foreign), unknown);
    let size = rig.memory.device().capabilities().memory_object_bytes_max.saturating_add(1);
    let huge = BufferDesc { size, usage: BufferUsage::COPY_DST };
    let refused = execution.acquire_buffer(&huge, pass, "huge");
    assert!(matches!(refused, Err(TransientError::Memory(_))), "{refused:?}");
    execution.finish(&[]);
    assert_eq!(transient.figures().object_count, 0);
    assert_eq!(rig.memory.statistics().calls.create_object, 0);
    transient.validate().expect("sound");
}

/// A graph of passes that draw targets and read them. Tests execute it on the device.
struct Graph {
    passes: Vec<GraphPass>,
    /// Side of each target, in texels.
    sides: Vec<u32>,
}

#[derive(Clone)]
struct GraphPass {
    queue: usize,
    waits: Vec<usize>,
    draws: Vec<usize>,
    reads: Vec<usize>,
}

impl Graph {
    /// Returns random passes on random queues. A pass may wait for other passes, draws up to two targets, and reads
    /// targets of passes that are ordered before it.
    fn random(seed: u64, queue_count: usize) -> Self {
        let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as usize % limit
        };
        let mut graph = Self { passes: Vec::new(), sides: Vec::new() };
        // For each pass, the passes that are ordered before it.
        let mut before: Vec<Vec<bool>> = Vec::new();
        for number in 0..14 {
            let queue = below(queue_count);
            let waits: Vec<_> =
                (0..number).filter(|_| below(5) == 0).filter(|at| graph.passes[*at].queue != queue).collect();
            let last = (0..number).rev().find(|at| graph.passes[*at].queue == queue);
            let mut past = vec![false; number];
            for at in waits.iter().copied().chain(last) {
                past[at] = true;
                before[at].iter().enumerate().filter(|(_, held)| **held).for_each(|(older, _)| past[older] = true);
            }
            let seen = |target: &usize| {
                graph.passes.iter().zip(&past).any(|(pass, held)| *held && pass.draws.contains(target))
            };
            let reads = (0..graph.sides.len()).filter(seen).filter(|_| below(6) == 0).collect();
            let draws = (0..below(3))
                .map(|_| {
                    graph.sides.push([32, 64, 96, 128, 192][below(5)]);
                    graph.sides.len() - 1
                })
                .collect();
            before.push(past);
            graph.passes.push(GraphPass { queue, waits, draws, reads });
        }
        graph
    }

    /// Returns the passes that read a target. If no pass reads it, returns the pass that draws it.
    fn last_uses(&self, target: usize) -> Vec<usize> {
        let uses: Vec<_> = (0..self.passes.len()).filter(|at| self.passes[*at].reads.contains(&target)).collect();
        let draws = |at: &usize| self.passes[*at].draws.contains(&target);
        if uses.is_empty() { (0..self.passes.len()).find(draws).into_iter().collect() } else { uses }
    }

    /// Runs frames without waits between them, one submission per pass. Copies draw the targets; reads are compared.
    fn run<G: Gpu>(
        &self,
        rig: &mut Rig<G>,
        transient: &mut TransientAllocator<G::Device>,
        way: Way,
        seeds: Range<u64>,
    ) {
        let longest = self.sides.iter().copied().max().unwrap_or(1);
        let slot = rig.region(longest, longest, 0).row_bytes * u64::from(longest);
        let reads: usize = self.passes.iter().map(|pass| pass.reads.len()).sum();
        let mut frames = Vec::new();
        for seed in seeds {
            let bytes = pattern(seed, (slot + 4096) as usize);
            let mut upload = rig.buffer(bytes.len() as u64, Location::Upload, "what is drawn");
            upload.write(0, &bytes).expect("upload memory is mapped");
            let back = rig.buffer(slot * reads.max(1) as u64, Location::Readback, "what was read");
            let frame = FrameBuffers { upload: &upload, back: &back, slot };
            let expected = match way {
                Way::AsItGoes => frame.play(self, rig, transient),
                Way::Planned => frame.play_planned(self, rig, transient),
            };
            transient.validate().expect("sound");
            frames.push((seed, bytes, back, expected, upload));
        }
        rig.gpu.wait_idle().expect("the device is not lost");
        for (seed, bytes, back, expected, _) in frames {
            let mut read = vec![0; (slot * reads.max(1) as u64) as usize];
            back.read(0, &mut read).expect("readback memory is mapped");
            for (number, target) in expected.into_iter().enumerate() {
                let side = self.sides[target];
                let row_bytes = rig.region(side, side, 0).row_bytes as usize;
                let (from, to) = (first_byte(target) as usize, slot as usize * number);
                for line in 0..side as usize {
                    let at = line * row_bytes;
                    let width = side as usize * 4;
                    let (want, have) = (&bytes[from + at..][..width], &read[to + at..][..width]);
                    assert!(want == have, "frame {seed}: line {line} of target {target}, read number {number}");
                }
            }
        }
    }
}

/// Placement of a frame's targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    AsItGoes,
    Planned,
}

/// Returns the offset of a target's texels in the upload buffer, in bytes. Neighbouring targets have different texels.
fn first_byte(target: usize) -> u64 {
    target as u64 % 8 * 512
}

struct FrameBuffers<'a, D: Device> {
    upload: &'a Buffer<D>,
    back: &'a Buffer<D>,
    /// Space for one read in the readback buffer, in bytes.
    slot: u64,
}

impl<D: Device> FrameBuffers<'_, D> {
    /// Returns the commands of a pass: they draw its targets and read others. Appends the targets that are read to
    /// `reads`.
    fn commands<G: Gpu<Device = D>>(
        &self,
        graph: &Graph,
        rig: &Rig<G>,
        pass: &GraphPass,
        texture: impl Fn(usize) -> RawTexture<D>,
        reads: &mut Vec<usize>,
    ) -> Vec<Command<D>> {
        let mut commands = Vec::new();
        for &target in &pass.draws {
            let side = graph.sides[target];
            let region = rig.region(side, side, first_byte(target));
            let (src, dst) = (self.upload.object().clone(), texture(target));
            commands.push(Command::CopyBufferToTexture { src, dst, region, discard: true });
        }
        for &target in &pass.reads {
            let side = graph.sides[target];
            let region = rig.region(side, side, self.slot * reads.len() as u64);
            let (src, dst) = (texture(target), self.back.object().clone());
            commands.push(Command::CopyTextureToBuffer { src, dst, region });
            reads.push(target);
        }
        commands
    }

    /// Submits a pass as a frame of its queue, and appends the frame's sync point to `ends`.
    fn submit<G: Gpu<Device = D>>(
        graph: &Graph,
        rig: &mut Rig<G>,
        pass: &GraphPass,
        frame: Frame,
        commands: &[Command<D>],
        ends: &mut Vec<SyncPoint>,
    ) {
        let waits: Vec<_> = pass.waits.iter().map(|at| (graph.passes[*at].queue, ends[*at].value)).collect();
        let point = frame.point();
        rig.gpu.submit(pass.queue, &waits, commands, point.value).expect("the device is not lost");
        rig.timelines[pass.queue].submitted(frame).expect("in order");
        ends.push(point);
    }

    /// Submits all passes. Acquires and discards their targets on the way. Returns the target of each read.
    fn play<G: Gpu<Device = D>>(
        &self,
        graph: &Graph,
        rig: &mut Rig<G>,
        transient: &mut TransientAllocator<D>,
    ) -> Vec<usize> {
        let mut execution = transient.begin();
        let (mut passes, mut ends, mut expected) = (Vec::<Pass>::new(), Vec::new(), Vec::new());
        let mut held: Vec<Option<TransientTexture>> = vec![None; graph.sides.len()];
        for (number, pass) in graph.passes.iter().enumerate() {
            let frame = rig.timelines[pass.queue].begin();
            let waits: Vec<_> = pass.waits.iter().map(|at| passes[*at]).collect();
            let this = execution.pass(rig.timelines[pass.queue].id(), &waits).unwrap();
            passes.push(this);
            for &target in &pass.draws {
                held[target] = Some(acquire(&mut execution, graph.sides[target], this));
            }
            let texture = |target: usize| execution.texture(held[target].expect("drawn before")).unwrap().clone();
            let commands = self.commands(graph, rig, pass, texture, &mut expected);
            // A target is discarded in its last pass, with all passes of other queues that use it.
            for (target, texture) in held.iter().enumerate() {
                let last = graph.last_uses(target);
                if let Some(texture) = texture
                    && last.last() == Some(&number)
                {
                    let last: Vec<_> = last.iter().map(|at| passes[*at]).collect();
                    execution.discard(*texture, &last).unwrap();
                }
            }
            execution.validate().expect("sound");
            Self::submit(graph, rig, pass, frame, &commands, &mut ends);
        }
        let ends: ringfence::lifetime::SyncSet = ends.into_iter().collect();
        assert_eq!(execution.finish(&ends.iter().collect::<Vec<_>>()), 0);
        transient.end_frame();
        expected
    }

    /// Submits all passes, as [`FrameBuffers::play`] does, but plans all targets before the first pass.
    fn play_planned<G: Gpu<Device = D>>(
        &self,
        graph: &Graph,
        rig: &mut Rig<G>,
        transient: &mut TransientAllocator<D>,
    ) -> Vec<usize> {
        let shape = GraphShape::of(graph, rig);
        let execution = shape.plan(transient).expect("there is room");
        let (mut ends, mut expected) = (Vec::new(), Vec::new());
        for pass in &graph.passes {
            let frame = rig.timelines[pass.queue].begin();
            let texture = |target: usize| {
                let handle = execution.planned(target).expect("planned");
                execution.texture(handle).unwrap().clone()
            };
            let commands = self.commands(graph, rig, pass, texture, &mut expected);
            Self::submit(graph, rig, pass, frame, &commands, &mut ends);
        }
        let ends: ringfence::lifetime::SyncSet = ends.into_iter().collect();
        assert_eq!(execution.finish(&ends.iter().collect::<Vec<_>>()), 0);
        transient.end_frame();
        expected
    }
}

/// A graph, in the form of a planned frame.
struct GraphShape<D: Device> {
    queues: Vec<TimelineId>,
    waits: Vec<Vec<usize>>,
    infos: Vec<TextureInfo<'static, D>>,
    uses: Vec<(usize, Vec<usize>)>,
}

impl<D: Device> GraphShape<D> {
    fn of<G: Gpu<Device = D>>(graph: &Graph, rig: &Rig<G>) -> Self {
        let describe = |side: &u32| Create::<Textures>::describe(rig.memory.device(), &target(*side)).expect("plain");
        let first = |target| graph.passes.iter().position(|pass| pass.draws.contains(&target)).expect("drawn");
        Self {
            queues: graph.passes.iter().map(|pass| rig.timelines[pass.queue].id()).collect(),
            waits: graph.passes.iter().map(|pass| pass.waits.clone()).collect(),
            infos: graph.sides.iter().map(describe).collect(),
            uses: (0..graph.sides.len()).map(|target| (first(target), graph.last_uses(target))).collect(),
        }
    }

    fn plan<'t>(&self, transient: &'t mut TransientAllocator<D>) -> Result<Execution<'t, D>, TransientError> {
        let passes = self.queues.iter().zip(&self.waits);
        let passes: Vec<_> = passes.map(|(queue, waits)| FramePass { waits, ..FramePass::on(*queue) }).collect();
        let resources = self.infos.iter().zip(&self.uses);
        let resources: Vec<_> = resources
            .map(|(info, (first, last))| FrameResource {
                info: Described::Texture(info),
                first: *first,
                last,
                name: "",
            })
            .collect();
        let mut steps = 0;
        transient.plan(&passes, &resources, |progress| {
            steps += progress.steps;
            steps < 10_000
        })
    }
}
