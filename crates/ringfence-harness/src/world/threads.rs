//! A world of several threads: each has a queue and things of its own, and all share the allocator, the ring and the device.
//! What they do follows from the seed; how they meet does not.
//!
//! ```text
//!   thread 0, queue 0   create · check · resize · move · drop       small memory by itself: taken, given back at once
//!        │  ▲                                     │  ▲
//!        ▼  │  with the point of its last use     ▼  │
//!       pot of buffers                           pot of memory      what one thread lays down, another takes up
//!        ▲  │
//!        │  ▼
//!   thread 1, queue 1   …                        all: reclaim · trim · look (statistics, snapshot) · lose the device
//! ```

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use ringfence::defrag::{DefragDesc, MoveError};
use ringfence::device::sim::{Command, Device, Fence, Profile, SimOptions};
use ringfence::device::{BufferDesc, BufferInfo, BufferUsage, Buffers, Create, Driver, Requirements, ResourceClass};
use ringfence::lifetime::BufferCopy;
use ringfence::{
    Allocation, AllocationDesc, Allocator, AllocatorDesc, Buffer, Frame, Location, Timeline, UploadDesc, UploadRing,
    WhenFull,
};

use super::dice::Dice;
use super::{Figures, Finding, WorldOptions};

const USED: BufferUsage = BufferUsage::COPY_SRC.union(BufferUsage::COPY_DST);
/// Small memory that a thread holds.
const CELLS_MAX: usize = 64;

struct Shared {
    device: Device,
    memory: Allocator<Device>,
    ring: UploadRing<Device>,
    buffers: Mutex<Vec<Thing>>,
    cells: Mutex<Vec<Allocation<Device>>>,
}

/// A buffer, what is in it, and the work of another queue that has to come before its next use.
struct Thing {
    buffer: Buffer<Device>,
    bytes: Vec<u8>,
    after: Option<(Fence, u64)>,
}

/// One thread's things.
struct Worker<'a> {
    shared: &'a Shared,
    queue: usize,
    fence: Fence,
    timeline: Timeline<Device>,
    dice: Dice,
    held: Vec<Thing>,
    cells: Vec<Allocation<Device>>,
    figures: Figures,
}

/// Why a step ended early, in words.
type Step<T = ()> = Result<T, String>;

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn lock<T>(pot: &Mutex<T>) -> MutexGuard<'_, T> {
    pot.lock().expect("no panic while held")
}

