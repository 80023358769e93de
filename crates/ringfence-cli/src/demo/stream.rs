//! The frame loop. A frame is one submission that copies new data in, on a copy queue where the device has a second
//! one, and one that works with it; three frames are in flight.
//!
//! ```text
//!   host    │ frame n: events ─▶ stage in the ring ─▶ submit ─▶ reclaim │ frame n+1 …
//!   queue 1 │        copy new things in ──┐
//!   queue 0 │                             └─▶ clone, update, draw, read back ──▶ frame n+3 compares
//! ```

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, Device, DeviceError, Driver, TextureDesc, TextureUsage, Textures,
};
use ringfence::memory::{ShutdownError, Snapshot, Statistics};
use ringfence::trace::StartTraceError;
use ringfence::{
    AccessError, AllocationDesc, Allocator, AllocatorDesc, Buffer, Error, Frame, FrameError, Location, Staged, Texture,
    Timeline, UploadDesc, UploadError, UploadRing,
};
use ringfence_harness::{Command, Disc, Gpu, TextureRegion, draw_reference};
use ringfence_report::FrameSample;

use super::world::{Event, PICTURE, Shape, Thing, World};

const FRAMES_IN_FLIGHT: usize = 3;
/// Small enough that the ring wraps often and is full now and then.
const RING_BYTES: u64 = 1 << 20;
/// What one frame stages at most: a frame that filled the ring alone would wait for itself.
const FRAME_BYTES: u64 = RING_BYTES / 2;
/// A picture is drawn every so many frames, and in the first.
const DRAW_EVERY: u64 = 16;
const PATIENCE: Duration = Duration::from_secs(60);

