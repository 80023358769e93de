//! Recording of copies: the part of a command list that the library needs.
//!
//! ```text
//!   UploadBatch ─record─▶ begin_copies ▌ copy_buffer … copy_buffer_to_texture … ▌ end_copies
//!                         all barriers                                          all barriers
//!                         in one call                                           in one call
//! ```
//!
//! Each backend has a recorder that wraps the API's own command list (`vulkan::CopyRecorder`, `d3d12::CopyRecorder`).
//! The recorder of the simulated device is a list of commands. If a program has its own command lists, it can implement
//! [`Record`] for them.

use super::device::{Device, RawBuffer, RawTexture};
use super::format::{TexelFormat, TextureAspect};

pub use super::format::{TextureAspects, TextureParts};

/// A range of bytes that is copied from one buffer to another. The type has the memory layout of `VkBufferCopy`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct CopyRegion {
    /// Offset in the source, in bytes.
    pub src_offset: u64,
    /// Offset in the destination, in bytes.
    pub dst_offset: u64,
    /// Size in bytes; at least 1.
    pub size: u64,
}

/// Maximum distance between rows of blocks in a buffer, in bytes: the limit of Vulkan. Direct3D 12 has 32 bits for it.
pub const ROW_BYTES_MAX: u64 = i32::MAX as u64;

/// A box of texels in one mip level of one array layer of a texture, and its location in a buffer. In the buffer,
/// consecutive rows of blocks are `row_bytes` apart, and the depth slices follow each other without a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TexelRegion {
    /// Offset in the buffer, in bytes.
    pub buffer_offset: u64,
    /// Distance between rows of blocks in the buffer, in bytes; a multiple of the bytes of a block, at most
    /// [`ROW_BYTES_MAX`].
    pub row_bytes: u64,
    /// Layout of the texels in the buffer. The format must have the aspect `aspect`.
    pub format: TexelFormat,
    /// The copied aspect: colour, depth or stencil.
    pub aspect: TextureAspect,
    /// The mip level.
    pub mip: u32,
    /// The array layer.
    pub layer: u32,
    /// Horizontal offset of the first texel; a multiple of the block width.
    pub x: u32,
    /// Vertical offset of the first texel; a multiple of the block height.
    pub y: u32,
    /// First depth slice; 0 unless the texture is three-dimensional.
    pub z: u32,
    /// Width in texels. The region ends at the end of a block or at the edge of the mip level.
    pub width: u32,
    /// Height in texels. The region ends at the end of a block or at the edge of the mip level.
    pub height: u32,
    /// Number of depth slices; 1 unless the texture is three-dimensional.
    pub depth: u32,
}

impl TexelRegion {
    /// Returns the size of a block of `aspect` in the buffer, in bytes; 0 if the format lacks the aspect.
    #[must_use]
    pub const fn block_bytes(&self) -> u32 {
        match self.format.block_bytes(self.aspect) {
            Some(bytes) => bytes,
            None => 0,
        }
    }

    /// Returns the width and height of the region in blocks. A partial block counts as one.
    #[must_use]
    pub const fn blocks(&self) -> [u32; 2] {
        let [width, height] = self.format.block();
        [self.width.div_ceil(width), self.height.div_ceil(height)]
    }
}

/// A mip level of an array layer of a texture that is the destination of copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextureTarget<T> {
    /// The texture.
    pub texture: T,
    /// The mip level.
    pub mip: u32,
    /// The array layer.
    pub layer: u32,
    /// All aspects of the texture, not only the copied ones.
    pub aspects: TextureAspects,
    /// `true` if the previous contents of all aspects may be discarded. This is the case for the first use of a
    /// texture.
    pub discard: bool,
}

/// A copy of texels from a texture to a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TexelRead<T, B> {
    /// The source.
    pub src: T,
    /// All aspects of the texture, not only the copied one.
    pub aspects: TextureAspects,
    /// The destination. For [`Record::read_texels`], it is in readback memory. No other work may use the destination
    /// bytes during the copy.
    pub dst: B,
    /// The copied texels and their location in the buffer.
    pub region: TexelRegion,
}

/// A copy of a whole texture to another one with the same description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextureCopy<T> {
    /// The source.
    pub src: T,
    /// The destination. Its previous contents may be discarded.
    pub dst: T,
    /// The subresources of both textures.
    pub parts: TextureParts,
}

