//! Conversion between portable descriptions and descriptions of Direct3D 12.

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::*;

use super::info::ResourceInfo;
use ringfence_hal::record::TextureParts;
use ringfence_hal::{
    BufferDesc, BufferUsage, Buffers, ClearValue, DeviceError, Dimension, Format, FormatSet, InfoKey, Kind, Numbers,
    TexelFormat, TextureAspect, TextureDesc, TextureUsage, Textures,
};

/// Alignment of constant-buffer views, in bytes. It suffices for every view of a buffer.
pub(super) const CONSTANT_VIEW_ALIGNMENT: u64 = D3D12_CONSTANT_BUFFER_DATA_PLACEMENT_ALIGNMENT as u64;
/// Alignment of raw views of a buffer, in bytes. It suffices for views except constant-buffer views, and for reads of
/// indices and vertices.
const RAW_VIEW_ALIGNMENT: u64 = D3D12_RAW_UAV_SRV_BYTE_ALIGNMENT as u64;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Buffers {}
    impl Sealed for super::Textures {}
}

/// A kind of resource, with the conversions between its portable description and the description of Direct3D 12. The
/// trait is sealed: only [`Buffers`] and [`Textures`] implement it.
pub trait NativeKind: Kind + sealed::Sealed {
    /// Returns Direct3D 12's description for a portable one.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if Direct3D 12 has no such resource.
    fn resource_desc(desc: &Self::Desc) -> Result<D3D12_RESOURCE_DESC, DeviceError>;

    /// Returns the portable description for one of Direct3D 12. Returns `None` if there is no portable one.
    fn portable_desc(desc: &D3D12_RESOURCE_DESC) -> Option<Self::Desc>;

    /// Returns the value of `D3D12_RESOURCE_DESC::Alignment` for a device with tight alignment, in bytes. For a buffer,
    /// the value is its minimum alignment, or 0 for 256. For a texture, returns 0.
    fn alignment_min(desc: &Self::Desc) -> u64 {
        let _ = desc;
        0
    }

    /// Returns the clear value of a description, and the format of the clear. Returns `None` if there is no clear
    /// value.
    fn clear_value(desc: &Self::Desc) -> Option<(DXGI_FORMAT, ClearValue)> {
        let _ = desc;
        None
    }

    /// Adds a clear value to a portable description.
    fn set_clear_value(desc: &mut Self::Desc, value: ClearValue) {
        let _ = (desc, value);
    }

    /// Returns the description of a texture. Returns `None` for buffers.
    fn as_texture(desc: &Self::Desc) -> Option<&TextureDesc> {
        let _ = desc;
        None
    }

    /// Returns `true` if the description is one of a cube.
    fn is_cube(desc: &Self::Desc) -> bool {
        let _ = desc;
        false
    }

    /// Turns a portable description of a two-dimensional array into one of a cube. Does nothing if the number of layers
    /// is not valid for a cube.
    fn set_cube(desc: &mut Self::Desc) {
        let _ = desc;
    }

    /// Adds formats of views to a portable description.
    fn set_view_formats(desc: &mut Self::Desc, formats: FormatSet) {
        let _ = (desc, formats);
    }

    /// Returns the extent, layers, mips and aspects of a whole texture. Returns `None` for buffers, and for formats
    /// that [`texel_format`] does not know.
    fn all_parts(desc: &D3D12_RESOURCE_DESC) -> Option<TextureParts> {
        let _ = desc;
        None
    }

    /// Returns `true` if a description is for this kind of resource.
    fn is_described_by(desc: &D3D12_RESOURCE_DESC) -> bool;
}

