//! Sparse resources (Vulkan) or reserved resources (Direct3D 12): the trait that a device implements for them.
//!
//! ```text
//!   make_sparse, make_sparse_texture ──▶ a buffer of addresses, a texture of tiles: no byte of memory
//!   bind_pages, bind_tiles           ──▶ on a queue, in order with its other work: page ↔ bytes of a memory object
//! ```

mod tiling;

use super::{BufferInfo, Device, DeviceError, Driver, RawBuffer, RawTexture, Requirements, TextureInfo};

pub use tiling::{TextureTiling, TilePlace};

/// Result of reading an unbound page. Writes to such pages are discarded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnboundReads {
    /// Zeros (`residencyNonResidentStrict`; tiled resources tier 2).
    Zero,
    /// Undefined values, but no other effect.
    Undefined,
}

/// A run of pages and the memory that they are bound to: consecutive pages of a buffer, consecutive tiles in one row of
/// a texture, or consecutive pages of one mip tail.
#[derive(Clone, Copy, Debug)]
pub struct PageBind<'a, M, P = u64> {
    /// The first page.
    pub first: P,
    /// Number of pages.
    pub count: u64,
    /// The memory object and the offset in it, in bytes; `None` unbinds the pages.
    pub memory: Option<(&'a M, u64)>,
}

/// A device with sparse buffers and textures. See the [module](self).
///
/// # Safety
/// The rules of [`Driver`].
pub unsafe trait Sparse: Device {
    /// The queue that binds pages: `vk::Queue`, `ID3D12CommandQueue`.
    type BindQueue;

    /// Returns the result of reads from unbound pages of a buffer; `None` if the device has no sparse buffers.
    fn sparse_support(&self) -> Option<UnboundReads>;

    /// Creates a buffer without memory. Returns its requirements: the size is whole pages, and the alignment is the
    /// size of a page. The buffer is destroyed like any other ([`Create::destroy`](super::Create::destroy)).
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`]; out of memory or address space; the description is invalid.
    ///
    /// # Safety
    /// Everything that `info` points to is valid according to the API.
    unsafe fn make_sparse(&self, info: &BufferInfo<'_, Self>) -> Result<(RawBuffer<Self>, Requirements), DeviceError>;

    /// Binds pages once `waits` are reached and the queue's earlier work is complete, then signals `signal`.
    ///
    /// # Errors
    /// Device lost or out of memory. Then no page is bound.
    ///
    /// # Safety
    /// - All objects belong to this device and are alive.
    /// - `buffer` is the buffer and the size of its pages in bytes.
    /// - The queue supports sparse binding, and no other thread uses it during the call.
    /// - The runs do not overlap and are inside the buffer.
    /// - The memory of each run is inside its memory object, aligned, and of a type that the requirements allow.
    /// - Work that uses pages that lose their memory is ordered before the bind.
    unsafe fn bind_pages(
        &self,
        queue: &Self::BindQueue,
        buffer: (&RawBuffer<Self>, u64),
        binds: &[PageBind<'_, <Self as Driver>::Memory>],
        waits: &[(Self::Fence, u64)],
        signal: (Self::Fence, u64),
    ) -> Result<(), DeviceError>;

    /// Returns the result of reads from unbound pages of a texture; `None` if the device has no sparse textures.
    fn sparse_texture_support(&self) -> Option<UnboundReads>;

    /// Creates a texture without memory. The texture is destroyed like any other
    /// ([`Create::destroy`](super::Create::destroy)).
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`], also for this description alone; out of memory or address space; the description
    /// is invalid.
    ///
    /// # Safety
    /// Everything that `info` points to is valid according to the API.
    unsafe fn make_sparse_texture(
        &self,
        info: &TextureInfo<'_, Self>,
    ) -> Result<(RawTexture<Self>, TextureTiling), DeviceError>;

    /// Binds tiles and pages of mip tails. Otherwise the same as [`Sparse::bind_pages`].
    ///
    /// # Errors
    /// Those of [`Sparse::bind_pages`].
    ///
    /// # Safety
    /// The rules of [`Sparse::bind_pages`], but `texture` is the texture and its tiling.
    unsafe fn bind_tiles(
        &self,
        queue: &Self::BindQueue,
        texture: (&RawTexture<Self>, &TextureTiling),
        binds: &[PageBind<'_, <Self as Driver>::Memory, TilePlace>],
        waits: &[(Self::Fence, u64)],
        signal: (Self::Fence, u64),
    ) -> Result<(), DeviceError>;
}
