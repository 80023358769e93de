use std::error::Error;

use ringfence::device::record::CopyRegion;
use ringfence::device::transfer::Transfer;
use ringfence::vulkan::{Buffer, CopyRecorder, Device};
use ringfence::{AllocationDesc, Frame};

/// Gives a buffer a new size while the GPU uses it, and records the copy of its contents.
pub fn grow_buffer(
    buffer: &mut Buffer,
    size: u64,
    frame: &Frame,
    recorder: &mut CopyRecorder<'_>,
) -> Result<(), Box<dyn Error>> {
    let mut desc = *buffer.desc().ok_or("the buffer has no portable description")?;
    let kept = desc.size.min(size);
    desc.size = size;
    let request = AllocationDesc { name: "particles", ..Default::default() };
    if let Some(copy) = buffer.resize(frame, &desc, kept, request)? {
        let region = CopyRegion { src_offset: copy.src_offset, dst_offset: copy.dst_offset, size: copy.size };
        // SAFETY: the commands of the recorder are submitted as this frame, so the old buffer is alive.
        unsafe { Transfer::<Device>::copy_buffer_regions(recorder, &copy.src, &copy.dst, &[region]) };
    }
    Ok(())
}
