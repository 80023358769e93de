//! The environment of a scenario: a device with a fault injector, an allocator, a timeline per queue, and helpers that
//! repeat failed calls. A failed call must change nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use ringfence::device::fault::FaultInjector;
use ringfence::device::{BufferDesc, BufferUsage, DeviceError, Driver, RawBuffer, TextureDesc};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Frame, Location, Texture, Timeline};

use super::FaultyGpu;
use crate::rig::PATIENCE;
use crate::{Command, Gpu, TextureRegion};

/// The device of a [`Stage`], with a fault injector.
pub type FaultyDevice<G> = FaultInjector<<G as Gpu>::Device>;

/// A buffer of a [`Stage`].
pub type FaultyBuffer<G> = Buffer<FaultyDevice<G>>;

/// The error that ends a scenario: a typed error of the library, as text.
pub struct Failure(pub String);

impl Debug for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// The result of a scenario. If bytes are wrong, the scenario panics instead.
pub type Outcome = Result<(), Failure>;

/// An open device with a fault injector, an allocator, and a timeline per queue.
pub struct Stage<G: Gpu> {
    /// Allocator over the injector.
    pub memory: Allocator<FaultyDevice<G>>,
    /// One timeline per queue.
    pub timelines: Vec<Timeline<FaultyDevice<G>>>,
    /// The fault injector.
    pub faults: FaultInjector,
    /// The device. It must outlive all other objects.
    pub gpu: FaultyGpu<G>,
    /// Error of all failing calls of this run; `None` in a run without a fault.
    error: Option<DeviceError>,
    texts: Rc<RefCell<BTreeSet<String>>>,
    errors_seen: Rc<Cell<u64>>,
}

/// Runs a fallible call, and runs it again if it fails. Does not borrow the stage.
pub struct Trial<G: Gpu> {
    memory: Allocator<FaultyDevice<G>>,
    faults: FaultInjector,
    texts: Rc<RefCell<BTreeSet<String>>>,
    errors_seen: Rc<Cell<u64>>,
}

impl<G: Gpu> Trial<G> {
    /// Runs `work`, and runs it again if it fails. The second call succeeds unless the fault lasts.
    ///
    /// # Errors
    /// The error of the second call.
    ///
    /// # Panics
    /// If the call fails without a fault, or leaves an inconsistent allocator.
    pub fn run<T, E: Display>(&self, mut work: impl FnMut() -> Result<T, E>) -> Result<T, Failure> {
        let injected = self.faults.injected();
        let mut work = || caught(|| work().map_err(|error| error.to_string()), |error| error.to_string());
        let first = work();
        self.memory.debug().validate().expect("sound after each step");
        let text = match first {
            Ok(made) => return Ok(made),
            Err(text) => text,
        };
        assert!(self.faults.injected() > injected || is_loss(&text), "an error without a fault: {text}");
        self.texts.borrow_mut().insert(text);
        self.errors_seen.set(self.errors_seen.get() + 1);
        let again = work().map_err(Failure);
        self.memory.debug().validate().expect("sound after each step");
        again
    }
}

/// Payload of a panic of a failing call, with [`Walk::unwinds`](super::Walk::unwinds).
pub(super) struct Unwound(pub(super) DeviceError);

/// Calls `work`. If it panics with [`Unwound`], returns the error of that panic.
pub(super) fn caught<T, E>(work: impl FnOnce() -> Result<T, E>, failed: impl FnOnce(DeviceError) -> E) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| match payload.downcast::<Unwound>() {
        Ok(unwound) => Err(failed(unwound.0)),
        Err(other) => resume_unwind(other),
    })
}

fn is_loss(text: &str) -> bool {
    text.contains(&DeviceError::Lost.to_string())
}

impl<G: Gpu> Stage<G> {
    pub(super) fn new(gpu: G, allocator: AllocatorDesc, error: Option<DeviceError>) -> Self {
        let gpu = FaultyGpu::over(gpu);
        let faults = gpu.faults().clone();
        let memory = Allocator::over(gpu.device(), allocator);
        let (texts, errors_seen) = Default::default();
        let mut stage = Self { timelines: Vec::new(), memory, faults, gpu, error, texts, errors_seen };
        stage.timelines = (0..stage.gpu.queue_count())
            .map(|queue| {
                // SAFETY: scenarios drop their objects before the stage, and signal every submitted frame.
                unsafe { stage.memory.timeline(stage.gpu.fence(queue)) }.expect("no rule yet")
            })
            .collect();
        stage
    }

