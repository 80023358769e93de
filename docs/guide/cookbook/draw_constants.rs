use ash::vk;
use ringfence::Frame;
use ringfence::upload::UploadError;
use ringfence::vulkan::FastConstants;

/// Writes the constants of each draw, and binds them with a dynamic offset before the draw.
///
/// `set_of` returns a descriptor set whose binding 0 is a dynamic uniform buffer.
pub fn draw_constants(
    constants: &FastConstants,
    frame: &Frame,
    (device, commands, layout): (&ash::Device, vk::CommandBuffer, vk::PipelineLayout),
    draws: &[[u8; 64]],
    mut set_of: impl FnMut(vk::Buffer) -> vk::DescriptorSet,
    mut draw: impl FnMut(usize),
) -> Result<(), UploadError> {
    let mut writer = constants.writer(frame)?; // one per thread
    for (number, matrix) in draws.iter().enumerate() {
        let staged = writer.write(matrix)?;
        let (sets, offsets) = ([set_of(staged.buffer)], [staged.offset as u32]);
        let point = vk::PipelineBindPoint::GRAPHICS;
        // SAFETY: the command buffer is being recorded, and the set fits the layout.
        unsafe { device.cmd_bind_descriptor_sets(commands, point, layout, 0, &sets, &offsets) };
        draw(number);
    }
    Ok(())
}
