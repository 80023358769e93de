//! Objects of another allocator are rejected by name, and the rejection changes nothing. This covers every public
//! function that takes such an object, with an object of another allocator on the same device.
//!
//! Functions that are missing here take no such object, or one that does not identify its allocator: points on
//! timelines and bins have their own tests, and for `unsafe` functions the caller is responsible.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ringfence::defrag::DefragDesc;
use ringfence::descriptor::{
    BindlessDesc, CpuDescriptorHeap, CpuHeapDesc, DescriptorError, SamplerTable, ShaderVisibleDesc, View,
};
use ringfence::device::descriptors::{BufferView, BufferViewKind, HeapKind, TextureView, TextureViewKind};
use ringfence::device::{
    BufferDesc, BufferUsage, Requirements, ResourceClass, TexelBox, TextureAspect, TextureDesc, TextureUsage,
};
use ringfence::memory::Allocation;
use ringfence::placement::{BufferLocation, BufferRequest, ConstantsLifetime, Placement, PlacementDesc};
use ringfence::residency::Residency;
use ringfence::sim::{Device, Fence, Profile, SimOptions};
use ringfence::transient::{Described, FramePass, FrameResource, Pass, TransientBuffer, TransientDesc};
use ringfence::upload::{ConstantsDesc, ReadbackDesc, Staged, TexelTarget, Texels, TransferQueue, UploadDesc};
use ringfence::{
    AllocationDesc, Allocator, AllocatorDesc, BindlessTable, Buffer, ConstantBuffers, FastConstants, Location,
    ReadbackRing, ShaderVisibleHeap, Texture, Timeline, TransientAllocator, UploadBatch, UploadRing,
};
use ringfence_testkit::fixture::Fixture;

/// One object of each kind of an allocator.
struct Everything {
    memory: Allocator<Device>,
    timeline: Timeline<Device>,
    fence: Fence,
    residency: Residency<Device>,
    buffer: Buffer<Device>,
    texture: Texture<Device>,
    allocation: Allocation<Device>,
    slot: Buffer<Device>,
    ring: UploadRing<Device>,
    results: ReadbackRing<Device>,
    constants: ConstantBuffers<Device>,
    fast: FastConstants<Device>,
    placement: Placement<Device>,
    placed: BufferLocation<Device>,
    heap: ShaderVisibleHeap<Device>,
    table: BindlessTable<Device>,
    cpu: CpuDescriptorHeap<Device>,
    /// Staged by a ring, by a writer of the ring, and as fast constants.
    staged: [Staged<Device>; 3],
    staged_texels: Texels<Staged<Device>>,
}

fn usage() -> BufferUsage {
    BufferUsage::COPY_SRC | BufferUsage::COPY_DST | BufferUsage::STORAGE
}

fn world(device: &Device) -> Everything {
    let Fixture { memory, timelines, fences, .. } = Fixture::on(device, AllocatorDesc::default());
    let (timeline, fence) = (timelines[0].clone(), fences[0]);
    // SAFETY: there are no submissions.
    let residency = unsafe { memory.residency() };
    let info = BufferDesc { size: 100 << 10, usage: usage() };
    let movable = AllocationDesc { movable: true, evictable: true, ..Default::default() };
    let buffer = memory.create_buffer(&info, movable).expect("room");
    let sampled = TextureUsage::SAMPLED | TextureUsage::COPY_DST | TextureUsage::COPY_SRC;
    let desc = TextureDesc { width: 16, height: 16, usage: sampled, ..Default::default() };
    let texture = memory.create_texture(&desc, AllocationDesc::default()).expect("room");
    let needs = Requirements {
        size: 4096,
        alignment: 256,
        memory_type_bits: 1 << buffer.memory_type(),
        class: ResourceClass::Buffer,
        prefers_dedicated: false,
        requires_dedicated: false,
    };
    let allocation = memory.allocate(needs, AllocationDesc::default()).expect("room");
    let small = BufferDesc { size: 512, usage: usage() };
    let mut slots: Vec<_> =
        (0..40).map(|_| memory.create_buffer(&small, AllocationDesc::default()).expect("room")).collect();
    let slot = slots.pop().expect("there are some");
    drop(slots);
    memory.reclaim();
    let ring = UploadRing::new(&memory, UploadDesc { capacity: 64 << 10, ..Default::default() }).expect("room");
    let results = ReadbackRing::new(&memory, ReadbackDesc { capacity: 64 << 10, ..Default::default() }).expect("room");
    let constants = ConstantBuffers::new(&memory, ConstantsDesc::default(), ()).expect("room");
    let fast = FastConstants::new(&memory, Default::default());
    let placement = Placement::new(&memory, PlacementDesc::default()).expect("sound");
    let request = BufferRequest { size: 256, usage: usage(), ..Default::default() };
    let placed = placement.create_buffer(&request).expect("room");
    let desc = ShaderVisibleDesc { frame_slots: 16, persistent_slots: 64, chunk_slots: 4, ..Default::default() };
    let heap = ShaderVisibleHeap::new(&memory, desc).expect("small");
    let table = BindlessTable::new(&memory, &heap, BindlessDesc { capacity: 8, clear_freed: true }).expect("room");
    let cpu = CpuDescriptorHeap::new(&memory, CpuHeapDesc::default()).expect("small");
    let frame = timeline.begin();
    let staged = [
        ring.write_for(&frame, &[1; 4], 4).expect("room"),
        ring.writer(&frame).expect("our own").write(&[1; 4], 4).expect("room"),
        fast.writer(&frame).expect("our own").write(&[1; 4]).expect("room"),
    ];
    let staged_texels = ring.write_texels(&frame, &Texels::new(4, 4, 4, &[1; 64])).expect("room");
    frame.discard();
    Everything {
        memory,
        timeline,
        fence,
        residency,
        buffer,
        texture,
        allocation,
        slot,
        ring,
        results,
        constants,
        fast,
        placement,
        placed,
        heap,
        table,
        cpu,
        staged,
        staged_texels,
    }
}

