//! Resources that grow and shrink while they are in use. A volume keeps all texels of its mip levels, and a buffer has
//! the described size.

use ringfence::defrag::DefragDesc;
use ringfence::device::{BufferDesc, BufferUsage, Dimension, TextureAspect, TextureDesc, TextureUsage};
use ringfence::lifetime::ReplaceError;
use ringfence::memory::AccessError;
use ringfence::upload::{BatchError, Staged};
use ringfence::{AllocationDesc, Dedicated, Location, Texture};
use ringfence_testkit::{Command, Gpu, Subresource};

use crate::device_suite::rig::{Rig, pattern};

const TEXEL_BYTES: u32 = 4;

fn volume([width, height, depth]: [u32; 3], mips: u32) -> TextureDesc {
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    TextureDesc { dimension: Dimension::D3, width, height, depth, mips, usage, ..Default::default() }
}

fn part<G: Gpu>(rig: &Rig<G>, desc: &TextureDesc, mip: u32) -> Subresource {
    let extent = [desc.width, desc.height, desc.depth].map(|side| (side >> mip).max(1));
    Subresource {
        buffer_offset: 0,
        row_bytes: u64::from(extent[0] * TEXEL_BYTES).next_multiple_of(rig.gpu.subresource_pitch(false)),
        mip,
        layer: 0,
        aspect: TextureAspect::Color,
        has_both: false,
        extent,
        block: [1; 2],
        block_bytes: TEXEL_BYTES,
    }
}

fn bytes_of(part: &Subresource) -> usize {
    part.row_bytes as usize * (part.extent[1] * part.extent[2]) as usize
}

fn fill<G: Gpu>(rig: &mut Rig<G>, texture: &Texture<G::Device>, mip: u32) {
    let part = part(rig, texture.desc().expect("portable"), mip);
    let mut upload = rig.buffer(bytes_of(&part) as u64, Location::Upload, "slices");
    upload.write(0, &pattern(u64::from(part.extent[0]), bytes_of(&part))).expect("upload memory is mapped");
    let (buffer, texture) = (upload.object().clone(), texture.object().clone());
    rig.run(&[Command::CopySubresource { buffer, texture, part, into_texture: true, discard: true }]);
}

/// Checks that a mip level contains the texels that `fill` writes to a mip level of the same width.
fn check<G: Gpu>(rig: &mut Rig<G>, texture: &Texture<G::Device>, mip: u32) {
    let part = part(rig, texture.desc().expect("portable"), mip);
    let back = rig.buffer(bytes_of(&part) as u64, Location::Readback, "slices back");
    let (buffer, texture) = (back.object().clone(), texture.object().clone());
    rig.run(&[Command::CopySubresource { buffer, texture, part, into_texture: false, discard: false }]);
    let mut held = vec![0; bytes_of(&part)];
    back.read(0, &mut held).expect("readback memory is mapped");
    let wanted = pattern(u64::from(part.extent[0]), bytes_of(&part));
    let row = part.row_bytes as usize;
    for (at, (held, wanted)) in held.chunks(row).zip(wanted.chunks(row)).enumerate() {
        let texels = (part.extent[0] * TEXEL_BYTES) as usize;
        assert_eq!(held[..texels], wanted[..texels], "mip {mip}, row {at} of all slices");
    }
}

pub fn a_volume_keeps_all_slices_when_its_mips_are_swapped<G: Gpu>(rig: &mut Rig<G>) {
    let allocation = AllocationDesc { name: "volume", ..Default::default() };
    let small = volume([16, 8, 4], 2);
    let info = small;
    let mut texture = rig.memory.create_texture(&info, allocation).expect("there is room");
    (0..2).for_each(|mip| fill(rig, &texture, mip));
    let large = volume([32, 16, 8], 4);
    for (wanted, levels) in [(large, [(0, 1), (1, 2)]), (volume([8, 4, 2], 2), [(2, 0), (3, 1)])] {
        let frame = rig.timeline().begin();
        let present = *texture.desc().expect("portable");
        let swap = texture.swap_mips(&frame, &wanted, allocation).expect("there is room");
        assert_eq!(swap.copies.iter().map(|copy| (copy.src_mip, copy.dst_mip)).collect::<Vec<_>>(), levels);
        let (mut commands, mut bounces) = (Vec::new(), Vec::new());
        for copy in &swap.copies {
            let from = part(rig, &present, copy.src_mip);
            assert_eq!([copy.width, copy.height, copy.depth], from.extent);
            let bounce = rig.buffer(bytes_of(&from) as u64, Location::Device, "bounce");
            let buffer = bounce.object().clone();
            let (texture, discard) = (copy.src.clone(), false);
            let out = Command::CopySubresource { buffer, texture, part: from, into_texture: false, discard };
            let (buffer, texture, discard) = (bounce.object().clone(), copy.dst.clone(), true);
            let part = Subresource { mip: copy.dst_mip, ..from };
            commands.extend([out, Command::CopySubresource { buffer, texture, part, into_texture: true, discard }]);
            bounces.push(bounce);
        }
        rig.submit(frame, &commands);
        drop(bounces);
        swap.to_fill.iter().for_each(|&mip| fill(rig, &texture, mip));
        (0..wanted.mips).for_each(|mip| check(rig, &texture, mip));
    }
    let frame = rig.timeline().begin();
    let flat = TextureDesc { dimension: Dimension::D2, depth: 1, ..volume([8, 4, 2], 2) };
    for wrong in [flat, volume([8, 4, 3], 2), volume([4, 2, 2], 1)] {
        let refused = texture.swap_mips(&frame, &wrong, allocation).map(drop);
        assert!(matches!(refused, Err(ReplaceError::NotOneChain { present: ([8, 4, 2], 2), .. })), "{refused:?}");
    }
    frame.discard();
}

