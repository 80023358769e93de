//! Compaction that is left on: blocks become free, and every byte stays.

use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::placement::{Compactor, CompactorDesc};
use ringfence::{AllocationDesc, Buffer, Location};
use ringfence_testkit::Gpu;
use ringfence_testkit::transfers::Moves;

use crate::device_suite::rig::{PATIENCE, Rig, copy, pattern};

const KIB: u64 = 1 << 10;
const SIZE: u64 = 192 * KIB;

/// Fragments the memory of an allocator, and leaves a compactor on for some frames.
pub fn blocks_are_emptied_in_the_frames_of_a_program<G: Gpu>(rig: &mut Rig<G>) {
    let memory = rig.memory.clone();
    let info = BufferDesc { size: SIZE, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
    let make = |number: usize| -> Buffer<G::Device> {
        let desc = AllocationDesc { movable: true, user_data: number as u64, ..Default::default() };
        memory.create_buffer(&info, desc).expect("there is room")
    };
    let mut source = rig.buffer(SIZE, Location::Upload, "source");
    let mut fill = |rig: &mut Rig<G>, buffer: &Buffer<G::Device>, number: usize| {
        source.write(0, &pattern(number as u64, SIZE as usize)).expect("it is mapped");
        rig.run(&[copy(&source, 0, buffer, 0, SIZE)]);
    };
    let mut buffers: Vec<_> = (0..120).map(make).map(Some).collect();
    for number in (0..120).step_by(4) {
        fill(rig, buffers[number].as_ref().expect("it was made"), number);
    }
    (0..120).filter(|number| number % 4 != 0).for_each(|number| buffers[number] = None);
    memory.reclaim();
    let before = memory.statistics().total().block_count;
    let limits = CompactorDesc { waste_bytes_min: 1 << 20, rest_steps: 1, ..Default::default() };
    let mut compactor = Compactor::new(&memory, limits);
    for step in 0..80 {
        let frame = rig.timeline().begin();
        let mut copies = Moves(Vec::new());
        // SAFETY: the commands are submitted as `frame`, and nothing else uses the buffers.
        let made = unsafe {
            compactor.step(&frame, &mut copies, |pass, index| {
                let number = pass.moves()[index].user_data as usize;
                pass.copy_buffer(buffers[number].as_mut().expect("it is alive")).map(drop)
            })
        };
        assert_eq!(made.expect("the frame is of this allocator").failed, None, "step {step}");
        let value = rig.submit(frame, &copies.0);
        assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
        memory.reclaim();
    }
    let statistics = compactor.statistics();
    let after = memory.statistics().total().block_count;
    assert!(statistics.moved_count > 0 && after < before, "{before} blocks before, {after} after: {statistics:?}");
    for number in (0..120).step_by(4) {
        let bytes = rig.download(buffers[number].as_ref().expect("it is alive"), SIZE);
        assert!(bytes == pattern(number as u64, SIZE as usize), "buffer {number}");
    }
    drop(buffers);
    memory.debug().validate().expect("the allocator is sound");
}