/// What ended the run.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error(transparent)]
    Memory(#[from] Error),
    #[error(transparent)]
    Upload(#[from] UploadError),
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Shutdown(#[from] ShutdownError),
    #[error(transparent)]
    StartTrace(#[from] StartTraceError),
    #[error("the trace cannot be written: {0}")]
    Trace(io::Error),
    #[error("frame {0} was not complete after {wait} s", wait = PATIENCE.as_secs())]
    Stuck(u64),
}

/// A picture that came back from the device.
#[derive(Clone, Default)]
pub struct Picture {
    pub texels: Vec<u8>,
}

impl Picture {
    pub fn to_png(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, PICTURE, PICTURE);
        encoder.set_color(png::ColorType::Rgba);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.texels)?;
        writer.finish()?;
        Ok(bytes)
    }
}

/// What came of the run.
pub struct Outcome {
    pub device: String,
    pub frames: u64,
    pub seed: u64,
    /// The state in the last frame, before everything was dropped.
    pub snapshot: Snapshot,
    pub statistics: Statistics,
    pub samples: Vec<FrameSample>,
    pub picture: Picture,
    pub pictures: u64,
    /// Whether the device drew the pictures, or they were drawn by the host and passed through the device.
    pub drawn_by_device: bool,
    pub things: u64,
    pub checked_bytes: u64,
    pub wrong_bytes: u64,
    pub first_wrong: Option<String>,
    /// What the hazard finder or the validation layers said.
    pub messages: Vec<String>,
    /// A number made of all bytes that were read back, in order.
    pub digest: u64,
    /// Objects that were still waiting after the end: a leak.
    pub left: u64,
    pub elapsed: Duration,
    pub simulated: bool,
}

impl Outcome {
    pub fn is_right(&self) -> bool {
        self.wrong_bytes == 0 && self.messages.is_empty() && self.left == 0
    }
}

/// A thing's resource on the device.
enum Body<D: Device> {
    Buffer(Buffer<D>),
    Texture(Texture<D>),
}

/// Bytes that are on their way back, and what they must be.
struct Check<D: Device> {
    what: String,
    buffer: Buffer<D>,
    rows: Rows,
    expected: Vec<u8>,
    is_picture: bool,
}

/// How texels lie in a buffer: in rows, each padded to the device's liking.
#[derive(Clone, Copy)]
struct Rows {
    row: usize,
    pitch: usize,
    count: usize,
}

impl Rows {
    fn flat(bytes: usize) -> Self {
        Self { row: bytes, pitch: bytes, count: 1 }
    }

    fn texels(side: u32, alignment: u64) -> Self {
        let row = side as usize * 4;
        Self { row, pitch: row.next_multiple_of(alignment as usize), count: side as usize }
    }

    fn padded_bytes(self) -> usize {
        self.pitch * self.count
    }

    fn pad(self, bytes: &[u8]) -> Vec<u8> {
        let mut padded = vec![0; self.padded_bytes()];
        for (row, from) in bytes.chunks_exact(self.row).enumerate() {
            padded[row * self.pitch..][..self.row].copy_from_slice(from);
        }
        padded
    }

    fn unpad(self, padded: &[u8]) -> Vec<u8> {
        padded.chunks_exact(self.pitch).flat_map(|row| &row[..self.row]).copied().collect()
    }
}

/// A frame being recorded.
struct Recording<D: Device> {
    copy_frame: Option<Frame>,
    main_frame: Frame,
    copies: Vec<Command<D>>,
    main: Vec<Command<D>>,
    checks: Vec<Check<D>>,
    staged_bytes: u64,
}

/// Frames that are submitted.
struct InFlight<D: Device> {
    value: u64,
    checks: Vec<Check<D>>,
}

/// The demo on a device. See the [module](self).
pub struct Stream<G: Gpu> {
    world: World,
    things: Vec<(Thing, Body<G::Device>)>,
    target: Texture<G::Device>,
    in_flight: VecDeque<InFlight<G::Device>>,
    ring: UploadRing<G::Device>,
    main: Timeline<G::Device>,
    copy: Option<Timeline<G::Device>>,
    memory: Allocator<G::Device>,
    frame: u64,
    outcome: Outcome,
    started: Instant,
    /// Last, so that it is dropped last: everything above is on it.
    gpu: G,
}

impl<G: Gpu> Stream<G> {
    /// Opens the demo; what happens to memory goes to `trace`.
    pub fn new(gpu: G, seed: u64, trace: Option<File>) -> Result<Self, StreamError> {
        let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
        if let Some(trace) = trace {
            memory.start_trace(trace)?;
        }
        // SAFETY: `Stream` drops the device after everything else, and every submission below signals its frame.
        let main = unsafe { memory.timeline(gpu.fence(0)) }?;
        // SAFETY: as above.
        let copy = (gpu.queue_count() > 1).then(|| unsafe { memory.timeline(gpu.fence(1)) }).transpose()?;
        let ring = memory.upload_ring(UploadDesc { capacity: RING_BYTES, name: "staging", ..Default::default() })?;
        let target = create_texture(&memory, PICTURE, "picture")?;
        let outcome = Outcome {
            device: memory.device().capabilities().name.clone(),
            frames: 0,
            seed,
            snapshot: Snapshot::default(),
            statistics: Statistics::default(),
            samples: Vec::new(),
            picture: Picture::default(),
            pictures: 0,
            drawn_by_device: gpu.can_draw(),
            things: 0,
            checked_bytes: 0,
            wrong_bytes: 0,
            first_wrong: None,
            messages: Vec::new(),
            digest: 0xcbf2_9ce4_8422_2325,
            left: 0,
            elapsed: Duration::ZERO,
            simulated: G::NAME == "sim",
        };
        Ok(Self {
            world: World::new(seed),
            things: Vec::new(),
            target,
            in_flight: VecDeque::new(),
            ring,
            main,
            copy,
            memory,
            frame: 0,
            outcome,
            started: Instant::now(),
            gpu,
        })
    }

    pub fn device_name(&self) -> &str {
        &self.outcome.device
    }

    /// Runs one frame.
    pub fn frame(&mut self) -> Result<(), StreamError> {
        while self.in_flight.len() >= FRAMES_IN_FLIGHT {
            self.finish_oldest()?;
        }
        let mut recording = self.begin();
        self.world.begin_frame(self.frame, self.things.len());
        while let Some(event) = self.world.next_event() {
            self.apply(&event, &mut recording)?;
        }
        if self.frame.is_multiple_of(DRAW_EVERY) {
            self.draw(&mut recording)?;
        }
        self.submit(recording)?;
        self.memory.reclaim();
        self.sample();
        self.frame += 1;
        Ok(())
    }

    /// Draws once more, waits for everything, drops everything, and says what came of it.
    pub fn finish(mut self) -> Result<Outcome, StreamError> {
        let mut recording = self.begin();
        self.draw(&mut recording)?;
        self.submit(recording)?;
        while !self.in_flight.is_empty() {
            self.finish_oldest()?;
        }
        self.outcome.snapshot = self.memory.snapshot();
        self.memory.stop_trace().map_err(StreamError::Trace)?;
        self.outcome.frames = self.frame;
        let Self { mut gpu, mut outcome, memory, things, target, ring, main, copy, .. } = self;
        drop((things, target, ring));
        memory.shutdown(PATIENCE)?;
        outcome.statistics = memory.statistics();
        outcome.left = outcome.statistics.retired_count + outcome.statistics.total().range_count;
        drop((main, copy, memory));
        gpu.wait_idle()?;
        outcome.messages = gpu.take_messages();
        outcome.elapsed = self.started.elapsed();
        if outcome.simulated {
            // The simulated device's work takes no real time; what the host measures would differ between equal runs.
            outcome.snapshot.rings.iter_mut().for_each(|ring| ring.wait_ns = 0);
        }
        Ok(outcome)
    }

    fn begin(&self) -> Recording<G::Device> {
        Recording {
            copy_frame: self.copy.as_ref().map(Timeline::begin),
            main_frame: self.main.begin(),
            copies: Vec::new(),
            main: Vec::new(),
            checks: Vec::new(),
            staged_bytes: 0,
        }
    }

    fn apply(&mut self, event: &Event, recording: &mut Recording<G::Device>) -> Result<(), StreamError> {
        match event {
            Event::Create if recording.staged_bytes < FRAME_BYTES => self.create(recording),
            Event::Update if recording.staged_bytes < FRAME_BYTES => self.update(recording),
            Event::Create | Event::Update => Ok(()),
            Event::Clone => self.clone_on_device(recording),
            Event::Check => self.check(recording),
            Event::Drop => {
                if let Some(at) = self.world.pick(self.things.len()) {
                    // The GPU may still read it, and this frame may have recorded a use of it.
                    self.things.swap_remove(at);
                }
                Ok(())
            }
        }
    }

    fn create(&mut self, recording: &mut Recording<G::Device>) -> Result<(), StreamError> {
        let thing = self.world.create();
        let body = self.body(&thing)?;
        let rows = self.rows(thing.shape);
        let staged = self.stage(recording, &rows.pad(&thing.bytes), true)?;
        let command = match &body {
            Body::Buffer(buffer) => copy_buffer(&staged, buffer, 0),
            Body::Texture(texture) => Command::CopyBufferToTexture {
                src: staged.buffer,
                dst: texture.object().clone(),
                region: region(rows, staged.offset),
                discard: true,
            },
        };
        recording.copies.push(command);
        self.add(thing, body);
        Ok(())
    }

    fn update(&mut self, recording: &mut Recording<G::Device>) -> Result<(), StreamError> {
        let Some(at) = self.world.pick(self.things.len()) else { return Ok(()) };
        if matches!(self.things[at].1, Body::Texture(_)) {
            return Ok(());
        }
        let (offset, bytes) = self.world.update(&self.things[at].0);
        let staged = self.stage(recording, &bytes, false)?;
        let (thing, body) = &mut self.things[at];
        thing.bytes[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        if let Body::Buffer(buffer) = body {
            recording.main.push(copy_buffer(&staged, buffer, offset));
        }
        Ok(())
    }

    fn clone_on_device(&mut self, recording: &mut Recording<G::Device>) -> Result<(), StreamError> {
        let Some(at) = self.world.pick(self.things.len()) else { return Ok(()) };
        if matches!(self.things[at].1, Body::Texture(_)) {
            return Ok(());
        }
        let thing = self.world.copy(&self.things[at].0);
        let body = self.body(&thing)?;
        if let (Body::Buffer(from), Body::Buffer(to)) = (&self.things[at].1, &body) {
            recording.main.push(Command::CopyBuffer {
                src: from.object().clone(),
                src_offset: 0,
                dst: to.object().clone(),
                dst_offset: 0,
                size: thing.shape.bytes(),
            });
        }
        self.add(thing, body);
        Ok(())
    }

    fn check(&mut self, recording: &mut Recording<G::Device>) -> Result<(), StreamError> {
        let Some(at) = self.world.pick(self.things.len()) else { return Ok(()) };
        let (thing, body) = &self.things[at];
        let rows = self.rows(thing.shape);
        let (what, expected) = (format!("thing {}", thing.number), thing.bytes.clone());
        let buffer = self.readback_buffer(rows)?;
        recording.main.push(match body {
            Body::Buffer(from) => Command::CopyBuffer {
                src: from.object().clone(),
                src_offset: 0,
                dst: buffer.object().clone(),
                dst_offset: 0,
                size: expected.len() as u64,
            },
            Body::Texture(from) => copy_back(from, &buffer, rows),
        });
        recording.checks.push(Check { what, buffer, rows, expected, is_picture: false });
        Ok(())
    }

    /// Draws every thing's disc, by a shader where the device has one, and reads the picture back.
    fn draw(&mut self, recording: &mut Recording<G::Device>) -> Result<(), StreamError> {
        let discs: Vec<Disc> = self.things.iter().map(|(thing, _)| thing.disc).collect();
        let expected = draw_reference(&discs, PICTURE, PICTURE);
        let rows = self.rows(Shape::Texture(PICTURE));
        if self.gpu.can_draw() && !discs.is_empty() {
            let bytes: Vec<u8> = discs.iter().flat_map(|disc| disc.to_bytes()).collect();
            let staged = self.stage(recording, &bytes, false)?;
            let usage = BufferUsage::COPY_DST | BufferUsage::STORAGE;
            let buffer = create_buffer(&self.memory, bytes.len() as u64, usage, Location::Device, "discs")?;
            recording.main.push(copy_buffer(&staged, &buffer, 0));
            recording.main.push(Command::Draw {
                discs: buffer.object().clone(),
                discs_offset: 0,
                disc_count: discs.len() as u32,
                target: self.target.object().clone(),
                width: PICTURE,
                height: PICTURE,
            });
        } else {
            let staged = self.stage(recording, &rows.pad(&expected), false)?;
            recording.main.push(Command::CopyBufferToTexture {
                src: staged.buffer,
                dst: self.target.object().clone(),
                region: region(rows, staged.offset),
                discard: true,
            });
        }
        let buffer = self.readback_buffer(rows)?;
        recording.main.push(copy_back(&self.target, &buffer, rows));
        let what = format!("the picture of frame {}", self.frame);
        recording.checks.push(Check { what, buffer, rows, expected, is_picture: true });
        Ok(())
    }

    fn submit(&mut self, recording: Recording<G::Device>) -> Result<(), StreamError> {
        let Recording { copy_frame, main_frame, copies, mut main, checks, .. } = recording;
        let value = main_frame.value();
        match (copy_frame, &self.copy) {
            (Some(frame), Some(copy)) => {
                let copied = frame.value();
                self.gpu.submit(1, &[], &copies, copied)?;
                copy.submitted(frame)?;
                self.gpu.submit(0, &[(1, copied)], &main, value)?;
            }
            _ => {
                main.splice(0..0, copies);
                self.gpu.submit(0, &[], &main, value)?;
            }
        }
        self.main.submitted(main_frame)?;
        self.in_flight.push_back(InFlight { value, checks });
        Ok(())
    }

    fn finish_oldest(&mut self) -> Result<(), StreamError> {
        let Some(InFlight { value, checks }) = self.in_flight.pop_front() else { return Ok(()) };
        if !self.main.wait(value, PATIENCE)? {
            return Err(StreamError::Stuck(value));
        }
        checks.into_iter().try_for_each(|check| self.compare(check))
    }

    fn compare(&mut self, check: Check<G::Device>) -> Result<(), StreamError> {
        let mut padded = vec![0; check.rows.padded_bytes()];
        check.buffer.read(0, &mut padded)?;
        let bytes = check.rows.unpad(&padded);
        let outcome = &mut self.outcome;
        let wrong = bytes.iter().zip(&check.expected).filter(|(is, should)| is != should).count() as u64;
        if wrong > 0 && outcome.first_wrong.is_none() {
            let at = bytes.iter().zip(&check.expected).position(|(is, should)| is != should).unwrap_or(0);
            let (is, should) = (bytes[at], check.expected[at]);
            outcome.first_wrong = Some(format!(
                "{}, byte {at} is {is:#04x} and should be {should:#04x}; {wrong} bytes differ",
                check.what
            ));
        }
        outcome.wrong_bytes += wrong;
        outcome.checked_bytes += bytes.len() as u64;
        // FNV-1a: any difference anywhere changes it.
        outcome.digest =
            bytes.iter().fold(outcome.digest, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        if check.is_picture {
            outcome.pictures += 1;
            outcome.picture = Picture { texels: bytes };
        }
        Ok(())
    }

    fn sample(&mut self) {
        let statistics = self.memory.statistics();
        let (total, ring) = (statistics.total(), self.ring.snapshot());
        self.outcome.samples.push(FrameSample {
            frame: self.frame,
            ring_used_bytes: ring.used_bytes,
            ring_capacity_bytes: ring.capacity_bytes,
            retired_count: statistics.retired_count,
            reserved_bytes: total.reserved_bytes(),
            used_bytes: total.used_bytes(),
            live_count: total.range_count + total.dedicated_count,
        });
    }

    fn add(&mut self, thing: Thing, body: Body<G::Device>) {
        self.outcome.things += 1;
        self.things.push((thing, body));
    }

    fn body(&self, thing: &Thing) -> Result<Body<G::Device>, StreamError> {
        let name = format!("thing {}", thing.number);
        Ok(match thing.shape {
            Shape::Buffer(bytes) => {
                let usage = BufferUsage::COPY_DST | BufferUsage::COPY_SRC | BufferUsage::VERTEX;
                Body::Buffer(create_buffer(&self.memory, bytes, usage, Location::Device, &name)?)
            }
            Shape::Texture(side) => Body::Texture(create_texture(&self.memory, side, &name)?),
        })
    }

    fn readback_buffer(&self, rows: Rows) -> Result<Buffer<G::Device>, StreamError> {
        let bytes = rows.padded_bytes() as u64;
        create_buffer(&self.memory, bytes, BufferUsage::COPY_DST, Location::Readback, "readback")
    }

    fn rows(&self, shape: Shape) -> Rows {
        match shape {
            Shape::Buffer(bytes) => Rows::flat(bytes as usize),
            Shape::Texture(side) => Rows::texels(side, self.memory.device().capabilities().texture_copy_row_alignment),
        }
    }

    /// Stages bytes for this frame, `early` for the copies that come first.
    fn stage(
        &self,
        recording: &mut Recording<G::Device>,
        bytes: &[u8],
        early: bool,
    ) -> Result<Staged<G::Device>, StreamError> {
        let alignment = self.memory.device().capabilities().texture_copy_offset_alignment.max(16);
        let frame = recording.copy_frame.as_ref().filter(|_| early).unwrap_or(&recording.main_frame);
        recording.staged_bytes += bytes.len() as u64;
        Ok(self.ring.write_for(frame, bytes, alignment)?)
    }
}

fn create_buffer<D: Device>(
    memory: &Allocator<D>,
    size: u64,
    usage: BufferUsage,
    location: Location,
    name: &str,
) -> Result<Buffer<D>, StreamError> {
    let info = Create::<Buffers>::describe(memory.device(), &BufferDesc { size, usage })?;
    Ok(memory.create_buffer(&info, AllocationDesc { name, location, ..Default::default() })?)
}

fn create_texture<D: Device>(memory: &Allocator<D>, side: u32, name: &str) -> Result<Texture<D>, StreamError> {
    let usage = TextureUsage::COPY_DST | TextureUsage::COPY_SRC | TextureUsage::STORAGE;
    let desc = TextureDesc { width: side, height: side, usage, ..Default::default() };
    let info = Create::<Textures>::describe(memory.device(), &desc)?;
    Ok(memory.create_texture(&info, AllocationDesc { name, ..Default::default() })?)
}

fn copy_buffer<D: Device>(staged: &Staged<D>, dst: &Buffer<D>, dst_offset: u64) -> Command<D> {
    Command::CopyBuffer {
        src: staged.buffer.clone(),
        src_offset: staged.offset,
        dst: dst.object().clone(),
        dst_offset,
        size: staged.size,
    }
}

fn copy_back<D: Device>(src: &Texture<D>, dst: &Buffer<D>, rows: Rows) -> Command<D> {
    Command::CopyTextureToBuffer { src: src.object().clone(), dst: dst.object().clone(), region: region(rows, 0) }
}

fn region(rows: Rows, buffer_offset: u64) -> TextureRegion {
    TextureRegion {
        buffer_offset,
        row_bytes: rows.pitch as u64,
        mip: 0,
        layer: 0,
        width: rows.row as u32 / 4,
        height: rows.count as u32,
        texel_bytes: 4,
    }
}
