//! Scenarios of uploads and readbacks: rings that wait or grow, writers, texels, results, and constants.

use ringfence::device::{BufferUsage, TextureDesc, TextureUsage};
use ringfence::placement::FastConstantsDesc;
use ringfence::upload::{
    ConstantsDesc, ReadbackDesc, Staged, SubmitError, TexelTarget, Texels, TransferQueue, UploadDesc, WhenFull,
};
use ringfence::{AllocationDesc, ConstantBuffers, FastConstants, Location, ReadbackRing, UploadBatch, UploadRing};
use ringfence_testkit::{Command, Gpu};

use crate::faults::KIB;
use ringfence_testkit::faults::{Failure, FaultyBuffer, FaultyDevice, Outcome, Stage, pattern};
use ringfence_testkit::rig::PATIENCE;

fn ring<G: Gpu>(stage: &Stage<G>, capacity: u64, when_full: WhenFull) -> Result<UploadRing<FaultyDevice<G>>, Failure> {
    let desc = UploadDesc { capacity, when_full, name: "ring", ..Default::default() };
    stage.trial().run(|| UploadRing::new(&stage.memory, desc))
}

fn copy_staged<G: Gpu>(staged: &Staged<FaultyDevice<G>>, to: &FaultyBuffer<G>, at: u64) -> Command<FaultyDevice<G>> {
    Command::CopyBuffer {
        src: staged.buffer.clone(),
        src_offset: staged.offset,
        dst: to.object().clone(),
        dst_offset: at,
        size: staged.size,
    }
}

/// Six frames use a ring that has space for two, so writes poll and wait.
pub fn ring_that_waits<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let ring = ring(stage, 4 * KIB, WhenFull::Wait { timeout: PATIENCE })?;
    let target = stage.buffer(12 * KIB, Location::Device)?;
    let trial = stage.trial();
    let mut expected = Vec::new();
    for number in 0..6 {
        let bytes = pattern(number, 1800);
        let frame = stage.timelines[0].begin();
        let staged = trial.run(|| ring.write(&bytes, 256))?;
        stage.submit(frame, &[copy_staged::<G>(&staged, &target, number * 1800)])?;
        expected.extend(bytes);
    }
    ring.validate().expect("sound");
    stage.expect(&target, &expected)
}

/// A ring doubles its size, and a writer uses pages of it.
pub fn ring_that_grows<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let ring = ring(stage, 4 * KIB, WhenFull::grow(64 * KIB))?;
    let target = stage.buffer(16 * KIB, Location::Device)?;
    let trial = stage.trial();
    let mut expected = Vec::new();
    for number in 0..3 {
        let frame = stage.timelines[0].begin();
        let mut writer = trial.run(|| ring.writer(&frame))?;
        let mut batch = UploadBatch::new();
        for part in 0..3 {
            let bytes = pattern(number * 3 + part, 1500);
            let staged = trial.run(|| writer.write(&bytes, 4))?;
            batch.copy(&staged, &target, expected.len() as u64)?;
            expected.extend(bytes);
        }
        drop(writer);
        stage.submit(frame, &[Command::Upload(Box::new(batch))])?;
        stage.memory.reclaim();
    }
    ring.validate().expect("sound");
    stage.expect(&target, &expected)
}

pub fn texels<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let ring = ring(stage, 64 * KIB, WhenFull::Fail)?;
    let trial = stage.trial();
    let results =
        trial.run(|| ReadbackRing::new(&stage.memory, ReadbackDesc { capacity: 64 * KIB, ..Default::default() }))?;
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    let desc = TextureDesc { width: 17, height: 9, usage, ..Default::default() };
    let texture = stage.texture(desc, AllocationDesc::default())?;
    let bytes = pattern(3, 17 * 9 * 4);
    let frame = stage.timelines[0].begin();
    let staged = trial.run(|| ring.write_texels(&frame, &Texels::new(17, 9, 4, &bytes)))?;
    let mut batch = UploadBatch::new();
    batch.copy_texels(&staged, &texture, TexelTarget { discard: true, ..Default::default() }).expect("it fits");
    let result = trial.run(|| results.reserve_texels(&frame, 17, 9, 4))?;
    let mut region = stage.region(17, 9, result.offset());
    region.row_bytes = result.row_bytes();
    let (src, dst) = (texture.object().clone(), result.buffer().clone());
    stage.submit(frame, &[Command::Upload(Box::new(batch)), Command::CopyTextureToBuffer { src, dst, region }])?;
    trial.run(|| result.wait(PATIENCE))?;
    let mut read = vec![0; bytes.len()];
    trial.run(|| result.read(&mut read))?;
    assert!(read == bytes, "wrong texels");
    results.validate().expect("sound");
    Ok(())
}