    /// Returns a helper that repeats failed calls.
    #[must_use]
    pub fn trial(&self) -> Trial<G> {
        Trial {
            memory: self.memory.clone(),
            faults: self.faults.clone(),
            texts: Rc::clone(&self.texts),
            errors_seen: Rc::clone(&self.errors_seen),
        }
    }

    /// Runs a call once more if it fails. For faults that affect one call. The first call may fail only because of the
    /// injected fault, with its error, and must then change nothing. The second call must succeed.
    ///
    /// # Panics
    /// If one of these rules is broken.
    #[track_caller]
    pub fn step<T, E: Debug>(&self, mut call: impl FnMut() -> Result<T, E>) -> T {
        let injected = self.faults.injected();
        match call() {
            Ok(made) => made,
            Err(error) => {
                let text = format!("{error:?}");
                let cause = self.error.unwrap_or_else(|| panic!("an error without a fault: {text}"));
                assert_eq!(
                    self.faults.injected(),
                    injected + 1,
                    "the error does not match the injected faults: {text}"
                );
                assert!(text.contains(&format!("{cause:?}")), "the cause {cause:?} is not reported: {text}");
                self.errors_seen.set(self.errors_seen.get() + 1);
                self.memory.debug().validate().expect("sound after the fault");
                call().unwrap_or_else(|error| panic!("the repeated call failed: {error:?}"))
            }
        }
    }

    pub(super) fn errors_seen(&self) -> u64 {
        self.errors_seen.get()
    }

    /// Checks that each error that a [`Trial`] got names its cause.
    pub(super) fn check_texts(&self, error: DeviceError) {
        for text in self.texts.borrow().iter() {
            let named = text.contains(&error.to_string());
            let summed_up = error.is_out_of_memory() && (text.contains("out of memory") || text.contains("budget"));
            assert!(named || summed_up, "the error does not name its cause: {text}");
        }
    }

    /// Creates a buffer for copies. A readback buffer can only be a destination.
    ///
    /// # Errors
    /// The call failed twice.
    pub fn buffer(&self, size: u64, location: Location) -> Result<FaultyBuffer<G>, Failure> {
        let both = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
        let usage = if location == Location::Readback { BufferUsage::COPY_DST } else { both };
        self.buffer_for(size, usage, AllocationDesc { location, name: "of a scenario", ..Default::default() })
    }

    /// Creates a buffer.
    ///
    /// # Errors
    /// The call failed twice.
    pub fn buffer_for(
        &self,
        size: u64,
        usage: BufferUsage,
        desc: AllocationDesc<'_>,
    ) -> Result<FaultyBuffer<G>, Failure> {
        self.trial().run(|| self.memory.create_buffer(&BufferDesc { size, usage }, desc))
    }

    /// Creates a texture.
    ///
    /// # Errors
    /// The call failed twice.
    pub fn texture(&self, desc: TextureDesc, how: AllocationDesc<'_>) -> Result<Texture<FaultyDevice<G>>, Failure> {
        self.trial().run(|| self.memory.create_texture(&desc, how))
    }

    /// Creates an upload buffer with these bytes.
    ///
    /// # Errors
    /// A call failed twice.
    pub fn filled(&self, bytes: &[u8]) -> Result<FaultyBuffer<G>, Failure> {
        let mut buffer = self.buffer(bytes.len() as u64, Location::Upload)?;
        self.trial().run(|| buffer.write(0, bytes))?;
        Ok(buffer)
    }

    /// Submits commands to the first queue as `frame`. Returns the frame's value.
    ///
    /// # Errors
    /// The device is lost.
    pub fn submit(&mut self, frame: Frame, commands: &[Command<FaultyDevice<G>>]) -> Result<u64, Failure> {
        let value = frame.value();
        self.gpu.submit(0, &[], commands, value)?;
        self.timelines[0].submitted(frame)?;
        Ok(value)
    }

    /// Waits until the first queue reaches a value.
    ///
    /// # Errors
    /// The call failed twice.
    ///
    /// # Panics
    /// The work takes longer than [`PATIENCE`].
    pub fn wait(&self, value: u64) -> Outcome {
        let reached = self.trial().run(|| self.timelines[0].wait(value, PATIENCE))?;
        assert!(reached, "the work completes");
        Ok(())
    }

