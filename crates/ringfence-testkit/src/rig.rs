//! What each test of the [conformance suite](mod@crate::conformance) is given: an open device with an allocator and a
//! timeline a queue, and at its end the check that all is clean.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::thread;
use std::time::Duration;

use crate::sim::SimGpu;
use crate::{Command, GateOpener, Gpu, OpenError, Options, TextureRegion, Validation, report};
use ringfence::device::{
    BufferDesc, BufferUsage, Buffers, Create, Device, Driver, TextureDesc, TextureUsage, Textures,
};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Frame, Location, Texture, Timeline};

/// How long a test waits for work that completes: more than any machine needs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// An open device and what a program would keep of it.
pub struct Rig<G: Gpu> {
    /// Over the device, with the default description.
    pub memory: Allocator<G::Device>,
    /// One a queue.
    pub timelines: Vec<Timeline<G::Device>>,
    /// The device. It outlives all the rest.
    pub gpu: G,
    /// How the device was opened.
    pub options: Options,
}

impl<G: Gpu> Rig<G> {
    fn new(gpu: G, options: Options) -> Self {
        let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
        let mut rig = Self { memory, timelines: Vec::new(), gpu, options };
        rig.timelines = rig.timelines_of(&rig.memory);
        rig
    }

    /// A second allocator on the same device, with timelines of its own over the same fences.
    ///
    /// # Panics
    /// The device is lost.
    pub fn allocator(&self, desc: AllocatorDesc) -> (Allocator<G::Device>, Vec<Timeline<G::Device>>) {
        let memory = Allocator::over(self.gpu.device(), desc);
        let timelines = self.timelines_of(&memory);
        (memory, timelines)
    }

    fn timelines_of(&self, memory: &Allocator<G::Device>) -> Vec<Timeline<G::Device>> {
        let fences = (0..self.gpu.queue_count()).map(|queue| self.gpu.fence(queue));
        // SAFETY: tests drop what they make before the rig, and signal every frame that they submit.
        fences.map(|fence| unsafe { memory.timeline(fence) }.expect("the device is not lost")).collect()
    }

    /// The first queue's timeline.
    #[must_use]
    pub fn timeline(&self) -> &Timeline<G::Device> {
        &self.timelines[0]
    }

    /// A buffer to copy from, and to copy to.
    ///
    /// # Panics
    /// There is no room.
    #[must_use]
    pub fn buffer(&self, size: u64, location: Location, name: &str) -> Buffer<G::Device> {
        let usage = if location == Location::Readback {
            BufferUsage::COPY_DST
        } else {
            BufferUsage::COPY_SRC | BufferUsage::COPY_DST
        };
        buffer(&self.memory, size, usage, location, name)
    }

    /// An RGBA8 texture to copy from and to.
    ///
    /// # Panics
    /// There is no room.
    #[must_use]
    pub fn texture(&self, width: u32, height: u32, name: &str) -> Texture<G::Device> {
        let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
        let desc = TextureDesc { width, height, usage, ..Default::default() };
        let info = Create::<Textures>::describe(self.memory.device(), &desc).expect("a plain texture");
        self.memory.create_texture(&info, AllocationDesc { name, ..Default::default() }).expect("there is room")
    }

    /// Submits commands to the first queue as `frame`. Returns its value.
    ///
    /// # Panics
    /// The device is lost, or a later frame was submitted.
    pub fn submit(&mut self, frame: Frame, commands: &[Command<G::Device>]) -> u64 {
        let value = frame.value();
        self.gpu.submit(0, &[], commands, value).expect("the device is not lost");
        self.timelines[0].submitted(frame).expect("frames are submitted in order");
        value
    }

    /// As [`Rig::submit`], but nothing of it begins before the gate is opened with `gate`.
    ///
    /// # Panics
    /// As [`Rig::submit`].
    pub fn submit_behind_gate(&mut self, gate: u64, frame: Frame, commands: &[Command<G::Device>]) -> u64 {
        let value = frame.value();
        self.gpu.submit(0, &[(self.gpu.gate(), gate)], commands, value).expect("the device is not lost");
        self.timelines[0].submitted(frame).expect("frames are submitted in order");
        value
    }

    /// Submits commands to the first queue and waits for them.
    ///
    /// # Panics
    /// The device is lost, or the work takes longer than [`PATIENCE`].
    pub fn run(&mut self, commands: &[Command<G::Device>]) {
        let frame = self.timeline().begin();
        let value = self.submit(frame, commands);
        assert!(self.timeline().wait(value, PATIENCE).expect("the device is not lost"), "the work completes");
    }

    /// What a buffer holds, read through a copy on the device: its first `size` bytes.
    ///
    /// # Panics
    /// As [`Rig::run`].
    #[must_use]
    pub fn download(&mut self, from: &Buffer<G::Device>, size: u64) -> Vec<u8> {
        let back = self.buffer(size, Location::Readback, "download");
        self.run(&[copy(from, 0, &back, 0, size)]);
        let mut bytes = vec![0; size as usize];
        back.read(0, &mut bytes).expect("a readback buffer is mapped");
        bytes
    }

    /// All texels of the first mip of an RGBA8 texture, and rows in a buffer as the device copies them.
    #[must_use]
    pub fn region(&self, width: u32, height: u32, buffer_offset: u64) -> TextureRegion {
        let alignment = self.memory.device().capabilities().texture_copy_row_alignment;
        let row_bytes = (u64::from(width) * 4).next_multiple_of(alignment);
        TextureRegion { buffer_offset, row_bytes, mip: 0, layer: 0, width, height, texel_bytes: 4 }
    }

