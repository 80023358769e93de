//! Texels of textures: staged with the offset and row pitch that the device needs.
//!
//! ```text
//!   given:   ■■■■■│■■■■■│■■■■■       rows of blocks, adjacent or with the caller's row pitch
//!   staged:  ■■■■■▒▒▒│■■■■■▒▒▒│■■■■■  rows at a multiple of the row alignment and of a block,
//!            ▲                       the first of each layer at a multiple of the offset alignment and of a block
//! ```
//!
//! | | offset alignment, in bytes | row alignment, in bytes |
//! |---|---|---|
//! | Direct3D 12 | 512 | 256; for depth and stencil 512 if the driver requires it |
//! | Vulkan | `optimalBufferCopyOffsetAlignment`, but at least 4 | `optimalBufferCopyRowPitchAlignment` |
//!
//! Sizes are in texels for every format, also for block-compressed ones. A partial block at the edge of a mip level
//! takes the bytes of a whole block.

use std::fmt;
use std::mem::MaybeUninit;

use super::fill::copy;
use super::{BatchError, Staged, StagedRange, UploadError};
use crate::device::record::ROW_BYTES_MAX;
use crate::device::{Capabilities, Device, TexelBox, TexelFormat, TextureAspect, common_alignment};

/// A box of texels of one aspect, in one or several layers. The bytes are in the caller's memory, or [`Staged`] in a
/// ring with the layout that the device needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Texels<B> {
    /// Width in texels.
    pub width: u32,
    /// Height in texels.
    pub height: u32,
    /// Depth in slices; 1 unless the texture is three-dimensional.
    pub depth: u32,
    /// Array layers.
    pub layers: u32,
    /// Format of the texels in `bytes`.
    pub format: TexelFormat,
    /// Colour, depth or stencil.
    pub aspect: TextureAspect,
    /// Bytes from one row of blocks to the next in `bytes`. In the input, 0 means that rows are adjacent.
    pub row_bytes: u64,
    /// Bytes from one slice or layer to the next in `bytes`. In the input, 0 means that slices and layers are adjacent.
    pub slice_bytes: u64,
    /// The bytes, or their staged range. The padding after the last row may be missing.
    pub bytes: B,
}

impl<'a> Texels<&'a [u8]> {
    /// Describes texels of a colour format that is not block-compressed, with adjacent rows.
    #[must_use]
    pub const fn new(width: u32, height: u32, texel_bytes: u32, bytes: &'a [u8]) -> Self {
        let (format, aspect) = (TexelFormat::color(texel_bytes), TextureAspect::Color);
        Self { width, height, depth: 1, layers: 1, format, aspect, row_bytes: 0, slice_bytes: 0, bytes }
    }

    /// Describes texels of any format, of the given width, height and depth, with adjacent rows and slices. They have
    /// the format's first aspect and one layer.
    #[must_use]
    pub fn of(format: impl Into<TexelFormat>, [width, height, depth]: [u32; 3], bytes: &'a [u8]) -> Self {
        let format = format.into();
        let aspect = format.first_aspect();
        Self { width, height, depth, layers: 1, format, aspect, row_bytes: 0, slice_bytes: 0, bytes }
    }

    /// Sets the number of array layers.
    #[must_use]
    pub const fn layers(mut self, layers: u32) -> Self {
        self.layers = layers;
        self
    }

    /// Sets the aspect.
    #[must_use]
    pub const fn aspect(mut self, aspect: TextureAspect) -> Self {
        self.aspect = aspect;
        self
    }

    /// Sets the bytes from one row of blocks to the next, and from one slice or layer to the next. 0 means adjacent.
    #[must_use]
    pub const fn pitched(mut self, row_bytes: u64, slice_bytes: u64) -> Self {
        (self.row_bytes, self.slice_bytes) = (row_bytes, slice_bytes);
        self
    }

