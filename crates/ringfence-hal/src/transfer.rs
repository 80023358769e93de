//! Transfer commands besides the copies of [`Record`]: fills, clears, copies of boxes, resolves and mip levels.
//!
//! ```text
//!   TransferSupport, of the device     which commands the device has, and for which formats
//!   Transfer, of the command list      records one command with its barriers:
//!
//!        earlier uses ▌ fill, clear, copy, resolve or blit ▌ later uses
//!                     barrier                              barrier
//! ```
//!
//! `ringfence-commands` checks the arguments and calls these traits. Programs that implement [`Record`] for their own
//! command lists need [`Transfer`] only for these commands.

use super::capabilities::{Capabilities, common_alignment};
use super::device::{Device, RawBuffer, RawTexture};
use super::error::DeviceError;
use super::format::{ChannelKind, Format, TexelFormat, TextureAspect, TextureAspects, TextureParts};
use super::kind::TextureDesc;
use super::record::{CopyRegion, Record, TexelRead, TexelRegion, TextureTarget};
use super::usage::TextureUsage;

/// A colour: red, green, blue, alpha. Its type must match the channels of the format: [`Format::channels`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ClearColor {
    /// For floating-point, normalized and sRGB formats.
    Float([f32; 4]),
    /// For formats of signed integers.
    Sint([i32; 4]),
    /// For formats of unsigned integers.
    Uint([u32; 4]),
}

impl ClearColor {
    /// Returns the kind of channels that the colour is for.
    #[must_use]
    pub const fn channels(self) -> ChannelKind {
        match self {
            Self::Float(_) => ChannelKind::Float,
            Self::Sint(_) => ChannelKind::Sint,
            Self::Uint(_) => ChannelKind::Uint,
        }
    }
}

impl From<[f32; 4]> for ClearColor {
    fn from(channels: [f32; 4]) -> Self {
        Self::Float(channels)
    }
}

impl From<[i32; 4]> for ClearColor {
    fn from(channels: [i32; 4]) -> Self {
        Self::Sint(channels)
    }
}

impl From<[u32; 4]> for ClearColor {
    fn from(channels: [u32; 4]) -> Self {
        Self::Uint(channels)
    }
}

/// The value that a clear writes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ClearTexel {
    /// A colour.
    Color(ClearColor),
    /// Depth from 0 to 1, stencil, or both. An aspect that is `None` keeps its contents.
    DepthStencil {
        /// Depth.
        depth: Option<f32>,
        /// Stencil.
        stencil: Option<u8>,
    },
}

impl ClearTexel {
    /// Returns the aspects that the clear writes.
    #[must_use]
    pub fn aspects(self) -> TextureAspects {
        match self {
            Self::Color(_) => TextureAspects::COLOR,
            Self::DepthStencil { depth, stencil } => {
                let mut aspects = TextureAspects::empty();
                aspects.set(TextureAspects::DEPTH, depth.is_some());
                aspects.set(TextureAspects::STENCIL, stencil.is_some());
                aspects
            }
        }
    }
}

/// Consecutive mip levels in consecutive array layers of a texture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubresourceRange {
    /// The first mip level.
    pub mip: u32,
    /// Number of mip levels.
    pub mips: u32,
    /// The first array layer.
    pub layer: u32,
    /// Number of array layers.
    pub layers: u32,
}

impl SubresourceRange {
    /// Returns the range of all mip levels and layers.
    #[must_use]
    pub const fn all(parts: &TextureParts) -> Self {
        Self { mip: 0, mips: parts.mips, layer: 0, layers: parts.layers }
    }

    /// Returns the range of one mip level of one layer.
    #[must_use]
    pub const fn one(mip: u32, layer: u32) -> Self {
        Self { mip, mips: 1, layer, layers: 1 }
    }

    /// Iterates over the subresources of the range as pairs (mip level, layer), layer by layer.
    pub fn each(self) -> impl Iterator<Item = (u32, u32)> {
        let Self { mip, mips, layer, layers } = self;
        let mips = move |layer| (0..mips).map(move |index| (mip.saturating_add(index), layer));
        (0..layers).flat_map(move |index| mips(layer.saturating_add(index)))
    }
}

