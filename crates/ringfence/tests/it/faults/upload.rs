//! Uploads: rings that wait and grow, constants, batches with texels, results, a copy queue.

use std::time::Duration;

use ringfence::device::{BufferUsage, TextureDesc, TextureUsage};
use ringfence::upload::{
    ConstantsDesc, ReadbackDesc, SubmitError, TexelTarget, Texels, TransferQueue, UploadDesc, UploadError, WhenFull,
};
use ringfence::{AllocationDesc, ConstantBuffers, Location, ReadbackRing, Texture, UploadBatch, UploadRing};

use ringfence_testkit::faults::pattern;

use super::{Command, Device, KIB, World, copy, every_call_fails_once};
use ringfence_testkit::Gpu;
use ringfence_testkit::faults::Outcome;

const WAIT: WhenFull = WhenFull::Wait { timeout: Duration::MAX };

fn texture(world: &World, side: u32) -> Texture<Device> {
    let usage = TextureUsage::COPY_DST | TextureUsage::COPY_SRC | TextureUsage::SAMPLED;
    let info = TextureDesc { width: side, height: side, usage, ..Default::default() };
    world.step(|| world.memory.create_texture(&info, AllocationDesc::default()))
}

/// Returns the copies of a batch as a command, and leaves the batch empty.
fn played(batch: &mut UploadBatch<Device>) -> Command {
    Command::Upload(Box::new(std::mem::take(batch)))
}

/// Runs frames through a ring, with writers and single writes, and checks every byte.
fn frames(world: &mut World, when_full: WhenFull) -> Outcome {
    let desc = UploadDesc { capacity: 4 * KIB, page_bytes: KIB, when_full, ..Default::default() };
    let ring = world.step(|| UploadRing::new(&world.memory, desc));
    let target = world.buffer(4 * KIB, Location::Device)?;
    let mut writer = None;
    for number in 0..6 {
        let bytes = pattern(number, 3 * KIB);
        let frame = world.timelines[0].begin();
        let writer = writer.get_or_insert_with(|| ring.writer(&frame).expect("the frame is the allocator's own"));
        writer.begin(&frame).expect("the frame is the allocator's own");
        let mut batch = UploadBatch::new();
        for at in (0..2 * KIB).step_by(256) {
            let staged = world.step(|| writer.write(&bytes[at as usize..][..256], 4));
            batch.copy(&staged, &target, at).expect("it fits");
        }
        let staged = world.step(|| ring.write_for(&frame, &bytes[2048..], 256));
        batch.copy(&staged, &target, 2 * KIB).expect("it fits");
        world.submit(frame, &[played(&mut batch)])?;
        ring.validate().expect("the ring is sound");
        if number % 3 == 2 {
            world.expect_at((*target.object(), 0), &bytes)?;
            world.memory.reclaim();
        }
    }
    Ok(())
}

#[test]
fn a_ring_that_waits() {
    every_call_fails_once(|world| frames(world, WAIT));
}

#[test]
fn a_ring_that_grows_and_shrinks() {
    every_call_fails_once(|world| {
        frames(world, WhenFull::Grow { capacity_max: 64 * KIB, timeout: Duration::MAX, shrink_after: 2 })?;
        (0..6).for_each(|_| _ = world.memory.reclaim());
        Ok(())
    });
}

#[test]
fn constants_that_change_grow_are_updated_and_promoted() {
    every_call_fails_once(|world| {
        let desc = ConstantsDesc {
            dynamic_slots: 4,
            static_slots: 2,
            dynamic_bytes_max: 64 * KIB,
            timeout: Duration::MAX,
            promote_reads: Some(3),
            usage: BufferUsage::CONSTANT | BufferUsage::COPY_SRC,
            ..Default::default()
        };
        let constants = world.step(|| ConstantBuffers::new(&world.memory, desc, ()));
        let target = world.buffer(32 * KIB, Location::Device)?;
        let mut dynamics: Vec<_> = (0..6).map(|_| constants.dynamic(200).expect("served")).collect();
        let mut fixed: Vec<_> =
            (0..3).map(|number| world.step(|| constants.create_static(&pattern(number, 300)))).collect();
        fixed.push(world.step(|| constants.create_static(&pattern(9, 3000))));
        for number in 0..3_u64 {
            let frame = world.timelines[0].begin();
            let mut writer = constants.writer(&frame).expect("the frame is the allocator's own");
            let (mut commands, mut expected) = (Vec::new(), Vec::new());
            let mut out = |buffer, offset, bytes: &[u8]| {
                let to = (*target.object(), expected.len() as u64);
                expected.extend_from_slice(bytes);
                copy((buffer, offset), to, bytes.len() as u64)
            };
            for (held, seed) in dynamics.iter_mut().zip(0..) {
                let bytes = pattern(number * 10 + seed, 200);
                held.set(0, &bytes).expect("it fits");
                for _ in 0..4 {
                    let bound = world.step(|| writer.bind(held));
                    commands.push(out(bound.buffer, bound.offset, &bytes));
                }
            }
            fixed[0].update(&pattern(number + 100, 300)).expect("it fits");
            let mut batch = UploadBatch::new();
            world.step(|| constants.upload_statics(&mut writer, &mut batch));
            let first = fixed[0].bound();
            commands.push(out(first.buffer, first.offset, &pattern(number + 100, 300)));
            let large = fixed[3].bound();
            commands.push(out(large.buffer, large.offset, &pattern(9, 3000)));
            commands.splice(0..0, [played(&mut batch), played(writer.promoted())]);
            drop(writer);
            world.submit(frame, &commands)?;
            world.expect_at((*target.object(), 0), &expected)?;
            world.memory.reclaim();
        }
        Ok(())
    });
}

