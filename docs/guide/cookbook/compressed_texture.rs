use std::error::Error;

use ringfence::device::{DeviceError, Format, TextureDesc, TextureUsage};
use ringfence::upload::{TexelTarget, Texels};
use ringfence::vulkan::{self, CopyRecorder};
use ringfence::{AllocationDesc, Frame, memory};

/// Creates a texture from the first of several encodings that the device supports, for example BC7, ASTC and RGBA.
pub fn compressed_texture(
    memory: &vulkan::Allocator,
    upload: &vulkan::UploadRing,
    frame: &Frame,
    recorder: &mut CopyRecorder<'_>,
    [width, height]: [u32; 2],
    encodings: &[(Format, &[u8])],
) -> Result<vulkan::Texture, Box<dyn Error>> {
    let usage = TextureUsage::SAMPLED | TextureUsage::COPY_DST | TextureUsage::COPY_SRC;
    for (format, blocks) in encodings {
        let desc = TextureDesc { width, height, format: *format, usage, ..Default::default() };
        let texture = match memory.create_texture(&desc, AllocationDesc { name: "decal", ..Default::default() }) {
            Err(memory::Error::Device(DeviceError::Unsupported(_))) => continue,
            created => created?,
        };
        let mut batch = vulkan::UploadBatch::new();
        let staged = upload.write_texels(frame, &Texels::of(format.texels(), [width, height, 1], blocks))?;
        batch.copy_texels(&staged, &texture, TexelTarget::default())?;
        // SAFETY: the commands of the recorder are submitted as this frame.
        unsafe { batch.record(recorder) }?;
        return Ok(texture);
    }
    Err("the device supports none of the encodings".into())
}
