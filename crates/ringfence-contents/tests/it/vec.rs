//! `GpuVec`: generated changes, growth, lost frames, bounded updates, and views.

use std::time::Duration;

use ringfence::contents::{ContentsError, GpuVec, GpuVecDesc};
use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::resource::AsBufferSlice;
use ringfence::sim::{Device, Fence, Profile, SimOptions};
use ringfence::{
    AllocationDesc, Allocator, AllocatorDesc, Buffer, Location, Timeline, UploadBatch, UploadDesc, UploadError,
    UploadRing,
};
use ringfence_core::testing::rng::Rng;
use ringfence_sim::Command;

const PATIENCE: Duration = Duration::from_secs(60);

struct Program {
    device: Device,
    fence: Fence,
    timeline: Timeline<Device>,
    memory: Allocator<Device>,
    ring: UploadRing<Device>,
    batch: UploadBatch<Device>,
}

impl Program {
    fn new(seed: u64) -> Self {
        let options = SimOptions { seed, lateness: 3, watches_barriers: true, ..Default::default() };
        let device = Device::new(Profile::h200(), options);
        let fence = device.create_fence(0);
        let memory = Allocator::over(device.clone(), AllocatorDesc::default());
        // SAFETY: the fence belongs to the device, and every submitted frame below signals it.
        let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
        let ring = UploadRing::new(&memory, UploadDesc { capacity: 1 << 18, ..Default::default() }).expect("room");
        Self { device, fence, timeline, memory, ring, batch: UploadBatch::new() }
    }

    fn vector<T: bytemuck::NoUninit>(&self, update_bytes_max: u64) -> GpuVec<Device, T> {
        GpuVec::new(&self.memory, GpuVecDesc { name: "elements", update_bytes_max, ..Default::default() })
    }

    /// Updates the vector in a frame, which is submitted unless `is_lost`. Returns the number of elements that wait.
    fn update(&mut self, vector: &mut GpuVec<Device, u32>, is_lost: bool) -> usize {
        let frame = self.timeline.begin();
        let updated = vector.update(&self.ring, &mut self.batch, &frame).expect("the ring has room");
        vector.validate().expect("sound");
        if is_lost {
            self.batch.clear();
            frame.discard();
            return updated.waiting;
        }
        let mut commands = Vec::new();
        // SAFETY: the commands are submitted as this frame.
        unsafe { self.batch.record(&mut commands) }.expect("the destinations are there");
        self.device.submit(0, &[], commands, (self.fence, frame.value())).expect("the device is not lost");
        self.timeline.submitted(frame).expect("in order");
        self.batch.clear();
        self.memory.reclaim();
        updated.waiting
    }

    /// Reads the elements back from the device.
    fn read(&self, vector: &GpuVec<Device, u32>) -> Vec<u32> {
        let Some(buffer) = vector.buffer() else { return Vec::new() };
        let size = vector.len() as u64 * 4;
        let back = self.back(size.max(4));
        let frame = self.timeline.begin();
        let (src, dst) = (*buffer.object(), *back.object());
        let full = Command::Barrier(ringfence::sim::Barrier::All);
        let copy = Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size };
        let commands = if size > 0 { vec![full, copy] } else { Vec::new() };
        let value = frame.value();
        self.device.submit(0, &[], commands, (self.fence, value)).expect("the device is not lost");
        self.timeline.submitted(frame).expect("in order");
        assert!(self.timeline.wait(value, PATIENCE).expect("the device is not lost"));
        let mut values = vec![0; vector.len()];
        back.read_slice(0, &mut values).expect("it is mapped");
        values
    }

    fn back(&self, size: u64) -> Buffer<Device> {
        let desc = BufferDesc { size, usage: BufferUsage::COPY_DST };
        let location = AllocationDesc { location: Location::Readback, ..Default::default() };
        self.memory.create_buffer(&desc, location).expect("there is room")
    }
}

