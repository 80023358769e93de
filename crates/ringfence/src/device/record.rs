//! Where copies are recorded: the one thing that the library asks of a command list.
//!
//! ```text
//!   UploadBatch ──play──▶ begin_copies ▌ copy_buffer … copy_buffer_to_texture … ▌ end_copies
//!                         all barriers                                          all barriers
//!                         in one call                                           in one call
//! ```
//!
//! Each backend has a recorder over the API's own command list (`vulkan::CopyRecorder`, `d3d12::CopyRecorder`); for the
//! simulated device it is a list of its commands. A program with a renderer of its own may implement [`Record`] over
//! whatever it records with.

use super::{Device, RawBuffer, RawTexture, flags};

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

/// Texels in a buffer, and where they go in a texture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TexelRegion {
    /// First byte in the buffer.
    pub buffer_offset: u64,
    /// Bytes from one row to the next in the buffer.
    pub row_bytes: u64,
    /// Bytes a texel.
    pub texel_bytes: u32,
    /// The mip level.
    pub mip: u32,
    /// The array layer.
    pub layer: u32,
    /// First texel across.
    pub x: u32,
    /// First texel down.
    pub y: u32,
    /// Texels across.
    pub width: u32,
    /// Texels down.
    pub height: u32,
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
    /// Whether what it held before is of no use (as on its first use ever).
    pub discard: bool,
}

flags! {
    /// What a texel has.
    TextureAspects {
        /// Colour.
        COLOR = 0;
        /// Depth.
        DEPTH = 1;
        /// Stencil.
        STENCIL = 2;
    }
}

/// What all of a texture is, for a copy of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextureParts {
    /// Texels across.
    pub width: u32,
    /// Texels down.
    pub height: u32,
    /// Texels deep; 1 unless it has three dimensions.
    pub depth: u32,
    /// Array layers.
    pub layers: u32,
    /// Mip levels.
    pub mips: u32,
    /// What a texel has.
    pub aspects: TextureAspects,
}

impl TextureParts {
    /// Texels across, down and deep of a mip level; at least 1 each.
    #[must_use]
    pub fn extent(&self, mip: u32) -> [u32; 3] {
        [self.width, self.height, self.depth].map(|side| side.checked_shr(mip).unwrap_or(0).max(1))
    }
}

/// A texture that is copied as a whole to another one that was made alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextureCopy<T> {
    /// Copied from.
    pub src: T,
    /// Copied to. What it held before is of no use.
    pub dst: T,
    /// What both have.
    pub parts: TextureParts,
}

/// Records copies into a command list.
pub trait Record<D: Device> {
    /// Whatever is recorded or submitted to the queue before and uses these resources comes before the copies that
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

    /// Copies textures as a whole, outside of [`Record::begin_copies`] and [`Record::end_copies`], with what barriers it
    /// takes: what is recorded or submitted to the queue before and uses them comes before, what comes after comes after.
    /// The sources are before and after in the layout or state that the recorder is told of or takes textures to be in;
    /// the destinations are new, and are in it afterwards.
    ///
    /// # Safety
    /// The textures are the device's and alive until the commands are complete; both of a copy were made with the
    /// description that its parts are of, and all of them are different ones; the list is being recorded.
    unsafe fn copy_textures(&mut self, copies: &[TextureCopy<RawTexture<D>>]);

    /// Whatever is recorded or submitted to the queue after and uses these resources comes after the copies.
    ///
    /// # Safety
    /// As for [`Record::begin_copies`], which has listed the same.
    unsafe fn end_copies(&mut self, buffers: &[RawBuffer<D>], textures: &[TextureTarget<RawTexture<D>>]);
}