#[test]
fn batches_of_texels_and_results_on_their_way_back() {
    every_call_fails_once(|world| {
        let desc = UploadDesc { capacity: 64 * KIB, when_full: WAIT, ..Default::default() };
        let ring = world.step(|| UploadRing::new(&world.memory, desc));
        let results =
            world.step(|| ReadbackRing::new(&world.memory, ReadbackDesc { capacity: 32 * KIB, ..Default::default() }));
        let (to, texture) = (world.buffer(KIB, Location::Device)?, texture(world, 24));
        let (bytes, texels) = (pattern(1, KIB), pattern(2, 24 * 24 * 4));
        for _ in 0..2 {
            let frame = world.timelines[0].begin();
            let mut writer = ring.writer(&frame).expect("the frame is the allocator's own");
            let mut batch = UploadBatch::new();
            let staged = world.step(|| writer.write(&bytes, 4));
            batch.copy(&staged, &to, 0).expect("it fits");
            let region = Texels::new(24, 24, 4, &texels);
            let staged = world.step(|| writer.write_texels(&region));
            let target = TexelTarget { discard: true, ..Default::default() };
            batch.copy_texels(&staged, &texture, target).expect("it fits");
            let plain = world.step(|| results.reserve(&frame, KIB, 4));
            let square = world.step(|| results.reserve_texels(&frame, 24, 24, 4));
            let mut region = world.region(24, 24, square.offset());
            region.row_bytes = square.row_bytes();
            let (src, dst) = (*texture.object(), *square.buffer());
            let commands = [
                played(&mut batch),
                copy((*to.object(), 0), (*plain.buffer(), plain.offset()), KIB),
                Command::CopyTextureToBuffer { src, dst, region },
            ];
            drop(writer);
            world.submit(frame, &commands)?;
            world.step(|| plain.wait(Duration::MAX));
            let (mut read, mut read_texels) = (vec![0; KIB as usize], vec![0; texels.len()]);
            world.step(|| plain.read(&mut read));
            world.step(|| square.read(&mut read_texels));
            assert!(read == bytes && read_texels == texels, "wrong bytes");
            drop((plain, square));
            world.memory.reclaim();
            results.validate().expect("the ring is sound");
        }
        Ok(())
    });
}

#[test]
fn a_copy_queue_whose_submission_fails_too() {
    every_call_fails_once(|world| {
        let desc = UploadDesc { capacity: 8 * KIB, when_full: WAIT, ..Default::default() };
        let ring = world.step(|| UploadRing::new(&world.memory, desc));
        let mut transfer = TransferQueue::new(world.timelines[1].clone(), ring);
        for number in 0..4 {
            let (to, back) = (world.buffer(4 * KIB, Location::Device)?, world.buffer(4 * KIB, Location::Readback)?);
            let bytes = pattern(number, 4 * KIB);
            for at in (0..4 * KIB).step_by(KIB as usize) {
                world.step(|| transfer.upload(&bytes[at as usize..][..KIB as usize], &to, at));
            }
            let busy = transfer.submit(|_, _| Err("busy"));
            assert!(matches!(busy, Err(SubmitError::Submit("busy"))), "{busy:?}");
            let point = transfer.submit(|batch, value| {
                world.gpu.submit(1, &[], &[played(batch)], value).expect("the device is not lost");
                Ok::<(), UploadError>(())
            });
            let point = point.expect("submitted").expect("something was gathered");
            let frame = world.timelines[0].begin();
            let value = frame.value();
            let commands = [copy((*to.object(), 0), (*back.object(), 0), 4 * KIB)];
            world.gpu.submit(0, &[(1, point.value)], &commands, value).expect("the device is not lost");
            world.timelines[0].submitted(frame).expect("in order");
            world.wait(value)?;
            let mut read = vec![0; bytes.len()];
            world.step(|| back.read(0, &mut read));
            assert!(read == bytes, "wrong bytes");
            drop((to, back));
            world.memory.reclaim();
        }
        Ok(())
    });
}
