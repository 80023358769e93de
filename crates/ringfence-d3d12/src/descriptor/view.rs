//! Views with Direct3D 12's structures, and the conversion of portable views.

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::*;

use crate::describe::{depth_format, shader_format};
use crate::device::Device;
use ringfence_hal::descriptors::{
    AddressMode, BorderColor, BufferView, BufferViewKind, Compare, Component, Filter, HeapKind, PortableView,
    SamplerDesc, TextureView, TextureViewKind, ViewDimension,
};
use ringfence_hal::{BufferDesc, DeviceError, Format, TextureAspect, TextureDesc};

/// View that is described by Direct3D 12's structures. If a resource or a description is `None`, the API's rules for
/// null arguments apply.
#[derive(Clone)]
pub enum View {
    /// A constant-buffer view. A location of 0 makes it a null descriptor.
    Constants(D3D12_CONSTANT_BUFFER_VIEW_DESC),
    /// A shader-resource view of any dimension.
    ShaderResource(Option<ID3D12Resource>, Option<D3D12_SHADER_RESOURCE_VIEW_DESC>),
    /// An unordered-access view, with the buffer of its counter if it has a counter.
    UnorderedAccess {
        /// The viewed resource.
        resource: Option<ID3D12Resource>,
        /// The buffer that contains the counter.
        counter: Option<ID3D12Resource>,
        /// The description of the view.
        desc: Option<D3D12_UNORDERED_ACCESS_VIEW_DESC>,
    },
    /// A render-target view.
    RenderTarget(Option<ID3D12Resource>, Option<D3D12_RENDER_TARGET_VIEW_DESC>),
    /// A depth-stencil view.
    DepthStencil(Option<ID3D12Resource>, Option<D3D12_DEPTH_STENCIL_VIEW_DESC>),
    /// A sampler.
    Sampler(D3D12_SAMPLER_DESC),
}

impl View {
    pub(super) const fn kind(&self) -> HeapKind {
        match self {
            Self::Constants(_) | Self::ShaderResource(..) | Self::UnorderedAccess { .. } => HeapKind::Resources,
            Self::RenderTarget(..) => HeapKind::RenderTargets,
            Self::DepthStencil(..) => HeapKind::DepthStencils,
            Self::Sampler(_) => HeapKind::Samplers,
        }
    }

    /// Returns the null descriptor for a kind of heap. The API has no null sampler, so a sampler gets nearest filters
    /// and clamped addresses.
    pub(super) fn null(kind: HeapKind) -> Self {
        match kind {
            HeapKind::Resources => Self::ShaderResource(None, Some(buffer_srv(DXGI_FORMAT_R32_UINT, 0, 1, 0))),
            HeapKind::RenderTargets => Self::RenderTarget(None, Some(rtv(DXGI_FORMAT_R8G8B8A8_UNORM, 1, 0, 0..1))),
            HeapKind::DepthStencils => Self::DepthStencil(None, Some(dsv(DXGI_FORMAT_D32_FLOAT, 1, 0, 0..1))),
            HeapKind::Samplers => {
                let nearest = Filter::Nearest;
                let address = [AddressMode::Clamp; 3];
                let desc =
                    SamplerDesc { magnify: nearest, minify: nearest, mip: nearest, address, ..Default::default() };
                Self::Sampler(sampler(&desc))
            }
        }
    }

