//! Recording of copies: all that the library needs of a command list.
//!
//! ```text
//!   UploadBatch ─record─▶ begin_copies ▌ copy_buffer … copy_buffer_to_texture … ▌ end_copies
//!                         all barriers                                          all barriers
//!                         in one call                                           in one call
//! ```
//!
//! Each backend has a recorder over the API's own command list (`vulkan::CopyRecorder`, `d3d12::CopyRecorder`); for the
//! simulated device it is a list of its commands. A program with a renderer of its own may implement [`Record`] over
//! whatever it records with.

use super::device::{Device, RawBuffer, RawTexture};
use super::format::{TexelFormat, TextureAspect};

pub use super::format::{TextureAspects, TextureParts};

/// A run of bytes that is copied from one buffer to another. Laid out as `VkBufferCopy`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct CopyRegion {
    /// First byte in the source.
    pub src_offset: u64,
    /// First byte in the destination.
    pub dst_offset: u64,
    /// Bytes; at least 1.
    pub size: u64,
}

/// A box of texels in one mip level of one array layer of a texture, and the same texels in a buffer: rows of blocks at
/// a distance of `row_bytes`, those of the next slice after them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TexelRegion {
    /// First byte in the buffer.
    pub buffer_offset: u64,
    /// Bytes from one row of blocks to the next in the buffer; whole blocks.
    pub row_bytes: u64,
    /// How the texels lie in the buffer. It has `aspect`.
    pub format: TexelFormat,
    /// Colour, depth or stencil.
    pub aspect: TextureAspect,
    /// The mip level.
    pub mip: u32,
    /// The array layer.
    pub layer: u32,
    /// First texel across; a multiple of a block's.
    pub x: u32,
    /// First texel down; a multiple of a block's.
    pub y: u32,
    /// First slice; 0 unless the texture has three dimensions.
    pub z: u32,
    /// Texels across: whole blocks, or up to the end of the mip level.
    pub width: u32,
    /// Texels down: likewise.
    pub height: u32,
    /// Slices; 1 unless the texture has three dimensions.
    pub depth: u32,
}

impl TexelRegion {
    /// Bytes of a block of this aspect in the buffer; 0 if the format has no such aspect.
    #[must_use]
    pub const fn block_bytes(&self) -> u32 {
        match self.format.block_bytes(self.aspect) {
            Some(bytes) => bytes,
            None => 0,
        }
    }

    /// Blocks across and down: those that are not full count too.
    #[must_use]
    pub const fn blocks(&self) -> [u32; 2] {
        let [width, height] = self.format.block();
        [self.width.div_ceil(width), self.height.div_ceil(height)]
    }
}

/// A texture's mip of a layer that is copied to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextureTarget<T> {
    /// The texture.
    pub texture: T,
    /// The mip level.
    pub mip: u32,
    /// The array layer.
    pub layer: u32,
    /// All aspects of the texture, whichever is copied.
    pub aspects: TextureAspects,
    /// Whether its previous contents, in all aspects, may be discarded (as on its first use).
    pub discard: bool,
}

/// Texels that are copied from a texture to a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TexelRead<T, B> {
    /// Copied from.
    pub src: T,
    /// All aspects of the texture, whichever is copied.
    pub aspects: TextureAspects,
    /// Copied to. It lies in readback memory, and nothing else uses these bytes meanwhile.
    pub dst: B,
    /// Which texels, and where they lie in the buffer.
    pub region: TexelRegion,
}

/// A texture that is copied as a whole to another one that was made alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextureCopy<T> {
    /// Copied from.
    pub src: T,
    /// Copied to. Its previous contents may be discarded.
    pub dst: T,
    /// What both have.
    pub parts: TextureParts,
}

/// Records copies into a command list.
pub trait Record<D: Device> {
    /// What is recorded or submitted to the queue before and uses these resources comes before the copies that
    /// follow. Each is listed once.
    ///
    /// # Safety
    /// The resources are the device's and alive until the commands are complete; the list is being recorded.
    unsafe fn begin_copies(&mut self, buffers: &[RawBuffer<D>], textures: &[TextureTarget<RawTexture<D>>]);

    /// Copies regions from one buffer to another.
    ///
    /// # Safety
    /// As for [`Record::begin_copies`], which has listed `dst`; the regions lie inside both buffers and those of `dst`
    /// do not overlap.
    unsafe fn copy_buffer(&mut self, src: &RawBuffer<D>, dst: &RawBuffer<D>, regions: &[CopyRegion]);

    /// Copies texels from a buffer to a texture.
    ///
    /// # Safety
    /// As for [`Record::begin_copies`], which has listed `dst`; the region lies inside both, aligned as the device
    /// demands.
    unsafe fn copy_buffer_to_texture(&mut self, src: &RawBuffer<D>, dst: &RawTexture<D>, region: &TexelRegion);

    /// Copies texels from textures to buffers, outside of [`Record::begin_copies`] and [`Record::end_copies`], with
    /// what barriers it takes: what is recorded or submitted to the queue before and uses the textures comes before,
    /// what comes after comes after, and the host sees the bytes once the submission is complete. The textures are
    /// before and after in the layout or state that the recorder assumes.
    ///
    /// # Safety
    /// The resources are the device's and alive until the commands are complete; each region lies inside both, aligned
    /// as the device demands; the buffers lie in readback memory; the list is being recorded.
    unsafe fn read_texels(&mut self, reads: &[TexelRead<RawTexture<D>, RawBuffer<D>>]);

    /// Copies textures as a whole, outside of [`Record::begin_copies`] and [`Record::end_copies`], with what barriers
    /// it takes: what is recorded or submitted to the queue before and uses them comes before, what comes after comes
    /// after. The sources are before and after in the layout or state that the recorder was given or assumes; the
    /// destinations are new, and are in it afterwards.
    ///
    /// # Safety
    /// The textures are the device's and alive until the commands are complete; both of a copy were made with the
    /// description that its parts are of, and all of them are different ones; the list is being recorded.
    unsafe fn copy_textures(&mut self, copies: &[TextureCopy<RawTexture<D>>]);

    /// What is recorded or submitted to the queue after and uses these resources comes after the copies.
    ///
    /// # Safety
    /// As for [`Record::begin_copies`], which has listed the same.
    unsafe fn end_copies(&mut self, buffers: &[RawBuffer<D>], textures: &[TextureTarget<RawTexture<D>>]);
}
