//! A released resource is in no descriptor set that is bound later, because work with such a set may run longer than
//! the resource exists.
//!
//! ```text
//!   frame 1 ── bound ── behind gate 1 ──────────▶ complete ─▶ reclaim: the first buffer, texture and views are destroyed
//!      entries removed, buffer and texture dropped    │
//!   frame 2 ── bound ── behind gate 2 ────────────────┴──────────▶ complete
//! ```

use ringfence::descriptor::{BindlessDesc, ShaderVisibleDesc, View};
use ringfence::device::descriptors::{
    BufferView, BufferViewKind, Descriptors, TextureView, TextureViewKind, ViewTypes,
};
use ringfence::device::{BufferUsage, TextureDesc, TextureUsage};
use ringfence::{AllocationDesc, BindlessTable, Buffer, Frame, Location, ShaderVisibleHeap, Texture};
use ringfence_testkit::Gpu;
use ringfence_testkit::descriptor_work::{DescriptorWork, Job, Slot};

use crate::device_suite::rig::{PATIENCE, Rig, buffer};

const BYTES: u64 = 256;
const KIND: BufferViewKind = BufferViewKind::Storage { stride: 0, writes: true };

type Heap<G> = ShaderVisibleHeap<<G as Gpu>::Device>;

fn words<D: Descriptors>(buffer: &Buffer<D>) -> View<'_, D> {
    View::buffer(buffer, BufferView { kind: KIND, offset: 0, size: BYTES }).expect("it was made for storage")
}

fn texels<D: Descriptors>(texture: &Texture<D>) -> View<'_, D> {
    let view = TextureView::new(TextureViewKind::Sampled, 0..1, 0..1);
    View::texture(texture, view).expect("it was made to be sampled")
}

fn storage<G: Gpu>(rig: &Rig<G>, name: &str) -> Buffer<G::Device> {
    let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST | BufferUsage::STORAGE;
    buffer(&rig.memory, BYTES, usage, Location::Device, name)
}

/// Submits work that fills a buffer through its slot once the gate reaches `gate`. Returns the frame's value.
fn submit<G: Gpu>(
    rig: &mut Rig<G>,
    heap: &Heap<G>,
    frame: Frame,
    to: Slot<G::Device>,
    (gate, fill): (u64, u32),
) -> u64 {
    let mut binding = heap.bind(&frame).expect("there is room for a set");
    let value = frame.value();
    let jobs = [Job::Fill { to, words: (BYTES / 4) as u32, value: fill }];
    let work = DescriptorWork { binding: &mut binding, slots: heap.slots(), jobs: &jobs };
    let gate = (rig.gpu.gate(), gate);
    rig.gpu.submit_descriptor_work(0, &[gate], work, value).expect("the device is not lost");
    rig.timelines[0].submitted(frame).expect("in order");
    value
}

