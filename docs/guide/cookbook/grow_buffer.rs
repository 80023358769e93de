use std::error::Error;

use ringfence::AllocationDesc;
use ringfence::commands::Commands;
use ringfence::vulkan::{Buffer, CopyRecorder, Device};

/// Gives a buffer a new size while the GPU uses it, and keeps its contents.
pub fn grow_buffer(
    buffer: &mut Buffer,
    size: u64,
    commands: &mut Commands<'_, Device, CopyRecorder<'_>>,
) -> Result<(), Box<dyn Error>> {
    let mut desc = *buffer.desc().ok_or("the buffer has no portable description")?;
    let kept = desc.size.min(size);
    desc.size = size;
    let request = AllocationDesc { name: "particles", ..Default::default() };
    Ok(commands.resize_buffer(buffer, &desc, kept, request)?)
}