/// One step of a generated test: the same change to the vector and to the model.
fn change(dice: &mut Rng, vector: &mut GpuVec<Device, u32>, model: &mut Vec<u32>) {
    let value = dice.below(1 << 32) as u32;
    let at = if model.is_empty() { 0 } else { dice.below(model.len() as u64) as usize };
    match dice.below(10) {
        0..=2 => {
            vector.push(value);
            model.push(value);
        }
        3 => {
            let more: Vec<u32> = (0..dice.below(300) as u32).map(|step| value ^ step).collect();
            vector.extend_from_slice(&more);
            model.extend(more);
        }
        4 if !model.is_empty() => assert_eq!(vector.swap_remove(at), model.swap_remove(at)),
        5 if !model.is_empty() => assert_eq!(vector.remove(at), model.remove(at)),
        6 => {
            vector.insert(at, value);
            model.insert(at, value);
        }
        7 if dice.below(20) == 0 => {
            vector.truncate(at);
            model.truncate(at);
        }
        8 if !model.is_empty() => {
            let end = (at + 9).min(model.len());
            vector.slice_mut(at..end).fill(value);
            model[at..end].fill(value);
        }
        _ if !model.is_empty() => assert_eq!(vector.set(at, value), std::mem::replace(&mut model[at], value)),
        _ => {}
    }
}

#[test]
fn generated_changes_arrive_on_the_device() {
    for seed in 0..4 {
        let (mut program, mut dice, mut model) = (Program::new(seed), Rng::new(seed + 70), Vec::new());
        let mut vector = program.vector(1 << 20);
        let mut buffers = 0;
        for frame in 0..700 {
            let before = vector.object().copied();
            for _ in 0..dice.below(8) {
                change(&mut dice, &mut vector, &mut model);
            }
            assert_eq!(vector.as_slice(), model);
            let is_lost = dice.below(6) == 0;
            assert_eq!(program.update(&mut vector, is_lost), 0);
            buffers += usize::from(vector.object().copied() != before);
            if !is_lost && frame % 7 == 0 {
                assert_eq!(program.read(&vector), model, "seed {seed}, frame {frame}");
            }
        }
        program.update(&mut vector, false);
        assert_eq!(program.read(&vector), model);
        assert!((2..20).contains(&buffers), "{buffers} buffers: capacities double");
        assert_eq!(program.device.hazards(), []);
    }
}

#[test]
fn an_update_copies_changed_elements_only_and_grows_on_the_device() {
    let mut program = Program::new(1);
    let mut vector = program.vector(1 << 20);
    vector.extend(0..1000_u32);
    let frame = program.timeline.begin();
    let mut batch = UploadBatch::new();
    let first = vector.update(&program.ring, &mut batch, &frame).expect("room");
    assert_eq!((first.staged_bytes, first.kept_bytes, first.is_moved), (4000, 0, true));
    vector.set(500, 7);
    let second = vector.update(&program.ring, &mut batch, &frame).expect("room");
    assert_eq!((second.staged_bytes, second.is_moved), (4, false));
    frame.discard();
    drop(batch);
    program.update(&mut vector, false);
    // The capacity is 1,024 elements, so this grows: the first 1,000 are copied on the device.
    vector.extend(0..500);
    let frame = program.timeline.begin();
    let grown = vector.update(&program.ring, &mut program.batch, &frame).expect("room");
    assert_eq!((grown.staged_bytes, grown.kept_bytes, grown.is_moved), (2000, 4000, true));
    // A second growth in the same batch cannot read the buffer that the batch writes: it uploads everything.
    vector.extend(0..5000);
    let again = vector.update(&program.ring, &mut program.batch, &frame).expect("room");
    assert_eq!((again.staged_bytes, again.kept_bytes, again.is_moved), (26_000, 0, true));
    let mut commands = Vec::new();
    // SAFETY: the commands are submitted as this frame.
    unsafe { program.batch.record(&mut commands) }.expect("the destinations are there");
    program.device.submit(0, &[], commands, (program.fence, frame.value())).expect("not lost");
    program.timeline.submitted(frame).expect("in order");
    let expected: Vec<u32> =
        (0..1000).map(|value| if value == 500 { 7 } else { value }).chain(0..500).chain(0..5000).collect();
    assert_eq!(program.read(&vector), expected);
    assert_eq!(program.device.hazards(), []);
}

