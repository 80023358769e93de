//! Calls that no correct program makes cause a hazard, but never a panic or undefined behaviour.

use super::gpu::{Gpu, copy, fill};
use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, DeviceError, Driver, Format, MemoryDesc, ResourceClass, TextureDesc,
    TextureUsage, Textures,
};
use ringfence::sim::{
    Barrier, BufferLayout, BufferRange, Command, DescriptorUse, HazardKind, Kernel, Profile, TextureRegion,
};

#[test]
fn dead_objects_are_named() {
    let mut gpu = Gpu::h200();
    let (dead, live) = (gpu.device_buffer("dead", 64), gpu.device_buffer("live", 64));
    gpu.destroy(dead.buffer);
    gpu.submit(2, &[], vec![copy(dead.buffer, live.buffer, 64), fill(live.buffer, 64, 3)]);
    let hazard = gpu.only_hazard(HazardKind::Stale);
    assert_eq!((hazard.resource.name.as_deref(), hazard.queue), (Some("dead"), Some(2)));
    gpu.wait(gpu.last(2));
    assert_eq!(gpu.device.peek(live.range(0, 1)), Some(vec![3]), "the commands after it still run");
    gpu.destroy(dead.buffer);
    let _ = gpu.only_hazard(HazardKind::Stale);
    gpu.free(dead.memory);
    gpu.free(dead.memory);
    let _ = gpu.only_hazard(HazardKind::Stale);
    // SAFETY: the simulated device detects the dead buffer.
    let placed = unsafe { Create::<Buffers>::place(&gpu.device, &dead.buffer, &live.memory, 0) };
    assert!(matches!(placed, Err(DeviceError::InvalidInfo(_))));
    let _ = gpu.only_hazard(HazardKind::Stale);
}

#[test]
fn ranges_beyond_the_end_are_left_out() {
    let mut gpu = Gpu::h200();
    let (from, to) = (gpu.host_buffer("from", 64), gpu.host_buffer("to", 64));
    let copies = |src_offset, dst_offset, size| Command::CopyBuffer {
        src: from.buffer,
        src_offset,
        dst: to.buffer,
        dst_offset,
        size,
    };
    for command in [copies(0, 1, 64), copies(64, 0, 1), copies(u64::MAX, 0, 2), copies(0, 0, u64::MAX)] {
        gpu.submit(0, &[], vec![command]);
        let _ = gpu.only_hazard(HazardKind::OutOfRange);
    }
    gpu.submit(0, &[], vec![copies(0, 0, 0)]);
    let _ = gpu.only_hazard(HazardKind::Misuse);
    gpu.submit(0, &[], vec![copies(0, 0, 64)]);
    gpu.no_hazard();
    let same = Command::CopyBuffer { src: to.buffer, src_offset: 0, dst: to.buffer, dst_offset: 8, size: 16 };
    gpu.submit(0, &[], vec![same]);
    let _ = gpu.only_hazard(HazardKind::Misuse);
    assert!(gpu.device.run_until_idle());
    gpu.flush(to, 200, 100);
    let _ = gpu.only_hazard(HazardKind::OutOfRange);
    gpu.flush(to, u64::MAX, u64::MAX);
    let _ = gpu.only_hazard(HazardKind::OutOfRange);
    assert_eq!(gpu.device.peek(to.range(60, 5)), None);
}

#[test]
fn host_access_to_unmapped_memory_is_found() {
    let gpu = Gpu::h200();
    gpu.flush(gpu.device_buffer("far", 64), 0, 64);
    let _ = gpu.only_hazard(HazardKind::Misuse);
}

#[test]
fn usage_is_checked() {
    let mut gpu = Gpu::h200();
    // SAFETY: the description holds no pointer.
    let (buffer, needs) =
        unsafe { Create::<Buffers>::prepare(&gpu.device, &BufferDesc { size: 64, usage: BufferUsage::VERTEX }) }
            .unwrap();
    let memory = gpu.memory("block", 1, needs.size);
    // SAFETY: just prepared, and it fits into the memory.
    unsafe { Create::<Buffers>::place(&gpu.device, &buffer, &memory, 0) }.unwrap();
    gpu.submit(0, &[], vec![fill(buffer, 64, 0)]);
    let _ = gpu.only_hazard(HazardKind::Misuse);
}

