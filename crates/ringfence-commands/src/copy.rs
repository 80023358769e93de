//! The checks of copies between buffers and textures.

use ringfence_hal::{
    Capabilities, Device, Dimension, RawBuffer, RawTexture, TexelBox, TexelError, TextureUsage, check_texels,
};
use ringfence_memory::Texture;
use ringfence_upload::CopyTarget;
use smallvec::SmallVec;

use crate::CommandError;
use crate::device::record::{ROW_BYTES_MAX, TexelRead, TexelRegion, TextureParts, TextureTarget};
use crate::device::transfer::{TexelAlignment, TextureBoxCopy, TransferSupport};
use crate::owned::{Access, Checked, check_aligned};

pub use crate::device::transfer::TexelOrigin;

/// Location of texels in a buffer: rows of blocks, slice after slice, layer after layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferTexels {
    /// Offset of the first texel, in bytes.
    pub offset: u64,
    /// Distance between rows of blocks, in bytes.
    pub row_bytes: u64,
    /// Distance between layers, in bytes; not used for one layer.
    pub layer_bytes: u64,
}

/// The rules of copies that depend on the queue and on the device.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// Granularity of the queue, in blocks.
    pub(crate) unit: [u32; 3],
    /// `true` if parts of a mip level of depth or stencil can be copied.
    partial_depth: bool,
}

impl Rules {
    pub(crate) const fn of(capabilities: &Capabilities, unit: [u32; 3]) -> Self {
        Self { unit, partial_depth: capabilities.partial_depth_copies }
    }

    pub(crate) fn check(self, parts: &TextureParts, texels: &TexelBox) -> Result<(), TexelError> {
        check_texels(Some(parts), texels, None, self.unit, self.partial_depth).map(drop)
    }
}

fn origin(texels: &TexelBox) -> TexelOrigin {
    let TexelBox { mip, layer, x, y, z, .. } = *texels;
    TexelOrigin { mip, layer, x, y, z }
}

/// Checks a copy between textures, and returns the command.
pub(crate) fn textures<D: TransferSupport>(
    checked: Checked,
    device: &D,
    rules: Rules,
    (src, texels): (&Texture<D>, &TexelBox),
    (dst, to): (&Texture<D>, TexelOrigin),
) -> Result<TextureBoxCopy<RawTexture<D>>, CommandError> {
    let (from, from_parts) = checked.texture(src, TextureUsage::COPY_SRC)?;
    let (into, into_parts) = checked.texture(dst, TextureUsage::COPY_DST)?;
    let TexelOrigin { mip, layer, x, y, z } = to;
    let target = TexelBox { mip, layer, x, y, z, ..*texels };
    rules.check(&from_parts, texels)?;
    rules.check(&into_parts, &target)?;
    let (format, aspect) = (from_parts.format, texels.aspect);
    let is_equal = format.is_copied_as(into_parts.format, aspect) && from_parts.aspects == into_parts.aspects;
    if !is_equal {
        let reason = "texels must have the same size in bytes, and the same aspects";
        let command = checked.command;
        return Err(CommandError::Formats { command, src: from.format, dst: into.format, reason });
    }
    device.check_copy(from.format, into.format)?;
    let flat = |of| if of == Dimension::Cube { Dimension::D2 } else { of };
    if flat(from.dimension) != flat(into.dimension) {
        return Err(CommandError::Dimensions { src: from.dimension, dst: into.dimension });
    }
    check_apart(src.object() == dst.object(), texels, to)?;
    Ok(TextureBoxCopy {
        src: src.object().clone(),
        from: origin(texels),
        dst: dst.object().clone(),
        to,
        aspect,
        aspects: from_parts.aspects,
        format,
        extent: texels.extent(),
        layers: texels.layers,
        discard: target.is_whole(&into_parts),
    })
}

/// Refuses a copy within one subresource.
fn check_apart(is_same: bool, from: &TexelBox, to: TexelOrigin) -> Result<(), CommandError> {
    let first = from.layer.max(to.layer);
    let has_common = first < from.layer + from.layers && first < to.layer + from.layers;
    if is_same && from.mip == to.mip && has_common {
        return Err(CommandError::SameSubresource { mip: to.mip, layer: first });
    }
    Ok(())
}