    /// Writes the view into a slot.
    ///
    /// # Safety
    /// The slot must belong to a heap for views of this kind, and the view must be valid.
    pub(super) unsafe fn write(&self, device: &ID3D12Device, slot: D3D12_CPU_DESCRIPTOR_HANDLE) {
        // SAFETY: the pointers point to values that live through the calls. The caller promises the rest.
        unsafe {
            match self {
                Self::Constants(desc) => device.CreateConstantBufferView(Some(desc), slot),
                Self::ShaderResource(resource, desc) => {
                    device.CreateShaderResourceView(resource.as_ref(), pointer(desc.as_ref()), slot);
                }
                Self::UnorderedAccess { resource, counter, desc } => {
                    let desc = pointer(desc.as_ref());
                    device.CreateUnorderedAccessView(resource.as_ref(), counter.as_ref(), desc, slot);
                }
                Self::RenderTarget(resource, desc) => {
                    device.CreateRenderTargetView(resource.as_ref(), pointer(desc.as_ref()), slot);
                }
                Self::DepthStencil(resource, desc) => {
                    device.CreateDepthStencilView(resource.as_ref(), pointer(desc.as_ref()), slot);
                }
                Self::Sampler(desc) => device.CreateSampler(desc, slot),
            }
        }
    }
}

fn pointer<T>(desc: Option<&T>) -> Option<*const T> {
    desc.map(std::ptr::from_ref)
}

/// Returns Direct3D 12's view for a portable one.
pub(super) fn describe(portable: &PortableView<'_, Device>) -> Result<View, DeviceError> {
    match portable {
        PortableView::Buffer { object, desc, view } => buffer(object, desc, *view),
        PortableView::Texture { object, desc, view } => texture(object, desc, view),
        PortableView::Sampler(desc) => Ok(View::Sampler(sampler(desc))),
    }
}

fn buffer(object: &ID3D12Resource, desc: &BufferDesc, view: BufferView) -> Result<View, DeviceError> {
    let BufferView { kind, offset, size } = view;
    let (format, stride, writes) = match kind {
        BufferViewKind::Constants => {
            // SAFETY: a call without arguments on a live object.
            let location = unsafe { object.GetGPUVirtualAddress() } + offset;
            // Constant-buffer views end at multiples of 256 bytes, so the view also contains the bytes that follow in
            // the buffer.
            let size = size.next_multiple_of(256);
            DeviceError::unsupported("constants that end beyond their buffer once rounded up to 256 bytes")
                .at_most(offset + size, desc.size)?;
            DeviceError::unsupported("a view of this many bytes").at_most(size, u32::MAX.into())?;
            return Ok(View::Constants(D3D12_CONSTANT_BUFFER_VIEW_DESC {
                BufferLocation: location,
                SizeInBytes: size as u32,
            }));
        }
        BufferViewKind::Storage { stride: 0, writes } => (DXGI_FORMAT_R32_TYPELESS, 0, writes),
        BufferViewKind::Storage { stride, writes } => (DXGI_FORMAT_UNKNOWN, stride, writes),
        BufferViewKind::Texels { format, writes } => (shader_format(format)?, 0, writes),
    };
    DeviceError::unsupported("structures as large as this in a view")
        .at_most(stride.into(), D3D12_REQ_MULTI_ELEMENT_STRUCTURE_SIZE_IN_BYTES.into())?;
    let unit = match kind {
        BufferViewKind::Texels { format, .. } => format.texel_bytes(),
        _ => u64::from(stride.max(4)),
    };
    DeviceError::unsupported("a view of this many elements").at_most(size / unit, u32::MAX.into())?;
    let count = (size / unit) as u32;
    let object = Some(object.clone());
    if !writes {
        return Ok(View::ShaderResource(object, Some(buffer_srv(format, offset / unit, count, stride))));
    }
    let raw = format == DXGI_FORMAT_R32_TYPELESS;
    let flags = if raw { D3D12_BUFFER_UAV_FLAG_RAW } else { D3D12_BUFFER_UAV_FLAG_NONE };
    let shown = D3D12_BUFFER_UAV {
        FirstElement: offset / unit,
        NumElements: count,
        StructureByteStride: stride,
        CounterOffsetInBytes: 0,
        Flags: flags,
    };
    let desc = D3D12_UNORDERED_ACCESS_VIEW_DESC {
        Format: format,
        ViewDimension: D3D12_UAV_DIMENSION_BUFFER,
        Anonymous: D3D12_UNORDERED_ACCESS_VIEW_DESC_0 { Buffer: shown },
    };
    Ok(View::UnorderedAccess { resource: object, counter: None, desc: Some(desc) })
}

