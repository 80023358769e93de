use ringfence::Frame;
use ringfence::descriptor::{DescriptorError, View};
use ringfence::device::descriptors::{BufferView, BufferViewKind};
use ringfence::vulkan::{Buffer, ShaderVisibleHeap};

/// Writes descriptors of storage buffers for one frame. Returns the slot of the first; the others follow it.
pub fn frame_table(heap: &ShaderVisibleHeap, frame: &Frame, buffers: &[&Buffer]) -> Result<u32, DescriptorError> {
    let kind = BufferViewKind::Storage { stride: 0, writes: false };
    let views: Result<Vec<_>, _> = buffers
        .iter()
        .map(|buffer| View::buffer(*buffer, BufferView { kind, offset: 0, size: buffer.size() }))
        .collect();
    let table = heap.frame_descriptors(frame)?.table_of(&views?)?;
    Ok(table.start())
}