    fn finish(mut self) {
        self.gpu.wait_idle().expect("the device is not lost");
        self.memory.debug().validate().expect("the allocator is sound");
        self.memory.shutdown(PATIENCE).expect("all work is complete");
        let (statistics, snapshot) = (self.memory.statistics(), self.memory.snapshot());
        assert_eq!(statistics.retired_count, 0, "nothing waits");
        assert_eq!(statistics.total().range_count + statistics.total().dedicated_count, 0, "left: {snapshot:?}");
        assert_eq!(statistics.calls.allocate_memory, statistics.calls.free_memory, "every memory object is freed");
        assert_eq!(statistics.calls.create_object, statistics.calls.destroy_object, "every object is destroyed");
        let Self { memory, timelines, gpu, .. } = self;
        drop((timelines, memory));
        let validation = gpu.validation();
        assert_eq!(gpu.close(), Vec::<String>::new(), "hazards or validation messages ({validation})");
    }

    /// Reports once what watches the device; fails if that is nothing where it has to be something.
    fn report_validation(&self) {
        let validation = self.gpu.validation();
        if G::NAME != SimGpu::NAME {
            let device = self.gpu.device();
            report::layers(&format!("{}, {}", G::NAME, device.capabilities().name), &validation);
        }
        let required = std::env::var_os("RINGFENCE_REQUIRE_VALIDATION").is_some_and(|value| value != "0");
        assert!(!required || matches!(validation, Validation::On(_)), "RINGFENCE_REQUIRE_VALIDATION: {validation}");
    }
}

/// Reports that the running test, or the rest of it, is not for this device.
pub fn skipped(reason: &str) {
    report::skipped(reason);
}

/// A buffer of `size` bytes.
///
/// # Panics
/// There is no room.
#[must_use]
pub fn buffer<D: Device>(
    memory: &Allocator<D>,
    size: u64,
    usage: BufferUsage,
    location: Location,
    name: &str,
) -> Buffer<D> {
    let info = Create::<Buffers>::describe(memory.device(), &BufferDesc { size, usage }).expect("a plain buffer");
    memory.create_buffer(&info, AllocationDesc { name, location, ..Default::default() }).expect("there is room")
}

/// A copy of `size` bytes.
#[must_use]
pub fn copy<D: Device>(from: &Buffer<D>, src_offset: u64, to: &Buffer<D>, dst_offset: u64, size: u64) -> Command<D> {
    let (src, dst) = (from.object().clone(), to.object().clone());
    Command::CopyBuffer { src, src_offset, dst, dst_offset, size }
}

/// Bytes that repeat late and differ by seed.
#[must_use]
pub fn pattern(seed: u64, size: usize) -> Vec<u8> {
    (0..size as u64).map(|at| ((at ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
}

/// Runs a test on a device of its own, which there has to be.
///
/// # Panics
/// The device does not open, the test fails, something is left behind, or what watches the device has reported
/// something.
pub fn run_on<G: Gpu>(options: &Options, test: impl FnOnce(&mut Rig<G>)) {
    run(open(options, true), test);
}

/// As [`run_on`], but a device that is absent [skips](report::skipped) the test unless it is `required`.
///
/// # Panics
/// As [`run_on`].
pub fn run_where<G: Gpu>(options: &Options, required: bool, test: impl FnOnce(&mut Rig<G>)) {
    run(open(options, required), test);
}

fn open<G: Gpu>(options: &Options, required: bool) -> Option<Rig<G>> {
    match G::open(options) {
        Ok(gpu) => Some(Rig::new(gpu, options.clone())),
        Err(OpenError::Absent(what)) if !required => {
            report::skipped(what);
            None
        }
        Err(error) => panic!("no {} device: {error}", G::NAME),
    }
}

fn run<G: Gpu>(rig: Option<Rig<G>>, test: impl FnOnce(&mut Rig<G>)) {
    if let Some(mut rig) = rig {
        rig.report_validation();
        let watch = GateWatch::new(rig.gpu.gate_opener());
        test(&mut rig);
        drop(watch);
        rig.finish();
    }
}

thread_local! {
    /// Of the tests that run on this thread, the innermost last.
    static OPENERS: RefCell<Vec<GateOpener>> = const { RefCell::new(Vec::new()) };
    static PANICS_ARE_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Opens the gate at the first panic of a test, before anything is dropped: an allocator that the test made waits for
/// its work when it is dropped, and would do so for ever.
struct GateWatch;

impl GateWatch {
    fn new(opener: GateOpener) -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let report = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                open_gates();
                report(info);
            }));
        });
        OPENERS.with_borrow_mut(|openers| openers.push(opener));
        Self
    }
}

impl Drop for GateWatch {
    fn drop(&mut self) {
        OPENERS.with_borrow_mut(Vec::pop);
    }
}

/// A panic within an opener finds the list in use, and opens nothing more.
fn open_gates() {
    if !PANICS_ARE_CAUGHT.get() {
        let _ = OPENERS.try_with(|openers| {
            if let Ok(openers) = openers.try_borrow() {
                openers.iter().for_each(|open| open());
            }
        });
    }
}

/// Runs what is meant to panic, and is no failure of the test: what is behind the gate stays there.
///
/// # Errors
/// What it panicked with.
pub fn caught<R>(work: impl FnOnce() -> R) -> thread::Result<R> {
    let before = PANICS_ARE_CAUGHT.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    PANICS_ARE_CAUGHT.set(before);
    result
}
