//! Sparse buffers and textures through the fault injector: making one and binding its pages can fail.

use super::{Call, FaultInjector};
use crate::sparse::{PageBind, Sparse, TextureTiling, TilePlace, UnboundReads};
use crate::{BufferInfo, DeviceError, RawBuffer, RawTexture, Requirements, TextureInfo};

// SAFETY: each call that is not made to fail is forwarded: bound pages and fences are the inner device's, which upholds
// the trait.
unsafe impl<D: Sparse> Sparse for FaultInjector<D> {
    type BindQueue = D::BindQueue;

    fn sparse_support(&self) -> Option<UnboundReads> {
        self.inner.sparse_support()
    }

    unsafe fn make_sparse(&self, info: &BufferInfo<'_, D>) -> Result<(RawBuffer<D>, Requirements), DeviceError> {
        self.pass(Call::MakeSparse, None)?;
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.make_sparse(info) }
    }

    unsafe fn bind_pages(
        &self,
        queue: &D::BindQueue,
        buffer: (&RawBuffer<D>, u64),
        binds: &[PageBind<'_, D::Memory>],
        waits: &[(D::Fence, u64)],
        signal: (D::Fence, u64),
    ) -> Result<(), DeviceError> {
        self.pass(Call::BindPages, None)?;
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.bind_pages(queue, buffer, binds, waits, signal) }
    }

    fn sparse_texture_support(&self) -> Option<UnboundReads> {
        self.inner.sparse_texture_support()
    }

    unsafe fn make_sparse_texture(
        &self,
        info: &TextureInfo<'_, D>,
    ) -> Result<(RawTexture<D>, TextureTiling), DeviceError> {
        self.pass(Call::MakeSparseTexture, None)?;
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.make_sparse_texture(info) }
    }

    unsafe fn bind_tiles(
        &self,
        queue: &D::BindQueue,
        texture: (&RawTexture<D>, &TextureTiling),
        binds: &[PageBind<'_, D::Memory, TilePlace>],
        waits: &[(D::Fence, u64)],
        signal: (D::Fence, u64),
    ) -> Result<(), DeviceError> {
        self.pass(Call::BindTiles, None)?;
        // SAFETY: the objects are the inner device's, for which the caller makes the same promise.
        unsafe { self.inner.bind_tiles(queue, texture, binds, waits, signal) }
    }
}
