//! Objects for tests on the simulated device: the device, an allocator over it, timelines, and the final check.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ringfence::device::fault::FaultInjector;
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, Device};
use ringfence::memory::Error;
use ringfence::sim::{self, Command, Fence, Profile, SimOptions};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Frame, Timeline};

/// A simulated device with an allocator over it.
pub struct Fixture<D: Device = sim::Device> {
    /// The device itself.
    pub device: sim::Device,
    /// Fault injector of a [`FaultyFixture`]. In other fixtures, its rules have no effect.
    pub faults: FaultInjector,
    /// Allocator over the device; in a [`FaultyFixture`], over the fault injector.
    pub memory: Allocator<D>,
    /// The timelines, as many as [`FixtureDesc::timelines`]. The first one is [`Fixture::timeline`].
    pub timelines: Vec<Timeline<D>>,
    /// The fence of each timeline.
    pub fences: Vec<Fence>,
}

/// A fixture with driver calls that fail on request.
pub type FaultyFixture = Fixture<FaultInjector<sim::Device>>;

/// Description of a [`Fixture`].
#[derive(Clone, Debug)]
pub struct FixtureDesc {
    /// Profile of the simulated device.
    pub profile: Profile,
    /// Options of the simulated device.
    pub options: SimOptions,
    /// Description of the allocator.
    pub allocator: AllocatorDesc,
    /// Number of timelines.
    pub timelines: usize,
}

impl Default for FixtureDesc {
    fn default() -> Self {
        Self {
            profile: Profile::h200(),
            options: SimOptions::default(),
            allocator: AllocatorDesc::default(),
            timelines: 1,
        }
    }
}

impl Fixture {
    /// Creates a device, an allocator and timelines.
    ///
    /// # Panics
    /// The device is lost.
    #[must_use]
    pub fn new(desc: FixtureDesc) -> Self {
        let device = sim::Device::new(desc.profile, desc.options);
        Self::over(device.clone(), device, FaultInjector::default(), desc.allocator, desc.timelines)
    }

    /// Creates a second allocator on a device.
    ///
    /// # Panics
    /// The device is lost.
    #[must_use]
    pub fn on(device: &sim::Device, allocator: AllocatorDesc) -> Self {
        Self::over(device.clone(), device.clone(), FaultInjector::default(), allocator, 1)
    }
}

impl FaultyFixture {
    /// [`Fixture::new`] with a fault injector between the library and the device. It has no rules yet.
    ///
    /// # Panics
    /// The device is lost.
    #[must_use]
    pub fn faulty(desc: FixtureDesc) -> Self {
        let device = sim::Device::new(desc.profile, desc.options);
        let (injector, faults) = FaultInjector::new(device.clone());
        Self::over(injector, device, faults, desc.allocator, desc.timelines)
    }
}

impl<D> Fixture<D>
where
    D: Device<Fence = Fence> + for<'a> Create<Buffers, Info<'a> = BufferDesc>,
{
    fn over(inner: D, device: sim::Device, faults: FaultInjector, allocator: AllocatorDesc, timelines: usize) -> Self {
        let memory = Allocator::over(inner, allocator);
        let fences: Vec<_> = (0..timelines).map(|_| device.create_fence(0)).collect();
        // SAFETY: the fences live as long as the device, and each submission of a test signals the value of its frame.
        // If a test breaks this on purpose, the simulated device reports hazards; host memory stays safe.
        let timeline = |&fence| unsafe { memory.timeline(fence) }.expect("the device is not lost");
        let timelines = fences.iter().map(timeline).collect();
        Self { device, faults, memory, timelines, fences }
    }

    /// Returns the first timeline.
    #[must_use]
    pub fn timeline(&self) -> &Timeline<D> {
        &self.timelines[0]
    }

    /// Returns the fence of the first timeline.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fences[0]
    }

    /// Creates a buffer of `size` bytes for copies.
    ///
    /// # Errors
    /// The errors of [`Allocator::create_buffer`].
    pub fn buffer(&self, size: u64, desc: AllocationDesc<'_>) -> Result<Buffer<D>, Error> {
        let usage = BufferUsage::COPY_SRC | BufferUsage::COPY_DST;
        self.memory.create_buffer(&BufferDesc { size, usage }, desc)
    }

    /// Submits commands to the first queue, in a new frame. Returns the frame's value.
    ///
    /// # Panics
    /// The device is lost.
    pub fn submit(&self, commands: Vec<Command>) -> u64 {
        self.submit_frame(self.timeline().begin(), commands)
    }

    /// Submits commands to the first queue, as `frame`. Returns the frame's value.
    ///
    /// # Panics
    /// The device is lost, or a later frame was submitted.
    pub fn submit_frame(&self, frame: Frame, commands: Vec<Command>) -> u64 {
        let value = frame.value();
        self.device.submit(0, &[], commands, (self.fence(), value)).expect("the device is not lost");
        self.timeline().submitted(frame).expect("in order");
        value
    }

    /// Submits `frame` without commands, and waits for it.
    ///
    /// # Panics
    /// The panics of [`Fixture::submit_frame`].
    pub fn complete(&self, frame: Frame) {
        let value = self.submit_frame(frame, vec![]);
        assert!(self.timeline().wait(value, Duration::MAX).expect("the device is not lost"));
    }

    /// Returns the hazards that the simulated device has found since the last call of this function.
    #[must_use]
    pub fn hazards(&self) -> Vec<String> {
        self.device.take_hazards().iter().map(ToString::to_string).collect()
    }

    /// Ends the test, which must have dropped its objects. Checks that the allocator is consistent and empty, that the
    /// device has no objects, and that there are no hazards.
    ///
    /// # Panics
    /// A check fails.
    #[track_caller]
    pub fn finish(self) {
        self.faults.clear();
        self.memory.debug().validate().expect("the allocator is sound");
        let Self { device, memory, timelines, .. } = self;
        drop(timelines);
        let (retired, objects) = (memory.statistics().retired_count, memory.budgets().memory_object_count());
        // Each importer of shared memory counts it, but the device has only one memory object.
        assert!(objects >= device.live().memories, "{objects} memory objects are counted: {:?}", device.live());
        let ended = memory.shutdown(Duration::MAX).expect("all work completes");
        assert_eq!((ended.objects as u64, ended.waiting), (retired, 0), "each retired object is destroyed once");
        assert!(ended.blocks as u64 <= objects, "{} blocks were freed of {objects} memory objects", ended.blocks);
        let total = memory.statistics().total();
        assert_eq!((total.range_count, total.dedicated_count), (0, 0), "left: {:?}", memory.snapshot());
        assert_eq!(memory.budgets().memory_object_count(), 0, "memory objects that are still counted");
        assert_eq!(memory.debug().take_findings(), [], "debugging has no findings");
        drop(memory);
        let found: Vec<String> = device.take_hazards().iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{found:#?}");
        assert_eq!(device.live(), sim::Live::default(), "no object is leaked");
    }
}

/// A trace that is recorded into memory. It can be read during the recording. Clones share one recording.
#[derive(Clone, Default, Debug)]
pub struct Recording(Arc<Mutex<Vec<u8>>>);

impl Recording {
    /// Returns the bytes that were written so far.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Write for Recording {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
