//! DDS files, read by the crate `ddsfile`.

use ddsfile::{Caps2, D3D10ResourceDimension, D3DFormat, Dds, MiscFlag};
use ringfence_upload::ChainOrder;

use super::{TextureData, TextureDataError};
use crate::device::{Dimension, Format, TextureDesc};

impl TextureData<'static> {
    /// Reads a DDS file. The old formats of Direct3D 9 do not say if their colours are sRGB: they are read as linear,
    /// and [`TextureData::with_format`] changes that.
    ///
    /// # Errors
    /// [`TextureDataError::Damaged`], [`TextureDataError::Format`], [`TextureDataError::Size`], or
    /// [`TextureDataError::Unsupported`], for instance for a cube map without all of its faces.
    pub fn from_dds(file: &[u8]) -> Result<Self, TextureDataError> {
        let dds = Dds::read(file).map_err(|error| TextureDataError::Damaged(error.to_string()))?;
        let desc = describe(&dds)?;
        Self::new(desc, ChainOrder::LayerByLayer, dds.data)
    }
}

fn describe(dds: &Dds) -> Result<TextureDesc, TextureDataError> {
    let (dimension, layers) = shape(dds)?;
    let header = &dds.header;
    Ok(TextureDesc {
        dimension,
        width: header.width,
        height: if dimension == Dimension::D1 { 1 } else { header.height },
        depth: if dimension == Dimension::D3 { header.depth.unwrap_or(1) } else { 1 },
        layers,
        // Files with one mip level state no number, 0 or 1.
        mips: header.mip_map_count.unwrap_or(1).max(1),
        format: format(dds)?,
        ..Default::default()
    })
}

/// Returns the dimension and the number of layers.
fn shape(dds: &Dds) -> Result<(Dimension, u32), TextureDataError> {
    if let Some(more) = &dds.header10 {
        let faces = if more.misc_flag.contains(MiscFlag::TEXTURECUBE) { 6 } else { 1 };
        let layers = more.array_size.checked_mul(faces);
        let layers = layers.ok_or_else(|| TextureDataError::Damaged("too many layers".to_owned()))?;
        return match more.resource_dimension {
            D3D10ResourceDimension::Texture1D => Ok((Dimension::D1, layers)),
            D3D10ResourceDimension::Texture2D if faces == 6 => Ok((Dimension::Cube, layers)),
            D3D10ResourceDimension::Texture2D => Ok((Dimension::D2, layers)),
            D3D10ResourceDimension::Texture3D => Ok((Dimension::D3, 1)),
            _ => Err(TextureDataError::Unsupported("a DDS file of a buffer")),
        };
    }
    let flags = dds.header.caps2;
    if flags.contains(Caps2::VOLUME) {
        return Ok((Dimension::D3, 1));
    }
    if !flags.contains(Caps2::CUBEMAP) {
        return Ok((Dimension::D2, 1));
    }
    if flags.contains(Caps2::CUBEMAP_ALLFACES) {
        return Ok((Dimension::Cube, 6));
    }
    Err(TextureDataError::Unsupported("a cube map without all of its faces"))
}

fn format(dds: &Dds) -> Result<Format, TextureDataError> {
    if let Some(more) = &dds.header10 {
        let (name, number) = (more.dxgi_format, more.dxgi_format as u32);
        return Format::of_dxgi(number).ok_or_else(|| TextureDataError::Format(format!("{name:?}")));
    }
    let Some(old) = dds.get_d3d_format() else {
        // The codes of BC4 and BC5 have no Direct3D 9 format.
        let newer = dds.get_dxgi_format().and_then(|format| Format::of_dxgi(format as u32));
        return newer.ok_or_else(|| TextureDataError::Format(format!("{:?}", dds.header.spf)));
    };
    Ok(match old {
        D3DFormat::A8B8G8R8 => Format::Rgba8Unorm,
        D3DFormat::A8R8G8B8 => Format::Bgra8Unorm,
        D3DFormat::R5G6B5 => Format::B5g6r5Unorm,
        D3DFormat::A1R5G5B5 => Format::Bgr5a1Unorm,
        D3DFormat::L8 => Format::R8Unorm,
        D3DFormat::L16 => Format::R16Unorm,
        D3DFormat::G16R16 => Format::Rg16Unorm,
        D3DFormat::A16B16G16R16 => Format::Rgba16Unorm,
        D3DFormat::Q16W16V16U16 => Format::Rgba16Snorm,
        D3DFormat::R16F => Format::R16Float,
        D3DFormat::G16R16F => Format::Rg16Float,
        D3DFormat::A16B16G16R16F => Format::Rgba16Float,
        D3DFormat::R32F => Format::R32Float,
        D3DFormat::G32R32F => Format::Rg32Float,
        D3DFormat::A32B32G32R32F => Format::Rgba32Float,
        D3DFormat::DXT1 => Format::Bc1Unorm,
        D3DFormat::DXT2 | D3DFormat::DXT3 => Format::Bc2Unorm,
        D3DFormat::DXT4 | D3DFormat::DXT5 => Format::Bc3Unorm,
        other => return Err(TextureDataError::Format(format!("{other:?}"))),
    })
}
