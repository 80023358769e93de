//! A program with three queues that run out of step, and its own list of the resources that it retired.

use std::ops::Deref;

use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::lifetime::SyncSet;
use ringfence::sim::{Command, Device, SimOptions};
use ringfence::{AllocationDesc, Allocator, Buffer, Location, SyncPoint, Timeline};
use ringfence_core::testing::rng::Rng;
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

pub const QUEUES: usize = 3;
pub const BYTES: u64 = 64;

/// A buffer, with the last value of each queue that uses it.
pub struct Used {
    pub buffer: Buffer<Device>,
    pub users: [u64; QUEUES],
}

pub struct Program {
    pub base: Fixture,
    pub dice: Rng,
    /// Live buffers of the program.
    pub held: Vec<Used>,
    /// Copy destination of each queue.
    targets: Vec<Buffer<Device>>,
    /// Last value that was submitted to each queue.
    pub submitted: [u64; QUEUES],
}

impl Deref for Program {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.base
    }
}

impl Program {
    pub fn new(seed: u64) -> Self {
        let options = SimOptions { seed, queues: QUEUES, ..Default::default() };
        let base = Fixture::new(FixtureDesc { options, timelines: QUEUES, ..Default::default() });
        let targets = (0..QUEUES).map(|_| buffer(&base.memory, Location::Device, BufferUsage::COPY_DST)).collect();
        Self { base, dice: Rng::new(seed), held: vec![], targets, submitted: [0; QUEUES] }
    }

    /// Creates a buffer with content.
    pub fn make(&mut self) {
        let mut buffer = buffer(&self.memory, Location::Upload, BufferUsage::COPY_SRC);
        buffer.write(0, &[7; BYTES as usize]).expect("upload memory is mapped");
        self.held.push(Used { buffer, users: [0; QUEUES] });
    }

    /// Submits work to a queue. The work reads some of the buffers, and may wait for another queue.
    pub fn submit(&mut self, queue: usize) {
        let frame = self.timelines[queue].begin();
        let mut commands = Vec::new();
        for _ in 0..self.dice.below(4).min(self.held.len() as u64) {
            let at = self.dice.below(self.held.len() as u64) as usize;
            let used = &mut self.held[at];
            used.users[queue] = frame.value();
            let (src, dst) = (*used.buffer.object(), *self.targets[queue].object());
            commands.push(Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size: BYTES });
        }
        let other = self.dice.below(QUEUES as u64) as usize;
        let waits = (self.dice.below(4) == 0 && other != queue).then(|| (self.fences[other], self.submitted[other]));
        let signal = (self.fences[queue], frame.value());
        self.device.submit(queue, waits.as_slice(), commands, signal).expect("the device is not lost");
        self.submitted[queue] = frame.value();
        self.timelines[queue].submitted(frame).expect("in order");
    }

    /// Returns the copy destination of a queue.
    pub fn target(&self, queue: usize) -> &Buffer<Device> {
        &self.targets[queue]
    }

    /// Pauses all work until [`Program::go_on`], and returns the values that the device has reached.
    pub fn stand_still(&self) -> [u64; QUEUES] {
        (0..QUEUES).for_each(|queue| self.device.pause(queue));
        std::array::from_fn(|queue| self.timelines[queue].completed().expect("the device is not lost"))
    }

    pub fn go_on(&self, ticks: u64) {
        (0..QUEUES).for_each(|queue| self.device.resume(queue));
        self.device.advance(ticks);
    }

    #[track_caller]
    pub fn no_hazard(&self) {
        let found: Vec<String> = self.device.take_hazards().iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{found:#?}");
    }

    /// Drops everything, including the allocator. Checks that the device has no live object and that none was destroyed
    /// twice.
    #[track_caller]
    pub fn close(self) {
        let Self { base: Fixture { device, memory, timelines, .. }, held, targets, .. } = self;
        drop((held, targets, timelines));
        drop(memory);
        let found: Vec<String> = device.take_hazards().iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{found:#?}");
        assert_eq!(device.live(), Default::default());
    }
}

pub fn set(timelines: &[Timeline<Device>], values: [u64; QUEUES]) -> SyncSet {
    let points = timelines.iter().zip(values).filter(|&(_, value)| value > 0);
    points.map(|(timeline, value)| SyncPoint::new(timeline.id(), value)).collect()
}

fn buffer(memory: &Allocator<Device>, location: Location, usage: BufferUsage) -> Buffer<Device> {
    let info = BufferDesc { size: BYTES, usage };
    memory.create_buffer(&info, AllocationDesc { location, ..Default::default() }).expect("there is room")
}
