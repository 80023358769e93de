//! A world of several threads: each has a queue and things of its own, and all share the allocator, the ring, the descriptors
//! and the device. What they do follows from the seed; how they meet does not.

use std::sync::Mutex;
use std::time::Duration;

use ringfence::device::sim::{Command, Device, Fence, Profile, SimOptions};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, Driver};
use ringfence::{
    AllocationDesc, Allocator, AllocatorDesc, Buffer, Location, Timeline, UploadDesc, UploadRing, WhenFull,
};

use super::dice::Dice;
use super::{Figures, Finding, WorldOptions};

struct Shared {
    device: Device,
    memory: Allocator<Device>,
    ring: UploadRing<Device>,
}

/// One thread's things.
struct Worker<'a> {
    shared: &'a Shared,
    queue: usize,
    fence: Fence,
    timeline: Timeline<Device>,
    dice: Dice,
    held: Vec<(Buffer<Device>, Vec<u8>)>,
    figures: Figures,
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
    let shared = Shared { device: device.clone(), memory, ring };
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
    let Shared { memory, ring, .. } = shared;
    drop(ring);
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
        let (held, figures) = (Vec::new(), Figures::default());
        Ok(Self { shared, queue, fence, timeline, dice: Dice::new(seed), held, figures })
    }

    /// With `lose`, the first thread loses the device half-way; what fails from then on is no finding.
    fn work(mut self, steps: u32, lose: bool) -> Result<Figures, String> {
        for step in 0..steps {
            self.figures.steps += 1;
            if lose && self.queue == 0 && step == steps / 2 {
                self.shared.device.lose_device();
            }
            let done = match self.dice.below(8) {
                0..=3 => self.create(),
                4 => self.check(),
                5 => {
                    if let Some(at) = self.dice.pick(self.held.len()) {
                        self.held.swap_remove(at);
                    }
                    Ok(())
                }
                6 => {
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

    fn make(&self, size: u64, location: Location) -> Result<Buffer<Device>, String> {
        let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
        let usage = if location == Location::Readback { BufferUsage::COPY_DST } else { usage };
        let info = Create::<Buffers>::describe(&self.shared.device, &BufferDesc { size, usage });
        let info = info.map_err(|error| error.to_string())?;
        let desc = AllocationDesc { location, ..Default::default() };
        self.shared.memory.create_buffer(&info, desc).map_err(|error| error.to_string())
    }

    fn create(&mut self) -> Result<(), String> {
        let size = self.dice.size();
        let bytes = self.dice.bytes(size);
        let buffer = self.make(size as u64, Location::Device)?;
        let frame = self.timeline.begin();
        let staged = self.shared.ring.write_for(&frame, &bytes, 16).map_err(|error| error.to_string())?;
        let (src, src_offset, dst) = (staged.buffer, staged.offset, *buffer.object());
        let copy = Command::CopyBuffer { src, src_offset, dst, dst_offset: 0, size: staged.size };
        let submitted = self.shared.device.submit(self.queue, &[], vec![copy], (self.fence, frame.value()));
        submitted.map_err(|error| error.to_string())?;
        self.timeline.submitted(frame).map_err(|error| error.to_string())?;
        self.figures.submissions += 1;
        self.figures.made += 1;
        if self.held.len() > 20 {
            self.held.swap_remove(0);
        }
        self.held.push((buffer, bytes));
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        let Some(at) = self.dice.pick(self.held.len()) else { return Ok(()) };
        let size = self.held[at].1.len() as u64;
        let back = self.make(size, Location::Readback)?;
        let frame = self.timeline.begin();
        let value = frame.value();
        let (src, dst) = (*self.held[at].0.object(), *back.object());
        let copy = Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size };
        let submitted = self.shared.device.submit(self.queue, &[], vec![copy], (self.fence, value));
        submitted.map_err(|error| error.to_string())?;
        self.timeline.submitted(frame).map_err(|error| error.to_string())?;
        // SAFETY: the fence is this device's.
        let reached = unsafe { self.shared.device.wait(&self.fence, value, Duration::MAX) };
        if !reached.map_err(|error| error.to_string())? {
            return Err(format!("queue {} never reaches {value}", self.queue));
        }
        let mut read = vec![0; size as usize];
        back.read(0, &mut read).map_err(|error| error.to_string())?;
        self.figures.checked_bytes += size;
        if read == self.held[at].1 { Ok(()) } else { Err(format!("wrong bytes on queue {}", self.queue)) }
    }
}
