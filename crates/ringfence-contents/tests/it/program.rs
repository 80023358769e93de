//! A program on the simulated device, whose hazard finder also watches barriers.

use std::time::Duration;

use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::sim::{Barrier, Command, Device, Fence, Profile, SimOptions};
use ringfence::upload::UploadDesc;
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Frame, Location, Timeline, UploadBatch, UploadRing};

const PATIENCE: Duration = Duration::from_secs(60);

pub struct Program {
    pub device: Device,
    pub timeline: Timeline<Device>,
    pub memory: Allocator<Device>,
    pub ring: UploadRing<Device>,
    fence: Fence,
}

impl Program {
    pub fn new(seed: u64) -> Self {
        let options = SimOptions { seed, lateness: 3, watches_barriers: true, ..Default::default() };
        let device = Device::new(Profile::h200(), options);
        let fence = device.create_fence(0);
        let memory = Allocator::over(device.clone(), AllocatorDesc::default());
        // SAFETY: the fence belongs to the device, and every submitted frame below signals it.
        let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
        let ring = ring(&memory, 1 << 20);
        Self { device, timeline, memory, ring, fence }
    }

    /// Submits the batches, in this order, as `frame`.
    pub fn submit(&self, frame: Frame, batches: &mut [&mut UploadBatch<Device>]) {
        let mut commands = Vec::new();
        for batch in batches {
            // SAFETY: the commands are submitted as this frame.
            unsafe { batch.record(&mut commands) }.expect("the destinations are there");
        }
        self.submit_commands(frame, commands);
        self.memory.reclaim();
    }

    fn submit_commands(&self, frame: Frame, commands: Vec<Command>) {
        self.device.submit(0, &[], commands, (self.fence, frame.value())).expect("the device is not lost");
        self.timeline.submitted(frame).expect("in order");
    }

    /// Submits a frame with these commands, and waits for it.
    pub fn run(&self, commands: Vec<Command>) {
        let frame = self.timeline.begin();
        let value = frame.value();
        self.submit_commands(frame, commands);
        assert!(self.timeline.wait(value, PATIENCE).expect("the device is not lost"));
    }

    /// Submits a frame without commands, and waits for it.
    pub fn idle(&self) {
        self.run(Vec::new());
        self.memory.reclaim();
    }

    /// Reads bytes back from the device.
    pub fn read(&self, from: &Buffer<Device>, src_offset: u64, size: u64) -> Vec<u8> {
        let desc = BufferDesc { size, usage: BufferUsage::COPY_DST };
        let how = AllocationDesc { location: Location::Readback, ..Default::default() };
        let back = self.memory.create_buffer(&desc, how).expect("there is room");
        let (src, dst) = (*from.object(), *back.object());
        let copy = Command::CopyBuffer { src, src_offset, dst, dst_offset: 0, size };
        self.run(vec![Command::Barrier(Barrier::All), copy]);
        let mut bytes = vec![0; size as usize];
        back.read(0, &mut bytes).expect("it is mapped");
        bytes
    }
}

pub fn ring(memory: &Allocator<Device>, capacity: u64) -> UploadRing<Device> {
    UploadRing::new(memory, UploadDesc { capacity, ..Default::default() }).expect("there is room")
}
