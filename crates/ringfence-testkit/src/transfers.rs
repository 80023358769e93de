//! Transfer commands (fills, clears, copies of boxes, resolves, mip levels) as data: recorded once, and replayed into
//! the command list of a device.

use ringfence::device::record::{CopyRegion, Record, TexelRead, TexelRegion, TextureCopy, TextureTarget};
use ringfence::device::transfer::{MipChain, TextureBoxCopy, TextureClear, TextureResolve, Transfer};
use ringfence::device::{Device, DeviceError, RawBuffer, RawTexture};

use crate::Command;

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
        self.0.iter().try_for_each(|step| unsafe {
            match step {
                Step::Fill { dst, offset, size, value } => into.fill_buffer(dst, *offset, *size, *value)?,
                Step::Clear(clear) => into.clear_texture(clear)?,
                Step::CopyBuffer { src, dst, regions } => into.copy_buffer_regions(src, dst, regions),
                Step::IntoBox { src, targets, regions } => into.copy_buffer_to_box(src, targets, regions),
                Step::FromBox(reads) => into.copy_box_to_buffer(reads),
                Step::CopyBox(copy) => into.copy_texture_box(copy),
                Step::Resolve(resolve) => into.resolve_texture(resolve),
                Step::Mips(chain) => into.blit_mips(chain)?,
            }
            Ok(())
        })
    }
}

/// Defines functions of [`Record`] that are not called here.
macro_rules! not_recorded {
    ($($name:ident($($type:ty),*);)*) => {
        $(unsafe fn $name(&mut self, $(_: $type),*) {
            unreachable!("this recorder is not for {}", stringify!($name));
        })*
    };
}

impl<D: Device> Record<D> for Transfers<D> {
    not_recorded! {
        begin_copies(&[RawBuffer<D>], &[TextureTarget<RawTexture<D>>]);
        copy_buffer(&RawBuffer<D>, &RawBuffer<D>, &[CopyRegion]);
        copy_buffer_to_texture(&RawBuffer<D>, &RawTexture<D>, &TexelRegion);
        read_texels(&[TexelRead<RawTexture<D>, RawBuffer<D>>]);
        copy_textures(&[TextureCopy<RawTexture<D>>]);
        end_copies(&[RawBuffer<D>], &[TextureTarget<RawTexture<D>>]);
    }
}

/// The copies of a defragmentation pass as commands of the test kit, which have their own barriers.
pub struct Moves<D: Device>(pub Vec<Command<D>>);

impl<D: Device> Record<D> for Moves<D> {
    not_recorded! {
        copy_buffer_to_texture(&RawBuffer<D>, &RawTexture<D>, &TexelRegion);
        read_texels(&[TexelRead<RawTexture<D>, RawBuffer<D>>]);
    }

    unsafe fn begin_copies(&mut self, _: &[RawBuffer<D>], _: &[TextureTarget<RawTexture<D>>]) {}

    unsafe fn copy_buffer(&mut self, src: &RawBuffer<D>, dst: &RawBuffer<D>, regions: &[CopyRegion]) {
        self.0.extend(regions.iter().map(|&CopyRegion { src_offset, dst_offset, size }| Command::CopyBuffer {
            src: src.clone(),
            src_offset,
            dst: dst.clone(),
            dst_offset,
            size,
        }));
    }

    unsafe fn copy_textures(&mut self, copies: &[TextureCopy<RawTexture<D>>]) {
        self.0.push(Command::CopyTextures(copies.to_vec()));
    }

    unsafe fn end_copies(&mut self, _: &[RawBuffer<D>], _: &[TextureTarget<RawTexture<D>>]) {}
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
