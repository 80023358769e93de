//! Sizes and alignments of resources. The first of these alignments that the driver grants is used:
//!
//! ```text
//!                        buffer       texture      small texture   small multisampled texture
//!   tight (if supported) as needed    as needed    as needed       as needed
//!   small                –            –            4 KiB           64 KiB
//!   default              64 KiB       64 KiB       64 KiB          4 MiB
//! ```
//!
//! Tight alignment ignores how a buffer is used: the driver may report an alignment of 8 bytes, although a
//! constant-buffer view must start at a multiple of 256. A buffer is therefore aligned to at least 256 bytes, or to the
//! alignment in its description.
//!
//! A texture is small if its largest mip level fits into 64 KiB in tiles of 4 KiB. A multisampled texture is small if
//! its largest mip level fits into 4 MiB in tiles of 64 KiB. The runtime applies the same rules. This module applies
//! them first, because the debug layer reports a query that fails as a mistake. For arrays and volumes, the estimate is
//! conservative.

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;

use super::capabilities::Features;
use super::describe::CONSTANT_VIEW_ALIGNMENT;
use super::device::Device;
use ringfence_hal::{DeviceError, Numbers};

/// Flag from the SDK. Some supported versions of the `windows` crate lack it.
const USE_TIGHT_ALIGNMENT: D3D12_RESOURCE_FLAGS = D3D12_RESOURCE_FLAGS(0x400);

/// Returns the size and alignment of a resource, and the description with which it must be created to get them.
///
/// If a texture's description has an alignment, only that alignment is measured. The alignment in a buffer's
/// description is its minimum alignment.
pub(super) fn measure(
    device: &Device,
    desc: &D3D12_RESOURCE_DESC,
) -> Result<(D3D12_RESOURCE_DESC, D3D12_RESOURCE_ALLOCATION_INFO), DeviceError> {
    let alignment_min = buffer_alignment_min(desc)?;
    let desc = &D3D12_RESOURCE_DESC { Alignment: if alignment_min > 0 { 0 } else { desc.Alignment }, ..*desc };
    let raised = |info: D3D12_RESOURCE_ALLOCATION_INFO| D3D12_RESOURCE_ALLOCATION_INFO {
        Alignment: info.Alignment.max(alignment_min),
        ..info
    };
    if let Some(tight) = tight_candidate(device.features(), desc)
        && let Some(info) = allocation_info(device, &tight)
    {
        return Ok((tight, raised(info)));
    }
    if let Some(small) = small_candidate(device.features(), desc)
        && let Some(info) = allocation_info(device, &small).filter(|info| info.Alignment == small.Alignment)
    {
        return Ok((small, info));
    }
    let info =
        allocation_info(device, desc).ok_or(DeviceError::invalid("the driver rejects the resource's description"))?;
    Ok((*desc, raised(info)))
}

/// Returns the minimum alignment of a buffer, in bytes: the alignment of its description, or that of constant-buffer
/// views if the description has none. Returns 0 for a texture.
fn buffer_alignment_min(desc: &D3D12_RESOURCE_DESC) -> Result<u64, DeviceError> {
    match desc.Alignment {
        _ if desc.Dimension != D3D12_RESOURCE_DIMENSION_BUFFER => Ok(0),
        0 => Ok(CONSTANT_VIEW_ALIGNMENT),
        alignment if alignment.is_power_of_two() => Ok(alignment),
        given => Err(DeviceError::invalid("an alignment that is not a power of two").with(Numbers::Given(given))),
    }
}

/// Returns the driver's size and alignment. Returns `None` if the driver rejects the description.
fn allocation_info(device: &Device, desc: &D3D12_RESOURCE_DESC) -> Option<D3D12_RESOURCE_ALLOCATION_INFO> {
    // SAFETY: the slice holds one description that lives through the call.
    let info = unsafe { device.raw().GetResourceAllocationInfo(0, std::slice::from_ref(desc)) };
    let measured = info.SizeInBytes != u64::MAX && info.SizeInBytes > 0 && info.Alignment.is_power_of_two();
    measured.then_some(info)
}

fn tight_candidate(features: Features, desc: &D3D12_RESOURCE_DESC) -> Option<D3D12_RESOURCE_DESC> {
    let shared = desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_CROSS_ADAPTER);
    // These layouts have pages of 64 KiB.
    let swizzled = [D3D12_TEXTURE_LAYOUT_64KB_UNDEFINED_SWIZZLE, D3D12_TEXTURE_LAYOUT_64KB_STANDARD_SWIZZLE];
    let candidate = features.tight_alignment && desc.Alignment == 0 && !shared && !swizzled.contains(&desc.Layout);
    candidate.then_some(D3D12_RESOURCE_DESC { Flags: desc.Flags | USE_TIGHT_ALIGNMENT, ..*desc })
}

