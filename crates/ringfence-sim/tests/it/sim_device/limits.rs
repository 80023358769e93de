//! Profiles: each keeps its limits, counts its costs, and copies bytes correctly.

use super::gpu::{COPIED, Gpu, copy};
use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, DeviceError, Driver, Format, MemoryDesc, MemoryProperties, ResourceClass,
    TextureDesc, TextureUsage, Textures,
};
use ringfence::sim::{BufferLayout, Command, HazardKind, Profile, TextureRegion};

fn memory(memory_type: u32, size: u64) -> MemoryDesc<'static> {
    MemoryDesc {
        share: None,
        priority: Default::default(),
        memory_type,
        size,
        alignment: 1,
        class: ResourceClass::Buffer,
        name: "",
    }
}

fn try_allocate(gpu: &Gpu, desc: &MemoryDesc<'_>) -> Result<(), DeviceError> {
    // SAFETY: the simulated device refuses a wrong type.
    unsafe { gpu.device.allocate_memory(desc) }.map(|_| ())
}

#[test]
fn every_profile_copies_buffers_and_textures() {
    for profile in Profile::all() {
        let name = profile.name;
        let mut gpu = Gpu::new(profile, 5);
        let upload = gpu.host_buffer("upload", 1 << 16);
        let back = gpu.buffer("back", MemoryProperties::HOST_VISIBLE | MemoryProperties::HOST_CACHED, 1 << 16);
        let near = gpu.device_buffer("near", 1 << 16);
        let bytes: Vec<u8> = (0..1 << 16).map(|at: u32| (at * 7 + at / 251) as u8).collect();
        gpu.write(upload, 0, &bytes);
        let copied = vec![copy(upload.buffer, near.buffer, 1 << 16), copy(near.buffer, back.buffer, 1 << 16)];
        let end = gpu.submit(0, &[], copied);
        gpu.wait(end);
        assert_eq!(gpu.read(back, 0, 1 << 16), bytes, "{name}");

        let desc = TextureDesc {
            width: 64,
            height: 32,
            layers: 2,
            mips: 3,
            format: Format::Rgba16Float,
            usage: TextureUsage::COPY_SRC | TextureUsage::COPY_DST,
            ..Default::default()
        };
        let (texture, texture_memory) = gpu.texture("texture", &desc);
        // Mip 1 is 32 × 16 texels of 8 bytes: rows of 256 bytes, here 512 apart.
        let layout = BufferLayout { offset: 512, row_bytes: 512 };
        let there = TextureRegion { mip: 1, layer: 1, x: 4, y: 2, width: 20, height: 10 };
        let whole = TextureRegion::whole(&desc, 1, 1);
        assert_eq!((whole.width, whole.height), (32, 16));
        let end = gpu.submit(
            1,
            &[],
            vec![
                Command::CopyBufferToTexture { src: upload.buffer, layout, dst: texture, region: there },
                Command::CopyTextureToBuffer { src: texture, region: whole, dst: back.buffer, layout },
            ],
        );
        gpu.wait(end);
        for row in 0..16 {
            let seen = gpu.read(back, 512 + row * 512, 256);
            for (column, texel) in seen.chunks(8).enumerate() {
                let inside = (4..24).contains(&column) && (2..12).contains(&row);
                let expected = if inside {
                    bytes[(row as usize - 1) * 512 + (column - 4) * 8..][..8].to_vec()
                } else {
                    vec![0xcd; 8]
                };
                assert_eq!(texel, expected, "{name}: row {row}, column {column}");
            }
        }
        for owned in [upload, back, near] {
            gpu.destroy(owned.buffer);
            gpu.free(owned.memory);
        }
        // SAFETY: alive, and the wait is over.
        unsafe { Create::<Textures>::destroy(&gpu.device, texture) };
        gpu.free(texture_memory);
        gpu.no_hazard();
        assert_eq!(gpu.device.live(), Default::default(), "{name}");
    }
}

#[test]
fn memory_objects_are_counted() {
    let gpu = Gpu::new(Profile::non_coherent(), 0);
    for _ in 0..64 {
        try_allocate(&gpu, &memory(0, 256)).unwrap();
    }
    assert_eq!(try_allocate(&gpu, &memory(0, 256)), Err(DeviceError::TooManyObjects));
    assert_eq!(gpu.device.live().memories, 64);
}

#[test]
fn heaps_run_full_and_empty_again() {
    let mut profile = Profile::h200();
    profile.capabilities.memory_heaps[0].bytes = 1 << 20;
    profile.capabilities.memory_heaps[1].bytes = 1 << 20;
    let gpu = Gpu::new(profile, 0);
    let first = gpu.memory("first", 1, 700 << 10);
    assert_eq!(try_allocate(&gpu, &memory(4, 400 << 10)), Err(DeviceError::OutOfDeviceMemory), "types share a heap");
    try_allocate(&gpu, &memory(2, 400 << 10)).unwrap();
    assert_eq!(try_allocate(&gpu, &memory(3, 700 << 10)), Err(DeviceError::OutOfHostMemory));
    let budgets = gpu.device.budgets().unwrap();
    assert_eq!((budgets[0].usage_bytes, budgets[0].budget_bytes), (700 << 10, 1 << 20));
    gpu.device.set_budget(0, Some(1 << 19));
    assert_eq!(gpu.device.budgets().unwrap()[0].budget_bytes, 1 << 19);
    gpu.free(first);
    assert_eq!(gpu.device.budgets().unwrap()[0].usage_bytes, 0);
    try_allocate(&gpu, &memory(4, 400 << 10)).unwrap();
    gpu.no_hazard();
}

