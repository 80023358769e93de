use std::error::Error;

use ringfence::AllocationDesc;
use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::sharing::{ShareKind, SharedMemory};
use ringfence::vulkan::{Allocator, Buffer, ShareHandle};

/// Creates a buffer that another process or API may use. Returns it with the handle and the data that the other side
/// needs.
pub fn export_buffer(
    memory: &Allocator,
    size: u64,
    kind: ShareKind,
) -> Result<(Buffer, ShareHandle, SharedMemory), Box<dyn Error>> {
    let usage = BufferUsage::STORAGE | BufferUsage::COPY_DST | BufferUsage::COPY_SRC;
    let request = AllocationDesc { name: "shared", share: Some(kind), ..Default::default() };
    let buffer = memory.create_buffer(&BufferDesc { size, usage }, request)?;
    let (handle, shared) = buffer.export()?;
    Ok((buffer, handle, shared))
}
