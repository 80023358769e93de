//! Mip levels and resolves: filtered texels, with pictures whose averages are exact.

use ringfence::commands::{CommandError, ResolvedLayers, SubresourceRange};
use ringfence::device::transfer::TransferSupport;
use ringfence::device::{Dimension, Format, TexelBox, TextureAspect, TextureDesc, TextureUsage};
use ringfence::upload::{Texels, UploadDesc};
use ringfence::{UploadBatch, UploadRing};
use ringfence_testkit::{Command, Gpu, report};

use super::picture::Picture;
use super::{clear_usage, refused, run, texture};
use crate::device_suite::rig::{PATIENCE, Rig};

/// Sides of each shape are powers of two, so each texel is the average of whole texels of the previous level.
fn shapes() -> [TextureDesc; 5] {
    let flat = TextureDesc { width: 8, height: 8, mips: 4, ..Default::default() };
    [
        flat,
        TextureDesc { width: 16, height: 4, mips: 5, layers: 3, ..flat },
        TextureDesc { dimension: Dimension::Cube, layers: 6, ..flat },
        TextureDesc { dimension: Dimension::D3, height: 4, depth: 4, ..flat },
        TextureDesc { dimension: Dimension::D1, height: 1, layers: 2, ..flat },
    ]
}

/// A format with channels of one size, and the conversions between a channel from 0 to 255 and its bytes.
struct Channels {
    format: Format,
    count: usize,
    encode: fn(u32) -> Vec<u8>,
    decode: fn(&[u8]) -> f64,
}

const FORMATS: [Channels; 4] = [
    Channels {
        format: Format::Rgba8Unorm,
        count: 4,
        encode: |value| vec![value as u8],
        decode: |bytes| f64::from(bytes[0]),
    },
    Channels {
        format: Format::R8Unorm,
        count: 1,
        encode: |value| vec![value as u8],
        decode: |bytes| f64::from(bytes[0]),
    },
    Channels {
        format: Format::R32Float,
        count: 1,
        encode: |value| (value as f32).to_le_bytes().to_vec(),
        decode: |bytes| f32::from_le_bytes(bytes.try_into().expect("four bytes")).into(),
    },
    Channels {
        format: Format::Rg16Unorm,
        count: 2,
        encode: |value| (value as u16 * 257).to_le_bytes().to_vec(),
        decode: |bytes| f64::from(u16::from_le_bytes(bytes.try_into().expect("two bytes"))) / 257.0,
    },
];

/// Largest difference from the exact average, of channels from 0 to 255. Each level is rounded once.
const TOLERANCE: f64 = 1.01;

/// Returns channel `channel` of a texel of the first level: a multiple of 64, so that averages are exact for three
/// levels.
fn channel(layer: u32, index: usize, channel: usize) -> u32 {
    let mixed = (index as u32 * 7 + layer * 5 + channel as u32 * 3).wrapping_mul(0x9e37_79b1);
    (mixed >> 30) * 64
}

/// Returns the texels of the next level as averages of up to eight texels.
fn averages(texels: &[f64], channels: usize, from: [usize; 3], to: [usize; 3]) -> Vec<f64> {
    let ratio = [0, 1, 2].map(|axis| from[axis] / to[axis]);
    let mut level = Vec::new();
    for (z, y, x) in places(to) {
        for channel in 0..channels {
            let of = places(ratio).map(|(dz, dy, dx)| {
                let (z, y, x) = (z * ratio[2] + dz, y * ratio[1] + dy, x * ratio[0] + dx);
                texels[((z * from[1] + y) * from[0] + x) * channels + channel]
            });
            level.push(of.sum::<f64>() / ratio.iter().product::<usize>() as f64);
        }
    }
    level
}

fn places([width, height, depth]: [usize; 3]) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..depth).flat_map(move |z| (0..height).flat_map(move |y| (0..width).map(move |x| (z, y, x))))
}

pub fn mip_levels_are_averages_of_the_previous_level<G: Gpu>(rig: &mut Rig<G>)
where
    G::Device: TransferSupport,
{
    let mut count = 0;
    for (channels, shape) in FORMATS.iter().flat_map(|channels| shapes().map(|shape| (channels, shape))) {
        let desc = TextureDesc { format: channels.format, ..shape };
        let Some(texture) = texture(rig, desc, TextureUsage::SAMPLED) else { continue };
        if rig.memory.device().check_blit(&desc).is_err() {
            let error = refused(rig, |commands| commands.generate_mips(&texture));
            assert!(matches!(error, CommandError::NoMips { .. }), "{error}");
            assert!(error.to_string().contains("upload them"), "{error}");
            continue;
        }
        let texels = channels.format.texel_bytes() as usize;
        let first = |_, layer, size: usize| {
            let each = (0..size / texels).flat_map(|index| (0..channels.count).map(move |at| (index, at)));
            each.flat_map(|(index, at)| (channels.encode)(channel(layer, index, at))).collect()
        };
        let mut picture = Picture::new(desc, TextureAspect::Color, first);
        upload(rig, &mut picture, &texture);
        run(rig, |commands| commands.generate_mips(&texture));
        check_levels(rig, channels, &mut picture, &texture);
        count += 1;
    }
    if count == 0 {
        report::skipped("the device has no blits with linear filtering");
    }
}