impl NativeKind for Buffers {
    /// Only two usages affect the description. Storage usage sets the flag for unordered access. Constant usage rounds
    /// the size up to a multiple of 256 bytes, because constant-buffer views end at such multiples and must end inside
    /// the buffer.
    fn resource_desc(desc: &BufferDesc) -> Result<D3D12_RESOURCE_DESC, DeviceError> {
        let storage = desc.usage.contains(BufferUsage::STORAGE);
        let constants = desc.usage.contains(BufferUsage::CONSTANT);
        let whole = || desc.size.checked_next_multiple_of(CONSTANT_VIEW_ALIGNMENT);
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

    /// The portable buffer has all usages, with three exceptions:
    ///
    /// - Storage usage requires the flag for unordered access.
    /// - Device-address usage requires an alignment that suffices for every view.
    /// - Constant usage requires that alignment, and a size that is a multiple of 256 bytes: with another size,
    ///   [`NativeKind::resource_desc`] would describe a larger buffer.
    fn portable_desc(desc: &D3D12_RESOURCE_DESC) -> Option<BufferDesc> {
        let is_aligned = desc.Alignment == 0 || desc.Alignment >= CONSTANT_VIEW_ALIGNMENT;
        let mut usage = BufferUsage::all();
        usage.set(BufferUsage::STORAGE, desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS));
        usage.set(BufferUsage::DEVICE_ADDRESS, is_aligned);
        usage.set(BufferUsage::CONSTANT, is_aligned && desc.Width.is_multiple_of(CONSTANT_VIEW_ALIGNMENT));
        Self::is_described_by(desc).then_some(BufferDesc { size: desc.Width, usage })
    }

    /// Returns 0, which stands for `CONSTANT_VIEW_ALIGNMENT`, if the buffer may be used for constants or by its device
    /// address.
    fn alignment_min(desc: &BufferDesc) -> u64 {
        if desc.usage.intersects(BufferUsage::CONSTANT | BufferUsage::DEVICE_ADDRESS) { 0 } else { RAW_VIEW_ALIGNMENT }
    }

    fn is_described_by(desc: &D3D12_RESOURCE_DESC) -> bool {
        desc.Dimension == D3D12_RESOURCE_DIMENSION_BUFFER
    }
}

impl NativeKind for Textures {
    /// A cube is described as an array of two-dimensional layers. Only views distinguish cubes from arrays.
    ///
    /// A one-dimensional texture of a block-compressed format is refused here, because the debug layer reports
    /// descriptions that the driver rejects.
    fn resource_desc(desc: &TextureDesc) -> Result<D3D12_RESOURCE_DESC, DeviceError> {
        if desc.dimension == Dimension::D1 && desc.format.texels().is_compressed() {
            return Err(DeviceError::unsupported("a one-dimensional texture of a block-compressed format"));
        }
        let (dimension, depth_or_layers) = match desc.dimension {
            Dimension::D1 => (D3D12_RESOURCE_DIMENSION_TEXTURE1D, desc.layers),
            Dimension::D2 | Dimension::Cube => (D3D12_RESOURCE_DIMENSION_TEXTURE2D, desc.layers),
            Dimension::D3 => (D3D12_RESOURCE_DIMENSION_TEXTURE3D, desc.depth),
        };
        let max = u16::MAX.into();
        DeviceError::unsupported("a texture with this number of layers or depth slices")
            .at_most(depth_or_layers.into(), max)?;
        DeviceError::unsupported("a texture with this number of mip levels").at_most(desc.mips.into(), max)?;
        Ok(D3D12_RESOURCE_DESC {
            Dimension: dimension,
            Alignment: 0,
            Width: desc.width.into(),
            Height: desc.height,
            DepthOrArraySize: depth_or_layers as u16,
            MipLevels: desc.mips as u16,
            Format: castable_format(desc)?,
            SampleDesc: DXGI_SAMPLE_DESC { Count: desc.samples, Quality: 0 },
            Layout: D3D12_TEXTURE_LAYOUT_UNKNOWN,
            Flags: texture_flags(desc.usage),
        })
    }

