//! A recorded run with descriptors and transient objects, and the states at the ends of its frames, computed without
//! the report.

use ringfence::descriptor::{CpuDescriptorHeap, CpuHeapDesc, ShaderVisibleDesc, View};
use ringfence::device::descriptors::{BufferView, BufferViewKind};
use ringfence::device::{BufferDesc, BufferUsage, TextureDesc, TextureUsage};
use ringfence::sim::{Device, Profile, SimOptions};
use ringfence::transient::{Described, FramePass, FrameResource, TransientDesc};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, ShaderVisibleHeap, TransientAllocator};
use ringfence_testkit::fixture::Recording;
use ringfence_trace::{DescriptorUse, Event, Reader, State};

/// Records `count` frames. Persistent descriptors are allocated and freed, frame tables grow and shrink, and three
/// targets share a heap.
pub fn frames(count: u32) -> Vec<u8> {
    let device = Device::new(Profile::h200(), SimOptions::default());
    let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    let recording = Recording::default();
    memory.trace().start(recording.clone()).expect("it has made nothing");
    let fence = device.create_fence(0);
    // SAFETY: the fence lives as long as the device, and every submitted frame signals it.
    let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
    let visible = ShaderVisibleDesc {
        frame_slots: 64,
        persistent_slots: 32,
        chunk_slots: 8,
        name: "visible",
        ..Default::default()
    };
    let visible = ShaderVisibleHeap::new(&memory, visible).expect("it is small");
    let cpu = CpuHeapDesc { block_slots: 8, name: "cpu", ..Default::default() };
    let cpu = CpuDescriptorHeap::<Device>::new(&memory, cpu).expect("small");
    let desc = BufferDesc { size: 256, usage: BufferUsage::STORAGE };
    let buffer = memory.create_buffer(&desc, AllocationDesc::default()).expect("there is room");
    let kind = BufferViewKind::Storage { stride: 0, writes: true };
    let view = View::buffer(&buffer, BufferView { kind, offset: 0, size: 256 }).expect("it was made for storage");
    let mut shown = cpu.allocate(4).expect("room");
    (0..4).for_each(|index| shown.write(index, &view).expect("a storage buffer"));

    let mut transient = TransientAllocator::new(&memory, TransientDesc::default());
    let usage = TextureUsage::RENDER_TARGET | TextureUsage::SAMPLED;
    let target = TextureDesc { width: 512, height: 512, usage, ..Default::default() };
    let resource = |first, last, name| FrameResource { info: Described::Texture(&target), first, last, name };
    let resources = [resource(0, &[1], "depth"), resource(1, &[2], "bloom"), resource(2, &[3], "blurred")];
    let passes = [FramePass::on(timeline.id()); 4];

    let mut kept = Vec::new();
    for number in 0..count {
        let frame = timeline.begin();
        let value = frame.value();
        let mut frame_tables = visible.frame_descriptors(&frame).expect("its own frame");
        for at in 0..number % 5 {
            frame_tables.table(&[shown.part(0..1 + at % 4).expect("one of four")]).expect("room");
        }
        drop(frame_tables);
        kept.push((visible.allocate(1 + number % 3).expect("room"), cpu.allocate(1 + number % 4).expect("room")));
        if number % 4 == 3 {
            kept.drain(..2);
        }
        // The first two frames have fewer targets.
        let resources = &resources[..resources.len().min(1 + number as usize)];
        let execution = transient.plan(&passes, resources, |_| true).expect("there is room");
        device.submit(0, &[], vec![], (fence, value)).expect("the device is not lost");
        execution.finish(&[timeline.submitted(frame).expect("in order")]);
        transient.end_frame();
        memory.reclaim();
    }
    memory.trace().stop().expect("memory can be written");
    recording.bytes()
}

/// Numbers of descriptors and transient objects at the end of a frame.
#[derive(Clone, PartialEq, Debug)]
pub struct Moment {
    pub frame: u64,
    pub visible: DescriptorUse,
    pub cpu: DescriptorUse,
    pub transient_bytes: u64,
}

/// Returns the states at the end of each frame and at the end of the trace.
pub fn moments(trace: &[u8]) -> Vec<Moment> {
    let (mut state, mut moments) = (State::new(), Vec::new());
    let moment = |state: &State| {
        let uses = state.descriptor_uses();
        let of = |shader_visible| uses.iter().find(|held| held.shader_visible == shader_visible).cloned();
        Moment {
            frame: state.frame_count(),
            visible: of(true).unwrap_or_default(),
            cpu: of(false).unwrap_or_default(),
            transient_bytes: state.transient_objects().values().map(|held| held.bytes).sum(),
        }
    };
    for event in Reader::new(trace).expect("it is a trace") {
        let event = event.expect("it is whole");
        state.apply(&event);
        assert_eq!(state.odd_count(), 0, "{event:?}");
        if matches!(event, Event::Reclaimed { .. }) {
            moments.push(moment(&state));
        }
    }
    moments.push(moment(&state));
    moments
}
