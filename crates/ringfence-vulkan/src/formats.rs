//! Vulkan's formats: conversions from and to portable formats, and the layout of their texels in a buffer.

use ash::vk;

use ringfence_hal::{Format, TexelFormat};

/// Pairs of portable formats and Vulkan's formats.
macro_rules! formats {
    ($($portable:ident = $format:ident,)*) => {
        /// Returns Vulkan's format for a portable one; `UNDEFINED`, which every call refuses, if Vulkan lacks it.
        #[must_use]
        pub const fn format(format: Format) -> vk::Format {
            match format {
                $(Format::$portable => vk::Format::$format,)*
                _ => vk::Format::UNDEFINED,
            }
        }

        /// Returns the portable format for Vulkan's; `None` if the format has no portable name.
        #[must_use]
        pub const fn portable_format(format: vk::Format) -> Option<Format> {
            match format {
                $(vk::Format::$format => Some(Format::$portable),)*
                _ => None,
            }
        }
    };
}

formats! {
    R8Unorm = R8_UNORM, R8Snorm = R8_SNORM, R8Uint = R8_UINT, R8Sint = R8_SINT,
    Rg8Unorm = R8G8_UNORM, Rg8Snorm = R8G8_SNORM, Rg8Uint = R8G8_UINT, Rg8Sint = R8G8_SINT,
    Rgba8Unorm = R8G8B8A8_UNORM, Rgba8UnormSrgb = R8G8B8A8_SRGB, Rgba8Snorm = R8G8B8A8_SNORM, Rgba8Uint = R8G8B8A8_UINT,
    Rgba8Sint = R8G8B8A8_SINT,
    Bgra8Unorm = B8G8R8A8_UNORM, Bgra8UnormSrgb = B8G8R8A8_SRGB,
    Abgr8Unorm = A8B8G8R8_UNORM_PACK32, Abgr8UnormSrgb = A8B8G8R8_SRGB_PACK32, Abgr8Snorm = A8B8G8R8_SNORM_PACK32,
    Abgr8Uint = A8B8G8R8_UINT_PACK32, Abgr8Sint = A8B8G8R8_SINT_PACK32,
    R16Unorm = R16_UNORM, R16Snorm = R16_SNORM, R16Uint = R16_UINT, R16Sint = R16_SINT, R16Float = R16_SFLOAT,
    Rg16Unorm = R16G16_UNORM, Rg16Snorm = R16G16_SNORM, Rg16Uint = R16G16_UINT, Rg16Sint = R16G16_SINT,
    Rg16Float = R16G16_SFLOAT,
    Rgba16Unorm = R16G16B16A16_UNORM, Rgba16Snorm = R16G16B16A16_SNORM, Rgba16Uint = R16G16B16A16_UINT,
    Rgba16Sint = R16G16B16A16_SINT, Rgba16Float = R16G16B16A16_SFLOAT,
    R32Uint = R32_UINT, R32Sint = R32_SINT, R32Float = R32_SFLOAT,
    Rg32Uint = R32G32_UINT, Rg32Sint = R32G32_SINT, Rg32Float = R32G32_SFLOAT,
    Rgb32Uint = R32G32B32_UINT, Rgb32Sint = R32G32B32_SINT, Rgb32Float = R32G32B32_SFLOAT,
    Rgba32Uint = R32G32B32A32_UINT, Rgba32Sint = R32G32B32A32_SINT, Rgba32Float = R32G32B32A32_SFLOAT,
    B5g6r5Unorm = R5G6B5_UNORM_PACK16,
    Bgr5a1Unorm = A1R5G5B5_UNORM_PACK16,
    Rgb10a2Unorm = A2B10G10R10_UNORM_PACK32, Rgb10a2Uint = A2B10G10R10_UINT_PACK32,
    Bgr10a2Unorm = A2R10G10B10_UNORM_PACK32, Bgr10a2Uint = A2R10G10B10_UINT_PACK32,
    Rg11b10Float = B10G11R11_UFLOAT_PACK32,
    Rgb9e5Float = E5B9G9R9_UFLOAT_PACK32,
    Bc1Unorm = BC1_RGBA_UNORM_BLOCK, Bc1UnormSrgb = BC1_RGBA_SRGB_BLOCK,
    Bc1RgbUnorm = BC1_RGB_UNORM_BLOCK, Bc1RgbUnormSrgb = BC1_RGB_SRGB_BLOCK,
    Bc2Unorm = BC2_UNORM_BLOCK, Bc2UnormSrgb = BC2_SRGB_BLOCK,
    Bc3Unorm = BC3_UNORM_BLOCK, Bc3UnormSrgb = BC3_SRGB_BLOCK,
    Bc4Unorm = BC4_UNORM_BLOCK, Bc4Snorm = BC4_SNORM_BLOCK,
    Bc5Unorm = BC5_UNORM_BLOCK, Bc5Snorm = BC5_SNORM_BLOCK,
    Bc6hUfloat = BC6H_UFLOAT_BLOCK, Bc6hFloat = BC6H_SFLOAT_BLOCK,
    Bc7Unorm = BC7_UNORM_BLOCK, Bc7UnormSrgb = BC7_SRGB_BLOCK,
    Etc2Rgb8Unorm = ETC2_R8G8B8_UNORM_BLOCK, Etc2Rgb8UnormSrgb = ETC2_R8G8B8_SRGB_BLOCK,
    Etc2Rgb8a1Unorm = ETC2_R8G8B8A1_UNORM_BLOCK, Etc2Rgb8a1UnormSrgb = ETC2_R8G8B8A1_SRGB_BLOCK,
    Etc2Rgba8Unorm = ETC2_R8G8B8A8_UNORM_BLOCK, Etc2Rgba8UnormSrgb = ETC2_R8G8B8A8_SRGB_BLOCK,
    EacR11Unorm = EAC_R11_UNORM_BLOCK, EacR11Snorm = EAC_R11_SNORM_BLOCK,
    EacRg11Unorm = EAC_R11G11_UNORM_BLOCK, EacRg11Snorm = EAC_R11G11_SNORM_BLOCK,
    Astc4x4Unorm = ASTC_4X4_UNORM_BLOCK, Astc4x4UnormSrgb = ASTC_4X4_SRGB_BLOCK,
    Astc5x4Unorm = ASTC_5X4_UNORM_BLOCK, Astc5x4UnormSrgb = ASTC_5X4_SRGB_BLOCK,
    Astc5x5Unorm = ASTC_5X5_UNORM_BLOCK, Astc5x5UnormSrgb = ASTC_5X5_SRGB_BLOCK,
    Astc6x5Unorm = ASTC_6X5_UNORM_BLOCK, Astc6x5UnormSrgb = ASTC_6X5_SRGB_BLOCK,
    Astc6x6Unorm = ASTC_6X6_UNORM_BLOCK, Astc6x6UnormSrgb = ASTC_6X6_SRGB_BLOCK,
    Astc8x5Unorm = ASTC_8X5_UNORM_BLOCK, Astc8x5UnormSrgb = ASTC_8X5_SRGB_BLOCK,
    Astc8x6Unorm = ASTC_8X6_UNORM_BLOCK, Astc8x6UnormSrgb = ASTC_8X6_SRGB_BLOCK,
    Astc8x8Unorm = ASTC_8X8_UNORM_BLOCK, Astc8x8UnormSrgb = ASTC_8X8_SRGB_BLOCK,
    Astc10x5Unorm = ASTC_10X5_UNORM_BLOCK, Astc10x5UnormSrgb = ASTC_10X5_SRGB_BLOCK,
    Astc10x6Unorm = ASTC_10X6_UNORM_BLOCK, Astc10x6UnormSrgb = ASTC_10X6_SRGB_BLOCK,
    Astc10x8Unorm = ASTC_10X8_UNORM_BLOCK, Astc10x8UnormSrgb = ASTC_10X8_SRGB_BLOCK,
    Astc10x10Unorm = ASTC_10X10_UNORM_BLOCK, Astc10x10UnormSrgb = ASTC_10X10_SRGB_BLOCK,
    Astc12x10Unorm = ASTC_12X10_UNORM_BLOCK, Astc12x10UnormSrgb = ASTC_12X10_SRGB_BLOCK,
    Astc12x12Unorm = ASTC_12X12_UNORM_BLOCK, Astc12x12UnormSrgb = ASTC_12X12_SRGB_BLOCK,
    D16Unorm = D16_UNORM,
    X8D24Unorm = X8_D24_UNORM_PACK32,
    D32Float = D32_SFLOAT,
    D16UnormS8Uint = D16_UNORM_S8_UINT,
    D24UnormS8Uint = D24_UNORM_S8_UINT,
    D32FloatS8Uint = D32_SFLOAT_S8_UINT,
    S8Uint = S8_UINT,
}