    fn portable_desc(desc: &D3D12_RESOURCE_DESC) -> Option<TextureDesc> {
        if desc.MipLevels == 0 {
            return None;
        }
        let (dimension, depth, layers) = match desc.Dimension {
            D3D12_RESOURCE_DIMENSION_TEXTURE1D => (Dimension::D1, 1, desc.DepthOrArraySize),
            D3D12_RESOURCE_DIMENSION_TEXTURE2D => (Dimension::D2, 1, desc.DepthOrArraySize),
            D3D12_RESOURCE_DIMENSION_TEXTURE3D => (Dimension::D3, desc.DepthOrArraySize, 1),
            _ => return None,
        };
        let format = portable_format(desc.Format)?;
        let given = FLAGS.into_iter().filter(|(_, flag)| desc.Flags.contains(*flag)).map(|(usage, _)| usage);
        let mut usage = given.fold(TextureUsage::COPY_SRC | TextureUsage::COPY_DST, TextureUsage::union);
        usage.set(TextureUsage::SAMPLED, !desc.Flags.contains(D3D12_RESOURCE_FLAG_DENY_SHADER_RESOURCE));
        Some(TextureDesc {
            dimension,
            width: u32::try_from(desc.Width).ok()?,
            height: desc.Height,
            depth: depth.into(),
            layers: layers.into(),
            mips: desc.MipLevels.into(),
            samples: desc.SampleDesc.Count,
            format,
            usage,
            clear_value: None,
            view_formats: FormatSet::EMPTY,
        })
    }

    /// Returns a typed format, which views use: the format in the description may be typeless.
    fn clear_value(desc: &TextureDesc) -> Option<(DXGI_FORMAT, ClearValue)> {
        let value = desc.clear_value?;
        let format = match value {
            ClearValue::Color(_) => shader_format(desc.format),
            ClearValue::DepthStencil { .. } => depth_format(desc.format),
        };
        Some((format.ok()?, value))
    }

    fn set_clear_value(desc: &mut TextureDesc, value: ClearValue) {
        desc.clear_value = Some(value);
    }

    fn as_texture(desc: &TextureDesc) -> Option<&TextureDesc> {
        Some(desc)
    }

    fn is_cube(desc: &TextureDesc) -> bool {
        desc.dimension == Dimension::Cube
    }

    fn set_cube(desc: &mut TextureDesc) {
        if desc.dimension == Dimension::D2 && desc.layers.is_multiple_of(6) {
            desc.dimension = Dimension::Cube;
        }
    }

    fn set_view_formats(desc: &mut TextureDesc, formats: FormatSet) {
        desc.view_formats = formats;
    }

    fn all_parts(desc: &D3D12_RESOURCE_DESC) -> Option<TextureParts> {
        parts(desc)
    }

    fn is_described_by(desc: &D3D12_RESOURCE_DESC) -> bool {
        [D3D12_RESOURCE_DIMENSION_TEXTURE1D, D3D12_RESOURCE_DIMENSION_TEXTURE2D, D3D12_RESOURCE_DIMENSION_TEXTURE3D]
            .contains(&desc.Dimension)
    }
}

/// Returns the extent, layers, mips and aspects of a whole texture. Returns `None` for formats that [`texel_format`]
/// does not know.
pub(super) fn parts(desc: &D3D12_RESOURCE_DESC) -> Option<TextureParts> {
    let (width, height) = (u32::try_from(desc.Width).ok()?, desc.Height);
    let is_volume = desc.Dimension == D3D12_RESOURCE_DIMENSION_TEXTURE3D;
    let (depth, layers) = if is_volume { (desc.DepthOrArraySize, 1) } else { (1, desc.DepthOrArraySize) };
    let longest = width.max(height).max(depth.into()).max(1);
    // A number of 0 stands for the full mip chain.
    let mips = if desc.MipLevels == 0 { longest.ilog2() + 1 } else { desc.MipLevels.into() };
    let format = texel_format(desc.Format)?;
    let is_depth = desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL);
    // In a depth-stencil texture, typeless texels contain depth.
    let format = match format.block_bytes(TextureAspect::Depth) {
        Some(bytes) if is_depth => {
            TexelFormat::depth_stencil(bytes, format.block_bytes(TextureAspect::Stencil).unwrap_or(0))
        }
        _ => format,
    };
    let (samples, aspects) = (desc.SampleDesc.Count, format.aspects());
    Some(TextureParts { width, height, depth: depth.into(), layers: layers.into(), mips, samples, format, aspects })
}