    /// Returns the row pitch and the slice pitch, in bytes. Returns `None` if rows or slices overlap, or on overflow.
    fn pitches(&self, layout: &Layout) -> Option<[u64; 2]> {
        let row = if self.row_bytes == 0 { layout.row } else { self.row_bytes };
        let slice = (layout.rows - 1).checked_mul(row)?.checked_add(layout.row)?;
        let slice_bytes = if self.slice_bytes != 0 { self.slice_bytes } else { layout.rows.checked_mul(row)? };
        (row >= layout.row && slice_bytes >= slice).then_some([row, slice_bytes])
    }

    /// Returns the number of bytes that the texels need with these pitches. Returns `None` on overflow.
    fn needed(&self, layout: &Layout, [row, slice]: [u64; 2]) -> Option<u64> {
        let slices = layout.slices.checked_mul(layout.layers)?;
        let last = (layout.rows - 1).checked_mul(row)?.checked_add(layout.row)?;
        (slices - 1).checked_mul(slice)?.checked_add(last)
    }

    /// Returns the row pitch and the slice pitch of `bytes`. Fails if `bytes` is too short for the texels, or if rows
    /// or slices overlap.
    fn check(&self, layout: &Layout) -> Result<[u64; 2], UploadError> {
        let pitches = self.pitches(layout);
        let needed = pitches.and_then(|pitches| self.needed(layout, pitches)).unwrap_or(u64::MAX);
        let given = self.bytes.len() as u64;
        match pitches {
            Some(pitches) if given >= needed => Ok(pitches),
            _ => {
                let Self { width, height, depth, layers, format, .. } = *self;
                Err(UploadError::TexelSize { width, height, depth, layers, format, given, needed })
            }
        }
    }
}

impl<D: Device> Texels<Staged<D>> {
    /// Fails if the pitches do not suit the texels, or if not all texels are inside the staged bytes. Both can happen,
    /// because the program may change any field. The caller has checked that no size is 0.
    pub(super) fn check_staged(&self) -> Result<(), BatchError> {
        let Self { width, height, depth, layers, format, row_bytes, slice_bytes, .. } = *self;
        let [across, down] = format.block();
        let block_bytes = u64::from(format.block_bytes(self.aspect).unwrap_or(0)).max(1);
        let row_needed = u64::from(width.div_ceil(across)) * block_bytes;
        let rows = u64::from(height.div_ceil(down));
        let end = |count: u64, distance: u64, last| (count - 1).checked_mul(distance)?.checked_add(last);
        let layer = end(rows * u64::from(depth), row_bytes, row_needed);
        let slice_needed = if depth > 1 { row_bytes.checked_mul(rows) } else { layer }.unwrap_or(u64::MAX);
        let is_sliced = depth == 1 || slice_bytes == slice_needed;
        let is_layered = layers == 1 || layer.is_some_and(|layer| slice_bytes >= layer);
        let is_row = (row_needed..=ROW_BYTES_MAX).contains(&row_bytes) && row_bytes.is_multiple_of(block_bytes);
        if !is_row || !is_sliced || !is_layered {
            return Err(BatchError::TexelPitch { row_bytes, slice_bytes, block_bytes, row_needed, slice_needed });
        }
        let needed = layer.and_then(|layer| end(u64::from(layers), slice_bytes, layer)).unwrap_or(u64::MAX);
        // A byte beyond offset `u64::MAX` does not exist.
        let given = self.bytes.size.min(u64::MAX - self.bytes.offset);
        if needed <= given && needed < u64::MAX {
            return Ok(());
        }
        Err(BatchError::TexelSize { extent: [width, height, depth], layers, format, given, needed })
    }
}

impl<B: fmt::Debug> fmt::Debug for Texels<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { width, height, depth, layers, format, aspect, row_bytes, bytes, .. } = self;
        write!(f, "{width} × {height} × {depth} texels in {layers} layers ({format}, {aspect:?}), ")?;
        write!(f, "{row_bytes} bytes a row, {bytes:?}")
    }
}

/// Layout of texels in the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// Bytes of a row of blocks, without padding.
    pub(super) row: u64,
    /// Bytes from one row of blocks to the next.
    pub(super) row_bytes: u64,
    /// Rows of blocks in a slice.
    pub(super) rows: u64,
    /// Slices in a layer.
    pub(super) slices: u64,
    layers: u64,
    /// Bytes from one layer to the next.
    pub(super) layer_bytes: u64,
    pub(super) size: u64,
    /// Alignment of the first byte of a layer, in bytes. Not a power of two for texels of 3, 6 or 12 bytes.
    multiple: u64,
}

