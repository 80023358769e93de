//! Scenarios of defragmentation and residency.

use ringfence::defrag::{Defrag, DefragDesc, MoveError};
use ringfence::device::transfer::TransferSupport;
use ringfence::device::{BufferDesc, Buffers, Create, Native};
use ringfence::memory::PoolDesc;
use ringfence::paging::{PageDesc, PageUses, Paging, PagingDesc};
use ringfence::residency::ResidencyError;
use ringfence::{AllocationDesc, Dedicated, Location};
use ringfence_testkit::transfers::Transfers;
use ringfence_testkit::{Command, Gpu};

use crate::faults::COPIED;
use ringfence_testkit::faults::{FaultyDevice, Outcome, Stage, copy, pattern};

const SIZE: u64 = 64 << 10;

/// Empties one of two blocks into the other. A failed move leaves its buffer unchanged.
pub fn defragmentation<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let trial = stage.trial();
    let bytes = pattern(3, SIZE);
    let upload = stage.filled(&bytes)?;
    let first = stage.buffer(SIZE, Location::Device)?;
    let desc = PoolDesc { memory_type: first.memory_type(), block_bytes: 4 * first.size(), ..Default::default() };
    let pool = trial.run(|| stage.memory.create_pool(desc))?;
    let mut held = Vec::new();
    for number in 0..6 {
        let desc = AllocationDesc { movable: true, user_data: number, ..Default::default() };
        let made = trial.run(|| -> Result<_, ringfence::memory::Error> {
            let info = Create::<Buffers>::describe(stage.memory.device(), &BufferDesc { size: SIZE, usage: COPIED })?;
            pool.create_buffer(&Native(&info), desc)
        })?;
        stage.run(&[copy::<G>(&upload, &made, SIZE)])?;
        held.push(Some(made));
    }
    held[..3].iter_mut().for_each(|buffer| *buffer = None);
    stage.memory.reclaim();
    let frame = stage.timelines[0].begin();
    let mut commands = Vec::new();
    trial.run(|| -> Result<(), MoveError> {
        let mut run = Defrag::of_pool(&pool, DefragDesc::default());
        let mut pass = run.begin_pass(&frame).expect("the frame is ours");
        for index in 0..pass.moves().len() {
            let buffer = held[pass.moves()[index].user_data as usize].as_mut().expect("it is held");
            let info = Create::<Buffers>::describe(stage.memory.device(), &BufferDesc { size: SIZE, usage: COPIED });
            let moved = pass.copy_buffer_as(buffer, &Native(&info.map_err(ringfence::memory::Error::from)?))?;
            let (src, dst) = (moved.src, moved.dst);
            commands.push(Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size: moved.size });
        }
        Ok(())
    })?;
    stage.submit(frame, &commands)?;
    for buffer in held.iter().flatten() {
        stage.expect(buffer, &bytes)?;
    }
    Ok(())
}

/// Unused memory is evicted, and becomes resident with the same bytes. If the system manages residency, no memory is
/// evicted.
pub fn residency<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let trial = stage.trial();
    // SAFETY: evictable resources are committed before they are used.
    let residency = unsafe { stage.memory.residency() };
    let residency = residency.with_evictions(u64::MAX).with_headroom(u64::MAX / 2);
    let bytes = pattern(5, SIZE);
    let upload = stage.filled(&bytes)?;
    let desc = AllocationDesc { dedicated: Dedicated::Always, evictable: true, ..Default::default() };
    let held = [stage.buffer_for(SIZE, COPIED, desc)?, stage.buffer_for(SIZE, COPIED, desc)?];
    let back = stage.buffer(SIZE, Location::Readback)?;
    let mut list = residency.list();
    for round in 0..2 {
        for buffer in &held {
            let frame = stage.timelines[0].begin();
            list.clear();
            list.add(buffer);
            trial.run(|| -> Result<_, ResidencyError> { residency.commit(&list, &frame) })?;
            let (from, to) = if round == 0 { (&upload, buffer) } else { (buffer, &back) };
            let value = stage.submit(frame, &[copy::<G>(from, to, SIZE)])?;
            stage.wait(value)?;
            if round == 1 {
                stage.expect_back(&back, &bytes)?;
            }
        }
    }
    Ok(())
}

/// Of three written resources, two have room on the device. A commit that fails is repeated with the same frame.
pub fn paging<G: Gpu>(stage: &mut Stage<G>) -> Outcome
where
    FaultyDevice<G>: TransferSupport,
{
    let trial = stage.trial();
    let limits = PagingDesc { device_bytes_max: 2 * SIZE + SIZE / 2, ..Default::default() };
    // SAFETY: every frame is committed before its submission.
    let mut paging = unsafe { Paging::new(&stage.memory, limits) };
    let desc = BufferDesc { size: SIZE, usage: COPIED };
    let mut held = Vec::new();
    for number in 0..3 {
        let bytes = pattern(number, SIZE);
        held.push(trial.run(|| paging.add_buffer(&desc, &bytes, PageDesc::default()))?);
    }
    let back = stage.buffer(SIZE, Location::Readback)?;
    for round in 0..9 {
        let number = round % 3;
        let mut uses = PageUses::new();
        uses.add_written(&held[number]);
        let (frame, mut list) = (stage.timelines[0].begin(), Transfers::default());
        // SAFETY: the list is submitted as this frame; all work is on one queue.
        trial.run(|| unsafe { paging.commit(&uses, &frame, &mut list) })?;
        let src = paging.buffer(&held[number]).expect("the commit has brought it").object().clone();
        let dst = back.object().clone();
        let read = Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size: SIZE };
        let value = stage.submit(frame, &[Command::Transfers(list), read])?;
        stage.wait(value)?;
        stage.memory.reclaim();
        stage.expect_back(&back, &pattern(number as u64, SIZE))?;
    }
    Ok(())
}
