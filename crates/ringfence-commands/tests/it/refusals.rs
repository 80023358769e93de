//! Each refusal, with its numbers.

use ringfence::commands::{
    BufferTexels, ClearColor, CommandError as E, Commands, DepthStencil, ResolvedLayers, SubresourceRange, TexelOrigin,
};
use ringfence::device::{
    BufferUsage, Dimension, Format, TexelBox, TexelError, TextureAspect, TextureDesc, TextureUsage,
};
use ringfence::sim::{Device, Profile};
use ringfence::{Location, Texture};

use super::program::{Program, desc};

const COPIES: TextureUsage = TextureUsage::COPY_SRC.union(TextureUsage::COPY_DST);
const ALL: SubresourceRange = SubresourceRange { mip: 0, mips: 3, layer: 0, layers: 2 };
const BLACK: [f32; 4] = [0.0; 4];

/// Checks that an expression is an error of this form.
macro_rules! assert_refused {
    ($refused:expr, $pattern:pat $(if $guard:expr)?) => {
        let refused = $refused;
        assert!(matches!(refused, $pattern $(if $guard)?), "{refused}");
    };
}

fn program() -> Program {
    Program::new(Profile::h200(), 1)
}

fn of(program: &Program, format: Format) -> Texture<Device> {
    let usage = if format.is_depth_stencil() { TextureUsage::DEPTH_STENCIL } else { TextureUsage::SAMPLED };
    program.texture(TextureDesc { format, usage: COPIES | usage, ..desc() })
}

fn texels(texture: &Texture<Device>) -> TexelBox {
    TexelBox::mip(texture.parts().expect("a texture"), 0)
}

#[test]
fn foreign_frames_and_resources_are_refused_by_name() {
    let (program, other) = (program(), program());
    let (frame, mut list) = (other.timeline.begin(), Vec::new());
    // SAFETY: nothing is submitted.
    let foreign = unsafe { Commands::new(&program.memory, &frame, &mut list) }.expect_err("a foreign frame");
    assert_refused!(foreign, E::ForeignFrame { frame: point } if point == frame.point());
    let (buffer, texture) = (other.device_buffer(64), other.texture(desc()));
    let (own_buffer, own) = (program.device_buffer(64), program.texture(desc()));
    let refused = |kind, error: E| {
        let is_it = |named, owner, commands_owner| named == kind && owner != commands_owner;
        assert_refused!(error, E::Foreign { kind, owner, commands_owner } if is_it(kind, owner, commands_owner));
    };
    refused("buffer", program.refused(|commands| commands.fill_buffer(&buffer, 0..4, 0)));
    refused("buffer", program.refused(|commands| commands.copy_buffer((&own_buffer, 0), (&buffer, 0), 4)));
    refused("texture", program.refused(|commands| commands.clear_color(&texture, ALL, BLACK)));
    refused("texture", program.refused(|commands| commands.generate_mips(&texture)));
    let to = TexelOrigin { mip: 0, layer: 0, x: 0, y: 0, z: 0 };
    refused("texture", program.refused(|commands| commands.copy_box(&own, &texels(&own), &texture, to)));
    refused("texture", program.refused(|commands| commands.resolve(&texture, &own, ResolvedLayers::default())));
    frame.discard();
}

#[test]
fn ranges_usages_and_locations_of_buffers_are_checked() {
    let program = program();
    let buffer = program.device_buffer(64);
    for (range, offset, size) in [(60..68, 60, 8), (8..8, 8, 0), (u64::MAX - 3..u64::MAX, u64::MAX - 3, 3)] {
        let refused = program.refused(|commands| commands.fill_buffer(&buffer, range, 0));
        let is_it = |found: [u64; 3]| found == [offset, size, 64];
        assert_refused!(refused, E::BufferRange { offset, size, buffer_size } if is_it([offset, size, buffer_size]));
    }
    for (range, what) in [(2..6, "an offset"), (4..6, "a size")] {
        let refused = program.refused(|commands| commands.fill_buffer(&buffer, range, 0));
        assert_refused!(refused, E::Unaligned { what: found, given: 2, alignment: 4 } if found == what);
    }
    let same = program.refused(|commands| commands.copy_buffer((&buffer, 0), (&buffer, 32), 32));
    assert_refused!(same, E::SameBuffer { size: 32 });
    let [source, target] =
        [BufferUsage::COPY_SRC, BufferUsage::COPY_DST].map(|usage| program.buffer(64, usage, Location::Device));
    let refused = program.refused(|commands| commands.fill_buffer(&source, 0..4, 0));
    assert_refused!(refused, E::BufferUsage { needs: BufferUsage::COPY_DST, has: BufferUsage::COPY_SRC, .. });
    let refused = program.refused(|commands| commands.copy_buffer((&target, 0), (&buffer, 0), 4));
    assert_refused!(refused, E::BufferUsage { needs: BufferUsage::COPY_SRC, .. });
    let upload = program.buffer(64, BufferUsage::COPY_DST, Location::Upload);
    let refused = program.refused(|commands| commands.fill_buffer(&upload, 0..4, 0));
    assert_refused!(refused, E::Location { verb: "writes", location: Location::Upload, .. });
    let readback = program.buffer(64, BufferUsage::COPY_SRC, Location::Readback);
    let refused = program.refused(|commands| commands.copy_buffer((&readback, 0), (&buffer, 0), 4));
    assert_refused!(refused, E::Location { verb: "reads", location: Location::Readback, .. });
}