/// A clear of whole subresources.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TextureClear<T> {
    /// The texture.
    pub texture: T,
    /// The format of the texture.
    pub format: Format,
    /// All aspects of the texture, not only the cleared ones.
    pub aspects: TextureAspects,
    /// The cleared subresources.
    pub range: SubresourceRange,
    /// The value.
    pub value: ClearTexel,
    /// `true` if the previous contents of the subresources may be discarded, in all aspects.
    pub discard: bool,
}

/// The first texel of a box: in a mip level of an array layer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TexelOrigin {
    /// The mip level.
    pub mip: u32,
    /// The first array layer.
    pub layer: u32,
    /// X coordinate of the first texel.
    pub x: u32,
    /// Y coordinate of the first texel.
    pub y: u32,
    /// First slice of a three-dimensional texture.
    pub z: u32,
}

/// A copy of a box of texels from one texture to another, or between subresources of one texture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextureBoxCopy<T> {
    /// The source.
    pub src: T,
    /// The first texel in the source.
    pub from: TexelOrigin,
    /// The destination.
    pub dst: T,
    /// The first texel in the destination.
    pub to: TexelOrigin,
    /// The copied aspect.
    pub aspect: TextureAspect,
    /// All aspects of both textures.
    pub aspects: TextureAspects,
    /// Layout of the texels of both textures.
    pub format: TexelFormat,
    /// Width, height and depth, in texels.
    pub extent: [u32; 3],
    /// Number of array layers.
    pub layers: u32,
    /// `true` if the previous contents of the destination's subresources may be discarded, in all aspects.
    pub discard: bool,
}

/// A resolve of layers of a multisampled texture into one mip level of a texture with one sample per texel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextureResolve<T> {
    /// The multisampled source. It has one mip level.
    pub src: T,
    /// The first layer of the source.
    pub src_layer: u32,
    /// The destination. The previous contents of its subresources may be discarded.
    pub dst: T,
    /// The mip level of the destination.
    pub dst_mip: u32,
    /// The first layer of the destination.
    pub dst_layer: u32,
    /// Number of layers.
    pub layers: u32,
    /// Width and height in texels, which are equal in the source and in the mip level of the destination.
    pub extent: [u32; 2],
    /// Format of both textures.
    pub format: Format,
}

/// A texture whose mip levels are made from its first one, each from the previous level by linear filtering.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MipChain<T> {
    /// The texture. The previous contents of all mip levels except the first may be discarded.
    pub texture: T,
    /// Size, subresources and format of the texture.
    pub parts: TextureParts,
}

/// Alignment of texels in a buffer, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TexelAlignment {
    /// Alignment of the first texel. Not always a power of two.
    pub offset: u64,
    /// Alignment of the distance between rows of blocks. Not always a power of two.
    pub row: u64,
}

impl TexelAlignment {
    /// Returns the alignment that a device requires if it can address texels in a buffer only by whole blocks, as
    /// Vulkan does: offsets are multiples of the bytes of a block and of 4 bytes, and the distance between rows is a
    /// multiple of the bytes of a block.
    #[must_use]
    pub fn of_blocks(format: TexelFormat, aspect: TextureAspect) -> Self {
        let block = u64::from(format.block_bytes(aspect).unwrap_or(1));
        Self { offset: common_alignment(4, block), row: block }
    }

    /// Returns the smallest alignment that satisfies both [`TexelAlignment::of_blocks`] and the alignments of the
    /// device's copies.
    #[must_use]
    pub fn of_device(capabilities: &Capabilities, format: TexelFormat, aspect: TextureAspect) -> Self {
        let Self { offset, row } = Self::of_blocks(format, aspect);
        Self {
            offset: common_alignment(capabilities.texture_copy_offset_alignment.max(1), offset),
            row: common_alignment(capabilities.copy_row_alignment(aspect).max(1), row),
        }
    }
}

/// The transfer commands that a device has. Each `check_…` function returns [`DeviceError::Unsupported`] if the device
/// lacks the command for this format; the error names what is missing.
pub trait TransferSupport: Device {
    /// Returns `true` if [`Transfer::fill_buffer`] is a command of the API. If not, fills are copies from a buffer.
    fn has_fill(&self) -> bool;

    /// Returns the usage that a texture of this format needs to be cleared: [`TextureUsage::COPY_DST`], or a usage as a
    /// target.
    fn clear_usage(&self, format: Format) -> TextureUsage;

