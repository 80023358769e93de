//! Images of the crate `image`.

use std::borrow::Cow;

use image::DynamicImage;
use ringfence_upload::ChainOrder;

use super::{ColorEncoding, TextureData, TextureDataError};
use crate::device::{Format, TextureDesc};

impl<'a> TextureData<'a> {
    /// Converts an image to a texture with one mip level. Images of three channels get a fourth one, which is opaque,
    /// because few devices have textures of three channels.
    ///
    /// # Errors
    /// [`TextureDataError::Damaged`] if the image has no texels.
    pub fn from_image(image: &'a DynamicImage, encoding: ColorEncoding) -> Result<Self, TextureDataError> {
        let rgba8 = match encoding {
            ColorEncoding::Srgb => Format::Rgba8UnormSrgb,
            ColorEncoding::Linear => Format::Rgba8Unorm,
        };
        let (format, bytes) = match image {
            DynamicImage::ImageLuma8(_) => (Format::R8Unorm, Cow::Borrowed(image.as_bytes())),
            DynamicImage::ImageLumaA8(_) => (Format::Rg8Unorm, Cow::Borrowed(image.as_bytes())),
            DynamicImage::ImageRgba8(_) => (rgba8, Cow::Borrowed(image.as_bytes())),
            DynamicImage::ImageLuma16(_) => (Format::R16Unorm, Cow::Borrowed(image.as_bytes())),
            DynamicImage::ImageLumaA16(_) => (Format::Rg16Unorm, Cow::Borrowed(image.as_bytes())),
            DynamicImage::ImageRgba16(_) => (Format::Rgba16Unorm, Cow::Borrowed(image.as_bytes())),
            DynamicImage::ImageRgba32F(_) => (Format::Rgba32Float, Cow::Borrowed(image.as_bytes())),
            DynamicImage::ImageRgb16(_) => {
                (Format::Rgba16Unorm, bytemuck::cast_slice(image.to_rgba16().as_raw()).to_vec().into())
            }
            DynamicImage::ImageRgb32F(_) => {
                (Format::Rgba32Float, bytemuck::cast_slice(image.to_rgba32f().as_raw()).to_vec().into())
            }
            other => (rgba8, other.to_rgba8().into_raw().into()),
        };
        let desc = TextureDesc { width: image.width(), height: image.height(), format, ..Default::default() };
        Self::new(desc, ChainOrder::MipByMip, bytes)
    }
}
