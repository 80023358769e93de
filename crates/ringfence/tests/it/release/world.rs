//! A program with three queues that run out of step, and a list of what it retired, kept beside the library.

use std::ops::Deref;

use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create};
use ringfence::sim::{Command, Device, SimOptions};
use ringfence::{AllocationDesc, Allocator, Buffer, Location, SyncPoint, SyncSet, Timeline};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

pub const QUEUES: usize = 3;
pub const BYTES: u64 = 64;

/// SplitMix64.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// A buffer and the last value of each queue that uses it.
pub struct Used {
    pub buffer: Buffer<Device>,
    pub users: [u64; QUEUES],
}

pub struct Program {
    pub base: Fixture,
    pub dice: Dice,
    /// What the program holds.
    pub held: Vec<Used>,
    /// Where each queue copies to.
    targets: Vec<Buffer<Device>>,
    /// The last value submitted to each queue.
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
        Self { base, dice: Dice(seed), held: vec![], targets, submitted: [0; QUEUES] }
    }

    /// Makes a buffer with something in it.
    pub fn make(&mut self) {
        let mut buffer = buffer(&self.memory, Location::Upload, BufferUsage::COPY_SRC);
        buffer.write(0, &[7; BYTES as usize]).expect("upload memory is mapped");
        self.held.push(Used { buffer, users: [0; QUEUES] });
    }

    /// Submits work to a queue that reads some of the buffers, maybe only after another queue's work.
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

    /// Where a queue copies to.
    pub fn target(&self, queue: usize) -> &Buffer<Device> {
        &self.targets[queue]
    }

    /// What the device has reached. Work stands still until [`Program::go_on`], so that it stays what it is.
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

    /// Drops everything, the allocator too; nothing is left on the device, and nothing was destroyed twice.
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
    let info = Create::<Buffers>::describe(memory.device(), &BufferDesc { size: BYTES, usage }).expect("plain");
    memory.create_buffer(&info, AllocationDesc { location, ..Default::default() }).expect("there is room")
}
