//! Generated copies of boxes between textures and buffers, compared with the same copies on the host.

use ringfence::commands::{BufferTexels, TexelOrigin};
use ringfence::device::transfer::TransferSupport;
use ringfence::device::{Dimension, Driver, Format, TexelBox, TextureAspect, TextureDesc, TextureUsage};
use ringfence::sim::rng::Rng;
use ringfence::{Buffer, Location, Texture};
use ringfence_testkit::Gpu;

use super::clears::shapes;
use super::picture::Picture;
use super::{run, texture};
use crate::device_suite::rig::{Rig, pattern};

/// Formats of the first and the second texture.
pub(super) const PAIRS: [[Format; 2]; 6] = [
    [Format::R8Uint, Format::R8Uint],
    [Format::Rgba8Unorm, Format::Rgba8Uint],
    [Format::Rg16Uint, Format::Rg16Unorm],
    [Format::Rg32Uint, Format::Rg32Uint],
    [Format::Bc1Unorm, Format::Bc1UnormSrgb],
    [Format::D32Float, Format::D32Float],
];
const STEPS: usize = 30;
/// Size of the buffer of a copy, in bytes.
pub(super) const ROOM: u64 = 64 << 10;

pub(super) struct Subject<G: Gpu> {
    pub(super) texture: Texture<G::Device>,
    pub(super) picture: Picture,
}

pub fn boxes_of_textures_and_buffers_are_copied_like_their_model<G: Gpu>(rig: &mut Rig<G>)
where
    G::Device: TransferSupport,
{
    let (mut dice, mut count) = (Rng::new(41), 0);
    for (formats, shape) in PAIRS.into_iter().flat_map(|pair| shapes().map(|shape| (pair, shape))) {
        if let Some(mut pair) = pair(rig, formats, shape) {
            let buffer = rig.buffer(ROOM, Location::Device, "texels");
            pair.iter_mut().for_each(|subject| fill(rig, &buffer, subject, &mut dice));
            (0..STEPS).for_each(|_| step(rig, &mut pair, &buffer, &mut dice));
            for Subject { texture, picture } in &mut pair {
                picture.check(rig, texture, "copied boxes");
            }
            count += 1;
        }
    }
    assert!(count >= 12, "{count} pairs of textures");
}

/// Creates a pair of textures; `None` if the device lacks one of them.
pub(super) fn pair<G: Gpu>(rig: &Rig<G>, formats: [Format; 2], shape: TextureDesc) -> Option<[Subject<G>; 2]> {
    let aspect = formats[0].texels().first_aspect();
    let desc = |format: Format| match format.texels().is_compressed() {
        true if shape.dimension == Dimension::D1 => None,
        // Block-compressed textures of Direct3D 12 have whole blocks.
        true => Some(TextureDesc { format, width: 16, height: 16, ..shape }),
        false if format.is_depth_stencil() && shape.dimension != Dimension::D2 => None,
        false => Some(TextureDesc { format, ..shape }),
    };
    let make = |format: Format| {
        let usage = if format.is_depth_stencil() { TextureUsage::DEPTH_STENCIL } else { TextureUsage::empty() };
        let desc = desc(format)?;
        let picture = Picture::new(desc, aspect, |_, _, size| vec![0; size]);
        Some(Subject { texture: texture(rig, desc, usage)?, picture })
    };
    Some([make(formats[0])?, make(formats[1])?])
}

/// Returns new texels. Depth is from 0 to 1.
fn texels(picture: &Picture, size: usize, dice: &mut Rng) -> Vec<u8> {
    let mut bytes = pattern(dice.below(1 << 40), size);
    if picture.aspect == TextureAspect::Depth {
        let depth = |texel: &mut [u8]| {
            texel.copy_from_slice(&(f32::from(texel[0]) / 256.0).to_le_bytes());
        };
        bytes.chunks_exact_mut(4).for_each(depth);
    }
    bytes
}

