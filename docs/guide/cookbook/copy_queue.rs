use std::error::Error;

use ash::vk;
use ringfence::SyncPoint;
use ringfence::upload::TransferQueue;
use ringfence::vulkan::{Buffer, CopyRecorder, Device};

/// Uploads buffers on a copy queue. Returns the point that the queue which reads them must wait for.
///
/// `commands` is in the recording state. `submit` ends and submits it, and signals the value on the copy queue's
/// semaphore.
pub fn copy_queue(
    uploads: &mut TransferQueue<Device>,
    contents: &[(&Buffer, &[u8])],
    device: &ash::Device,
    commands: vk::CommandBuffer,
    submit: impl FnOnce(u64) -> Result<(), vk::Result>,
) -> Result<Option<SyncPoint>, Box<dyn Error>> {
    for (buffer, bytes) in contents {
        uploads.upload(bytes, buffer, 0)?;
    }
    Ok(uploads.submit(|batch, value| {
        // SAFETY: only this thread records the command buffer, which is submitted with this value.
        unsafe { batch.record(&mut CopyRecorder::new(device, commands)) }?;
        submit(value)?;
        Ok::<_, Box<dyn Error>>(())
    })?)
}
