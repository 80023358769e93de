//! The walk: a scenario runs once to count its driver calls, and then once for each of them, with that call failing.
//!
//! ```text
//!   scenario ── calm: n calls
//!        └───── for each k below n, for each error: call k fails
//!                  each step that fails says so with that error ▶ validate ▶ the step again, which succeeds
//!                  at the end: bytes right, no hazard, nothing on the device
//! ```
//!
//! A scenario is a function over [`World`]; what may fail in it goes through [`World::step`].

use std::cell::Cell;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use ringfence::device::fault::{FaultInjector, Faults, Rule};
use ringfence::device::record::{CopyRegion, Record, TexelRead, TexelRegion, TextureCopy, TextureTarget};
use ringfence::device::{BufferDesc, BufferUsage, Buffers, Create, DeviceError, RawBuffer, RawTexture};
use ringfence::sim::{self, Command, Profile, SimOptions};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Frame, Location, Timeline, UploadBatch};

pub type Device = FaultInjector<sim::Device>;

pub const KIB: u64 = 1 << 10;

/// What a call is made to fail with. Losing the device is another story: `release/lost.rs`.
const ERRORS: [DeviceError; 2] = [DeviceError::OutOfDeviceMemory, DeviceError::Other(-7)];

pub struct World {
    pub sim: sim::Device,
    pub faults: Faults,
    pub memory: Allocator<Device>,
    pub timeline: Timeline<Device>,
    /// Of a second queue.
    pub copies: Timeline<Device>,
    fences: [sim::Fence; 2],
    error: Option<DeviceError>,
    refused: Cell<u64>,
}

impl World {
    fn new(profile: Profile, error: Option<DeviceError>) -> Self {
        let sim = sim::Device::new(profile, SimOptions { seed: 5, queues: 2, ..Default::default() });
        let (device, faults) = FaultInjector::new(sim.clone());
        let memory = Allocator::over(device, AllocatorDesc::default());
        let fences = [(); 2].map(|()| sim.create_fence(0));
        // SAFETY: the fences are the device's, and every submission signals its frame's value.
        let [timeline, copies] = fences.map(|fence| unsafe { memory.timeline(fence) }.expect("no fault yet"));
        Self { sim, faults, memory, timeline, copies, fences, error, refused: Cell::new(0) }
    }

    /// A call that may fail, once at the most and only because it was made to; then everything is as before, and it is
    /// made again.
    #[track_caller]
    pub fn step<T, E: Debug>(&self, mut call: impl FnMut() -> Result<T, E>) -> T {
        let injected = self.faults.injected();
        match call() {
            Ok(made) => made,
            Err(error) => {
                let text = format!("{error:?}");
                let cause = self.error.unwrap_or_else(|| panic!("nothing was made to fail: {text}"));
                assert_eq!(self.faults.injected(), injected + 1, "it was another call's failure: {text}");
                assert!(text.contains(&format!("{cause:?}")), "the cause {cause:?} is not in the text: {text}");
                self.refused.set(self.refused.get() + 1);
                self.memory.validate().expect("sound after the fault");
                call().unwrap_or_else(|error| panic!("nothing fails twice: {error:?}"))
            }
        }
    }

    pub fn buffer(&self, size: u64, location: Location) -> Buffer<Device> {
        let usage = match location {
            Location::Readback => BufferUsage::COPY_DST,
            _ => BufferUsage::COPY_SRC | BufferUsage::COPY_DST,
        };
        let desc = AllocationDesc { location, ..Default::default() };
        self.step(|| {
            let info = Create::<Buffers>::describe(self.memory.device(), &BufferDesc { size, usage })?;
            self.memory.create_buffer(&info, desc)
        })
    }

    /// Submits to the first queue.
    pub fn submit(&self, frame: Frame, commands: Commands) -> u64 {
        let value = frame.value();
        self.submit_to(0, &[], value, commands);
        self.timeline.submitted(frame).expect("in order");
        value
    }

    /// Submits to a queue, after what the other one has reached.
    pub fn submit_to(&self, queue: usize, waits: &[u64], signal: u64, Commands(commands): Commands) {
        let waits: Vec<_> = waits.iter().map(|&value| (self.fences[1 - queue], value)).collect();
        self.sim.submit(queue, &waits, commands, (self.fences[queue], signal)).expect("the device is not lost");
    }

    pub fn wait(&self, value: u64) {
        assert!(self.step(|| self.timeline.wait(value, Duration::MAX)));
    }

