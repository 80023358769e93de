//! Figures, snapshots and limits that users read: each value is compared with an independent count, and each limit is
//! tried at its exact value.

use ringfence::descriptor::{
    BindlessDesc, CpuDescriptorHeap, CpuHeapDesc, DescriptorError, Region, SamplerTable, ShaderVisibleDesc, View,
};
use ringfence::device::descriptors::{
    AddressMode, BorderColor, BufferView, BufferViewKind, Compare, Filter, HeapKind, SamplerDesc, TextureView,
    TextureViewKind, ViewTypes,
};
use ringfence::device::{BufferDesc, BufferUsage, TextureDesc, TextureUsage};
use ringfence::placement::{BufferRequest, Dynamism, FastConstantsDesc, Placement, PlacementDesc};
use ringfence::sim::{Device, Profile};
use ringfence::transient::TransientDesc;
use ringfence::{AllocationDesc, FastConstants, ShaderVisibleHeap, TransientAllocator};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

fn fixture() -> Fixture {
    Fixture::new(FixtureDesc::default())
}

fn target(width: u32) -> TextureDesc {
    TextureDesc { width, height: 64, usage: TextureUsage::RENDER_TARGET, ..Default::default() }
}

/// The snapshot of fast constants has the pages' name, the pages in use, and the bytes that writers have written.
#[test]
fn fast_constants_report_their_name_pages_and_bytes() {
    let world = fixture();
    let desc = FastConstantsDesc { name: "draws", page_bytes: 1 << 10, ..Default::default() };
    let fast = FastConstants::new(&world.memory, desc);
    let frame = world.timeline().begin();
    let mut writer = fast.writer(&frame).expect("of this allocator");
    for size in [100, 200, 300] {
        writer.write(&vec![1; size]).expect("there is room");
    }
    drop(writer);
    let figures = fast.snapshot();
    assert_eq!((figures.name.as_str(), figures.written_bytes), ("draws", 600));
    assert_eq!((figures.used_bytes, figures.high_water_bytes), (1 << 10, 1 << 10), "one page");
    world.complete(frame);
    world.memory.reclaim();
    let figures = fast.snapshot();
    assert_eq!((figures.used_bytes, figures.high_water_bytes, figures.written_bytes), (0, 1 << 10, 600));
    drop(fast);
    world.memory.reclaim();
    world.finish();
}

/// The snapshot of a CPU-only heap has its slots, those in use, and the longest free run.
#[test]
fn a_cpu_only_heap_reports_its_slots_and_its_longest_free_run() {
    let world = fixture();
    let desc = CpuHeapDesc { block_slots: 64, ..Default::default() };
    let heap: CpuDescriptorHeap<Device> = CpuDescriptorHeap::new(&world.memory, desc).expect("small");
    let runs: Vec<_> = [16, 8].into_iter().map(|count| heap.allocate(count).expect("room")).collect();
    let snapshot = world.memory.snapshot();
    let [shown] = snapshot.descriptors.as_slice() else { panic!("one heap, not {:?}", snapshot.descriptors) };
    assert_eq!((shown.slot_count, shown.used_count, shown.heap_count), (64, 24, 1));
    assert_eq!(shown.largest_free, 32, "the other half of the heap");
    drop(runs);
    drop(heap);
    world.finish();
}

/// Of two textures with dedicated memory that are alive together each has an object of its own. The next frame uses both
/// again, and [`TransientAllocator::trim`] returns the number of released objects.
#[test]
fn dedicated_transients_are_two_objects_that_the_next_frame_uses_again() {
    let world = Fixture::new(FixtureDesc { profile: needs_dedicated(), ..Default::default() });
    let mut transient = TransientAllocator::new(&world.memory, TransientDesc::default());
    let queue = world.timeline().id();
    let mut seen = Vec::new();
    for number in 0..3_u64 {
        let mut execution = transient.begin();
        let pass = execution.pass(queue, &[]).expect("a queue");
        let handles = ["one", "two"].map(|name| execution.acquire_texture(&target(64), pass, name).expect("room"));
        let objects = handles.map(|handle| *execution.texture(handle).expect("in use"));
        assert_ne!(objects[0], objects[1], "both are alive");
        handles.into_iter().for_each(|handle| execution.discard(handle, &[pass]).expect("in use"));
        execution.finish(&[]);
        seen.push(objects);
        let figures = transient.figures();
        assert_eq!((figures.misses, figures.hits, figures.object_count), (2, 2 * number, 2));
        transient.end_frame();
    }
    let mut sorted = seen.clone();
    sorted.iter_mut().for_each(|objects| objects.sort());
    assert!(sorted.windows(2).all(|pair| pair[0] == pair[1]), "each frame uses the same two");
    assert_eq!(transient.trim(), 2, "two objects are released");
    assert_eq!((transient.trim(), transient.figures().released), (0, 2));
    drop(transient);
    world.finish();
}

