use std::error::Error;

use ash::vk;
use ringfence::Frame;
use ringfence::contents::GpuVec;
use ringfence::vulkan::{CopyRecorder, Device, UploadBatch, UploadRing};

/// Uploads the changed elements of a list. Returns its buffer, and `true` if the buffer is a new one.
pub fn gpu_list(
    list: &mut GpuVec<Device, [f32; 4]>,
    upload: &UploadRing,
    frame: &Frame,
    recorder: &mut CopyRecorder<'_>,
) -> Result<Option<(vk::Buffer, bool)>, Box<dyn Error>> {
    let mut batch = UploadBatch::new();
    let updated = list.update(upload, &mut batch, frame)?;
    // SAFETY: the commands of the recorder are submitted as this frame.
    unsafe { batch.record(recorder) }?;
    Ok(list.object().map(|buffer| (*buffer, updated.is_moved)))
}