fn small_candidate(features: Features, desc: &D3D12_RESOURCE_DESC) -> Option<D3D12_RESOURCE_DESC> {
    let is_texture = desc.Dimension != D3D12_RESOURCE_DIMENSION_BUFFER;
    if !is_texture || desc.Alignment != 0 || desc.Layout != D3D12_TEXTURE_LAYOUT_UNKNOWN {
        return None;
    }
    let multisampled = desc.SampleDesc.Count > 1;
    let small = if multisampled {
        D3D12_SMALL_MSAA_RESOURCE_PLACEMENT_ALIGNMENT
    } else {
        D3D12_SMALL_RESOURCE_PLACEMENT_ALIGNMENT
    };
    let may = !is_target(desc.Flags) || (multisampled && features.small_msaa);
    (may && is_small(desc)).then_some(D3D12_RESOURCE_DESC { Alignment: small.into(), ..*desc })
}

/// Returns `true` if a texture is small: its largest mip level fits into 16 tiles of 4 KiB, or into 64 tiles of 64 KiB
/// if it is multisampled.
fn is_small(desc: &D3D12_RESOURCE_DESC) -> bool {
    let Some((bits, block)) = element(desc.Format) else { return false };
    let samples = desc.SampleDesc.Count;
    let (tile_bytes_log2, tiles_max) = if samples > 1 { (16, 64) } else { (12, 16) };
    let across = desc.Width.div_ceil(block);
    let down = u64::from(desc.Height).div_ceil(block);
    let layers = u64::from(desc.DepthOrArraySize);
    if desc.Dimension == D3D12_RESOURCE_DIMENSION_TEXTURE3D {
        // The longest side of a tile of a volume has 16 texels.
        let whole = |side: u64| side.next_multiple_of(16);
        let bytes =
            u128::from(whole(across)) * u128::from(whole(down)) * u128::from(whole(layers)) * u128::from(bits / 8);
        return bytes <= tiles_max << tile_bytes_log2;
    }
    // A tile is a square of elements, or twice as wide as high.
    let elements_log2 = tile_bytes_log2 - (u64::from(bits) / 8 * u64::from(samples)).next_power_of_two().ilog2();
    let (wide, high) = (1 << elements_log2.div_ceil(2), 1 << (elements_log2 / 2));
    // With several samples, a tile may also be twice as high as wide. Both sides therefore get the shorter length.
    let (wide, high) = if samples > 1 { (high, high) } else { (wide, high) };
    let tiles = u128::from(across.div_ceil(wide)) * u128::from(down.div_ceil(high)) * u128::from(layers);
    tiles <= tiles_max
}

/// Returns the size of an element in bits, and its side in texels. An element is a texel, or a block of 4 × 4 texels of
/// a compressed format. Returns `None` for formats that are not estimated: formats with three 32-bit channels, packed
/// formats, and video formats.
fn element(format: DXGI_FORMAT) -> Option<(u32, u64)> {
    Some(match format.0 {
        1..=4 => (128, 1),
        9..=22 => (64, 1),
        23..=47 | 67 | 87..=93 => (32, 1),
        48..=59 | 85 | 86 | 115 => (16, 1),
        60..=65 => (8, 1),
        70..=72 | 79..=81 => (64, 4),
        73..=78 | 82..=84 | 94..=99 => (128, 4),
        _ => return None,
    })
}

