use std::error::Error;

use ringfence::commands::Commands;
use ringfence::device::{TextureDesc, TextureUsage};
use ringfence::upload::{TexelTarget, Texels};
use ringfence::vulkan::{self, CopyRecorder};
use ringfence::{AllocationDesc, Frame};

/// Creates a texture from RGBA pixels and records the copy of its first mip level and the commands for the others.
pub fn texture_with_mips(
    memory: &vulkan::Allocator,
    upload: &vulkan::UploadRing,
    frame: &Frame,
    recorder: &mut CopyRecorder<'_>,
    [width, height]: [u32; 2],
    pixels: &[u8],
) -> Result<vulkan::Texture, Box<dyn Error>> {
    let usage = TextureUsage::SAMPLED | TextureUsage::COPY_DST | TextureUsage::COPY_SRC;
    let mips = width.max(height).ilog2() + 1;
    let desc = TextureDesc { width, height, mips, usage, ..Default::default() };
    let texture = memory.create_texture(&desc, AllocationDesc { name: "bricks", ..Default::default() })?;
    let mut batch = vulkan::UploadBatch::new();
    let staged = upload.write_texels(frame, &Texels::new(width, height, 4, pixels))?;
    batch.copy_texels(&staged, &texture, TexelTarget::default())?;
    // SAFETY: the commands of the recorder are submitted as this frame, to a graphics queue.
    unsafe {
        batch.record(recorder)?;
        Commands::new(memory, frame, recorder)?.generate_mips(&texture)?;
    }
    Ok(texture)
}
