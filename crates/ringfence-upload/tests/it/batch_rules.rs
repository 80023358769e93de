//! Batches with several destinations, aspects and submissions, and transfer queues whose submission failed.

use ringfence::debugging::DebugDesc;
use ringfence::device::{BufferDesc, BufferUsage, Format, TextureDesc, TextureUsage};
use ringfence::sim::{BufferRange, Command, Device};
use ringfence::upload::{ChainOrder, Staged, TransferError, TransferQueue, UploadDesc, UploadError, WhenFull};
use ringfence::{AllocationDesc, AllocatorDesc, Buffer, UploadBatch, UploadRing};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

fn world() -> Fixture {
    let allocator = AllocatorDesc { debug: DebugDesc::everything(), ..Default::default() };
    Fixture::new(FixtureDesc { allocator, ..Default::default() })
}

fn ring(world: &Fixture, capacity: u64) -> UploadRing<Device> {
    let desc = UploadDesc { capacity, when_full: WhenFull::Fail, ..Default::default() };
    UploadRing::new(&world.memory, desc).expect("there is room")
}

fn buffer(world: &Fixture) -> Buffer<Device> {
    let desc = BufferDesc { size: 256, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
    world.memory.create_buffer(&desc, AllocationDesc::default()).expect("there is room")
}

fn recorded(batch: &mut UploadBatch<Device>) -> Vec<Command> {
    let mut commands = Vec::new();
    // SAFETY: the commands are submitted as the frame of the batch, or never.
    unsafe { batch.record(&mut commands) }.expect("its frame is open");
    commands
}

fn peek(world: &Fixture, buffer: &Buffer<Device>) -> Vec<u8> {
    world.device.peek(BufferRange::new(*buffer.object(), 0, buffer.size())).expect("the buffer is alive")
}

/// Copies from a ring are for the frame of the write, those from a buffer of the program for the open frames. Each
/// destination whose copies end with a discarded frame has lost its contents, each other one has not.
#[test]
fn each_destination_of_a_discarded_frame_has_lost_its_contents() {
    // The destinations of the first and of the second frame, and those that are lost if the second frame is discarded.
    let cases: [(&[usize], &[usize], [bool; 3]); 6] = [
        (&[], &[0], [true, false, false]),
        (&[], &[0, 1, 2], [true; 3]),
        (&[], &[0, 0, 1, 0], [true, true, false]),
        (&[0, 1, 2], &[0], [true, false, false]),
        (&[0, 1], &[2, 1], [false, true, true]),
        (&[0, 1], &[1, 1, 0], [true, true, false]),
    ];
    for own_source in [false, true] {
        for (first, second, lost) in cases {
            let world = world();
            let (ring, source, to) = (ring(&world, 4096), buffer(&world), [(); 3].map(|()| buffer(&world)));
            let mut batch = UploadBatch::new();
            let add = |batch: &mut UploadBatch<Device>, frame: &ringfence::Frame, targets: &[usize]| {
                for (nth, target) in targets.iter().enumerate() {
                    let staged = match own_source {
                        true => Staged::of(&source, 0, 16).expect("inside"),
                        false => ring.write_for(frame, &[1; 16], 4).expect("there is room"),
                    };
                    batch.copy(&staged, &to[*target], 16 * nth as u64).expect("it fits");
                }
            };
            let frame = world.timeline().begin();
            add(&mut batch, &frame, first);
            let commands = recorded(&mut batch);
            world.submit_frame(frame, commands);
            assert!(world.device.run_until_idle());
            // The batch keeps its copies, so that it can be recorded again.
            batch.clear();
            let frame = world.timeline().begin();
            add(&mut batch, &frame, second);
            drop(recorded(&mut batch));
            frame.discard();
            drop(batch);
            world.memory.reclaim();
            let seen = to.each_ref().map(|buffer| buffer.take_content_lost());
            assert_eq!(seen, lost, "{first:?}, {second:?}, {own_source}");
            assert_eq!(world.memory.debug().take_findings().len(), lost.iter().filter(|lost| **lost).count());
            drop((ring, source, to));
            world.memory.reclaim();
            world.finish();
        }
    }
}

/// A copy that is added after the batch was recorded belongs to the next recording, also if the destination is one of the
/// first.
#[test]
fn a_copy_after_a_recording_is_lost_with_the_next_frame() {
    for (target, is_recorded) in [(0, false), (1, false), (0, true), (1, true)] {
        let world = world();
        let (source, to) = (buffer(&world), [(); 2].map(|()| buffer(&world)));
        let staged = Staged::of(&source, 0, 16).expect("inside");
        let (frame, next) = (world.timeline().begin(), world.timeline().begin());
        let mut batch = UploadBatch::new();
        batch.copy(&staged, &to[0], 0).expect("it fits");
        let commands = recorded(&mut batch);
        world.submit_frame(frame, commands);
        assert!(world.device.run_until_idle());
        assert!(!to[0].take_content_lost(), "it has arrived");
        batch.copy(&staged, &to[target], 64).expect("it fits");
        if is_recorded {
            drop(recorded(&mut batch));
        }
        next.discard();
        drop(batch);
        world.memory.reclaim();
        assert!(to[target].take_content_lost(), "{target}, {is_recorded}");
        drop(world.memory.debug().take_findings());
        drop((source, to));
        world.memory.reclaim();
        world.finish();
    }
}

/// The copies of a whole texture replace all of it, so the previous contents of every part may be discarded, also if each
/// aspect has a copy of its own.
#[test]
fn a_whole_texture_discards_what_each_part_held() {
    for (format, mips, layers, parts) in
        [(Format::Rgba8Unorm, 1, 1, 1), (Format::Rgba8Unorm, 3, 2, 6), (Format::D32FloatS8Uint, 1, 1, 1)]
    {
        let world = world();
        let ring = ring(&world, 1 << 16);
        let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
        let desc = TextureDesc { width: 8, height: 8, format, mips, layers, usage, ..Default::default() };
        let texture = world.memory.create_texture(&desc, AllocationDesc::default()).expect("there is room");
        let texels: usize = (0..mips).map(|mip| (8_usize >> mip).pow(2)).sum();
        let texel_bytes = if format == Format::Rgba8Unorm { 4 } else { 5 };
        let bytes = vec![3; texels * texel_bytes * layers as usize];
        let (frame, mut batch) = (world.timeline().begin(), UploadBatch::new());
        batch.upload_texture(&ring, &frame, (&bytes, ChainOrder::default()), &texture).expect("all of its bytes");
        let targets = batch.targets().1;
        assert_eq!(targets.len(), parts, "{format:?}");
        assert!(targets.iter().all(|target| target.discard), "{format:?}: {targets:?}");
        let commands = recorded(&mut batch);
        world.submit_frame(frame, commands);
        assert!(world.device.run_until_idle());
        assert_eq!(world.hazards(), [""; 0], "{format:?}");
        drop((ring, texture, batch));
        world.memory.reclaim();
        world.finish();
    }
}

/// Ways to end uploads whose submission failed, and the staged bytes that are in use after that: a page of 512, or none.
#[test]
fn uploads_of_a_failed_submission_are_kept_until_they_end() {
    type End = fn(&mut TransferQueue<Device>);
    let cases: [(&str, bool, End, u64); 5] = [
        ("discarded", true, TransferQueue::discard, 0),
        ("abandoned, although the queue may execute them", true, TransferQueue::abandon, 512),
        ("abandoned before a submission", false, TransferQueue::abandon, 0),
        ("discarded before a submission", false, TransferQueue::discard, 0),
        ("kept", true, |_| {}, 512),
    ];
    for (name, is_tried, end, used) in cases {
        let world = world();
        let (ring, target) = (ring(&world, 4096), buffer(&world));
        let fence = world.device.create_fence(0);
        // SAFETY: the fence belongs to the device, and the submissions below signal it.
        let timeline = unsafe { world.memory.timeline(fence) }.expect("the device is not lost");
        let mut queue = TransferQueue::new(timeline, ring);
        queue.upload(&[1; 256], &target, 0).expect("there is room");
        let mut values = Vec::new();
        if is_tried {
            for _ in 0..2 {
                let failed = queue.submit(|batch, value| {
                    values.push((value, batch.figures().copy_count));
                    Err("no")
                });
                assert!(failed.is_err(), "{name}");
            }
            assert_eq!(values, [(1, 1); 2], "{name}: the same uploads and the same value");
        }
        end(&mut queue);
        world.memory.reclaim();
        assert_eq!(queue.ring().snapshot().used_bytes, used, "{name}");
        // The next uploads are submitted as usual, with those that were kept.
        queue.upload(&[2; 16], &target, 16).expect("there is room");
        let submitted = queue.submit::<()>(|batch, value| {
            let commands = recorded(batch);
            world.device.submit(0, &[], commands, (fence, value)).expect("the device is not lost");
            Ok(())
        });
        assert!(submitted.is_ok_and(|point| point.is_some()), "{name}");
        assert!(world.device.run_until_idle());
        world.memory.reclaim();
        assert_eq!(queue.ring().snapshot().used_bytes, 0, "{name}");
        let bytes = peek(&world, &target);
        assert_eq!((bytes[0] == 1, bytes[16]), (name == "kept", 2), "{name}");
        drop(world.memory.debug().take_findings());
        drop((queue, target));
        world.memory.reclaim();
        world.finish();
    }
}

/// A queue that is dropped discards its uploads, so that they delay no object that is retired later.
#[test]
fn a_dropped_queue_leaves_no_open_frame() {
    let world = world();
    // SAFETY: the fence belongs to the device, and nothing is submitted.
    let timeline = unsafe { world.memory.timeline(world.device.create_fence(0)) }.expect("the device is not lost");
    let (mut queue, target) = (TransferQueue::new(timeline, ring(&world, 4096)), buffer(&world));
    queue.upload(&[1; 16], &target, 0).expect("there is room");
    drop(queue);
    drop(world.memory.debug().take_findings());
    drop(target);
    world.memory.reclaim();
    assert_eq!(world.memory.statistics().retired_count, 0);
    world.finish();
}

/// An upload that does not fit begins no frame: an open frame would delay the release of retired objects. If a submission
/// has failed before, the frame stays, because the queue may execute its uploads.
#[test]
fn a_refused_upload_ends_a_frame_only_if_nothing_else_is_in_it() {
    let world = world();
    let (ring, target) = (ring(&world, 4096), buffer(&world));
    // SAFETY: the fence belongs to the device, and nothing is submitted.
    let timeline = unsafe { world.memory.timeline(world.device.create_fence(0)) }.expect("the device is not lost");
    let other = buffer(&world);
    let mut queue = TransferQueue::new(timeline, ring);
    let refused = queue.upload(&vec![1; 4097], &target, 0);
    assert!(matches!(refused, Err(TransferError::Upload(UploadError::TooLarge { size: 4097, .. }))), "{refused:?}");
    let retired = |buffer: Buffer<Device>| {
        drop(buffer);
        world.memory.reclaim();
        world.memory.statistics().retired_count
    };
    assert_eq!(retired(other), 0, "no frame is open");
    queue.upload(&[1; 16], &target, 0).expect("there is room");
    let refused = queue.upload(&vec![1; 4097], &target, 0);
    assert!(refused.is_err());
    let mut copies = None;
    let failed = queue.submit(|batch, _| {
        copies = Some(batch.figures().copy_count);
        // A program may empty the batch that it could not submit.
        batch.clear();
        Err("no")
    });
    assert!(failed.is_err());
    assert_eq!(copies, Some(1));
    assert!(queue.upload(&vec![1; 4097], &target, 0).is_err());
    assert_eq!(retired(buffer(&world)), 1, "the frame of the failed submission is open");
    queue.discard();
    world.memory.reclaim();
    assert_eq!(world.memory.statistics().retired_count, 0);
    drop(world.memory.debug().take_findings());
    drop((queue, target));
    world.memory.reclaim();
    world.finish();
}
