//! Heaps of plain sets. Their slots must be cleared when a viewed resource is released. The tests measure the cost of
//! that, and check that a copy on one thread does not restore a view that another thread has cleared.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ringfence::descriptor::{CpuDescriptorHeap, CpuHeapDesc};
use ringfence::device::descriptors::{
    DescriptorModel, Descriptors, HeapDesc, HeapKind, PortableView, TextureView, TextureViewKind, ViewCopy, ViewTypes,
};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, TextureDesc, TextureUsage, Textures};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc};
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Gpu, Options};

use crate::vulkan_backend::rig::skip;

#[test]
fn a_release_does_not_look_at_every_slot_of_every_heap() {
    let options = Options { descriptors: Some(DescriptorModel::PlainSets), ..Options::default() };
    let Ok(gpu) = VulkanGpu::open(&options).inspect_err(skip) else { return };
    assert_eq!(gpu.device().descriptor_support().model, DescriptorModel::PlainSets);
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let desc = BufferDesc { size: 4096, usage: BufferUsage::STORAGE };
    let info = Create::<Buffers>::describe(memory.device(), &desc).expect("a plain buffer");
    let cost = || {
        let begun = Instant::now();
        for _ in 0..1000 {
            drop(memory.create_buffer(&info, AllocationDesc::default()).expect("there is room"));
            memory.reclaim();
        }
        begun.elapsed() / 1000
    };
    _ = cost();
    let without = cost();
    let heap = CpuDescriptorHeap::<_>::new(&memory, CpuHeapDesc { block_slots: 1 << 16, ..Default::default() });
    let heap: CpuDescriptorHeap<_> = heap.expect("a large block");
    let held = heap.allocate(60_000).expect("it is large");
    let with = cost();
    println!("a buffer without views: {without:?} without slots, {with:?} with 65,536 slots");
    assert!(with < without * 8 + Duration::from_micros(20), "{without:?}, {with:?}");
    drop((held, heap, memory));
    _ = gpu.close();
}

#[test]
fn a_copy_of_slots_does_not_bring_back_what_was_released_meanwhile() {
    const SLOTS: u32 = 20_000;
    let options = Options { descriptors: Some(DescriptorModel::PlainSets), ..Options::default() };
    let Ok(gpu) = VulkanGpu::open(&options).inspect_err(skip) else { return };
    let device = gpu.device();
    let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
    let desc = TextureDesc { width: 4, height: 4, usage: TextureUsage::SAMPLED, ..Default::default() };
    let info = Create::<Textures>::describe(&device, &desc).expect("an ordinary texture");
    let texture = memory.create_texture(&info, AllocationDesc::default()).expect("there is room");
    let range = TextureView::new(TextureViewKind::Sampled, 0..1, 0..1);
    let view = PortableView::Texture { object: texture.object(), desc, view: range };
    let view = device.describe_view(&view).expect("it was made to be sampled");
    let heap = |name| {
        let (kind, types) = (HeapKind::Resources, ViewTypes::SAMPLED_TEXTURE);
        let desc = HeapDesc { kind, types, slots: SLOTS, layout_slots: SLOTS, shader_visible: false, name };
        device.make_heap(&desc).expect("a heap").0
    };
    // A release clears the heap that was created first before the other heap.
    let (dst, src) = (heap("to"), heap("from"));
    let rounds = 1000;
    let (begun, done) = (AtomicU32::new(0), AtomicU32::new(0));
    // This loop does not sleep: the other thread must run while slots are copied.
    let reaches = |count: &AtomicU32, round| {
        while count.load(Ordering::Acquire) < round {
            std::hint::spin_loop();
        }
    };
    let brought_back = std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=rounds {
                reaches(&begun, round);
                let now = Instant::now();
                while now.elapsed() < Duration::from_micros(u64::from(round % 100) * 2) {}
                Create::<Textures>::note_retired(&device, texture.object());
                done.store(round, Ordering::Release);
            }
        });
        let round = |round: &u32| {
            // SAFETY: the slots belong to this thread, no work uses them, and the texture is alive.
            unsafe {
                drop(device.write_view(&src, SLOTS - 1, &view).expect("it takes such a view"));
                begun.store(*round, Ordering::Release);
                let copy = ViewCopy { src: &src, src_start: 0, dst: &dst, dst_start: 0, count: SLOTS };
                device.copy_views(&[copy]);
            }
            reaches(&done, *round);
            dst.image_view(SLOTS - 1) != ash::vk::ImageView::null()
        };
        (1..=rounds).filter(round).count()
    });
    // SAFETY: no work uses them.
    unsafe { [src, dst].into_iter().for_each(|heap| device.destroy_heap(heap)) };
    drop((texture, memory));
    _ = gpu.close();
    assert_eq!(brought_back, 0, "of {rounds} rounds");
}
