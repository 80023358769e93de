//! The recorded commands and the refusals at both sides of each limit, as tables with the expected numbers.

use ringfence::commands::{
    BufferTexels, CommandError as E, Commands, DepthStencil, ResolvedLayers, SubresourceRange, TexelOrigin,
};
use ringfence::device::record::{
    CopyRegion, Record, TexelRead, TexelRegion, TextureAspects, TextureCopy, TextureTarget,
};
use ringfence::device::transfer::{MipChain, TextureBoxCopy, TextureClear, TextureResolve, Transfer};
use ringfence::device::{
    BufferUsage, DeviceError, Dimension, Format, RawBuffer, RawTexture, TexelBox, TextureAspect, TextureDesc,
    TextureUsage,
};
use ringfence::sim::{Command, Device, Profile};
use ringfence::{Buffer, Location, Texture};

use super::program::{Program, desc};

type Image = RawTexture<Device>;
type Bytes = RawBuffer<Device>;

const COPIES: TextureUsage = TextureUsage::COPY_SRC.union(TextureUsage::COPY_DST);

/// A recorder that keeps the arguments of each call.
#[derive(Default)]
struct Calls {
    fills: Vec<(u64, u64, u32)>,
    regions: Vec<CopyRegion>,
    targets: Vec<TextureTarget<Image>>,
    texels: Vec<TexelRegion>,
    reads: Vec<TexelRead<Image, Bytes>>,
    clears: Vec<TextureClear<Image>>,
    boxes: Vec<TextureBoxCopy<Image>>,
    resolves: Vec<TextureResolve<Image>>,
    chains: Vec<MipChain<Image>>,
}

impl Record<Device> for Calls {
    unsafe fn begin_copies(&mut self, _: &[Bytes], _: &[TextureTarget<Image>]) {}

    unsafe fn copy_buffer(&mut self, _: &Bytes, _: &Bytes, regions: &[CopyRegion]) {
        self.regions.extend(regions);
    }

    unsafe fn copy_buffer_to_texture(&mut self, _: &Bytes, _: &Image, region: &TexelRegion) {
        self.texels.push(*region);
    }

    unsafe fn read_texels(&mut self, reads: &[TexelRead<Image, Bytes>]) {
        self.reads.extend(reads);
    }

    unsafe fn copy_textures(&mut self, _: &[TextureCopy<Image>]) {}

    unsafe fn end_copies(&mut self, _: &[Bytes], textures: &[TextureTarget<Image>]) {
        self.targets.extend(textures);
    }
}

impl Transfer<Device> for Calls {
    unsafe fn fill_buffer(&mut self, _: &Bytes, offset: u64, size: u64, value: u32) -> Result<(), DeviceError> {
        self.fills.push((offset, size, value));
        Ok(())
    }

    unsafe fn clear_texture(&mut self, clear: &TextureClear<Image>) -> Result<(), DeviceError> {
        self.clears.push(*clear);
        Ok(())
    }

    unsafe fn copy_box_to_buffer(&mut self, reads: &[TexelRead<Image, Bytes>]) {
        self.reads.extend(reads);
    }

    unsafe fn copy_texture_box(&mut self, copy: &TextureBoxCopy<Image>) {
        self.boxes.push(*copy);
    }

    unsafe fn resolve_texture(&mut self, resolve: &TextureResolve<Image>) {
        self.resolves.push(*resolve);
    }

    unsafe fn blit_mips(&mut self, chain: &MipChain<Image>) -> Result<(), DeviceError> {
        self.chains.push(*chain);
        Ok(())
    }
}