impl Everything {
    fn view(&self) -> View<'_, Device> {
        let kind = BufferViewKind::Storage { stride: 0, writes: true };
        View::buffer(&self.buffer, BufferView { kind, offset: 0, size: 256 }).expect("made for it")
    }

    fn texture_view(&self) -> View<'_, Device> {
        let view = TextureView::new(TextureViewKind::Sampled, 0..1, 0..1);
        View::texture(&self.texture, view).expect("made for it")
    }

    /// Returns all state that a rejected call must not change.
    fn state(&self) -> impl PartialEq + std::fmt::Debug {
        self.memory.debug().validate().expect("sound");
        let table = (self.table.live_count(), self.table.free_count());
        let bytes = (self.residency.resident_bytes(), self.residency.absent_bytes());
        let residency = (self.residency.totals(), self.residency.object_count(), bytes);
        let rings = (self.ring.snapshot(), self.results.snapshot(), self.constants.dynamic_pools());
        let snapshot = self.memory.snapshot();
        let blocks = snapshot.blocks.iter().filter(|block| !block.ranges.is_empty());
        let blocks: Vec<_> = blocks.map(|block| (block.bytes, block.ranges.clone())).collect();
        (table, residency, rings, blocks, self.memory.statistics().retired_count)
    }
}

/// Frees dropped objects in both.
fn settle(a: &Everything, b: &Everything) {
    for world in [a, b] {
        // No case submits a frame.
        world.timeline.discard_dropped();
        world.memory.reclaim();
        world.memory.reclaim();
    }
}

/// Returns the error of a function.
fn refused<T, E: Display>(result: Result<T, E>) -> String {
    match result {
        Ok(_) => "it was taken".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Returns the message of a function that is documented to panic.
fn panics<T>(work: impl FnOnce() -> T) -> String {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(_) => "it was taken".to_owned(),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
        }
    }
}