#[test]
fn large_changes_arrive_over_several_updates() {
    let mut program = Program::new(2);
    let mut vector = program.vector(4096);
    vector.extend(0..3000_u32);
    assert_eq!(program.update(&mut vector, false), 3000 - 1024);
    assert_eq!(program.update(&mut vector, false), 3000 - 2048);
    assert_eq!(program.update(&mut vector, false), 0);
    assert_eq!(program.read(&vector), (0..3000).collect::<Vec<_>>());
}

#[test]
fn many_scattered_changes_are_copied_in_few_ranges() {
    let mut program = Program::new(7);
    let mut vector = program.vector(1 << 20);
    vector.extend(0..20_000_u32);
    program.update(&mut vector, false);
    for step in 0..200 {
        vector.set((step * 7919) % 20_000, step as u32);
        vector.validate().expect("sound");
    }
    let frame = program.timeline.begin();
    vector.update(&program.ring, &mut program.batch, &frame).expect("room");
    assert!(program.batch.figures().copy_count <= 64, "{:?}", program.batch.figures());
    let mut commands = Vec::new();
    // SAFETY: the commands are submitted as this frame.
    unsafe { program.batch.record(&mut commands) }.expect("the destinations are there");
    program.device.submit(0, &[], commands, (program.fence, frame.value())).expect("the device is not lost");
    program.timeline.submitted(frame).expect("in order");
    assert_eq!(program.read(&vector), vector.as_slice());
}

#[test]
fn a_view_contains_exactly_the_elements() {
    let mut program = Program::new(3);
    let mut vector = program.vector(1 << 20);
    assert!(vector.slice().is_none() && vector.buffer().is_none());
    vector.extend(0..10_u32);
    assert!(vector.slice().is_none(), "not uploaded yet");
    program.update(&mut vector, false);
    let slice = vector.slice().expect("there are elements");
    assert_eq!((slice.as_slice().offset, slice.as_slice().size), (0, 40));
    vector.clear();
    assert!(vector.slice().is_none());
    assert_eq!(vector.capacity(), 1024, "the buffer is kept");
}

#[test]
fn a_foreign_frame_is_refused_and_nothing_is_lost() {
    let (mut program, other) = (Program::new(4), Program::new(5));
    let mut vector = program.vector(1 << 20);
    vector.extend(0..10_u32);
    let frame = other.timeline.begin();
    let refused = vector.update(&program.ring, &mut program.batch, &frame);
    assert!(matches!(refused, Err(ContentsError::Upload(UploadError::ForeignFrame { .. }))), "{refused:?}");
    assert!(vector.buffer().is_none());
    frame.discard();
    program.update(&mut vector, false);
    assert_eq!(program.read(&vector), (0..10).collect::<Vec<_>>());
}

#[test]
fn an_update_that_the_ring_has_no_room_for_continues_later() {
    let mut program = Program::new(6);
    program.ring =
        UploadRing::new(&program.memory, UploadDesc { capacity: 1 << 16, ..Default::default() }).expect("room");
    let mut vector = program.vector(1 << 20);
    vector.extend(0..50_000_u32);
    let frame = program.timeline.begin();
    let refused = vector.update(&program.ring, &mut program.batch, &frame);
    assert!(matches!(refused, Err(ContentsError::Upload(_))), "{refused:?}");
    vector.validate().expect("sound");
    frame.discard();
    program.batch.clear();
    program.ring =
        UploadRing::new(&program.memory, UploadDesc { capacity: 1 << 20, ..Default::default() }).expect("room");
    program.update(&mut vector, false);
    assert_eq!(program.read(&vector), (0..50_000).collect::<Vec<_>>());
}
