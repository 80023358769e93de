//! Texels on their way to a texture: the rows and the offset that the device wants, done for the caller.
//!
//! ```text
//!   given:   ■■■■■│■■■■■│■■■■■       rows one after another, or at a distance of the caller's
//!   staged:  ■■■■■▒▒▒│■■■■■▒▒▒│■■■■■  rows at a multiple of the row alignment and of a texel,
//!            ▲                       the first at a multiple of the placement alignment and of a texel
//! ```
//!
//! | | offset | row |
//! |---|---|---|
//! | Direct3D 12 | 512 | 256 |
//! | Vulkan | what the device likes, at least a texel and 4 | what the device likes, in whole texels |

use std::fmt;
use std::mem::MaybeUninit;

use super::ring::copy;
use super::{Staged, UploadError, UploadRing, UploadWriter};
use crate::device::{Capabilities, Device};
use crate::lifetime::Frame;

/// Texels as the caller has them. Of block-compressed formats the blocks count as texels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Texels<'a> {
    /// Texels across.
    pub width: u32,
    /// Texels down.
    pub height: u32,
    /// Bytes a texel.
    pub texel_bytes: u32,
    /// Bytes from one row to the next in `bytes`; 0 if they follow each other.
    pub row_bytes: u64,
    /// The rows; the last one may end with its last texel.
    pub bytes: &'a [u8],
}

impl<'a> Texels<'a> {
    /// Texels whose rows follow each other.
    #[must_use]
    pub const fn new(width: u32, height: u32, texel_bytes: u32, bytes: &'a [u8]) -> Self {
        Self { width, height, texel_bytes, row_bytes: 0, bytes }
    }

    /// Bytes of a row's texels.
    fn row(&self) -> u64 {
        u64::from(self.width) * u64::from(self.texel_bytes)
    }

    fn pitch(&self) -> u64 {
        if self.row_bytes == 0 { self.row() } else { self.row_bytes }
    }

    /// Refuses texels that have no size, and bytes that do not hold them.
    fn check(&self) -> Result<(), UploadError> {
        let rows = u64::from(self.height);
        if self.row() == 0 || rows == 0 {
            return Err(UploadError::ZeroSize);
        }
        let needed = (rows - 1).checked_mul(self.pitch()).and_then(|bytes| bytes.checked_add(self.row()));
        let needed = needed.unwrap_or(u64::MAX);
        let given = self.bytes.len() as u64;
        if self.pitch() < self.row() || given < needed {
            let Self { width, height, texel_bytes, .. } = *self;
            return Err(UploadError::TexelSize { width, height, texel_bytes, given, needed });
        }
        Ok(())
    }
}

/// Texels in a ring, as the device wants them.
pub struct StagedTexels<D: Device> {
    /// Where they are.
    pub staged: Staged<D>,
    /// Bytes from one row to the next.
    pub row_bytes: u64,
    /// Texels across.
    pub width: u32,
    /// Texels down.
    pub height: u32,
    /// Bytes a texel.
    pub texel_bytes: u32,
}

impl<D: Device> Clone for StagedTexels<D> {
    fn clone(&self) -> Self {
        Self { staged: self.staged.clone(), ..*self }
    }
}

impl<D: Device> fmt::Debug for StagedTexels<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { staged, row_bytes, width, height, texel_bytes } = self;
        write!(f, "{width} × {height} texels of {texel_bytes} bytes, {row_bytes} bytes a row, {staged:?}")
    }
}

/// How texels lie in the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) row_bytes: u64,
    pub(super) size: u64,
    /// What the first byte is a multiple of; not a power of two for texels of 3, 6 or 12 bytes.
    multiple: u64,
}

impl Layout {
    fn new(capabilities: &Capabilities, texels: &Texels<'_>) -> Result<Self, UploadError> {
        texels.check()?;
        Self::of(capabilities, texels.width, texels.height, texels.texel_bytes)
    }

    pub(super) fn of(
        capabilities: &Capabilities,
        width: u32,
        height: u32,
        texel_bytes: u32,
    ) -> Result<Self, UploadError> {
        let (texel, row) = (u64::from(texel_bytes), u64::from(width) * u64::from(texel_bytes));
        if row == 0 || height == 0 {
            return Err(UploadError::ZeroSize);
        }
        let row_multiple = least_common_multiple(capabilities.texture_copy_row_alignment.max(1), texel);
        let too_large = UploadError::TooLarge { size: u64::MAX, capacity: u64::MAX };
        let row_bytes = row.checked_next_multiple_of(row_multiple).ok_or(too_large)?;
        let size = row_bytes.checked_mul(u64::from(height) - 1).and_then(|bytes| bytes.checked_add(row));
        let offset = capabilities.texture_copy_offset_alignment.max(4);
        Ok(Self { row_bytes, size: size.ok_or(too_large)?, multiple: least_common_multiple(offset, texel) })
    }

    /// The power of two to ask for, and what to ask for more so that the multiple can be reached from there.
    pub(super) fn request(&self) -> (u64, u64) {
        let alignment = 1 << self.multiple.trailing_zeros();
        (alignment, self.multiple - alignment)
    }