/// Returns the layout of a format's texels in a buffer. Returns `None` for video formats with several planes, for
/// formats whose texels share colour channels, and for unknown formats.
#[must_use]
pub const fn texel_format(format: DXGI_FORMAT) -> Option<TexelFormat> {
    // The numbers of the formats are grouped by texel size.
    Some(match format.0 {
        1..=4 => TexelFormat::color(16),
        5..=8 => TexelFormat::color(12),
        9..=18 => TexelFormat::color(8),
        // R32G8X24 and R24G8 have two planes, depth and stencil.
        19..=22 | 44..=47 => TexelFormat::depth_stencil(4, 1),
        23..=38 | 41..=43 | 67 | 87..=93 => TexelFormat::color(4),
        // R32_TYPELESS and R16_TYPELESS.
        39 => TexelFormat::color_or_depth(4),
        53 => TexelFormat::color_or_depth(2),
        40 => TexelFormat::depth_stencil(4, 0),
        55 => TexelFormat::depth_stencil(2, 0),
        48..=52 | 54 | 56..=59 | 85..=86 | 115 => TexelFormat::color(2),
        60..=65 => TexelFormat::color(1),
        // BC1 and BC4, then the other block-compressed formats.
        70..=72 | 79..=81 => TexelFormat::compressed(4, 4, 8),
        73..=78 | 82..=84 | 94..=99 => TexelFormat::compressed(4, 4, 16),
        _ => return None,
    })
}

/// Returns the number of the first format of a family. Texels can be copied between formats of one family, which differ
/// in the type of their channels. If a format belongs to no family, returns its own number.
pub(super) const fn family(format: DXGI_FORMAT) -> i32 {
    const FAMILIES: [(i32, i32); 22] = [
        (1, 4),
        (5, 8),
        (9, 14),
        (15, 18),
        (19, 22),
        (23, 25),
        (27, 32),
        (33, 38),
        (39, 43),
        (44, 47),
        (48, 52),
        (53, 59),
        (60, 65),
        (70, 72),
        (73, 75),
        (76, 78),
        (79, 81),
        (82, 84),
        (94, 96),
        (97, 99),
        // BGRA8 and BGRX8. Their UNORM formats are not next to the others, so they are mapped below.
        (90, 91),
        (92, 93),
    ];
    let format = match format.0 {
        87 => 90,
        88 => 92,
        other => other,
    };
    let mut index = 0;
    while index < FAMILIES.len() {
        let (first, last) = FAMILIES[index];
        if first <= format && format <= last {
            return first;
        }
        index += 1;
    }
    format
}

/// Returns the number of planes of a format: 2 for depth with stencil.
pub(super) const fn plane_count(format: DXGI_FORMAT) -> u32 {
    match format.0 {
        19..=22 | 44..=47 => 2,
        _ => 1,
    }
}

/// Returns the plane that contains an aspect.
pub(super) const fn plane(format: DXGI_FORMAT, aspect: TextureAspect) -> u32 {
    match aspect {
        TextureAspect::Stencil if plane_count(format) == 2 => 1,
        _ => 0,
    }
}

/// Returns the format that the texels of a plane have in a buffer. For formats with one plane, returns `format`.
pub(super) const fn plane_format(format: DXGI_FORMAT, plane: u32) -> DXGI_FORMAT {
    match (plane_count(format), plane) {
        (2, 0) => DXGI_FORMAT_R32_TYPELESS,
        (2, _) => DXGI_FORMAT_R8_TYPELESS,
        _ => format,
    }
}

/// Returns the format in which shaders read a texture. Depth is read as one red channel.
pub(super) const fn shader_format(format: Format) -> Result<DXGI_FORMAT, DeviceError> {
    match (format, format.dxgi()) {
        (Format::D16Unorm, _) => Ok(DXGI_FORMAT_R16_UNORM),
        (Format::D32Float, _) => Ok(DXGI_FORMAT_R32_FLOAT),
        (Format::D24UnormS8Uint, _) => Ok(DXGI_FORMAT_R24_UNORM_X8_TYPELESS),
        (Format::D32FloatS8Uint, _) => Ok(DXGI_FORMAT_R32_FLOAT_X8X24_TYPELESS),
        (_, Some(number)) => Ok(DXGI_FORMAT(number as i32)),
        (_, None) => Err(DeviceError::unsupported("a format that Direct3D 12 does not have")),
    }
}

