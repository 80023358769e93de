//! KTX 2 files, read by the crate `ktx2`, and decompressed by `ruzstd`.

use std::borrow::Cow;
use std::io::Read;

use ktx2::{Header, Reader, SupercompressionScheme};
use ringfence_upload::ChainOrder;
use ruzstd::decoding::StreamingDecoder;

use super::{TextureData, TextureDataError, check, mip_bytes};
use crate::device::{Dimension, Format, TextureDesc};

impl<'a> TextureData<'a> {
    /// Reads a KTX 2 file. If the file asks for generated mip levels, the result has only the first level.
    ///
    /// # Errors
    /// [`TextureDataError::Damaged`], [`TextureDataError::Format`], [`TextureDataError::Size`], or
    /// [`TextureDataError::Unsupported`] for universal formats, for depth with stencil, and for compression other than
    /// Zstandard.
    pub fn from_ktx2(file: &'a [u8]) -> Result<Self, TextureDataError> {
        let reader = Reader::new(file).map_err(|error| TextureDataError::Damaged(error.to_string()))?;
        let header = reader.header();
        let desc = describe(&header)?;
        let parts = check(&desc)?;
        let is_compressed = match header.supercompression_scheme {
            None => false,
            Some(SupercompressionScheme::Zstandard) => true,
            Some(_) => return Err(TextureDataError::Unsupported("compression of a KTX 2 file other than Zstandard")),
        };
        // The file contains the smallest level first, but its index lists the largest level first.
        let mut bytes = Vec::new();
        for (mip, (level, range)) in (0..).zip(reader.levels().zip(ranges(&reader))) {
            let needed = mip_bytes(&parts, mip);
            let has_all = |given| if given == needed { Ok(()) } else { Err(TextureDataError::Size { given, needed }) };
            if is_compressed {
                decompress(level.data, needed, &mut bytes).and_then(has_all)?;
                continue;
            }
            has_all(level.data.len() as u64)?;
            if desc.mips == 1 {
                return Self::new(desc, ChainOrder::MipByMip, Cow::Borrowed(&file[range]));
            }
            bytes.extend_from_slice(level.data);
        }
        Self::new(desc, ChainOrder::MipByMip, bytes)
    }
}

/// Returns the place of each level in the file, largest level first.
fn ranges<'r>(reader: &'r Reader<&[u8]>) -> impl Iterator<Item = std::ops::Range<usize>> + 'r {
    let base = reader.data().as_ptr() as usize;
    reader.levels().map(move |level| {
        let first = level.data.as_ptr() as usize - base;
        first..first + level.data.len()
    })
}

fn describe(header: &Header) -> Result<TextureDesc, TextureDataError> {
    let Some(number) = header.format else {
        return Err(TextureDataError::Unsupported("a universal format, which needs a transcoder"));
    };
    let format = Format::of_vulkan(number.value()).ok_or_else(|| TextureDataError::Format(format!("{number:?}")))?;
    let dimension = match (header.pixel_height, header.pixel_depth, header.face_count) {
        (_, 0, 6) => Dimension::Cube,
        (_, 0, 1) if header.pixel_height == 0 => Dimension::D1,
        (_, 0, 1) => Dimension::D2,
        (_, 1.., 1) => Dimension::D3,
        _ => return Err(TextureDataError::Damaged(format!("{} faces", header.face_count))),
    };
    let layers = header.layer_count.max(1).checked_mul(header.face_count);
    Ok(TextureDesc {
        dimension,
        width: header.pixel_width,
        height: header.pixel_height.max(1),
        depth: header.pixel_depth.max(1),
        layers: layers.ok_or_else(|| TextureDataError::Damaged("too many layers".to_owned()))?,
        mips: header.level_count.max(1),
        format,
        ..Default::default()
    })
}

/// Appends the decompressed bytes, at most one more than `needed`, and returns their number.
fn decompress(level: &[u8], needed: u64, into: &mut Vec<u8>) -> Result<u64, TextureDataError> {
    let damaged = |error: &dyn std::fmt::Display| TextureDataError::Damaged(error.to_string());
    let decoder = StreamingDecoder::new(level).map_err(|error| damaged(&error))?;
    let given = decoder.take(needed.saturating_add(1)).read_to_end(into).map_err(|error| damaged(&error))?;
    Ok(given as u64)
}