#[test]
fn clears_need_the_type_the_aspect_and_the_subresources() {
    let program = program();
    let (color, ints) = (of(&program, Format::Rgba8Unorm), of(&program, Format::Rgba8Uint));
    let (depth, both) = (of(&program, Format::D32Float), of(&program, Format::D24UnormS8Uint));
    let refused = |texture: &Texture<Device>, value: ClearColor| {
        program.refused(|commands| commands.clear_color(texture, ALL, value))
    };
    assert_refused!(refused(&ints, BLACK.into()), E::ColorType { format: Format::Rgba8Uint, .. });
    assert_refused!(refused(&color, [0_u32; 4].into()), E::ColorType { .. });
    assert_refused!(refused(&ints, [0_i32; 4].into()), E::ColorType { .. });
    assert_refused!(refused(&depth, BLACK.into()), E::Format { format: Format::D32Float, .. });
    assert_refused!(refused(&of(&program, Format::Bc1Unorm), BLACK.into()), E::Format { .. });
    assert_refused!(refused(&of(&program, Format::Rgb9e5Float), BLACK.into()), E::Device(_));
    for range in [
        SubresourceRange { mips: 4, ..ALL },
        SubresourceRange { mip: 3, ..ALL },
        SubresourceRange { mips: 0, ..ALL },
        SubresourceRange { layers: 0, ..ALL },
        SubresourceRange { layer: 1, ..ALL },
        SubresourceRange { layer: u32::MAX, ..ALL },
    ] {
        let refused = program.refused(|commands| commands.clear_color(&color, range, BLACK));
        assert_refused!(refused, E::Subresources { range: found, mips: 3, layers: 2 } if found == range);
    }
    let refused = |texture: &Texture<Device>, value| {
        program.refused(|commands| commands.clear_depth_stencil(texture, ALL, value))
    };
    assert_refused!(refused(&depth, DepthStencil::stencil(1)), E::Aspects { .. });
    assert_refused!(refused(&color, DepthStencil::depth(1.0)), E::Aspects { .. });
    assert_refused!(refused(&both, DepthStencil::default()), E::Aspects { .. });
    for wrong in [-0.5, 1.5, f32::NAN, f32::INFINITY] {
        assert_refused!(refused(&both, DepthStencil::both(wrong, 1)), E::Depth { .. });
    }
    let sampled = program.texture(TextureDesc { usage: TextureUsage::SAMPLED, ..desc() });
    let refused = program.refused(|commands| commands.clear_color(&sampled, ALL, BLACK));
    assert_refused!(refused, E::TextureUsage { needs: TextureUsage::COPY_DST, has: TextureUsage::SAMPLED, .. });
}

