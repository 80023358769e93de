//! Generated operations on recycled objects, on two queues of the simulated device that run late and out of step. There
//! is no hazard, every byte that is read back is its owner's, and the recycled objects never exceed the bound.
//!
//! `RINGFENCE_RECYCLED_OPERATIONS` sets the number of operations (100,000,000 for the long campaign),
//! `RINGFENCE_RECYCLED_SEED` the seed.

use std::time::Duration;

use ringfence::device::{BufferDesc, BufferUsage, TextureDesc, TextureUsage};
use ringfence::sim::{self, Command, SimOptions};
use ringfence::{AllocationDesc, AllocatorDesc, Buffer, Location, SmallBuffer, Texture};
use ringfence_testkit::fixture::{Fixture, FixtureDesc};

const OPERATIONS: u64 = 60_000;
const QUEUES: usize = 2;
const LIVE_MAX: usize = 200;
const BOUND: u64 = 256 << 10;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % end
    }
}

enum What {
    Buffer(Buffer<sim::Device>),
    Small(SmallBuffer<sim::Device>),
    Texture(#[expect(dead_code, reason = "held")] Texture<sim::Device>),
}

/// An object, and the only queue that uses it.
struct Held {
    what: What,
    queue: usize,
    bytes: u64,
    /// Value of all its bytes, once it was written.
    value: Option<u8>,
}

impl Held {
    fn place(&self) -> Option<(sim::BufferId, u64)> {
        match &self.what {
            What::Buffer(buffer) => Some((*buffer.object(), 0)),
            What::Small(small) => Some((*small.object(), small.offset())),
            What::Texture(_) => None,
        }
    }
}

struct Campaign {
    world: Fixture,
    random: Random,
    held: Vec<Held>,
    readback: Buffer<sim::Device>,
    done: u64,
}

impl Campaign {
    fn new(seed: u64) -> Self {
        let world = Fixture::new(FixtureDesc {
            options: SimOptions { seed, ..Default::default() },
            allocator: AllocatorDesc { recycled_bytes_max: BOUND, empty_block_grace: 64, ..Default::default() },
            timelines: QUEUES,
            ..Default::default()
        });
        let into = AllocationDesc { location: Location::Readback, ..Default::default() };
        let readback = world.buffer(64 << 10, into).expect("there is room");
        Self { world, random: Random(seed * 2 + 1), held: Vec::new(), readback, done: 0 }
    }

    fn make(&mut self) {
        let memory = &self.world.memory;
        let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
        let size = [256, 300, 1000, 4096, 5000][self.random.below(5) as usize];
        let (what, bytes) = match self.random.below(8) {
            0 => {
                let side = 4 << self.random.below(3);
                let usage = TextureUsage::SAMPLED | TextureUsage::COPY_DST;
                let desc = TextureDesc { width: side, height: side, usage, ..Default::default() };
                (What::Texture(memory.create_texture(&desc, AllocationDesc::default()).expect("room")), 0)
            }
            1..=3 => {
                let small = memory.create_small_buffer(BufferDesc { size, usage }, Location::Device).expect("room");
                (What::Small(small), size)
            }
            kind => {
                let size = if kind == 4 { size + self.random.below(64) } else { size };
                let desc = AllocationDesc { may_be_larger: kind == 4, recycle: kind != 5, ..Default::default() };
                (What::Buffer(memory.create_buffer(&BufferDesc { size, usage }, desc).expect("room")), size)
            }
        };
        let queue = self.random.below(QUEUES as u64) as usize;
        self.held.push(Held { what, queue, bytes, value: None });
    }

    fn drop_one(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let at = self.random.below(self.held.len() as u64) as usize;
        match self.held.swap_remove(at) {
            // SAFETY: it was never used in recorded commands.
            Held { what: What::Buffer(buffer), value: None, .. } => unsafe { buffer.destroy_now() },
            held => drop(held),
        }
    }

    fn fill(&mut self, queue: usize, commands: &mut Vec<Command>) {
        if self.held.is_empty() {
            return;
        }
        let at = self.random.below(self.held.len() as u64) as usize;
        let value = self.random.below(256) as u8;
        let held = &mut self.held[at];
        if let Some((dst, offset)) = held.place().filter(|_| held.queue == queue) {
            held.value = Some(value);
            commands.push(Command::FillBuffer { dst, offset, size: held.bytes, value });
        }
    }

    /// Makes one submission to one queue.
    fn frame(&mut self) {
        let queue = self.random.below(QUEUES as u64) as usize;
        let frame = self.world.timelines[queue].begin();
        let mut commands = Vec::new();
        for _ in 0..self.random.below(60) {
            self.done += 1;
            match self.random.below(10) {
                0..4 if self.held.len() < LIVE_MAX => self.make(),
                0..8 => self.drop_one(),
                _ => self.fill(queue, &mut commands),
            }
        }
        // Resources in recorded commands may be dropped before the submission: the frame keeps them alive.
        let value = self.submit(queue, frame, commands);
        if value > 3 {
            let is_there = self.world.timelines[queue].wait(value - 3, Duration::MAX);
            assert!(is_there.expect("the device is not lost"));
        }
        if self.random.below(3) > 0 {
            self.world.memory.reclaim();
        }
    }

    fn submit(&self, queue: usize, frame: ringfence::Frame, commands: Vec<Command>) -> u64 {
        let value = frame.value();
        let fence = self.world.fences[queue];
        self.world.device.submit(queue, &[], commands, (fence, value)).expect("the device is not lost");
        self.world.timelines[queue].submitted(frame).expect("in order");
        value
    }

    /// Reads back the contents of the queues' objects.
    fn check(&mut self) {
        for queue in 0..QUEUES {
            for held in self.held.iter().filter(|held| held.queue == queue) {
                let (Some((src, src_offset)), Some(value)) = (held.place(), held.value) else { continue };
                let frame = self.world.timelines[queue].begin();
                let (dst, size) = (*self.readback.object(), held.bytes);
                let copy = Command::CopyBuffer { src, src_offset, dst, dst_offset: 0, size };
                let done = self.submit(queue, frame, vec![copy]);
                assert!(self.world.timelines[queue].wait(done, Duration::MAX).expect("the device is not lost"));
                let mut bytes = vec![0; size as usize];
                self.readback.read(0, &mut bytes).expect("it is mapped");
                assert!(bytes.iter().all(|byte| *byte == value), "{value} was written, {:?} is there", &bytes[..16]);
            }
        }
        let statistics = self.world.memory.statistics();
        assert!(statistics.recycled_bytes <= BOUND, "{} bytes kept", statistics.recycled_bytes);
        self.world.memory.debug().validate().expect("the allocator is sound");
        assert_eq!(self.world.hazards(), Vec::<String>::new());
    }
}

#[test]
fn generated_operations_leave_every_byte_to_its_owner() {
    let operations = setting("RINGFENCE_RECYCLED_OPERATIONS", OPERATIONS);
    let mut campaign = Campaign::new(setting("RINGFENCE_RECYCLED_SEED", 1));
    let mut frames = 0_u64;
    while campaign.done < operations {
        campaign.frame();
        frames += 1;
        if frames.is_multiple_of(100) {
            campaign.check();
        }
    }
    campaign.check();
    let Campaign { world, held, readback, done, .. } = campaign;
    let calls = world.memory.statistics().calls;
    println!("{done} operations, {} objects made, {} recycled", calls.create_object, calls.recycled);
    assert!(calls.recycled > done / 8, "{} of {done} operations recycled something", calls.recycled);
    drop((held, readback));
    world.finish();
}
