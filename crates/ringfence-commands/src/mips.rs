//! The checks of the generation of mip levels.

use ringfence_hal::{ChannelKind, RawTexture, TextureUsage};
use ringfence_memory::Texture;

use crate::CommandError;
use crate::device::transfer::{MipChain, TransferSupport};
use crate::owned::Checked;

/// Checks the generation of mip levels, and returns the command. Returns `None` if the texture has one mip level.
pub(crate) fn chain<D: TransferSupport>(
    checked: Checked,
    device: &D,
    texture: &Texture<D>,
) -> Result<Option<MipChain<RawTexture<D>>>, CommandError> {
    let (desc, parts) = checked.texture(texture, TextureUsage::COPY_SRC | TextureUsage::COPY_DST)?;
    if desc.format.is_depth_stencil() {
        return Err(checked.format(&desc, "depth and stencil cannot be filtered linearly; render each level"));
    }
    if desc.format.texels().is_compressed() {
        return Err(checked.format(&desc, "no device blits to block-compressed formats; upload the mip levels"));
    }
    if desc.format.channels() != ChannelKind::Float {
        return Err(checked.format(&desc, "integers cannot be filtered linearly; upload the mip levels"));
    }
    device.check_blit(&desc).map_err(|error| CommandError::NoMips { format: desc.format, error })?;
    let texture = texture.object().clone();
    Ok((parts.mips > 1).then_some(MipChain { texture, parts }))
}
