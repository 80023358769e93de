//! What a scenario plays on: a device behind an injector of faults, an allocator with a timeline a queue, and a *trial* that
//! does again what failed, since a failed call has changed nothing.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::rc::Rc;
use std::time::Duration;

use ringfence::device::fault::{FaultInjector, Faults};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, DeviceError, Driver, TextureDesc, Textures};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Frame, Location, Texture, Timeline};
use ringfence_harness::faulty::FaultyGpu;
use ringfence_harness::{Command, Gpu, TextureRegion};

pub const PATIENCE: Duration = Duration::from_secs(30);
pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const COPIED: BufferUsage = BufferUsage::COPY_SRC.union(BufferUsage::COPY_DST);

/// The device that the library sees.
pub type Dev<G> = FaultInjector<<G as Gpu>::Device>;
pub type Made<G> = Buffer<Dev<G>>;

/// What ends a scenario: a typed error of the library, or wrong bytes.
pub struct Failure(pub String);

impl std::fmt::Debug for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

pub type Outcome = Result<(), Failure>;

pub struct Stage<G: Gpu> {
    pub memory: Allocator<Dev<G>>,
    pub timelines: Vec<Timeline<Dev<G>>>,
    pub faults: Faults,
    pub gpu: FaultyGpu<G>,
    seen: Rc<RefCell<BTreeSet<String>>>,
}

/// Does what may fail, and does it once more if it did.
pub struct Trial<G: Gpu> {
    memory: Allocator<Dev<G>>,
    faults: Faults,
    seen: Rc<RefCell<BTreeSet<String>>>,
}

impl<G: Gpu> Trial<G> {
    /// What fails leaves a sound allocator, and succeeds when it is asked for again, unless the fault lasts.
    pub fn run<T, E: Display>(&self, mut work: impl FnMut() -> Result<T, E>) -> Result<T, Failure> {
        let injected = self.faults.injected();
        let first = work();
        self.memory.debug().validate().expect("sound after each step");
        let Err(error) = first else { return first.map_err(|error| Failure(error.to_string())) };
        let text = error.to_string();
        assert!(self.faults.injected() > injected || is_loss(&text), "an error that nobody asked for: {text}");
        self.seen.borrow_mut().insert(text);
        let again = work().map_err(|error| Failure(error.to_string()));
        self.memory.debug().validate().expect("sound after each step");
        again
    }
}

fn is_loss(text: &str) -> bool {
    text.contains(&DeviceError::Lost.to_string())
}

impl<G: Gpu> Stage<G> {
    pub fn new(gpu: G) -> Self {
        let gpu = FaultyGpu::over(gpu);
        let faults = gpu.faults().clone();
        let memory =
            Allocator::over(gpu.device(), AllocatorDesc { device_block_bytes_max: 4 * MIB, ..Default::default() });
        let mut stage = Self { timelines: Vec::new(), memory, faults, gpu, seen: Rc::default() };
        stage.timelines = (0..stage.gpu.queue_count())
            .map(|queue| {
                // SAFETY: scenarios drop what they make before the stage, and signal every frame that they submit.
                unsafe { stage.memory.timeline(stage.gpu.fence(queue)) }.expect("no rule yet")
            })
            .collect();
        stage
    }

    pub fn trial(&self) -> Trial<G> {
        Trial { memory: self.memory.clone(), faults: self.faults.clone(), seen: Rc::clone(&self.seen) }
    }

    /// The texts of the errors that scenarios saw.
    pub fn seen(&self) -> BTreeSet<String> {
        self.seen.borrow().clone()
    }

    pub fn buffer(&self, size: u64, location: Location) -> Result<Made<G>, Failure> {
        let usage = if location == Location::Readback { BufferUsage::COPY_DST } else { COPIED };
        self.buffer_for(size, usage, AllocationDesc { location, name: "of a scenario", ..Default::default() })
    }

    pub fn buffer_for(&self, size: u64, usage: BufferUsage, desc: AllocationDesc<'_>) -> Result<Made<G>, Failure> {
        self.trial().run(|| {
            let info = Create::<Buffers>::describe(self.memory.device(), &BufferDesc { size, usage })?;
            self.memory.create_buffer(&info, desc)
        })
    }

