//! Sizes of simulated resources, and the layout of textures.
//!
//! ```text
//!   texture   │ layer 0: mip 0 ··· │ mip 1 · │ mip 2 │ layer 1: mip 0 ··· │ mip 1 · │ mip 2 │ rounded up │
//!   mip       │ colour, or depth and stencil, one after the other │
//!             each aspect of a mip starts at a multiple of the profile's mip alignment; slices and rows of blocks
//!             are tightly packed
//! ```

use super::profile::Profile;
use ringfence_hal::{
    BufferDesc, ChannelKind, DeviceError, Dimension, Format, FormatSupport, FormatUses, Kind, Requirements,
    ResourceClass, TextureAspect, TextureDesc, TextureUsage, Textures,
};

const SIDE_MAX: u32 = 16_384;
const DEPTH_MAX: u32 = 2_048;
const LAYERS_MAX: u32 = 2_048;
const SAMPLES_MAX: u32 = 16;

/// Returns the requirements of a buffer.
pub(super) fn buffer_requirements(profile: &Profile, desc: &BufferDesc) -> Result<Requirements, DeviceError> {
    DeviceError::invalid("a buffer must have at least one byte").at_least(desc.size, 1)?;
    DeviceError::invalid("a buffer must have at least one usage").at_least(desc.usage.bits().into(), 1)?;
    let alignment = profile.buffer_alignment;
    let size = desc.size.checked_next_multiple_of(alignment).ok_or(DeviceError::OutOfDeviceMemory)?;
    Ok(Requirements {
        size,
        alignment,
        memory_type_bits: profile.buffer_types,
        class: ResourceClass::Buffer,
        prefers_dedicated: false,
        requires_dedicated: false,
    })
}

/// Returns the requirements of a texture.
pub(super) fn texture_requirements(profile: &Profile, desc: &TextureDesc) -> Result<Requirements, DeviceError> {
    check_texture(desc)?;
    let is_target = desc.usage.intersects(TextureUsage::RENDER_TARGET | TextureUsage::DEPTH_STENCIL);
    let bytes = u64::from(desc.layers) * layer_bytes(profile, desc);
    let alignment = texture_alignment(profile, desc, bytes, is_target);
    let size = bytes.checked_next_multiple_of(alignment).ok_or(DeviceError::OutOfDeviceMemory)?;
    let requires_dedicated = size >= profile.dedicated_required_bytes;
    Ok(Requirements {
        size,
        alignment,
        memory_type_bits: if is_target { profile.target_types } else { profile.texture_types },
        class: if is_target { ResourceClass::RenderTarget } else { ResourceClass::Texture },
        prefers_dedicated: requires_dedicated || (is_target && size >= profile.dedicated_preferred_bytes),
        requires_dedicated,
    })
}

/// Returns the uses of a format. Textures are checked as at their creation. Every colour format that is not
/// block-compressed can be in buffers.
pub(super) fn format_support(format: Format) -> FormatSupport {
    let (width, height) = (64, 64);
    let mut found = FormatSupport::of_textures(format, |usage, samples| {
        check_texture(&TextureDesc { width, height, samples, format, usage, ..Default::default() }).is_ok()
    });
    let (is_depth, is_compressed) = (format.is_depth_stencil(), format.texels().is_compressed());
    let is_filtered = format.channels() == ChannelKind::Float;
    found.uses.set(FormatUses::FILTERED, is_filtered);
    found.uses.set(FormatUses::BLENDED, is_filtered && !is_depth && !is_compressed);
    found.uses.set(FormatUses::TEXELS | FormatUses::STORAGE_TEXELS, !is_depth && !is_compressed);
    found
}

fn check_texture(desc: &TextureDesc) -> Result<(), DeviceError> {
    Textures::check(desc)?;
    for (given, max, refused) in [
        (desc.longest(), SIDE_MAX, "a texture with sides of this length"),
        (desc.depth, DEPTH_MAX, "a texture of this depth"),
        (desc.layers, LAYERS_MAX, "a texture with this many layers"),
        (desc.samples, SAMPLES_MAX, "a texture with this many samples"),
    ] {
        DeviceError::invalid(refused).at_most(given.into(), max.into())?;
    }
    check_usage(desc)
}

