use std::error::Error;

use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::vulkan::{self, CopyRecorder};
use ringfence::{AllocationDesc, Frame};

/// Creates a vertex buffer in device memory and records the copy of its vertices.
pub fn vertex_buffer(
    memory: &vulkan::Allocator,
    upload: &vulkan::UploadRing,
    frame: &Frame,
    recorder: &mut CopyRecorder<'_>,
    vertices: &[u8],
) -> Result<vulkan::Buffer, Box<dyn Error>> {
    let usage = BufferUsage::VERTEX | BufferUsage::COPY_DST | BufferUsage::COPY_SRC;
    let desc = BufferDesc { size: vertices.len() as u64, usage };
    let buffer = memory.create_buffer(&desc, AllocationDesc { name: "vertices", ..Default::default() })?;
    let mut batch = vulkan::UploadBatch::new();
    batch.copy(&upload.write_for(frame, vertices, 16)?, &buffer, 0)?;
    // SAFETY: the commands of the recorder are submitted as this frame.
    unsafe { batch.record(recorder) }?;
    Ok(buffer)
}