impl Layout {
    /// Returns the layout of bytes that are not texels: one row.
    pub(super) const fn line(size: u64) -> Self {
        let (rows, slices, layers, multiple) = (1, 1, 1, 1);
        Self { row: size, row_bytes: size, rows, slices, layers, layer_bytes: size, size, multiple }
    }

    /// Returns the layout of the texels of a box. The mip level and the first layer do not affect it.
    pub(super) fn of(capabilities: &Capabilities, format: TexelFormat, texels: &TexelBox) -> Result<Self, UploadError> {
        let [across, down] = format.block();
        let block = u64::from(format.block_bytes(texels.aspect).unwrap_or(0));
        if block == 0 || texels.extent().contains(&0) || texels.layers == 0 || across == 0 || down == 0 {
            return Err(UploadError::ZeroSize);
        }
        let too_large = UploadError::TooLarge { size: u64::MAX, capacity: u64::MAX };
        let row_multiple = common_alignment(capabilities.copy_row_alignment(texels.aspect).max(1), block);
        let multiple = common_alignment(capabilities.texture_copy_offset_alignment.max(4), block);
        let [rows, slices] = [texels.height.div_ceil(down), texels.depth].map(u64::from);
        let (layers, row) = (u64::from(texels.layers), u64::from(texels.width.div_ceil(across)) * block);
        let row_bytes = row.checked_next_multiple_of(row_multiple).ok_or(too_large)?;
        let layer = row_bytes.checked_mul(rows * slices - 1).and_then(|bytes| bytes.checked_add(row));
        let layer = layer.ok_or(too_large)?;
        let layer_bytes =
            if layers == 1 { layer } else { layer.checked_next_multiple_of(multiple).ok_or(too_large)? };
        let size = layer_bytes.checked_mul(layers - 1).and_then(|bytes| bytes.checked_add(layer));
        Ok(Self { row, row_bytes, rows, slices, layers, layer_bytes, size: size.ok_or(too_large)?, multiple })
    }

    pub(super) fn new(capabilities: &Capabilities, texels: &Texels<&[u8]>) -> Result<(Self, [u64; 2]), UploadError> {
        let Texels { width, height, depth, layers, format, aspect, .. } = *texels;
        let shape = TexelBox { aspect, mip: 0, layer: 0, layers, x: 0, y: 0, z: 0, width, height, depth };
        let layout = Self::of(capabilities, format, &shape)?;
        let pitches = texels.check(&layout)?;
        Ok((layout, pitches))
    }

    /// Returns the size and the alignment of a request to the ring. The alignment is the largest power of two that
    /// divides `multiple`. If it is less than `multiple`, the size includes the padding up to the next multiple.
    pub(super) fn request(&self) -> Result<(u64, u64), UploadError> {
        let alignment = 1 << self.multiple.trailing_zeros();
        let size = self.size.checked_add(self.multiple - alignment);
        Ok((size.ok_or(UploadError::TooLarge { size: u64::MAX, capacity: u64::MAX })?, alignment))
    }

    /// Returns the size of the texels without padding, in bytes. It is at most `size`.
    pub(super) fn tight(&self) -> u64 {
        self.row * self.rows * self.slices * self.layers
    }

    /// Returns the number of bytes between `offset`, where the range begins, and its first texel.
    pub(super) fn skip(&self, offset: u64) -> u64 {
        offset.next_multiple_of(self.multiple) - offset
    }

    /// Returns two offsets for each row of blocks, in bytes. The first is relative to the first texel in the ring; the
    /// second is the offset in the caller's bytes, which have the given row and slice pitches.
    pub(super) fn rows(&self, [row_pitch, slice_pitch]: [u64; 2]) -> impl Iterator<Item = (u64, u64)> {
        let Self { row_bytes, rows, slices, layers, layer_bytes, .. } = *self;
        (0..layers * slices).flat_map(move |slice| {
            let first = slice / slices * layer_bytes + slice % slices * rows * row_bytes;
            (0..rows).map(move |row| (first + row * row_bytes, slice * slice_pitch + row * row_pitch))
        })
    }

