//! The frame loop. A frame uploads new data, works with it, draws its targets and reads results back; three frames are
//! in flight.
//!
//! ```text
//!   host    │ frame n: create, stage, record ─▶ submit ─▶ reclaim │ frame n+1 …        frame n+3 compares
//!   queue 1 │          copy new objects ────┐       ┌─▶ occlusion ─┐
//!   queue 0 │                               └─▶ update, first passes ─▶ other passes, clone, read back
//! ```

use std::collections::VecDeque;
use std::fs::File;
use std::time::Instant;

use ringfence::device::{BufferDesc, BufferUsage, Device, Driver, RawBuffer, TextureDesc, TextureUsage};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Location, Texture, Timeline, UploadBatch};
use ringfence_report::FrameSample;
use ringfence_testkit::{Command, Disc, Gpu};

use super::checks::{Check, Checker};
use super::error::{PATIENCE, StreamError};
use super::frame::{List, Recording};
use super::outcome::Outcome;
use super::shading::Shading;
use super::staging::{Body, Job, Staging};
use super::targets::{DEPTH_DISCS, Input, Targets};
use super::world::{Shape, Thing, World};

const FRAMES_IN_FLIGHT: usize = 3;
/// Once the objects of a frame have this number of bytes, no further object is uploaded in this frame; the last object
/// can exceed it. If a frame filled the ring, it would wait for itself.
const FRAME_BYTES: u64 = 448 << 10;
/// A picture is drawn in the first frame, and then once in this number of frames.
const DRAW_EVERY: u64 = 16;

/// A submitted frame with results that are not compared yet.
struct InFlight<D: Device> {
    value: u64,
    checks: Vec<Check<D>>,
}

/// The demo on a device.
pub struct Stream<G: Gpu> {
    world: World,
    things: Vec<(Thing, Body<G::Device>)>,
    in_flight: VecDeque<InFlight<G::Device>>,
    staging: Staging<G::Device>,
    shading: Shading<G::Device>,
    targets: Targets<G::Device>,
    checker: Checker<G::Device>,
    main: Timeline<G::Device>,
    second: Option<Timeline<G::Device>>,
    memory: Allocator<G::Device>,
    frame: u64,
    seed: u64,
    made: u64,
    samples: Vec<FrameSample>,
    started: Instant,
    /// The device. It is the last field, so that it is dropped last: all other fields use it.
    gpu: G,
}

impl<G: Gpu> Stream<G> {
    /// Creates the demo's objects. If there is a `trace`, the events of the allocator are recorded in it.
    pub fn new(gpu: G, seed: u64, trace: Option<File>) -> Result<Self, StreamError> {
        let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
        if let Some(trace) = trace {
            memory.trace().start(trace)?;
        }
        // SAFETY: `Stream` drops the device after everything else, and every submission below signals its frame.
        let main = unsafe { memory.timeline(gpu.fence(0)) }?;
        // SAFETY: as above.
        let second = (gpu.queue_count() > 1).then(|| unsafe { memory.timeline(gpu.fence(1)) }).transpose()?;
        let mut world = World::new(seed);
        let queues = (main.id(), second.as_ref().unwrap_or(&main).id());
        Ok(Self {
            things: Vec::new(),
            in_flight: VecDeque::new(),
            staging: Staging::new(&memory, is_simulated::<G>())?,
            shading: Shading::new(&memory, &mut world)?,
            targets: Targets::new(&memory, queues)?,
            checker: Checker::new(&memory)?,
            world,
            main,
            second,
            memory,
            frame: 0,
            seed,
            made: 0,
            samples: Vec::new(),
            started: Instant::now(),
            gpu,
        })
    }

    pub fn device_name(&self) -> &str {
        &self.memory.device().capabilities().name
    }

    /// Runs one frame.
    pub fn frame(&mut self) -> Result<(), StreamError> {
        self.run_frame(self.frame.is_multiple_of(DRAW_EVERY))?;
        self.memory.reclaim();
        self.sample();
        self.frame += 1;
        Ok(())
    }

    fn run_frame(&mut self, with_picture: bool) -> Result<(), StreamError> {
        while self.in_flight.len() >= FRAMES_IN_FLIGHT {
            self.finish_oldest()?;
        }
        let mut recording = Recording::new(&self.main, self.second.as_ref());
        let events = self.world.events(self.frame, self.things.len());
        self.stream_in(&mut recording, events.creates, events.updates)?;
        (0..events.clones).try_for_each(|_| self.clone_on_device(&mut recording))?;
        (0..events.checks).try_for_each(|_| self.check(&mut recording))?;
        self.shading.record(&mut self.world, &mut recording, &self.checker, &mut self.staging)?;
        self.draw(&mut recording, with_picture)?;
        for _ in 0..events.drops {
            if let Some(at) = self.world.pick(self.things.len()) {
                // The device may still read the object, also in this frame.
                self.things.swap_remove(at);
            }
        }
        let (value, checks) = recording.submit(&mut self.gpu, &self.main, self.second.as_ref())?;
        self.in_flight.push_back(InFlight { value, checks });
        Ok(())
    }