fn buffer_srv(format: DXGI_FORMAT, first: u64, count: u32, stride: u32) -> D3D12_SHADER_RESOURCE_VIEW_DESC {
    let raw = format == DXGI_FORMAT_R32_TYPELESS;
    let flags = if raw { D3D12_BUFFER_SRV_FLAG_RAW } else { D3D12_BUFFER_SRV_FLAG_NONE };
    let shown = D3D12_BUFFER_SRV { FirstElement: first, NumElements: count, StructureByteStride: stride, Flags: flags };
    D3D12_SHADER_RESOURCE_VIEW_DESC {
        Format: format,
        ViewDimension: D3D12_SRV_DIMENSION_BUFFER,
        Shader4ComponentMapping: D3D12_DEFAULT_SHADER_4_COMPONENT_MAPPING,
        Anonymous: D3D12_SHADER_RESOURCE_VIEW_DESC_0 { Buffer: shown },
    }
}

fn texture(object: &ID3D12Resource, desc: &TextureDesc, view: &TextureView) -> Result<View, DeviceError> {
    let object = Some(object.clone());
    let (mip, layers) = (view.mips.start, view.layers.clone());
    Ok(match view.kind {
        TextureViewKind::Sampled => {
            let format = aspect_format(view.format_in(desc), view.aspect)?;
            View::ShaderResource(object, Some(srv(format, desc, view)))
        }
        TextureViewKind::Storage => {
            let format = shader_format(view.format_in(desc))?;
            View::UnorderedAccess { resource: object, counter: None, desc: Some(uav(format, desc, view)) }
        }
        TextureViewKind::RenderTarget => {
            View::RenderTarget(object, Some(rtv(shader_format(view.format_in(desc))?, desc.samples, mip, layers)))
        }
        TextureViewKind::DepthStencil => {
            View::DepthStencil(object, Some(dsv(depth_format(desc.format)?, desc.samples, mip, layers)))
        }
    })
}

/// Returns the format in which shaders read an aspect.
fn aspect_format(format: Format, aspect: Option<TextureAspect>) -> Result<DXGI_FORMAT, DeviceError> {
    match (aspect, format) {
        (Some(TextureAspect::Stencil), Format::D24UnormS8Uint) => Ok(DXGI_FORMAT_X24_TYPELESS_G8_UINT),
        (Some(TextureAspect::Stencil), Format::D32FloatS8Uint) => Ok(DXGI_FORMAT_X32_TYPELESS_G8X24_UINT),
        _ => shader_format(format),
    }
}

/// Returns `true` if a plain view can show these layers: the first layer alone. A plain view has no layer number, so
/// any other single layer is shown as an array of one layer.
fn is_plain(layers: &std::ops::Range<u32>) -> bool {
    *layers == (0..1)
}

fn srv(format: DXGI_FORMAT, desc: &TextureDesc, view: &TextureView) -> D3D12_SHADER_RESOURCE_VIEW_DESC {
    let dimension = view.dimension_in(desc.dimension);
    let (dimension, shown) = match dimension {
        ViewDimension::Cube | ViewDimension::CubeArray => srv_of_cubes(dimension, view),
        _ if desc.samples > 1 => srv_of_samples(view),
        _ => srv_of_texels(dimension, view),
    };
    let is_stencil = matches!(format, DXGI_FORMAT_X24_TYPELESS_G8_UINT | DXGI_FORMAT_X32_TYPELESS_G8X24_UINT);
    D3D12_SHADER_RESOURCE_VIEW_DESC {
        Format: format,
        ViewDimension: dimension,
        Shader4ComponentMapping: mapping(view.swizzle, is_stencil),
        Anonymous: shown,
    }
}

