//! Recording of copies through the fault injector. The calls are forwarded unchanged.

use super::FaultInjector;
use crate::record::{CopyRegion, Record, TexelRead, TexelRegion, TextureCopy, TextureTarget};
use crate::{Device, RawBuffer, RawTexture};

/// A recorder of the inner device, used as a recorder of its [`FaultInjector`]. Both devices have the same objects, so
/// the calls are forwarded unchanged.
///
/// ```
/// # use ringfence_hal::fault::{FaultInjector, Recorder};
/// # use ringfence_hal::record::Record;
/// # fn records<D: ringfence_hal::Device>(_: &mut impl Record<FaultInjector<D>>) {}
/// # fn example<D: ringfence_hal::Device, R: Record<D>>(commands: R) -> R {
/// let mut recorder = Recorder(commands); // the recorder of the inner device
/// // unsafe { batch.record(&mut recorder) }
/// # records::<D>(&mut recorder);
/// let commands = recorder.0;
/// # commands
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Recorder<R>(pub R);

impl<D: Device, R: Record<D>> Record<FaultInjector<D>> for Recorder<R> {
    unsafe fn begin_copies(&mut self, buffers: &[RawBuffer<D>], textures: &[TextureTarget<RawTexture<D>>]) {
        // SAFETY: here and below, the caller makes the same promise for the same objects.
        unsafe { self.0.begin_copies(buffers, textures) };
    }

    unsafe fn copy_buffer(&mut self, src: &RawBuffer<D>, dst: &RawBuffer<D>, regions: &[CopyRegion]) {
        // SAFETY: as above.
        unsafe { self.0.copy_buffer(src, dst, regions) };
    }

    unsafe fn copy_buffer_to_texture(&mut self, src: &RawBuffer<D>, dst: &RawTexture<D>, region: &TexelRegion) {
        // SAFETY: as above.
        unsafe { self.0.copy_buffer_to_texture(src, dst, region) };
    }

    unsafe fn read_texels(&mut self, reads: &[TexelRead<RawTexture<D>, RawBuffer<D>>]) {
        // SAFETY: as above.
        unsafe { self.0.read_texels(reads) };
    }

    unsafe fn copy_textures(&mut self, copies: &[TextureCopy<RawTexture<D>>]) {
        // SAFETY: as above.
        unsafe { self.0.copy_textures(copies) };
    }

    unsafe fn end_copies(&mut self, buffers: &[RawBuffer<D>], textures: &[TextureTarget<RawTexture<D>>]) {
        // SAFETY: as above.
        unsafe { self.0.end_copies(buffers, textures) };
    }
}
