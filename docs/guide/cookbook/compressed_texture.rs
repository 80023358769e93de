use std::error::Error;

use ringfence::device::{Format, TextureDesc, TextureUsage};
use ringfence::upload::ChainOrder;
use ringfence::vulkan::{self, CopyRecorder};
use ringfence::{AllocationDesc, Frame};

/// Creates a texture from the first of several encodings that the device supports, for example BC7, ASTC and RGBA. Each has
/// all mip levels, the largest first.
pub fn compressed_texture(
    memory: &vulkan::Allocator,
    upload: &vulkan::UploadRing,
    frame: &Frame,
    recorder: &mut CopyRecorder<'_>,
    ([width, height], mips): ([u32; 2], u32),
    encodings: &[(Format, &[u8])],
) -> Result<vulkan::Texture, Box<dyn Error>> {
    let usage = TextureUsage::SAMPLED | TextureUsage::COPY_DST | TextureUsage::COPY_SRC;
    let is_supported = |format| memory.format_support(format).texture_usage().contains(usage);
    let encoding = encodings.iter().find(|(format, _)| is_supported(*format));
    let &(format, bytes) = encoding.ok_or("the device supports none of the encodings")?;
    let desc = TextureDesc { width, height, mips, format, usage, ..Default::default() };
    let texture = memory.create_texture(&desc, AllocationDesc { name: "decal", ..Default::default() })?;
    let mut batch = vulkan::UploadBatch::new();
    batch.upload_texture(upload, frame, (bytes, ChainOrder::MipByMip), &texture)?;
    // SAFETY: the commands of the recorder are submitted as this frame.
    unsafe { batch.record(recorder) }?;
    Ok(texture)
}