/// Returns the layout of a format's texels in a buffer. Returns `None` for formats with several planes, for Y'CbCr
/// formats whose texels share chroma samples, and for unknown formats.
#[must_use]
pub const fn texel_format(format: vk::Format) -> Option<TexelFormat> {
    use vk::Format as F;
    /// Returns `true` if `format` is one of the formats from `first` to `last`, which have consecutive numbers and
    /// texels of equal size.
    const fn within(format: vk::Format, first: vk::Format, last: vk::Format) -> bool {
        format.as_raw() >= first.as_raw() && format.as_raw() <= last.as_raw()
    }
    if let Some(portable) = portable_format(format) {
        return Some(portable.texels());
    }
    Some(match format {
        F::R4G4_UNORM_PACK8 => TexelFormat::color(1),
        _ if within(format, F::R4G4B4A4_UNORM_PACK16, F::A1R5G5B5_UNORM_PACK16) => TexelFormat::color(2),
        F::A4R4G4B4_UNORM_PACK16 | F::A4B4G4R4_UNORM_PACK16 => TexelFormat::color(2),
        _ if within(format, F::R8_UNORM, F::R8_SRGB) => TexelFormat::color(1),
        _ if within(format, F::R8G8_UNORM, F::R8G8_SRGB) => TexelFormat::color(2),
        _ if within(format, F::R8G8B8_UNORM, F::B8G8R8_SRGB) => TexelFormat::color(3),
        _ if within(format, F::R8G8B8A8_UNORM, F::A2B10G10R10_SINT_PACK32) => TexelFormat::color(4),
        _ if within(format, F::R16_UNORM, F::R16_SFLOAT) => TexelFormat::color(2),
        _ if within(format, F::R16G16_UNORM, F::R16G16_SFLOAT) => TexelFormat::color(4),
        _ if within(format, F::R16G16B16_UNORM, F::R16G16B16_SFLOAT) => TexelFormat::color(6),
        _ if within(format, F::R16G16B16A16_UNORM, F::R16G16B16A16_SFLOAT) => TexelFormat::color(8),
        _ if within(format, F::R32_UINT, F::R32_SFLOAT) => TexelFormat::color(4),
        _ if within(format, F::R32G32_UINT, F::R32G32_SFLOAT) => TexelFormat::color(8),
        _ if within(format, F::R32G32B32_UINT, F::R32G32B32_SFLOAT) => TexelFormat::color(12),
        _ if within(format, F::R32G32B32A32_UINT, F::R32G32B32A32_SFLOAT) => TexelFormat::color(16),
        _ if within(format, F::R64_UINT, F::R64_SFLOAT) => TexelFormat::color(8),
        _ if within(format, F::R64G64_UINT, F::R64G64_SFLOAT) => TexelFormat::color(16),
        _ if within(format, F::R64G64B64_UINT, F::R64G64B64_SFLOAT) => TexelFormat::color(24),
        _ if within(format, F::R64G64B64A64_UINT, F::R64G64B64A64_SFLOAT) => TexelFormat::color(32),
        F::A8_UNORM_KHR => TexelFormat::color(1),
        F::A1B5G5R5_UNORM_PACK16_KHR | F::R10X6_UNORM_PACK16 | F::R12X4_UNORM_PACK16 => TexelFormat::color(2),
        F::R10X6G10X6_UNORM_2PACK16 | F::R12X4G12X4_UNORM_2PACK16 => TexelFormat::color(4),
        F::R10X6G10X6B10X6A10X6_UNORM_4PACK16 | F::R12X4G12X4B12X4A12X4_UNORM_4PACK16 => TexelFormat::color(8),
        // ASTC has two normalised formats (UNORM and SRGB) and one SFLOAT format for each block size.
        _ if within(format, F::ASTC_4X4_SFLOAT_BLOCK, F::ASTC_12X12_SFLOAT_BLOCK) => {
            let number = format.as_raw() - F::ASTC_4X4_SFLOAT_BLOCK.as_raw();
            return texel_format(F::from_raw(F::ASTC_4X4_UNORM_BLOCK.as_raw() + 2 * number));
        }
        F::PVRTC1_2BPP_UNORM_BLOCK_IMG | F::PVRTC1_2BPP_SRGB_BLOCK_IMG => TexelFormat::compressed(8, 4, 8),
        F::PVRTC1_4BPP_UNORM_BLOCK_IMG | F::PVRTC1_4BPP_SRGB_BLOCK_IMG => TexelFormat::compressed(4, 4, 8),
        F::PVRTC2_2BPP_UNORM_BLOCK_IMG | F::PVRTC2_2BPP_SRGB_BLOCK_IMG => TexelFormat::compressed(8, 4, 8),
        F::PVRTC2_4BPP_UNORM_BLOCK_IMG | F::PVRTC2_4BPP_SRGB_BLOCK_IMG => TexelFormat::compressed(4, 4, 8),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_of_the_core_has_its_bytes() {
        let core = (1..=184).chain(1_000_066_000..=1_000_066_013).chain(1_000_340_000..=1_000_340_001);
        for format in core.map(vk::Format::from_raw) {
            assert!(texel_format(format).is_some(), "{format:?}");
        }
        for portable in Format::ALL {
            assert_eq!(portable_format(format(*portable)), Some(*portable));
        }
        assert_eq!(texel_format(vk::Format::A8_UNORM_KHR), Some(TexelFormat::color(1)));
        assert_eq!(texel_format(vk::Format::R10X6G10X6_UNORM_2PACK16), Some(TexelFormat::color(4)));
        assert_eq!(texel_format(vk::Format::R8G8B8_SINT), Some(TexelFormat::color(3)));
        assert_eq!(texel_format(vk::Format::R64G64B64_SFLOAT), Some(TexelFormat::color(24)));
    }
}
