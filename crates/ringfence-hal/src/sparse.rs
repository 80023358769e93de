//! Sparse resources (Vulkan) or reserved resources (Direct3D 12): the trait that a device implements to support them.
//!
//! ```text
//!   make_sparse, make_sparse_texture ──▶ a buffer or a texture without memory
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

/// A run of pages, and the memory to bind them to. A run consists of consecutive pages of a buffer, consecutive tiles
/// in one row of a mip level, or consecutive pages of one mip tail.
#[derive(Clone, Copy, Debug)]
pub struct PageBind<'a, M, P = u64> {
    /// The first page.
    pub first: P,
    /// Number of pages.
    pub count: u64,
    /// The memory object and the offset in it, in bytes; `None` unbinds the pages.
    pub memory: Option<(&'a M, u64)>,
}

/// A device with sparse buffers and textures: their creation, and the binding of their pages to memory.
///
/// # Safety
/// The rules of [`Driver`].
pub unsafe trait Sparse: Device {
    /// The queue that binds pages: `vk::Queue`, `ID3D12CommandQueue`.
    type BindQueue;

    /// Returns the result of reads from unbound pages of a buffer. Returns `None` if the device has no sparse buffers.
    fn sparse_support(&self) -> Option<UnboundReads>;

    /// Creates a buffer without memory. Returns the buffer and its requirements: the size is a multiple of the page
    /// size, and the alignment is the page size. The buffer is destroyed like any other
    /// ([`Create::destroy`](super::Create::destroy)).
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`]; out of memory or address space; the description is invalid.
    ///
    /// # Safety
    /// Everything that `info` points to is valid according to the API.
    unsafe fn make_sparse(&self, info: &BufferInfo<'_, Self>) -> Result<(RawBuffer<Self>, Requirements), DeviceError>;

    /// Submits a bind to the queue. The queue waits until its earlier work is complete and all fences in `waits` have
    /// reached their values. Then it binds the pages, and sets the fence in `signal` to the value in `signal`.
    ///
    /// # Errors
    /// Device lost or out of memory. No page is then bound.
    ///
    /// # Safety
    /// - All objects belong to this device and are alive.
    /// - `buffer` is the buffer and the size of its pages in bytes.
    /// - The queue supports sparse binding, and no other thread uses it during the call.
    /// - The runs do not overlap and are inside the buffer.
    /// - The memory of each run is inside its memory object, aligned, and of a type that the requirements allow.
    /// - If a page is bound to memory, all work that uses this binding is ordered before the new bind.
    unsafe fn bind_pages(
        &self,
        queue: &Self::BindQueue,
        buffer: (&RawBuffer<Self>, u64),
        binds: &[PageBind<'_, <Self as Driver>::Memory>],
        waits: &[(Self::Fence, u64)],
        signal: (Self::Fence, u64),
    ) -> Result<(), DeviceError>;

    /// Returns the result of reads from unbound pages of a texture. Returns `None` if the device has no sparse
    /// textures.
    fn sparse_texture_support(&self) -> Option<UnboundReads>;

    /// Creates a texture without memory. The texture is destroyed like any other
    /// ([`Create::destroy`](super::Create::destroy)).
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device has no sparse textures, or none with this description; out of memory
    /// or address space; the description is invalid.
    ///
    /// # Safety
    /// Everything that `info` points to is valid according to the API.
    unsafe fn make_sparse_texture(
        &self,
        info: &TextureInfo<'_, Self>,
    ) -> Result<(RawTexture<Self>, TextureTiling), DeviceError>;

    /// Does the same as [`Sparse::bind_pages`] for tiles and for pages of mip tails.
    ///
    /// # Errors
    /// The errors of [`Sparse::bind_pages`].
    ///
    /// # Safety
    /// The rules of [`Sparse::bind_pages`]. `texture` is the texture and its tiling.
    unsafe fn bind_tiles(
        &self,
        queue: &Self::BindQueue,
        texture: (&RawTexture<Self>, &TextureTiling),
        binds: &[PageBind<'_, <Self as Driver>::Memory, TilePlace>],
        waits: &[(Self::Fence, u64)],
        signal: (Self::Fence, u64),
    ) -> Result<(), DeviceError>;
}
