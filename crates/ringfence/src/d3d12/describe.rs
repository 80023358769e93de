//! Portable descriptions in Direct3D 12's terms.

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::*;

use super::ResourceInfo;
use crate::device::record::{TextureAspects, TextureParts};
use crate::device::{BufferDesc, BufferUsage, ClearValue, DeviceError, Format, InfoKey, TextureDesc, TextureUsage};

/// The alignment that serves each view of a buffer: that of constants.
pub(super) const EVERY_VIEW: u64 = D3D12_CONSTANT_BUFFER_DATA_PLACEMENT_ALIGNMENT as u64;
/// The alignment that serves each view but constants, and what is read by index or vertex.
const OTHER_VIEWS: u64 = D3D12_RAW_UAV_SRV_BYTE_ALIGNMENT as u64;

/// A buffer. What it is used for makes no difference but for writes by shaders; and for constants, whose views end at
/// multiples of 256 bytes, which have to be the buffer's.
pub(super) fn buffer(desc: &BufferDesc) -> Result<D3D12_RESOURCE_DESC, DeviceError> {
    let storage = desc.usage.contains(BufferUsage::STORAGE);
    let constants = desc.usage.contains(BufferUsage::CONSTANT);
    let whole = || desc.size.checked_next_multiple_of(EVERY_VIEW);
    let width = if constants { whole().ok_or(DeviceError::OutOfDeviceMemory)? } else { desc.size };
    Ok(D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_BUFFER,
        Alignment: 0,
        Width: width,
        Height: 1,
        DepthOrArraySize: 1,
        MipLevels: 1,
        Format: DXGI_FORMAT_UNKNOWN,
        SampleDesc: DXGI_SAMPLE_DESC { Count: 1, Quality: 0 },
        Layout: D3D12_TEXTURE_LAYOUT_ROW_MAJOR,
        Flags: if storage { D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS } else { D3D12_RESOURCE_FLAG_NONE },
    })
}

/// The alignment that a buffer of this usage is placed at, at least, where the driver measures less: as a description has it
/// (`D3D12_RESOURCE_DESC::Alignment`), 0 standing for that of every view.
pub(super) fn buffer_floor(usage: BufferUsage) -> u64 {
    if usage.intersects(BufferUsage::CONSTANT | BufferUsage::DEVICE_ADDRESS) { 0 } else { OTHER_VIEWS }
}

/// A two-dimensional texture.
pub(super) fn texture(desc: &TextureDesc) -> Result<D3D12_RESOURCE_DESC, DeviceError> {
    let (Ok(layers), Ok(mips)) = (u16::try_from(desc.layers), u16::try_from(desc.mips)) else {
        return Err(DeviceError::Unsupported("a texture with more than 65,535 layers or mip levels"));
    };
    Ok(D3D12_RESOURCE_DESC {
        Dimension: D3D12_RESOURCE_DIMENSION_TEXTURE2D,
        Alignment: 0,
        Width: desc.width.into(),
        Height: desc.height,
        DepthOrArraySize: layers,
        MipLevels: mips,
        Format: format(desc.format, desc.usage)?,
        SampleDesc: DXGI_SAMPLE_DESC { Count: desc.samples, Quality: 0 },
        Layout: D3D12_TEXTURE_LAYOUT_UNKNOWN,
        Flags: texture_flags(desc.usage),
    })
}

/// A clear value in a format that it is viewed with: the description's may be typeless.
pub(super) fn clear_value(desc: &TextureDesc) -> Option<D3D12_CLEAR_VALUE> {
    let color = |format| match format {
        Format::Rgba16Float => DXGI_FORMAT_R16G16B16A16_FLOAT,
        Format::R32Float => DXGI_FORMAT_R32_FLOAT,
        _ => DXGI_FORMAT_R8G8B8A8_UNORM,
    };
    desc.clear_value.map(|value| match value {
        ClearValue::Color(bits) => D3D12_CLEAR_VALUE {
            Format: color(desc.format),
            Anonymous: D3D12_CLEAR_VALUE_0 { Color: bits.map(f32::from_bits) },
        },
        ClearValue::DepthStencil { depth, stencil } => D3D12_CLEAR_VALUE {
            Format: DXGI_FORMAT_D32_FLOAT,
            Anonymous: D3D12_CLEAR_VALUE_0 {
                DepthStencil: D3D12_DEPTH_STENCIL_VALUE { Depth: f32::from_bits(depth), Stencil: stencil },
            },
        },
    })
}