    /// Submits commands to the first queue and waits for them.
    ///
    /// # Errors
    /// A call failed twice, or the device is lost.
    pub fn run(&mut self, commands: &[Command<FaultyDevice<G>>]) -> Outcome {
        let frame = self.timelines[0].begin();
        let value = self.submit(frame, commands)?;
        self.wait(value)
    }

    /// Checks that a buffer starts with these bytes, read through a copy on the device.
    ///
    /// # Errors
    /// A call failed twice, or the device is lost.
    ///
    /// # Panics
    /// The bytes differ.
    pub fn expect(&mut self, from: &FaultyBuffer<G>, bytes: &[u8]) -> Outcome {
        self.expect_at((from.object().clone(), 0), bytes)
    }

    /// [`Stage::expect`] from an offset in the buffer, in bytes.
    ///
    /// # Errors
    /// The errors of [`Stage::expect`].
    ///
    /// # Panics
    /// The panics of [`Stage::expect`].
    pub fn expect_at(&mut self, (src, src_offset): (RawBuffer<FaultyDevice<G>>, u64), bytes: &[u8]) -> Outcome {
        let size = bytes.len() as u64;
        let back = self.buffer(size, Location::Readback)?;
        let dst = back.object().clone();
        self.run(&[Command::CopyBuffer { src, src_offset, dst, dst_offset: 0, size }])?;
        self.expect_back(&back, bytes)
    }

    /// Checks that a readback buffer starts with these bytes.
    ///
    /// # Errors
    /// A call failed twice.
    ///
    /// # Panics
    /// The bytes differ.
    pub fn expect_back(&self, back: &FaultyBuffer<G>, bytes: &[u8]) -> Outcome {
        let mut read = vec![0; bytes.len()];
        self.trial().run(|| back.read(0, &mut read))?;
        assert!(read == bytes, "wrong bytes");
        Ok(())
    }

    /// Returns the region of the whole first mip level of an RGBA8 texture. The device can copy its rows.
    #[must_use]
    pub fn region(&self, width: u32, height: u32, buffer_offset: u64) -> TextureRegion {
        let alignment = self.memory.device().capabilities().texture_copy_row_alignment;
        let row_bytes = (u64::from(width) * 4).next_multiple_of(alignment);
        TextureRegion { buffer_offset, row_bytes, mip: 0, layer: 0, width, height, texel_bytes: 4 }
    }

    /// Ends the run. Checks that the allocator and the device have no objects. Returns the device's messages.
    pub(super) fn finish(mut self) -> Vec<String> {
        self.memory.debug().validate().expect("sound");
        let idle = self.gpu.wait_idle();
        // An early return dropped open frames. The device is idle, and no further work is submitted.
        self.timelines.iter().for_each(Timeline::discard_dropped);
        let done = self.memory.shutdown(PATIENCE).expect("what was submitted is complete, or the device is lost");
        assert_eq!(done.waiting, 0, "no retired object is left");
        assert_eq!(done.device_lost, idle == Err(DeviceError::Lost));
        let (statistics, snapshot) = (self.memory.statistics(), self.memory.snapshot());
        assert_eq!(statistics.total().range_count + statistics.total().dedicated_count, 0, "left: {snapshot:?}");
        assert_eq!(statistics.calls.allocate_memory, statistics.calls.free_memory, "every memory object is freed");
        assert_eq!(statistics.calls.create_object, statistics.calls.destroy_object, "every object is destroyed");
        let Self { memory, timelines, gpu, .. } = self;
        drop((timelines, memory));
        gpu.close()
    }
}

/// Returns a copy of the first `size` bytes of one buffer to the start of another.
#[must_use]
pub fn copy<G: Gpu>(from: &FaultyBuffer<G>, to: &FaultyBuffer<G>, size: u64) -> Command<FaultyDevice<G>> {
    let (src, dst) = (from.object().clone(), to.object().clone());
    Command::CopyBuffer { src, src_offset: 0, dst, dst_offset: 0, size }
}

/// Returns pseudo-random bytes that depend on the seed.
#[must_use]
pub fn pattern(seed: u64, size: u64) -> Vec<u8> {
    crate::rig::pattern(seed, size as usize)
}