pub fn run(options: &WorldOptions) -> Result<Figures, Finding> {
    let mut dice = Dice::new(options.seed);
    let profiles = Profile::all();
    let profile = profiles[dice.below(profiles.len() as u64) as usize].clone();
    let sim = SimOptions { seed: dice.any(), queues: options.threads, ..Default::default() };
    let device = Device::new(profile, sim);
    let finding = |what: String| Finding { seed: options.seed, step: 0, what };
    let desc = AllocatorDesc { device_block_bytes_max: 256 << 10, empty_block_grace: 2, ..Default::default() };
    let memory = Allocator::over(device.clone(), desc);
    let when_full = WhenFull::grow(4 << 20);
    let ring = memory.upload_ring(UploadDesc { capacity: 256 << 10, when_full, ..Default::default() });
    let ring = ring.map_err(|error| finding(error.to_string()))?;
    let (buffers, cells) = (Mutex::default(), Mutex::default());
    let shared = Shared { device: device.clone(), memory, ring, buffers, cells };
    let lost = dice.one_in(8);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for queue in 0..options.threads {
            let (shared, results, seed) = (&shared, &results, dice.any());
            scope.spawn(move || {
                let result = match Worker::new(shared, queue, seed) {
                    Ok(worker) => worker.work(options.steps, lost),
                    Err(_) if lost => Ok(Figures::default()),
                    Err(what) => Err(what),
                };
                results.lock().expect("no panic while held").push(result);
            });
        }
    });
    let mut figures = Figures { lost, ..Default::default() };
    for result in results.into_inner().expect("no panic while held") {
        figures.add(&result.map_err(finding)?);
    }
    let Shared { memory, ring, buffers, cells, .. } = shared;
    drop((ring, buffers, cells));
    memory.validate().map_err(|error| finding(format!("{error:?}")))?;
    memory.shutdown(Duration::MAX).map_err(|error| finding(error.to_string()))?;
    drop(memory);
    let first = device.take_hazards().first().map(ToString::to_string);
    let left = device.live();
    match first {
        Some(hazard) => Err(finding(hazard)),
        None if left != Default::default() => Err(finding(format!("left over: {left:?}"))),
        None => Ok(figures),
    }
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared, queue: usize, seed: u64) -> Result<Self, String> {
        let fence = shared.device.create_fence(0);
        // SAFETY: the fence lives as long as the device, and every frame that is submitted signals it.
        let timeline = unsafe { shared.memory.timeline(fence) }.map_err(|error| error.to_string())?;
        let (held, cells, figures) = (Vec::new(), Vec::new(), Figures::default());
        Ok(Self { shared, queue, fence, timeline, dice: Dice::new(seed), held, cells, figures })
    }

    /// With `lose`, the first thread loses the device half-way; what fails from then on is no finding.
    fn work(mut self, steps: u32, lose: bool) -> Result<Figures, String> {
        for step in 0..steps {
            self.figures.steps += 1;
            if lose && self.queue == 0 && step == steps / 2 {
                self.shared.device.lose_device();
            }
            let done = match self.dice.below(16) {
                0..=3 => self.create(),
                4 | 5 => self.check(),
                6 => self.drop_one(),
                7 => self.resize(),
                8 => self.move_own(),
                9 => self.lay_down(),
                10 => self.take_up(),
                11 | 12 => self.cells(),
                13 => self.look(),
                14 => {
                    self.shared.memory.reclaim();
                    Ok(())
                }
                _ => {
                    self.shared.memory.trim();
                    Ok(())
                }
            };
            match done {
                Err(_) if lose => return Ok(self.figures),
                other => other?,
            }
        }
        Ok(self.figures)
    }

    fn info(&self, size: u64, usage: BufferUsage) -> Step<BufferInfo<'static, Device>> {
        Create::<Buffers>::describe(&self.shared.device, &BufferDesc { size, usage }).map_err(told)
    }

    fn make(&mut self, size: u64, location: Location) -> Step<Buffer<Device>> {
        let usage = if location == Location::Readback { BufferUsage::COPY_DST } else { USED };
        let info = self.info(size, usage)?;
        let movable = location == Location::Device && self.dice.one_in(2);
        self.figures.made += 1;
        let desc = AllocationDesc { location, movable, ..Default::default() };
        self.shared.memory.create_buffer(&info, desc).map_err(told)
    }

    /// Submits work of this queue, after that of others.
    fn submit(&mut self, frame: Frame, waits: &[(Fence, u64)], commands: Vec<Command>) -> Step {
        let submitted = self.shared.device.submit(self.queue, waits, commands, (self.fence, frame.value()));
        submitted.map_err(told)?;
        self.timeline.submitted(frame).map_err(told)?;
        self.figures.submissions += 1;
        Ok(())
    }

    fn create(&mut self) -> Step {
        let size = self.dice.size();
        let bytes = self.dice.bytes(size);
        let buffer = self.make(size as u64, Location::Device)?;
        let frame = self.timeline.begin();
        let staged = self.shared.ring.write_for(&frame, &bytes, 16).map_err(told)?;
        let (src, src_offset, dst) = (staged.buffer, staged.offset, *buffer.object());
        let copy = Command::CopyBuffer { src, src_offset, dst, dst_offset: 0, size: staged.size };
        self.submit(frame, &[], vec![copy])?;
        if self.held.len() > 20 {
            self.held.swap_remove(0);
        }
        self.held.push(Thing { buffer, bytes, after: None });
        Ok(())
    }

    fn check(&mut self) -> Step {
        let Some(at) = self.dice.pick(self.held.len()) else { return Ok(()) };
        let size = self.held[at].bytes.len() as u64;
        let back = self.make(size, Location::Readback)?;
        let frame = self.timeline.begin();
        let value = frame.value();
        let (src, dst) = (*self.held[at].buffer.object(), *back.object());
        let copy = Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size };
        let after = self.held[at].after.take();
        self.submit(frame, after.as_slice(), vec![copy])?;
        // SAFETY: the fence is this device's.
        let reached = unsafe { self.shared.device.wait(&self.fence, value, Duration::MAX) };
        if !reached.map_err(told)? {
            return Err(format!("queue {} never reaches {value}", self.queue));
        }
        let mut read = vec![0; size as usize];
        back.read(0, &mut read).map_err(told)?;
        self.figures.checked_bytes += size;
        if read == self.held[at].bytes { Ok(()) } else { Err(format!("wrong bytes on queue {}", self.queue)) }
    }

    fn drop_one(&mut self) -> Step {
        if let Some(at) = self.dice.pick(self.held.len()) {
            self.held.swap_remove(at);
        }
        Ok(())
    }

    /// Puts a buffer of another size in the place of one, with the bytes that fit.
    fn resize(&mut self) -> Step {
        let Some(at) = self.dice.pick(self.held.len()) else { return Ok(()) };
        let size = self.dice.size();
        let keep = self.held[at].bytes.len().min(size);
        let info = self.info(size as u64, USED)?;
        let frame = self.timeline.begin();
        let thing = &mut self.held[at];
        let copy = thing.buffer.resize(&frame, &info, keep as u64, AllocationDesc::default()).map_err(told)?;
        thing.bytes.truncate(keep);
        let after = thing.after.take();
        self.submit(frame, after.as_slice(), copy.into_iter().map(command).collect())?;
        if keep == 0 {
            self.held.swap_remove(at);
        }
        Ok(())
    }

    /// A pass that brings memory together, while other threads use theirs: what is this thread's own is moved.
    fn move_own(&mut self) -> Step {
        let mut run = self.shared.memory.defragment(DefragDesc { bytes_per_pass_max: 128 << 10, ..Default::default() });
        let frame = self.timeline.begin();
        let mut pass = run.begin_pass(&frame).map_err(told)?;
        let (mut waits, mut commands) = (Vec::new(), Vec::new());
        for at in 0..self.held.len() {
            if !pass.has(&self.held[at].buffer) {
                continue;
            }
            let info = self.info(self.held[at].buffer.size(), USED)?;
            let thing = &mut self.held[at];
            let copied = match pass.copy_buffer(&mut thing.buffer) {
                Err(MoveError::NeedsInfo) => pass.copy_buffer_as(&mut thing.buffer, &info),
                other => other,
            };
            commands.push(command(copied.map_err(told)?));
            waits.extend(thing.after.take());
        }
        drop(pass);
        self.figures.moved += commands.len() as u64;
        self.submit(frame, &waits, commands)
    }

    /// Leaves a buffer to the other threads, with the point from which on they may use it.
    fn lay_down(&mut self) -> Step {
        let Some(at) = self.dice.pick(self.held.len()) else { return Ok(()) };
        let mut thing = self.held.swap_remove(at);
        // An empty submission: it comes after all that this queue did, and after what the thing itself waits for.
        let frame = self.timeline.begin();
        let (value, after) = (frame.value(), thing.after.take());
        self.submit(frame, after.as_slice(), vec![])?;
        thing.after = Some((self.fence, value));
        lock(&self.shared.buffers).push(thing);
        Ok(())
    }

    fn take_up(&mut self) -> Step {
        let taken = lock(&self.shared.buffers).pop();
        self.held.extend(taken);
        Ok(())
    }

    /// Memory that no work ever uses: taken, laid down for other threads, given back at once.
    fn cells(&mut self) -> Step {
        for _ in 0..self.dice.below(CELLS_MAX as u64) {
            match self.dice.below(4) {
                0 | 1 if self.cells.len() < CELLS_MAX => {
                    let size = 1 + self.dice.below(2048);
                    let made = self.shared.memory.allocate(needs(size), AllocationDesc::default()).map_err(told)?;
                    self.cells.push(made);
                }
                2 => lock(&self.shared.cells).extend(self.cells.pop()),
                _ => {
                    let theirs = self.dice.one_in(2).then(|| lock(&self.shared.cells).pop()).flatten();
                    // SAFETY: no submission knows it.
                    theirs.or_else(|| self.cells.pop()).into_iter().for_each(|made| unsafe { made.free_now() });
                }
            }
        }
        Ok(())
    }

    /// Whoever looks is in nobody's way.
    fn look(&mut self) -> Step {
        let (_, snapshot) = (self.shared.memory.statistics(), self.shared.memory.snapshot());
        let shown: usize = snapshot.blocks.iter().map(|block| block.ranges.len()).sum();
        let held = self.cells.len();
        if shown < held { Err(format!("{shown} ranges are shown where {held} are held")) } else { Ok(()) }
    }
}

fn needs(size: u64) -> Requirements {
    Requirements {
        size,
        alignment: 256,
        memory_type_bits: u32::MAX,
        class: ResourceClass::Buffer,
        prefers_dedicated: false,
        requires_dedicated: false,
    }
}

fn command(copy: BufferCopy<Device>) -> Command {
    let BufferCopy { src, src_offset, dst, dst_offset, size } = copy;
    Command::CopyBuffer { src, src_offset, dst, dst_offset, size }
}
