//! A program on a simulated device whose hazard finder also watches barriers.

use std::time::Duration;

use ringfence::commands::{CommandError, Commands};
use ringfence::device::{BufferDesc, BufferUsage, TextureDesc, TextureUsage};
use ringfence::sim::{Command, Device, Fence, Profile, SimOptions};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Frame, Location, Texture, Timeline};

pub type List = Vec<Command>;
pub type Recorder<'a> = Commands<'a, Device, List>;

pub struct Program {
    pub device: Device,
    pub memory: Allocator<Device>,
    pub timeline: Timeline<Device>,
    fence: Fence,
}

impl Program {
    pub fn new(profile: Profile, seed: u64) -> Self {
        let options = SimOptions { seed, lateness: 3, watches_barriers: true, ..Default::default() };
        let device = Device::new(profile, options);
        let fence = device.create_fence(0);
        let memory = Allocator::over(device.clone(), AllocatorDesc::default());
        // SAFETY: the fence belongs to the device, and every submitted frame signals it.
        let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
        Self { device, memory, timeline, fence }
    }

    /// Records commands for a new frame, which is not submitted yet.
    pub fn record<R>(&self, work: impl FnOnce(&mut Recorder<'_>) -> R) -> (Frame, List, R) {
        let (frame, mut list) = (self.timeline.begin(), List::new());
        // SAFETY: the caller submits the list as this frame, or discards both.
        let mut commands = unsafe { Commands::new(&self.memory, &frame, &mut list) }.expect("its own frame");
        let result = work(&mut commands);
        (frame, list, result)
    }

    pub fn submit(&self, frame: Frame, list: List) {
        self.device.submit(0, &[], list, (self.fence, frame.value())).expect("the device is not lost");
        self.timeline.submitted(frame).expect("in order");
        self.memory.reclaim();
    }

    /// Records commands, which must succeed, and submits them.
    pub fn run(&self, work: impl FnOnce(&mut Recorder<'_>) -> Result<(), CommandError>) {
        let (frame, list, result) = self.record(work);
        result.expect("the command is valid");
        self.submit(frame, list);
    }

    /// Returns the error of a command, after the check that nothing was recorded.
    pub fn refused(&self, work: impl FnOnce(&mut Recorder<'_>) -> Result<(), CommandError>) -> CommandError {
        let (frame, list, result) = self.record(work);
        frame.discard();
        assert!(list.is_empty(), "a refused command records nothing: {list:?}");
        result.expect_err("the command is refused")
    }

    /// Waits until all submitted work is complete.
    pub fn finish(&self) {
        let value = self.timeline.submitted_value();
        assert!(self.timeline.wait(value, Duration::from_secs(60)).expect("the device is not lost"));
        self.memory.reclaim();
    }

    pub fn buffer(&self, size: u64, usage: BufferUsage, location: Location) -> Buffer<Device> {
        let how = AllocationDesc { location, ..Default::default() };
        self.memory.create_buffer(&BufferDesc { size, usage }, how).expect("there is room")
    }

    /// Creates a buffer for copies.
    pub fn device_buffer(&self, size: u64) -> Buffer<Device> {
        self.buffer(size, BufferUsage::COPY_SRC | BufferUsage::COPY_DST, Location::Device)
    }

    pub fn texture(&self, desc: TextureDesc) -> Texture<Device> {
        self.memory.create_texture(&desc, AllocationDesc::default()).expect("there is room")
    }

    /// Returns the bytes of a buffer on the device.
    pub fn peek(&self, buffer: &Buffer<Device>) -> Vec<u8> {
        self.finish();
        let range = ringfence::sim::BufferRange::new(*buffer.object(), 0, buffer.size());
        self.device.peek(range).expect("the buffer is alive")
    }
}

/// A two-dimensional texture for every command, with mip levels and layers.
pub fn desc() -> TextureDesc {
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST | TextureUsage::RENDER_TARGET;
    TextureDesc { width: 16, height: 8, mips: 3, layers: 2, usage, ..Default::default() }
}
