use std::error::Error;

use ash::vk;
use ringfence::Frame;
use ringfence::upload::StaticConstants;
use ringfence::vulkan::{ConstantBuffers, CopyRecorder, Device, UploadBatch};

/// Changes constants that change rarely. Returns the buffer and the offset to bind, which always stay the same.
pub fn static_constants(
    constants: &ConstantBuffers,
    material: &mut StaticConstants<Device, ()>,
    content: &[u8],
    frame: &Frame,
    recorder: &mut CopyRecorder<'_>,
) -> Result<(vk::Buffer, u64), Box<dyn Error>> {
    material.update(content)?;

    // Once a frame, after the changes of all constants.
    let mut batch = UploadBatch::new();
    constants.upload_statics(&mut constants.writer(frame)?, &mut batch)?;
    // SAFETY: the commands of the recorder are submitted as this frame.
    unsafe { batch.record(recorder) }?;
    Ok((material.bound().buffer, material.bound().offset))
}