    /// The bytes of a buffer must be these.
    #[track_caller]
    pub fn expect(&self, from: (RawBuffer<Device>, u64), bytes: &[u8]) {
        let back = self.buffer(bytes.len() as u64, Location::Readback);
        let frame = self.timeline.begin();
        let value = self.submit(frame, Commands::copy(from, (*back.object(), 0), bytes.len() as u64));
        self.wait(value);
        let mut read = vec![0; bytes.len()];
        self.step(|| back.read(0, &mut read));
        assert!(read == bytes, "wrong bytes");
    }

    /// Everything that was made has been released.
    fn finish(self) {
        self.faults.clear();
        self.memory.validate().expect("sound at the end");
        drop((self.timeline, self.copies));
        self.memory.shutdown(Duration::MAX).expect("the work is complete");
        let total = self.memory.statistics().total();
        assert_eq!((total.range_count, total.dedicated_count), (0, 0), "left: {:?}", self.memory.snapshot());
        drop(self.memory);
        let hazards: Vec<String> = self.sim.take_hazards().iter().map(ToString::to_string).collect();
        assert!(hazards.is_empty(), "{hazards:#?}");
        assert_eq!(self.sim.live(), sim::Live::default(), "nothing is leaked");
    }
}

/// Has every driver call of the scenario fail, on a device whose host writes have to be flushed and on one where not.
pub fn every_call_fails_once(scenario: impl Fn(&World)) {
    for profile in [Profile::h200(), Profile::non_coherent()] {
        let calm = World::new(profile.clone(), None);
        let before = calm.faults.calls();
        scenario(&calm);
        let calls = calm.faults.calls() - before;
        calm.finish();
        let (mut injected, mut refused) = (0, 0);
        for error in ERRORS {
            for nth in 0..calls {
                let world = World::new(profile.clone(), Some(error));
                world.faults.add(Rule::nth(nth, error));
                let ended = catch_unwind(AssertUnwindSafe(|| {
                    scenario(&world);
                    injected += world.faults.injected();
                    refused += world.refused.get();
                    world.finish();
                }));
                assert!(ended.is_ok(), "{}: call {nth} of {calls} fails with {error:?}", profile.name);
            }
        }
        assert_eq!(injected, calls * ERRORS.len() as u64, "each call was made to fail");
        assert!(refused > 0 && calls > 5, "{}: {calls} calls, {refused} errors", profile.name);
    }
}

/// Commands for the simulated device; batches of the device behind the injector are recorded into it.
#[derive(Default)]
pub struct Commands(pub Vec<Command>);

impl Commands {
    pub fn copy(
        (src, src_offset): (RawBuffer<Device>, u64),
        (dst, dst_offset): (RawBuffer<Device>, u64),
        size: u64,
    ) -> Self {
        Self(vec![Command::CopyBuffer { src, src_offset, dst, dst_offset, size }])
    }

    pub fn batch(batch: &mut UploadBatch<Device>) -> Self {
        let mut commands = Self::default();
        // SAFETY: what the batch copies is alive until the frame is complete, which is submitted with these commands.
        unsafe { batch.record(&mut commands) };
        commands
    }

    pub fn then(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

impl Record<Device> for Commands {
    unsafe fn begin_copies(&mut self, _: &[RawBuffer<Device>], _: &[TextureTarget<RawTexture<Device>>]) {}

    unsafe fn copy_buffer(&mut self, src: &RawBuffer<Device>, dst: &RawBuffer<Device>, regions: &[CopyRegion]) {
        // SAFETY: the caller promises what the contract requires.
        unsafe { Record::<sim::Device>::copy_buffer(&mut self.0, src, dst, regions) };
    }

    unsafe fn copy_buffer_to_texture(
        &mut self,
        src: &RawBuffer<Device>,
        dst: &RawTexture<Device>,
        region: &TexelRegion,
    ) {
        // SAFETY: the caller promises what the contract requires.
        unsafe { Record::<sim::Device>::copy_buffer_to_texture(&mut self.0, src, dst, region) };
    }

    unsafe fn read_texels(&mut self, reads: &[TexelRead<RawTexture<Device>, RawBuffer<Device>>]) {
        // SAFETY: the caller promises what the contract requires.
        unsafe { Record::<sim::Device>::read_texels(&mut self.0, reads) };
    }

    unsafe fn copy_textures(&mut self, copies: &[TextureCopy<RawTexture<Device>>]) {
        // SAFETY: the caller promises what the contract requires.
        unsafe { Record::<sim::Device>::copy_textures(&mut self.0, copies) };
    }

    unsafe fn end_copies(&mut self, _: &[RawBuffer<Device>], _: &[TextureTarget<RawTexture<Device>>]) {}
}

/// Bytes that differ by seed.
pub fn pattern(seed: u64, size: u64) -> Vec<u8> {
    (0..size).map(|at| (at.wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
}