/// Returns the calls of commands, which are not submitted.
fn calls(program: &Program, work: impl FnOnce(&mut Commands<'_, Device, Calls>) -> Result<(), E>) -> Calls {
    let (frame, mut calls) = (program.timeline.begin(), Calls::default());
    // SAFETY: nothing is submitted.
    let mut commands = unsafe { Commands::new(&program.memory, &frame, &mut calls) }.expect("its own frame");
    work(&mut commands).expect("the command is valid");
    frame.discard();
    calls
}

fn program() -> Program {
    Program::new(Profile::h200(), 1)
}

fn texture(program: &Program, format: Format, of: TextureDesc) -> Texture<Device> {
    let usage = if format.is_depth_stencil() { TextureUsage::DEPTH_STENCIL } else { TextureUsage::SAMPLED };
    program.texture(TextureDesc { format, usage: COPIES | usage, ..of })
}

fn whole(texture: &Texture<Device>, mip: u32) -> TexelBox {
    TexelBox::mip(texture.parts().expect("a texture"), mip)
}

/// Returns the numbers of a refusal: the name, the given number, and the limit.
fn numbers(error: &E) -> (&'static str, u64, u64) {
    match *error {
        E::Pitch { what, given, needed } => (what, given, needed),
        E::Unaligned { what, given, alignment } => (what, given, alignment),
        _ => panic!("{error}"),
    }
}

/// Copies to and from a box of the texture.
fn both_ways(
    program: &Program,
    buffer: &Buffer<Device>,
    layout: BufferTexels,
    texture: &Texture<Device>,
    texels: &TexelBox,
) -> Result<(), E> {
    let (frame, _, result) = program.record(|commands| {
        let into = commands.copy_buffer_to_box(buffer, layout, texture, texels);
        let from = commands.copy_box_to_buffer(texture, texels, buffer, layout);
        assert_eq!(into.is_ok(), from.is_ok(), "the layout has the same rules in both directions");
        into
    });
    frame.discard();
    result
}

#[test]
fn rows_and_layers_need_the_bytes_of_their_blocks() {
    let program = program();
    let buffer = program.device_buffer(16 << 10);
    let flat = desc();
    let volume = TextureDesc { dimension: Dimension::D3, depth: 4, layers: 1, ..desc() };
    // The box has 16 × 8 texels. The last three numbers: bytes of a row, of a layer, and of the step below.
    for (format, aspect, of, extent, row, layer, step) in [
        (Format::R8Unorm, TextureAspect::Color, flat, [16, 8, 1], 16_u64, 128_u64, 1_u64),
        (Format::R8Unorm, TextureAspect::Color, flat, [13, 3, 1], 13, 39, 1),
        (Format::Rgba8Unorm, TextureAspect::Color, flat, [16, 8, 1], 64, 512, 4),
        (Format::Rgba8Unorm, TextureAspect::Color, flat, [5, 1, 1], 20, 20, 4),
        (Format::Rgba16Float, TextureAspect::Color, flat, [16, 8, 1], 128, 1024, 8),
        (Format::Rgba32Float, TextureAspect::Color, flat, [1, 1, 1], 16, 16, 16),
        (Format::Bc1Unorm, TextureAspect::Color, flat, [16, 8, 1], 32, 64, 8),
        (Format::Bc1Unorm, TextureAspect::Color, flat, [8, 4, 1], 16, 16, 8),
        (Format::Bc7Unorm, TextureAspect::Color, flat, [16, 8, 1], 64, 128, 16),
        (Format::D24UnormS8Uint, TextureAspect::Depth, flat, [16, 8, 1], 64, 512, 4),
        (Format::D24UnormS8Uint, TextureAspect::Stencil, flat, [16, 8, 1], 16, 128, 1),
        (Format::Rgba8Unorm, TextureAspect::Color, volume, [16, 8, 4], 64, 2048, 4),
        (Format::Rgba8Unorm, TextureAspect::Color, volume, [4, 2, 3], 16, 96, 4),
    ] {
        let texture = texture(&program, format, of);
        let [width, height, depth] = extent;
        let first = TexelBox { aspect, width, height, depth, layers: 1, ..whole(&texture, 0) };
        let layout = BufferTexels { offset: 0, row_bytes: row, layer_bytes: 3 };
        let copy = |layout, texels: &TexelBox| both_ways(&program, &buffer, layout, &texture, texels);
        copy(layout, &first).expect("the pitch of layers is not used for one layer");
        copy(BufferTexels { row_bytes: row + step, ..layout }, &first).expect("rows may have a gap");
        let refused = copy(BufferTexels { row_bytes: row - step, ..layout }, &first).expect_err("rows overlap");
        assert_eq!(numbers(&refused), ("a row pitch", row - step, row), "{format:?} {extent:?}");
        if of.layers == 1 {
            continue;
        }
        let both = TexelBox { layers: 2, ..first };
        let layer_step = if step < 4 { 4 } else { step };
        let layer_bytes = layer.next_multiple_of(layer_step);
        let fits = BufferTexels { layer_bytes, ..layout };
        copy(fits, &both).expect("the layers touch");
        let below = BufferTexels { layer_bytes: layer_bytes - layer_step, ..layout };
        let refused = copy(below, &both).expect_err("layers overlap");
        assert_eq!(numbers(&refused), ("a layer pitch", layer_bytes - layer_step, layer), "{format:?} {extent:?}");
    }
}

#[test]
fn offsets_and_pitches_are_multiples_of_blocks_and_offsets_of_words() {
    let program = program();
    let buffer = program.device_buffer(16 << 10);
    for (format, offset_alignment, row_alignment) in [
        (Format::R8Unorm, 4, 1),
        (Format::R16Unorm, 4, 2),
        (Format::Rgba8Unorm, 4, 4),
        (Format::Rgba16Float, 8, 8),
        (Format::Bc1Unorm, 8, 8),
        (Format::Bc7Unorm, 16, 16),
    ] {
        let texture = texture(&program, format, desc());
        let texels = whole(&texture, 0);
        let good = BufferTexels { offset: 3 * offset_alignment, row_bytes: 129 * row_alignment, layer_bytes: 8192 };
        let copy = |layout| both_ways(&program, &buffer, layout, &texture, &texels);
        // The rows of the largest block fit into 16 KiB.
        copy(good).expect("multiples");
        let refused = copy(BufferTexels { offset: good.offset + 2, ..good }).expect_err("half a word");
        assert_eq!(numbers(&refused), ("an offset of texels", good.offset + 2, offset_alignment), "{format:?}");
        if row_alignment > 1 {
            let refused = copy(BufferTexels { row_bytes: good.row_bytes + 1, ..good }).expect_err("part of a block");
            assert_eq!(numbers(&refused), ("a row pitch", good.row_bytes + 1, row_alignment), "{format:?}");
        }
        let refused = copy(BufferTexels { layer_bytes: 8194, ..good }).expect_err("half a word");
        assert_eq!(numbers(&refused), ("a layer pitch", 8194, offset_alignment), "{format:?}");
    }
}

#[test]
fn texels_end_inside_the_buffer() {
    let program = program();
    let (texture, buffer) = (texture(&program, Format::Rgba8Unorm, desc()), program.device_buffer(2048));
    // Seven rows of 128 bytes and one of 64, in two layers 1024 bytes apart: 1984 bytes.
    let fits = BufferTexels { offset: 64, row_bytes: 128, layer_bytes: 1024 };
    let texels = whole(&texture, 0);
    both_ways(&program, &buffer, fits, &texture, &texels).expect("the last byte is the last of the buffer");
    let far = BufferTexels { offset: 68, ..fits };
    let refused = both_ways(&program, &buffer, far, &texture, &texels).expect_err("four bytes too far");
    assert!(matches!(refused, E::BufferRange { offset: 68, size: 1984, buffer_size: 2048 }), "{refused}");
    let wide = BufferTexels { offset: 64, row_bytes: 132, ..fits };
    let refused = both_ways(&program, &buffer, wide, &texture, &texels).expect_err("28 bytes too far");
    assert!(matches!(refused, E::BufferRange { offset: 64, size: 2012, buffer_size: 2048 }), "{refused}");
    // Four slices of eight rows follow each other without a gap.
    let of = TextureDesc { dimension: Dimension::D3, depth: 4, layers: 1, ..desc() };
    let volume = self::texture(&program, Format::Rgba8Unorm, of);
    let texels = whole(&volume, 0);
    let tight = BufferTexels { offset: 0, row_bytes: 64, layer_bytes: 0 };
    both_ways(&program, &buffer, tight, &volume, &texels).expect("all bytes of the buffer");
    let far = BufferTexels { offset: 4, ..tight };
    let refused = both_ways(&program, &buffer, far, &volume, &texels).expect_err("four bytes too far");
    assert!(matches!(refused, E::BufferRange { offset: 4, size: 2048, buffer_size: 2048 }), "{refused}");
}

#[test]
fn each_layer_of_a_box_has_its_own_region_of_the_buffer() {
    let program = program();
    let (texture, buffer) = (texture(&program, Format::Rgba8Unorm, desc()), program.device_buffer(4096));
    let texels = TexelBox { x: 4, y: 2, width: 8, height: 4, ..whole(&texture, 0) };
    let layout = BufferTexels { offset: 64, row_bytes: 40, layer_bytes: 300 };
    let region = |buffer_offset, layer| TexelRegion {
        buffer_offset,
        row_bytes: 40,
        format: Format::Rgba8Unorm.texels(),
        aspect: TextureAspect::Color,
        mip: 0,
        layer,
        x: 4,
        y: 2,
        z: 0,
        width: 8,
        height: 4,
        depth: 1,
    };
    let expected = [region(64, 0), region(364, 1)];
    let into = calls(&program, |commands| commands.copy_buffer_to_box(&buffer, layout, &texture, &texels));
    assert_eq!(into.texels, expected);
    let from = calls(&program, |commands| commands.copy_box_to_buffer(&texture, &texels, &buffer, layout));
    assert_eq!(from.reads.iter().map(|read| read.region).collect::<Vec<_>>(), expected);
    assert!(from.reads.iter().all(|read| read.src == *texture.object() && read.dst == *buffer.object()));
    let second = TexelBox { layer: 1, layers: 1, ..texels };
    let into = calls(&program, |commands| commands.copy_buffer_to_box(&buffer, layout, &texture, &second));
    assert_eq!(into.texels, [region(64, 1)]);
}

#[test]
fn contents_are_discarded_only_if_every_texel_of_every_aspect_is_overwritten() {
    let program = program();
    let buffer = program.device_buffer(4096);
    let color = texture(&program, Format::Rgba8Unorm, desc());
    let both = texture(&program, Format::D24UnormS8Uint, desc());
    let all = whole(&color, 0);
    for (texture, texels, discard) in [
        (&color, all, true),
        (&color, whole(&color, 2), true),
        (&color, TexelBox { layers: 1, ..all }, true),
        (&color, TexelBox { width: 12, ..all }, false),
        (&color, TexelBox { x: 4, width: 12, ..all }, false),
        (&color, TexelBox { height: 4, ..all }, false),
        (&color, TexelBox { y: 4, height: 4, ..all }, false),
        (&both, whole(&both, 0), false),
    ] {
        let layout = BufferTexels { offset: 0, row_bytes: 64, layer_bytes: 512 };
        let into = calls(&program, |commands| commands.copy_buffer_to_box(&buffer, layout, texture, &texels));
        let found: Vec<_> = into.targets.iter().map(|target| (target.mip, target.layer, target.discard)).collect();
        let expected: Vec<_> = (0..texels.layers).map(|layer| (texels.mip, layer, discard)).collect();
        assert_eq!(found, expected, "{texels:?}");
        let copy_to = self::texture(&program, texture.desc().expect("a portable one").format, desc());
        let TexelBox { mip, layer, x, y, z, .. } = texels;
        let to = TexelOrigin { mip, layer, x, y, z };
        let copied = calls(&program, |commands| commands.copy_box(texture, &texels, &copy_to, to));
        assert_eq!(copied.boxes.iter().map(|copy| copy.discard).collect::<Vec<_>>(), [discard], "{texels:?}");
    }
}

#[test]
fn a_copy_between_textures_has_both_origins_the_aspect_and_the_extent() {
    let program = program();
    let [src, dst] = [(); 2].map(|()| texture(&program, Format::D24UnormS8Uint, TextureDesc { layers: 4, ..desc() }));
    let stencil = TextureAspect::Stencil;
    let part = TexelBox { aspect: stencil, layer: 1, layers: 2, x: 1, y: 2, width: 5, height: 3, ..whole(&src, 0) };
    let to = TexelOrigin { mip: 1, layer: 2, x: 3, y: 1, z: 0 };
    let copied = calls(&program, |commands| commands.copy_box(&src, &part, &dst, to));
    let expected = TextureBoxCopy {
        src: *src.object(),
        from: TexelOrigin { mip: 0, layer: 1, x: 1, y: 2, z: 0 },
        dst: *dst.object(),
        to,
        aspect: stencil,
        aspects: TextureAspects::DEPTH | TextureAspects::STENCIL,
        format: Format::D24UnormS8Uint.texels(),
        extent: [5, 3, 1],
        layers: 2,
        discard: false,
    };
    assert_eq!(copied.boxes, [expected]);
}

#[test]
fn layers_of_one_texture_are_copied_if_they_are_apart_or_of_other_mips() {
    let program = program();
    let texture = program.texture(TextureDesc { layers: 6, ..desc() });
    let other = program.texture(TextureDesc { layers: 6, ..desc() });
    let small = TexelBox { width: 4, height: 2, ..whole(&texture, 0) };
    // The first layer, the number of layers, the mip level and the layer of the destination, the common layer.
    for (layer, layers, mip, to, common) in [
        (0, 2, 0, 2, None),
        (2, 2, 0, 0, None),
        (0, 3, 0, 3, None),
        (3, 3, 0, 0, None),
        (5, 1, 0, 4, None),
        (0, 2, 0, 1, Some(1)),
        (1, 2, 0, 0, Some(1)),
        (0, 3, 0, 2, Some(2)),
        (2, 3, 0, 0, Some(2)),
        (4, 1, 0, 4, Some(4)),
        (0, 2, 1, 1, None),
        (0, 6, 1, 0, None),
    ] {
        let part = TexelBox { layer, layers, ..small };
        let to = TexelOrigin { mip, layer: to, x: 4, y: 0, z: 0 };
        let (frame, _, within) = program.record(|commands| commands.copy_box(&texture, &part, &texture, to));
        frame.discard();
        match (within, common) {
            (Ok(()), None) => {}
            (Err(E::SameSubresource { mip: 0, layer }), Some(common)) if layer == common => {}
            (within, _) => panic!("{part:?} to {to:?}: {within:?}"),
        }
        let apart = calls(&program, |commands| commands.copy_box(&texture, &part, &other, to));
        assert_eq!(apart.boxes.len(), 1, "another texture has no common subresource");
    }
}

#[test]
fn a_fill_without_the_command_is_copies_of_at_most_64_kib() {
    let program = Program::new(Profile::d3d12_tier1(), 1);
    let buffer = program.device_buffer(1 << 20);
    for (range, expected) in [
        (8..12, &[(8, 4)][..]),
        (16..65_552, &[(16, 65_536)]),
        (16..65_556, &[(16, 65_536), (65_552, 4)]),
        (0..196_608, &[(0, 65_536), (65_536, 65_536), (131_072, 65_536)]),
        (4..131_080, &[(4, 65_536), (65_540, 65_536), (131_076, 4)]),
    ] {
        let filled = calls(&program, |commands| commands.fill_buffer(&buffer, range.clone(), 7));
        assert!(filled.regions.iter().all(|region| region.src_offset == 0));
        let found: Vec<_> = filled.regions.iter().map(|region| (region.dst_offset, region.size)).collect();
        assert_eq!(found, expected, "{range:?}");
    }
    program.run(|commands| commands.fill_buffer(&buffer, 0..1 << 20, 0));
    program.run(|commands| commands.fill_buffer(&buffer, 4..131_080, 0x0403_0201));
    let bytes = program.peek(&buffer);
    assert_eq!([&bytes[..4], &bytes[131_080..131_084]], [[0; 4]; 2]);
    assert!(bytes[4..131_080].chunks(4).all(|word| word == [1, 2, 3, 4]));
    let program = self::program();
    let buffer = program.device_buffer(1 << 20);
    let filled = calls(&program, |commands| commands.fill_buffer(&buffer, 4..131_080, 9));
    assert_eq!((filled.fills, filled.regions.len()), (vec![(4, 131_076, 9)], 0), "the device has the command");
}

#[test]
fn a_clear_discards_the_contents_if_it_writes_every_aspect() {
    let program = program();
    let color = texture(&program, Format::Rgba8Unorm, desc());
    let [both, depth, stencil] =
        [Format::D24UnormS8Uint, Format::D32Float, Format::S8Uint].map(|format| texture(&program, format, desc()));
    let range = SubresourceRange { mip: 1, mips: 2, layer: 1, layers: 1 };
    for (texture, value, discard) in [
        (&both, DepthStencil::both(0.5, 3), true),
        (&both, DepthStencil::depth(1.0), false),
        (&both, DepthStencil::stencil(3), false),
        (&depth, DepthStencil::depth(0.0), true),
        (&stencil, DepthStencil::stencil(255), true),
    ] {
        let cleared = calls(&program, |commands| commands.clear_depth_stencil(texture, range, value));
        let [clear] = cleared.clears[..] else { panic!("one clear") };
        assert_eq!((clear.discard, clear.range, clear.texture), (discard, range, *texture.object()), "{value:?}");
    }
    let cleared = calls(&program, |commands| commands.clear_color(&color, range, [1.0_f32; 4]));
    assert_eq!(cleared.clears.iter().map(|clear| (clear.discard, clear.range)).collect::<Vec<_>>(), [(true, range)]);
    assert_eq!(DepthStencil::default(), DepthStencil { depth: None, stencil: None });
    assert_eq!(DepthStencil::both(0.5, 3), DepthStencil { depth: Some(0.5), stencil: Some(3) });
}

#[test]
fn subresources_up_to_the_last_one_are_cleared() {
    let program = program();
    let texture = texture(&program, Format::Rgba8Unorm, desc());
    for (mip, mips, layer, layers, is_inside) in [
        (0, 3, 0, 2, true),
        (2, 1, 1, 1, true),
        (1, 2, 1, 1, true),
        (0, 4, 0, 2, false),
        (2, 2, 0, 1, false),
        (3, 1, 0, 1, false),
        (u32::MAX, 1, 0, 1, false),
        (0, 1, 0, 3, false),
        (0, 1, 1, 2, false),
        (0, 1, 2, 1, false),
        (0, 0, 0, 1, false),
        (0, 1, 0, 0, false),
    ] {
        let range = SubresourceRange { mip, mips, layer, layers };
        let (frame, _, found) = program.record(|commands| commands.clear_color(&texture, range, [0.0_f32; 4]));
        frame.discard();
        match (found, is_inside) {
            (Ok(()), true) => {}
            (Err(E::Subresources { range: refused, mips: 3, layers: 2 }), false) if refused == range => {}
            (found, _) => panic!("{range:?}: {found:?}"),
        }
    }
}

#[test]
fn depths_from_zero_to_one_are_cleared_to() {
    let program = program();
    let texture = texture(&program, Format::D32Float, desc());
    for (depth, is_valid) in
        [(0.0, true), (0.5, true), (1.0, true), (-f32::MIN_POSITIVE, false), (1.000_000_1, false), (f32::NAN, false)]
    {
        let (range, value) = (SubresourceRange::one(0, 0), DepthStencil::depth(depth));
        let (frame, _, found) = program.record(|commands| commands.clear_depth_stencil(&texture, range, value));
        frame.discard();
        assert_eq!(found.is_ok(), is_valid, "{depth}");
    }
}

#[test]
fn ranges_of_buffers_end_at_the_last_byte() {
    let program = program();
    let [one, two] = [(); 2].map(|()| program.device_buffer(64));
    for (src, dst, size, refused) in [
        (0, 0, 64, None),
        (63, 0, 1, None),
        (0, 63, 1, None),
        (16, 32, 32, None),
        (0, 0, 65, Some((0, 65))),
        (64, 0, 1, Some((64, 1))),
        (0, 33, 32, Some((33, 32))),
        (0, 0, 0, Some((0, 0))),
        (0, u64::MAX, 1, Some((u64::MAX, 1))),
    ] {
        let (frame, _, found) = program.record(|commands| commands.copy_buffer((&one, src), (&two, dst), size));
        frame.discard();
        match (found, refused) {
            (Ok(()), None) => {}
            (Err(E::BufferRange { offset, size, buffer_size: 64 }), Some(numbers)) if (offset, size) == numbers => {}
            (found, _) => panic!("{size} bytes from {src} to {dst}: {found:?}"),
        }
    }
    let copied = calls(&program, |commands| commands.copy_buffer((&one, 16), (&two, 32), 24));
    assert_eq!(copied.regions, [CopyRegion { src_offset: 16, dst_offset: 32, size: 24 }]);
}

#[test]
fn locations_that_the_device_cannot_reach_are_refused_in_one_direction() {
    let program = program();
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let device = program.device_buffer(64);
    let upload = program.buffer(64, BufferUsage::COPY_SRC | BufferUsage::COPY_DST, Location::Upload);
    let readback = program.buffer(64, usage, Location::Readback);
    calls(&program, |commands| commands.copy_buffer((&upload, 0), (&device, 0), 64));
    calls(&program, |commands| commands.copy_buffer((&device, 0), (&readback, 0), 64));
    calls(&program, |commands| commands.copy_buffer((&upload, 0), (&readback, 0), 64));
    let refused = program.refused(|commands| commands.copy_buffer((&device, 0), (&upload, 0), 64));
    let command = "copy_buffer";
    let is_it = |error: &E, verb: &str, location: Location| {
        matches!(error, E::Location { command: found, verb: said, location: at }
            if *found == command && *said == verb && *at == location)
    };
    assert!(is_it(&refused, "writes", Location::Upload), "{refused}");
    let refused = program.refused(|commands| commands.copy_buffer((&readback, 0), (&device, 0), 64));
    assert!(is_it(&refused, "reads", Location::Readback), "{refused}");
}

#[test]
fn a_resolve_has_its_layers_and_the_size_of_its_mip_level() {
    let first = ResolvedLayers { src_layer: 0, dst_mip: 0, dst_layer: 0, layers: 1 };
    assert_eq!(ResolvedLayers::default(), first);
    let program = program();
    let many = program.texture(TextureDesc { mips: 1, samples: 4, layers: 3, ..desc() });
    let one = program.texture(TextureDesc { width: 32, height: 16, mips: 4, layers: 4, ..desc() });
    let at = ResolvedLayers { src_layer: 1, dst_mip: 1, dst_layer: 2, layers: 2 };
    let resolved = calls(&program, |commands| commands.resolve(&many, &one, at));
    let expected = TextureResolve {
        src: *many.object(),
        src_layer: 1,
        dst: *one.object(),
        dst_mip: 1,
        dst_layer: 2,
        layers: 2,
        extent: [16, 8],
        format: Format::Rgba8Unorm,
    };
    assert_eq!(resolved.resolves, [expected]);
    for (at, mips, layers) in [
        (ResolvedLayers { src_layer: 2, ..at }, 1, 3),
        (ResolvedLayers { dst_layer: 3, ..at }, 4, 4),
        (ResolvedLayers { layers: 3, ..at }, 1, 3),
        (ResolvedLayers { dst_mip: 4, ..at }, 4, 4),
    ] {
        let refused = program.refused(|commands| commands.resolve(&many, &one, at));
        let is_it = |found: [u32; 2]| found == [mips, layers];
        assert!(matches!(refused, E::Subresources { mips, layers, .. } if is_it([mips, layers])), "{at:?}: {refused}");
    }
}

#[test]
fn mips_are_made_if_there_are_at_least_two_levels() {
    let program = program();
    for (mips, count) in [(1, 0), (2, 1), (3, 1), (5, 1)] {
        let texture = program.texture(TextureDesc { mips, ..desc() });
        let made = calls(&program, |commands| commands.generate_mips(&texture));
        assert_eq!(made.chains.len(), count, "{mips} mip levels");
        assert!(made.chains.iter().all(|chain| chain.parts.mips == mips && chain.texture == *texture.object()));
    }
}

#[test]
fn swapped_mips_are_copied_aspect_by_aspect_and_the_first_copy_discards() {
    let program = program();
    let of = |width, height, mips| {
        let usage = COPIES | TextureUsage::DEPTH_STENCIL;
        TextureDesc { width, height, mips, layers: 2, format: Format::D24UnormS8Uint, usage, ..Default::default() }
    };
    let mut texture = program.texture(of(16, 8, 3));
    let swapped = calls(&program, |commands| {
        let to_fill = commands.swap_mips(&mut texture, &of(32, 16, 4), Default::default())?;
        assert_eq!(to_fill, [0], "the mip that the old texture lacked");
        Ok(())
    });
    let found: Vec<_> = swapped
        .boxes
        .iter()
        .map(|copy| (copy.from.mip, copy.to.mip, copy.aspect, copy.extent, copy.layers, copy.discard))
        .collect();
    let (depth, stencil) = (TextureAspect::Depth, TextureAspect::Stencil);
    let expected = [
        (0, 1, depth, [16, 8, 1], 2, true),
        (0, 1, stencil, [16, 8, 1], 2, false),
        (1, 2, depth, [8, 4, 1], 2, true),
        (1, 2, stencil, [8, 4, 1], 2, false),
        (2, 3, depth, [4, 2, 1], 2, true),
        (2, 3, stencil, [4, 2, 1], 2, false),
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_list_of_a_fill_is_one_command_between_barriers() {
    let program = program();
    let buffer = program.device_buffer(64);
    let (frame, list, result) = program.record(|commands| commands.fill_buffer(&buffer, 4..12, 5));
    result.expect("the command is valid");
    frame.discard();
    let is_fill = |command: &Command| matches!(command, Command::FillWords { offset: 4, size: 8, value: 5, .. });
    assert_eq!(list.iter().filter(|command| is_fill(command)).count(), 1, "{list:?}");
    assert!(list.len() == 3 && is_fill(&list[1]), "{list:?}");
}
