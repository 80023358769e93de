//! The checks of copies to the host.

use ringfence_hal::{Device, TexelBox, TextureUsage};
use ringfence_memory::{Frame, Texture};
use ringfence_upload::{Readback, ReadbackRing};

use crate::CommandError;
use crate::copy::Rules;
use crate::owned::Checked;

/// Alignment of the bytes of a buffer in the ring, in bytes. It suffices for every plain type.
pub(crate) const ALIGNMENT: u64 = 16;

/// Checks a copy of texels to the host, and reserves their bytes.
pub(crate) fn texels<D: Device>(
    checked: Checked,
    rules: Rules,
    ring: &ReadbackRing<D>,
    frame: &Frame,
    (texture, texels): (&Texture<D>, &TexelBox),
) -> Result<Readback<D>, CommandError> {
    let (_, parts) = checked.texture(texture, TextureUsage::COPY_SRC)?;
    rules.check(&parts, texels)?;
    Ok(ring.reserve_box(frame, texture, texels)?)
}