/// Refuses usages that the format does not support, and formats that the texture's dimension does not support.
fn check_usage(desc: &TextureDesc) -> Result<(), DeviceError> {
    let (depth, compressed) = (desc.format.is_depth_stencil(), desc.format.texels().is_compressed());
    let (target, depth_target) = (TextureUsage::RENDER_TARGET, TextureUsage::DEPTH_STENCIL);
    for (applies, without, refused) in [
        (depth, target, "a render target with a depth format"),
        (!depth, depth_target, "a depth target with a format without depth"),
        (compressed, target | TextureUsage::STORAGE, "a block-compressed format with render-target or storage usage"),
    ] {
        let allowed = if applies { desc.usage.difference(without) } else { desc.usage };
        DeviceError::invalid(refused).flags(desc.usage.bits().into(), allowed.bits().into())?;
    }
    let flat = matches!(desc.dimension, Dimension::D2 | Dimension::Cube);
    if depth && !flat {
        return Err(DeviceError::invalid("a depth format in a one- or three-dimensional texture"));
    }
    if compressed && desc.dimension == Dimension::D1 {
        return Err(DeviceError::invalid("a one-dimensional block-compressed texture"));
    }
    Ok(())
}

fn texture_alignment(profile: &Profile, desc: &TextureDesc, bytes: u64, is_target: bool) -> u64 {
    if desc.samples > 1 {
        profile.multisampled_alignment
    } else if !is_target && bytes <= profile.texture_alignment {
        profile.small_texture_alignment
    } else {
        profile.texture_alignment
    }
}

/// Location of one subresource (aspect, mip level and array layer) in its texture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Subresource {
    /// Offset from the start of the texture, in bytes.
    pub(super) offset: u64,
    /// Width, height and depth in texels.
    pub(super) extent: [u32; 3],
    /// Width and height of a block in texels.
    pub(super) block: [u32; 2],
    /// Size of a block in bytes, including all samples.
    pub(super) block_bytes: u64,
}

impl Subresource {
    /// Returns the size of a row of blocks, in bytes.
    pub(super) fn row_bytes(&self) -> u64 {
        u64::from(self.extent[0].div_ceil(self.block[0])) * self.block_bytes
    }

    /// Returns the size of a slice, in bytes.
    pub(super) fn slice_bytes(&self) -> u64 {
        self.row_bytes() * u64::from(self.extent[1].div_ceil(self.block[1]))
    }

    fn bytes(&self) -> u64 {
        self.slice_bytes() * u64::from(self.extent[2])
    }
}

/// Returns the location of one aspect of a mip level of an array layer. Returns `None` if the texture has no such
/// subresource.
pub(super) fn subresource(
    profile: &Profile,
    desc: &TextureDesc,
    (mip, layer): (u32, u32),
    aspect: TextureAspect,
) -> Option<Subresource> {
    if mip >= desc.mips || layer >= desc.layers {
        return None;
    }
    let found = part(desc, mip, aspect)?;
    let mips: u64 = (0..mip).map(|mip| mip_pitch(profile, desc, mip)).sum();
    let before = TextureAspect::ALL.into_iter().take_while(|other| *other != aspect);
    let aspects: u64 = before.map(|other| part_pitch(profile, desc, mip, other)).sum();
    Some(Subresource { offset: u64::from(layer) * layer_bytes(profile, desc) + mips + aspects, ..found })
}

fn layer_bytes(profile: &Profile, desc: &TextureDesc) -> u64 {
    (0..desc.mips).map(|mip| mip_pitch(profile, desc, mip)).sum()
}

/// Returns the size of a mip level of one layer in bytes, with all aspects and with padding.
fn mip_pitch(profile: &Profile, desc: &TextureDesc, mip: u32) -> u64 {
    TextureAspect::ALL.into_iter().map(|aspect| part_pitch(profile, desc, mip, aspect)).sum()
}

/// Returns the size of one aspect of a mip level in bytes, with padding; 0 if the texture lacks the aspect.
fn part_pitch(profile: &Profile, desc: &TextureDesc, mip: u32, aspect: TextureAspect) -> u64 {
    part(desc, mip, aspect).map_or(0, |part| part.bytes().next_multiple_of(profile.mip_alignment))
}