    /// Checks that a texture of this description can be cleared to this value. The value has the type of the format.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`].
    fn check_clear(&self, desc: &TextureDesc, value: &ClearTexel) -> Result<(), DeviceError>;

    /// Checks a copy of texels between two formats with texels of the same size.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`].
    fn check_copy(&self, src: Format, dst: Format) -> Result<(), DeviceError>;

    /// Checks a resolve of a texture of this description.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`].
    fn check_resolve(&self, desc: &TextureDesc) -> Result<(), DeviceError>;

    /// Checks blits with linear filtering between mip levels of a texture of this description.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`].
    fn check_blit(&self, desc: &TextureDesc) -> Result<(), DeviceError>;

    /// Returns the alignment of texels of a texture in a buffer.
    fn texel_alignment(&self, format: TexelFormat, aspect: TextureAspect) -> TexelAlignment;
}

/// Records transfer commands, each with its barriers: earlier uses of the resources on this queue happen before the
/// command, later uses after it. Called outside of [`Record::begin_copies`] and [`Record::end_copies`]. Before and
/// after a command, textures are in the layout or state that is set on the recorder, or in the recorder's default.
/// Before a command that may discard the contents of a subresource, the subresource may be in any layout.
///
/// The commands need the support of the device: see [`TransferSupport`]. A command that fails records nothing.
///
/// # Safety of the methods
/// The resources belong to the device, have the usages for the command, and are alive until the commands are complete.
/// All ranges are inside their resources. The command list is in the recording state, and its queue supports the
/// command.
pub trait Transfer<D: Device>: Record<D> {
    /// Sets `size` bytes of a buffer to a repeated value of 32 bits. Offset and size are multiples of 4.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the API has no such command.
    ///
    /// # Safety
    /// The rules of the trait.
    unsafe fn fill_buffer(&mut self, dst: &RawBuffer<D>, offset: u64, size: u64, value: u32)
    -> Result<(), DeviceError>;

    /// Sets all texels of subresources to one value.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// The rules of the trait.
    unsafe fn clear_texture(&mut self, clear: &TextureClear<RawTexture<D>>) -> Result<(), DeviceError>;

    /// Copies regions from one buffer to another one. The regions in `dst` do not overlap.
    ///
    /// # Safety
    /// The rules of the trait.
    unsafe fn copy_buffer_regions(&mut self, src: &RawBuffer<D>, dst: &RawBuffer<D>, regions: &[CopyRegion]) {
        let targets = std::slice::from_ref(dst);
        // SAFETY: the caller promises that buffers and regions are valid.
        unsafe {
            self.begin_copies(targets, &[]);
            self.copy_buffer(src, dst, regions);
            self.end_copies(targets, &[]);
        }
    }

    /// Copies texels from a buffer to a texture. `targets` has the subresources of the regions, each once, all of one
    /// texture.
    ///
    /// # Safety
    /// The rules of the trait.
    unsafe fn copy_buffer_to_box(
        &mut self,
        src: &RawBuffer<D>,
        targets: &[TextureTarget<RawTexture<D>>],
        regions: &[TexelRegion],
    ) {
        let Some(TextureTarget { texture, .. }) = targets.first() else { return };
        // SAFETY: the caller promises that buffer, texture and regions are valid.
        unsafe {
            self.begin_copies(&[], targets);
            regions.iter().for_each(|region| self.copy_buffer_to_texture(src, texture, region));
            self.end_copies(&[], targets);
        }
    }

    /// Copies texels from textures to a buffer in any memory. All reads have the same buffer.
    ///
    /// # Safety
    /// The rules of the trait.
    unsafe fn copy_box_to_buffer(&mut self, reads: &[TexelRead<RawTexture<D>, RawBuffer<D>>]);

    /// Copies texels between textures.
    ///
    /// # Safety
    /// The rules of the trait. The boxes are in different subresources.
    unsafe fn copy_texture_box(&mut self, copy: &TextureBoxCopy<RawTexture<D>>);

    /// Resolves the samples of each texel to one.
    ///
    /// # Safety
    /// The rules of the trait.
    unsafe fn resolve_texture(&mut self, resolve: &TextureResolve<RawTexture<D>>);