/// Vulkan forbids a request for more than the size of the heap, whatever the driver would answer.
#[test]
fn a_request_of_more_than_the_heap_has_is_a_mistake() {
    let mut profile = Profile::h200();
    profile.capabilities.memory_heaps[0].bytes = 1 << 20;
    let gpu = Gpu::new(profile, 0);
    let all = gpu.memory("all", 1, 1 << 20);
    assert_eq!(try_allocate(&gpu, &memory(1, 1 << 20)), Err(DeviceError::OutOfDeviceMemory), "full");
    gpu.free(all);
    gpu.no_hazard();
    assert_eq!(try_allocate(&gpu, &memory(1, (1 << 20) + 1)), Err(DeviceError::OutOfDeviceMemory));
    let found = gpu.only_hazard(HazardKind::Misuse);
    assert_eq!(found.detail, "the request is larger than the heap");
}

#[test]
fn objects_have_a_largest_size() {
    let gpu = Gpu::h200();
    let max = gpu.device.capabilities().memory_object_bytes_max;
    assert_eq!(try_allocate(&gpu, &memory(1, max + 1)), Err(DeviceError::OutOfDeviceMemory));
    try_allocate(&gpu, &memory(1, max)).unwrap();
    assert_eq!(Gpu::new(Profile::lavapipe(), 0).device.budgets(), None);
}

#[test]
fn invalid_descriptions_are_refused() {
    let gpu = Gpu::h200();
    let buffers = [BufferDesc { size: 0, usage: COPIED }, BufferDesc { size: 4, usage: BufferUsage::empty() }];
    for desc in buffers {
        // SAFETY: the description holds no pointer.
        let refused = unsafe { Create::<Buffers>::prepare(&gpu.device, &desc) };
        assert!(matches!(refused, Err(DeviceError::InvalidInfo(_))), "{desc:?}");
    }
    let plain = TextureDesc::default();
    let textures = [
        TextureDesc { width: 0, ..plain },
        TextureDesc { width: 20_000, ..plain },
        TextureDesc { width: 8, mips: 5, ..plain },
        TextureDesc { mips: 0, ..plain },
        TextureDesc { layers: u32::MAX, ..plain },
        TextureDesc { samples: 3, ..plain },
        TextureDesc { usage: TextureUsage::empty(), ..plain },
        TextureDesc { usage: TextureUsage::DEPTH_STENCIL, ..plain },
        TextureDesc { usage: TextureUsage::RENDER_TARGET, format: Format::D32Float, ..plain },
    ];
    for desc in textures {
        // SAFETY: the description holds no pointer.
        let refused = unsafe { Create::<Textures>::prepare(&gpu.device, &desc) };
        assert!(matches!(refused, Err(DeviceError::InvalidInfo(_))), "{desc:?}");
    }
    for desc in [memory(5, 64), memory(u32::MAX, 64), memory(1, 0)] {
        assert!(matches!(try_allocate(&gpu, &desc), Err(DeviceError::InvalidInfo(_))), "{desc:?}");
    }
    assert_eq!(gpu.device.live(), Default::default());
}

#[test]
fn large_targets_prefer_memory_of_their_own() {
    let mut profile = Profile::h200();
    profile.dedicated_required_bytes = 64 << 20;
    let gpu = Gpu::new(profile, 0);
    let needs = |side, usage| {
        let desc = TextureDesc { width: side, height: side, usage, ..Default::default() };
        // SAFETY: the description holds no pointer.
        let needs = unsafe { Create::<Textures>::prepare(&gpu.device, &desc) }.unwrap().1;
        (needs.class, needs.prefers_dedicated, needs.requires_dedicated)
    };
    assert_eq!(needs(1024, TextureUsage::RENDER_TARGET), (ResourceClass::RenderTarget, false, false));
    assert_eq!(needs(3072, TextureUsage::RENDER_TARGET), (ResourceClass::RenderTarget, true, false));
    assert_eq!(needs(3072, TextureUsage::SAMPLED), (ResourceClass::Texture, false, false));
    assert_eq!(needs(4096, TextureUsage::SAMPLED), (ResourceClass::Texture, true, true));
}

#[test]
fn calls_are_counted_at_the_profiles_prices() {
    let gpu = Gpu::h200();
    let block = gpu.memory("block", 1, 64 << 20);
    assert_eq!(gpu.device.calls().simulated_ns, 1_153_000);
    gpu.free(block);
    assert_eq!(gpu.device.calls().simulated_ns, 1_153_000 + 614_000);
    let buffer = gpu.host_buffer("counted", 64);
    gpu.flush(buffer, 0, 64);
    let _ = gpu.read(buffer, 0, 4);
    gpu.destroy(buffer.buffer);
    let calls = gpu.device.calls();
    assert_eq!((calls.allocate_memory, calls.free_memory), (2, 1));
    // One of the two buffers was only measured.
    assert_eq!((calls.create_buffer, calls.place, calls.destroy_buffer), (2, 1, 2));
    assert_eq!((calls.flush, calls.flush_bytes, calls.read_back), (1, 64, 1));
    assert_eq!((gpu.device.live().buffers, gpu.device.live().memories), (0, 1));
}