fn part(desc: &TextureDesc, mip: u32, aspect: TextureAspect) -> Option<Subresource> {
    let format = desc.format.texels();
    let block_bytes = u64::from(format.block_bytes(aspect)?) * u64::from(desc.samples);
    let extent = [desc.width, desc.height, desc.depth].map(|side| (side >> mip).max(1));
    Some(Subresource { offset: 0, extent, block: format.block(), block_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_hal::Format;

    #[test]
    fn parts_of_a_texture_follow_each_other_and_fit() {
        let profile = Profile::h200();
        let desc = TextureDesc { width: 100, height: 37, layers: 3, mips: 7, ..Default::default() };
        let mut end = 0;
        for layer in 0..3 {
            for mip in 0..7 {
                let part = subresource(&profile, &desc, (mip, layer), TextureAspect::Color).unwrap();
                assert!(part.offset >= end);
                end = part.offset + part.bytes();
            }
        }
        assert!(end <= texture_requirements(&profile, &desc).unwrap().size);
        assert_eq!(subresource(&profile, &desc, (7, 0), TextureAspect::Color), None);
        assert_eq!(subresource(&profile, &desc, (0, 3), TextureAspect::Color), None);
    }

    #[test]
    fn every_aspect_slice_and_block_of_a_texture_has_bytes_of_its_own() {
        let profile = Profile::h200();
        let both = TextureDesc { format: Format::D24UnormS8Uint, width: 9, height: 5, mips: 2, ..Default::default() };
        let size = texture_requirements(&profile, &both).unwrap().size;
        let mut end = 0;
        for mip in 0..2 {
            for (aspect, bytes) in [(TextureAspect::Depth, 4), (TextureAspect::Stencil, 1)] {
                let part = subresource(&profile, &both, (mip, 0), aspect).unwrap();
                assert!(part.offset >= end && part.row_bytes() == u64::from(9_u32 >> mip) * bytes);
                end = part.offset + part.bytes();
            }
        }
        assert!(end <= size);
        assert_eq!(subresource(&profile, &both, (0, 0), TextureAspect::Color), None);
        let volume = TextureDesc {
            dimension: Dimension::D3,
            format: Format::Bc7Unorm,
            width: 10,
            height: 6,
            depth: 5,
            ..Default::default()
        };
        let part = subresource(&profile, &volume, (0, 0), TextureAspect::Color).unwrap();
        assert_eq!((part.row_bytes(), part.slice_bytes(), part.bytes()), (48, 96, 480));
    }

    #[test]
    fn direct3d_alignments_follow_size_and_samples() {
        let profile = Profile::d3d12_tier1();
        let alignment = |desc: TextureDesc| texture_requirements(&profile, &desc).unwrap().alignment;
        let side = |side| TextureDesc { width: side, height: side, ..Default::default() };
        assert_eq!(alignment(side(64)), 4 << 10);
        assert_eq!(alignment(side(512)), 64 << 10);
        assert_eq!(alignment(TextureDesc { usage: TextureUsage::RENDER_TARGET, ..side(64) }), 64 << 10);
        assert_eq!(alignment(TextureDesc { samples: 4, ..side(64) }), 4 << 20);
    }

    /// The error for each broken rule of the simulated devices contains the given and the allowed number.
    #[test]
    fn what_a_simulated_device_refuses_is_said_with_its_numbers() {
        let valid = TextureDesc { width: 64, height: 64, ..Default::default() };
        let (target, storage) = (TextureUsage::RENDER_TARGET, TextureUsage::STORAGE);
        let (depth, blocks) = (ringfence_hal::Format::D32Float, ringfence_hal::Format::Bc1Unorm);
        assert_eq!(check_texture(&valid), Ok(()));
        for (broken, numbers) in [
            (TextureDesc { width: 20_000, ..valid }, "(20000, at most 16384)"),
            (TextureDesc { dimension: Dimension::D3, depth: 2049, ..valid }, "(2049, at most 2048)"),
            (TextureDesc { layers: 2050, ..valid }, "(2050, at most 2048)"),
            (TextureDesc { samples: 32, ..valid }, "(32, at most 16)"),
            (TextureDesc { mips: 8, ..valid }, "(8, at most 7)"),
            (TextureDesc { format: depth, usage: target, ..valid }, "(0x10, of 0x0)"),
            (TextureDesc { usage: TextureUsage::DEPTH_STENCIL, ..valid }, "(0x20, of 0x0)"),
            (TextureDesc { format: blocks, usage: storage, ..valid }, "(0x8, of 0x0)"),
        ] {
            let error = check_texture(&broken).expect_err(numbers).to_string();
            assert!(error.ends_with(numbers), "{error}: {numbers}");
        }
        let usage = ringfence_hal::BufferUsage::COPY_SRC;
        let error = buffer_requirements(&Profile::h200(), &BufferDesc { size: 0, usage }).expect_err("no bytes");
        assert!(error.to_string().ends_with("(0, at least 1)"), "{error}");
    }
}