/// Returns the location of a box in the buffer, and the size of its rows, in bytes.
fn layout<G: Gpu>(rig: &Rig<G>, picture: &Picture, part: &TexelBox) -> (BufferTexels, [usize; 2])
where
    G::Device: TransferSupport,
{
    let [across, down, deep] = picture.blocks(part.extent());
    let alignment = rig.memory.device().texel_alignment(picture.desc().format.texels(), picture.aspect);
    let row = across * picture.block_bytes();
    let row_bytes = (row as u64).next_multiple_of(alignment.row);
    let layer_bytes = (row_bytes * (down * deep) as u64).next_multiple_of(alignment.offset);
    (BufferTexels { offset: alignment.offset, row_bytes, layer_bytes }, [row, down * deep])
}

/// Writes the bytes of a box through the buffer.
fn write<G: Gpu>(rig: &mut Rig<G>, buffer: &Buffer<G::Device>, subject: &mut Subject<G>, part: &TexelBox, bytes: &[u8])
where
    G::Device: TransferSupport,
{
    let (at, [row, rows]) = layout(rig, &subject.picture, part);
    let mut upload = rig.buffer(ROOM, Location::Upload, "upload");
    let mut padded = vec![0xee; ROOM as usize];
    for (index, bytes) in bytes.chunks_exact(row).enumerate() {
        let (layer, index) = (index / rows, index % rows);
        let first = (at.offset + layer as u64 * at.layer_bytes + index as u64 * at.row_bytes) as usize;
        padded[first..first + row].copy_from_slice(bytes);
    }
    upload.write(0, &padded).expect("it is mapped");
    run(rig, |commands| {
        commands.copy_buffer((&upload, 0), (buffer, 0), ROOM)?;
        commands.copy_buffer_to_box(buffer, at, &subject.texture, part)
    });
    subject.picture.paste(part, bytes);
}

/// Reads the bytes of a box through the buffer, and compares them.
fn read<G: Gpu>(rig: &mut Rig<G>, buffer: &Buffer<G::Device>, subject: &mut Subject<G>, part: &TexelBox)
where
    G::Device: TransferSupport,
{
    let (at, [row, rows]) = layout(rig, &subject.picture, part);
    run(rig, |commands| {
        commands.fill_buffer(buffer, 0..ROOM, 0xcdcd_cdcd)?;
        commands.copy_box_to_buffer(&subject.texture, part, buffer, at)
    });
    let found = rig.download(buffer, ROOM);
    for (index, expected) in subject.picture.cut(part).chunks_exact(row).enumerate() {
        let (layer, index) = (index / rows, index % rows);
        let first = (at.offset + layer as u64 * at.layer_bytes + index as u64 * at.row_bytes) as usize;
        assert_eq!(found[first..first + row], *expected, "row {index} of layer {layer} of {part:?}");
    }
    assert!(found[..at.offset as usize].iter().all(|byte| *byte == 0xcd), "bytes before the texels");
}

pub(super) fn fill<G: Gpu>(rig: &mut Rig<G>, buffer: &Buffer<G::Device>, subject: &mut Subject<G>, dice: &mut Rng)
where
    G::Device: TransferSupport,
{
    for mip in 0..subject.picture.desc().mips {
        let part = subject.picture.whole(mip);
        let size = subject.picture.cut(&part).len();
        let bytes = texels(&subject.picture, size, dice);
        write(rig, buffer, subject, &part, &bytes);
    }
}

/// Returns a range of whole blocks of an axis with `size` texels: the first texel, and the number of texels.
fn span(dice: &mut Rng, size: u32, block: u32) -> (u32, u32) {
    let blocks = size.div_ceil(block);
    let first = dice.below(blocks.into()) as u32;
    let count = 1 + dice.below((blocks - first).into()) as u32;
    (first * block, (count * block).min(size - first * block))
}

