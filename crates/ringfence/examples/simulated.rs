//! A program without a GPU: a buffer, a copy and a mistake on the simulated device.
//!
//! `cargo run -p ringfence --example simulated`

use std::time::Duration;

use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::sim::{self, BufferRange, Command};
use ringfence::upload::UploadDesc;
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Location, UploadRing};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gpu = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    let memory = Allocator::over(gpu.clone(), AllocatorDesc::default());
    let fence = gpu.create_fence(0);
    // SAFETY: every submission below signals this fence with the value of its frame.
    let timeline = unsafe { memory.timeline(fence) }?;
    let upload = UploadRing::new(&memory, UploadDesc { capacity: 1 << 20, ..Default::default() })?;

    let info = BufferDesc { size: 256, usage: BufferUsage::COPY_DST | BufferUsage::COPY_SRC };
    let target = memory.create_buffer(&info, AllocationDesc { name: "target", ..Default::default() })?;
    let back_desc = AllocationDesc { name: "back", location: Location::Readback, ..Default::default() };
    let back = memory.create_buffer(&info, back_desc)?;

    // A frame: upload the bytes, copy them, and read them back.
    let frame = timeline.begin();
    let value = frame.value();
    let staged = upload.write(&[7; 256], 16)?;
    let copy = |src, src_offset, dst| Command::CopyBuffer { src, src_offset, dst, dst_offset: 0, size: 256 };
    let commands =
        vec![copy(staged.buffer, staged.offset, *target.object()), copy(*target.object(), 0, *back.object())];
    gpu.submit(0, &[], commands, (fence, value))?;
    timeline.submitted(frame)?;

    // The device may still read the buffer, so the drop retires it. It is destroyed when the frame is complete.
    drop(target);
    println!("after the drop: {} object waits for the device", memory.statistics().retired_count);
    timeline.wait(value, Duration::from_secs(1))?;
    let mut bytes = [0; 256];
    back.read(0, &mut bytes)?;
    assert_eq!(bytes, [7; 256]);
    println!("after the frame: {} object destroyed, every byte right", memory.reclaim().objects);
    assert!(gpu.take_hazards().is_empty(), "a correct program has no hazards");

    // A mistake: reading the result of a submission without waiting for it.
    let frame = timeline.begin();
    let staged = upload.write(&[9; 256], 16)?;
    let commands = vec![copy(staged.buffer, staged.offset, *back.object())];
    gpu.submit(0, &[], commands, (fence, frame.value()))?;
    timeline.submitted(frame)?;
    back.read(0, &mut bytes)?;
    for hazard in gpu.take_hazards() {
        println!("hazard: {hazard}");
    }
    let _ = gpu.peek(BufferRange::new(*back.object(), 0, 1));
    gpu.run_until_idle();
    drop(back);
    memory.shutdown(Duration::from_secs(1))?;
    Ok(())
}
