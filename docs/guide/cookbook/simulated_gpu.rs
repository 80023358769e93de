use std::error::Error;

use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, sim};

/// Fills a buffer on a simulated GPU and releases it, too early if `is_wrong`. Returns the reported hazards.
pub fn simulated_gpu(is_wrong: bool) -> Result<Vec<sim::Hazard>, Box<dyn Error>> {
    let gpu = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    let memory = Allocator::over(gpu.clone(), AllocatorDesc::default());
    let fence = gpu.create_fence(0);
    // SAFETY: the one submission signals the fence with the value of its frame.
    let timeline = unsafe { memory.timeline(fence) }?;
    let desc = BufferDesc { size: 256, usage: BufferUsage::COPY_DST };
    let buffer = memory.create_buffer(&desc, AllocationDesc { name: "particles", ..Default::default() })?;

    let frame = timeline.begin();
    let fill = sim::Command::FillBuffer { dst: *buffer.object(), offset: 0, size: 256, value: 1 };
    gpu.submit(0, &[], vec![fill], (fence, frame.value()))?;
    timeline.submitted(frame)?;
    match is_wrong {
        // SAFETY: this breaks the rule of the function on purpose: the fill may still run.
        true => unsafe { buffer.destroy_now() },
        false => drop(buffer),
    }
    gpu.run_until_idle();
    Ok(gpu.take_hazards())
}