/// Returns `D3D12_ENCODE_SHADER_4_COMPONENT_MAPPING` of four sources. Direct3D 12 returns stencil in the second
/// component. Shaders for other APIs read stencil from the first component, and 0, 0 and 1 from the others.
fn mapping(swizzle: [Component; 4], is_stencil: bool) -> u32 {
    let source = |component| match component {
        Component::Red if is_stencil => 1,
        Component::Green | Component::Blue if is_stencil => 4,
        Component::Alpha if is_stencil => 5,
        Component::Red => 0,
        Component::Green => 1,
        Component::Blue => 2,
        Component::Alpha => 3,
        Component::Zero => 4,
        Component::One => 5,
    };
    let [red, green, blue, alpha] = swizzle.map(source);
    red | green << 3 | blue << 6 | alpha << 9 | 1 << 12
}

type Srv = (D3D12_SRV_DIMENSION, D3D12_SHADER_RESOURCE_VIEW_DESC_0);

/// Describes a view of cubes. A plain cube view starts at the first layer, so a cube that starts at a later layer is
/// shown as an array of one cube.
fn srv_of_cubes(dimension: ViewDimension, view: &TextureView) -> Srv {
    let (first_mip, mips) = (view.mips.start, view.mips.len() as u32);
    if dimension == ViewDimension::Cube && view.layers.start == 0 {
        let cube = D3D12_TEXCUBE_SRV { MostDetailedMip: first_mip, MipLevels: mips, ..Default::default() };
        return (D3D12_SRV_DIMENSION_TEXTURECUBE, D3D12_SHADER_RESOURCE_VIEW_DESC_0 { TextureCube: cube });
    }
    let cubes = D3D12_TEXCUBE_ARRAY_SRV {
        MostDetailedMip: first_mip,
        MipLevels: mips,
        First2DArrayFace: view.layers.start,
        NumCubes: view.layers.len() as u32 / 6,
        ..Default::default()
    };
    (D3D12_SRV_DIMENSION_TEXTURECUBEARRAY, D3D12_SHADER_RESOURCE_VIEW_DESC_0 { TextureCubeArray: cubes })
}

fn srv_of_samples(view: &TextureView) -> Srv {
    type Shown = D3D12_SHADER_RESOURCE_VIEW_DESC_0;
    let (first, count) = (view.layers.start, view.layers.len() as u32);
    if is_plain(&view.layers) && view.dimension != Some(ViewDimension::D2Array) {
        return (D3D12_SRV_DIMENSION_TEXTURE2DMS, Shown { Texture2DMS: D3D12_TEX2DMS_SRV::default() });
    }
    let array = D3D12_TEX2DMS_ARRAY_SRV { FirstArraySlice: first, ArraySize: count };
    (D3D12_SRV_DIMENSION_TEXTURE2DMSARRAY, Shown { Texture2DMSArray: array })
}