    /// Runs one more frame, with a picture, waits for all frames, drops all objects, and returns the outcome.
    pub fn finish(mut self) -> Result<Outcome, StreamError> {
        self.run_frame(true)?;
        while !self.in_flight.is_empty() {
            self.finish_oldest()?;
        }
        let mut snapshot = self.memory.snapshot();
        self.memory.trace().stop().map_err(StreamError::Trace)?;
        let (constants, fast_count) = (self.shading.figures(), self.shading.fast_count);
        let (device, frames, drawn_by_device) = (self.device_name().to_owned(), self.frame, self.gpu.can_draw());
        let Self { mut gpu, memory, things, main, second, staging, shading, targets, checker, .. } = self;
        let (batches, targets_seen, findings) = (staging.figures, targets.totals, checker.findings.clone());
        drop((things, staging, shading, targets, checker));
        memory.shutdown(PATIENCE)?;
        let statistics = memory.statistics();
        let total = statistics.total();
        let left = statistics.retired_count + total.range_count + total.dedicated_count;
        drop((main, second, memory));
        gpu.wait_idle()?;
        if is_simulated::<G>() {
            // Work on the simulated device takes no real time. Times that the host measures would differ between runs
            // with the same seed.
            snapshot.rings.iter_mut().for_each(|ring| ring.wait_ns = 0);
        }
        Ok(Outcome {
            device,
            frames,
            seed: self.seed,
            snapshot,
            statistics,
            samples: self.samples,
            findings,
            drawn_by_device,
            things: self.made,
            batches,
            constants,
            fast_count,
            targets: targets_seen,
            messages: gpu.take_messages(),
            left,
            elapsed: self.started.elapsed(),
            simulated: is_simulated::<G>(),
        })
    }

    /// Uploads new objects and changes of existing ones. Several threads write the bytes. One batch copies the new
    /// objects, another one the changes.
    fn stream_in(
        &mut self,
        recording: &mut Recording<G::Device>,
        creates: usize,
        updates: usize,
    ) -> Result<(), StreamError> {
        let (mut new, mut changes, mut bytes) = (Vec::new(), Vec::new(), 0);
        for _ in 0..creates {
            if bytes < FRAME_BYTES {
                new.push(self.create()?);
                bytes += new.last().map_or(0, |job| job.bytes.len() as u64);
            }
        }
        for _ in 0..updates {
            if bytes < FRAME_BYTES {
                let pieces = self.update();
                bytes += pieces.iter().map(|job| job.bytes.len() as u64).sum::<u64>();
                changes.extend(pieces);
            }
        }
        for (list, jobs) in [(List::Copies, new), (List::Early, changes)] {
            let Self { staging, things, .. } = self;
            let bodies: std::collections::HashMap<_, _> =
                things.iter().map(|(thing, body)| (thing.number, body)).collect();
            let mut batch = staging.stage(recording.frame(list), &jobs, |thing| bodies.get(&thing).copied())?;
            staging.count(&mut batch);
            recording.push(list, Command::Upload(Box::new(batch)));
        }
        Ok(())
    }

    fn create(&mut self) -> Result<Job, StreamError> {
        let thing = self.world.create();
        let body = self.body(&thing)?;
        let side = match thing.shape {
            Shape::Texture(side) => Some(side),
            Shape::Buffer(_) => None,
        };
        let job = Job { thing: thing.number, offset: 0, bytes: thing.bytes.clone(), side };
        self.add(thing, body);
        Ok(job)
    }

    fn update(&mut self) -> Vec<Job> {
        let Some(at) = self.world.pick(self.things.len()) else { return Vec::new() };
        let (thing, body) = &mut self.things[at];
        if matches!(body, Body::Texture(_)) {
            return Vec::new();
        }
        let mut jobs = Vec::new();
        for (offset, bytes) in self.world.update(thing) {
            thing.bytes[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
            jobs.push(Job { thing: thing.number, offset, bytes, side: None });
        }
        jobs
    }

    fn clone_on_device(&mut self, recording: &mut Recording<G::Device>) -> Result<(), StreamError> {
        let Some(at) = self.world.pick(self.things.len()) else { return Ok(()) };
        if matches!(self.things[at].1, Body::Texture(_)) {
            return Ok(());
        }
        let thing = self.world.copy(&self.things[at].0);
        let body = self.body(&thing)?;
        if let (Body::Buffer(from), Body::Buffer(to)) = (&self.things[at].1, &body) {
            let (src, dst) = (from.object().clone(), to.object().clone());
            let size = thing.shape.bytes();
            recording.push(List::Main, Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size });
        }
        self.add(thing, body);
        Ok(())
    }