pub fn a_buffer_is_as_large_as_it_was_described<G: Gpu>(rig: &mut Rig<G>) {
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let allocation = AllocationDesc { location: Location::Upload, ..Default::default() };
    let info = BufferDesc { size: 1000, usage };
    let mut buffer = rig.memory.create_buffer(&info, allocation).expect("there is room");
    assert_eq!(buffer.size(), 1000);
    assert!(buffer.memory_bytes() >= 1000, "{}", buffer.memory_bytes());
    buffer.write(990, &[1; 10]).expect("the last bytes");
    let beyond = AccessError::OutOfRange { offset: 999, size: 2, resource_size: 1000 };
    assert_eq!(buffer.write(999, &[1; 2]), Err(beyond));
    let refused = Staged::of(&buffer, 976, 25).map(drop);
    assert!(matches!(refused, Err(BatchError::OutOfRange { target_size: 1000, .. })), "{refused:?}");
    let frame = rig.timeline().begin();
    let refused = buffer.resize(&frame, &info, 1001, allocation).map(drop);
    let too_much = ReplaceError::TooMuchToKeep { keep_bytes: 1001, old_bytes: 1000, new_bytes: 1000 };
    assert_eq!(refused, Err(too_much));
    frame.discard();
}

pub fn a_cube_is_streamed_and_moved<G: Gpu>(rig: &mut Rig<G>) {
    let usage = TextureUsage::SAMPLED | TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    let small = TextureDesc {
        dimension: Dimension::Cube,
        width: 64,
        height: 64,
        layers: 6,
        mips: 2,
        usage,
        ..Default::default()
    };
    let large = TextureDesc { width: 128, height: 128, mips: 3, ..small };
    let allocation = AllocationDesc { movable: true, dedicated: Dedicated::Never, ..Default::default() };
    let info = small;
    let make = |_| rig.memory.create_texture(&info, allocation).expect("there is room");
    let mut textures: Vec<_> = (0..45).map(make).collect();
    let frame = rig.timeline().begin();
    for texture in &mut textures {
        for wanted in [&large, &small, &large] {
            texture.swap_mips(&frame, wanted, allocation).expect("one mip chain, however the device describes it");
        }
    }
    frame.discard();
    let mut textures: Vec<_> = textures.into_iter().step_by(3).collect();
    rig.memory.reclaim();
    let frame = rig.timeline().begin();
    let mut run = rig.memory.defragment(DefragDesc::default());
    let mut pass = run.begin_pass(&frame).expect("its own frame");
    for texture in &mut textures {
        if pass.has(texture) {
            let info = large;
            assert_eq!(pass.copy_texture_as(texture, &info).map(|copies| copies.len()), Ok(3));
        }
    }
    drop(pass);
    drop(run);
    frame.discard();
}

pub fn a_buffer_that_may_be_larger_keeps_all_that_it_has<G: Gpu>(rig: &mut Rig<G>) {
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
    let info = BufferDesc { size: 100_004, usage };
    let allocation = AllocationDesc { may_be_larger: true, ..Default::default() };
    let mut buffer = rig.memory.create_buffer(&info, allocation).expect("there is room");
    let bytes = buffer.size();
    let frame = rig.timeline().begin();
    let copy = buffer.resize(&frame, &info, bytes, allocation).expect("the new buffer has the same size");
    assert_eq!((copy.map(|copy| copy.size), buffer.size()), (Some(bytes), bytes));
    frame.discard();
}
