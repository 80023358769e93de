//! Scenarios of descriptors: CPU-only heaps, the shader-visible heap with its tables, bindless entries, samplers.

use ringfence::descriptor::{
    BindlessDesc, CpuDescriptorHeap, CpuHeapDesc, SamplerTable, ShaderVisibleDesc, SlotAlgorithm, View,
};
use ringfence::device::BufferUsage;
use ringfence::device::descriptors::{BufferView, BufferViewKind, HeapKind, SamplerDesc, ViewTypes};
use ringfence::{AllocationDesc, BindlessTable, ShaderVisibleHeap};
use ringfence_testkit::Gpu;

use crate::faults::KIB;
use ringfence_testkit::faults::{Failure, FaultyBuffer, FaultyDevice, Outcome, Stage};

const TYPES: ViewTypes = ViewTypes::STORAGE_BUFFER;
const CPU: CpuHeapDesc<'static> = CpuHeapDesc {
    kind: HeapKind::Resources,
    types: TYPES,
    block_slots: 4,
    algorithm: SlotAlgorithm::Buddy,
    empty_blocks_kept: 0,
    empty_block_grace: 1,
    name: "of a scenario",
};

fn visible() -> ShaderVisibleDesc<'static> {
    ShaderVisibleDesc { types: TYPES, frame_slots: 16, persistent_slots: 8, chunk_slots: 4, ..Default::default() }
}

fn storage<G: Gpu>(stage: &Stage<G>) -> Result<FaultyBuffer<G>, Failure> {
    stage.buffer_for(KIB, BufferUsage::STORAGE | BufferUsage::COPY_DST, AllocationDesc::default())
}

fn words<G: Gpu>(of: &FaultyBuffer<G>) -> Result<View<'_, FaultyDevice<G>>, Failure> {
    let kind = BufferViewKind::Storage { stride: 0, writes: true };
    Ok(View::buffer(of, BufferView { kind, offset: 0, size: 256 })?)
}

pub fn cpu_heaps<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let shown = storage(stage)?;
    let trial = stage.trial();
    let heap = trial.run(|| CpuDescriptorHeap::<FaultyDevice<G>>::new(&stage.memory, CPU))?;
    let mut held = Vec::new();
    for count in [1, 2, 4, 9] {
        let mut descriptors = trial.run(|| heap.allocate(count))?;
        for index in 0..count {
            trial.run(|| descriptors.write(index, &words::<G>(&shown).expect("made for it")))?;
        }
        heap.validate().expect("sound");
        held.push(descriptors);
    }
    drop(held);
    (0..4).for_each(|_| _ = stage.memory.reclaim());
    heap.validate().expect("sound");
    Ok(())
}

pub fn tables_and_bindless<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let shown = storage(stage)?;
    let trial = stage.trial();
    let heap = trial.run(|| ShaderVisibleHeap::<FaultyDevice<G>>::new(&stage.memory, visible()))?;
    let cpu = trial.run(|| CpuDescriptorHeap::<FaultyDevice<G>>::new(&stage.memory, CPU))?;
    let mut slots = trial.run(|| cpu.allocate(2))?;
    for index in 0..2 {
        trial.run(|| slots.write(index, &words::<G>(&shown).expect("made for it")))?;
    }
    let desc = BindlessDesc { capacity: 4, clear_freed: true };
    let table = trial.run(|| BindlessTable::new(&stage.memory, &heap, desc))?;
    let view = words::<G>(&shown)?;
    let entries = [trial.run(|| table.insert(&view))?.into_index(), trial.run(|| table.insert(&view))?.into_index()];
    let mut persistent = trial.run(|| heap.allocate(2))?;
    trial.run(|| persistent.write(0, &view))?;
    trial.run(|| persistent.copy(1, &[slots.part(0..1)?]))?;
    for _ in 0..2 {
        let frame = stage.timelines[0].begin();
        let binding = trial.run(|| heap.bind(&frame))?;
        let mut frame_tables = trial.run(|| heap.frame_descriptors(&frame))?;
        trial.run(|| frame_tables.table(&[slots.all()]))?;
        trial.run(|| frame_tables.table_of(std::slice::from_ref(&view)))?;
        drop(frame_tables);
        stage.submit(frame, &[])?;
        drop(binding);
    }
    trial.run(|| table.update(entries[0], &view))?;
    let replaced = trial.run(|| table.replace(entries[1], &view))?;
    table.remove(replaced)?;
    stage.memory.reclaim();
    table.validate().expect("sound");
    heap.validate().expect("sound");
    drop(view);
    // The viewed resources are dropped before their views, and the heap before its table.
    drop(shown);
    drop((persistent, heap, slots, cpu, table));
    stage.memory.reclaim();
    Ok(())
}

pub fn heap_that_grows<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let shown = storage(stage)?;
    let trial = stage.trial();
    // Together with the growth, every driver has as many slots.
    let desc = ShaderVisibleDesc { frame_slots: 12, slots_max: 28, ..visible() };
    let heap = trial.run(|| ShaderVisibleHeap::<FaultyDevice<G>>::new(&stage.memory, desc))?;
    let mut persistent = trial.run(|| heap.allocate(8))?;
    let view = words::<G>(&shown)?;
    trial.run(|| persistent.write(3, &view))?;
    let frame = stage.timelines[0].begin();
    let bound = trial.run(|| heap.bind(&frame))?;
    trial.run(|| heap.grow(8))?;
    trial.run(|| persistent.write(4, &view))?;
    stage.submit(frame, &[])?;
    drop(bound);
    stage.memory.reclaim();
    let after = trial.run(|| heap.allocate(8))?;
    heap.validate().expect("sound");
    drop(after);
    Ok(())
}

pub fn samplers<G: Gpu>(stage: &mut Stage<G>) -> Outcome {
    let trial = stage.trial();
    let desc = ShaderVisibleDesc { kind: HeapKind::Samplers, persistent_slots: 8, frame_slots: 0, ..visible() };
    let heap = trial.run(|| ShaderVisibleHeap::<FaultyDevice<G>>::new(&stage.memory, desc))?;
    let table =
        trial.run(|| SamplerTable::new(&stage.memory, &heap, BindlessDesc { capacity: 4, clear_freed: true }))?;
    let desc = |bias: f32| SamplerDesc { level_bias: bias, ..Default::default() };
    let mut held = Vec::new();
    for number in [0.0, 1.0, 0.0, 2.0] {
        held.push(trial.run(|| table.get(desc(number)))?);
    }
    assert_eq!(table.distinct_count(), 3);
    drop(held);
    stage.memory.reclaim();
    table.table().validate().expect("sound");
    Ok(())
}