/// What a clear value says portably.
pub(super) fn portable_clear_value(value: &D3D12_CLEAR_VALUE) -> ClearValue {
    let [_, _, red, green, blue, alpha] = clear_words(value);
    if DEPTH.contains(&value.Format) {
        ClearValue::DepthStencil { depth: red, stencil: green as u8 }
    } else {
        ClearValue::Color([red, green, blue, alpha])
    }
}

/// What a buffer's description says portably: everything but writes by shaders is allowed to every buffer, and constants to
/// those that are aligned for them.
pub(super) fn portable_buffer(desc: &D3D12_RESOURCE_DESC) -> Option<BufferDesc> {
    let always = [
        BufferUsage::COPY_SRC,
        BufferUsage::COPY_DST,
        BufferUsage::VERTEX,
        BufferUsage::INDEX,
        BufferUsage::INDIRECT,
        BufferUsage::TEXELS,
        BufferUsage::STORAGE_READ,
    ];
    let usage = always.into_iter().fold(BufferUsage::empty(), BufferUsage::union);
    let storage = desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS);
    let usage = if storage { usage | BufferUsage::STORAGE } else { usage };
    let constants = desc.Alignment == 0 || desc.Alignment >= EVERY_VIEW;
    let usage = if constants { usage | BufferUsage::CONSTANT } else { usage };
    (desc.Dimension == D3D12_RESOURCE_DIMENSION_BUFFER).then_some(BufferDesc { size: desc.Width, usage })
}

/// What a texture's description says portably.
pub(super) fn portable_texture(desc: &D3D12_RESOURCE_DESC) -> Option<TextureDesc> {
    if desc.Dimension != D3D12_RESOURCE_DIMENSION_TEXTURE2D || desc.MipLevels == 0 {
        return None;
    }
    let format = match desc.Format {
        DXGI_FORMAT_R8G8B8A8_UNORM => Format::Rgba8Unorm,
        DXGI_FORMAT_R16G16B16A16_FLOAT => Format::Rgba16Float,
        DXGI_FORMAT_R32_FLOAT => Format::R32Float,
        DXGI_FORMAT_D32_FLOAT | DXGI_FORMAT_R32_TYPELESS => Format::D32Float,
        _ => return None,
    };
    let usages = [
        (!desc.Flags.contains(D3D12_RESOURCE_FLAG_DENY_SHADER_RESOURCE), TextureUsage::SAMPLED),
        (desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS), TextureUsage::STORAGE),
        (desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET), TextureUsage::RENDER_TARGET),
        (desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL), TextureUsage::DEPTH_STENCIL),
    ];
    let usages = usages.into_iter().filter(|(has, _)| *has).map(|(_, usage)| usage);
    Some(TextureDesc {
        width: u32::try_from(desc.Width).ok()?,
        height: desc.Height,
        layers: desc.DepthOrArraySize.into(),
        mips: desc.MipLevels.into(),
        samples: desc.SampleDesc.Count,
        format,
        usage: usages.fold(TextureUsage::COPY_SRC | TextureUsage::COPY_DST, TextureUsage::union),
        clear_value: None,
    })
}

/// What all of a texture is. The API copies it as a whole, whatever its format and planes.
pub(super) fn parts(desc: &D3D12_RESOURCE_DESC) -> Option<TextureParts> {
    let (width, height) = (u32::try_from(desc.Width).ok()?, desc.Height);
    let is_volume = desc.Dimension == D3D12_RESOURCE_DIMENSION_TEXTURE3D;
    let (depth, layers) = if is_volume { (desc.DepthOrArraySize, 1) } else { (1, desc.DepthOrArraySize) };
    let longest = width.max(height).max(depth.into()).max(1);
    // 0 stands for all that there can be.
    let mips = if desc.MipLevels == 0 { longest.ilog2() + 1 } else { desc.MipLevels.into() };
    let aspects = match desc.Format {
        DXGI_FORMAT_D16_UNORM | DXGI_FORMAT_D32_FLOAT => TextureAspects::DEPTH,
        DXGI_FORMAT_D24_UNORM_S8_UINT | DXGI_FORMAT_D32_FLOAT_S8X24_UINT => {
            TextureAspects::DEPTH | TextureAspects::STENCIL
        }
        _ => TextureAspects::COLOR,
    };
    Some(TextureParts { width, height, depth: depth.into(), layers: layers.into(), mips, aspects })
}

