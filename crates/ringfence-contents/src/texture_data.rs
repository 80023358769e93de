//! The texels of a texture file: a description of the texture, and the bytes of all mip levels and layers.
//!
//! ```text
//!   file ── from_ktx2, from_dds, from_image ──▶ TextureData ── desc(usage) ──▶ create_texture
//!                                                    └─ upload(batch, ring, frame, texture)
//! ```
//!
//! | file | formats | refused |
//! |---|---|---|
//! | KTX 2 | each portable colour format, depth alone, stencil alone; uncompressed or compressed with Zstandard | BasisLZ and other universal formats, which need a transcoder; ZLIB; depth with stencil |
//! | DDS | each portable colour format of DXGI, depth alone; of the Direct3D 9 formats those with a portable format of equal bytes | other formats, cube maps without all six faces |
//! | an image of the crate `image` | 8 and 16 bits per channel, and 32 bits of floating point | |
//!
//! Each constructor checks that the file has exactly the bytes of its texture, O(bytes). The bytes of an uncompressed
//! KTX 2 file with one mip level, and of an image that needs no conversion, are borrowed. All other bytes are copied.

#[cfg(feature = "dds")]
mod dds;
#[cfg(feature = "image")]
mod image;
#[cfg(feature = "ktx2")]
mod ktx2;

use std::borrow::Cow;

use ringfence_memory::Texture;
use ringfence_memory::lifetime::Frame;
use ringfence_upload::{ChainOrder, TransferError, UploadBatch, UploadRing};

use crate::device::record::TextureParts;
use crate::device::{Device, Dimension, Format, Kind, TextureDesc, TextureUsage, Textures};

/// Reason why a texture file cannot become a texture.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextureDataError {
    /// The file is damaged, or is not a file of this kind.
    #[error("the file cannot be read: {0}")]
    Damaged(String),
    /// No portable format has the same bytes as the format of the file, or the texture cannot have views of the
    /// requested format.
    #[error("the format {0} has no portable format of equal bytes: convert the file")]
    Format(String),
    /// The file uses a feature that is not supported.
    #[error("{0} is not supported: convert the file")]
    Unsupported(&'static str),
    /// The file does not have the bytes of its texture.
    #[error("the file has {given} bytes of texels, and its texture has {needed}")]
    Size {
        /// Bytes in the file.
        given: u64,
        /// Bytes of the texture.
        needed: u64,
    },
}

/// Encoding of the colours of an image.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum ColorEncoding {
    /// Colours for display, such as photographs and albedo maps. Images of 8 bits with three or four channels get an
    /// sRGB format, so shaders read linear values. There is no sRGB format for other images: shaders read their values
    /// unchanged.
    #[default]
    Srgb,
    /// Values, such as normals and roughness: shaders read them unchanged.
    Linear,
}

/// The texels of a texture with all its mip levels and layers.
///
#[cfg_attr(not(feature = "ktx2"), doc = "```text")]
#[cfg_attr(feature = "ktx2", doc = "```no_run")]
/// # use ringfence::contents::TextureData;
/// # use ringfence::device::{Device, TextureUsage};
/// # use ringfence::{AllocationDesc, Allocator, Frame, UploadBatch, UploadRing};
/// # fn load<D: Device>(memory: &Allocator<D>, ring: &UploadRing<D>, batch: &mut UploadBatch<D>, frame: &Frame)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let file = std::fs::read("wall.ktx2")?;
/// let data = TextureData::from_ktx2(&file)?;
/// let texture = memory.create_texture(&data.desc(TextureUsage::SAMPLED), AllocationDesc::default())?;
/// data.upload(batch, ring, frame, &texture)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextureData<'a> {
    desc: TextureDesc,
    order: ChainOrder,
    bytes: Cow<'a, [u8]>,
}