#[test]
fn boxes_must_fit_and_be_apart() {
    let program = program();
    let (one, wide) = (of(&program, Format::Rgba8Unorm), of(&program, Format::Rgba16Float));
    let (depth, other_depth) = (of(&program, Format::D32Float), of(&program, Format::D16Unorm));
    let at = |mip, layer, x| TexelOrigin { mip, layer, x, y: 0, z: 0 };
    let copy = |from: &Texture<Device>, part: &_, into: &Texture<Device>, to| {
        program.refused(|commands| commands.copy_box(from, part, into, to))
    };
    let whole = TexelBox { layers: 1, ..texels(&one) };
    assert_refused!(copy(&one, &whole, &wide, at(0, 0, 0)), E::Formats { dst: Format::Rgba16Float, .. });
    assert_refused!(copy(&one, &whole, &depth, at(0, 0, 0)), E::Texels(TexelError::NoAspect { .. }));
    let of_depth = TexelBox { layers: 1, ..texels(&depth) };
    assert_refused!(copy(&depth, &of_depth, &other_depth, at(0, 0, 0)), E::Formats { .. });
    assert_refused!(copy(&one, &whole, &one, at(1, 0, 0)), E::Texels(TexelError::Outside { .. }));
    assert_refused!(copy(&one, &whole, &one, at(0, 2, 0)), E::Texels(TexelError::NoLayers { .. }));
    assert_refused!(copy(&one, &whole, &one, at(3, 0, 0)), E::Texels(TexelError::NoMip { .. }));
    let part = TexelBox { width: 4, ..whole };
    assert_refused!(copy(&one, &part, &one, at(0, 0, 8)), E::SameSubresource { mip: 0, layer: 0 });
    let layers = TexelBox { layers: 2, ..part };
    let three = program.texture(TextureDesc { layers: 3, ..desc() });
    assert_refused!(copy(&three, &layers, &three, at(0, 1, 8)), E::SameSubresource { mip: 0, layer: 1 });
    let volume = program.texture(TextureDesc { dimension: Dimension::D3, layers: 1, ..desc() });
    let refused = copy(&one, &whole, &volume, at(0, 0, 0));
    assert_refused!(refused, E::Dimensions { src: Dimension::D2, dst: Dimension::D3 });
    let many = program.texture(TextureDesc { mips: 1, samples: 4, ..desc() });
    assert_refused!(copy(&many, &part, &one, at(0, 0, 0)), E::Texels(TexelError::Multisampled { samples: 4 }));
    let unread = program.texture(TextureDesc { usage: TextureUsage::COPY_DST, ..desc() });
    assert_refused!(copy(&unread, &part, &one, at(0, 0, 0)), E::TextureUsage { needs: TextureUsage::COPY_SRC, .. });
}

#[test]
fn texels_in_buffers_must_be_inside_aligned_and_apart() {
    let program = program();
    let (texture, buffer) = (of(&program, Format::Rgba8Unorm), program.device_buffer(1024));
    let part = texels(&texture);
    let fits = BufferTexels { offset: 0, row_bytes: 64, layer_bytes: 512 };
    program.run(|commands| commands.copy_buffer_to_box(&buffer, fits, &texture, &part));
    let refused = |at| program.refused(|commands| commands.copy_box_to_buffer(&texture, &part, &buffer, at));
    let far = BufferTexels { offset: 4, ..fits };
    assert_refused!(refused(far), E::BufferRange { offset: 4, size: 1024, buffer_size: 1024 });
    let huge = BufferTexels { layer_bytes: u64::MAX - 3, ..fits };
    assert_refused!(refused(huge), E::BufferRange { .. });
    assert_refused!(refused(BufferTexels { offset: 2, ..fits }), E::Unaligned { given: 2, alignment: 4, .. });
    assert_refused!(refused(BufferTexels { row_bytes: 66, ..fits }), E::Unaligned { given: 66, .. });
    assert_refused!(refused(BufferTexels { row_bytes: 60, ..fits }), E::Pitch { given: 60, needed: 64, .. });
    assert_refused!(refused(BufferTexels { layer_bytes: 508, ..fits }), E::Pitch { given: 508, needed: 512, .. });
    // One row needs no pitch, but the APIs limit it.
    let row = TexelBox { height: 1, layers: 1, ..part };
    let wide = |row_bytes| BufferTexels { row_bytes, ..fits };
    let too_wide = program.refused(|commands| commands.copy_box_to_buffer(&texture, &row, &buffer, wide(1 << 31)));
    assert_refused!(too_wide, E::LargePitch { given: 0x8000_0000, max: 0x7fff_ffff });
    program.run(|commands| commands.copy_box_to_buffer(&texture, &row, &buffer, wide((1 << 31) - 4)));
    let stencil = TexelBox { aspect: TextureAspect::Stencil, ..part };
    let refused = program.refused(|commands| commands.copy_buffer_to_box(&buffer, fits, &texture, &stencil));
    assert_refused!(refused, E::Texels(TexelError::NoAspect { .. }));
    let strict = Program::new(Profile::d3d12_tier1(), 1);
    let (texture, buffer) = (of(&strict, Format::Rgba8Unorm), strict.device_buffer(4096));
    let refused = strict.refused(|commands| commands.copy_buffer_to_box(&buffer, fits, &texture, &part));
    assert_refused!(refused, E::Unaligned { what: "a row pitch", given: 64, alignment: 256 });
    strict.finish();
    program.finish();
}

