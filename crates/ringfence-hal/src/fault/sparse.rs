//! Sparse buffers and textures through the fault injector. Calls that create them or bind pages can be made to fail.

use super::{Call, FaultInjector};
use crate::sparse::{PageBind, Sparse, TextureTiling, TilePlace, UnboundReads};
use crate::{BufferInfo, DeviceError, RawBuffer, RawTexture, Requirements, TextureInfo};

// SAFETY: calls that do not fail are forwarded. Bound pages and fences belong to the inner device, which upholds the
// trait.
unsafe impl<D: Sparse> Sparse for FaultInjector<D> {
    type BindQueue = D::BindQueue;

    forward! {
        fn sparse_support(&self) -> Option<UnboundReads>;
        #[fails(MakeSparse)]
        unsafe fn make_sparse(&self, info: &BufferInfo<'_, D>) -> Result<(RawBuffer<D>, Requirements), DeviceError>;
        #[fails(BindPages)]
        unsafe fn bind_pages(
            &self,
            queue: &D::BindQueue,
            buffer: (&RawBuffer<D>, u64),
            binds: &[PageBind<'_, D::Memory>],
            waits: &[(D::Fence, u64)],
            signal: (D::Fence, u64),
        ) -> Result<(), DeviceError>;
        fn sparse_texture_support(&self) -> Option<UnboundReads>;
        #[fails(MakeSparseTexture)]
        unsafe fn make_sparse_texture(
            &self,
            info: &TextureInfo<'_, D>,
        ) -> Result<(RawTexture<D>, TextureTiling), DeviceError>;
        #[fails(BindTiles)]
        unsafe fn bind_tiles(
            &self,
            queue: &D::BindQueue,
            texture: (&RawTexture<D>, &TextureTiling),
            binds: &[PageBind<'_, D::Memory, TilePlace>],
            waits: &[(D::Fence, u64)],
            signal: (D::Fence, u64),
        ) -> Result<(), DeviceError>;
    }
}
