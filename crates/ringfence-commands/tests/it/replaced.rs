//! Buffers and textures that are replaced while the device uses them.

use ringfence::commands::{BufferTexels, CommandError, DepthStencil, SubresourceRange};
use ringfence::device::{BufferDesc, BufferUsage, Format, TexelBox, TextureAspect, TextureDesc, TextureUsage};
use ringfence::lifetime::ReplaceError;
use ringfence::sim::Profile;
use ringfence::{AllocationDesc, Location};

use super::program::{Program, desc};

#[test]
fn a_resized_buffer_keeps_its_first_bytes() {
    for profile in [Profile::h200(), Profile::d3d12_tier1()] {
        let program = Program::new(profile, 3);
        let mut buffer = program.device_buffer(1024);
        let old = *buffer.object();
        program.run(|commands| commands.fill_buffer(&buffer, 0..1024, 0x0101_0101));
        let larger = BufferDesc { size: 4096, ..*buffer.desc().expect("a portable one") };
        // The fill before the copy is part of the kept bytes, the one after it is in the new buffer.
        program.run(|commands| {
            commands.fill_buffer(&buffer, 512..1024, 0x0202_0202)?;
            commands.resize_buffer(&mut buffer, &larger, 1024, AllocationDesc::default())?;
            commands.fill_buffer(&buffer, 1024..4096, 0x0303_0303)
        });
        assert!(*buffer.object() != old && buffer.size() >= 4096);
        let found = program.peek(&buffer);
        let part = |from, to: usize, byte| found[from..to].iter().all(|found| *found == byte);
        assert!(part(0, 512, 1) && part(512, 1024, 2) && part(1024, 4096, 3));
        assert_eq!(program.device.take_hazards(), []);
    }
}

#[test]
fn a_resize_that_is_refused_changes_nothing() {
    let program = Program::new(Profile::h200(), 4);
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let (mut source, mut other) =
        (program.buffer(256, BufferUsage::COPY_DST, Location::Device), program.buffer(256, usage, Location::Device));
    let objects = [*source.object(), *other.object()];
    let larger = BufferDesc { size: 512, usage };
    let plain = AllocationDesc::default;
    let refused = program.refused(|commands| commands.resize_buffer(&mut source, &larger, 256, plain()));
    assert!(matches!(refused, CommandError::BufferUsage { needs: BufferUsage::COPY_SRC, .. }), "{refused}");
    let unread = BufferDesc { usage: BufferUsage::COPY_SRC, ..larger };
    let refused = program.refused(|commands| commands.resize_buffer(&mut other, &unread, 256, plain()));
    assert!(matches!(refused, CommandError::BufferUsage { needs: BufferUsage::COPY_DST, .. }), "{refused}");
    let upload = AllocationDesc { location: Location::Upload, ..plain() };
    let refused = program.refused(|commands| commands.resize_buffer(&mut other, &larger, 256, upload));
    assert!(matches!(refused, CommandError::Location { location: Location::Upload, .. }), "{refused}");
    let refused = program.refused(|commands| commands.resize_buffer(&mut other, &larger, 257, plain()));
    assert!(matches!(refused, CommandError::BufferRange { offset: 0, size: 257, .. }), "{refused}");
    let smaller = BufferDesc { size: 128, usage };
    let refused = program.refused(|commands| commands.resize_buffer(&mut other, &smaller, 256, plain()));
    assert!(matches!(refused, CommandError::Replace(ReplaceError::TooMuchToKeep { .. })), "{refused}");
    assert_eq!([*source.object(), *other.object()], objects);
    // Without bytes to keep, no usage for copies is needed.
    program.run(|commands| commands.resize_buffer(&mut source, &unread, 0, plain()));
    assert!(source.size() >= 512);
    let stranger = Program::new(Profile::h200(), 4);
    let mut foreign = stranger.device_buffer(256);
    let refused = program.refused(|commands| commands.resize_buffer(&mut foreign, &larger, 0, plain()));
    assert!(matches!(refused, CommandError::Foreign { kind: "buffer", .. }), "{refused}");
}