/// A device on which each texture requires dedicated memory.
fn needs_dedicated() -> Profile {
    let mut profile = Profile::h200();
    profile.dedicated_required_bytes = 0;
    profile
}

/// Every field of a sampler's description distinguishes samplers. Zeros of both signs do not.
#[test]
fn samplers_are_shared_iff_every_field_is_equal() {
    let world = fixture();
    let desc =
        ShaderVisibleDesc { kind: HeapKind::Samplers, frame_slots: 0, persistent_slots: 64, ..Default::default() };
    let heap = ShaderVisibleHeap::new(&world.memory, desc).expect("small");
    let desc = BindlessDesc { capacity: 32, clear_freed: true };
    let table: SamplerTable<Device> = SamplerTable::new(&world.memory, &heap, desc).expect("room");
    let base = SamplerDesc::default();
    let other = |mode: AddressMode| if mode == AddressMode::Clamp { AddressMode::Repeat } else { AddressMode::Clamp };
    let flipped = |filter: Filter| if filter == Filter::Linear { Filter::Nearest } else { Filter::Linear };
    let [across, down, deep] = base.address;
    let border = if base.border == BorderColor::White { BorderColor::Black } else { BorderColor::White };
    let all = [
        base,
        SamplerDesc { magnify: flipped(base.magnify), ..base },
        SamplerDesc { minify: flipped(base.minify), ..base },
        SamplerDesc { mip: flipped(base.mip), ..base },
        SamplerDesc { address: [other(across), down, deep], ..base },
        SamplerDesc { address: [across, other(down), deep], ..base },
        SamplerDesc { address: [across, down, other(deep)], ..base },
        SamplerDesc { level_bias: 0.5, ..base },
        SamplerDesc { levels: [base.levels[0] + 1.0, base.levels[1]], ..base },
        SamplerDesc { levels: [base.levels[0], base.levels[1] - 1.0], ..base },
        SamplerDesc { anisotropy: base.anisotropy + 4, ..base },
        SamplerDesc { border, ..base },
    ];
    let compares = [Compare::Never, Compare::Less, Compare::Equal, Compare::Always];
    let compares = compares.map(|compare| SamplerDesc { compare: Some(compare), ..base });
    let held: Vec<_> = all.into_iter().chain(compares).map(|desc| table.get(desc).expect("there is room")).collect();
    assert_eq!(table.distinct_count(), held.len());
    for (desc, sampler) in all.into_iter().chain(compares).zip(&held) {
        assert_eq!(table.get(desc).expect("it exists").slot(), sampler.slot(), "{desc:?}");
    }
    let minus = SamplerDesc { level_bias: -0.0, ..base };
    assert_eq!(table.get(minus).expect("it exists").slot(), held[0].slot(), "-0.0 is 0.0");
    assert_eq!(table.distinct_count(), held.len());
    drop(held);
    drop((table, heap));
    world.finish();
}