/// Returns the portable format for a DXGI format. For the typeless formats of depth, returns the depth format. Returns
/// `None` if there is no portable format.
#[must_use]
pub const fn portable_format(format: DXGI_FORMAT) -> Option<Format> {
    match format {
        DXGI_FORMAT_R16_TYPELESS => Some(Format::D16Unorm),
        DXGI_FORMAT_R32_TYPELESS => Some(Format::D32Float),
        DXGI_FORMAT_R24G8_TYPELESS => Some(Format::D24UnormS8Uint),
        DXGI_FORMAT_R32G8X24_TYPELESS => Some(Format::D32FloatS8Uint),
        _ => Format::of_dxgi(format.0 as u32),
    }
}

/// Returns the format of a depth-stencil view.
pub(super) const fn depth_format(format: Format) -> Result<DXGI_FORMAT, DeviceError> {
    match format {
        Format::D16Unorm => Ok(DXGI_FORMAT_D16_UNORM),
        Format::D32Float => Ok(DXGI_FORMAT_D32_FLOAT),
        Format::D24UnormS8Uint => Ok(DXGI_FORMAT_D24_UNORM_S8_UINT),
        Format::D32FloatS8Uint => Ok(DXGI_FORMAT_D32_FLOAT_S8X24_UINT),
        _ => Err(DeviceError::unsupported("a depth-stencil view of a colour format or of stencil alone")),
    }
}

/// Returns the format in a texture's description. A depth format stays typed if the texture has depth-stencil usage and
/// is not sampled. Otherwise a depth format becomes typeless, because depth-stencil views and shader views have
/// different formats.
///
/// # Errors
/// [`DeviceError::Unsupported`] if Direct3D 12 does not have the format, or not with this usage.
pub fn format(format: Format, usage: TextureUsage) -> Result<DXGI_FORMAT, DeviceError> {
    let depth = usage.contains(TextureUsage::DEPTH_STENCIL);
    if !format.is_depth_stencil() {
        let colour = shader_format(format)?;
        return if depth {
            Err(DeviceError::unsupported("a depth-stencil texture of a colour format"))
        } else {
            Ok(colour)
        };
    }
    if usage.intersects(TextureUsage::STORAGE | TextureUsage::RENDER_TARGET) {
        return Err(DeviceError::unsupported("a depth format with storage or render-target usage"));
    }
    let typed = depth_format(format)?;
    if depth && !usage.contains(TextureUsage::SAMPLED) {
        return Ok(typed);
    }
    Ok(match format {
        Format::D16Unorm => DXGI_FORMAT_R16_TYPELESS,
        Format::D24UnormS8Uint => DXGI_FORMAT_R24G8_TYPELESS,
        Format::D32FloatS8Uint => DXGI_FORMAT_R32G8X24_TYPELESS,
        _ => DXGI_FORMAT_R32_TYPELESS,
    })
}

/// Returns the format in a texture's description. If views may have further formats, returns the typeless format of
/// their family.
fn castable_format(desc: &TextureDesc) -> Result<DXGI_FORMAT, DeviceError> {
    let own = format(desc.format, desc.usage)?;
    if desc.view_formats.is_empty() {
        return Ok(own);
    }
    for view in desc.view_formats.iter().map(shader_format) {
        let view = view?;
        if family(view) != family(own) {
            return Err(DeviceError::unsupported("a view format of another family than the texture's format")
                .with(Numbers::Given(view.0 as u64)));
        }
    }
    Ok(DXGI_FORMAT(family(own)))
}

