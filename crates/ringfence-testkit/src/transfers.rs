//! Transfer commands (fills, clears, copies of boxes, resolves, mip levels) as data: recorded once, and replayed into
//! the command list of a device.

use ringfence::device::record::{CopyRegion, Record, TexelRead, TexelRegion, TextureCopy, TextureTarget};
use ringfence::device::transfer::{MipChain, TextureBoxCopy, TextureClear, TextureResolve, Transfer};
use ringfence::device::{Device, DeviceError, RawBuffer, RawTexture};

/// A list of transfer commands. It is a recorder for `ringfence::commands::Commands`.
#[derive(Clone, Debug)]
pub struct Transfers<D: Device>(Vec<Step<D>>);

impl<D: Device> Default for Transfers<D> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// A command of [`Transfer`].
#[derive(Clone, Debug)]
enum Step<D: Device> {
    Fill { dst: RawBuffer<D>, offset: u64, size: u64, value: u32 },
    Clear(TextureClear<RawTexture<D>>),
    CopyBuffer { src: RawBuffer<D>, dst: RawBuffer<D>, regions: Vec<CopyRegion> },
    IntoBox { src: RawBuffer<D>, targets: Vec<TextureTarget<RawTexture<D>>>, regions: Vec<TexelRegion> },
    FromBox(Vec<TexelRead<RawTexture<D>, RawBuffer<D>>>),
    CopyBox(TextureBoxCopy<RawTexture<D>>),
    Resolve(TextureResolve<RawTexture<D>>),
    Mips(MipChain<RawTexture<D>>),
}

impl<D: Device> Transfers<D> {
    /// Records the commands.
    ///
    /// # Errors
    /// The error of the first command that fails.
    ///
    /// # Safety
    /// The rules of [`Transfer`] for each command.
    pub unsafe fn replay(&self, into: &mut impl Transfer<D>) -> Result<(), DeviceError> {
        // SAFETY: the caller makes the same promise.
        self.0.iter().try_for_each(|step| unsafe { step.record(into) })
    }
}

impl<D: Device> Step<D> {
    /// # Safety
    /// The rules of [`Transfer`].
    unsafe fn record(&self, into: &mut impl Transfer<D>) -> Result<(), DeviceError> {
        // SAFETY: the caller makes the same promise.
        unsafe {
            match self {
                Self::Fill { dst, offset, size, value } => return into.fill_buffer(dst, *offset, *size, *value),
                Self::Clear(clear) => return into.clear_texture(clear),
                Self::CopyBuffer { src, dst, regions } => into.copy_buffer_regions(src, dst, regions),
                Self::IntoBox { src, targets, regions } => into.copy_buffer_to_box(src, targets, regions),
                Self::FromBox(reads) => into.copy_box_to_buffer(reads),
                Self::CopyBox(copy) => into.copy_texture_box(copy),
                Self::Resolve(resolve) => into.resolve_texture(resolve),
                Self::Mips(chain) => return into.blit_mips(chain),
            }
        }
        Ok(())
    }
}

const OTHER: &str = "only commands of the trait Transfer are recorded here";

impl<D: Device> Record<D> for Transfers<D> {
    unsafe fn begin_copies(&mut self, _: &[RawBuffer<D>], _: &[TextureTarget<RawTexture<D>>]) {
        unreachable!("{OTHER}");
    }

    unsafe fn copy_buffer(&mut self, _: &RawBuffer<D>, _: &RawBuffer<D>, _: &[CopyRegion]) {
        unreachable!("{OTHER}");
    }

    unsafe fn copy_buffer_to_texture(&mut self, _: &RawBuffer<D>, _: &RawTexture<D>, _: &TexelRegion) {
        unreachable!("{OTHER}");
    }

    unsafe fn read_texels(&mut self, _: &[TexelRead<RawTexture<D>, RawBuffer<D>>]) {
        unreachable!("{OTHER}");
    }

    unsafe fn copy_textures(&mut self, _: &[TextureCopy<RawTexture<D>>]) {
        unreachable!("{OTHER}");
    }

    unsafe fn end_copies(&mut self, _: &[RawBuffer<D>], _: &[TextureTarget<RawTexture<D>>]) {
        unreachable!("{OTHER}");
    }
}

impl<D: Device> Transfer<D> for Transfers<D> {
    unsafe fn fill_buffer(
        &mut self,
        dst: &RawBuffer<D>,
        offset: u64,
        size: u64,
        value: u32,
    ) -> Result<(), DeviceError> {
        self.0.push(Step::Fill { dst: dst.clone(), offset, size, value });
        Ok(())
    }

    unsafe fn clear_texture(&mut self, clear: &TextureClear<RawTexture<D>>) -> Result<(), DeviceError> {
        self.0.push(Step::Clear(clear.clone()));
        Ok(())
    }

    unsafe fn copy_buffer_regions(&mut self, src: &RawBuffer<D>, dst: &RawBuffer<D>, regions: &[CopyRegion]) {
        self.0.push(Step::CopyBuffer { src: src.clone(), dst: dst.clone(), regions: regions.to_vec() });
    }

    unsafe fn copy_buffer_to_box(
        &mut self,
        src: &RawBuffer<D>,
        targets: &[TextureTarget<RawTexture<D>>],
        regions: &[TexelRegion],
    ) {
        self.0.push(Step::IntoBox { src: src.clone(), targets: targets.to_vec(), regions: regions.to_vec() });
    }

    unsafe fn copy_box_to_buffer(&mut self, reads: &[TexelRead<RawTexture<D>, RawBuffer<D>>]) {
        self.0.push(Step::FromBox(reads.to_vec()));
    }

    unsafe fn copy_texture_box(&mut self, copy: &TextureBoxCopy<RawTexture<D>>) {
        self.0.push(Step::CopyBox(copy.clone()));
    }

    unsafe fn resolve_texture(&mut self, resolve: &TextureResolve<RawTexture<D>>) {
        self.0.push(Step::Resolve(resolve.clone()));
    }

    unsafe fn blit_mips(&mut self, chain: &MipChain<RawTexture<D>>) -> Result<(), DeviceError> {
        self.0.push(Step::Mips(chain.clone()));
        Ok(())
    }
}
