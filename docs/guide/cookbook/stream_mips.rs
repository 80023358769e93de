use std::error::Error;

use ringfence::commands::TexelOrigin;
use ringfence::device::transfer::{TextureBoxCopy, Transfer};
use ringfence::vulkan::{CopyRecorder, Device, Texture};
use ringfence::{AllocationDesc, Frame};

/// Adds a larger mip level to a texture that the GPU uses, or removes its largest level. Returns the mips to upload.
pub fn stream_mips(
    texture: &mut Texture,
    is_larger: bool,
    frame: &Frame,
    recorder: &mut CopyRecorder<'_>,
) -> Result<Vec<u32>, Box<dyn Error>> {
    let mut wanted = *texture.desc().ok_or("the texture has no portable description")?;
    let resize = |side: u32| if is_larger { side * 2 } else { (side / 2).max(1) };
    (wanted.width, wanted.height) = (resize(wanted.width), resize(wanted.height));
    wanted.mips = if is_larger { wanted.mips + 1 } else { wanted.mips - 1 };
    let swap = texture.swap_mips(frame, &wanted, AllocationDesc { name: "rock", ..Default::default() })?;
    let (format, layers) = (wanted.format.texels(), wanted.layers);
    let (aspect, aspects) = (format.first_aspect(), format.aspects());
    for copy in swap.copies {
        let [from, to] = [copy.src_mip, copy.dst_mip].map(|mip| TexelOrigin { mip, ..Default::default() });
        let (src, dst, extent) = (copy.src, copy.dst, [copy.width, copy.height, copy.depth]);
        let copy = TextureBoxCopy { src, from, dst, to, aspect, aspects, format, extent, layers, discard: true };
        // SAFETY: the commands of the recorder are submitted as this frame, so the old texture is alive.
        unsafe { Transfer::<Device>::copy_texture_box(recorder, &copy) };
    }
    Ok(swap.to_fill)
}