    /// Makes all mip levels from the first one.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the API has no such command.
    ///
    /// # Safety
    /// The rules of the trait.
    unsafe fn blit_mips(&mut self, chain: &MipChain<RawTexture<D>>) -> Result<(), DeviceError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_colour_is_that_of_its_numbers() {
        assert_eq!(ClearColor::from([0.5_f32; 4]), ClearColor::Float([0.5; 4]));
        assert_eq!(ClearColor::from([-5_i32; 4]), ClearColor::Sint([-5; 4]));
        assert_eq!(ClearColor::from([5_u32; 4]), ClearColor::Uint([5; 4]));
        let kinds = [ClearColor::from([0.0_f32; 4]), [0_i32; 4].into(), [0_u32; 4].into()].map(ClearColor::channels);
        assert_eq!(kinds, [ChannelKind::Float, ChannelKind::Sint, ChannelKind::Uint]);
    }

    #[test]
    fn a_clear_writes_the_aspects_that_have_a_value() {
        assert_eq!(ClearTexel::Color([0.0; 4].into()).aspects(), TextureAspects::COLOR);
        for (depth, stencil, aspects) in [
            (None, None, TextureAspects::empty()),
            (Some(0.0), None, TextureAspects::DEPTH),
            (None, Some(0), TextureAspects::STENCIL),
            (Some(1.0), Some(1), TextureAspects::DEPTH | TextureAspects::STENCIL),
        ] {
            assert_eq!(ClearTexel::DepthStencil { depth, stencil }.aspects(), aspects, "{depth:?}, {stencil:?}");
        }
    }

    #[test]
    fn a_range_lists_its_mips_layer_by_layer() {
        let range = SubresourceRange { mip: 2, mips: 2, layer: 5, layers: 3 };
        assert_eq!(range.each().collect::<Vec<_>>(), [(2, 5), (3, 5), (2, 6), (3, 6), (2, 7), (3, 7)]);
        assert_eq!(SubresourceRange::one(4, 9), SubresourceRange { mip: 4, mips: 1, layer: 9, layers: 1 });
        assert_eq!(SubresourceRange { mips: 0, ..range }.each().count(), 0);
        assert_eq!(SubresourceRange { layers: 0, ..range }.each().count(), 0);
        let desc = TextureDesc { width: 8, mips: 4, layers: 6, ..Default::default() };
        let parts = <crate::Textures as crate::Kind>::parts(&desc).expect("a texture");
        assert_eq!(SubresourceRange::all(&parts), SubresourceRange { mip: 0, mips: 4, layer: 0, layers: 6 });
    }

    #[test]
    fn texels_in_a_buffer_are_aligned_to_blocks_to_words_and_to_the_rules_of_the_device() {
        let capabilities = crate::capabilities::tests::capabilities();
        let free = Capabilities {
            texture_copy_offset_alignment: 0,
            texture_copy_row_alignment: 0,
            depth_stencil_copy_row_alignment: 0,
            ..capabilities.clone()
        };
        let both = TexelFormat::depth_stencil(2, 1);
        for (format, aspect, of_blocks, of_device) in [
            (TexelFormat::color(1), TextureAspect::Color, [4, 1], [512, 128]),
            (TexelFormat::color(2), TextureAspect::Color, [4, 2], [512, 128]),
            (TexelFormat::color(12), TextureAspect::Color, [12, 12], [1536, 384]),
            (TexelFormat::compressed(4, 4, 16), TextureAspect::Color, [16, 16], [512, 128]),
            (both, TextureAspect::Depth, [4, 2], [512, 256]),
            (both, TextureAspect::Stencil, [4, 1], [512, 256]),
            // The format lacks the aspect.
            (both, TextureAspect::Color, [4, 1], [512, 128]),
        ] {
            let alignment = |[offset, row]: [u64; 2]| TexelAlignment { offset, row };
            assert_eq!(TexelAlignment::of_blocks(format, aspect), alignment(of_blocks), "{format} {aspect:?}");
            let found = TexelAlignment::of_device(&capabilities, format, aspect);
            assert_eq!(found, alignment(of_device), "{format} {aspect:?}");
            let found = TexelAlignment::of_device(&free, format, aspect);
            assert_eq!(found, alignment(of_blocks), "a device without rules");
        }
    }
}