    fn check(&mut self, recording: &mut Recording<G::Device>) -> Result<(), StreamError> {
        let Some(at) = self.world.pick(self.things.len()) else { return Ok(()) };
        let (thing, body) = &self.things[at];
        let (what, expected) = (format!("thing {}", thing.number), thing.bytes.clone());
        let frame = &recording.main_frame;
        let check = match (body, thing.shape) {
            (Body::Texture(from), Shape::Texture(side)) => {
                self.checker.texels(frame, what, (from.object().clone(), side, side), expected)?
            }
            (Body::Buffer(from), _) => self.checker.bytes(frame, what, (from.object().clone(), 0), expected)?,
            (Body::Texture(_), Shape::Buffer(_)) => return Ok(()),
        };
        recording.check(List::Main, check);
        Ok(())
    }

    /// Draws the frame's render targets. With `with_picture`, one of them is the picture, which contains the discs of
    /// all objects.
    fn draw(&mut self, recording: &mut Recording<G::Device>, with_picture: bool) -> Result<(), StreamError> {
        let count = if with_picture { self.things.len() } else { DEPTH_DISCS.min(self.things.len()) };
        let discs: Vec<Disc> = self.things[..count].iter().map(|(thing, _)| thing.disc).collect();
        let held = (self.gpu.can_draw() && !discs.is_empty()).then(|| self.discs(recording, &discs)).transpose()?;
        let drawn_from: Option<RawBuffer<G::Device>> = held.as_ref().map(|buffer| buffer.object().clone());
        let input = Input { discs: &discs, drawn_from, with_picture, number: self.frame };
        let Self { world, staging, checker, targets, .. } = self;
        targets.record(world, recording, &staging.ring, checker, &input)
    }

    /// Returns a buffer on the device that receives the discs in the list `Early`.
    fn discs(
        &mut self,
        recording: &mut Recording<G::Device>,
        discs: &[Disc],
    ) -> Result<Buffer<G::Device>, StreamError> {
        let bytes: Vec<u8> = discs.iter().flat_map(|disc| disc.to_bytes()).collect();
        let staged = self.staging.ring.write_for(recording.frame(List::Early), &bytes, 16)?;
        let usage = BufferUsage::COPY_DST | BufferUsage::STORAGE;
        let buffer = create_buffer(&self.memory, bytes.len() as u64, usage, "discs")?;
        let mut batch = UploadBatch::new();
        batch.copy(&staged, &buffer, 0)?;
        self.staging.count(&mut batch);
        recording.push(List::Early, Command::Upload(Box::new(batch)));
        Ok(buffer)
    }

    fn finish_oldest(&mut self) -> Result<(), StreamError> {
        let Some(InFlight { value, checks }) = self.in_flight.pop_front() else { return Ok(()) };
        if !self.main.wait(value, PATIENCE)? {
            return Err(StreamError::Stuck(value));
        }
        checks.iter().try_for_each(|check| self.checker.compare(check))
    }

    fn sample(&mut self) {
        let statistics = self.memory.statistics();
        let (total, ring) = (statistics.total(), self.staging.ring.snapshot());
        let targets = self.targets.figures();
        self.samples.push(FrameSample {
            // Frames are numbered from 1, as in a trace.
            frame: self.frame + 1,
            ring_used_bytes: ring.used_bytes,
            ring_capacity_bytes: ring.capacity_bytes,
            retired_count: statistics.retired_count,
            reserved_bytes: total.reserved_bytes(),
            used_bytes: total.used_bytes(),
            live_count: total.range_count + total.dedicated_count + targets.object_count as u64,
        });
    }

    fn add(&mut self, thing: Thing, body: Body<G::Device>) {
        self.made += 1;
        self.things.push((thing, body));
    }

    fn body(&self, thing: &Thing) -> Result<Body<G::Device>, StreamError> {
        let name = format!("thing {}", thing.number);
        Ok(match thing.shape {
            Shape::Buffer(bytes) => {
                let usage = BufferUsage::COPY_DST | BufferUsage::COPY_SRC | BufferUsage::VERTEX;
                Body::Buffer(create_buffer(&self.memory, bytes, usage, &name)?)
            }
            Shape::Texture(side) => Body::Texture(create_texture(&self.memory, side, &name)?),
        })
    }
}

fn is_simulated<G: Gpu>() -> bool {
    G::NAME == "sim"
}

fn create_buffer<D: Device>(
    memory: &Allocator<D>,
    size: u64,
    usage: BufferUsage,
    name: &str,
) -> Result<Buffer<D>, StreamError> {
    let desc = AllocationDesc { name, location: Location::Device, ..Default::default() };
    Ok(memory.create_buffer(&BufferDesc { size, usage }, desc)?)
}

fn create_texture<D: Device>(memory: &Allocator<D>, side: u32, name: &str) -> Result<Texture<D>, StreamError> {
    let usage = TextureUsage::COPY_DST | TextureUsage::COPY_SRC | TextureUsage::STORAGE;
    let desc = TextureDesc { width: side, height: side, usage, ..Default::default() };
    Ok(memory.create_texture(&desc, AllocationDesc { name, ..Default::default() })?)
}
