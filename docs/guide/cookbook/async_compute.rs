use std::error::Error;

use ash::vk;
use ringfence::vulkan::{Buffer, Timeline};
use ringfence::{Frame, SyncPoint};

/// Submits commands of a compute queue that read a buffer once the graphics queue has written it.
///
/// `written` is the point of the graphics queue, and the semaphores are those of the two timelines.
pub fn async_compute(
    device: &ash::Device,
    (compute, queue): (&Timeline, vk::Queue),
    [graphics_semaphore, compute_semaphore]: [vk::Semaphore; 2],
    (frame, commands): (Frame, vk::CommandBuffer),
    written: SyncPoint,
    buffer: Buffer,
) -> Result<SyncPoint, Box<dyn Error>> {
    drop(buffer); // its last use is in this frame: it is destroyed once both queues have finished
    let point = compute.submit(frame, |value| {
        let (waits, wait_values) = ([graphics_semaphore], [written.value]);
        let (signals, signal_values, list) = ([compute_semaphore], [value], [commands]);
        let mut values = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&wait_values)
            .signal_semaphore_values(&signal_values);
        let submit = vk::SubmitInfo::default().wait_semaphores(&waits).signal_semaphores(&signals);
        let submit = submit.wait_dst_stage_mask(&[vk::PipelineStageFlags::ALL_COMMANDS]).command_buffers(&list);
        // SAFETY: the commands are recorded, and only this thread uses the queue.
        unsafe { device.queue_submit(queue, &[submit.push_next(&mut values)], vk::Fence::null()) }?;
        Ok::<_, Box<dyn Error>>(())
    })?;
    Ok(point)
}
