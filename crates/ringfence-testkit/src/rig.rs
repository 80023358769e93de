//! The environment of each test of the [conformance suite](mod@crate::conformance): an open device, an allocator, a
//! timeline per queue, and final checks.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::thread;
use std::time::Duration;

use crate::sim::SimGpu;
use crate::{Command, GateOpener, Gpu, OpenError, Options, TextureRegion, Validation, report};
use ringfence::device::{BufferDesc, BufferUsage, Device, Driver, TextureDesc, TextureUsage};
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Frame, Location, Texture, Timeline};

/// Timeout for work that must complete. Every machine needs less time for it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// An open device, with an allocator and timelines.
pub struct Rig<G: Gpu> {
    /// Allocator over the device, with the default description.
    pub memory: Allocator<G::Device>,
    /// One timeline per queue.
    pub timelines: Vec<Timeline<G::Device>>,
    /// The device. It must outlive all other objects.
    pub gpu: G,
    /// The options with which the device was opened.
    pub options: Options,
}

impl<G: Gpu> Rig<G> {
    fn new(gpu: G, options: Options) -> Self {
        let memory = Allocator::over(gpu.device(), AllocatorDesc::default());
        let mut rig = Self { memory, timelines: Vec::new(), gpu, options };
        rig.timelines = rig.timelines_of(&rig.memory);
        rig
    }

    /// Creates a second allocator on the same device, with its own timelines over the same fences.
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
        // SAFETY: tests drop their objects before the rig, and signal every submitted frame.
        fences.map(|fence| unsafe { memory.timeline(fence) }.expect("the device is not lost")).collect()
    }

    /// Returns the first queue's timeline.
    #[must_use]
    pub fn timeline(&self) -> &Timeline<G::Device> {
        &self.timelines[0]
    }

    /// Creates a buffer for copies. A readback buffer can only be a destination.
    ///
    /// # Panics
    /// Memory ran out.
    #[must_use]
    pub fn buffer(&self, size: u64, location: Location, name: &str) -> Buffer<G::Device> {
        let usage = if location == Location::Readback {
            BufferUsage::COPY_DST
        } else {
            BufferUsage::COPY_SRC | BufferUsage::COPY_DST
        };
        buffer(&self.memory, size, usage, location, name)
    }

    /// Creates an RGBA8 texture for copies.
    ///
    /// # Panics
    /// Memory ran out.
    #[must_use]
    pub fn texture(&self, width: u32, height: u32, name: &str) -> Texture<G::Device> {
        let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
        let info = TextureDesc { width, height, usage, ..Default::default() };
        self.memory.create_texture(&info, AllocationDesc { name, ..Default::default() }).expect("there is room")
    }

    /// Submits commands to the first queue as `frame`. Returns the frame's value.
    ///
    /// # Panics
    /// The device is lost, or a later frame was submitted.
    pub fn submit(&mut self, frame: Frame, commands: &[Command<G::Device>]) -> u64 {
        let value = frame.value();
        self.gpu.submit(0, &[], commands, value).expect("the device is not lost");
        self.timelines[0].submitted(frame).expect("frames are submitted in order");
        value
    }

    /// [`Rig::submit`] of commands that start only once the gate has reached `gate`.
    ///
    /// # Panics
    /// The panics of [`Rig::submit`].
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

    /// Returns the first `size` bytes of a buffer, read through a copy on the device.
    ///
    /// # Panics
    /// The panics of [`Rig::run`].
    #[must_use]
    pub fn download(&mut self, from: &Buffer<G::Device>, size: u64) -> Vec<u8> {
        let back = self.buffer(size, Location::Readback, "download");
        self.run(&[copy(from, 0, &back, 0, size)]);
        let mut bytes = vec![0; size as usize];
        back.read(0, &mut bytes).expect("a readback buffer is mapped");
        bytes
    }

    /// Returns the region of the whole first mip level of an RGBA8 texture. The device can copy its rows.
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
        assert_eq!(statistics.retired_count, 0, "no retired object is left");
        assert_eq!(statistics.total().range_count + statistics.total().dedicated_count, 0, "left: {snapshot:?}");
        assert_eq!(statistics.calls.allocate_memory, statistics.calls.free_memory, "every memory object is freed");
        assert_eq!(statistics.calls.create_object, statistics.calls.destroy_object, "every object is destroyed");
        let Self { memory, timelines, gpu, .. } = self;
        drop((timelines, memory));
        let validation = gpu.validation();
        assert_eq!(gpu.close(), Vec::<String>::new(), "hazards or validation messages ({validation})");
    }

    /// Reports, once per device, the layer that checks it. Fails if a layer is required and absent.
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

/// Reports that the test, or the rest of it, does not apply to this device.
pub fn skipped(reason: &str) {
    report::skipped(reason);
}

/// Creates a buffer of `size` bytes.
///
/// # Panics
/// Memory ran out.
#[must_use]
pub fn buffer<D: Device>(
    memory: &Allocator<D>,
    size: u64,
    usage: BufferUsage,
    location: Location,
    name: &str,
) -> Buffer<D> {
    let info = BufferDesc { size, usage };
    memory.create_buffer(&info, AllocationDesc { name, location, ..Default::default() }).expect("there is room")
}

/// Returns a command that copies `size` bytes.
#[must_use]
pub fn copy<D: Device>(from: &Buffer<D>, src_offset: u64, to: &Buffer<D>, dst_offset: u64, size: u64) -> Command<D> {
    let (src, dst) = (from.object().clone(), to.object().clone());
    Command::CopyBuffer { src, src_offset, dst, dst_offset, size }
}

/// Returns pseudo-random bytes that depend on the seed.
#[must_use]
pub fn pattern(seed: u64, size: usize) -> Vec<u8> {
    (0..size as u64).map(|at| ((at ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
}

/// Runs a test on a new device. Fails if the device does not exist.
///
/// # Panics
/// If the device does not open, the test fails, an object is leaked, or the device's checks reported a message.
pub fn run_on<G: Gpu>(options: &Options, test: impl FnOnce(&mut Rig<G>)) {
    run(open(options, true), test);
}

/// [`run_on`] for a device that may be absent: the test is then [skipped](report::skipped), unless the device is
/// `required`.
///
/// # Panics
/// The panics of [`run_on`].
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
    /// Gate openers of the tests that run on this thread; the innermost test is last.
    static OPENERS: RefCell<Vec<GateOpener>> = const { RefCell::new(Vec::new()) };
    static PANICS_ARE_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Opens the gate when a test panics, before its objects are dropped. Otherwise, dropping an allocator would wait
/// forever for gated work.
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

/// Opens the gates of this thread. If an opener panics, opens no further gate.
fn open_gates() {
    if !PANICS_ARE_CAUGHT.get() {
        let _ = OPENERS.try_with(|openers| {
            if let Ok(openers) = openers.try_borrow() {
                openers.iter().for_each(|open| open());
            }
        });
    }
}

/// Runs work that may panic. If the work panics, the gate stays closed.
///
/// # Errors
/// The payload of the panic.
pub fn caught<R>(work: impl FnOnce() -> R) -> thread::Result<R> {
    let before = PANICS_ARE_CAUGHT.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    PANICS_ARE_CAUGHT.set(before);
    result
}