#[test]
fn units_of_the_queue_are_kept() {
    let program = program();
    let texture = of(&program, Format::Rgba8Unorm);
    let part = TexelBox { width: 4, layers: 1, ..texels(&texture) };
    let to = TexelOrigin { mip: 0, layer: 1, x: 4, y: 0, z: 0 };
    let (frame, mut list) = (program.timeline.begin(), Vec::new());
    // SAFETY: nothing is submitted.
    let commands = unsafe { Commands::new(&program.memory, &frame, &mut list) }.expect("its own frame");
    let refused = commands.transfer_granularity([8, 8, 8]).copy_box(&texture, &part, &texture, to);
    assert_refused!(refused.expect_err("half a unit"), E::Texels(TexelError::PartOfUnit { unit: [8, 8, 8], .. }));
    frame.discard();
}

#[test]
fn resolves_need_samples_formats_and_sizes_that_fit() {
    let program = program();
    let many = program.texture(TextureDesc { mips: 1, samples: 4, ..desc() });
    let (one, wide) = (program.texture(desc()), of(&program, Format::Rgba16Float));
    let refused =
        |src: &Texture<Device>, dst: &Texture<Device>, at| program.refused(|commands| commands.resolve(src, dst, at));
    let first = ResolvedLayers::default();
    assert_refused!(refused(&one, &one, first), E::Samples { src: 1, dst: 1, .. });
    assert_refused!(refused(&many, &many, first), E::Samples { src: 4, dst: 4, .. });
    assert_refused!(refused(&many, &wide, first), E::Formats { dst: Format::Rgba16Float, .. });
    let small = ResolvedLayers { dst_mip: 1, ..first };
    assert_refused!(refused(&many, &one, small), E::Sizes { src: [16, 8], dst: [8, 4] });
    for at in [
        ResolvedLayers { layers: 3, ..first },
        ResolvedLayers { layers: 0, ..first },
        ResolvedLayers { src_layer: 2, ..first },
        ResolvedLayers { dst_layer: 2, ..first },
        ResolvedLayers { dst_mip: 3, ..first },
    ] {
        assert_refused!(refused(&many, &one, at), E::Subresources { .. });
    }
    let of_depth = |samples, mips| {
        let usage = COPIES | TextureUsage::DEPTH_STENCIL;
        program.texture(TextureDesc { format: Format::D32Float, samples, mips, usage, ..desc() })
    };
    assert_refused!(refused(&of_depth(4, 1), &of_depth(1, 1), first), E::Format { .. });
    let volume = program.texture(TextureDesc { dimension: Dimension::D3, layers: 1, ..desc() });
    assert_refused!(refused(&many, &volume, first), E::Dimension { dimension: Dimension::D3, .. });
}

#[test]
fn mip_levels_need_a_format_that_can_be_filtered() {
    let program = program();
    for format in [Format::Rgba8Uint, Format::R32Sint, Format::D32Float, Format::Bc7Unorm] {
        let texture = of(&program, format);
        let refused = program.refused(|commands| commands.generate_mips(&texture));
        assert_refused!(refused, E::Format { format: found, .. } if found == format);
    }
    let shared = of(&program, Format::Rgb9e5Float);
    let refused = program.refused(|commands| commands.generate_mips(&shared));
    assert_refused!(refused, E::NoMips { format: Format::Rgb9e5Float, .. });
    let written = program.texture(TextureDesc { usage: TextureUsage::COPY_DST, ..desc() });
    let refused = program.refused(|commands| commands.generate_mips(&written));
    assert_refused!(refused, E::TextureUsage { needs: COPIES, has: TextureUsage::COPY_DST, .. });
    let single = program.texture(TextureDesc { mips: 1, ..desc() });
    let (frame, list, result) = program.record(|commands| commands.generate_mips(&single));
    result.expect("there is nothing to do");
    assert!(list.is_empty());
    frame.discard();
}

#[test]
fn a_device_like_direct3d_has_no_blits_and_clears_targets_only() {
    let program = Program::new(Profile::d3d12_modern(), 1);
    let (target, plain) = (program.texture(desc()), of(&program, Format::Rgba8Unorm));
    let refused = program.refused(|commands| commands.generate_mips(&target));
    let text = refused.to_string();
    assert!(text.contains("blits (Direct3D 12 has none)") && text.contains("upload them"), "{text}");
    let refused = program.refused(|commands| commands.clear_color(&plain, ALL, BLACK));
    assert_refused!(refused, E::TextureUsage { needs: TextureUsage::RENDER_TARGET, .. });
    let other = of(&program, Format::R32Float);
    let to = TexelOrigin { mip: 0, layer: 0, x: 0, y: 0, z: 0 };
    let refused = program.refused(|commands| commands.copy_box(&plain, &texels(&plain), &other, to));
    assert_refused!(refused, E::Device(_));
    program.finish();
}
