//! Tests of the Direct3D 12 device against the contract of `ringfence::device`, without the library above it.
//!
//! If there is no device, the tests print a note and pass, unless `RINGFENCE_REQUIRE_D3D12` is set.

mod barriers;
mod recycled;
mod residency;
mod volumes;

use std::time::{Duration, Instant};

use ringfence::d3d12::{Device, Memory, ResourceInfo};
use ringfence::descriptor::View;
use ringfence::device::descriptors::{BufferView, BufferViewKind};
use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, DeviceError, Driver, Format, Kind, Mapped, MemoryDesc, MemoryProperties,
    Placed, Requirements, ResourceClass, TextureDesc, TextureUsage, Textures,
};
use ringfence::transient::TransientDesc;
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, TransientAllocator};
use ringfence_testkit::d3d12::{D3d12Gpu, enumerate};
use ringfence_testkit::{Command, Gpu, OpenError, Options, TextureRegion};
use windows::Win32::Graphics::Direct3D12::{
    D3D12_COMMAND_LIST_TYPE_DIRECT, D3D12_FENCE_FLAG_NONE, D3D12_HEAP_TYPE, D3D12_HEAP_TYPE_DEFAULT,
    D3D12_HEAP_TYPE_READBACK, D3D12_HEAP_TYPE_UPLOAD, ID3D12CommandAllocator, ID3D12Fence, ID3D12GraphicsCommandList,
    ID3D12Resource,
};

const MEBIBYTE: u64 = 1 << 20;
const COPIED: BufferUsage = BufferUsage::COPY_SRC.union(BufferUsage::COPY_DST);