impl<'a> TextureData<'a> {
    /// Combines a description with its bytes: all mip levels and layers in `order`, each tightly packed. The usage of
    /// the description is ignored.
    ///
    /// # Errors
    /// - [`TextureDataError::Size`] if the bytes are not exactly those of the texture.
    /// - [`TextureDataError::Damaged`] if the texture has no texels, or more mip levels than its extent allows.
    /// - [`TextureDataError::Unsupported`] for formats with both depth and stencil or several planes, for more than one
    ///   sample, and for arrays of three-dimensional textures.
    pub fn new(
        desc: TextureDesc,
        order: ChainOrder,
        bytes: impl Into<Cow<'a, [u8]>>,
    ) -> Result<Self, TextureDataError> {
        let (bytes, parts) = (bytes.into(), check(&desc)?);
        let needed = (0..parts.mips).fold(0, |sum: u64, mip| sum.saturating_add(mip_bytes(&parts, mip)));
        let given = bytes.len() as u64;
        if given != needed {
            return Err(TextureDataError::Size { given, needed });
        }
        Ok(Self { desc, order, bytes })
    }

    /// Returns the description of the texture with this usage and the usage for uploads.
    #[must_use]
    pub fn desc(&self, usage: TextureUsage) -> TextureDesc {
        TextureDesc { usage: usage | TextureUsage::COPY_DST, ..self.desc }
    }

    /// Returns the bytes of all mip levels and layers.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the order of the mip levels and layers in the bytes.
    #[must_use]
    pub fn order(&self) -> ChainOrder {
        self.order
    }

    /// Replaces the format with another one that interprets the same bytes, for instance to read the colours of a DDS
    /// file without a colour encoding as sRGB.
    ///
    /// # Errors
    /// [`TextureDataError::Format`] if a texture of the old format cannot have views of the new one.
    pub fn with_format(mut self, format: Format) -> Result<Self, TextureDataError> {
        if !self.desc.format.can_be_viewed_as(format) {
            return Err(TextureDataError::Format(format!("{:?} as {format:?}", self.desc.format)));
        }
        self.desc.format = format;
        Ok(self)
    }

    /// Stages all mip levels and layers in `ring` for `frame`, and adds their copies to the batch, as
    /// [`UploadBatch::upload_texture`].
    ///
    /// # Errors
    /// As [`UploadBatch::upload_texture`].
    pub fn upload<D: Device>(
        &self,
        batch: &mut UploadBatch<D>,
        ring: &UploadRing<D>,
        frame: &Frame,
        to: &Texture<D>,
    ) -> Result<(), TransferError> {
        batch.upload_texture(ring, frame, (&self.bytes, self.order), to)
    }
}

/// Checks a description that a file states, and returns the parts of its texture.
fn check(desc: &TextureDesc) -> Result<TextureParts, TextureDataError> {
    let damaged = |what: &str| Err(TextureDataError::Damaged(what.to_owned()));
    let parts = Textures::parts(desc).ok_or(TextureDataError::Unsupported("a texture of several planes"))?;
    let TextureParts { width, height, depth, layers, mips, .. } = parts;
    if [width, height, depth, layers, mips].contains(&0) {
        return damaged("the texture has no texels");
    }
    if mips > width.max(height).max(depth).ilog2() + 1 {
        return damaged("the texture has more mip levels than its extent allows");
    }
    if parts.format.each_aspect().count() != 1 {
        return Err(TextureDataError::Unsupported("a file of depth and stencil"));
    }
    if parts.samples != 1 {
        return Err(TextureDataError::Unsupported("a file of several samples"));
    }
    if desc.dimension == Dimension::D3 && layers != 1 {
        return Err(TextureDataError::Unsupported("an array of three-dimensional textures"));
    }
    Ok(parts)
}

/// Returns the bytes of a mip level with all its layers. Saturates on overflow; a damaged file then has fewer bytes.
fn mip_bytes(parts: &TextureParts, mip: u32) -> u64 {
    parts.layer_bytes(mip, parts.format.first_aspect()).saturating_mul(parts.layers.into())
}