/// A table as large as the frame region is full while another frame has slots, and is served afterwards. A larger one is
/// too large at any time.
#[test]
fn a_table_as_large_as_the_frame_region_is_full_and_not_too_large() {
    let world = fixture();
    let desc = ShaderVisibleDesc { frame_slots: 16, persistent_slots: 4, chunk_slots: 4, ..Default::default() };
    let heap = ShaderVisibleHeap::new(&world.memory, desc).expect("small");
    let cpu: CpuDescriptorHeap<Device> =
        CpuDescriptorHeap::new(&world.memory, CpuHeapDesc { block_slots: 32, ..Default::default() }).expect("small");
    let run = filled(&world, &cpu, 17);
    let table = |frame: &ringfence::Frame, count| {
        let mut writer = heap.frame_descriptors(frame)?;
        writer.table(&[run.part(0..count).expect("in the run")]).map(drop)
    };
    let first = world.timeline().begin();
    table(&first, 1).expect("there is room");
    let second = world.timeline().begin();
    let refused = table(&second, 16).expect_err("four slots are in use");
    assert!(matches!(refused, DescriptorError::Full { region: Region::Frame, need: 16, .. }), "{refused:?}");
    let refused = table(&second, 17).expect_err("more than there are");
    assert!(matches!(refused, DescriptorError::TooMany { count: 17, max: 16 }), "{refused:?}");
    world.complete(first);
    world.memory.reclaim();
    table(&second, 16).expect("all of it");
    world.complete(second);
    drop((run, cpu, heap));
    world.finish();
}

/// A run of constants' views.
fn filled(
    world: &Fixture,
    heap: &CpuDescriptorHeap<Device>,
    count: u32,
) -> ringfence::descriptor::CpuDescriptors<Device> {
    let info = BufferDesc { size: 256, usage: BufferUsage::STORAGE };
    let buffer = world.memory.create_buffer(&info, AllocationDesc::default()).expect("room");
    let mut run = heap.allocate(count).expect("room");
    for slot in 0..count {
        let view = BufferView { kind: BufferViewKind::Storage { stride: 0, writes: false }, offset: 0, size: 256 };
        run.write(slot, &View::buffer(&buffer, view).expect("in range")).expect("of its types");
    }
    run
}

/// A heap of sampled textures refuses a storage view, and the reverse.
#[test]
fn a_heap_takes_only_views_of_its_types() {
    let world = fixture();
    let info = TextureDesc { usage: TextureUsage::SAMPLED | TextureUsage::STORAGE, ..target(64) };
    let texture = world.memory.create_texture(&info, AllocationDesc::default()).expect("room");
    let kinds = [
        (TextureViewKind::Sampled, ViewTypes::SAMPLED_TEXTURE),
        (TextureViewKind::Storage, ViewTypes::STORAGE_TEXTURE),
    ];
    for (_, types) in kinds {
        let desc = CpuHeapDesc { block_slots: 4, types, ..Default::default() };
        let heap: CpuDescriptorHeap<Device> = CpuDescriptorHeap::new(&world.memory, desc).expect("small");
        let mut run = heap.allocate(1).expect("room");
        for (kind, needed) in kinds {
            let view = TextureView::new(kind, 0..1, 0..1);
            let written = run.write(0, &View::texture(&texture, view).expect("it has both usages"));
            assert_eq!(written.is_ok(), needed == types, "{kind:?} in a heap of {types:?}");
        }
    }
    drop(texture);
    world.finish();
}

/// A texture for readback has at most 2¹⁵ subresources.
#[test]
fn a_readback_of_too_many_subresources_is_refused() {
    let world = fixture();
    let placement = Placement::new(&world.memory, PlacementDesc::default()).expect("sound");
    let desc = |layers, mips| TextureDesc { width: 16, height: 16, layers, mips, ..Default::default() };
    assert!(placement.create_readback_texture(&desc(1 << 13, 4), "all").is_ok());
    assert!(placement.create_readback_texture(&desc((1 << 13) + 1, 4), "one layer more").is_err());
    drop(placement);
    world.finish();
}

/// A placed default buffer has the alignment of its request, also if the object takes the whole block.
#[test]
fn a_placed_buffer_has_the_alignment_of_its_request() {
    let world = fixture();
    let placement = Placement::new(&world.memory, PlacementDesc::default()).expect("sound");
    let mut held = Vec::new();
    for alignment in [1 << 12, 1 << 16, 1 << 18, 1 << 20] {
        for size in [300, 70_000, 5 << 20] {
            let usage = BufferUsage::STORAGE;
            let request = BufferRequest { size, usage, dynamism: Dynamism::Static, alignment, ..Default::default() };
            let buffer = placement.create_buffer(&request).expect("there is room");
            assert_eq!(buffer.offset() % alignment, 0, "{size} bytes, {:?}", buffer.route());
            held.push(buffer);
        }
    }
    drop(held);
    drop(placement);
    world.finish();
}