#[test]
fn wrong_places_are_refused_and_may_be_tried_again() {
    let gpu = Gpu::h200();
    let (buffer, needs) = gpu.unplaced(300);
    let memory = gpu.memory("block", 1, 1024);
    // SAFETY: the simulated device rejects resources that do not fit.
    let place = |offset| unsafe { Create::<Buffers>::place(&gpu.device, &buffer, &memory, offset) }.map(|_| ());
    for (offset, kind) in
        [(10, HazardKind::Unaligned), (1024 - 256, HazardKind::OutOfRange), (u64::MAX, HazardKind::OutOfRange)]
    {
        assert!(matches!(place(offset), Err(DeviceError::InvalidInfo(_))));
        let _ = gpu.only_hazard(kind);
    }
    place(512).unwrap();
    gpu.no_hazard();
    assert!(place(0).is_err());
    let _ = gpu.only_hazard(HazardKind::Misuse);
    // SAFETY: the simulated device detects that it was placed.
    unsafe { Create::<Buffers>::discard(&gpu.device, buffer) };
    let _ = gpu.only_hazard(HazardKind::Misuse);

    let texture = TextureDesc { width: 64, height: 64, ..Default::default() };
    let desc = |memory_type, size| MemoryDesc {
        share: None,
        priority: Default::default(),
        memory_type,
        size,
        alignment: 1,
        class: ResourceClass::Texture,
        name: "",
    };
    // SAFETY: the simulated device rejects resources that do not fit.
    unsafe {
        let (texture, _) = Create::<Textures>::prepare(&gpu.device, &texture).unwrap();
        let lives = gpu.device.live();
        assert!(
            Create::<Textures>::dedicate(&gpu.device, &texture, &desc(2, 1 << 20)).is_err(),
            "textures are not host-visible here"
        );
        let _ = gpu.only_hazard(HazardKind::Misuse);
        assert!(Create::<Textures>::dedicate(&gpu.device, &texture, &desc(1, 64)).is_err(), "too small");
        let _ = gpu.only_hazard(HazardKind::OutOfRange);
        assert_eq!(gpu.device.live(), lives, "nothing is leaked");
        assert!(Create::<Textures>::dedicate(&gpu.device, &texture, &desc(1, 1 << 20)).is_ok());
    }
    gpu.no_hazard();
    assert_eq!(needs.size, 512);
}

#[test]
fn heap_tier_1_insists_on_classes() {
    let gpu = Gpu::new(Profile::d3d12_tier1(), 0);
    let memory = gpu.memory("for buffers", 0, 1 << 20);
    // SAFETY: the simulated device rejects resources that do not fit.
    unsafe {
        let (texture, _) = Create::<Textures>::prepare(&gpu.device, &TextureDesc::default()).unwrap();
        assert!(Create::<Textures>::place(&gpu.device, &texture, &memory, 0).is_err());
        let _ = gpu.only_hazard(HazardKind::Misuse);
    }
}

#[test]
fn heaps_for_multisampling_and_lonely_textures_are_checked() {
    let mut profile = Profile::d3d12_tier1();
    profile.dedicated_required_bytes = 16 << 20;
    let gpu = Gpu::new(profile, 0);
    let usage = TextureUsage::RENDER_TARGET;
    let target = TextureDesc { width: 64, height: 64, samples: 4, usage, ..Default::default() };
    let lonely = TextureDesc { width: 2048, height: 2048, ..Default::default() };
    let cases = [
        (target, 1 << 16, ResourceClass::RenderTarget, Some(HazardKind::Unaligned)),
        (target, 4 << 20, ResourceClass::RenderTarget, None),
        (lonely, 4 << 20, ResourceClass::Texture, Some(HazardKind::Misuse)),
    ];
    for (desc, alignment, class, expected) in cases {
        let memory = MemoryDesc {
            share: None,
            priority: Default::default(),
            memory_type: 0,
            size: 32 << 20,
            alignment,
            class,
            name: "block",
        };
        // SAFETY: the simulated device rejects resources that do not fit.
        unsafe {
            let memory = gpu.device.allocate_memory(&memory).unwrap();
            let (texture, _) = Create::<Textures>::prepare(&gpu.device, &desc).unwrap();
            let placed = Create::<Textures>::place(&gpu.device, &texture, &memory, 0);
            assert_eq!(placed.is_err(), expected.is_some());
        }
        let found: Vec<_> = gpu.device.take_hazards().iter().map(|hazard| hazard.kind).collect();
        assert_eq!(found, Vec::from_iter(expected));
    }
}

