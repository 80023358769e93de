use std::error::Error;

use ringfence::AllocationDesc;
use ringfence::commands::Commands;
use ringfence::vulkan::{CopyRecorder, Device, Texture};

/// Adds a larger mip level to a texture that the GPU uses, or removes its largest level. Returns the mips to upload.
pub fn stream_mips(
    texture: &mut Texture,
    is_larger: bool,
    commands: &mut Commands<'_, Device, CopyRecorder<'_>>,
) -> Result<Vec<u32>, Box<dyn Error>> {
    let mut wanted = *texture.desc().ok_or("the texture has no portable description")?;
    let resize = |side: u32| if is_larger { side * 2 } else { (side / 2).max(1) };
    (wanted.width, wanted.height) = (resize(wanted.width), resize(wanted.height));
    wanted.mips = if is_larger { wanted.mips + 1 } else { wanted.mips - 1 };
    Ok(commands.swap_mips(texture, &wanted, AllocationDesc { name: "rock", ..Default::default() })?)
}