/// Records copies into a command list.
pub trait Record<D: Device> {
    /// Records barriers: earlier uses of these resources on this queue happen before the following copies write to
    /// them, and earlier writes to any buffer happen before the copies read that buffer. Each buffer, and each mip
    /// level of a layer of a texture, is listed once.
    ///
    /// # Safety
    /// The resources belong to the device and are alive until the commands are complete. The command list is in the
    /// recording state.
    unsafe fn begin_copies(&mut self, buffers: &[RawBuffer<D>], textures: &[TextureTarget<RawTexture<D>>]);

    /// Copies regions from one buffer to another.
    ///
    /// # Safety
    /// The rules of [`Record::begin_copies`]; `dst` was in its list of buffers. The regions are inside both buffers,
    /// and the regions in `dst` do not overlap.
    unsafe fn copy_buffer(&mut self, src: &RawBuffer<D>, dst: &RawBuffer<D>, regions: &[CopyRegion]);

    /// Copies texels from a buffer to a texture.
    ///
    /// # Safety
    /// The rules of [`Record::begin_copies`]; `dst` was in its list of textures. The region is inside the buffer and
    /// the texture, and has the alignment that the device requires.
    unsafe fn copy_buffer_to_texture(&mut self, src: &RawBuffer<D>, dst: &RawTexture<D>, region: &TexelRegion);

    /// Copies texels from textures to buffers, with the necessary barriers. Called outside of [`Record::begin_copies`]
    /// and [`Record::end_copies`]. Earlier uses of the textures on this queue happen before the copies, later uses
    /// after them. The host sees the bytes once the submission is complete. Before and after the copies, the textures
    /// are in the layout or state that is set on the recorder, or its default.
    ///
    /// # Safety
    /// The resources belong to the device and are alive until the commands are complete. Each region is inside its
    /// texture and its buffer, and has the alignment that the device requires. The buffers are in readback memory. The
    /// command list is in the recording state.
    unsafe fn read_texels(&mut self, reads: &[TexelRead<RawTexture<D>, RawBuffer<D>>]);

    /// Copies whole textures, with the necessary barriers. Called outside of [`Record::begin_copies`] and
    /// [`Record::end_copies`]. Earlier uses of the textures on this queue happen before the copies, later uses after
    /// them. Before and after the copies, the sources are in the layout or state that is set on the recorder, or its
    /// default. The destinations are new textures; after the copies, they are in the same layout or state as the
    /// sources.
    ///
    /// # Safety
    /// The textures belong to the device and are alive until the commands are complete. Both textures of a copy have
    /// the size, subresources and format of its `parts`. No texture is in two copies. The command list is in the
    /// recording state.
    unsafe fn copy_textures(&mut self, copies: &[TextureCopy<RawTexture<D>>]);

    /// Records barriers, so that later uses of these resources on this queue happen after the copies.
    ///
    /// # Safety
    /// The rules of [`Record::begin_copies`], which was called with the same resources.
    unsafe fn end_copies(&mut self, buffers: &[RawBuffer<D>], textures: &[TextureTarget<RawTexture<D>>]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_counts_whole_blocks_of_its_aspect() {
        let region = |format: TexelFormat, aspect, width, height| TexelRegion {
            buffer_offset: 0,
            row_bytes: 0,
            format,
            aspect,
            mip: 0,
            layer: 0,
            x: 0,
            y: 0,
            z: 0,
            width,
            height,
            depth: 1,
        };
        let (astc, both) = (TexelFormat::compressed(10, 6, 16), TexelFormat::depth_stencil(4, 1));
        for (format, aspect, [width, height], blocks, bytes) in [
            (TexelFormat::color(12), TextureAspect::Color, [3, 5], [3, 5], 12),
            (astc, TextureAspect::Color, [10, 6], [1, 1], 16),
            (astc, TextureAspect::Color, [11, 6], [2, 1], 16),
            (astc, TextureAspect::Color, [20, 13], [2, 3], 16),
            (both, TextureAspect::Depth, [2, 7], [2, 7], 4),
            (both, TextureAspect::Stencil, [2, 7], [2, 7], 1),
            (both, TextureAspect::Color, [2, 7], [2, 7], 0),
        ] {
            let region = region(format, aspect, width, height);
            assert_eq!((region.blocks(), region.block_bytes()), (blocks, bytes), "{region:?}");
        }
    }
}
