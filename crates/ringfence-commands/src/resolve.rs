//! The checks of resolves.

use ringfence_hal::{Dimension, RawTexture, TextureUsage};
use ringfence_memory::Texture;

use crate::CommandError;
use crate::device::transfer::{SubresourceRange, TextureResolve, TransferSupport};
use crate::owned::{Checked, check_range};

/// The layers of a resolve, and the mip level of its destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResolvedLayers {
    /// The first layer of the multisampled texture.
    pub src_layer: u32,
    /// The mip level of the destination.
    pub dst_mip: u32,
    /// The first layer of the destination.
    pub dst_layer: u32,
    /// Number of layers.
    pub layers: u32,
}

/// Selects one layer: layer 0 of both textures, and mip level 0 of the destination.
impl Default for ResolvedLayers {
    fn default() -> Self {
        Self { src_layer: 0, dst_mip: 0, dst_layer: 0, layers: 1 }
    }
}

/// Checks a resolve, and returns the command.
pub(crate) fn textures<D: TransferSupport>(
    checked: Checked,
    device: &D,
    src: &Texture<D>,
    dst: &Texture<D>,
    at: ResolvedLayers,
) -> Result<TextureResolve<RawTexture<D>>, CommandError> {
    let command = checked.command;
    let (from, from_parts) = checked.texture(src, TextureUsage::COPY_SRC)?;
    let (into, into_parts) = checked.texture(dst, TextureUsage::COPY_DST)?;
    let ResolvedLayers { src_layer, dst_mip, dst_layer, layers } = at;
    if from.samples == 1 || into.samples != 1 {
        let needs = "the source must have several, the destination one";
        return Err(CommandError::Samples { command, src: from.samples, dst: into.samples, needs });
    }
    if from.format != into.format {
        let reason = "the formats must be equal";
        return Err(CommandError::Formats { command, src: from.format, dst: into.format, reason });
    }
    if from.format.is_depth_stencil() {
        return Err(checked.format(&from, "depth and stencil are resolved in a render pass"));
    }
    if into.dimension == Dimension::D3 {
        return Err(CommandError::Dimension { command, dimension: into.dimension });
    }
    check_range(SubresourceRange { mip: 0, mips: 1, layer: src_layer, layers }, &from_parts)?;
    check_range(SubresourceRange { mip: dst_mip, mips: 1, layer: dst_layer, layers }, &into_parts)?;
    let [width, height, _] = from_parts.extent(0);
    let [to_width, to_height, _] = into_parts.extent(dst_mip);
    let (extent, to) = ([width, height], [to_width, to_height]);
    if extent != to {
        return Err(CommandError::Sizes { src: extent, dst: to });
    }
    device.check_resolve(&into)?;
    let (src, dst, format) = (src.object().clone(), dst.object().clone(), from.format);
    Ok(TextureResolve { src, src_layer, dst, dst_mip, dst_layer, layers, extent, format })
}
