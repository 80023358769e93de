//! Descriptors that a kernel must not use, and views that the device rejects.

use super::gpu::{Gpu, Owned, copy};
use ringfence::device::descriptors::{
    BufferViewKind, Descriptors, HeapDesc, HeapKind, SamplerDesc, ViewCopy, ViewTypes,
};
use ringfence::device::{Buffers, Create, Textures};
use ringfence::sim::{
    BufferId as Buffer, BufferRange, Command, DescriptorHeap, DescriptorUse, Hazard, HazardKind, Kernel, Profile, View,
    What,
};

/// A kernel that sets every byte of the buffer in a slot to 9.
fn through(heap: DescriptorHeap, slot: u32) -> Command {
    let descriptors = vec![DescriptorUse { heap, slot, writes: true }];
    Command::Kernel(Kernel { descriptors, ..Kernel::new(vec![], vec![], |memory| memory.descriptors[0].fill(9)) })
}

/// Returns a buffer 'shown' with a descriptor in slot 3 of a heap 'bindless'.
fn shown() -> (Gpu, Owned, DescriptorHeap) {
    let gpu = Gpu::h200();
    let buffer = gpu.host_buffer("shown", 64);
    gpu.write(buffer, 0, &[1; 64]);
    let heap = gpu.device.create_descriptor_heap(8, "bindless");
    gpu.device.write_descriptor(heap, 3, Some(buffer.range(0, 64)));
    (gpu, buffer, heap)
}

/// Returns the hazard of a kernel that uses a stale descriptor in slot 3.
#[track_caller]
fn stale_through(gpu: &mut Gpu, heap: DescriptorHeap) -> Hazard {
    // A descriptor of a destroyed object may stay in its slot.
    gpu.no_hazard();
    let end = gpu.submit(1, &[], vec![through(heap, 3)]);
    gpu.wait(end);
    let hazard = gpu.only_hazard(HazardKind::Stale);
    assert_eq!((hazard.range.clone(), hazard.queue), (3..4, Some(1)));
    hazard
}

#[test]
fn a_kernel_through_a_slot_of_a_destroyed_buffer_is_stale_and_writes_nothing() {
    let (mut gpu, buffer, heap) = shown();
    gpu.destroy(buffer.buffer);
    let heir = gpu.place("heir", 64, buffer.memory, 0).object;
    let hazard = stale_through(&mut gpu, heap);
    let expected = "buffer 'shown' (slots 3..4 of descriptor heap 'bindless') was used, but is not alive: \
                    a slot still refers to it, by work on queue 1";
    assert_eq!(hazard.to_string(), expected);
    assert_eq!(gpu.device.peek(BufferRange::new(heir, 0, 64)), Some(vec![1; 64]));
    // The slot is written for the new owner.
    gpu.device.write_descriptor(heap, 3, Some(BufferRange::new(heir, 0, 64)));
    let end = gpu.submit(1, &[], vec![through(heap, 3)]);
    gpu.wait(end);
    gpu.no_hazard();
    assert_eq!(gpu.device.peek(BufferRange::new(heir, 0, 64)), Some(vec![9; 64]));
}

#[test]
fn a_kernel_through_a_slot_whose_memory_is_freed_is_stale() {
    let (mut gpu, buffer, heap) = shown();
    gpu.destroy(buffer.buffer);
    gpu.free(buffer.memory);
    assert_eq!(stale_through(&mut gpu, heap).resource.name.as_deref(), Some("shown"));
    let (mut gpu, buffer, heap) = shown();
    gpu.free(buffer.memory);
    let _ = gpu.only_hazard(HazardKind::FreedUnderResource);
    assert_eq!(stale_through(&mut gpu, heap).resource.name.as_deref(), Some("memory of shown"));
}

/// As in a defragmentation: the content has moved, and another buffer has the old range.
#[test]
fn a_kernel_through_a_slot_of_what_was_moved_is_stale() {
    let (mut gpu, buffer, heap) = shown();
    let moved = gpu.host_buffer("moved", 64);
    let end = gpu.submit(1, &[], vec![copy(buffer.buffer, moved.buffer, 64)]);
    gpu.wait(end);
    gpu.destroy(buffer.buffer);
    assert_eq!(stale_through(&mut gpu, heap).resource.name.as_deref(), Some("shown"));
}

#[test]
fn a_kernel_through_a_slot_of_a_recycled_object_is_stale() {
    let (mut gpu, buffer, heap) = shown();
    // SAFETY: alive, and no work uses it.
    let new: Buffer = unsafe { Create::<Buffers>::recycle(&gpu.device, buffer.buffer) };
    let hazard = stale_through(&mut gpu, heap);
    assert_eq!((hazard.resource.what, hazard.resource.id), (What::Buffer, buffer.buffer.id()));
    gpu.device.write_descriptor(heap, 3, Some(BufferRange::new(new, 0, 64)));
    gpu.submit(1, &[], vec![through(heap, 3)]);
    gpu.no_hazard();
}

