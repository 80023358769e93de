use std::error::Error;

use ringfence::device::{Dimension, Format, TextureDesc, TextureUsage};
use ringfence::upload::{TexelTarget, Texels};
use ringfence::vulkan::{self, CopyRecorder};
use ringfence::{AllocationDesc, Frame};

/// Creates a cube map from the texels of its six faces, in the order +X, -X, +Y, -Y, +Z, -Z.
pub fn cube_map(
    memory: &vulkan::Allocator,
    upload: &vulkan::UploadRing,
    frame: &Frame,
    recorder: &mut CopyRecorder<'_>,
    side: u32,
    faces: &[u8],
) -> Result<vulkan::Texture, Box<dyn Error>> {
    let (dimension, format) = (Dimension::Cube, Format::Rgba16Float);
    let usage = TextureUsage::SAMPLED | TextureUsage::COPY_DST | TextureUsage::COPY_SRC;
    let desc = TextureDesc { dimension, width: side, height: side, layers: 6, format, usage, ..Default::default() };
    let sky = memory.create_texture(&desc, AllocationDesc { name: "sky", ..Default::default() })?;
    let texels = Texels::of(format.texels(), [side, side, 1], faces).layers(6);
    let mut batch = vulkan::UploadBatch::new();
    batch.copy_texels(&upload.write_texels(frame, &texels)?, &sky, TexelTarget::default())?;
    // SAFETY: the commands of the recorder are submitted as this frame.
    unsafe { batch.record(recorder) }?;
    Ok(sky)
}