/// A function of `a` that is called with an object of `b`.
type Case = (&'static str, fn(a: &mut Everything, b: &mut Everything) -> String);

fn cases() -> Vec<Case> {
    vec![
        ("UseList::add(buffer)", |a, b| panics(|| a.residency.list().add(&b.buffer))),
        ("UseList::add(texture)", |a, b| panics(|| a.residency.list().add(&b.texture))),
        ("UseList::add(slot)", |a, b| panics(|| a.residency.list().add(&b.slot))),
        ("UseList::add_allocation", |a, b| panics(|| a.residency.list().add_allocation(&b.allocation))),
        ("Residency::commit(list)", |a, b| refused(a.residency.commit(&b.residency.list(), &a.timeline.begin()))),
        ("Residency::commit(frame)", |a, b| refused(a.residency.commit(&a.residency.list(), &b.timeline.begin()))),
        ("Timeline::submitted", |a, b| refused(a.timeline.submitted(b.timeline.begin()))),
        ("Defrag::begin_pass", |a, b| {
            refused(a.memory.defragment(DefragDesc::default()).begin_pass(&b.timeline.begin()))
        }),
        ("DefragPass::copy_buffer", |a, b| {
            let (mut run, frame) = (a.memory.defragment(DefragDesc::default()), a.timeline.begin());
            let mut pass = run.begin_pass(&frame).expect("our own");
            assert!(!pass.has(&b.buffer));
            refused(pass.copy_buffer(&mut b.buffer))
        }),
        ("DefragPass::copy_buffer_as", |a, b| {
            let (mut run, frame) = (a.memory.defragment(DefragDesc::default()), a.timeline.begin());
            let mut pass = run.begin_pass(&frame).expect("our own");
            refused(pass.copy_buffer_as(&mut b.buffer, &BufferDesc { size: 100 << 10, usage: usage() }))
        }),
        ("DefragPass::copy_texture", |a, b| {
            let (mut run, frame) = (a.memory.defragment(DefragDesc::default()), a.timeline.begin());
            refused(run.begin_pass(&frame).expect("our own").copy_texture(&mut b.texture).map(drop))
        }),
        ("DefragPass::move_allocation", |a, b| {
            let (mut run, frame) = (a.memory.defragment(DefragDesc::default()), a.timeline.begin());
            refused(run.begin_pass(&frame).expect("our own").move_allocation(&mut b.allocation))
        }),
        ("UploadRing::write_for", |a, b| refused(a.ring.write_for(&b.timeline.begin(), &[1; 4], 4))),
        ("UploadRing::writer", |a, b| refused(a.ring.writer(&b.timeline.begin()))),
        ("UploadWriter::begin", |a, b| {
            let own = a.timeline.begin();
            let mut writer = a.ring.writer(&own).expect("our own");
            refused(writer.begin(&b.timeline.begin()))
        }),
        ("ReadbackRing::reserve", |a, b| refused(a.results.reserve(&b.timeline.begin(), 4, 4))),
        ("ReadbackRing::reserve_texels", |a, b| {
            refused(a.results.reserve_texels(&b.timeline.begin(), 4, 4, 4).map(drop))
        }),
        ("ConstantBuffers::writer", |a, b| refused(a.constants.writer(&b.timeline.begin()))),
        ("ConstantWriter::begin", |a, b| {
            let own = a.timeline.begin();
            refused(a.constants.writer(&own).expect("our own").begin(&b.timeline.begin()))
        }),
        ("ConstantWriter::bind", |a, b| {
            let own = a.timeline.begin();
            let constants = b.constants.dynamic(16).expect("small");
            refused(a.constants.writer(&own).expect("our own").bind(&constants))
        }),
        ("ConstantBuffers::upload_statics", |a, b| {
            let own = b.timeline.begin();
            let mut writer = b.constants.writer(&own).expect("its own");
            refused(a.constants.upload_statics(&mut writer, &mut UploadBatch::new()))
        }),
        ("FastConstants::writer", |a, b| refused(a.fast.writer(&b.timeline.begin()).map(drop))),
        ("TransferQueue::upload(ring of another timeline)", |a, b| {
            let ring = UploadRing::new(&a.memory, UploadDesc { capacity: 4096, ..Default::default() }).expect("room");
            refused(TransferQueue::new(b.timeline.clone(), ring).upload(&[1; 4], &a.buffer, 0))
        }),
        ("TransferQueue::upload(buffer)", |a, b| {
            let ring = UploadRing::new(&a.memory, UploadDesc { capacity: 4096, ..Default::default() }).expect("room");
            refused(TransferQueue::new(a.timeline.clone(), ring).upload(&[1; 4], &b.buffer, 0))
        }),
        ("TransferQueue::upload_texels(texture)", |a, b| {
            let ring = UploadRing::new(&a.memory, UploadDesc { capacity: 4096, ..Default::default() }).expect("room");
            let texels = Texels::new(4, 4, 4, &[1; 64]);
            refused(TransferQueue::new(a.timeline.clone(), ring).upload_texels(
                &texels,
                &b.texture,
                TexelTarget::default(),
            ))
        }),
        ("Buffer::resize", |a, b| {
            let info = BufferDesc { size: 512, usage: usage() };
            refused(a.buffer.resize(&b.timeline.begin(), &info, 4, AllocationDesc::default()))
        }),
        ("Texture::swap_mips", |a, b| {
            let desc = *a.texture.desc().expect("portable");
            refused(a.texture.swap_mips(&b.timeline.begin(), &desc, AllocationDesc::default()).map(drop))
        }),
        ("Placement::resize_buffer(frame)", |a, b| {
            let request = BufferRequest { size: 256, usage: usage(), ..Default::default() };
            refused(a.placement.resize_buffer(&mut a.placed, &b.timeline.begin(), &request, 4))
        }),
        ("Placement::resize_buffer(buffer)", |a, b| {
            let request = BufferRequest { size: 256, usage: usage(), ..Default::default() };
            refused(a.placement.resize_buffer(&mut b.placed, &a.timeline.begin(), &request, 4))
        }),
        ("BindlessTable::new", |a, b| refused(BindlessTable::new(&a.memory, &b.heap, BindlessDesc::default()))),
        ("BindlessTable::insert(buffer)", |a, b| refused(a.table.insert(&b.view()))),
        ("BindlessTable::insert(texture)", |a, b| refused(a.table.insert(&b.texture_view()))),
        ("BindlessTable::update(view)", |a, b| {
            let own = a.table.insert(&a.view()).expect("room").into_index();
            let said = refused(a.table.update(own, &b.view()));
            a.table.remove(own).expect("live");
            a.memory.reclaim();
            said
        }),
        ("BindlessTable::remove", |a, b| {
            let (own, foreign) = (
                a.table.insert(&a.view()).expect("room").into_index(),
                b.table.insert(&b.view()).expect("room").into_index(),
            );
            let said = refused(a.table.remove(foreign));
            assert!(!a.table.is_live(foreign) && a.table.is_live(own) && b.table.is_live(foreign));
            a.table.remove(own).expect("live");
            b.table.remove(foreign).expect("live");
            settle(a, b);
            said
        }),
        ("BindlessTable::replace", |a, b| {
            let (own, foreign) = (
                a.table.insert(&a.view()).expect("room").into_index(),
                b.table.insert(&b.view()).expect("room").into_index(),
            );
            let said = refused(a.table.replace(foreign, &a.view()));
            a.table.remove(own).expect("live");
            b.table.remove(foreign).expect("live");
            settle(a, b);
            said
        }),
        ("ShaderVisibleHeap::frame_descriptors", |a, b| {
            refused(a.heap.frame_descriptors(&b.timeline.begin()).map(drop))
        }),
        ("ShaderVisibleHeap::bind", |a, b| refused(a.heap.bind(&b.timeline.begin()).map(drop))),
        ("ShaderVisibleHeap::gpu_handle", |a, b| panics(|| a.heap.gpu_handle(0, &b.timeline.begin()))),
        ("Binding::and", |a, b| {
            let frame = a.timeline.begin();
            refused(a.heap.bind(&frame).expect("our own").and(&b.heap).map(drop))
        }),
        ("FrameDescriptors::table", |a, b| {
            let mut held = b.cpu.allocate(1).expect("room");
            held.write(0, &b.view()).expect("its own");
            let frame = a.timeline.begin();
            let mut tables = a.heap.frame_descriptors(&frame).expect("our own");
            refused(tables.table(&[held.all()]).map(drop))
        }),
        ("FrameDescriptors::table_of", |a, b| {
            let frame = a.timeline.begin();
            let mut tables = a.heap.frame_descriptors(&frame).expect("our own");
            refused(tables.table_of(&[b.view()]).map(drop))
        }),
        ("Persistent::write", |a, b| {
            let mut run = a.heap.allocate(1).expect("room");
            refused(run.write(0, &b.view()))
        }),
        ("Persistent::copy", |a, b| {
            let mut held = b.cpu.allocate(1).expect("room");
            held.write(0, &b.view()).expect("its own");
            let mut run = a.heap.allocate(1).expect("room");
            refused(run.copy(0, &[held.all()]))
        }),
        ("CpuDescriptors::write", |a, b| {
            let mut held = a.cpu.allocate(1).expect("room");
            refused(held.write(0, &b.view()))
        }),
        ("UploadBatch::copy(buffer)", |a, b| refused(UploadBatch::new().copy(&a.staged[0], &b.buffer, 0))),
        ("UploadBatch::copy(staged)", |a, b| refused(UploadBatch::new().copy(&b.staged[0], &a.buffer, 0))),
        ("UploadBatch::copy(staged by a writer)", |a, b| refused(UploadBatch::new().copy(&b.staged[1], &a.buffer, 0))),
        ("UploadBatch::copy(fast constants)", |a, b| refused(UploadBatch::new().copy(&b.staged[2], &a.buffer, 0))),
        ("UploadBatch::copy(Staged::of)", |a, b| {
            let staged = Staged::of(&b.buffer, 0, 4).expect("inside");
            refused(UploadBatch::new().copy(&staged, &a.buffer, 0))
        }),
        ("UploadBatch::copy(both of another than the batch)", |a, b| {
            let mut batch = UploadBatch::new();
            let [own, foreign] = [&*a, &*b].map(|world| Staged::of(&world.slot, 0, 4).expect("inside"));
            batch.copy(&own, &a.buffer, 64).expect("its own");
            let before = batch.figures();
            let said = refused(batch.copy(&foreign, &b.buffer, 64));
            assert_eq!(batch.figures(), before);
            batch.clear();
            batch.copy(&foreign, &b.buffer, 64).expect("it is empty");
            said
        }),
        ("UploadBatch::copy_texels(texture)", |a, b| {
            refused(UploadBatch::new().copy_texels(&a.staged_texels, &b.texture, TexelTarget::default()))
        }),
        ("ConstantBuffers::upload_statics(batch)", |a, b| {
            let mut batch = UploadBatch::new();
            batch.copy(&Staged::of(&b.slot, 0, 4).expect("inside"), &b.buffer, 64).expect("its own");
            let own = a.timeline.begin();
            let mut writer = a.constants.writer(&own).expect("our own");
            refused(a.constants.upload_statics(&mut writer, &mut batch))
        }),
        ("ReadbackRing::reserve_box(texture)", |a, b| {
            let (aspect, [mip, layer, x, y, z], [width, height, depth, layers]) =
                (TextureAspect::Color, [0; 5], [4, 4, 1, 1]);
            let texels = TexelBox { aspect, mip, layer, layers, x, y, z, width, height, depth };
            refused(a.results.reserve_box(&a.timeline.begin(), &b.texture, &texels).map(drop))
        }),
        ("FastWriter::begin", |a, b| {
            let own = a.timeline.begin();
            refused(a.fast.writer(&own).expect("our own").begin(&b.timeline.begin()))
        }),
        ("Placement::create_constants(writer)", |a, b| {
            let own = b.timeline.begin();
            let mut writer = b.placement.fast_constants().writer(&own).expect("its own");
            refused(a.placement.create_constants(&[1; 16], ConstantsLifetime::SingleFrame, &mut writer, "").map(drop))
        }),
        ("SamplerTable::new", |a, b| refused(SamplerTable::new(&a.memory, &b.heap, BindlessDesc::default()).map(drop))),
        ("FrameDescriptors::gpu_handle", |a, b| {
            let (own, foreign) = (a.timeline.begin(), b.timeline.begin());
            let table = b.heap.frame_descriptors(&foreign).expect("its own").table_of(&[b.view()]).expect("room");
            let tables = a.heap.frame_descriptors(&own).expect("our own");
            panics(|| tables.gpu_handle(table))
        }),
        ("Execution::pass(queue)", |a, b| {
            let mut transient = TransientAllocator::new(&a.memory, TransientDesc::default());
            refused(transient.begin().pass(b.timeline.id(), &[]))
        }),
        ("Execution::pass(waits)", |a, b| {
            let (mut transient, mut other) = transient(a, b);
            let foreign = other.begin().pass(b.timeline.id(), &[]).expect("its own");
            refused(transient.begin().pass(a.timeline.id(), &[foreign]))
        }),
        ("Execution::acquire_buffer(pass)", |a, b| {
            let (mut transient, mut other) = transient(a, b);
            let foreign = other.begin().pass(b.timeline.id(), &[]).expect("its own");
            refused(transient.begin().acquire_buffer(&BufferDesc { size: 256, usage: usage() }, foreign, ""))
        }),
        ("Execution::discard(handle)", |a, b| {
            let (mut transient, mut other) = transient(a, b);
            let (_, foreign) = acquired(&mut other, b);
            refused(transient.begin().discard(foreign, &[]))
        }),
        ("TransientAllocator::buffer", |a, b| {
            let (mut transient, mut other) = transient(a, b);
            let ((_, own), (_, foreign)) = (acquired(&mut transient, a), acquired(&mut other, b));
            assert!(transient.buffer(own).is_ok());
            refused(transient.buffer(foreign))
        }),
        ("TransientAllocator::place", |a, b| {
            let (mut transient, mut other) = transient(a, b);
            let (_, (_, foreign)) = (acquired(&mut transient, a), acquired(&mut other, b));
            refused(transient.place(foreign))
        }),
        ("TransientAllocator::raw", |a, b| {
            let (mut transient, mut other) = transient(a, b);
            let ((_, own), (_, foreign)) = (acquired(&mut transient, a), acquired(&mut other, b));
            assert!(transient.raw(own.id()).is_ok());
            refused(transient.raw(foreign.id()))
        }),
        ("TransientAllocator::plan(queue)", |a, b| {
            let (mut transient, _) = transient(a, b);
            let info = BufferDesc { size: 256, usage: usage() };
            let resource = FrameResource { info: Described::Buffer(&info), first: 0, last: &[], name: "" };
            refused(transient.plan(&[FramePass::on(b.timeline.id())], &[resource], |_| true).map(drop))
        }),
        ("TransientAllocator::plan(passes before)", |a, b| {
            let (mut transient, mut other) = transient(a, b);
            let (foreign, _) = acquired(&mut other, b);
            let info = BufferDesc { size: 256, usage: usage() };
            let resource = FrameResource { info: Described::Buffer(&info), first: 0, last: &[], name: "" };
            let pass = FramePass { waits_before: &[foreign], ..FramePass::on(a.timeline.id()) };
            refused(transient.plan(&[pass], &[resource], |_| true).map(drop))
        }),
    ]
}

/// Returns one transient allocator over each.
fn transient(a: &Everything, b: &Everything) -> (TransientAllocator<Device>, TransientAllocator<Device>) {
    let [own, other] = [a, b].map(|world| TransientAllocator::new(&world.memory, TransientDesc::default()));
    (own, other)
}

/// Returns a pass, and a buffer that is acquired in that pass.
fn acquired(transient: &mut TransientAllocator<Device>, of: &Everything) -> (Pass, TransientBuffer) {
    let mut execution = transient.begin();
    let pass = execution.pass(of.timeline.id(), &[]).expect("its own");
    let info = BufferDesc { size: 256, usage: usage() };
    (pass, execution.acquire_buffer(&info, pass, "").expect("room"))
}

#[test]
fn what_is_another_allocators_is_refused_by_name_and_changes_nothing() {
    let device = Device::new(Profile::d3d12_modern(), SimOptions::default());
    let (mut a, mut b) = (world(&device), world(&device));
    assert_eq!(device.take_hazards(), []);
    let mut wrong = Vec::new();
    for (name, case) in cases() {
        settle(&a, &b);
        let before = (format!("{:?}", a.state()), format!("{:?}", b.state()));
        let said = case(&mut a, &mut b);
        settle(&a, &b);
        // The error names the owner, or says that the object is unknown.
        let names = [
            "another",
            "not of",
            "foreign",
            "different",
            "not a pass of this execution",
            "no open move",
            "was begun on another timeline",
            "use one allocator",
            "not to the frame with value",
        ];
        if !names.iter().any(|name| said.contains(name)) {
            wrong.push(format!("{name}: {said}"));
        }
        if before != (format!("{:?}", a.state()), format!("{:?}", b.state())) {
            wrong.push(format!("{name}: it changed something"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(device.take_hazards(), []);
    let _ = (a.fence, b.fence, Location::Device);
}

/// A new allocator may have the address of a dropped one.
#[test]
fn a_binding_knows_its_allocator_when_that_is_gone() {
    let make = || Allocator::over(Device::new(Profile::h200(), SimOptions::default()), AllocatorDesc::default());
    let desc =
        |kind| ShaderVisibleDesc { kind, frame_slots: 8, persistent_slots: 8, chunk_slots: 4, ..Default::default() };
    for _ in 0..40 {
        let first = make();
        let heap = ShaderVisibleHeap::new(&first, desc(HeapKind::Resources)).expect("small");
        // SAFETY: there are no submissions.
        let timeline = unsafe { first.timeline(first.device().create_fence(0)) }.expect("the device is not lost");
        let frame = timeline.begin();
        let binding = heap.bind(&frame).expect("its own");
        frame.discard();
        drop((heap, timeline, first));
        let second = make();
        let other = ShaderVisibleHeap::new(&second, desc(HeapKind::Samplers)).expect("small");
        assert_eq!(binding.and(&other).err(), Some(DescriptorError::Foreign));
    }
}
