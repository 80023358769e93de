//! The heap of descriptors that shaders index, and the constants of a frame.

use ash::vk;
use naga::back::spv;
use ringfence::descriptor::{Binding, ShaderVisibleDesc, View};
use ringfence::device::BufferUsage;
use ringfence::device::descriptors::{BufferView, BufferViewKind, ViewTypes};
use ringfence::placement::FastConstantsDesc;
use ringfence::vulkan::{Device, FastConstants, ShaderVisibleHeap};

use crate::gpu::{Failure, Gpu, Work};

/// Creates a heap of resources. Each frame in flight needs one slot for its constants.
pub fn make(gpu: &Gpu, types: ViewTypes) -> Result<ShaderVisibleHeap, Failure> {
    let desc = ShaderVisibleDesc { types, frame_slots: 6, chunk_slots: 1, name: "heap", ..Default::default() };
    Ok(ShaderVisibleHeap::new(&gpu.memory, desc)?)
}

/// Creates the pages for the constants of a frame.
pub fn make_constants(gpu: &Gpu) -> FastConstants {
    let desc = FastConstantsDesc { usage: BufferUsage::STORAGE_READ, name: "constants", ..Default::default() };
    FastConstants::new(&gpu.memory, desc)
}

/// Writes constants that this frame reads, and a descriptor of them. Returns the slot of the descriptor.
pub fn write_constants(
    heap: &ShaderVisibleHeap,
    constants: &FastConstants,
    work: &Work,
    bytes: &[u8],
) -> Result<u32, Failure> {
    let staged = constants.writer(&work.frame)?.write(bytes)?;
    let kind = BufferViewKind::Storage { stride: 0, writes: false };
    let view = View::buffer(&staged, BufferView { kind, offset: 0, size: staged.size })?;
    Ok(heap.frame_descriptors(&work.frame)?.table_of(&[view])?.start())
}

/// Maps an array of a shader to the binding of the device, with the number of slots as its length.
pub fn map(
    group: u32,
    binding: u32,
    to: Option<u32>,
    slots: u32,
) -> Result<(naga::ResourceBinding, spv::BindingInfo), Failure> {
    let to = to.ok_or("the heap has no binding for this kind of view")?;
    let info = spv::BindingInfo { descriptor_set: group, binding: to, binding_array_size: Some(slots) };
    Ok((naga::ResourceBinding { group, binding }, info))
}

/// Binds the heaps and sets the push constants.
pub fn set(
    gpu: &Gpu,
    work: &Work,
    binding: &mut Binding<Device>,
    layout: vk::PipelineLayout,
    push: &[u32],
) -> Result<(), Failure> {
    let (device, point) = (gpu.memory.device(), vk::PipelineBindPoint::GRAPHICS);
    // SAFETY: the command buffer is being recorded. The layout has the sets of the heaps from 0 on, and the constants.
    unsafe {
        binding.set(device, work.commands, point, layout, 0)?;
        let bytes = bytemuck::cast_slice(push);
        gpu.device.cmd_push_constants(work.commands, layout, crate::pipeline::STAGES, 0, bytes);
    }
    Ok(())
}
