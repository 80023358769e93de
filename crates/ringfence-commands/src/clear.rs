//! The checks of clears.

use ringfence_hal::{RawTexture, TextureUsage};
use ringfence_memory::Texture;

use crate::CommandError;
use crate::device::transfer::{ClearColor, ClearTexel, SubresourceRange, TextureClear, TransferSupport};
use crate::owned::{Checked, check_range};

/// The value of a clear of depth, stencil or both. An aspect of `None` keeps its contents.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct DepthStencil {
    /// Depth from 0 to 1.
    pub depth: Option<f32>,
    /// Stencil.
    pub stencil: Option<u8>,
}

impl DepthStencil {
    /// Returns the value that clears the depth only.
    #[must_use]
    pub const fn depth(depth: f32) -> Self {
        Self { depth: Some(depth), stencil: None }
    }

    /// Returns the value that clears the stencil only.
    #[must_use]
    pub const fn stencil(stencil: u8) -> Self {
        Self { depth: None, stencil: Some(stencil) }
    }

    /// Returns the value that clears both.
    #[must_use]
    pub const fn both(depth: f32, stencil: u8) -> Self {
        Self { depth: Some(depth), stencil: Some(stencil) }
    }
}

/// Checks a clear of a colour, and returns the command.
pub(crate) fn color<D: TransferSupport>(
    checked: Checked,
    device: &D,
    texture: &Texture<D>,
    range: SubresourceRange,
    color: ClearColor,
) -> Result<TextureClear<RawTexture<D>>, CommandError> {
    let (desc, _) = checked.texture(texture, TextureUsage::empty())?;
    if desc.format.is_depth_stencil() {
        return Err(checked.format(&desc, "it has no colour; use clear_depth_stencil"));
    }
    if desc.format.texels().is_compressed() {
        return Err(checked.format(&desc, "block-compressed formats cannot be cleared; upload the blocks"));
    }
    let (given, needs) = (color.channels(), desc.format.channels());
    if given != needs {
        return Err(CommandError::ColorType { format: desc.format, given, needs });
    }
    clear(checked, device, texture, range, ClearTexel::Color(color))
}

/// Checks a clear of depth and stencil, and returns the command.
pub(crate) fn depth_stencil<D: TransferSupport>(
    checked: Checked,
    device: &D,
    texture: &Texture<D>,
    range: SubresourceRange,
    DepthStencil { depth, stencil }: DepthStencil,
) -> Result<TextureClear<RawTexture<D>>, CommandError> {
    if let Some(depth) = depth.filter(|depth| !(0.0..=1.0).contains(depth)) {
        return Err(CommandError::Depth { depth });
    }
    clear(checked, device, texture, range, ClearTexel::DepthStencil { depth, stencil })
}

fn clear<D: TransferSupport>(
    checked: Checked,
    device: &D,
    texture: &Texture<D>,
    range: SubresourceRange,
    value: ClearTexel,
) -> Result<TextureClear<RawTexture<D>>, CommandError> {
    let (desc, parts) = checked.texture(texture, TextureUsage::empty())?;
    let (given, has) = (value.aspects(), parts.aspects);
    if given.is_empty() || !has.contains(given) {
        return Err(CommandError::Aspects { given, has });
    }
    checked.texture(texture, device.clear_usage(desc.format))?;
    check_range(range, &parts)?;
    device.check_clear(&desc, &value)?;
    let (texture, discard) = (texture.object().clone(), given == has);
    Ok(TextureClear { texture, format: desc.format, aspects: has, range, value, discard })
}