/// Returns the driver's description with the format of the views in place of a typeless one.
pub(super) fn typed(info: &ResourceInfo) -> D3D12_RESOURCE_DESC {
    let format = info.views.and_then(|(format, _)| shader_format(format).ok());
    D3D12_RESOURCE_DESC { Format: format.unwrap_or(info.desc.Format), ..info.desc }
}

/// Returns the view formats of a description in one word: the format of the views, and one bit for each further format.
/// All formats belong to one family, and a family has at most eight formats, so eight bits are enough.
fn views_word(info: &ResourceInfo) -> u32 {
    let Some((own, further)) = info.views else { return 0 };
    let member = |format| shader_format(format).map_or(0, |format| 1 << ((format.0 - family(format)) & 7));
    1 | (own as u32) << 1 | further.iter().fold(0, |all, format| all | member(format)) << 8
}

/// Texture usages, and the flags that allow them.
const FLAGS: [(TextureUsage, D3D12_RESOURCE_FLAGS); 3] = [
    (TextureUsage::STORAGE, D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS),
    (TextureUsage::RENDER_TARGET, D3D12_RESOURCE_FLAG_ALLOW_RENDER_TARGET),
    (TextureUsage::DEPTH_STENCIL, D3D12_RESOURCE_FLAG_ALLOW_DEPTH_STENCIL),
];

fn texture_flags(usage: TextureUsage) -> D3D12_RESOURCE_FLAGS {
    let allowed = FLAGS.into_iter().filter(|(wanted, _)| usage.contains(*wanted));
    let allowed = allowed.fold(D3D12_RESOURCE_FLAG_NONE, |all, (_, flag)| all | flag);
    let is_unread = usage.contains(TextureUsage::DEPTH_STENCIL) && !usage.contains(TextureUsage::SAMPLED);
    // With this flag, the driver can compress depth in ways that shaders cannot read.
    if is_unread { allowed | D3D12_RESOURCE_FLAG_DENY_SHADER_RESOURCE } else { allowed }
}

/// Returns the initial state of a resource, for heaps that do not prescribe one.
///
/// Buffers, and textures for simultaneous access, start in the common state; the API ignores the state in their
/// description. Exception: the buffer of an acceleration structure is permanently in the state for acceleration
/// structures.
pub(super) fn initial_state(info: &ResourceInfo) -> D3D12_RESOURCE_STATES {
    let is_structure = info.initial_state == D3D12_RESOURCE_STATE_RAYTRACING_ACCELERATION_STRUCTURE;
    let decays = if Buffers::is_described_by(&info.desc) {
        !is_structure
    } else {
        info.desc.Flags.contains(D3D12_RESOURCE_FLAG_ALLOW_SIMULTANEOUS_ACCESS)
    };
    if decays { D3D12_RESOURCE_STATE_COMMON } else { info.initial_state }
}

/// Returns a key of the fields of a description that determine the resource. Two descriptions have equal keys only if
/// these fields are equal.
pub(super) fn key(info: &ResourceInfo) -> InfoKey {
    let desc = &info.desc;
    let halves = |value: u64| [value as u32, (value >> 32) as u32];
    let [alignment, width] = [desc.Alignment, desc.Width].map(halves);
    let [kind, red, green, blue, alpha] = info.clear_value.map_or([0; 5], |(_, value)| value.words());
    let format = info.clear_value.map_or(0, |(format, _)| format.0 as u32);
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
        initial_state(info).0 as u32,
    ]);
    words[13] = u32::from(info.zeroed) | u32::from(info.is_cube) << 1 | views_word(info) << 2;
    words[14..].copy_from_slice(&[kind, format, red, green, blue, alpha]);
    InfoKey::new(&words)
}

#[cfg(test)]
mod tests {
    use super::super::resource::clear_value;
    use super::*;

    #[test]
    fn portable_formats_and_those_of_the_api_have_the_same_blocks() {
        for format in Format::ALL {
            let Ok(dxgi) = shader_format(*format).and_then(|shown| match format.is_depth_stencil() {
                true => depth_format(*format),
                false => Ok(shown),
            }) else {
                continue;
            };
            assert_eq!(texel_format(dxgi), Some(format.texels()), "{format:?}");
            assert_eq!(portable_format(dxgi), Some(*format));
        }
        assert_eq!(texel_format(DXGI_FORMAT_NV12), None);
        assert_eq!(texel_format(DXGI_FORMAT_R8G8_B8G8_UNORM), None);
        assert_eq!(texel_format(DXGI_FORMAT_UNKNOWN), None);
    }

