//! Fills with words, clears, copies of boxes, resolves and mip levels: their hazards, and their uses of bytes.

use super::gpu::{Gpu, copy};
use ringfence::device::transfer::{
    ClearColor, ClearTexel, SubresourceRange, TexelOrigin, TextureBoxCopy, TextureResolve,
};
use ringfence::device::{Format, TextureDesc, TextureUsage};
use ringfence::sim::{Command, HazardKind, Profile, TextureId as Texture};

const RED: ClearTexel = ClearTexel::Color(ClearColor::Float([1.0, 0.0, 0.0, 1.0]));

fn desc() -> TextureDesc {
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    TextureDesc { width: 8, height: 8, mips: 2, layers: 2, usage, ..Default::default() }
}

fn clear(texture: Texture, range: SubresourceRange, value: ClearTexel) -> Command {
    Command::ClearTexels { texture, range, value }
}

fn box_copy(src: Texture, dst: Texture) -> TextureBoxCopy<Texture> {
    let format = Format::Rgba8Unorm.texels();
    let (from, to) = (TexelOrigin::default(), TexelOrigin { layer: 1, ..Default::default() });
    let (aspect, aspects) = (format.first_aspect(), format.aspects());
    TextureBoxCopy { src, from, dst, to, aspect, aspects, format, extent: [8, 8, 1], layers: 1, discard: true }
}

const fn resolve(src: Texture, dst: Texture) -> TextureResolve<Texture> {
    let (extent, format) = ([8, 8], Format::Rgba8Unorm);
    TextureResolve { src, src_layer: 0, dst, dst_mip: 0, dst_layer: 0, layers: 1, extent, format }
}

#[test]
fn commands_outside_of_their_resources_are_left_out() {
    let mut gpu = Gpu::h200();
    let (buffer, (one, _)) = (gpu.device_buffer("buffer", 64), gpu.texture("one", &desc()));
    let (many, _) = gpu.texture("many", &TextureDesc { mips: 1, samples: 4, ..desc() });
    let words = |offset, size| Command::FillWords { dst: buffer.buffer, offset, size, value: 1 };
    let range = SubresourceRange { mip: 0, mips: 2, layer: 0, layers: 2 };
    let (whole, part) = (box_copy(one, one), TexelOrigin { x: 1, ..Default::default() });
    let table = [
        (words(60, 8), HazardKind::OutOfRange),
        (words(u64::MAX - 3, 4), HazardKind::OutOfRange),
        (words(2, 4), HazardKind::Unaligned),
        (words(4, 6), HazardKind::Unaligned),
        (words(0, 0), HazardKind::Misuse),
        (clear(one, SubresourceRange { mips: 3, ..range }, RED), HazardKind::OutOfRange),
        (clear(one, SubresourceRange { layer: u32::MAX, ..range }, RED), HazardKind::OutOfRange),
        (clear(one, SubresourceRange { mips: 0, ..range }, RED), HazardKind::Misuse),
        (clear(one, range, ClearTexel::Color(ClearColor::Uint([0; 4]))), HazardKind::Misuse),
        (clear(one, range, ClearTexel::DepthStencil { depth: Some(1.0), stencil: None }), HazardKind::Misuse),
        (Command::CopyTexels(TextureBoxCopy { to: part, ..whole }), HazardKind::OutOfRange),
        (Command::CopyTexels(TextureBoxCopy { layers: 3, to: part, ..whole }), HazardKind::OutOfRange),
        (Command::CopyTexels(TextureBoxCopy { src: many, ..whole }), HazardKind::Misuse),
        (Command::ResolveTexels(resolve(one, one)), HazardKind::Misuse),
        (Command::ResolveTexels(TextureResolve { dst_mip: 1, ..resolve(many, one) }), HazardKind::Misuse),
        (Command::ResolveTexels(TextureResolve { src_layer: u32::MAX, ..resolve(many, one) }), HazardKind::OutOfRange),
        (Command::BlitMip { texture: one, mip: 0 }, HazardKind::Misuse),
        (Command::BlitMip { texture: one, mip: 2 }, HazardKind::OutOfRange),
        (Command::BlitMip { texture: many, mip: 1 }, HazardKind::Misuse),
    ];
    for (command, kind) in table {
        let shown = format!("{command:?}");
        gpu.submit(0, &[], vec![command]);
        let found: Vec<_> = gpu.device.take_hazards().iter().map(|hazard| hazard.kind).collect();
        assert_eq!(found, [kind], "{shown}");
    }
}

