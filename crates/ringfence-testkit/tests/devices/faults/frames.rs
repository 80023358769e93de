//! Scenarios of frames: transient resources, placement, replaced resources, and the drop of an allocator.

use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, Native, TextureDesc, TextureUsage, Textures};
use ringfence::lifetime::{BufferCopy, ReplaceError};
use ringfence::placement::{BufferRequest, Dynamism, Placement, PlacementDesc};
use ringfence::transient::{Described, FramePass, FrameResource, TransientDesc, TransientError};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Location, TransientAllocator};
use ringfence_testkit::{Command, Gpu};

use crate::faults::{COPIED, KIB, MIB};
use ringfence_testkit::faults::{Outcome, Stage, copy, pattern};
use ringfence_testkit::rig::PATIENCE;

fn small_heaps() -> TransientDesc<'static> {
    TransientDesc { heap_bytes: MIB, objects_kept: 0, latency_frames: 0, heap_idle_frames: 0, ..Default::default() }
}

fn target(side: u32) -> TextureDesc {
    let usage = TextureUsage::RENDER_TARGET | TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    TextureDesc { width: side, height: side, usage, ..Default::default() }
}

pub fn transient<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let mut transient = TransientAllocator::new(&stage.memory, small_heaps());
    let trial = stage.trial();
    let bytes = pattern(1, 4 * KIB);
    let upload = stage.filled(&bytes)?;
    for _ in 0..3 {
        let back = stage.buffer(4 * KIB, Location::Readback)?;
        let frame = stage.timelines[0].begin();
        let point = frame.point();
        let mut execution = transient.begin();
        let pass = execution.pass(stage.timelines[0].id(), &[])?;
        let held = trial.run(|| -> Result<_, TransientError> {
            let device = stage.memory.device();
            let info = Create::<Buffers>::describe(device, &BufferDesc { size: 4 * KIB, usage: COPIED })?;
            execution.acquire_buffer(&Native(&info), pass, "transient")
        })?;
        let drawn = trial.run(|| -> Result<_, TransientError> {
            let info = Create::<Textures>::describe(stage.memory.device(), &target(64))?;
            execution.acquire_texture(&Native(&info), pass, "transient")
        })?;
        execution.discard(drawn, &[])?;
        let object = execution.buffer(held)?.clone();
        execution.finish(&[point]);
        let (src, dst) = (upload.object().clone(), back.object().clone());
        stage.submit(
            frame,
            &[
                Command::CopyBuffer { src, src_offset: 0, dst: object.clone(), dst_offset: 0, size: 4 * KIB },
                Command::CopyBuffer { src: object, src_offset: 0, dst, dst_offset: 0, size: 4 * KIB },
            ],
        )?;
        transient.end_frame();
        transient.validate().expect("sound");
        stage.memory.reclaim();
        stage.wait(point.value)?;
        stage.expect_back(&back, &bytes)?;
    }
    transient.begin().finish(&[]);
    transient.end_frame();
    transient.trim();
    transient.validate().expect("sound");
    Ok(())
}

pub fn planned_frames<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let mut transient = TransientAllocator::new(&stage.memory, small_heaps());
    let trial = stage.trial();
    let queue = stage.timelines[0].id();
    for side in [64, 64, 96] {
        let frame = stage.timelines[0].begin();
        let point = frame.point();
        let info = trial.run(|| Create::<Textures>::describe(stage.memory.device(), &target(side)))?;
        let passes = [FramePass::on(queue), FramePass::on(queue), FramePass::on(queue)];
        let uses: [(usize, &[usize]); 3] = [(0, &[1]), (1, &[2]), (2, &[])];
        let resources =
            uses.map(|(first, last)| FrameResource { info: Described::Texture(&info), first, last, name: "" });
        trial.run(|| transient.plan(&passes, &resources, |_| false).map(|execution| _ = execution.finish(&[point])))?;
        stage.submit(frame, &[])?;
        transient.end_frame();
        transient.validate().expect("sound");
        stage.memory.reclaim();
    }
    Ok(())
}

