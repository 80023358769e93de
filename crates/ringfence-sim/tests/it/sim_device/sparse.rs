//! Pages of sparse resources: memory that they may use, and memory that they may not use.

use super::gpu::{COPIED, Gpu};
use ringfence::device::sparse::{PageBind, Sparse, TextureTiling, TilePlace};
use ringfence::device::{BufferDesc, Driver, MemoryDesc, ResourceClass, TextureDesc};
use ringfence::sim::{BufferId as Buffer, HazardKind, Memory, Profile, TextureId as Texture};

fn sparse_buffer(gpu: &Gpu, pages: u64) -> Buffer {
    let size = pages * gpu.device.profile().page_bytes;
    // SAFETY: the description holds no pointer.
    unsafe { gpu.device.make_sparse(&BufferDesc { size, usage: COPIED }) }.expect("the device supports them").0
}

fn sparse_texture(gpu: &Gpu, side: u32) -> (Texture, TextureTiling) {
    let desc = TextureDesc { width: side, height: side, ..Default::default() };
    // SAFETY: the description holds no pointer.
    unsafe { gpu.device.make_sparse_texture(&desc) }.expect("the device supports them")
}

/// Allocates memory for pages of this class.
fn memory_of(gpu: &Gpu, memory_type: u32, class: ResourceClass, pages: u64) -> Memory {
    let (share, priority) = (None, Default::default());
    let size = pages * gpu.device.profile().page_bytes;
    let desc = MemoryDesc { share, priority, memory_type, size, alignment: 64 << 10, class, name: "pages" };
    // SAFETY: the memory type is one of the device's.
    unsafe { gpu.device.allocate_memory(&desc) }.expect("there is room")
}

fn bind_page(gpu: &Gpu, buffer: Buffer, page: u64, memory: (Memory, u64)) {
    let bind = PageBind { first: page, count: 1, memory: Some((&memory.0, memory.1)) };
    let fence = gpu.device.create_fence(0);
    // SAFETY: the simulated device reports any mistake.
    unsafe { gpu.device.bind_pages(&0, (&buffer, 0), &[bind], &[], (fence, 1)) }.expect("it is alive");
}

fn bind_tile(gpu: &Gpu, (texture, tiling): &(Texture, TextureTiling), memory: Memory) {
    let first = TilePlace::Tile { mip: 0, layer: 0, column: 0, row: 0 };
    let bind = PageBind { first, count: 1, memory: Some((&memory, 0)) };
    let fence = gpu.device.create_fence(0);
    // SAFETY: as above.
    unsafe { gpu.device.bind_tiles(&0, (texture, tiling), &[bind], &[], (fence, 1)) }.expect("it is alive");
}

#[test]
fn a_page_in_memory_of_a_wrong_type_is_found() {
    let mut profile = Profile::h200();
    profile.buffer_types = 0b01110;
    let gpu = Gpu::new(profile, 1);
    let buffer = sparse_buffer(&gpu, 2);
    bind_page(&gpu, buffer, 0, (memory_of(&gpu, 1, ResourceClass::Buffer, 1), 0));
    gpu.no_hazard();
    bind_page(&gpu, buffer, 1, (memory_of(&gpu, 0, ResourceClass::Buffer, 1), 0));
    assert_eq!(gpu.only_hazard(HazardKind::Misuse).detail, "memory of a type that the resource does not allow");
    let texture = sparse_texture(&gpu, 256);
    bind_tile(&gpu, &texture, memory_of(&gpu, 2, ResourceClass::Texture, 1));
    assert_eq!(gpu.only_hazard(HazardKind::Misuse).detail, "memory of a type that the resource does not allow");
    bind_tile(&gpu, &texture, memory_of(&gpu, 1, ResourceClass::Texture, 1));
    gpu.no_hazard();
}

#[test]
fn a_page_in_memory_of_another_class_is_found_where_classes_lie_apart() {
    let gpu = Gpu::new(Profile::d3d12_tier1(), 1);
    let (buffer, texture) = (sparse_buffer(&gpu, 1), sparse_texture(&gpu, 256));
    let [for_buffers, for_textures] =
        [ResourceClass::Buffer, ResourceClass::Texture].map(|class| memory_of(&gpu, 0, class, 1));
    bind_page(&gpu, buffer, 0, (for_textures, 0));
    assert_eq!(gpu.only_hazard(HazardKind::Misuse).detail, "memory allocated for another resource class");
    bind_tile(&gpu, &texture, for_buffers);
    assert_eq!(gpu.only_hazard(HazardKind::Misuse).detail, "memory allocated for another resource class");
    bind_page(&gpu, buffer, 0, (for_buffers, 0));
    bind_tile(&gpu, &texture, for_textures);
    gpu.no_hazard();
}

/// The rule applies only to resources that are placed as a whole.
#[test]
fn a_tile_of_a_texture_that_would_need_memory_of_its_own_lies_anywhere() {
    let mut profile = Profile::h200();
    profile.dedicated_required_bytes = 1;
    let gpu = Gpu::new(profile, 1);
    bind_tile(&gpu, &sparse_texture(&gpu, 256), memory_of(&gpu, 1, ResourceClass::Texture, 2));
    gpu.no_hazard();
}

#[test]
fn a_page_beyond_the_end_unaligned_or_in_freed_memory_is_found() {
    let gpu = Gpu::h200();
    let page_bytes = gpu.device.profile().page_bytes;
    let (buffer, memory) = (sparse_buffer(&gpu, 1), memory_of(&gpu, 1, ResourceClass::Buffer, 2));
    for (offset, kind) in [
        (2 * page_bytes, HazardKind::OutOfRange),
        (page_bytes + 256, HazardKind::OutOfRange),
        (256, HazardKind::Unaligned),
        (u64::MAX - 255, HazardKind::OutOfRange),
    ] {
        bind_page(&gpu, buffer, 0, (memory, offset));
        let _ = gpu.only_hazard(kind);
    }
    bind_page(&gpu, buffer, 1, (memory, 0));
    let _ = gpu.only_hazard(HazardKind::OutOfRange);
    bind_page(&gpu, buffer, 0, (memory, page_bytes));
    gpu.no_hazard();
    let freed = memory_of(&gpu, 1, ResourceClass::Buffer, 1);
    gpu.free(freed);
    bind_page(&gpu, buffer, 0, (freed, 0));
    let _ = gpu.only_hazard(HazardKind::Stale);
}

#[test]
fn two_pages_in_the_same_bytes_are_found() {
    let gpu = Gpu::h200();
    let page_bytes = gpu.device.profile().page_bytes;
    let (one, other) = (sparse_buffer(&gpu, 1), sparse_buffer(&gpu, 1));
    let memory = memory_of(&gpu, 1, ResourceClass::Buffer, 2);
    bind_page(&gpu, one, 0, (memory, 0));
    bind_page(&gpu, other, 0, (memory, page_bytes));
    gpu.no_hazard();
    bind_page(&gpu, other, 0, (memory, 0));
    let hazard = gpu.only_hazard(HazardKind::Overlap);
    assert_eq!((hazard.resource.id, hazard.other.map(|held| held.id)), (other.id(), Some(one.id())));
    // A page over a buffer that is placed there is reported too.
    let lying = gpu.place("lying", 256, memory, page_bytes).object;
    bind_page(&gpu, one, 0, (memory, page_bytes));
    assert_eq!(gpu.only_hazard(HazardKind::Overlap).other.map(|held| held.id), Some(lying.id()));
}