/// Returns `true` if a texture with these flags is a render target or a depth-stencil.
pub(super) fn is_target(flags: D3D12_RESOURCE_FLAGS) -> bool {
    flags.contains(D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET) || flags.contains(D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windows::Win32::Graphics::Dxgi::Common::*;

    const PLAIN: Features = Features {
        mixed_heaps: true,
        unified_memory: false,
        not_zeroed: false,
        gpu_upload_heaps: false,
        tight_alignment: false,
        small_msaa: false,
        resource_address_bits: 40,
        resource_binding_tier: 3,
        view_slots_max: 1_000_000,
        sampler_slots_max: 2_048,
    };

    fn texture(size: u64, samples: u32, flags: D3D12_RESOURCE_FLAGS) -> D3D12_RESOURCE_DESC {
        D3D12_RESOURCE_DESC {
            Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE2D,
            Alignment: 0,
            Width: size,
            Height: size as u32,
            DepthOrArraySize: 1,
            MipLevels: 1,
            Format: DXGI_FORMAT_R8G8B8A8_UNORM,
            SampleDesc: DXGI_SAMPLE_DESC { Count: samples, Quality: 0 },
            Layout: D3D12_TEXTURE_LAYOUT_UNKNOWN,
            Flags: flags,
        }
    }

    fn small_alignment(features: Features, desc: &D3D12_RESOURCE_DESC) -> Option<u64> {
        small_candidate(features, desc).map(|desc| desc.Alignment)
    }

    #[test]
    fn small_textures_are_tried_at_the_small_alignment() {
        let none = D3D12_RESOURCE_FLAG_NONE;
        assert_eq!(small_alignment(PLAIN, &texture(64, 1, none)), Some(4 << 10));
        assert_eq!(small_alignment(PLAIN, &texture(2048, 1, none)), None);
        assert_eq!(small_alignment(PLAIN, &texture(64, 4, none)), Some(64 << 10));
        assert_eq!(small_alignment(PLAIN, &texture(8192, 4, none)), None);
        assert_eq!(small_alignment(PLAIN, &D3D12_RESOURCE_DESC { Alignment: 1 << 16, ..texture(64, 1, none) }), None);
    }

    #[test]
    fn targets_are_small_only_if_multisampled_and_the_device_says_so() {
        let target = D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET;
        let small_msaa = Features { small_msaa: true, ..PLAIN };
        assert_eq!(small_alignment(small_msaa, &texture(64, 1, target)), None);
        assert_eq!(small_alignment(PLAIN, &texture(64, 4, target)), None);
        assert_eq!(small_alignment(small_msaa, &texture(64, 4, target)), Some(64 << 10));
    }

    /// Textures that fill 64 KiB in tiles of 4 KiB are small. With one more texel in either direction, they are too
    /// large.
    #[test]
    fn the_small_alignment_is_not_tried_beyond_64_kib() {
        let of = |format, width, height| D3D12_RESOURCE_DESC {
            Format: format,
            Width: width,
            Height: height,
            ..texture(1, 1, D3D12_RESOURCE_FLAG_NONE)
        };
        for (format, width, height) in [
            (DXGI_FORMAT_R8_UNORM, 256, 256),
            (DXGI_FORMAT_R16_FLOAT, 256, 128),
            (DXGI_FORMAT_R8G8B8A8_UNORM, 128, 128),
            (DXGI_FORMAT_R16G16B16A16_FLOAT, 128, 64),
            (DXGI_FORMAT_R32G32B32A32_FLOAT, 64, 64),
            (DXGI_FORMAT_BC1_UNORM, 512, 256),
            (DXGI_FORMAT_BC7_UNORM, 256, 256),
        ] {
            assert!(is_small(&of(format, width, height)), "{format:?}");
            assert!(!is_small(&of(format, width + 1, height)), "{format:?}, wider");
            assert!(!is_small(&of(format, width, height + 1)), "{format:?}, higher");
            let layers = D3D12_RESOURCE_DESC { DepthOrArraySize: 2, ..of(format, width, height) };
            assert!(!is_small(&layers), "{format:?}, two of them");
        }
        // These are as many texels as fit into 64 KiB, but the tiles are only partly filled.
        assert!(!is_small(&of(DXGI_FORMAT_R8G8B8A8_UNORM, 16_384, 1)));
        assert!(!is_small(&of(DXGI_FORMAT_R32G32B32_FLOAT, 4, 4)), "not estimated");
        let volume = |side, depth| D3D12_RESOURCE_DESC {
            Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE3D,
            DepthOrArraySize: depth,
            ..of(DXGI_FORMAT_R8G8B8A8_UNORM, side, side as u32)
        };
        assert!(is_small(&volume(16, 64)) && is_small(&volume(32, 16)));
        assert!(!is_small(&volume(32, 17)) && !is_small(&volume(64, 8)));
    }

    #[test]
    fn buffers_are_aligned_for_their_views() {
        let buffer = D3D12_RESOURCE_DESC {
            Dimension: D3D12_RESOURCE_DIMENSION_BUFFER,
            ..texture(100, 1, D3D12_RESOURCE_FLAG_NONE)
        };
        assert_eq!(buffer_alignment_min(&buffer), Ok(256), "any view");
        for alignment in [8, 16, 64, 256, 4096, 64 << 10] {
            let aligned = D3D12_RESOURCE_DESC { Alignment: alignment, ..buffer };
            assert_eq!(buffer_alignment_min(&aligned), Ok(alignment));
        }
        assert!(buffer_alignment_min(&D3D12_RESOURCE_DESC { Alignment: 100, ..buffer }).is_err());
        assert_eq!(buffer_alignment_min(&texture(64, 1, D3D12_RESOURCE_FLAG_NONE)), Ok(0));
    }

    #[test]
    fn tight_alignment_is_not_asked_for_where_pages_are_64_kib() {
        let tight = Features { tight_alignment: true, ..PLAIN };
        let desc = texture(64, 1, D3D12_RESOURCE_FLAG_NONE);
        for layout in [D3D12_TEXTURE_LAYOUT_64KB_UNDEFINED_SWIZZLE, D3D12_TEXTURE_LAYOUT_64KB_STANDARD_SWIZZLE] {
            assert!(tight_candidate(tight, &D3D12_RESOURCE_DESC { Layout: layout, ..desc }).is_none());
        }
    }

    #[test]
    fn tight_alignment_is_asked_for_only_where_it_is() {
        let desc = texture(64, 1, D3D12_RESOURCE_FLAG_NONE);
        assert!(tight_candidate(PLAIN, &desc).is_none());
        let tight = tight_candidate(Features { tight_alignment: true, ..PLAIN }, &desc).unwrap();
        assert!(tight.Flags.contains(USE_TIGHT_ALIGNMENT));
        assert_eq!(tight.Alignment, 0);
    }
}
