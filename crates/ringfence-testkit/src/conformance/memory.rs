//! Conformance tests of memory allocation: contents of buffers and textures, dedicated memory, invalid descriptions,
//! host access, names, statistics.

use crate::{Command, Gpu};
use ringfence::device::{BufferDesc, BufferUsage, DeviceError, Driver, TextureDesc, TextureUsage};
use ringfence::memory::{AccessError, Error};
use ringfence::{AllocationDesc, Dedicated, Location};

use crate::rig::{Rig, copy, pattern};

pub fn a_buffer_in_each_location_holds_what_was_written<G: Gpu>(rig: &mut Rig<G>) {
    let bytes = pattern(1, 4096);
    let mut upload = rig.buffer(4096, Location::Upload, "upload");
    upload.write(0, &bytes).expect("upload memory is mapped");
    for location in [Location::Device, Location::DeviceUpload, Location::Upload] {
        let buffer = rig.buffer(8192, location, "target");
        if !rig.gpu.can_copy_to(buffer.memory_type()) {
            continue; // written only by the host, like `upload`
        }
        rig.run(&[copy(&upload, 0, &buffer, 4096, 4096), copy(&buffer, 4096, &buffer, 0, 4096)]);
        assert_eq!(rig.download(&buffer, 4096), bytes, "{location:?}");
    }
    let mut window = rig.buffer(4096, Location::DeviceUpload, "window");
    window.write(0, &bytes).expect("host-visible by its location");
    assert_eq!(rig.download(&window, 4096), bytes);
}

pub fn a_texture_holds_what_was_copied_in<G: Gpu>(rig: &mut Rig<G>) {
    let (width, height) = (65, 33);
    let region = rig.region(width, height, 0);
    let bytes = pattern(2, (region.row_bytes * u64::from(height)) as usize);
    let mut upload = rig.buffer(bytes.len() as u64, Location::Upload, "texels");
    upload.write(0, &bytes).expect("upload memory is mapped");
    let back = rig.buffer(bytes.len() as u64, Location::Readback, "texels back");
    let texture = rig.texture(width, height, "texture");
    rig.run(&[
        Command::CopyBufferToTexture {
            src: upload.object().clone(),
            dst: texture.object().clone(),
            region,
            discard: true,
        },
        Command::CopyTextureToBuffer { src: texture.object().clone(), dst: back.object().clone(), region },
    ]);
    let mut texels = vec![0; bytes.len()];
    back.read(0, &mut texels).expect("readback memory is mapped");
    let row = width as usize * 4;
    for (is, should) in texels.chunks(region.row_bytes as usize).zip(bytes.chunks(region.row_bytes as usize)) {
        assert_eq!(is[..row], should[..row]);
    }
}

pub fn large_resources_and_those_that_ask_get_memory_of_their_own<G: Gpu>(rig: &mut Rig<G>) {
    let info = BufferDesc { size: 4096, usage: BufferUsage::COPY_SRC | BufferUsage::COPY_DST };
    let asked = AllocationDesc { dedicated: Dedicated::Always, ..Default::default() };
    let one = rig.memory.create_buffer(&info, asked).expect("there is room");
    assert_eq!(rig.memory.statistics().total().dedicated_count, 1);
    let large = rig.buffer(200 << 20, Location::Device, "large");
    assert_eq!(rig.memory.statistics().total().dedicated_count, 2, "above half of the largest block");
    assert_eq!(large.offset(), 0);
    let small = rig.buffer(4096, Location::Device, "small");
    assert_eq!(rig.memory.statistics().total().dedicated_count, 2);
    rig.run(&[copy(&one, 0, &small, 0, 4096)]);
    drop((one, large, small));
    rig.memory.reclaim();
    assert_eq!(rig.memory.statistics().total().dedicated_count, 0);
}

pub fn many_small_buffers_share_few_blocks<G: Gpu>(rig: &mut Rig<G>) {
    let buffers: Vec<_> = (0..500).map(|_| rig.buffer(1000, Location::Device, "")).collect();
    let total = rig.memory.statistics().total();
    assert_eq!((total.range_count, total.dedicated_count), (500, 0));
    assert!(total.block_count <= 4, "blocks of 4, 8, 16 and 32 MiB, where a buffer takes 64 KiB: {total:?}");
    let mut places: Vec<_> = buffers.iter().map(|buffer| (buffer.offset(), buffer.size())).collect();
    places.sort_unstable();
    if total.block_count == 1 {
        assert!(places.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "ranges do not overlap");
    }
    rig.memory.debug().validate().expect("the allocator is sound");
}