    #[test]
    fn colour_formats_of_a_family_differ_in_the_type_of_their_channels_only() {
        let types = ["UnormSrgb", "Unorm", "Snorm", "Uint", "Sint", "Ufloat", "Float"];
        let name = |format: &Format| {
            let name = format!("{format:?}");
            types.iter().find_map(|kind| name.strip_suffix(kind)).unwrap_or(&name).to_owned()
        };
        let colours: Vec<_> = Format::ALL.iter().filter(|format| !format.is_depth_stencil()).collect();
        let of = |format: &Format| shader_format(*format).map(family);
        for (one, other) in colours.iter().flat_map(|one| colours.iter().map(move |other| (one, other))) {
            if let (Ok(of_one), Ok(of_other)) = (of(one), of(other)) {
                assert_eq!(of_one == of_other, name(one) == name(other), "{one:?}, {other:?}");
            }
        }
        assert_eq!(family(DXGI_FORMAT_D32_FLOAT), family(DXGI_FORMAT_R32_TYPELESS));
        assert_eq!(family(DXGI_FORMAT_D24_UNORM_S8_UINT), family(DXGI_FORMAT_R24G8_TYPELESS));
    }

    #[test]
    fn a_clear_value_of_another_kind_than_its_format_is_a_value_too() {
        let desc = TextureDesc { usage: TextureUsage::RENDER_TARGET, ..Default::default() };
        let desc = Textures::resource_desc(&desc).expect("a render target");
        let with =
            |value| ResourceInfo { clear_value: Some((DXGI_FORMAT_R8G8B8A8_UNORM, value)), ..ResourceInfo::from(desc) };
        let depth = with(ClearValue::DepthStencil { depth: 5, stencil: 6 });
        let given = clear_value(&depth).expect("the description has a clear value");
        // SAFETY: every byte of the union was set.
        assert_eq!(unsafe { given.Anonymous.Color }.map(f32::to_bits), [5, 6, 0, 0]);
        let color = with(ClearValue::Color([5, 6, 0, 0]));
        assert!(key(&depth) == key(&depth.clone()) && key(&depth) != key(&color));
        assert!(key(&depth) != key(&ResourceInfo::from(desc)));
    }

    #[test]
    fn a_buffer_described_portably_and_back_is_the_same() {
        let flags = [D3D12_RESOURCE_FLAG_NONE, D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS];
        for (size, alignment, flags) in [1, 16, 255, 256, 257, 65_536, 100_000]
            .into_iter()
            .flat_map(|size| [0, RAW_VIEW_ALIGNMENT].map(|alignment| (size, alignment)))
            .flat_map(|(size, alignment)| flags.map(|flags| (size, alignment, flags)))
        {
            let plain = BufferDesc { size, usage: BufferUsage::COPY_DST };
            let plain = Buffers::resource_desc(&plain).expect("a plain buffer");
            let native = D3D12_RESOURCE_DESC { Alignment: alignment, Flags: flags, ..plain };
            let said = Buffers::portable_desc(&native).expect("a buffer");
            // The description that the device makes if the driver supports tight alignment.
            let again = D3D12_RESOURCE_DESC {
                Alignment: Buffers::alignment_min(&said),
                ..Buffers::resource_desc(&said).expect("the portable description converts back")
            };
            assert!(key(&again.into()) == key(&native.into()), "{size}, {alignment}, {flags:?}");
        }
    }

