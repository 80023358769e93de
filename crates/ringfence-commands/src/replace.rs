//! The copies from a replaced resource to its successor.

use ringfence_hal::{BufferDesc, BufferUsage, Device, RawTexture, TexelFormat, TextureUsage};
use ringfence_memory::lifetime::MipCopy;
use ringfence_memory::memory::{AllocationDesc, Location};
use ringfence_memory::{Buffer, Texture};

use crate::CommandError;
use crate::device::TextureDesc;
use crate::device::transfer::{TexelOrigin, TextureBoxCopy, TransferSupport};
use crate::owned::{Access, Checked};

/// Checks that a buffer of the new description can receive the first `keep_bytes` of `old`.
pub(crate) fn check_buffer<D: Device>(
    checked: Checked,
    old: &Buffer<D>,
    new: &BufferDesc,
    keep_bytes: u64,
    request: &AllocationDesc<'_>,
) -> Result<(), CommandError> {
    let Checked { command, .. } = checked;
    checked.buffer_owner(old)?;
    if keep_bytes == 0 {
        return Ok(());
    }
    checked.buffer(old, Access::Reads, (0, keep_bytes))?;
    let (needs, has) = (BufferUsage::COPY_DST, new.usage);
    if !has.contains(needs) {
        return Err(CommandError::BufferUsage { command, needs, has });
    }
    match request.location {
        location @ Location::Upload => Err(CommandError::Location { command, verb: "writes", location }),
        _ => Ok(()),
    }
}

/// Checks that mips of `old` can be copied to a texture of the new description.
pub(crate) fn check_texture<D: TransferSupport>(
    checked: Checked,
    device: &D,
    old: &Texture<D>,
    new: &TextureDesc,
) -> Result<(), CommandError> {
    checked.texture(old, TextureUsage::COPY_SRC)?;
    let (needs, has) = (TextureUsage::COPY_DST, new.usage);
    if !has.contains(needs) {
        return Err(CommandError::TextureUsage { command: checked.command, needs, has });
    }
    Ok(device.check_copy(new.format, new.format)?)
}

/// Returns the copies of one mip: one for each aspect of the format. The first one may discard the previous contents.
pub(crate) fn mip_copies<D: Device>(
    format: TexelFormat,
    copy: &MipCopy<D>,
) -> impl Iterator<Item = TextureBoxCopy<RawTexture<D>>> {
    let [from, to] = [copy.src_mip, copy.dst_mip].map(|mip| TexelOrigin { mip, ..Default::default() });
    format.each_aspect().enumerate().map(move |(index, aspect)| TextureBoxCopy {
        src: copy.src.clone(),
        from,
        dst: copy.dst.clone(),
        to,
        aspect,
        aspects: format.aspects(),
        format,
        extent: [copy.width, copy.height, copy.depth],
        layers: copy.layers,
        discard: index == 0,
    })
}
