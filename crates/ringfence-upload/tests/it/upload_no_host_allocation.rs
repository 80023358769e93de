//! Uploads, constants and results make no host allocations in the steady state.
//!
//! The device is the simulated one. Its own work (flushes, submissions) allocates. So the wrapper below excludes
//! allocations inside the device from the count.

use crate::quiet;

use quiet::Quiet;
use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::placement::FastConstantsDesc;
use ringfence::upload::{ConstantsDesc, ReadbackDesc, UploadDesc, WhenFull};
use ringfence::{
    AllocationDesc, Allocator, AllocatorDesc, Buffer, ConstantBuffers, FastConstants, Location, ReadbackRing, Timeline,
    UploadBatch, UploadRing,
};
use ringfence_testkit::counting_allocator::{host_allocations, uncounted};
use std::collections::VecDeque;

struct Program {
    device: Quiet,
    fence: ringfence::sim::Fence,
    timeline: Timeline<Quiet>,
    memory: Allocator<Quiet>,
}

impl Program {
    fn new() -> Self {
        let device = Quiet::new();
        let fence = device.create_fence();
        let memory = Allocator::over(device.clone(), AllocatorDesc::default());
        // SAFETY: the fence belongs to the device, and every frame below signals it.
        let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
        Self { device, fence, timeline, memory }
    }

    fn target(&self) -> Buffer<Quiet> {
        let info = BufferDesc { size: 1 << 20, usage: BufferUsage::COPY_DST };
        let desc = AllocationDesc { location: Location::Device, ..Default::default() };
        self.memory.create_buffer(&info, desc).expect("there is room")
    }
}

#[test]
fn steady_uploads_allocate_nothing_on_the_host() {
    assert!(host_allocations(|| drop(vec![1])) > 0, "the counter counts");
    assert_eq!(host_allocations(|| uncounted(|| drop(vec![1]))), 0, "excluding the device's own");
    let program = Program::new();
    let Program { device, fence, timeline, memory } = &program;
    let target = program.target();
    let desc = UploadDesc { capacity: 256 << 10, page_bytes: 8 << 10, ..Default::default() };
    let ring = UploadRing::new(memory, desc).expect("there is room");
    let when_full = WhenFull::grow(1 << 20);
    let growing =
        UploadRing::new(memory, UploadDesc { capacity: 16 << 10, when_full, ..Default::default() }).expect("room");
    let results = ReadbackRing::new(memory, ReadbackDesc { capacity: 64 << 10, ..Default::default() }).expect("room");
    let constants = ConstantBuffers::new(memory, ConstantsDesc::default(), ()).expect("there is room");
    let fast = FastConstants::new(memory, FastConstantsDesc::default());
    let mut dynamic: Vec<_> = (0..20).map(|_| constants.dynamic(300).expect("a size that is served")).collect();
    let mut fixed: Vec<_> = (0..20).map(|_| constants.create_static(&[1; 200]).expect("there is room")).collect();
    let mut batch = UploadBatch::new();
    let mut held = VecDeque::with_capacity(8);
    let bytes = vec![7; 4000];

    let first = timeline.begin();
    let mut writer = ring.writer(&first).expect("the frame is the allocator's own");
    let mut binder = constants.writer(&first).expect("the frame is the allocator's own");
    let mut quick = fast.writer(&first).expect("the frame is the allocator's own");
    uncounted(|| device.submit(*fence, first.value()));
    timeline.submitted(first).expect("in order");

    let mut frame = |number: u64| {
        let frame = timeline.begin();
        writer.begin(&frame).expect("the frame is the allocator's own");
        binder.begin(&frame).expect("the frame is the allocator's own");
        quick.begin(&frame).expect("the frame is the allocator's own");
        for step in 0..10 {
            let staged = writer.write(&bytes[..100 + step * 300], 4).expect("there is room, maybe after a wait");
            batch.copy(&staged, &target, step as u64 * 4096).expect("it fits");
            growing.write_for(&frame, &bytes[..500 + step * 100], 256).expect("there is room, maybe after a wait");
            quick.write(&bytes[..256]).expect("there is a page");
        }
        for (index, dynamic) in dynamic.iter_mut().enumerate() {
            dynamic.set(0, &(number * index as u64 / 3).to_le_bytes()).expect("it fits");
            binder.bind(dynamic).expect("there is room");
            binder.bind(dynamic).expect("no object is created");
        }
        for fixed in fixed.iter_mut().step_by(2) {
            fixed.update(&bytes[..256]).expect("it fits");
        }
        constants.upload_statics(&mut binder, &mut batch).expect("there is room");
        assert!(batch.figures().region_count > 0);
        batch.clear();
        if held.len() == 6 {
            drop(held.pop_front());
        }
        held.push_back(results.reserve(&frame, 2000, 4).expect("there is room"));
        uncounted(|| device.submit(*fence, frame.value()));
        timeline.submitted(frame).expect("in order");
        memory.reclaim();
    };
    // Long enough for the maximum number of submissions in flight, which depends on the seed.
    (1..1000).for_each(&mut frame);
    let allocated = host_allocations(|| (1000..4000).for_each(&mut frame));
    assert_eq!(allocated, 0);
    assert!(ring.snapshot().written_bytes > 100 * ring.capacity(), "the ring went round");
    uncounted(|| device.finish());
}
