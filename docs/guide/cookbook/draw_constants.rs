use std::error::Error;

use ash::vk;
use ringfence::Frame;
use ringfence::vulkan::{ConstantSets, FastConstants};

/// Writes the constants of each draw, and binds them with a dynamic offset before the draw.
pub fn draw_constants(
    constants: &FastConstants,
    sets: &mut ConstantSets, // its `layout()` is set 0 of the pipeline layout
    frame: &Frame,
    (commands, layout): (vk::CommandBuffer, vk::PipelineLayout),
    draws: &[[u8; 64]],
    mut draw: impl FnMut(usize),
) -> Result<(), Box<dyn Error>> {
    let mut writer = constants.writer(frame)?; // one per thread, as `sets`
    sets.begin(frame)?;
    for (number, matrix) in draws.iter().enumerate() {
        let staged = writer.write(matrix)?;
        // SAFETY: the command buffer is recorded by this thread and submitted as this frame.
        unsafe { sets.bind(commands, vk::PipelineBindPoint::GRAPHICS, layout, 0, &staged) }?;
        draw(number);
    }
    Ok(())
}