    #[test]
    fn a_block_compressed_texture_has_at_least_two_dimensions() {
        let of = |format, dimension| {
            let desc = TextureDesc { dimension, width: 16, height: 1, format, ..Default::default() };
            Textures::resource_desc(&desc)
        };
        for format in Format::ALL.iter().copied().filter(|format| format.texels().is_compressed()) {
            let is_known = of(format, Dimension::D2).is_ok();
            assert!(is_known == of(format, Dimension::D3).is_ok(), "{format:?}");
            let refused = of(format, Dimension::D1).map(drop);
            assert!(matches!(refused, Err(DeviceError::Unsupported(_))), "{format:?}: {refused:?}");
        }
        assert!(of(Format::Bc1Unorm, Dimension::D2).is_ok() && of(Format::R8Unorm, Dimension::D1).is_ok());
    }

    #[test]
    fn the_initial_state_of_buffers_and_simultaneous_textures_is_the_common_one() {
        let desc = Buffers::resource_desc(&BufferDesc { size: 16, usage: BufferUsage::COPY_DST }).expect("a buffer");
        let of = |desc, state| ResourceInfo { initial_state: state, ..ResourceInfo::from(desc) };
        let copied = of(desc, D3D12_RESOURCE_STATE_COPY_DEST);
        assert_eq!(initial_state(&copied), D3D12_RESOURCE_STATE_COMMON);
        assert!(key(&copied) == key(&desc.into()), "a buffer ignores the described state");
        let structure = D3D12_RESOURCE_STATE_RAYTRACING_ACCELERATION_STRUCTURE;
        assert_eq!(initial_state(&of(desc, structure)), structure);
        assert!(key(&of(desc, structure)) != key(&desc.into()));
        let texture = Textures::resource_desc(&TextureDesc::default()).expect("a texture");
        assert_eq!(initial_state(&of(texture, structure)), structure);
        let shared = D3D12_RESOURCE_DESC { Flags: D3D12_RESOURCE_FLAG_ALLOW_SIMULTANEOUS_ACCESS, ..texture };
        assert_eq!(initial_state(&of(shared, D3D12_RESOURCE_STATE_COPY_DEST)), D3D12_RESOURCE_STATE_COMMON);
    }

    #[test]
    fn textures_with_view_formats_are_typeless_and_keep_their_own_format() {
        let of = |format, views: &[Format]| {
            let view_formats = FormatSet::of(views);
            let desc = TextureDesc { format, view_formats, ..Default::default() };
            let info = ResourceInfo { views: Some((format, view_formats)), ..Textures::resource_desc(&desc)?.into() };
            Ok::<_, DeviceError>(info)
        };
        let both = [Format::Rgba8Unorm, Format::Rgba8UnormSrgb];
        let one = of(both[0], &both[1..]).expect("one family");
        let other = of(both[1], &both[..1]).expect("one family");
        assert_eq!([one.desc.Format, other.desc.Format], [DXGI_FORMAT_R8G8B8A8_TYPELESS; 2]);
        assert_eq!(
            [typed(&one).Format, typed(&other).Format],
            [DXGI_FORMAT_R8G8B8A8_UNORM, DXGI_FORMAT_R8G8B8A8_UNORM_SRGB]
        );
        let more = of(both[0], &[both[1], Format::Rgba8Uint]).expect("one family");
        let keys = [&one, &other, &more].map(key);
        assert!(keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2]);
        let bgra = of(Format::Bgra8Unorm, &[Format::Bgra8UnormSrgb]).expect("one family");
        assert_eq!(bgra.desc.Format, DXGI_FORMAT_B8G8R8A8_TYPELESS);
        let refused = of(Format::Rgba8Unorm, &[Format::R32Uint]).err();
        assert!(matches!(refused, Some(DeviceError::Unsupported(_))), "{refused:?}");
    }

    #[test]
    fn depth_and_stencil_lie_in_planes() {
        let both = DXGI_FORMAT_R24G8_TYPELESS;
        assert_eq!(plane(both, TextureAspect::Depth), 0);
        assert_eq!(plane(both, TextureAspect::Stencil), 1);
        assert_eq!(plane_format(both, 1), DXGI_FORMAT_R8_TYPELESS);
        assert_eq!(plane_count(DXGI_FORMAT_D32_FLOAT), 1);
    }
}