pub fn transfer_queue<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let timeline = stage.timelines[stage.timelines.len() - 1].clone();
    let queue = stage.timelines.len() - 1;
    let mut transfer =
        TransferQueue::new(timeline.clone(), ring(stage, 16 * KIB, WhenFull::Wait { timeout: PATIENCE })?);
    let target = stage.buffer(4 * KIB, Location::Device)?;
    let trial = stage.trial();
    let bytes = pattern(8, 4 * KIB);
    for part in 0..4 {
        let at = part * 1024;
        trial.run(|| transfer.upload(&bytes[at..at + 1024], &target, at as u64))?;
    }
    let submitted = transfer
        .submit(|batch, value| stage.gpu.submit(queue, &[], &[Command::Upload(Box::new(batch.clone()))], value));
    let point = match submitted {
        Ok(point) => point.expect("something was gathered"),
        Err(SubmitError::Submit(error)) => return Err(error.into()),
        Err(other) => return Err(Failure(other.to_string())),
    };
    assert!(trial.run(|| timeline.wait(point.value, PATIENCE))?);
    stage.expect(&target, &bytes)
}

/// Creates dynamic, static and fast constants. Their pools grow.
pub fn constants<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let trial = stage.trial();
    let desc = ConstantsDesc {
        dynamic_slots: 4,
        dynamic_bytes_max: 64 * KIB,
        static_slots: 2,
        timeout: PATIENCE,
        usage: BufferUsage::CONSTANT | BufferUsage::COPY_SRC,
        ..Default::default()
    };
    let constants = trial.run(|| ConstantBuffers::new(&stage.memory, desc, ()))?;
    let target = stage.buffer(16 * KIB, Location::Device)?;
    let (mut commands, mut expected, mut statics, mut dynamics) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let frame = stage.timelines[0].begin();
    let mut writer = trial.run(|| constants.writer(&frame))?;
    for number in 0..6 {
        let bytes = pattern(number, 200);
        let mut dynamic = trial.run(|| constants.dynamic(200))?;
        dynamic.set(0, &bytes)?;
        let bound = trial.run(|| writer.bind(&dynamic))?;
        let held = trial.run(|| constants.create_static(&bytes))?;
        for (buffer, offset) in [(&bound.buffer, bound.offset), (&held.bound().buffer, held.bound().offset)] {
            commands.push(Command::CopyBuffer {
                src: buffer.clone(),
                src_offset: offset,
                dst: target.object().clone(),
                dst_offset: expected.len() as u64,
                size: 200,
            });
            expected.extend(&bytes);
        }
        statics.push(held);
        dynamics.push(dynamic);
    }
    let mut batch = UploadBatch::new();
    trial.run(|| constants.upload_statics(&mut writer, &mut batch))?;
    drop(writer);
    commands.insert(0, Command::Upload(Box::new(batch)));
    stage.submit(frame, &commands)?;
    stage.memory.reclaim();
    drop((dynamics, statics, constants));
    stage.expect(&target, &expected)
}

pub fn fast_constants<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let usage = BufferUsage::CONSTANT | BufferUsage::COPY_SRC;
    let fast =
        FastConstants::new(&stage.memory, FastConstantsDesc { usage, page_bytes: 4 * KIB, ..Default::default() });
    let target = stage.buffer(8 * KIB, Location::Device)?;
    let trial = stage.trial();
    let mut expected = Vec::new();
    for number in 0..2 {
        let frame = stage.timelines[0].begin();
        let mut writer = trial.run(|| fast.writer(&frame))?;
        let mut commands = Vec::new();
        for part in 0..10 {
            let bytes = pattern(number * 10 + part, 400);
            let staged = trial.run(|| writer.write(&bytes))?;
            commands.push(copy_staged::<G>(&staged, &target, expected.len() as u64));
            expected.extend(bytes);
        }
        drop(writer);
        stage.submit(frame, &commands)?;
        stage.memory.reclaim();
    }
    stage.expect(&target, &expected)
}
