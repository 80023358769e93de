//! Textures and formats that support copies of their texels.

use ringfence::d3d12::{Device, ResourceInfo};
use ringfence::device::{Create, Dimension, TextureDesc, Textures};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::*;

macro_rules! formats {
    ($($name:ident)*) => {
        /// All single-plane formats and depth-stencil formats, and some typeless ones.
        pub(super) const FORMATS: &[(&str, DXGI_FORMAT)] = &[$((stringify!($name), $name)),*];
    };
}

formats! {
    DXGI_FORMAT_R32G32B32A32_FLOAT
    DXGI_FORMAT_R32G32B32A32_UINT
    DXGI_FORMAT_R32G32B32A32_SINT
    DXGI_FORMAT_R32G32B32_FLOAT
    DXGI_FORMAT_R32G32B32_UINT
    DXGI_FORMAT_R32G32B32_SINT
    DXGI_FORMAT_R16G16B16A16_FLOAT
    DXGI_FORMAT_R16G16B16A16_UNORM
    DXGI_FORMAT_R16G16B16A16_UINT
    DXGI_FORMAT_R16G16B16A16_SNORM
    DXGI_FORMAT_R16G16B16A16_SINT
    DXGI_FORMAT_R32G32_FLOAT
    DXGI_FORMAT_R32G32_UINT
    DXGI_FORMAT_R32G32_SINT
    DXGI_FORMAT_D32_FLOAT_S8X24_UINT
    DXGI_FORMAT_R10G10B10A2_UNORM
    DXGI_FORMAT_R10G10B10A2_UINT
    DXGI_FORMAT_R11G11B10_FLOAT
    DXGI_FORMAT_R8G8B8A8_UNORM
    DXGI_FORMAT_R8G8B8A8_UNORM_SRGB
    DXGI_FORMAT_R8G8B8A8_UINT
    DXGI_FORMAT_R8G8B8A8_SNORM
    DXGI_FORMAT_R8G8B8A8_SINT
    DXGI_FORMAT_R16G16_FLOAT
    DXGI_FORMAT_R16G16_UNORM
    DXGI_FORMAT_R16G16_UINT
    DXGI_FORMAT_R16G16_SNORM
    DXGI_FORMAT_R16G16_SINT
    DXGI_FORMAT_R32_TYPELESS
    DXGI_FORMAT_D32_FLOAT
    DXGI_FORMAT_R32_FLOAT
    DXGI_FORMAT_R32_UINT
    DXGI_FORMAT_R32_SINT
    DXGI_FORMAT_D24_UNORM_S8_UINT
    DXGI_FORMAT_R8G8_UNORM
    DXGI_FORMAT_R8G8_UINT
    DXGI_FORMAT_R8G8_SNORM
    DXGI_FORMAT_R8G8_SINT
    DXGI_FORMAT_R16_TYPELESS
    DXGI_FORMAT_R16_FLOAT
    DXGI_FORMAT_D16_UNORM
    DXGI_FORMAT_R16_UNORM
    DXGI_FORMAT_R16_UINT
    DXGI_FORMAT_R16_SNORM
    DXGI_FORMAT_R16_SINT
    DXGI_FORMAT_R8_UNORM
    DXGI_FORMAT_R8_UINT
    DXGI_FORMAT_R8_SNORM
    DXGI_FORMAT_R8_SINT
    DXGI_FORMAT_A8_UNORM
    DXGI_FORMAT_R9G9B9E5_SHAREDEXP
    DXGI_FORMAT_BC1_UNORM
    DXGI_FORMAT_BC1_UNORM_SRGB
    DXGI_FORMAT_BC2_UNORM
    DXGI_FORMAT_BC2_UNORM_SRGB
    DXGI_FORMAT_BC3_UNORM
    DXGI_FORMAT_BC3_UNORM_SRGB
    DXGI_FORMAT_BC4_UNORM
    DXGI_FORMAT_BC4_SNORM
    DXGI_FORMAT_BC5_UNORM
    DXGI_FORMAT_BC5_SNORM
    DXGI_FORMAT_B5G6R5_UNORM
    DXGI_FORMAT_B5G5R5A1_UNORM
    DXGI_FORMAT_B8G8R8A8_UNORM
    DXGI_FORMAT_B8G8R8X8_UNORM
    DXGI_FORMAT_B8G8R8A8_UNORM_SRGB
    DXGI_FORMAT_B8G8R8X8_UNORM_SRGB
    DXGI_FORMAT_BC6H_UF16
    DXGI_FORMAT_BC6H_SF16
    DXGI_FORMAT_BC7_UNORM
    DXGI_FORMAT_BC7_UNORM_SRGB
    DXGI_FORMAT_B4G4R4A4_UNORM
    DXGI_FORMAT_R8G8B8A8_TYPELESS
    DXGI_FORMAT_BC1_TYPELESS
    DXGI_FORMAT_BC7_TYPELESS
}