/// Uploads the first mip level of every layer.
fn upload<G: Gpu>(rig: &mut Rig<G>, picture: &mut Picture, texture: &ringfence::Texture<G::Device>) {
    let ring = UploadRing::new(&rig.memory, UploadDesc { capacity: 1 << 20, ..Default::default() }).expect("room");
    let (frame, mut batch) = (rig.timeline().begin(), UploadBatch::new());
    let whole = picture.whole(0);
    let bytes = picture.cut(&whole);
    let texels = Texels::of(picture.desc().format, whole.extent(), &bytes).layers(whole.layers);
    let staged = ring.write_texels(&frame, &texels).expect("there is room");
    let to = ringfence::upload::TexelTarget { discard: true, ..Default::default() };
    batch.copy_texels(&staged, texture, to).expect("it fits");
    let value = rig.submit(frame, &[Command::Upload(Box::new(batch))]);
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
}

fn check_levels<G: Gpu>(
    rig: &mut Rig<G>,
    channels: &Channels,
    picture: &mut Picture,
    texture: &ringfence::Texture<G::Device>,
) {
    let (found, layers) = (picture.read(rig, texture), picture.desc().layers);
    let bytes = picture.block_bytes() / channels.count;
    let decode = |level: &[u8]| level.chunks_exact(bytes).map(channels.decode).collect::<Vec<f64>>();
    for layer in 0..layers {
        let part = TexelBox { layer, layers: 1, ..picture.whole(0) };
        let mut expected = decode(&picture.cut(&part));
        for mip in 0..picture.desc().mips {
            if mip > 0 {
                let [from, to] = [mip - 1, mip].map(|mip| picture.extent(mip).map(|side| side as usize));
                expected = averages(&expected, channels.count, from, to);
            }
            let level = decode(&found[mip as usize]);
            let level = &level[layer as usize * expected.len()..][..expected.len()];
            let tolerance = TOLERANCE * f64::from(mip);
            let near = level.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() <= tolerance);
            assert!(near, "mip {mip} of layer {layer} of {:?}: {level:?}, {expected:?}", picture.desc());
        }
    }
}

pub fn resolved_texels_are_averages_of_their_samples<G: Gpu>(rig: &mut Rig<G>)
where
    G::Device: TransferSupport,
{
    let mut count = 0;
    for (format, color, bytes) in [
        (Format::Rgba8Unorm, [1.0, 0.0, 0.0, 1.0], &[255, 0, 0, 255][..]),
        (Format::Rgba16Float, [1.0, 0.0, 0.0, 1.0], &[0, 0x3c, 0, 0, 0, 0, 0, 0x3c]),
        (Format::R8Unorm, [1.0; 4], &[255]),
    ] {
        let one = TextureDesc { format, width: 24, height: 12, mips: 2, layers: 3, ..Default::default() };
        let many = TextureDesc { width: 12, height: 6, mips: 1, layers: 2, samples: 4, ..one };
        let usage = clear_usage(rig, format) | TextureUsage::RENDER_TARGET;
        let (Some(many), Some(to)) = (texture(rig, many, usage), texture(rig, one, usage)) else { continue };
        if rig.memory.device().check_resolve(&one).is_err() {
            continue;
        }
        let all = |mips, layers| SubresourceRange { mip: 0, mips, layer: 0, layers };
        run(rig, |commands| {
            commands.clear_color(&to, all(2, 3), [0.0; 4])?;
            commands.clear_color(&many, all(1, 2), color)?;
            commands.resolve(&many, &to, ResolvedLayers { src_layer: 0, dst_mip: 1, dst_layer: 1, layers: 2 })
        });
        let texels = |mip, layer, size| match (mip, layer) {
            (1, 1..) => bytes.repeat(size / bytes.len()),
            _ => vec![0; size],
        };
        Picture::new(one, TextureAspect::Color, texels).check(rig, &to, "resolved");
        count += 1;
    }
    if count == 0 {
        report::skipped("the device has no multisampled textures that can be resolved");
    }
}