#[test]
fn a_kernel_through_a_copied_slot_of_a_destroyed_texture_is_stale_and_a_sampler_never_is() {
    let mut gpu = Gpu::h200();
    let (texture, _) = gpu.texture("shown", &Default::default());
    let heap = |kind, shader_visible, name| {
        let types = ViewTypes::all();
        let desc = HeapDesc { kind, types, slots: 4, shader_visible, layout_slots: 4, name };
        gpu.device.make_heap(&desc).expect("it is small").0
    };
    let (source, target) = (heap(HeapKind::Resources, false, "source"), heap(HeapKind::Resources, true, "target"));
    let (samplers, shown) = (heap(HeapKind::Samplers, false, "samplers"), heap(HeapKind::Samplers, true, "shown"));
    let copy = |src, dst| ViewCopy { src, src_start: 3, dst, dst_start: 3, count: 1 };
    // SAFETY: the simulated device reports any mistake.
    unsafe {
        gpu.device.write_view(&source, 3, &View::Texture(texture, HeapKind::Resources)).expect("alive");
        gpu.device.write_view(&samplers, 3, &View::Sampler(SamplerDesc::default())).expect("a sampler");
        Create::<Textures>::destroy(&gpu.device, texture);
        gpu.device.copy_views(&[copy(&source, &target), copy(&samplers, &shown)]);
        gpu.device.destroy_heap(samplers);
    }
    assert_eq!(stale_through(&mut gpu, target).resource.id, texture.id());
    gpu.submit(0, &[], vec![through(shown, 3)]);
    gpu.no_hazard();
}

fn heap(gpu: &Gpu, kind: HeapKind, shader_visible: bool, name: &str) -> DescriptorHeap {
    let desc = HeapDesc { kind, types: ViewTypes::all(), slots: 4, shader_visible, layout_slots: 4, name };
    gpu.device.make_heap(&desc).expect("it is small").0
}

fn copy_slot(gpu: &Gpu, src: DescriptorHeap, dst: DescriptorHeap) {
    let copy = ViewCopy { src: &src, src_start: 3, dst: &dst, dst_start: 3, count: 1 };
    // SAFETY: the simulated device reports any mistake.
    unsafe { gpu.device.copy_views(&[copy]) };
}

/// Returns two heaps with a descriptor of a buffer in slot 3: one that shaders cannot access ('hidden'), and one that
/// they can ('visible').
fn copied() -> (Gpu, [DescriptorHeap; 2]) {
    let gpu = Gpu::h200();
    let buffer = gpu.host_buffer("shown", 64);
    let [hidden, visible] =
        [(false, "hidden"), (true, "visible")].map(|(sees, name)| heap(&gpu, HeapKind::Resources, sees, name));
    let view = View::Shown(buffer.range(0, 64), BufferViewKind::Storage { stride: 0, writes: true });
    // SAFETY: as above.
    unsafe { gpu.device.write_view(&hidden, 3, &view) }.expect("it is aligned");
    copy_slot(&gpu, hidden, visible);
    gpu.no_hazard();
    (gpu, [hidden, visible])
}

#[test]
fn a_view_that_is_not_aligned_is_found_in_the_buffer_and_in_the_memory() {
    let mut profile = Profile::h200();
    profile.capabilities.storage_alignment = 512;
    let gpu = Gpu::new(profile, 1);
    let memory = gpu.memory("block", 1, 1 << 16);
    let [straight, crooked] = [0, 4096 + 256].map(|offset| gpu.place("buffer", 2048, memory, offset).object);
    let heap = heap(&gpu, HeapKind::Resources, true, "heap");
    let write = |buffer, offset, stride| {
        let view =
            View::Shown(BufferRange::new(buffer, offset, 512), BufferViewKind::Storage { stride, writes: false });
        // SAFETY: as above.
        unsafe { gpu.device.write_view(&heap, 3, &view) }.is_ok()
    };
    assert!(write(straight, 512, 0));
    gpu.no_hazard();
    for (buffer, offset, stride) in [(straight, 256, 0), (crooked, 0, 0), (crooked, 256, 0), (straight, 512, 48)] {
        assert!(!write(buffer, offset, stride));
        let _ = gpu.only_hazard(HazardKind::Unaligned);
    }
}

#[test]
fn descriptors_are_not_copied_between_kinds_nor_out_of_a_visible_heap() {
    let (gpu, [hidden, visible]) = copied();
    let samplers = heap(&gpu, HeapKind::Samplers, true, "samplers");
    copy_slot(&gpu, hidden, samplers);
    assert_eq!(gpu.only_hazard(HazardKind::Misuse).detail, "descriptors copied between heaps of different kinds");
    copy_slot(&gpu, visible, hidden);
    assert_eq!(gpu.only_hazard(HazardKind::Misuse).detail, "descriptors copied out of a shader-visible heap");
}

#[test]
fn a_kernel_through_a_heap_that_shaders_do_not_see_is_found() {
    let (mut gpu, [hidden, visible]) = copied();
    gpu.submit(0, &[], vec![through(visible, 3)]);
    gpu.no_hazard();
    gpu.submit(0, &[], vec![through(hidden, 3)]);
    assert_eq!(gpu.only_hazard(HazardKind::Misuse).detail, "a kernel uses a heap that is not shader-visible");
}

#[test]
fn a_slot_copied_over_and_a_heap_destroyed_while_pending_are_found() {
    for waits in [false, true] {
        let (mut gpu, [hidden, visible]) = copied();
        let end = gpu.submit(0, &[], vec![through(visible, 3)]);
        if waits {
            gpu.wait(end);
        }
        // No work uses the source heap of the copy.
        let expect = |kind| {
            if waits {
                return gpu.no_hazard();
            }
            let hazard = gpu.only_hazard(kind);
            assert_eq!((hazard.resource.name.as_deref(), hazard.range), (Some("visible"), 3..4));
        };
        copy_slot(&gpu, hidden, visible);
        expect(HazardKind::DescriptorWhilePending);
        gpu.device.destroy_descriptor_heap(hidden);
        gpu.no_hazard();
        gpu.device.destroy_descriptor_heap(visible);
        expect(HazardKind::DestroyedWhilePending);
    }
}
