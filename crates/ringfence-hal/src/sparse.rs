//! Sparse resources (Vulkan), reserved ones (Direct3D 12): the trait that a device implements for them.
//!
//! ```text
//!   make_sparse, make_sparse_texture ──▶ a buffer of addresses, a texture of tiles: no byte of memory
//!   bind_pages, bind_tiles           ──▶ on a queue, in order with its other work: page ↔ bytes of a memory object, or none
//! ```

mod tiling;

use super::{BufferInfo, Device, DeviceError, Driver, RawBuffer, RawTexture, Requirements, TextureInfo};

pub use tiling::{TextureTiling, TilePlace};

/// What a read of an unbound page gives. Writes there are lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnboundReads {
    /// Zeros (`residencyNonResidentStrict`; tiled resources tier 2).
    Zero,
    /// Anything, but nothing breaks.
    Undefined,
}

/// A run of pages and the memory behind it: pages of a buffer by number; of a texture tiles of one row, or pages of one
/// tail.
#[derive(Clone, Copy, Debug)]
pub struct PageBind<'a, M, P = u64> {
    /// The first page.
    pub first: P,
    /// How many.
    pub count: u64,
    /// The memory object and the first byte in it; `None` unbinds.
    pub memory: Option<(&'a M, u64)>,
}

/// A device with sparse buffers and textures. See the [module](self).
///
/// # Safety
/// As for [`Driver`].
pub unsafe trait Sparse: Device {
    /// What pages are bound on: `vk::Queue`, `ID3D12CommandQueue`.
    type BindQueue;

    /// What reads of unbound pages of a buffer give; `None` if the device has no sparse buffers.
    fn sparse_support(&self) -> Option<UnboundReads>;

    /// Makes a buffer without memory, and says what it needs: whole pages, whose bytes are the alignment. It is
    /// destroyed as any buffer ([`Create::destroy`](super::Create::destroy)).
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`]; out of memory or addresses, or the description is invalid.
    ///
    /// # Safety
    /// What `info` points to is valid, as the API demands.
    unsafe fn make_sparse(&self, info: &BufferInfo<'_, Self>) -> Result<(RawBuffer<Self>, Requirements), DeviceError>;

    /// Binds pages once `waits` are reached and the queue's earlier work is through, and signals then.
    ///
    /// # Errors
    /// Device lost or out of memory; nothing is bound then.
    ///
    /// # Safety
    /// All is this device's and alive; `buffer` is the buffer and the bytes of one of its pages. The queue can bind,
    /// and nothing else uses it meanwhile. The runs do not overlap and lie inside the buffer; the memory of each lies
    /// inside its memory object, aligned, of a type that the requirements allow. Work that uses pages which lose their
    /// memory is ordered before.
    unsafe fn bind_pages(
        &self,
        queue: &Self::BindQueue,
        buffer: (&RawBuffer<Self>, u64),
        binds: &[PageBind<'_, <Self as Driver>::Memory>],
        waits: &[(Self::Fence, u64)],
        signal: (Self::Fence, u64),
    ) -> Result<(), DeviceError>;

    /// What reads of unbound pages of a texture give; `None` if the device has no sparse textures.
    fn sparse_texture_support(&self) -> Option<UnboundReads>;

    /// Makes a texture without memory. It is destroyed as any texture ([`Create::destroy`](super::Create::destroy)).
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`], for this description too; out of memory or addresses, or it is invalid.
    ///
    /// # Safety
    /// What `info` points to is valid, as the API demands.
    unsafe fn make_sparse_texture(
        &self,
        info: &TextureInfo<'_, Self>,
    ) -> Result<(RawTexture<Self>, TextureTiling), DeviceError>;

    /// Binds tiles and pages of tails: as [`Sparse::bind_pages`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there; `texture` is the texture and its own tiling.
    unsafe fn bind_tiles(
        &self,
        queue: &Self::BindQueue,
        texture: (&RawTexture<Self>, &TextureTiling),
        binds: &[PageBind<'_, <Self as Driver>::Memory, TilePlace>],
        waits: &[(Self::Fence, u64)],
        signal: (Self::Fence, u64),
    ) -> Result<(), DeviceError>;
}