    pub(super) fn write(&self, (bytes, pitches): (&[u8], [u64; 2]), offset: u64, to: &mut [MaybeUninit<u8>]) {
        let to = &mut to[self.skip(offset) as usize..];
        let row = self.row as usize;
        for (at, from) in self.rows(pitches) {
            copy(&bytes[from as usize..][..row], &mut to[at as usize..][..row]);
        }
    }

    pub(super) fn staged<D: Device>(&self, texels: &Texels<&[u8]>, room: Staged<D>) -> Texels<Staged<D>> {
        let skip = self.skip(room.offset);
        let address = room.address.map(|address| address + skip);
        let range = StagedRange { offset: room.offset + skip, size: self.size, address, ..room.range };
        let bytes = Staged { range, ..room };
        let Texels { width, height, depth, layers, format, aspect, .. } = *texels;
        let Self { row_bytes, rows, layer_bytes, .. } = *self;
        // A texture has several slices or several layers, never both.
        let slice_bytes = if layers > 1 { layer_bytes } else { row_bytes * rows };
        Texels { width, height, depth, layers, format, aspect, row_bytes, slice_bytes, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Format;
    use crate::sim::Profile;

    #[test]
    fn rows_and_offsets_suit_every_device_and_every_size_of_texel() {
        for profile in Profile::all() {
            let capabilities = &profile.capabilities;
            for texel_bytes in [1, 2, 3, 4, 6, 8, 12, 16] {
                for (width, height) in [(1, 1), (7, 5), (64, 3), (85, 2)] {
                    let bytes = vec![0; (width * height * texel_bytes) as usize];
                    let texels = Texels::new(width, height, texel_bytes, &bytes);
                    let (layout, _) = Layout::new(capabilities, &texels).expect("the bytes suffice");
                    let texel = u64::from(texel_bytes);
                    for of in [capabilities.texture_copy_row_alignment, texel] {
                        assert_eq!(layout.row_bytes % of, 0);
                    }
                    assert!(layout.row_bytes >= layout.row && layout.size >= bytes.len() as u64);
                    let (size, alignment) = layout.request().expect("no overflow");
                    let more = size - layout.size;
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
        let refused = |texels: Texels<&[u8]>| Layout::new(&capabilities, &texels).expect_err("too few bytes");
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
    #[test]
    fn blocks_slices_and_layers_are_counted_and_lie_apart() {
        for profile in Profile::all() {
            let capabilities = &profile.capabilities;
            for (format, blocks) in [(Format::Bc1Unorm, [3, 2]), (Format::Astc10x6Unorm, [1, 1])] {
                let block = format.texel_bytes() as usize;
                let bytes = vec![0; blocks[0] * blocks[1] * 5 * 2 * block];
                let texels = Texels::of(format, [10, 6, 5], &bytes).layers(2);
                let (layout, pitches) = Layout::new(capabilities, &texels).expect("the bytes suffice");
                assert_eq!((layout.row, layout.rows), ((blocks[0] * block) as u64, blocks[1] as u64));
                assert_eq!(layout.layer_bytes % capabilities.texture_copy_offset_alignment, 0);
                let rows: Vec<_> = layout.rows(pitches).collect();
                assert_eq!(rows.len(), blocks[1] * 5 * 2);
                assert!(rows.windows(2).all(|pair| pair[1].0 >= pair[0].0 + layout.row_bytes));
                assert!(rows.windows(2).all(|pair| pair[1].1 == pair[0].1 + layout.row));
                assert_eq!(rows.last().map(|row| row.0 + layout.row), Some(layout.size));
                let few = Layout::new(capabilities, &Texels { bytes: &bytes[1..], ..texels });
                assert!(matches!(few, Err(UploadError::TexelSize { .. })));
                let close = Layout::new(capabilities, &texels.pitched(0, layout.row * layout.rows - 1));
                assert!(matches!(close, Err(UploadError::TexelSize { .. })), "slices that overlap");
            }
        }
    }

    #[test]
    fn what_has_no_number_is_too_large() {
        let capabilities = Profile::h200().capabilities;
        let texels = TexelBox {
            aspect: TextureAspect::Color,
            mip: 0,
            layer: 0,
            layers: 1,
            x: 0,
            y: 0,
            z: 0,
            width: 1_722_007_169,
            height: 3_570_783_445,
            depth: 1,
        };
        let layout = Layout::of(&capabilities, TexelFormat::color(3), &texels).expect("2^64 - 1 bytes");
        assert_eq!(layout.size, u64::MAX);
        assert!(matches!(layout.request(), Err(UploadError::TooLarge { .. })));
        for huge in [TexelBox { depth: u32::MAX, ..texels }, TexelBox { layers: u32::MAX, ..texels }] {
            let refused = Layout::of(&capabilities, TexelFormat::color(u32::MAX), &huge);
            assert!(matches!(refused, Err(UploadError::TooLarge { .. })), "{refused:?}");
        }
    }

    /// Alignments as on Direct3D 12: 512 bytes for the first texel, 256 for rows, 512 for rows of depth and stencil.
    fn layout(format: impl Into<TexelFormat>, aspect: TextureAspect, extent: [u32; 3], layers: u32) -> Layout {
        let [width, height, depth] = extent;
        let texels = TexelBox { aspect, mip: 0, layer: 0, layers, x: 0, y: 0, z: 0, width, height, depth };
        Layout::of(&Profile::d3d12_tier1().capabilities, format.into(), &texels).expect("it has texels")
    }

    #[test]
    fn layouts_have_the_pitches_and_the_sizes_of_the_device() {
        use TextureAspect::{Color, Depth, Stencil};
        // Extent and layers, then: row, row pitch, rows, slices, layer pitch, size; without padding; the request.
        for (format, aspect, extent, layers, expected, tight, request) in [
            (Format::R8Unorm, Color, [5, 3, 1], 1, [5, 256, 3, 1, 517, 517], 15, (517, 512)),
            (Format::Rgba8Unorm, Color, [5, 3, 1], 2, [20, 256, 3, 1, 1024, 1556], 120, (1556, 512)),
            (Format::Rgba8Unorm, Color, [64, 1, 1], 1, [256, 256, 1, 1, 256, 256], 256, (256, 512)),
            (Format::Rgba8Unorm, Color, [65, 2, 1], 1, [260, 512, 2, 1, 772, 772], 520, (772, 512)),
            (Format::Rgba8Unorm, Color, [4, 2, 3], 1, [16, 256, 2, 3, 1296, 1296], 96, (1296, 512)),
            // 12 bytes a texel: rows at multiples of 768, the first texel at a multiple of 1536.
            (Format::Rgb32Float, Color, [5, 3, 1], 1, [60, 768, 3, 1, 1596, 1596], 180, (2620, 512)),
            (Format::Bc1Unorm, Color, [10, 6, 1], 1, [24, 256, 2, 1, 280, 280], 48, (280, 512)),
            (Format::Bc7Unorm, Color, [8, 8, 1], 3, [32, 256, 2, 1, 512, 1312], 192, (1312, 512)),
            (Format::D24UnormS8Uint, Depth, [5, 3, 1], 1, [20, 512, 3, 1, 1044, 1044], 60, (1044, 512)),
            (Format::D24UnormS8Uint, Stencil, [5, 3, 1], 1, [5, 512, 3, 1, 1029, 1029], 15, (1029, 512)),
        ] {
            let found = layout(format, aspect, extent, layers);
            let Layout { row, row_bytes, rows, slices, layer_bytes, size, .. } = found;
            assert_eq!([row, row_bytes, rows, slices, layer_bytes, size], expected, "{format:?} {extent:?}");
            assert_eq!((found.tight(), found.request()), (tight, Ok(request)), "{format:?} {extent:?}");
        }
    }

    #[test]
    fn the_first_texel_is_at_the_next_multiple() {
        let colors = layout(Format::Rgba8Unorm, TextureAspect::Color, [1, 1, 1], 1);
        let wide = layout(Format::Rgb32Float, TextureAspect::Color, [1, 1, 1], 1);
        for (offset, of_colors, of_wide) in [(0, 0, 0), (512, 0, 1024), (1024, 0, 512), (1536, 0, 0), (2048, 0, 1024)] {
            assert_eq!((colors.skip(offset), wide.skip(offset)), (of_colors, of_wide), "from {offset}");
        }
        assert_eq!((colors.skip(1), colors.skip(511)), (511, 1));
    }

    #[test]
    fn rows_follow_slices_and_layers_in_the_ring_and_in_memory() {
        let flat = layout(Format::Rgba8Unorm, TextureAspect::Color, [2, 2, 1], 2);
        let expected = [(0, 0), (256, 8), (512, 16), (768, 24)];
        assert_eq!(flat.rows([8, 16]).collect::<Vec<_>>(), expected);
        assert_eq!(flat.rows([10, 40]).collect::<Vec<_>>(), [(0, 0), (256, 10), (512, 40), (768, 50)]);
        let volume = layout(Format::Rgba8Unorm, TextureAspect::Color, [2, 2, 2], 1);
        assert_eq!(volume.rows([8, 16]).collect::<Vec<_>>(), expected);
        let three = layout(Format::R8Unorm, TextureAspect::Color, [1, 3, 1], 2);
        let found: Vec<_> = three.rows([1, 3]).collect();
        assert_eq!(found, [(0, 0), (256, 1), (512, 2), (1024, 3), (1280, 4), (1536, 5)]);
        let line = Layout::line(77);
        assert_eq!((line.tight(), line.request(), line.skip(5)), (77, Ok((77, 1)), 0));
        assert_eq!(line.rows([77, 77]).collect::<Vec<_>>(), [(0, 0)]);
    }

    #[test]
    fn bytes_are_written_row_by_row_behind_the_skipped_ones() {
        let layout = layout(Format::R8Unorm, TextureAspect::Color, [2, 2, 1], 1);
        let mut room = vec![MaybeUninit::new(9_u8); 4 + 258];
        // The range begins four bytes before a multiple of 512.
        layout.write((&[1, 2, 0, 3, 4], [3, 5]), 508, &mut room);
        // SAFETY: every byte was initialized above.
        let bytes: Vec<u8> = room.iter().map(|byte| unsafe { byte.assume_init() }).collect();
        assert_eq!((&bytes[..7], &bytes[258..]), (&[9, 9, 9, 9, 1, 2, 9][..], &[9, 9, 3, 4][..]));
    }

    #[test]
    fn given_bytes_suffice_to_the_last_texel() {
        let capabilities = Profile::h200().capabilities;
        let bytes = [0; 64];
        // Three rows of 8 bytes in two layers.
        for (row, slice, given, needed) in [
            (0, 0, 48, Ok([8, 24])),
            (0, 0, 47, Err(48)),
            (8, 24, 48, Ok([8, 24])),
            (10, 0, 58, Ok([10, 30])),
            (10, 0, 57, Err(58)),
            (0, 30, 54, Ok([8, 30])),
            (0, 30, 53, Err(54)),
            // The last row of a layer needs no padding behind it.
            (10, 28, 56, Ok([10, 28])),
            (10, 27, 64, Err(u64::MAX)),
            (7, 0, 64, Err(u64::MAX)),
            (0, 23, 64, Err(u64::MAX)),
        ] {
            let texels = Texels::new(2, 3, 4, &bytes[..given]).layers(2).pitched(row, slice);
            let found = Layout::new(&capabilities, &texels).map(|(_, pitches)| pitches);
            let expected = needed.map_err(|needed| UploadError::TexelSize {
                width: 2,
                height: 3,
                depth: 1,
                layers: 2,
                format: TexelFormat::color(4),
                given: given as u64,
                needed,
            });
            assert_eq!(found, expected, "rows of {row}, slices of {slice}, {given} bytes");
        }
    }
}
