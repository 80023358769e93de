use std::error::Error;

use ringfence::device::{Dimension, Format, TextureDesc, TextureUsage};
use ringfence::upload::{TexelTarget, Texels};
use ringfence::vulkan::{self, CopyRecorder};
use ringfence::{AllocationDesc, Frame};

/// Creates a three-dimensional texture with one byte per texel, for example a density of fog.
pub fn volume_texture(
    memory: &vulkan::Allocator,
    upload: &vulkan::UploadRing,
    frame: &Frame,
    recorder: &mut CopyRecorder<'_>,
    extent: [u32; 3],
    density: &[u8],
) -> Result<vulkan::Texture, Box<dyn Error>> {
    let ([width, height, depth], format) = (extent, Format::R8Unorm);
    let usage = TextureUsage::SAMPLED | TextureUsage::COPY_DST | TextureUsage::COPY_SRC;
    let desc = TextureDesc { dimension: Dimension::D3, width, height, depth, format, usage, ..Default::default() };
    let fog = memory.create_texture(&desc, AllocationDesc { name: "fog", ..Default::default() })?;
    let mut batch = vulkan::UploadBatch::new();
    let staged = upload.write_texels(frame, &Texels::of(format.texels(), extent, density))?;
    batch.copy_texels(&staged, &fog, TexelTarget::default())?;
    // SAFETY: the commands of the recorder are submitted as this frame.
    unsafe { batch.record(recorder) }?;
    Ok(fog)
}