pub fn multisampled_targets_lie_in_blocks_aligned_for_them<G: Gpu>(rig: &mut Rig<G>) {
    let target = |samples| {
        let usage = TextureUsage::RENDER_TARGET | TextureUsage::SAMPLED;
        let desc = TextureDesc { width: 64, height: 64, samples, usage, ..Default::default() };
        rig.memory.create_texture(&desc, AllocationDesc::default()).expect("there is room")
    };
    // The first target creates the block. On Direct3D 12, a block for multisampled targets must be aligned to 4 MiB.
    let (plain, multisampled) = (target(1), target(4));
    drop((plain, multisampled));
    rig.memory.reclaim();
}

pub fn bad_descriptions_are_typed_errors_and_change_nothing<G: Gpu>(rig: &mut Rig<G>) {
    let before = rig.memory.snapshot();
    let usage = BufferUsage::COPY_DST;
    let buffer = |size| rig.memory.create_buffer(&BufferDesc { size, usage }, AllocationDesc::default());
    assert!(matches!(buffer(0), Err(Error::Device(DeviceError::InvalidInfo(_)))));
    let absurd = buffer(1 << 50);
    assert!(
        matches!(absurd, Err(Error::TooLarge { .. } | Error::OutOfMemory { .. } | Error::Device(_))),
        "larger than any heap: {absurd:?}"
    );
    let texture = |desc| rig.memory.create_texture(&desc, AllocationDesc::default());
    for desc in [
        TextureDesc { width: 0, ..Default::default() },
        TextureDesc { mips: 9, width: 4, height: 4, ..Default::default() },
        TextureDesc { samples: 3, ..Default::default() },
    ] {
        let refused = texture(desc);
        assert!(matches!(refused, Err(Error::Device(_))), "{desc:?}: {refused:?}");
    }
    let after = rig.memory.snapshot();
    assert_eq!(before.blocks, after.blocks);
    assert_eq!(after.calls.create_object, after.calls.destroy_object);
}

pub fn host_access_is_bounded<G: Gpu>(rig: &mut Rig<G>) {
    let mut upload = rig.buffer(256, Location::Upload, "upload");
    let size = upload.size();
    let beyond = AccessError::OutOfRange { offset: size - 1, size: 2, resource_size: size };
    assert_eq!(upload.write(size - 1, &[0; 2]), Err(beyond));
    assert!(matches!(upload.write(u64::MAX, &[0; 2]), Err(AccessError::OutOfRange { .. })));
    assert_eq!(upload.write(size, &[]), Ok(()), "an empty write at the end");
    let device = rig.buffer(256, Location::Device, "device");
    if !device.is_mapped() {
        assert_eq!(device.read(0, &mut [0; 4]), Err(AccessError::NotMapped));
    }
}

pub fn names_show_in_the_snapshot<G: Gpu>(rig: &mut Rig<G>) {
    let named = rig.buffer(512, Location::Device, "fox's den <b>");
    let unnamed = rig.buffer(512, Location::Device, "");
    let names = |rig: &Rig<G>| -> Vec<String> {
        let blocks = rig.memory.snapshot().blocks;
        blocks.into_iter().flat_map(|block| block.ranges).map(|range| range.name).collect()
    };
    assert_eq!(names(rig), ["fox's den <b>", ""]);
    drop(named);
    rig.memory.reclaim();
    let third = rig.buffer(512, Location::Device, "");
    assert!(names(rig).iter().all(String::is_empty), "a name is removed with its range");
    drop((unnamed, third));
}

pub fn statistics_snapshot_and_blocks_agree<G: Gpu>(rig: &mut Rig<G>) {
    let buffers: Vec<_> = (1..40).map(|n| rig.buffer(n * 777, Location::Device, "b")).collect();
    let textures: Vec<_> = (1..10).map(|n| rig.texture(n * 13, n * 7, "t")).collect();
    let (statistics, snapshot) = (rig.memory.statistics().total(), rig.memory.snapshot());
    let blocks = snapshot.blocks.iter().filter(|block| !block.dedicated);
    assert_eq!(statistics.block_count, blocks.clone().count() as u64);
    assert_eq!(statistics.block_bytes, blocks.clone().map(|block| block.bytes).sum::<u64>());
    let ranges: Vec<_> = snapshot.blocks.iter().flat_map(|block| &block.ranges).collect();
    assert_eq!(ranges.len(), buffers.len() + textures.len());
    assert_eq!(statistics.used_bytes(), ranges.iter().map(|range| range.bytes).sum::<u64>());
    let reserved: u64 = snapshot.heaps.iter().map(|heap| heap.reserved_bytes).sum();
    assert_eq!(reserved, statistics.reserved_bytes());
    for block in &snapshot.blocks {
        let ends = block.ranges.iter().map(|range| range.offset + range.bytes);
        assert!(block.ranges.iter().skip(1).zip(ends).all(|(range, end)| range.offset >= end), "sorted, no overlap");
    }
    assert_eq!(rig.memory.device().capabilities().memory_heaps.len(), snapshot.heaps.len());
}
