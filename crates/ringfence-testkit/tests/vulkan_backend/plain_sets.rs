//! Heaps of plain sets, whose slots must not outlive what they show: what that costs.

use std::time::Instant;

use ringfence::descriptor::{CpuDescriptorHeap, CpuHeapDesc};
use ringfence::device::descriptors::{DescriptorModel, Descriptors};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc};
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Gpu, Options};

use crate::rig::skip;

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
    println!("a buffer that no slot shows: {without:?} without slots, {with:?} beside 65,536 of them");
    assert!(with < without * 8 + std::time::Duration::from_micros(20), "{without:?}, {with:?}");
    drop((held, heap, memory));
    _ = gpu.close();
}