fn released_between_two_frames<G: Gpu>(rig: &mut Rig<G>, recycle: bool) {
    let types = ViewTypes::STORAGE_BUFFER | ViewTypes::SAMPLED_TEXTURE;
    let desc = ShaderVisibleDesc { types, frame_slots: 6, persistent_slots: 4, chunk_slots: 2, ..Default::default() };
    let heap = ShaderVisibleHeap::new(&rig.memory, desc).expect("every device has this many slots");
    let table = BindlessTable::new(&rig.memory, &heap, BindlessDesc { capacity: 4, ..Default::default() });
    let table = table.expect("there is room");
    let cpu = ringfence::descriptor::CpuDescriptorHeap::new(
        &rig.memory,
        ringfence::descriptor::CpuHeapDesc { types, block_slots: 16, ..Default::default() },
    )
    .expect("a small block");
    let slot = |frame: &Frame, index: u32, of: &Buffer<G::Device>| {
        let mut shown = cpu.allocate(1).expect("blocks grow");
        shown.write(0, &words(of)).expect("a storage buffer");
        let (gpu, cpu) = (heap.gpu_handle(index, frame), shown.cpu_handle(0));
        (Slot { index, gpu, cpu, buffer: of.object().clone() }, shown)
    };
    let (first, second) = (storage(rig, "first"), storage(rig, "second"));
    let usage = TextureUsage::SAMPLED | TextureUsage::COPY_DST;
    let shape = TextureDesc { width: 16, height: 16, usage, ..Default::default() };
    let info = shape;
    let allocation = AllocationDesc { recycle, ..Default::default() };
    let texture = rig.memory.create_texture(&info, allocation).expect("there is room");
    let entries =
        [words(&first), words(&second), texels(&texture)].map(|view| table.insert(&view).expect("room").into_index());

    let frame = rig.timeline().begin();
    let mut frame_tables = heap.frame_descriptors(&frame).expect("its own frame");
    frame_tables.table_of(&[texels(&texture), words(&first)]).expect("a table of two");
    drop(frame_tables);
    let (to, _first_shown) = slot(&frame, entries[0].slot(), &first);
    let earlier = submit(rig, &heap, frame, to, (1, 1));
    [entries[0], entries[2]].into_iter().for_each(|entry| table.remove(entry).expect("it is live"));
    drop((first, texture));

    let frame = rig.timeline().begin();
    let (to, _second_shown) = slot(&frame, entries[1].slot(), &second);
    let later = submit(rig, &heap, frame, to, (2, 2));
    rig.gpu.open_gate(1).expect("the device is not lost");
    assert!(rig.timeline().wait(earlier, PATIENCE).expect("the device is not lost"));
    // While the second frame is in flight, the resources of the first frame are destroyed.
    (0..3).for_each(|_| _ = rig.memory.reclaim());
    rig.memory.budgets().trim();
    rig.gpu.open_gate(2).expect("the device is not lost");
    assert!(rig.timeline().wait(later, PATIENCE).expect("the device is not lost"));
    assert!(rig.download(&second, BYTES).chunks_exact(4).all(|word| word == 2_u32.to_le_bytes()));
}

pub fn what_is_destroyed_is_in_no_set_that_was_bound_later<G: Gpu>(rig: &mut Rig<G>) {
    released_between_two_frames(rig, false);
}

pub fn what_is_recycled_is_in_no_set_that_was_bound_later<G: Gpu>(rig: &mut Rig<G>) {
    released_between_two_frames(rig, true);
}

/// A buffer that is destroyed at once, after a wait for the device, is in no set that is bound later either.
pub fn what_is_destroyed_at_once_is_in_no_set_that_is_bound_later<G: Gpu>(rig: &mut Rig<G>) {
    let types = ViewTypes::STORAGE_BUFFER;
    let desc = ShaderVisibleDesc { types, frame_slots: 6, persistent_slots: 4, chunk_slots: 2, ..Default::default() };
    let heap = ShaderVisibleHeap::new(&rig.memory, desc).expect("every device has this many slots");
    let table = BindlessTable::new(&rig.memory, &heap, BindlessDesc { capacity: 4, ..Default::default() });
    let table = table.expect("there is room");
    let desc = ringfence::descriptor::CpuHeapDesc { types, block_slots: 16, ..Default::default() };
    let cpu = ringfence::descriptor::CpuDescriptorHeap::new(&rig.memory, desc).expect("a small block");
    // The buffer is requested several times, so that the last one is a recycled object.
    let first = (0..3).map(|_| storage(rig, "first")).last().expect("three");
    let second = storage(rig, "second");
    let [gone, entry] = [words(&first), words(&second)].map(|view| table.insert(&view).expect("room").into_index());
    // SAFETY: no work was submitted.
    unsafe { first.destroy_now() };
    let frame = rig.timeline().begin();
    let mut shown = cpu.allocate(1).expect("blocks grow");
    shown.write(0, &words(&second)).expect("a storage buffer");
    let (gpu, cpu) = (heap.gpu_handle(entry.slot(), &frame), shown.cpu_handle(0));
    let to = Slot { index: entry.slot(), gpu, cpu, buffer: second.object().clone() };
    let value = submit(rig, &heap, frame, to, (1, 1));
    rig.memory.budgets().trim();
    rig.gpu.open_gate(1).expect("the device is not lost");
    assert!(rig.timeline().wait(value, PATIENCE).expect("the device is not lost"));
    table.remove(gone).expect("it is live");
}