/// Describes a view of one, two or three dimensions. A plain view of one or two dimensions shows the first layer.
fn srv_of_texels(dimension: ViewDimension, view: &TextureView) -> Srv {
    type Shown = D3D12_SHADER_RESOURCE_VIEW_DESC_0;
    let (first_mip, mips) = (view.mips.start, view.mips.len() as u32);
    let (first, count) = (view.layers.start, view.layers.len() as u32);
    match dimension {
        ViewDimension::D3 => {
            let volume = D3D12_TEX3D_SRV { MostDetailedMip: first_mip, MipLevels: mips, ..Default::default() };
            (D3D12_SRV_DIMENSION_TEXTURE3D, Shown { Texture3D: volume })
        }
        ViewDimension::D1 if first == 0 => {
            let row = D3D12_TEX1D_SRV { MostDetailedMip: first_mip, MipLevels: mips, ..Default::default() };
            (D3D12_SRV_DIMENSION_TEXTURE1D, Shown { Texture1D: row })
        }
        ViewDimension::D1 | ViewDimension::D1Array => {
            let rows = D3D12_TEX1D_ARRAY_SRV {
                MostDetailedMip: first_mip,
                MipLevels: mips,
                FirstArraySlice: first,
                ArraySize: count,
                ..Default::default()
            };
            (D3D12_SRV_DIMENSION_TEXTURE1DARRAY, Shown { Texture1DArray: rows })
        }
        ViewDimension::D2 if first == 0 => {
            let plane = D3D12_TEX2D_SRV { MostDetailedMip: first_mip, MipLevels: mips, ..Default::default() };
            (D3D12_SRV_DIMENSION_TEXTURE2D, Shown { Texture2D: with_plane(plane, view) })
        }
        _ => {
            let array = D3D12_TEX2D_ARRAY_SRV {
                MostDetailedMip: first_mip,
                MipLevels: mips,
                FirstArraySlice: first,
                ArraySize: count,
                PlaneSlice: plane_of(view),
                ..Default::default()
            };
            (D3D12_SRV_DIMENSION_TEXTURE2DARRAY, Shown { Texture2DArray: array })
        }
    }
}

/// Returns the plane of the view: 1 for stencil. All supported formats with stencil also have depth, which is plane 0.
fn plane_of(view: &TextureView) -> u32 {
    u32::from(view.aspect == Some(TextureAspect::Stencil))
}

fn with_plane(shown: D3D12_TEX2D_SRV, view: &TextureView) -> D3D12_TEX2D_SRV {
    D3D12_TEX2D_SRV { PlaneSlice: plane_of(view), ..shown }
}

fn uav(format: DXGI_FORMAT, desc: &TextureDesc, view: &TextureView) -> D3D12_UNORDERED_ACCESS_VIEW_DESC {
    type Shown = D3D12_UNORDERED_ACCESS_VIEW_DESC_0;
    let (mip, first, count) = (view.mips.start, view.layers.start, view.layers.len() as u32);
    let (dimension, shown) = match view.dimension_in(desc.dimension) {
        ViewDimension::D3 => {
            // All slices of the mip level.
            let volume = D3D12_TEX3D_UAV { MipSlice: mip, FirstWSlice: 0, WSize: u32::MAX };
            (D3D12_UAV_DIMENSION_TEXTURE3D, Shown { Texture3D: volume })
        }
        ViewDimension::D1 if first == 0 => {
            (D3D12_UAV_DIMENSION_TEXTURE1D, Shown { Texture1D: D3D12_TEX1D_UAV { MipSlice: mip } })
        }
        ViewDimension::D1 | ViewDimension::D1Array => {
            let rows = D3D12_TEX1D_ARRAY_UAV { MipSlice: mip, FirstArraySlice: first, ArraySize: count };
            (D3D12_UAV_DIMENSION_TEXTURE1DARRAY, Shown { Texture1DArray: rows })
        }
        ViewDimension::D2 if first == 0 => {
            let plain = D3D12_TEX2D_UAV { MipSlice: mip, PlaneSlice: 0 };
            (D3D12_UAV_DIMENSION_TEXTURE2D, Shown { Texture2D: plain })
        }
        _ => {
            let array =
                D3D12_TEX2D_ARRAY_UAV { MipSlice: mip, FirstArraySlice: first, ArraySize: count, PlaneSlice: 0 };
            (D3D12_UAV_DIMENSION_TEXTURE2DARRAY, Shown { Texture2DArray: array })
        }
    };
    D3D12_UNORDERED_ACCESS_VIEW_DESC { Format: format, ViewDimension: dimension, Anonymous: shown }
}