/// Both aspects of a combined format arrive, from a larger chain and from a smaller one.
#[test]
fn swapped_mips_keep_every_aspect_of_the_mips_that_both_have() {
    let program = Program::new(Profile::h200(), 5);
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST | TextureUsage::DEPTH_STENCIL;
    let of = |width, mips| TextureDesc {
        width,
        height: width,
        mips,
        layers: 2,
        format: Format::D32FloatS8Uint,
        usage,
        ..Default::default()
    };
    let mut texture = program.texture(of(8, 2));
    let level = |mip, value| (SubresourceRange { mip, mips: 1, layer: 0, layers: 2 }, value);
    program.run(|commands| {
        for (range, value) in [level(0, 1), level(1, 2)] {
            let both = DepthStencil { depth: Some(value as f32 / 4.0), stencil: Some(value) };
            commands.clear_depth_stencil(&texture, range, both)?;
        }
        Ok(())
    });
    let mut to_fill = Vec::new();
    program.run(|commands| {
        to_fill = commands.swap_mips(&mut texture, &of(16, 3), AllocationDesc::default())?;
        Ok(())
    });
    assert_eq!(to_fill, [0], "the new level");
    program.run(|commands| {
        to_fill = commands.swap_mips(&mut texture, &of(4, 1), AllocationDesc::default())?;
        Ok(())
    });
    assert_eq!((to_fill.len(), texture.desc().expect("portable").width), (0, 4));
    // The smallest level of the first chain is all that is left: depth 0.5 and stencil 2 in both layers.
    let back = program.buffer(4096, BufferUsage::COPY_DST, Location::Readback);
    let whole = TexelBox::mip(texture.parts().expect("a known format"), 0);
    let at = |offset| BufferTexels { offset, row_bytes: 256, layer_bytes: 1024 };
    program.run(|commands| {
        commands.copy_box_to_buffer(&texture, &TexelBox { aspect: TextureAspect::Depth, ..whole }, &back, at(0))?;
        commands.copy_box_to_buffer(&texture, &TexelBox { aspect: TextureAspect::Stencil, ..whole }, &back, at(2048))
    });
    let found = program.peek(&back);
    for layer in [0, 1024] {
        for row in [0, 256, 512, 768] {
            assert_eq!(found[layer + row..layer + row + 16], 0.5f32.to_le_bytes().repeat(4), "depth of {layer}, {row}");
            assert_eq!(found[2048 + layer + row..2048 + layer + row + 4], [2; 4], "stencil of {layer}, {row}");
        }
    }
    assert_eq!(program.device.take_hazards(), []);
}

#[test]
fn a_swap_that_is_refused_changes_nothing() {
    let program = Program::new(Profile::h200(), 6);
    let mut texture = program.texture(desc());
    let object = *texture.object();
    let wanted = TextureDesc { width: 32, height: 16, mips: 4, ..desc() };
    let unread = TextureDesc { usage: TextureUsage::COPY_SRC, ..wanted };
    let refused = program.refused(|commands| commands.swap_mips(&mut texture, &unread, Default::default()).map(drop));
    assert!(matches!(refused, CommandError::TextureUsage { needs: TextureUsage::COPY_DST, .. }), "{refused}");
    let other = TextureDesc { width: 20, ..wanted };
    let refused = program.refused(|commands| commands.swap_mips(&mut texture, &other, Default::default()).map(drop));
    assert!(matches!(refused, CommandError::Replace(ReplaceError::NotOneChain { .. })), "{refused}");
    let mut target = program.texture(TextureDesc { usage: TextureUsage::RENDER_TARGET, ..desc() });
    let refused = program.refused(|commands| commands.swap_mips(&mut target, &wanted, Default::default()).map(drop));
    assert!(matches!(refused, CommandError::TextureUsage { needs: TextureUsage::COPY_SRC, .. }), "{refused}");
    assert_eq!(*texture.object(), object);
}
