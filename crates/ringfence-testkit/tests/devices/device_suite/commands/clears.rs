//! Clears of colours, depth and stencil, in every shape. The expected bytes are written out for each format.

use ringfence::commands::{ClearColor, CommandError, DepthStencil, SubresourceRange};
use ringfence::device::transfer::TransferSupport;
use ringfence::device::{Dimension, Driver, Format, MemoryProperties, TextureAspect, TextureDesc, TextureUsage};
use ringfence_testkit::{Gpu, Validation, report};

use super::picture::Picture;
use super::{clear_usage, refused, run, texture};
use crate::device_suite::rig::Rig;

const RED: ClearColor = ClearColor::Float([1.0, 0.0, 0.0, 1.0]);

/// Formats, with a colour and its bytes.
const COLORS: [(Format, ClearColor, &[u8]); 20] = [
    (Format::R8Unorm, RED, &[255]),
    (Format::Rg8Unorm, RED, &[255, 0]),
    (Format::Rgba8Unorm, RED, &[255, 0, 0, 255]),
    (Format::Rgba8UnormSrgb, RED, &[255, 0, 0, 255]),
    (Format::Rgba8Snorm, RED, &[127, 0, 0, 127]),
    (Format::Bgra8Unorm, RED, &[0, 0, 255, 255]),
    (Format::R16Unorm, RED, &[255, 255]),
    (Format::Rgba16Float, RED, &[0, 0x3c, 0, 0, 0, 0, 0, 0x3c]),
    (Format::R32Float, RED, &[0, 0, 0x80, 0x3f]),
    (Format::Rgba32Float, RED, &[0, 0, 0x80, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f]),
    (Format::Rgb10a2Unorm, RED, &[0xff, 3, 0, 0xc0]),
    (Format::Rg11b10Float, RED, &[0xc0, 3, 0, 0]),
    (Format::B5g6r5Unorm, RED, &[0, 0xf8]),
    (Format::R8Uint, ClearColor::Uint([200, 0, 0, 0]), &[200]),
    (Format::Rgba8Uint, ClearColor::Uint([1, 2, 3, 4]), &[1, 2, 3, 4]),
    (Format::Rgb10a2Uint, ClearColor::Uint([1, 2, 3, 1]), &[1, 8, 0x30, 0x40]),
    (Format::R32Uint, ClearColor::Uint([70_000, 0, 0, 0]), &[0x70, 0x11, 1, 0]),
    (Format::R8Sint, ClearColor::Sint([-2, 0, 0, 0]), &[254]),
    (Format::Rgba16Sint, ClearColor::Sint([-1, 2, -3, 4]), &[255, 255, 2, 0, 253, 255, 4, 0]),
    (Format::R32Sint, ClearColor::Sint([-70_000, 0, 0, 0]), &[0x90, 0xee, 0xfe, 0xff]),
];

/// Every shape, with several mip levels.
pub fn shapes() -> [TextureDesc; 4] {
    let flat = TextureDesc { width: 9, height: 5, mips: 3, ..Default::default() };
    [
        TextureDesc { dimension: Dimension::D1, height: 1, layers: 2, ..flat },
        TextureDesc { layers: 3, ..flat },
        TextureDesc { dimension: Dimension::Cube, width: 8, height: 8, layers: 6, ..flat },
        TextureDesc { dimension: Dimension::D3, depth: 4, ..flat },
    ]
}

/// The zero of the type of a colour.
const fn zero(color: ClearColor) -> ClearColor {
    match color {
        ClearColor::Float(_) => ClearColor::Float([0.0; 4]),
        ClearColor::Sint(_) => ClearColor::Sint([0; 4]),
        ClearColor::Uint(_) => ClearColor::Uint([0; 4]),
    }
}