/// A checked copy between a buffer and a texture: one region for each layer.
pub(crate) struct TexelCopy<'a, D: Device> {
    pub(crate) buffer: &'a RawBuffer<D>,
    pub(crate) parts: TextureParts,
    pub(crate) regions: SmallVec<[TexelRegion; 1]>,
    /// `true` if the copy overwrites all aspects of whole mip levels.
    is_whole: bool,
}

impl<'a, D: TransferSupport> TexelCopy<'a, D> {
    /// Checks a copy between a buffer and a texture.
    pub(crate) fn new(
        checked: Checked,
        device: &D,
        rules: Rules,
        (buffer, layout, access): (&'a impl CopyTarget<D>, BufferTexels, Access),
        (texture, texels): (&Texture<D>, &TexelBox),
    ) -> Result<Self, CommandError> {
        let usage = if access == Access::Reads { TextureUsage::COPY_DST } else { TextureUsage::COPY_SRC };
        let (_, parts) = checked.texture(texture, usage)?;
        rules.check(&parts, texels)?;
        // The alignment applies to the driver's buffer.
        let first = buffer.as_slice().offset;
        let inside = BufferTexels { offset: first.saturating_add(layout.offset), ..layout };
        let regions = regions(&parts, inside, texels);
        let alignment = device.texel_alignment(parts.format, texels.aspect);
        let size = check_layout(&regions[0], inside, texels, alignment)?;
        let (buffer, _) = checked.buffer(buffer, access, (layout.offset, size))?;
        Ok(Self { buffer, regions, is_whole: texels.is_whole(&parts), parts })
    }

    /// Returns the destinations of a copy to the texture.
    pub(crate) fn targets<T: Clone>(&self, texture: &T) -> SmallVec<[TextureTarget<T>; 1]> {
        let target = |region: &TexelRegion| TextureTarget {
            texture: texture.clone(),
            mip: region.mip,
            layer: region.layer,
            aspects: self.parts.aspects,
            discard: self.is_whole,
        };
        self.regions.iter().map(target).collect()
    }

    /// Returns the copies from the texture.
    pub(crate) fn reads(&self, texture: &Texture<D>) -> SmallVec<[TexelRead<RawTexture<D>, RawBuffer<D>>; 1]> {
        let read = |region: &TexelRegion| TexelRead {
            src: texture.object().clone(),
            aspects: self.parts.aspects,
            dst: self.buffer.clone(),
            region: *region,
        };
        self.regions.iter().map(read).collect()
    }
}

fn regions(parts: &TextureParts, layout: BufferTexels, texels: &TexelBox) -> SmallVec<[TexelRegion; 1]> {
    let TexelBox { aspect, mip, layer, layers, x, y, z, width, height, depth } = *texels;
    let region = |index: u32| {
        let buffer_offset = layout.offset.saturating_add(u64::from(index).saturating_mul(layout.layer_bytes));
        let (row_bytes, format, layer) = (layout.row_bytes, parts.format, layer + index);
        TexelRegion { buffer_offset, row_bytes, format, aspect, mip, layer, x, y, z, width, height, depth }
    };
    (0..layers).map(region).collect()
}

/// Checks the location of texels in a buffer, and returns the size of all of them, in bytes.
fn check_layout(
    region: &TexelRegion,
    layout: BufferTexels,
    texels: &TexelBox,
    alignment: TexelAlignment,
) -> Result<u64, CommandError> {
    let BufferTexels { offset, row_bytes, layer_bytes } = layout;
    let [across, down] = region.blocks().map(u64::from);
    let needed = across * u64::from(region.block_bytes());
    check_aligned("an offset of texels", offset, alignment.offset)?;
    check_aligned("a row pitch", row_bytes, alignment.row)?;
    if row_bytes < needed {
        return Err(CommandError::Pitch { what: "a row pitch", given: row_bytes, needed });
    }
    if row_bytes > ROW_BYTES_MAX {
        return Err(CommandError::LargePitch { given: row_bytes, max: ROW_BYTES_MAX });
    }
    let rows = (down * u64::from(region.depth)).saturating_sub(1);
    let layer = row_bytes.saturating_mul(rows).saturating_add(needed);
    let more = u64::from(texels.layers - 1);
    if more > 0 {
        check_aligned("a layer pitch", layer_bytes, alignment.offset)?;
        if layer_bytes < layer {
            return Err(CommandError::Pitch { what: "a layer pitch", given: layer_bytes, needed: layer });
        }
    }
    Ok(layer_bytes.saturating_mul(more).saturating_add(layer))
}
