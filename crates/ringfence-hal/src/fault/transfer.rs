//! Transfer commands through the fault injector. The calls are forwarded unchanged.

use super::FaultInjector;
use super::record::Recorder;
use crate::record::{CopyRegion, TexelRead, TexelRegion, TextureTarget};
use crate::transfer::{
    ClearTexel, MipChain, TexelAlignment, TextureBoxCopy, TextureClear, TextureResolve, Transfer, TransferSupport,
};
use crate::{
    Device, DeviceError, Format, RawBuffer, RawTexture, TexelFormat, TextureAspect, TextureDesc, TextureUsage,
};

impl<D: TransferSupport> TransferSupport for FaultInjector<D> {
    forward! {
        fn has_fill(&self) -> bool;
        fn clear_usage(&self, format: Format) -> TextureUsage;
        fn check_clear(&self, desc: &TextureDesc, value: &ClearTexel) -> Result<(), DeviceError>;
        fn check_copy(&self, src: Format, dst: Format) -> Result<(), DeviceError>;
        fn check_resolve(&self, desc: &TextureDesc) -> Result<(), DeviceError>;
        fn check_blit(&self, desc: &TextureDesc) -> Result<(), DeviceError>;
        fn texel_alignment(&self, format: TexelFormat, aspect: TextureAspect) -> TexelAlignment;
    }
}

impl<D: Device, R: Transfer<D>> Transfer<FaultInjector<D>> for Recorder<R> {
    unsafe fn fill_buffer(
        &mut self,
        dst: &RawBuffer<D>,
        offset: u64,
        size: u64,
        value: u32,
    ) -> Result<(), DeviceError> {
        // SAFETY: here and below, the caller makes the same promise for the same objects.
        unsafe { self.0.fill_buffer(dst, offset, size, value) }
    }

    unsafe fn clear_texture(&mut self, clear: &TextureClear<RawTexture<D>>) -> Result<(), DeviceError> {
        // SAFETY: as above.
        unsafe { self.0.clear_texture(clear) }
    }

    unsafe fn copy_buffer_regions(&mut self, src: &RawBuffer<D>, dst: &RawBuffer<D>, regions: &[CopyRegion]) {
        // SAFETY: as above.
        unsafe { self.0.copy_buffer_regions(src, dst, regions) };
    }

    unsafe fn copy_buffer_to_box(
        &mut self,
        src: &RawBuffer<D>,
        targets: &[TextureTarget<RawTexture<D>>],
        regions: &[TexelRegion],
    ) {
        // SAFETY: as above.
        unsafe { self.0.copy_buffer_to_box(src, targets, regions) };
    }

    unsafe fn copy_box_to_buffer(&mut self, reads: &[TexelRead<RawTexture<D>, RawBuffer<D>>]) {
        // SAFETY: as above.
        unsafe { self.0.copy_box_to_buffer(reads) };
    }

    unsafe fn copy_texture_box(&mut self, copy: &TextureBoxCopy<RawTexture<D>>) {
        // SAFETY: as above.
        unsafe { self.0.copy_texture_box(copy) };
    }

    unsafe fn resolve_texture(&mut self, resolve: &TextureResolve<RawTexture<D>>) {
        // SAFETY: as above.
        unsafe { self.0.resolve_texture(resolve) };
    }

    unsafe fn blit_mips(&mut self, chain: &MipChain<RawTexture<D>>) -> Result<(), DeviceError> {
        // SAFETY: as above.
        unsafe { self.0.blit_mips(chain) }
    }
}