pub fn clears_write_all_texels_of_their_subresources<G: Gpu>(rig: &mut Rig<G>)
where
    G::Device: TransferSupport,
{
    let mut count = 0;
    if is_wine(rig) {
        report::skipped("one-dimensional targets, which Wine's runtime does not clear");
    }
    for (format, color, bytes) in COLORS {
        for shape in shapes() {
            let desc = TextureDesc { format, ..shape };
            if shape.dimension == Dimension::D1 && is_wine(rig) {
                continue;
            }
            let Some(texture) = texture(rig, desc, clear_usage(rig, format)) else { continue };
            let all = SubresourceRange { mip: 0, mips: desc.mips, layer: 0, layers: desc.layers };
            let last = SubresourceRange { mip: 1, mips: 2, layer: desc.layers - 1, layers: 1 };
            run(rig, |commands| {
                commands.clear_color(&texture, all, color)?;
                commands.clear_color(&texture, last, zero(color))
            });
            let texels = |mip, layer, size| match (mip, layer) {
                (1.., layer) if layer == desc.layers - 1 => vec![0; size],
                _ => bytes.repeat(size / bytes.len()),
            };
            Picture::new(desc, TextureAspect::Color, texels).check(rig, &texture, "cleared");
            count += 1;
        }
    }
    assert!(count >= 24, "{count} pairs of format and shape");
}

/// Returns `true` for a Direct3D 12 with neither a debug layer nor GPU upload heaps, as Wine's runtime.
fn is_wine<G: Gpu>(rig: &Rig<G>) -> bool {
    let upload_heap = MemoryProperties::DEVICE_LOCAL | MemoryProperties::HOST_VISIBLE;
    let device = rig.gpu.device();
    let has_one = device.capabilities().memory_types.iter().any(|kind| kind.properties.contains(upload_heap));
    G::NAME == "d3d12" && matches!(rig.gpu.validation(), Validation::Absent(_)) && !has_one
}

/// Returns `true` if the device can copy both aspects of a format. Wine 8 copies both wrongly.
fn copies_both<G: Gpu>(rig: &Rig<G>, format: Format, desc: &TextureDesc) -> bool {
    let depth = &format!("{format:?}").to_lowercase()[..3];
    let names = rig.gpu.texel_formats().into_iter().map(|name| name.to_lowercase()).enumerate();
    let mut of_format = names.filter(|(_, name)| name.contains(depth) && name.contains("s8"));
    of_format.any(|(index, _)| rig.gpu.describe_texels(index, desc).is_some())
}

/// Formats of depth, with the bytes of depth 1.
const DEPTHS: [(Format, &[u8], bool); 5] = [
    (Format::D16Unorm, &[255, 255], false),
    (Format::D32Float, &[0, 0, 0x80, 0x3f], false),
    (Format::D24UnormS8Uint, &[255, 255, 255, 0], true),
    (Format::D32FloatS8Uint, &[0, 0, 0x80, 0x3f], true),
    (Format::D16UnormS8Uint, &[255, 255], true),
];

pub fn depth_and_stencil_are_cleared_together_and_apart<G: Gpu>(rig: &mut Rig<G>)
where
    G::Device: TransferSupport,
{
    let mut count = 0;
    for (format, one, has_stencil) in DEPTHS {
        let desc = TextureDesc { format, width: 9, height: 5, mips: 3, layers: 2, ..Default::default() };
        if has_stencil && !copies_both(rig, format, &desc) {
            continue;
        }
        let more = clear_usage(rig, format) | TextureUsage::DEPTH_STENCIL;
        let Some(texture) = texture(rig, desc, more) else { continue };
        let all = SubresourceRange { mip: 0, mips: 3, layer: 0, layers: 2 };
        let part = SubresourceRange::one(1, 1);
        let first = DepthStencil { depth: Some(1.0), stencil: has_stencil.then_some(7) };
        run(rig, |commands| {
            commands.clear_depth_stencil(&texture, all, first)?;
            commands.clear_depth_stencil(&texture, part, DepthStencil::depth(0.0))?;
            if has_stencil {
                commands.clear_depth_stencil(&texture, SubresourceRange::one(2, 0), DepthStencil::stencil(9))?;
            }
            Ok(())
        });
        let depths = |mip, layer, size| match (mip, layer) {
            (1, 1) => vec![0; size],
            _ => one.repeat(size / one.len()),
        };
        Picture::new(desc, TextureAspect::Depth, depths).check(rig, &texture, "cleared depth");
        if has_stencil {
            let stencils = |mip, layer, size| vec![if (mip, layer) == (2, 0) { 9 } else { 7 }; size];
            Picture::new(desc, TextureAspect::Stencil, stencils).check(rig, &texture, "cleared stencil");
        }
        let color = refused(rig, |commands| commands.clear_color(&texture, all, RED));
        assert!(matches!(color, CommandError::Format { .. }), "{color}");
        count += 1;
    }
    if count == 0 {
        report::skipped("the device has no depth texture that can be cleared");
    }
}
