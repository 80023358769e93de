//! Vulkan's formats: conversions from and to portable formats, and the layout of their texels in a buffer.

use ash::vk;

use ringfence_hal::{Format, TexelFormat};

/// Returns Vulkan's format for a portable one.
#[must_use]
pub const fn format(format: Format) -> vk::Format {
    vk::Format::from_raw(format.vulkan() as i32)
}

/// Returns the portable format for Vulkan's. Returns `None` if the format has no portable name.
#[must_use]
pub const fn portable_format(format: vk::Format) -> Option<Format> {
    Format::of_vulkan(format.as_raw() as u32)
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
        let pairs = [
            (Format::R8Unorm, vk::Format::R8_UNORM),
            (Format::Rgba8UnormSrgb, vk::Format::R8G8B8A8_SRGB),
            (Format::Bgra8Unorm, vk::Format::B8G8R8A8_UNORM),
            (Format::Abgr8Sint, vk::Format::A8B8G8R8_SINT_PACK32),
            (Format::Rgba32Float, vk::Format::R32G32B32A32_SFLOAT),
            (Format::B5g6r5Unorm, vk::Format::R5G6B5_UNORM_PACK16),
            (Format::Rgb9e5Float, vk::Format::E5B9G9R9_UFLOAT_PACK32),
            (Format::Bc1UnormSrgb, vk::Format::BC1_RGBA_SRGB_BLOCK),
            (Format::Bc7UnormSrgb, vk::Format::BC7_SRGB_BLOCK),
            (Format::EacRg11Snorm, vk::Format::EAC_R11G11_SNORM_BLOCK),
            (Format::Astc12x12UnormSrgb, vk::Format::ASTC_12X12_SRGB_BLOCK),
            (Format::X8D24Unorm, vk::Format::X8_D24_UNORM_PACK32),
            (Format::D32FloatS8Uint, vk::Format::D32_SFLOAT_S8_UINT),
        ];
        for (portable, native) in pairs {
            assert_eq!(format(portable), native);
        }
        assert_eq!(texel_format(vk::Format::A8_UNORM_KHR), Some(TexelFormat::color(1)));
        assert_eq!(texel_format(vk::Format::R10X6G10X6_UNORM_2PACK16), Some(TexelFormat::color(4)));
        assert_eq!(texel_format(vk::Format::R8G8B8_SINT), Some(TexelFormat::color(3)));
        assert_eq!(texel_format(vk::Format::R64G64B64_SFLOAT), Some(TexelFormat::color(24)));
    }
}