pub fn placement<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let trial = stage.trial();
    let desc = PlacementDesc { fast_page_bytes: 4 * KIB, ..Default::default() };
    let placement = trial.run(|| Placement::new(&stage.memory, desc))?;
    let request = |size, usage, dynamism| BufferRequest { size, usage, dynamism, ..Default::default() };
    let bytes = pattern(6, KIB);
    let mut from = trial.run(|| placement.create_buffer(&request(KIB, BufferUsage::COPY_SRC, Dynamism::Dynamic)))?;
    trial.run(|| from.write(0, &bytes))?;
    let big = trial.run(|| placement.create_buffer(&request(100 * KIB, BufferUsage::COPY_SRC, Dynamism::Dynamic)))?;
    let to = trial.run(|| placement.create_buffer(&request(KIB, COPIED, Dynamism::Static)))?;
    let written =
        trial.run(|| placement.create_buffer(&request(KIB, BufferUsage::STORAGE | COPIED, Dynamism::Static)))?;
    let texture = trial.run(|| placement.create_texture(&target(64), "target"))?;
    let aliased = trial.run(|| placement.aliased_heap(&target(64), MIB, "in turns"))?;
    let one = trial.run(|| aliased.create_texture(&target(64), 0, "one"))?;
    let (back, _) =
        trial.run(|| placement.create_readback_texture(&TextureDesc { width: 256, ..Default::default() }, "back"))?;
    let frame = stage.timelines[0].begin();
    let mut fast = trial.run(|| placement.fast_constants().writer(&frame))?;
    trial.run(|| fast.write(&bytes))?;
    let copies = [(&from, &to), (&to, &written), (&written, &back)].map(|(from, to)| Command::CopyBuffer {
        src: from.object().clone(),
        src_offset: from.offset(),
        dst: to.object().clone(),
        dst_offset: to.offset(),
        size: KIB,
    });
    let value = stage.submit(frame, &copies)?;
    stage.wait(value)?;
    let mut read = vec![0; bytes.len()];
    trial.run(|| back.read(0, &mut read))?;
    assert!(read == bytes, "wrong bytes");
    drop((from, big, to, texture, aliased));
    placement.end_frame();
    // The policy is dropped before its resources.
    drop(placement);
    drop((written, one, back, fast));
    stage.memory.reclaim();
    Ok(())
}

pub fn replaced_and_resized<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let trial = stage.trial();
    let bytes = pattern(7, KIB);
    let upload = stage.filled(&bytes)?;
    let mut held = stage.buffer(KIB, Location::Device)?;
    stage.run(&[copy::<G>(&upload, &held, KIB)])?;
    let frame = stage.timelines[0].begin();
    let moved = trial.run(|| -> Result<_, ReplaceError> {
        let info = Create::<Buffers>::describe(stage.memory.device(), &BufferDesc { size: 9 * KIB, usage: COPIED })
            .map_err(ringfence::memory::Error::from)?;
        held.resize(&frame, &Native(&info), KIB, AllocationDesc::default())
    })?;
    let BufferCopy { src, src_offset, dst, dst_offset, size } = moved.expect("there are bytes");
    stage.submit(frame, &[Command::CopyBuffer { src, src_offset, dst, dst_offset, size }])?;
    stage.memory.reclaim();
    stage.expect(&held, &bytes)?;
    trial.run(|| -> Result<_, ringfence::memory::Error> {
        let info = Create::<Buffers>::describe(stage.memory.device(), &BufferDesc { size: 2 * KIB, usage: COPIED })?;
        held.replace(&Native(&info), AllocationDesc::default())
    })?;
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    let chain = |side: u32, mips| TextureDesc { width: side, height: side, mips, usage, ..Default::default() };
    let mut texture = stage.texture(chain(16, 2), AllocationDesc::default())?;
    let frame = stage.timelines[0].begin();
    trial.run(|| texture.swap_mips(&frame, &chain(32, 3), AllocationDesc::default()))?;
    stage.submit(frame, &[])?;
    Ok(())
}

/// Drops a separate allocator while the device works. The drop waits for the device and leaves no objects.
pub fn teardown<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let trial = stage.trial();
    stage.gpu.wait_idle()?;
    let memory = Allocator::over(stage.gpu.device(), AllocatorDesc::default());
    let fence = stage.gpu.fence(0);
    // SAFETY: the fence outlives the allocator, and the frame below is signalled.
    let timeline = trial.run(|| unsafe { memory.timeline(fence.clone()) })?;
    let make = |location| {
        trial.run(|| -> Result<_, ringfence::memory::Error> {
            let info = Create::<Buffers>::describe(memory.device(), &BufferDesc { size: KIB, usage: COPIED })?;
            memory.create_buffer(&Native(&info), AllocationDesc { location, ..Default::default() })
        })
    };
    let (from, to, kept) = (make(Location::Upload)?, make(Location::Device)?, make(Location::Upload)?);
    // The stage uses the same fence, so one value completes both frames.
    let (mine, theirs) = (timeline.begin(), stage.timelines[0].begin());
    assert!(mine.value() <= theirs.value());
    let copied = [copy::<G>(&from, &to, KIB)];
    stage.submit(theirs, &copied)?;
    timeline.submitted(mine)?;
    drop((from, to));
    memory.reclaim();
    drop((memory, timeline));
    drop(kept);
    Ok(())
}

/// If the value of a fence cannot be read, the library assumes that no work has completed.
pub fn progress<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let trial = stage.trial();
    for _ in 0..3 {
        let held = stage.buffer(KIB, Location::Device)?;
        let frame = stage.timelines[0].begin();
        let value = frame.value();
        let dst = held.object().clone();
        stage.submit(frame, &[Command::FillBuffer { dst, offset: 0, size: KIB, value: 7 }])?;
        drop(held);
        stage.memory.reclaim();
        trial.run(|| stage.timelines[0].completed())?;
        stage.wait(value)?;
        trial.run(|| stage.memory.shutdown(PATIENCE))?;
        assert_eq!(stage.memory.statistics().retired_count, 0);
    }
    Ok(())
}