    /// Bytes to leave out before the first, if the room begins at `offset`.
    pub(super) fn skip(&self, offset: u64) -> u64 {
        offset.next_multiple_of(self.multiple) - offset
    }

    fn write(&self, texels: &Texels<'_>, offset: u64, to: &mut [MaybeUninit<u8>]) {
        let to = &mut to[self.skip(offset) as usize..];
        let (row, pitch) = (texels.row() as usize, texels.pitch() as usize);
        for index in 0..texels.height as usize {
            let from = &texels.bytes[index * pitch..][..row];
            copy(from, &mut to[index * self.row_bytes as usize..][..row]);
        }
    }

    fn staged<D: Device>(&self, texels: &Texels<'_>, room: Staged<D>) -> StagedTexels<D> {
        let skip = self.skip(room.offset);
        let address = room.address.map(|address| address + skip);
        let staged = Staged { buffer: room.buffer, offset: room.offset + skip, size: self.size, address };
        let Texels { width, height, texel_bytes, .. } = *texels;
        StagedTexels { staged, row_bytes: self.row_bytes, width, height, texel_bytes }
    }
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}

impl<D: Device> UploadRing<D> {
    /// Writes texels for the submission of `frame`, with rows and offset as the device wants them.
    ///
    /// # Errors
    /// As [`UploadRing::write_for`]; and [`UploadError::TexelSize`] if fewer bytes were given than the texels have.
    pub fn write_texels(&self, frame: &Frame, texels: &Texels<'_>) -> Result<StagedTexels<D>, UploadError> {
        let layout = Layout::new(self.capabilities(), texels)?;
        let (alignment, more) = layout.request();
        let room =
            self.write_at(frame, layout.size + more, alignment, |offset, to| layout.write(texels, offset, to))?;
        Ok(layout.staged(texels, room))
    }
}

impl<D: Device> UploadWriter<D> {
    /// Writes texels, with rows and offset as the device wants them.
    ///
    /// # Errors
    /// As [`UploadWriter::write`]; and [`UploadError::TexelSize`] if fewer bytes were given than the texels have.
    pub fn write_texels(&mut self, texels: &Texels<'_>) -> Result<StagedTexels<D>, UploadError> {
        let layout = Layout::new(self.capabilities(), texels)?;
        let (alignment, more) = layout.request();
        let fill = |offset, to: &mut [MaybeUninit<u8>]| layout.write(texels, offset, to);
        let (room, ()) = self.write_at(layout.size + more, alignment, fill, |_, _| ())?;
        Ok(layout.staged(texels, room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::Profile;

    #[test]
    fn rows_and_offsets_suit_every_device_and_every_size_of_texel() {
        for profile in Profile::all() {
            let capabilities = &profile.capabilities;
            for texel_bytes in [1, 2, 3, 4, 6, 8, 12, 16] {
                for (width, height) in [(1, 1), (7, 5), (64, 3), (85, 2)] {
                    let bytes = vec![0; (width * height * texel_bytes) as usize];
                    let texels = Texels::new(width, height, texel_bytes, &bytes);
                    let layout = Layout::new(capabilities, &texels).expect("the bytes suffice");
                    let texel = u64::from(texel_bytes);
                    for of in [capabilities.texture_copy_row_alignment, texel] {
                        assert_eq!(layout.row_bytes % of, 0);
                    }
                    assert!(layout.row_bytes >= texels.row() && layout.size >= bytes.len() as u64);
                    let (alignment, more) = layout.request();
                    for offset in (0..40).map(|step| step * alignment) {
                        let first = offset + layout.skip(offset);
                        assert!(layout.skip(offset) <= more);
                        for of in [capabilities.texture_copy_offset_alignment, texel, 4] {
                            assert_eq!(first % of, 0, "{texel_bytes} bytes a texel");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn texels_that_are_not_there_are_refused() {
        let capabilities = Profile::d3d12_tier1().capabilities;
        let refused = |texels: Texels<'_>| Layout::new(&capabilities, &texels).expect_err("too few bytes");
        for (width, height, texel_bytes) in [(0, 4, 4), (4, 0, 4), (4, 4, 0)] {
            assert_eq!(refused(Texels::new(width, height, texel_bytes, &[0; 64])), UploadError::ZeroSize);
        }
        let few = refused(Texels::new(4, 4, 4, &[0; 63]));
        assert!(matches!(few, UploadError::TexelSize { given: 63, needed: 64, .. }), "{few:?}");
        let narrow = refused(Texels { row_bytes: 15, ..Texels::new(4, 4, 4, &[0; 64]) });
        assert!(matches!(narrow, UploadError::TexelSize { .. }), "rows that overlap: {narrow:?}");
        let huge = refused(Texels { row_bytes: u64::MAX, ..Texels::new(1, u32::MAX, 4, &[0; 64]) });
        assert!(matches!(huge, UploadError::TexelSize { needed: u64::MAX, .. }), "{huge:?}");
    }
}