/// Depth that shaders read has to be typeless, since it is viewed in two ways; other depth is typed.
fn format(format: Format, usage: TextureUsage) -> Result<DXGI_FORMAT, DeviceError> {
    let depth = usage.contains(TextureUsage::DEPTH_STENCIL);
    match format {
        Format::D32Float if usage.intersects(TextureUsage::STORAGE | TextureUsage::RENDER_TARGET) => {
            Err(DeviceError::Unsupported("a depth format that shaders write or that is drawn to as colour"))
        }
        Format::D32Float if depth && !usage.contains(TextureUsage::SAMPLED) => Ok(DXGI_FORMAT_D32_FLOAT),
        Format::D32Float => Ok(DXGI_FORMAT_R32_TYPELESS),
        _ if depth => Err(DeviceError::Unsupported("a colour format as depth")),
        Format::Rgba8Unorm => Ok(DXGI_FORMAT_R8G8B8A8_UNORM),
        Format::Rgba16Float => Ok(DXGI_FORMAT_R16G16B16A16_FLOAT),
        Format::R32Float => Ok(DXGI_FORMAT_R32_FLOAT),
    }
}

fn texture_flags(usage: TextureUsage) -> D3D12_RESOURCE_FLAGS {
    let depth = usage.contains(TextureUsage::DEPTH_STENCIL);
    let flags = [
        (usage.contains(TextureUsage::STORAGE), D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS),
        (usage.contains(TextureUsage::RENDER_TARGET), D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET),
        (depth, D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL),
        // Lets the driver compress depth in ways that shaders could not read.
        (depth && !usage.contains(TextureUsage::SAMPLED), D3D12_RESOURCE_FLAG_DENY_SHADER_RESOURCE),
    ];
    let set = flags.into_iter().filter(|(wanted, _)| *wanted);
    set.fold(D3D12_RESOURCE_FLAG_NONE, |all, (_, flag)| all | flag)
}

/// What tells a description from others: all of its numbers.
pub(super) fn key(info: &ResourceInfo) -> InfoKey {
    let desc = &info.desc;
    let halves = |value: u64| [value as u32, (value >> 32) as u32];
    let [alignment, width] = [desc.Alignment, desc.Width].map(halves);
    let clear = info.clear_value.as_ref().map_or([0; 6], clear_words);
    let mut words = [0; InfoKey::WORDS];
    words[..13].copy_from_slice(&[
        desc.Dimension.0 as u32,
        alignment[0],
        alignment[1],
        width[0],
        width[1],
        desc.Height,
        u32::from(desc.DepthOrArraySize) << 16 | u32::from(desc.MipLevels),
        desc.Format.0 as u32,
        desc.SampleDesc.Count,
        desc.SampleDesc.Quality,
        desc.Layout.0 as u32,
        desc.Flags.0 as u32,
        info.initial_state.0 as u32,
    ]);
    words[14..].copy_from_slice(&clear);
    InfoKey::new(&words)
}

/// The formats that a clear value of depth and stencil has.
const DEPTH: [DXGI_FORMAT; 4] =
    [DXGI_FORMAT_D16_UNORM, DXGI_FORMAT_D24_UNORM_S8_UINT, DXGI_FORMAT_D32_FLOAT, DXGI_FORMAT_D32_FLOAT_S8X24_UINT];

/// A clear value is a depth and a stencil for the formats of depth, else four colours.
fn clear_words(clear: &D3D12_CLEAR_VALUE) -> [u32; 6] {
    let format = clear.Format.0 as u32;
    if DEPTH.contains(&clear.Format) {
        // SAFETY: a depth and a stencil lie in the bytes that every member of the union fills.
        let D3D12_DEPTH_STENCIL_VALUE { Depth, Stencil } = unsafe { clear.Anonymous.DepthStencil };
        [1, format, Depth.to_bits(), u32::from(Stencil), 0, 0]
    } else {
        // SAFETY: the driver reads the clear value of such a format as a colour too, so that it holds one.
        let [red, green, blue, alpha] = unsafe { clear.Anonymous.Color }.map(f32::to_bits);
        [1, format, red, green, blue, alpha]
    }
}