/// Returns `true` if the driver supports textures of this format and dimension.
fn has(device: &Device, format: DXGI_FORMAT, dimension: Dimension) -> bool {
    let mut support = D3D12_FEATURE_DATA_FORMAT_SUPPORT { Format: format, ..Default::default() };
    let size = size_of_val(&support) as u32;
    let asked =
        // SAFETY: the pointer points to a local of the structure that the query fills; the size is its size.
        unsafe { device.raw().CheckFeatureSupport(D3D12_FEATURE_FORMAT_SUPPORT, (&raw mut support).cast(), size) };
    let needed = match dimension {
        Dimension::D1 => D3D12_FORMAT_SUPPORT1_TEXTURE1D,
        Dimension::D2 => D3D12_FORMAT_SUPPORT1_TEXTURE2D,
        Dimension::Cube => D3D12_FORMAT_SUPPORT1_TEXTURECUBE,
        Dimension::D3 => D3D12_FORMAT_SUPPORT1_TEXTURE3D,
    };
    asked.is_ok() && support.Support1.contains(needed)
}

/// Returns `true` if the driver reports stencil as a separate plane. Wine 8 does not, and copies both wrongly.
fn has_second_plane(device: &Device, desc: &D3D12_RESOURCE_DESC) -> bool {
    let mut layout = D3D12_PLACED_SUBRESOURCE_FOOTPRINT::default();
    let first = u32::from(desc.MipLevels) * u32::from(desc.DepthOrArraySize);
    // SAFETY: the description and the layout live through the call.
    unsafe { device.raw().GetCopyableFootprints(desc, first, 1, 0, Some(&mut layout), None, None, None) };
    layout.Footprint.Format == DXGI_FORMAT_R8_TYPELESS
}

/// Describes a texture for copies. Returns `None` if the device does not support it.
pub(super) fn describe(device: &Device, format: usize, desc: &TextureDesc) -> Option<ResourceInfo> {
    let (name, format) = *FORMATS.get(format)?;
    let is_compressed = name.contains("_BC");
    // The sides of a block-compressed texture must be multiples of the block size.
    if is_compressed && !(desc.width.is_multiple_of(4) && desc.height.is_multiple_of(4)) {
        return None;
    }
    // Depth textures must be two-dimensional. Block-compressed textures must have two or three dimensions.
    let is_depth = name.contains("_D16") || name.contains("_D24") || name.contains("_D32");
    let is_flat = matches!(desc.dimension, Dimension::D2 | Dimension::Cube);
    if (is_depth && !is_flat)
        || (is_compressed && desc.dimension == Dimension::D1)
        || !has(device, format, desc.dimension)
    {
        return None;
    }
    let (dimension, depth_or_layers) = match desc.dimension {
        Dimension::D1 => (D3D12_RESOURCE_DIMENSION_TEXTURE1D, desc.layers),
        Dimension::D2 | Dimension::Cube => (D3D12_RESOURCE_DIMENSION_TEXTURE2D, desc.layers),
        Dimension::D3 => (D3D12_RESOURCE_DIMENSION_TEXTURE3D, desc.depth),
    };
    let flags = if is_depth { D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL } else { D3D12_RESOURCE_FLAG_NONE };
    let desc = D3D12_RESOURCE_DESC {
        Dimension: dimension,
        Alignment: 0,
        Width: desc.width.into(),
        Height: desc.height,
        DepthOrArraySize: u16::try_from(depth_or_layers).ok()?,
        MipLevels: u16::try_from(desc.mips).ok()?,
        Format: format,
        SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
        Layout: D3D12_TEXTURE_LAYOUT_UNKNOWN,
        Flags: flags,
    };
    // Every command returns the texture to the common state.
    let info = ResourceInfo { returns_to_initial_state: true, ..ResourceInfo::from(desc) };
    if name.contains("_S8") && !has_second_plane(device, &info.desc) {
        return None;
    }
    // SAFETY: the description holds no pointer, and no resource is created from it.
    unsafe { Create::<Textures>::prepare(device, &info) }.is_ok().then_some(info)
}