/// Returns a random box. If `is_partial` is `false`, it is a whole mip level of some layers.
pub(super) fn any_box(dice: &mut Rng, picture: &Picture, is_partial: bool) -> TexelBox {
    let desc = picture.desc();
    let whole = picture.whole(dice.below(desc.mips.into()) as u32);
    let [across, down] = desc.format.texels().block();
    let (layer, layers) = span(dice, desc.layers, 1);
    if !is_partial {
        return TexelBox { layer, layers, ..whole };
    }
    let ((x, width), (y, height), (z, depth)) =
        (span(dice, whole.width, across), span(dice, whole.height, down), span(dice, whole.depth, 1));
    TexelBox { layer, layers, x, y, z, width, height, depth, ..whole }
}

/// Returns a place for the box in a picture of the same shape; `None` if it has none in the selected mip level.
fn any_place(dice: &mut Rng, picture: &Picture, part: &TexelBox) -> Option<TexelOrigin> {
    let (desc, mip) = (picture.desc(), dice.below(picture.desc().mips.into()) as u32);
    let [across, down] = desc.format.texels().block();
    let place = |dice: &mut Rng, size: u32, count: u32, block: u32| {
        let room = size.checked_sub(count)? / block;
        Some(dice.below(u64::from(room) + 1) as u32 * block)
    };
    let [width, height, depth] = picture.extent(mip);
    let (x, y) = (place(dice, width, part.width, across)?, place(dice, height, part.height, down)?);
    let z = place(dice, depth, part.depth, 1)?;
    let layer = dice.below(u64::from(desc.layers - part.layers) + 1) as u32;
    // Blocks end at the edge in both mip levels, or in none.
    let ends = |first: u32, count: u32, size: u32, block: u32| count.is_multiple_of(block) || first + count == size;
    (ends(x, part.width, width, across) && ends(y, part.height, height, down)).then_some(TexelOrigin {
        mip,
        layer,
        x,
        y,
        z,
    })
}

fn step<G: Gpu>(rig: &mut Rig<G>, pair: &mut [Subject<G>; 2], buffer: &Buffer<G::Device>, dice: &mut Rng)
where
    G::Device: TransferSupport,
{
    let is_color = pair[0].picture.aspect == TextureAspect::Color;
    let is_partial = is_color || rig.memory.device().capabilities().partial_depth_copies;
    let (from, to) = (dice.below(2) as usize, dice.below(2) as usize);
    let part = any_box(dice, &pair[from].picture, is_partial);
    match dice.below(4) {
        0 => {
            let size = pair[from].picture.cut(&part).len();
            let bytes = texels(&pair[from].picture, size, dice);
            write(rig, buffer, &mut pair[from], &part, &bytes);
        }
        1 => read(rig, buffer, &mut pair[from], &part),
        _ => copy(rig, pair, (from, part), to, dice, is_partial),
    }
}

fn copy<G: Gpu>(
    rig: &mut Rig<G>,
    pair: &mut [Subject<G>; 2],
    (from, part): (usize, TexelBox),
    to: usize,
    dice: &mut Rng,
    is_partial: bool,
) where
    G::Device: TransferSupport,
{
    let Some(place) = any_place(dice, &pair[to].picture, &part) else { return };
    let is_whole = part.extent() == pair[to].picture.extent(place.mip);
    let first = part.layer.max(place.layer);
    let overlaps = first < part.layer + part.layers && first < place.layer + part.layers;
    if (from == to && part.mip == place.mip && overlaps) || !(is_partial || is_whole) {
        return;
    }
    run(rig, |commands| commands.copy_box(&pair[from].texture, &part, &pair[to].texture, place));
    let bytes = pair[from].picture.cut(&part);
    let TexelOrigin { mip, layer, x, y, z } = place;
    pair[to].picture.paste(&TexelBox { mip, layer, x, y, z, ..part }, &bytes);
}
