//! How many bytes a resource needs and how they must be aligned: the first of these that the driver grants.
//!
//! ```text
//!                        buffer       texture      small texture   small multisampled texture
//!   tight (where it is)  as needed    as needed    as needed       as needed
//!   small                –            –            4 KiB           64 KiB
//!   default              64 KiB       64 KiB       64 KiB          4 MiB
//! ```
//!
//! A texture is small if its largest mip level takes no more than the default alignment. How the runtime reckons that
//! is its own affair, so the driver is asked; a bound on the texels only spares it questions with an obvious answer.

use windows::Win32::Graphics::Direct3D12::*;

use super::{Device, Features};
use crate::device::DeviceError;

/// Newer than some versions of the `windows` crate; the number is that of the SDK.
const USE_TIGHT_ALIGNMENT: D3D12_RESOURCE_FLAGS = D3D12_RESOURCE_FLAGS(0x400);

const DEFAULT: u64 = D3D12_DEFAULT_RESOURCE_PLACEMENT_ALIGNMENT as u64;
const DEFAULT_MSAA: u64 = D3D12_DEFAULT_MSAA_RESOURCE_PLACEMENT_ALIGNMENT as u64;

/// The smallest texel, of a block-compressed format, has half a byte.
const TEXELS_PER_BYTE_MAX: u64 = 2;

/// Bytes and alignment of a resource, and the description that it has to be made with to have them.
///
/// A description that brings an alignment of its own is measured with that alone.
pub(super) fn measure(
    device: &Device,
    desc: &D3D12_RESOURCE_DESC,
) -> Result<(D3D12_RESOURCE_DESC, D3D12_RESOURCE_ALLOCATION_INFO), DeviceError> {
    if let Some(tight) = tight_candidate(device.features(), desc)
        && let Some(info) = ask(device, &tight)
    {
        return Ok((tight, info));
    }
    if let Some(small) = small_candidate(device.features(), desc)
        && let Some(info) = ask(device, &small).filter(|info| info.Alignment == small.Alignment)
    {
        return Ok((small, info));
    }
    let info = ask(device, desc).ok_or(DeviceError::InvalidInfo("the driver cannot measure such a resource"))?;
    Ok((*desc, info))
}

/// What the driver says; `None` if it is no answer.
fn ask(device: &Device, desc: &D3D12_RESOURCE_DESC) -> Option<D3D12_RESOURCE_ALLOCATION_INFO> {
    // SAFETY: the slice is of one description that lives through the call.
    let info = unsafe { device.raw().GetResourceAllocationInfo(0, std::slice::from_ref(desc)) };
    let measured = info.SizeInBytes != u64::MAX && info.SizeInBytes > 0 && info.Alignment.is_power_of_two();
    measured.then_some(info)
}

fn tight_candidate(features: Features, desc: &D3D12_RESOURCE_DESC) -> Option<D3D12_RESOURCE_DESC> {
    let shared = desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_CROSS_ADAPTER);
    let candidate = features.tight_alignment && desc.Alignment == 0 && !shared;
    candidate.then_some(D3D12_RESOURCE_DESC { Flags: desc.Flags | USE_TIGHT_ALIGNMENT, ..*desc })
}

fn small_candidate(features: Features, desc: &D3D12_RESOURCE_DESC) -> Option<D3D12_RESOURCE_DESC> {
    let is_texture = desc.Dimension != D3D12_RESOURCE_DIMENSION_BUFFER;
    if !is_texture || desc.Alignment != 0 || desc.Layout != D3D12_TEXTURE_LAYOUT_UNKNOWN {
        return None;
    }
    let multisampled = desc.SampleDesc.Count > 1;
    let (small, default) = if multisampled {
        (D3D12_SMALL_MSAA_RESOURCE_PLACEMENT_ALIGNMENT, DEFAULT_MSAA)
    } else {
        (D3D12_SMALL_RESOURCE_PLACEMENT_ALIGNMENT, DEFAULT)
    };
    let may = !is_target(desc.Flags) || (multisampled && features.small_msaa);
    let depth = if desc.Dimension == D3D12_RESOURCE_DIMENSION_TEXTURE3D { desc.DepthOrArraySize.into() } else { 1 };
    let texels = desc.Width.saturating_mul(desc.Height.into()).saturating_mul(depth);
    let small_enough = texels.saturating_mul(desc.SampleDesc.Count.into()) <= default * TEXELS_PER_BYTE_MAX;
    (may && small_enough).then_some(D3D12_RESOURCE_DESC { Alignment: small.into(), ..*desc })
}

/// Whether a texture with these flags is drawn to.
pub(super) fn is_target(flags: D3D12_RESOURCE_FLAGS) -> bool {
    flags.contains(D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET) || flags.contains(D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windows::Win32::Graphics::Dxgi::Common::{DXGI_FORMAT_R8G8B8A8_UNORM, DXGI_SAMPLE_DESC};

    const PLAIN: Features = Features {
        mixed_heaps: true,
        unified_memory: false,
        not_zeroed: false,
        gpu_upload_heaps: false,
        tight_alignment: false,
        small_msaa: false,
        resource_address_bits: 40,
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

    #[test]
    fn tight_alignment_is_asked_for_only_where_it_is() {
        let desc = texture(64, 1, D3D12_RESOURCE_FLAG_NONE);
        assert!(tight_candidate(PLAIN, &desc).is_none());
        let tight = tight_candidate(Features { tight_alignment: true, ..PLAIN }, &desc).unwrap();
        assert!(tight.Flags.contains(USE_TIGHT_ALIGNMENT));
        assert_eq!(tight.Alignment, 0);
    }
}