#[test]
fn direct3d_insists_on_aligned_texture_copies() {
    let mut gpu = Gpu::new(Profile::d3d12_tier1(), 0);
    let desc = TextureDesc { width: 16, height: 16, ..Default::default() };
    let (texture, _) = gpu.texture("texture", &desc);
    let upload = gpu.host_buffer("upload", 1 << 16);
    let mut upload_to = |offset, row_bytes, mip, x| {
        let region = TextureRegion { mip, x, ..TextureRegion::whole(&desc, 0, 0) };
        let layout = BufferLayout { offset, row_bytes };
        let src = upload.buffer;
        gpu.submit(0, &[], vec![Command::CopyBufferToTexture { src, layout, dst: texture, region }]);
        gpu.device.take_hazards().iter().map(|hazard| hazard.kind).collect::<Vec<_>>()
    };
    assert_eq!(upload_to(512, 256, 0, 0), []);
    assert_eq!(upload_to(256, 256, 0, 0), [HazardKind::Unaligned]);
    assert_eq!(upload_to(512, 64, 0, 0), [HazardKind::Unaligned]);
    assert_eq!(upload_to(512, 0, 0, 0), [HazardKind::Misuse], "rows over each other");
    assert_eq!(upload_to(512, 1 << 60, 0, 0), [HazardKind::OutOfRange]);
    assert_eq!(upload_to(512, 256, 1, 0), [HazardKind::OutOfRange], "no such mip");
    assert_eq!(upload_to(512, 256, 0, 1), [HazardKind::OutOfRange], "beyond the row");
    assert_eq!(upload_to(512, 256, 0, u32::MAX), [HazardKind::OutOfRange]);
}

#[test]
fn queues_and_fences_that_do_not_exist_are_errors() {
    let gpu = Gpu::h200();
    let fence = gpu.device.create_fence(0);
    let submit = |queue, waits: &[_], signal| gpu.device.submit(queue, waits, vec![], signal);
    assert!(matches!(submit(3, &[], (fence, 1)), Err(DeviceError::InvalidInfo(_))));
    let other = Gpu::h200();
    (0..200).for_each(|_| _ = other.device.create_fence(0));
    let unknown = other.device.create_fence(0);
    assert!(matches!(submit(0, &[(unknown, 1)], (fence, 1)), Err(DeviceError::InvalidInfo(_))));
    // SAFETY: the simulated device knows its fences.
    assert!(matches!(unsafe { gpu.device.completed(&unknown) }, Err(DeviceError::InvalidInfo(_))));
}

#[test]
fn kernels_keep_to_what_they_declare() {
    let mut gpu = Gpu::h200();
    let buffer = gpu.host_buffer("kernel", 64);
    gpu.write(buffer, 0, &[1; 64]);
    let kernel = Kernel::new(vec![buffer.range(0, 8)], vec![buffer.range(8, 8)], |memory| {
        memory.writes[0].resize(64, 9);
        memory.writes[0][0] = memory.reads[0][0] + 1;
    });
    let end = gpu.submit(0, &[], vec![Command::Kernel(kernel)]);
    gpu.wait(end);
    let mut expected = [1; 64];
    expected[8] = 2;
    assert_eq!(gpu.read(buffer, 0, 64), expected);
    gpu.no_hazard();
    let wild = Kernel::new(vec![BufferRange::new(buffer.buffer, 60, 8)], vec![], |_| {});
    gpu.submit(0, &[], vec![Command::Kernel(wild)]);
    let _ = gpu.only_hazard(HazardKind::OutOfRange);
}

#[test]
fn empty_and_missing_descriptors_are_found() {
    let mut gpu = Gpu::h200();
    let heap = gpu.device.create_descriptor_heap(2, "bindless");
    let mut use_slot = |slot| {
        let descriptors = vec![DescriptorUse { heap, slot, writes: false }];
        gpu.submit(0, &[], vec![Command::Kernel(Kernel { descriptors, ..Kernel::new(vec![], vec![], |_| {}) })]);
        gpu.device.take_hazards().iter().map(|hazard| hazard.kind).collect::<Vec<_>>()
    };
    assert_eq!(use_slot(0), [HazardKind::OutOfRange]);
    assert_eq!(use_slot(2), [HazardKind::OutOfRange]);
    gpu.device.write_descriptor(heap, 2, None);
    let _ = gpu.only_hazard(HazardKind::OutOfRange);
    gpu.device.destroy_descriptor_heap(heap);
    gpu.no_hazard();
    gpu.device.write_descriptor(heap, 0, None);
    let _ = gpu.only_hazard(HazardKind::Stale);
}