fn rtv(format: DXGI_FORMAT, samples: u32, mip: u32, layers: std::ops::Range<u32>) -> D3D12_RENDER_TARGET_VIEW_DESC {
    type Shown = D3D12_RENDER_TARGET_VIEW_DESC_0;
    let (first, count) = (layers.start, layers.len() as u32);
    let (dimension, shown) = match (samples > 1, is_plain(&layers)) {
        (false, true) => {
            (D3D12_RTV_DIMENSION_TEXTURE2D, Shown { Texture2D: D3D12_TEX2D_RTV { MipSlice: mip, PlaneSlice: 0 } })
        }
        (false, false) => (
            D3D12_RTV_DIMENSION_TEXTURE2DARRAY,
            Shown {
                Texture2DArray: D3D12_TEX2D_ARRAY_RTV {
                    MipSlice: mip,
                    FirstArraySlice: first,
                    ArraySize: count,
                    PlaneSlice: 0,
                },
            },
        ),
        (true, true) => (D3D12_RTV_DIMENSION_TEXTURE2DMS, Shown { Texture2DMS: D3D12_TEX2DMS_RTV::default() }),
        (true, false) => (
            D3D12_RTV_DIMENSION_TEXTURE2DMSARRAY,
            Shown { Texture2DMSArray: D3D12_TEX2DMS_ARRAY_RTV { FirstArraySlice: first, ArraySize: count } },
        ),
    };
    D3D12_RENDER_TARGET_VIEW_DESC { Format: format, ViewDimension: dimension, Anonymous: shown }
}

fn dsv(format: DXGI_FORMAT, samples: u32, mip: u32, layers: std::ops::Range<u32>) -> D3D12_DEPTH_STENCIL_VIEW_DESC {
    type Shown = D3D12_DEPTH_STENCIL_VIEW_DESC_0;
    let (first, count) = (layers.start, layers.len() as u32);
    let (dimension, shown) = match (samples > 1, is_plain(&layers)) {
        (false, true) => (D3D12_DSV_DIMENSION_TEXTURE2D, Shown { Texture2D: D3D12_TEX2D_DSV { MipSlice: mip } }),
        (false, false) => (
            D3D12_DSV_DIMENSION_TEXTURE2DARRAY,
            Shown { Texture2DArray: D3D12_TEX2D_ARRAY_DSV { MipSlice: mip, FirstArraySlice: first, ArraySize: count } },
        ),
        (true, true) => (D3D12_DSV_DIMENSION_TEXTURE2DMS, Shown { Texture2DMS: D3D12_TEX2DMS_DSV::default() }),
        (true, false) => (
            D3D12_DSV_DIMENSION_TEXTURE2DMSARRAY,
            Shown { Texture2DMSArray: D3D12_TEX2DMS_ARRAY_DSV { FirstArraySlice: first, ArraySize: count } },
        ),
    };
    let flags = D3D12_DSV_FLAG_NONE;
    D3D12_DEPTH_STENCIL_VIEW_DESC { Format: format, ViewDimension: dimension, Flags: flags, Anonymous: shown }
}

fn sampler(desc: &SamplerDesc) -> D3D12_SAMPLER_DESC {
    let linear = |filter| i32::from(filter == Filter::Linear);
    // D3D12_ENCODE_BASIC_FILTER: minification in bit 4, magnification in bit 2, mips in bit 0; anisotropy is 0x55;
    // comparison adds 0x80.
    let basic = if desc.anisotropy > 1 {
        D3D12_FILTER_ANISOTROPIC.0
    } else {
        linear(desc.minify) << 4 | linear(desc.magnify) << 2 | linear(desc.mip)
    };
    let comparison = if desc.compare.is_some() { D3D12_FILTER_COMPARISON_MIN_MAG_MIP_POINT.0 } else { 0 };
    let [across, down, deep] = desc.address.map(address_mode);
    let [finest, coarsest] = desc.levels;
    D3D12_SAMPLER_DESC {
        Filter: D3D12_FILTER(basic | comparison),
        AddressU: across,
        AddressV: down,
        AddressW: deep,
        MipLODBias: desc.level_bias,
        MaxAnisotropy: desc.anisotropy.into(),
        ComparisonFunc: desc.compare.map_or(D3D12_COMPARISON_FUNC_NEVER, comparison_function),
        BorderColor: match desc.border {
            BorderColor::Transparent => [0.0; 4],
            BorderColor::Black => [0.0, 0.0, 0.0, 1.0],
            BorderColor::White => [1.0; 4],
        },
        MinLOD: finest,
        MaxLOD: coarsest,
    }
}

