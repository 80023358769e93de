use std::error::Error;

use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::vulkan::{Allocator, CopyRecorder, SmallBuffer, UploadBatch, UploadRing};
use ringfence::{Frame, Location};

/// Creates many small buffers in few driver buffers, and records the copies of their contents.
pub fn small_buffers(
    memory: &Allocator,
    upload: &UploadRing,
    frame: &Frame,
    recorder: &mut CopyRecorder<'_>,
    contents: &[&[u8]],
) -> Result<Vec<SmallBuffer>, Box<dyn Error>> {
    let (mut buffers, mut batch) = (Vec::new(), UploadBatch::new());
    for bytes in contents {
        let desc = BufferDesc { size: bytes.len() as u64, usage: BufferUsage::CONSTANT | BufferUsage::COPY_DST };
        let buffer = memory.create_small_buffer(desc, Location::Device)?;
        batch.copy(&upload.write_for(frame, bytes, 16)?, &buffer, 0)?;
        buffers.push(buffer); // bind `object()` at `offset()`
    }
    // SAFETY: the commands of the recorder are submitted as this frame.
    unsafe { batch.record(recorder) }?;
    Ok(buffers)
}