    pub fn texture(&self, desc: TextureDesc, how: AllocationDesc<'_>) -> Result<Texture<Dev<G>>, Failure> {
        self.trial().run(|| {
            let info = Create::<Textures>::describe(self.memory.device(), &desc)?;
            self.memory.create_texture(&info, how)
        })
    }

    /// An upload buffer with these bytes.
    pub fn filled(&self, bytes: &[u8]) -> Result<Made<G>, Failure> {
        let mut buffer = self.buffer(bytes.len() as u64, Location::Upload)?;
        self.trial().run(|| buffer.write(0, bytes))?;
        Ok(buffer)
    }

    /// Submits as `frame` on the first queue.
    pub fn submit(&mut self, frame: Frame, commands: &[Command<Dev<G>>]) -> Result<u64, Failure> {
        let value = frame.value();
        self.gpu.submit(0, &[], commands, value)?;
        self.timelines[0].submitted(frame)?;
        Ok(value)
    }

    pub fn wait(&self, value: u64) -> Outcome {
        let reached = self.trial().run(|| self.timelines[0].wait(value, PATIENCE))?;
        assert!(reached, "the work completes");
        Ok(())
    }

    pub fn run(&mut self, commands: &[Command<Dev<G>>]) -> Outcome {
        let frame = self.timelines[0].begin();
        let value = self.submit(frame, commands)?;
        self.wait(value)
    }

    /// Whether a buffer holds these bytes, seen through a copy on the device.
    pub fn expect(&mut self, from: &Made<G>, bytes: &[u8]) -> Outcome {
        let back = self.buffer(bytes.len() as u64, Location::Readback)?;
        self.run(&[copy::<G>(from, &back, bytes.len() as u64)])?;
        self.expect_back(&back, bytes)
    }

    pub fn expect_back(&self, back: &Made<G>, bytes: &[u8]) -> Outcome {
        let mut read = vec![0; bytes.len()];
        self.trial().run(|| back.read(0, &mut read))?;
        assert!(read == bytes, "wrong bytes");
        Ok(())
    }

    pub fn region(&self, width: u32, height: u32, buffer_offset: u64) -> TextureRegion {
        let alignment = self.memory.device().capabilities().texture_copy_row_alignment;
        let row_bytes = (u64::from(width) * 4).next_multiple_of(alignment);
        TextureRegion { buffer_offset, row_bytes, mip: 0, layer: 0, width, height, texel_bytes: 4 }
    }

    /// Nothing may be left, on the device neither.
    pub fn finish(mut self) -> Vec<String> {
        self.memory.debug().validate().expect("sound");
        let idle = self.gpu.wait_idle();
        // Frames that ended with an early return: the device is idle, and nothing is submitted any more.
        self.timelines.iter().for_each(Timeline::discard_dropped);
        let done = self.memory.shutdown(PATIENCE).expect("what was submitted is complete, or the device is lost");
        assert_eq!(done.waiting, 0, "nothing waits");
        assert_eq!(done.device_lost, idle == Err(DeviceError::Lost));
        let statistics = self.memory.statistics();
        assert_eq!(
            statistics.total().range_count + statistics.total().dedicated_count,
            0,
            "left: {:?}",
            self.memory.snapshot()
        );
        assert_eq!(statistics.calls.allocate_memory, statistics.calls.free_memory, "every memory object is freed");
        assert_eq!(statistics.calls.create_object, statistics.calls.destroy_object, "every object is destroyed");
        let Self { memory, timelines, gpu, .. } = self;
        drop((timelines, memory));
        gpu.close()
    }
}

pub fn copy<G: Gpu>(from: &Made<G>, to: &Made<G>, size: u64) -> Command<Dev<G>> {
    let (src, dst) = (from.object().clone(), to.object().clone());
    Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size }
}

/// Bytes that repeat late and differ by seed.
pub fn pattern(seed: u64, size: u64) -> Vec<u8> {
    (0..size).map(|at| ((at ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
}