/// Opens a device. Returns `None` if there is no device and none is required.
fn open(queues: usize) -> Option<D3d12Gpu> {
    match D3d12Gpu::open(&Options { queues, validation: true, ..Options::default() }) {
        Ok(gpu) => Some(gpu),
        Err(OpenError::Absent(what)) if std::env::var_os("RINGFENCE_REQUIRE_D3D12").is_none() => {
            ringfence_testkit::report::skipped(what);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Asserts that the debug layer, if it is active, reported no message.
fn assert_silent(gpu: &mut D3d12Gpu) {
    assert_eq!(gpu.take_messages(), Vec::<String>::new());
}

/// Runs commands and waits for them.
fn run(gpu: &mut D3d12Gpu, commands: &[Command<Device>]) {
    let device = gpu.device();
    // SAFETY: the fence belongs to this device and is alive.
    let value = unsafe { device.completed(&gpu.fence(0)) }.unwrap() + 1;
    gpu.submit(0, &[], commands, value).unwrap();
    gpu.wait_idle().unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { device.completed(&gpu.fence(0)) }.unwrap(), value);
}

fn memory_type(device: &Device, heap_type: D3D12_HEAP_TYPE) -> u32 {
    let index = device.memory_type(heap_type).expect("every device has the heap type");
    assert_eq!(device.heap_type(index), Some(heap_type));
    index
}

fn buffer_desc(size: u64) -> BufferDesc {
    BufferDesc { size, usage: COPIED }
}

fn measured<K: Kind>(device: &Device, desc: &K::Desc) -> (ResourceInfo, Requirements)
where
    Device: for<'a> Create<K, Info<'a> = ResourceInfo, Unplaced = ResourceInfo>,
{
    let info = device.describe(desc).unwrap();
    // SAFETY: the description holds no pointer.
    unsafe { device.prepare(&info) }.unwrap()
}

fn heap(device: &Device, memory_type: u32, size: u64, class: ResourceClass) -> Result<Memory, DeviceError> {
    let desc = MemoryDesc {
        share: None,
        priority: Default::default(),
        memory_type,
        size,
        alignment: 1,
        class,
        name: "a heap of the test",
    };
    // SAFETY: the memory type is one of the device's.
    unsafe { device.allocate_memory(&desc) }
}

/// Creates a resource with its own memory.
fn dedicated<K: Kind>(device: &Device, desc: &K::Desc, memory_type: u32) -> (Placed<ID3D12Resource>, Memory)
where
    Device: for<'a> Create<K, Info<'a> = ResourceInfo, Unplaced = ResourceInfo, Object = ID3D12Resource>,
{
    let (unplaced, needs) = measured::<K>(device, desc);
    assert_ne!(needs.memory_type_bits & (1 << memory_type), 0);
    let memory = MemoryDesc {
        share: None,
        priority: Default::default(),
        memory_type,
        size: needs.size,
        alignment: needs.alignment,
        class: needs.class,
        name: "a committed resource of the test",
    };
    // SAFETY: the description was just measured, and its requirements allow the memory type.
    unsafe { device.dedicate(&unplaced, &memory) }.unwrap()
}

fn write(mapped: Mapped, bytes: &[u8]) {
    // SAFETY: the tests map at least as many bytes, and no other code uses them.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), mapped.as_ptr(), bytes.len()) };
}

fn read(device: &Device, memory: &Memory, mapped: Mapped, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    // SAFETY: the tests map at least as many bytes.
    unsafe { device.read_back(memory, 0, mapped, &mut bytes) }.unwrap();
    bytes
}

/// Returns bytes that differ from their neighbours.
fn pattern(count: usize, seed: u32) -> Vec<u8> {
    (0..count as u32).map(|index| (index.wrapping_add(seed).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn a_device_says_what_it_is() {
    let Some(gpu) = open(1) else { return };
    let device = gpu.device();
    let capabilities = device.capabilities();
    eprintln!("{capabilities:#?}\n{:#?}\n{:?}", device.features(), device.budgets());
    assert!(!capabilities.name.is_empty());
    let heap_count = if device.features().unified_memory { 1 } else { 2 };
    assert_eq!(capabilities.memory_heaps.len(), heap_count);
    assert!(capabilities.memory_heaps.iter().all(|heap| heap.bytes > 0));
    assert!(capabilities.memory_types.iter().all(|held| (held.heap as usize) < heap_count));
    let groups = if device.features().mixed_heaps { [0, 0, 0] } else { [0, 1, 2] };
    assert_eq!(capabilities.class_groups, groups);
    let upload = capabilities.properties(memory_type(&device, D3D12_HEAP_TYPE_UPLOAD));
    assert!(upload.contains(MemoryProperties::HOST_VISIBLE | MemoryProperties::HOST_COHERENT));
    let readback = capabilities.properties(memory_type(&device, D3D12_HEAP_TYPE_READBACK));
    assert!(readback.contains(MemoryProperties::HOST_VISIBLE | MemoryProperties::HOST_CACHED));
    let default = capabilities.properties(memory_type(&device, D3D12_HEAP_TYPE_DEFAULT));
    assert!(default.contains(MemoryProperties::DEVICE_LOCAL));
    assert!(!(0..4).any(|index| capabilities.needs_flush(index)));
    assert_eq!((capabilities.texture_copy_offset_alignment, capabilities.texture_copy_row_alignment), (512, 256));
    assert_eq!(capabilities.constant_alignment, 256);
    assert!([256, 512].contains(&capabilities.depth_stencil_copy_row_alignment));
}

#[test]
fn a_device_is_found_again_by_name_and_without_its_adapter() {
    let Some(gpu) = open(1) else { return };
    let device = gpu.device();
    let name = &device.capabilities().name;
    assert!(enumerate().unwrap().iter().any(|found| &found.capabilities().name == name));
    let options = Options { name: Some(name.to_uppercase()), ..Options::default() };
    assert_eq!(&D3d12Gpu::open(&options).unwrap().device().capabilities().name, name);
    let no_adapter = Options { name: Some("no adapter is called so".into()), ..Options::default() };
    assert!(matches!(D3d12Gpu::open(&no_adapter), Err(OpenError::Absent(_))));
    let by_luid = Device::new(device.raw(), None).unwrap();
    assert_eq!(by_luid.features(), device.features());
    assert_eq!(by_luid.capabilities(), device.capabilities());
}

#[test]
fn budgets_are_reported_for_each_memory_heap() {
    let Some(gpu) = open(1) else { return };
    let device = gpu.device();
    let Some(budgets) = device.budgets() else {
        assert!(device.adapter().is_none(), "an adapter that supports budgets reports them");
        return ringfence_testkit::report::skipped("the device's adapter does not report budgets");
    };
    assert_eq!(budgets.len(), device.capabilities().memory_heaps.len());
    assert!(budgets.iter().any(|budget| budget.budget_bytes > 0));
}

#[test]
fn buffers_are_placed_in_heaps_of_every_type() {
    let Some(mut gpu) = open(1) else { return };
    let device = gpu.device();
    let (unplaced, needs) = measured::<Buffers>(&device, &buffer_desc(1000));
    assert!(needs.size >= 1000 && needs.alignment.is_power_of_two());
    assert_eq!(needs.class, ResourceClass::Buffer);
    for index in 0..device.capabilities().memory_types.len() as u32 {
        assert_ne!(needs.memory_type_bits & (1 << index), 0);
        let memory = heap(&device, index, MEBIBYTE, ResourceClass::Buffer).unwrap();
        assert!(memory.heap().is_some());
        assert_eq!((memory.memory_type(), memory.size()), (index, MEBIBYTE));
        let host_visible = device.capabilities().properties(index).contains(MemoryProperties::HOST_VISIBLE);
        // SAFETY: just measured; the offsets are aligned and inside the heap; each is destroyed once, before the heap.
        unsafe {
            let first = Create::<Buffers>::place(&device, &unplaced, &memory, 0).unwrap();
            let second = Create::<Buffers>::place(&device, &unplaced, &memory, 4 * needs.alignment).unwrap();
            assert_eq!((first.mapped.is_some(), second.mapped.is_some()), (host_visible, host_visible));
            if let (Some(first), Some(second)) = (first.mapped, second.mapped) {
                write(first, &pattern(1000, 1));
                write(second, &pattern(1000, 2));
                assert_eq!(read(&device, &memory, first, 1000), pattern(1000, 1));
                assert_eq!(read(&device, &memory, second, 1000), pattern(1000, 2));
            }
            Create::<Buffers>::destroy(&device, first.object);
            Create::<Buffers>::destroy(&device, second.object);
            device.free_memory(memory);
        }
    }
    assert_silent(&mut gpu);
}

#[test]
fn a_heap_has_room_for_aliases_of_each_class() {
    let Some(mut gpu) = open(1) else { return };
    let device = gpu.device();
    let plain = TextureDesc { width: 256, height: 256, ..TextureDesc::default() };
    let target = TextureDesc { usage: TextureUsage::RENDER_TARGET | TextureUsage::SAMPLED, ..plain };
    let depth = TextureDesc { usage: TextureUsage::DEPTH_STENCIL, format: Format::D32Float, ..plain };
    let sampled_depth = TextureDesc { usage: TextureUsage::DEPTH_STENCIL | TextureUsage::SAMPLED, ..depth };
    for desc in [plain, target, depth, sampled_depth] {
        let (unplaced, needs) = measured::<Textures>(&device, &desc);
        let drawn = desc.usage.intersects(TextureUsage::RENDER_TARGET | TextureUsage::DEPTH_STENCIL);
        let class = if drawn { ResourceClass::RenderTarget } else { ResourceClass::Texture };
        assert_eq!(needs.class, class);
        assert_eq!(needs.memory_type_bits, 1 << memory_type(&device, D3D12_HEAP_TYPE_DEFAULT));
        let memory = heap(&device, 0, 4 * MEBIBYTE, needs.class).unwrap();
        // SAFETY: just measured; both are at the start of a larger heap; each is destroyed once, before the heap.
        unsafe {
            let one = Create::<Textures>::place(&device, &unplaced, &memory, 0).unwrap();
            let other = Create::<Textures>::place(&device, &unplaced, &memory, 0).unwrap();
            assert!(one.mapped.is_none() && other.mapped.is_none());
            assert_ne!(one.object, other.object);
            Create::<Textures>::destroy(&device, one.object);
            Create::<Textures>::destroy(&device, other.object);
            device.free_memory(memory);
        }
    }
    // For targets without a clear value, the debug layer warns that clears are slow. It may report nothing else.
    let said = gpu.take_messages();
    assert!(said.iter().all(|message| message.to_lowercase().contains("clear")), "{said:?}");
}

#[test]
fn small_textures_are_packed_at_4_kib() {
    let Some(mut gpu) = open(1) else { return };
    let device = gpu.device();
    let desc = TextureDesc { width: 64, height: 64, ..TextureDesc::default() };
    let (unplaced, needs) = measured::<Textures>(&device, &desc);
    // With tight alignment, the driver chooses size and alignment, and may need less.
    if device.features().tight_alignment {
        assert!(needs.size >= 16 << 10 && needs.alignment <= 4 << 10, "{needs:?}");
    } else {
        assert_eq!((needs.size, needs.alignment), (16 << 10, 4 << 10));
    }
    let memory = heap(&device, 0, MEBIBYTE, ResourceClass::Texture).unwrap();
    let each = needs.size.next_multiple_of(needs.alignment);
    let textures = [0, each, 2 * each]
        // SAFETY: just measured; the ranges are inside the heap, aligned and disjoint; each is destroyed once, before
        // the heap.
        .map(|offset| unsafe { Create::<Textures>::place(&device, &unplaced, &memory, offset) }.unwrap().object);
    let contents: Vec<_> = (0..3).map(|seed| pattern(64 * 64 * 4, seed)).collect();
    for (texture, content) in textures.iter().zip(&contents) {
        upload_texture(&mut gpu, texture, 64, 64, content);
    }
    for (texture, content) in textures.iter().zip(&contents) {
        assert_eq!(&download_texture(&mut gpu, texture, 64, 64), content);
    }
    for texture in textures {
        // SAFETY: no pending work uses it.
        unsafe { Create::<Textures>::destroy(&device, texture) };
    }
    // SAFETY: it contains no resources.
    unsafe { device.free_memory(memory) };
    assert_silent(&mut gpu);
}

#[test]
fn larger_and_multisampled_textures_have_larger_alignments() {
    let Some(gpu) = open(1) else { return };
    let device = gpu.device();
    let large = TextureDesc { width: 512, height: 512, ..TextureDesc::default() };
    let usage = TextureUsage::RENDER_TARGET;
    let multisampled = TextureDesc { width: 1024, height: 1024, samples: 4, usage, ..large };
    for desc in [large, multisampled] {
        let (unplaced, needs) = measured::<Textures>(&device, &desc);
        assert!(needs.alignment >= 64 << 10 || device.features().tight_alignment, "{needs:?}");
        let memory = MemoryDesc {
            share: None,
            priority: Default::default(),
            memory_type: 0,
            size: needs.size,
            alignment: needs.alignment,
            class: needs.class,
            name: "aligned for its resources",
        };
        // SAFETY: just measured; at the start of a heap of its size; destroyed once, before the heap.
        unsafe {
            let memory = device.allocate_memory(&memory).unwrap();
            let placed = Create::<Textures>::place(&device, &unplaced, &memory, 0).unwrap();
            Create::<Textures>::destroy(&device, placed.object);
            device.free_memory(memory);
        }
    }
}

#[test]
fn bytes_go_up_across_and_back() {
    let Some(mut gpu) = open(1) else { return };
    let device = gpu.device();
    const SIZE: u64 = 300_000;
    let [upload, middle, back] = [D3D12_HEAP_TYPE_UPLOAD, D3D12_HEAP_TYPE_DEFAULT, D3D12_HEAP_TYPE_READBACK]
        .map(|heap_type| dedicated::<Buffers>(&device, &buffer_desc(SIZE), memory_type(&device, heap_type)));
    assert!(upload.1.heap().is_none());
    let bytes = pattern(SIZE as usize, 3);
    write(upload.0.mapped.unwrap(), &bytes);
    let [src, across, dst] = [&upload, &middle, &back].map(|(placed, _)| placed.object.clone());
    let copy = |src: &ID3D12Resource, src_offset, dst: &ID3D12Resource, dst_offset, size| Command::CopyBuffer {
        src: src.clone(),
        src_offset,
        dst: dst.clone(),
        dst_offset,
        size,
    };
    let fill = Command::FillBuffer { dst: across.clone(), offset: 100_000, size: 80_000, value: 0x0403_0201 };
    let commands = [
        copy(&src, 0, &across, 0, SIZE),
        fill,
        copy(&across, 0, &across, 200_000, 4000), // within one buffer
        copy(&across, 0, &dst, 0, SIZE),
    ];
    for _ in 0..3 {
        run(&mut gpu, &commands); // the second run reuses the first one's list
    }
    let mut expected = bytes.clone();
    expected[100_000..180_000].copy_from_slice(&[1, 2, 3, 4].repeat(20_000));
    expected[200_000..204_000].copy_from_slice(&bytes[..4000]);
    assert!(read(&device, &back.1, back.0.mapped.unwrap(), SIZE as usize) == expected);
    for (placed, memory) in [upload, middle, back] {
        // SAFETY: no pending work uses it.
        unsafe {
            Create::<Buffers>::destroy(&device, placed.object);
            device.free_memory(memory);
        }
    }
    assert_silent(&mut gpu);
}

/// Returns the distance between rows in a buffer, in bytes, aligned for the device.
fn row_bytes(width: u32) -> u64 {
    (u64::from(width) * 4).next_multiple_of(256)
}

fn region(width: u32, height: u32) -> TextureRegion {
    let row_bytes = row_bytes(width);
    TextureRegion { buffer_offset: 512, row_bytes, mip: 0, layer: 0, width, height, texel_bytes: 4 }
}

fn upload_texture(gpu: &mut D3d12Gpu, texture: &ID3D12Resource, width: u32, height: u32, texels: &[u8]) {
    let device = gpu.device();
    let region = region(width, height);
    let desc = buffer_desc(region.buffer_offset + region.row_bytes * u64::from(height));
    let (placed, memory) = dedicated::<Buffers>(&device, &desc, memory_type(&device, D3D12_HEAP_TYPE_UPLOAD));
    for (row, bytes) in texels.chunks(width as usize * 4).enumerate() {
        // SAFETY: the row is inside the buffer.
        write(unsafe { placed.mapped.unwrap().add(region.buffer_offset + row as u64 * region.row_bytes) }, bytes);
    }
    let dst = texture.clone();
    run(gpu, &[Command::CopyBufferToTexture { src: placed.object.clone(), dst, region, discard: true }]);
    // SAFETY: no pending work uses it.
    unsafe {
        Create::<Buffers>::destroy(&device, placed.object);
        device.free_memory(memory);
    }
}

fn download_texture(gpu: &mut D3d12Gpu, texture: &ID3D12Resource, width: u32, height: u32) -> Vec<u8> {
    let device = gpu.device();
    let region = region(width, height);
    let desc = buffer_desc(region.buffer_offset + region.row_bytes * u64::from(height));
    let (placed, memory) = dedicated::<Buffers>(&device, &desc, memory_type(&device, D3D12_HEAP_TYPE_READBACK));
    let src = texture.clone();
    run(gpu, &[Command::CopyTextureToBuffer { src, dst: placed.object.clone(), region }]);
    let bytes = read(&device, &memory, placed.mapped.unwrap(), desc.size as usize);
    // SAFETY: no pending work uses it.
    unsafe {
        Create::<Buffers>::destroy(&device, placed.object);
        device.free_memory(memory);
    }
    let rows = bytes[region.buffer_offset as usize..].chunks(region.row_bytes as usize);
    rows.flat_map(|row| row[..width as usize * 4].to_vec()).collect()
}

#[test]
fn texels_make_the_round_trip() {
    let Some(mut gpu) = open(1) else { return };
    let device = gpu.device();
    let copied = TextureUsage::COPY_SRC | TextureUsage::COPY_DST | TextureUsage::SAMPLED;
    for usage in [copied, copied | TextureUsage::STORAGE, copied | TextureUsage::RENDER_TARGET] {
        let desc = TextureDesc { width: 100, height: 37, usage, ..TextureDesc::default() };
        let (placed, memory) = dedicated::<Textures>(&device, &desc, 0);
        let texels = pattern(100 * 37 * 4, 4);
        upload_texture(&mut gpu, &placed.object, 100, 37, &texels);
        assert!(download_texture(&mut gpu, &placed.object, 100, 37) == texels);
        // SAFETY: no pending work uses it.
        unsafe {
            Create::<Textures>::destroy(&device, placed.object);
            device.free_memory(memory);
        }
    }
}

#[test]
fn aliases_at_one_offset_share_their_bytes_in_turn() {
    let Some(mut gpu) = open(1) else { return };
    let device = gpu.device();
    let desc = TextureDesc { width: 128, height: 128, ..TextureDesc::default() };
    let (unplaced, needs) = measured::<Textures>(&device, &desc);
    let memory = heap(&device, 0, needs.size.max(MEBIBYTE), ResourceClass::Texture).unwrap();
    let [one, other] =
        // SAFETY: just measured; both are inside the heap, at its start.
        [(); 2].map(|()| unsafe { Create::<Textures>::place(&device, &unplaced, &memory, 0) }.unwrap().object);
    for (seed, texture) in [&one, &other, &one].into_iter().enumerate() {
        let texels = pattern(128 * 128 * 4, seed as u32);
        upload_texture(&mut gpu, texture, 128, 128, &texels);
        assert!(download_texture(&mut gpu, texture, 128, 128) == texels);
    }
    // SAFETY: no pending work uses them.
    unsafe {
        Create::<Textures>::destroy(&device, one);
        Create::<Textures>::destroy(&device, other);
        device.free_memory(memory);
    }
}

#[test]
fn a_fence_is_waited_for_no_longer_than_asked() {
    let Some(gpu) = open(1) else { return };
    let device = gpu.device();
    // SAFETY: the object is alive.
    let fence: ID3D12Fence = unsafe { device.raw().CreateFence(5, D3D12_FENCE_FLAG_NONE) }.unwrap();
    let wait = |value, timeout_ms| {
        // SAFETY: the fence belongs to this device and is alive.
        unsafe { device.wait(&fence, value, Duration::from_millis(timeout_ms)) }
    };
    // SAFETY: as above.
    assert_eq!(unsafe { device.completed(&fence) }, Ok(5));
    assert_eq!(wait(5, 0), Ok(true));
    assert_eq!(wait(6, 0), Ok(false));
    let start = Instant::now();
    assert_eq!(wait(6, 50), Ok(false));
    assert!(start.elapsed() >= Duration::from_millis(50));
    // The driver will still signal the event of the wait above for value 6. The wait for 8 reuses the event, and the
    // signal for 6 must not end it.
    std::thread::scope(|scope| {
        let signal = scope.spawn(|| {
            for value in [6, 7, 8] {
                std::thread::sleep(Duration::from_millis(50));
                // SAFETY: the fence is alive.
                unsafe { fence.Signal(value) }.unwrap();
            }
        });
        assert_eq!(wait(8, 20_000), Ok(true));
        signal.join().unwrap();
    });
    // SAFETY: as above.
    assert_eq!(unsafe { device.completed(&fence) }, Ok(8));
}

#[test]
fn many_threads_wait_for_one_fence() {
    let Some(gpu) = open(1) else { return };
    let device = gpu.device();
    // SAFETY: the object is alive.
    let fence: ID3D12Fence = unsafe { device.raw().CreateFence(0, D3D12_FENCE_FLAG_NONE) }.unwrap();
    std::thread::scope(|scope| {
        for value in 1..=4 {
            let (device, fence) = (&device, &fence);
            // SAFETY: the fence belongs to this device and is alive.
            scope.spawn(move || assert_eq!(unsafe { device.wait(fence, value, Duration::MAX) }, Ok(true)));
        }
        for value in 1..=4 {
            std::thread::sleep(Duration::from_millis(10));
            // SAFETY: the fence is alive.
            unsafe { fence.Signal(value) }.unwrap();
        }
    });
}

#[test]
fn the_largest_fence_value_is_a_lost_device() {
    let Some(gpu) = open(1) else { return };
    let device = gpu.device();
    // SAFETY: the object is alive.
    let fence: ID3D12Fence = unsafe { device.raw().CreateFence(1, D3D12_FENCE_FLAG_NONE) }.unwrap();
    // SAFETY: the fence is alive. A removed device signals it with this value.
    unsafe { fence.Signal(u64::MAX) }.unwrap();
    // SAFETY: the fence belongs to this device and is alive.
    assert_eq!(unsafe { device.completed(&fence) }, Err(DeviceError::Lost));
    // SAFETY: as above.
    assert_eq!(unsafe { device.wait(&fence, 2, Duration::ZERO) }, Err(DeviceError::Lost));
}

#[test]
fn queues_wait_for_each_other() {
    let Some(mut gpu) = open(3) else { return };
    let device = gpu.device();
    let last = gpu.queue_count() - 1;
    let (across, across_memory) = dedicated::<Buffers>(&device, &buffer_desc(4096), 0);
    let readback = memory_type(&device, D3D12_HEAP_TYPE_READBACK);
    let (back, back_memory) = dedicated::<Buffers>(&device, &buffer_desc(4096), readback);
    let fill = Command::FillBuffer { dst: across.object.clone(), offset: 0, size: 4096, value: 7 };
    let copy = Command::CopyBuffer {
        src: across.object.clone(),
        src_offset: 0,
        dst: back.object.clone(),
        dst_offset: 0,
        size: 4096,
    };
    gpu.submit(0, &[], &[fill], 10).unwrap();
    let signal = if last == 0 { 20 } else { 5 };
    gpu.submit(last, &[(0, 10)], &[copy], signal).unwrap();
    // SAFETY: the fence belongs to this device and is alive.
    assert_eq!(unsafe { device.wait(&gpu.fence(last), signal, Duration::from_secs(20)) }, Ok(true));
    assert_eq!(read(&device, &back_memory, back.mapped.unwrap(), 4096), [7, 0, 0, 0].repeat(1024));
    gpu.wait_idle().unwrap();
    for (object, memory) in [(across.object, across_memory), (back.object, back_memory)] {
        // SAFETY: no pending work uses it.
        unsafe {
            Create::<Buffers>::destroy(&device, object);
            device.free_memory(memory);
        }
    }
    assert_silent(&mut gpu);
}

#[test]
fn objects_are_named() {
    let Some(mut gpu) = open(1) else { return };
    let device = gpu.device();
    let (placed, memory) = dedicated::<Buffers>(&device, &buffer_desc(16), 0);
    for name in ["vertices", "", "Prüfung 試験", "with\0a zero"] {
        // SAFETY: the object belongs to this device and is alive.
        unsafe { Create::<Buffers>::set_name(&device, &placed.object, name) };
    }
    // SAFETY: no work uses it.
    unsafe {
        Create::<Buffers>::destroy(&device, placed.object);
        device.free_memory(memory);
    }
    assert_silent(&mut gpu);
}

#[test]
fn what_cannot_be_is_a_typed_error() {
    let Some(gpu) = open(1) else { return };
    let device = gpu.device();
    assert!(matches!(heap(&device, 0, 0, ResourceClass::Buffer), Err(DeviceError::InvalidInfo(_))));
    assert!(matches!(heap(&device, 99, MEBIBYTE, ResourceClass::Buffer), Err(DeviceError::InvalidInfo(_))));
    for size in [u64::MAX, 1 << 62, 1 << 50] {
        let error = heap(&device, 0, size, ResourceClass::Buffer).unwrap_err();
        assert!(error.is_out_of_memory(), "{size}: {error}");
    }
    let info = |desc: &BufferDesc| Create::<Buffers>::describe(&device, desc).unwrap();
    // Both portable descriptions and descriptions of the API are refused.
    assert!(matches!(Create::<Buffers>::describe(&device, &buffer_desc(0)), Err(DeviceError::InvalidInfo(_))));
    let (mut nothing, mut flat) =
        (info(&buffer_desc(16)), Create::<Textures>::describe(&device, &TextureDesc::default()).unwrap());
    (nothing.desc.Width, flat.desc.Width) = (0, 0);
    // SAFETY: the descriptions hold no pointer.
    unsafe {
        let nothing = Create::<Buffers>::prepare(&device, &nothing);
        assert!(matches!(nothing, Err(DeviceError::InvalidInfo(_))));
        let other_kind = Create::<Textures>::prepare(&device, &info(&buffer_desc(16)));
        assert!(matches!(other_kind, Err(DeviceError::InvalidInfo(_))));
        for size in [u64::MAX, 1 << 62] {
            let absurd = Create::<Buffers>::prepare(&device, &info(&buffer_desc(size))).map(|(_, needs)| needs);
            assert!(absurd.is_err(), "{absurd:?}");
        }
        assert!(matches!(Create::<Textures>::prepare(&device, &flat), Err(DeviceError::InvalidInfo(_))));
    }
    let drawn_depth = TextureDesc {
        format: Format::D32Float,
        usage: TextureUsage::DEPTH_STENCIL | TextureUsage::STORAGE,
        ..TextureDesc::default()
    };
    let drawn_depth = Create::<Textures>::describe(&device, &drawn_depth);
    assert!(matches!(drawn_depth, Err(DeviceError::Unsupported(_))));
    // The device works after the refusals.
    // SAFETY: it contains no resources.
    unsafe { device.free_memory(heap(&device, 0, MEBIBYTE, ResourceClass::Buffer).unwrap()) };
}

#[test]
fn buffers_that_shaders_write_stay_with_the_device() {
    let Some(gpu) = open(1) else { return };
    let device = gpu.device();
    let desc = BufferDesc { size: 4096, usage: COPIED | BufferUsage::STORAGE };
    let (_, needs) = measured::<Buffers>(&device, &desc);
    assert_ne!(needs.memory_type_bits & (1 << memory_type(&device, D3D12_HEAP_TYPE_DEFAULT)), 0);
    for heap_type in [D3D12_HEAP_TYPE_UPLOAD, D3D12_HEAP_TYPE_READBACK] {
        assert_eq!(needs.memory_type_bits & (1 << memory_type(&device, heap_type)), 0);
    }
}

/// A command list accepts the barriers of each pass. One object is used twice, another object reuses its bytes, and the
/// first is used again.
#[test]
fn the_barriers_of_transient_memory_are_recorded() {
    let Some(mut gpu) = open(1) else { return };
    let device = gpu.device();
    let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    // SAFETY: the fence lives as long as the device, and no work is submitted.
    let timeline = unsafe { memory.timeline(gpu.fence(0)) }.unwrap();
    let mut transient = TransientAllocator::new(&memory, TransientDesc::default());
    let own: ID3D12CommandAllocator =
        // SAFETY: the device is alive.
        unsafe { device.raw().CreateCommandAllocator(D3D12_COMMAND_LIST_TYPE_DIRECT) }.unwrap();
    let list: ID3D12GraphicsCommandList =
        // SAFETY: as above; only this thread records the list, and the list's allocator is dropped after it.
        unsafe { device.raw().CreateCommandList(0, D3D12_COMMAND_LIST_TYPE_DIRECT, &own, None) }.unwrap();
    let mut execution = transient.begin();
    let mut recorded = Vec::new();
    for size in [4096, 4096, 1 << 20, 4096] {
        let pass = execution.pass(timeline.id(), &[]).unwrap();
        let desc = BufferDesc { size, usage: BufferUsage::STORAGE };
        let info = Create::<Buffers>::describe(&device, &desc).unwrap();
        let held = execution.acquire_buffer(&info, pass, "").unwrap();
        let barriers = execution.barriers().iter().filter(|barrier| barrier.pass == pass);
        recorded.push(barriers.flat_map(|barrier| barrier.on_direct3d_12()).count());
        // SAFETY: the list is open, and belongs to this device and this thread.
        unsafe { execution.record_barriers(pass, &list) };
        execution.discard(held, &[]).unwrap();
    }
    assert_eq!(recorded, [0, 1, 2, 2], "no barrier; unordered access; unordered access and aliasing, twice");
    // SAFETY: the list is open.
    unsafe { list.Close() }.expect("the recorded commands are valid");
    drop((list, own, execution));
    assert_silent(&mut gpu);
}

#[test]
fn constants_and_addresses_are_aligned_in_memory() {
    let Some(mut gpu) = open(1) else { return };
    let device = gpu.device();
    let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    for size in [100, 300, 100, 20] {
        for usage in [BufferUsage::CONSTANT, BufferUsage::DEVICE_ADDRESS, BufferUsage::VERTEX] {
            let info = Create::<Buffers>::describe(&device, &BufferDesc { size, usage }).unwrap();
            let buffer = memory.create_buffer(&info, AllocationDesc::default()).unwrap();
            let alignment_min = if usage == BufferUsage::VERTEX { 16 } else { 256 };
            // SAFETY: a call without arguments on a live object.
            let address = unsafe { buffer.raw().GetGPUVirtualAddress() };
            assert_eq!((buffer.offset() % alignment_min, address % alignment_min), (0, 0));
            let constants = BufferView { kind: BufferViewKind::Constants, offset: 0, size: 16 };
            if usage == BufferUsage::CONSTANT {
                View::buffer(&buffer, constants).expect("a view of it ends inside");
            }
        }
    }
    drop(memory);
    assert_silent(&mut gpu);
}