#[test]
fn a_strict_device_clears_targets_only_and_needs_their_first_use() {
    let mut gpu = Gpu::new(Profile::d3d12_tier1(), 1);
    let (plain, _) = gpu.texture("plain", &desc());
    let all = SubresourceRange { mip: 0, mips: 2, layer: 0, layers: 2 };
    gpu.submit(0, &[], vec![clear(plain, all, RED)]);
    let _ = gpu.only_hazard(HazardKind::Misuse);
    let usage = desc().usage | TextureUsage::RENDER_TARGET;
    let (target, _) = gpu.texture("target", &TextureDesc { usage, ..desc() });
    gpu.submit(0, &[], vec![Command::CopyTexels(box_copy(target, target))]);
    let _ = gpu.only_hazard(HazardKind::Misuse);
    gpu.submit(0, &[], vec![clear(target, SubresourceRange::one(0, 0), RED)]);
    gpu.submit(0, &[], vec![Command::CopyTexels(box_copy(target, target))]);
    gpu.no_hazard();
}

/// Two queues use the same texture, and no fence orders them. The finder knows each read and write of each command.
#[test]
fn uses_of_two_queues_conflict() {
    let (single, samples) = (TextureDesc { mips: 1, ..desc() }, 4);
    let all = |mips| SubresourceRange { mip: 0, mips, layer: 0, layers: 2 };
    type Work = fn(Texture, Texture) -> Command;
    let commands: [(Work, [bool; 2]); 4] = [
        (|one, _| clear(one, SubresourceRange::one(0, 0), RED), [true, false]),
        (|one, _| Command::BlitMip { texture: one, mip: 1 }, [true, false]),
        (|one, other| Command::CopyTexels(box_copy(one, other)), [true, true]),
        (|one, many| Command::ResolveTexels(resolve(many, one)), [true, true]),
    ];
    for (index, (work, touched)) in commands.into_iter().enumerate() {
        let mut gpu = Gpu::h200();
        let (one, _) = gpu.texture("one", &desc());
        let is_resolve = index == 3;
        let (other, _) = gpu.texture("other", &if is_resolve { TextureDesc { samples, ..single } } else { desc() });
        let cleared = [(one, 2), (other, if is_resolve { 1 } else { 2 })];
        for ((texture, mips), is_touched) in cleared.into_iter().zip(touched) {
            gpu.submit(0, &[], vec![work(one, other)]);
            gpu.submit(1, &[], vec![clear(texture, all(mips), RED)]);
            let conflicts = gpu.device.take_hazards();
            assert_eq!(!conflicts.is_empty(), is_touched, "command {index}: {conflicts:?}");
            assert!(conflicts.iter().all(|hazard| hazard.kind == HazardKind::QueueConflict), "{conflicts:?}");
            assert!(gpu.device.run_until_idle());
        }
    }
    let mut gpu = Gpu::h200();
    let (one, two) = (gpu.device_buffer("one", 64), gpu.device_buffer("two", 64));
    gpu.submit(0, &[], vec![Command::FillWords { dst: one.buffer, offset: 0, size: 64, value: 0x0403_0201 }]);
    gpu.submit(1, &[], vec![copy(one.buffer, two.buffer, 64)]);
    let _ = gpu.only_hazard(HazardKind::QueueConflict);
    assert!(gpu.device.run_until_idle());
    assert_eq!(gpu.device.peek(one.range(8, 4)), Some(vec![1, 2, 3, 4]));
}
