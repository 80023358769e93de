use std::collections::VecDeque;
use std::error::Error;

use ringfence::commands::Commands;
use ringfence::upload::Readback;
use ringfence::vulkan::{self, CopyRecorder, Device};

/// Records a copy of mip level 0 to the host. Returns the texels of an earlier frame if the GPU has copied them.
pub fn read_texture(
    ring: &vulkan::ReadbackRing,
    waiting: &mut VecDeque<Readback<Device>>,
    commands: &mut Commands<'_, Device, CopyRecorder<'_>>,
    texture: &vulkan::Texture,
) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
    waiting.push_back(commands.read_texels(ring, texture, &texture.mip_box(0)?)?);
    match waiting.front() {
        Some(oldest) if oldest.is_ready()? => {
            let texels = oldest.to_vec()?;
            waiting.pop_front();
            Ok(Some(texels))
        }
        _ => Ok(None),
    }
}