/// On Direct3D 12 memory is not zeroed: before any other use, a target must be cleared, discarded, or be a whole copy
/// destination.
#[test]
fn targets_are_initialised_before_any_other_use() {
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    for kind in [TextureUsage::RENDER_TARGET, TextureUsage::SAMPLED] {
        for profile in [Profile::d3d12_tier1(), Profile::d3d12_modern(), Profile::h200()] {
            let is_found = profile.strict && kind == TextureUsage::RENDER_TARGET;
            let mut gpu = Gpu::new(profile, 1);
            let desc = TextureDesc { width: 64, height: 64, mips: 2, usage: usage | kind, ..Default::default() };
            let bytes = gpu.host_buffer("bytes", 64 << 10).buffer;
            let back = gpu.device_buffer("back", 64 << 10).buffer;
            let layout = BufferLayout { offset: 0, row_bytes: 256 };
            let whole = |mip| TextureRegion::whole(&desc, mip, 0);
            let part = TextureRegion { width: 8, ..whole(0) };
            let fill = |dst, region| Command::CopyBufferToTexture { src: bytes, layout, dst, region };
            let read = |src, region| Command::CopyTextureToBuffer { src, region, dst: back, layout };
            // Any other first use.
            for writes in [true, false] {
                let (texture, _) = gpu.texture("target", &desc);
                gpu.submit(0, &[], vec![if writes { fill(texture, part) } else { read(texture, whole(0)) }]);
                if is_found {
                    let hazard = gpu.only_hazard(HazardKind::Misuse);
                    assert!(hazard.detail.contains("before a clear, a discard or a copy"), "{hazard}");
                }
                gpu.no_hazard();
            }
            // Each subresource must be initialised.
            let (texture, _) = gpu.texture("target", &desc);
            gpu.submit(0, &[], vec![fill(texture, whole(1)), read(texture, whole(1)), read(texture, whole(0))]);
            if is_found {
                let _ = gpu.only_hazard(HazardKind::Misuse);
            }
            gpu.no_hazard();
            if kind == TextureUsage::SAMPLED {
                continue;
            }
            for first in [Command::Clear { texture, value: 3 }, Command::Discard { texture }] {
                gpu.submit(0, &[], vec![first, fill(texture, part), read(texture, whole(0))]);
                gpu.no_hazard();
            }
            // After an aliasing barrier has activated it, it must be initialised again.
            let barrier = Barrier::Aliasing { before: None, after: texture.into() };
            gpu.submit(0, &[], vec![Command::Barrier(barrier), read(texture, whole(0))]);
            if is_found {
                let _ = gpu.only_hazard(HazardKind::Misuse);
            }
            gpu.no_hazard();
        }
    }
}

#[test]
fn only_targets_are_cleared() {
    let mut gpu = Gpu::h200();
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    let (texture, _) = gpu.texture("plain", &TextureDesc { width: 8, height: 8, usage, ..Default::default() });
    gpu.submit(0, &[], vec![Command::Clear { texture, value: 0 }]);
    let _ = gpu.only_hazard(HazardKind::Misuse);
}

/// On Direct3D 12 depth and stencil are separate planes. Drivers align the rows of these planes to 512 bytes.
#[test]
fn rows_of_depth_and_stencil_have_an_alignment_of_their_own() {
    for (format, is_found) in [(Format::D24UnormS8Uint, true), (Format::D32Float, false)] {
        let mut gpu = Gpu::new(Profile::d3d12_modern(), 1);
        let usage = TextureUsage::COPY_DST | TextureUsage::DEPTH_STENCIL;
        let desc = TextureDesc { width: 8, height: 8, usage, format, ..Default::default() };
        let (texture, _) = gpu.texture("depth", &desc);
        let bytes = gpu.host_buffer("bytes", 64 << 10).buffer;
        for (row_bytes, is_short) in [(256, true), (512, false)] {
            let layout = BufferLayout { offset: 0, row_bytes };
            let region = TextureRegion::whole(&desc, 0, 0);
            gpu.submit(0, &[], vec![Command::CopyBufferToTexture { src: bytes, layout, dst: texture, region }]);
            if is_short && is_found {
                let _ = gpu.only_hazard(HazardKind::Unaligned);
            }
            gpu.no_hazard();
        }
    }
}