fn address_mode(mode: AddressMode) -> D3D12_TEXTURE_ADDRESS_MODE {
    match mode {
        AddressMode::Repeat => D3D12_TEXTURE_ADDRESS_MODE_WRAP,
        AddressMode::Mirror => D3D12_TEXTURE_ADDRESS_MODE_MIRROR,
        AddressMode::Clamp => D3D12_TEXTURE_ADDRESS_MODE_CLAMP,
        AddressMode::Border => D3D12_TEXTURE_ADDRESS_MODE_BORDER,
    }
}

fn comparison_function(compare: Compare) -> D3D12_COMPARISON_FUNC {
    match compare {
        Compare::Never => D3D12_COMPARISON_FUNC_NEVER,
        Compare::Less => D3D12_COMPARISON_FUNC_LESS,
        Compare::Equal => D3D12_COMPARISON_FUNC_EQUAL,
        Compare::LessEqual => D3D12_COMPARISON_FUNC_LESS_EQUAL,
        Compare::Greater => D3D12_COMPARISON_FUNC_GREATER,
        Compare::NotEqual => D3D12_COMPARISON_FUNC_NOT_EQUAL,
        Compare::GreaterEqual => D3D12_COMPARISON_FUNC_GREATER_EQUAL,
        Compare::Always => D3D12_COMPARISON_FUNC_ALWAYS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_channels_are_encoded_as_the_headers_do() {
        assert_eq!(mapping(Component::IDENTITY, false), D3D12_DEFAULT_SHADER_4_COMPONENT_MAPPING);
        // D3D12_ENCODE_SHADER_4_COMPONENT_MAPPING(5, 4, 3, 0).
        let swizzle = [Component::One, Component::Zero, Component::Alpha, Component::Red];
        assert_eq!(mapping(swizzle, false), 5 | 4 << 3 | 3 << 6 | 1 << 12);
        assert_eq!(mapping(swizzle, true), 5 | 4 << 3 | 5 << 6 | 1 << 9 | 1 << 12, "stencil is in the second one");
    }

    #[test]
    fn filters_are_those_that_the_headers_name() {
        let all = |magnify, minify, mip, anisotropy, compare| {
            sampler(&SamplerDesc { magnify, minify, mip, anisotropy, compare, ..Default::default() }).Filter
        };
        let (near, far) = (Filter::Nearest, Filter::Linear);
        assert_eq!(all(near, near, near, 1, None), D3D12_FILTER_MIN_MAG_MIP_POINT);
        assert_eq!(all(far, far, far, 1, None), D3D12_FILTER_MIN_MAG_MIP_LINEAR);
        assert_eq!(all(far, near, near, 1, None), D3D12_FILTER_MIN_POINT_MAG_LINEAR_MIP_POINT);
        assert_eq!(all(near, far, far, 1, None), D3D12_FILTER_MIN_LINEAR_MAG_POINT_MIP_LINEAR);
        assert_eq!(all(far, far, far, 8, None), D3D12_FILTER_ANISOTROPIC);
        assert_eq!(all(far, far, far, 1, Some(Compare::Less)), D3D12_FILTER_COMPARISON_MIN_MAG_MIP_LINEAR);
        assert_eq!(all(far, far, far, 2, Some(Compare::Less)), D3D12_FILTER_COMPARISON_ANISOTROPIC);
    }
}
