//! A typical frame of a renderer, with only the calls to the library. The example `frame_loop` counts its instructions,
//! and the benchmark `frames` measures its time.
//!
//! ```text
//!   begin │ 200 constants │ 64 small buffers, 8 large ones, 4 textures made │ 32 views written │ as many dropped │ reclaim
//! ```
//!
//! A buffer or texture lives for 1 to [`AGE_MAX`] frames, so ranges of all sizes are freed in scattered order.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ringfence::descriptor::{CpuDescriptorHeap, CpuDescriptors, CpuHeapDesc, View};
use ringfence::device::descriptors::{BufferView, BufferViewKind, Descriptors, HeapKind};
use ringfence::device::{BufferDesc, BufferUsage, Device, Dimension, Driver, Format, TextureDesc, TextureUsage};
use ringfence::placement::{FastConstantsDesc, FastWriter};
use ringfence::{AllocationDesc, Allocator, Buffer, FastConstants, Texture, Timeline};

const CONSTANTS: usize = 200;
const SMALL_BUFFERS: usize = 64;
const LARGE_BUFFERS: usize = 8;
const TEXTURES: usize = 4;
const VIEWS: usize = 32;
const AGE_MAX: usize = 8;
/// Number of frames in flight on the device.
const IN_FLIGHT: usize = 3;
const WAIT_MAX: Duration = Duration::from_secs(30);

/// xorshift64*, which returns the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a size from `least` up to `least` times 2 to the power `magnitudes`, in bytes.
    fn size(&mut self, least: u64, magnitudes: u64) -> u64 {
        let power = least << (self.next() % magnitudes);
        power + self.next() % power
    }
}

/// Buffers and textures that are dropped together.
pub struct Group<D: Device> {
    pub buffers: Vec<Buffer<D>>,
    pub textures: Vec<Texture<D>>,
}

impl<D: Device> Group<D> {
    pub fn new() -> Self {
        Self { buffers: Vec::new(), textures: Vec::new() }
    }

    pub fn clear(&mut self) {
        self.buffers.clear();
        self.textures.clear();
    }
}

/// A function that drops the contents of a group.
pub type Dropper<D> = Box<dyn FnMut(&mut Group<D>)>;

/// A renderer that makes only the calls to the library.
pub struct Renderer<D: Device + Descriptors> {
    memory: Allocator<D>,
    timeline: Timeline<D>,
    /// The constants that `writer` writes to.
    _constants: FastConstants<D>,
    writer: FastWriter<D>,
    heap: CpuDescriptorHeap<D>,
    views: Vec<CpuDescriptors<D>>,
    /// Resources by the frame that drops them: the first group is dropped at the end of the next frame.
    groups: VecDeque<Group<D>>,
    in_flight: VecDeque<u64>,
    dropper: Dropper<D>,
    random: Random,
}

impl<D: Device + Descriptors> Renderer<D> {
    /// # Safety
    /// Every value that [`Renderer::frame`] passes to `submit` must be signalled on `fence`, which must outlive
    /// `memory`.
    pub unsafe fn new(memory: Allocator<D>, fence: <D as Driver>::Fence, dropper: Dropper<D>) -> Self {
        // SAFETY: the caller makes the same promise.
        let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
        let constants = FastConstants::new(&memory, FastConstantsDesc::default());
        let first = timeline.begin();
        let writer = constants.writer(&first).expect("its own frame");
        first.discard();
        let desc = CpuHeapDesc { kind: HeapKind::Resources, block_slots: 4096, ..Default::default() };
        let heap = CpuDescriptorHeap::new(&memory, desc).expect("few enough slots");
        Self {
            memory,
            timeline,
            _constants: constants,
            writer,
            heap,
            views: Vec::new(),
            groups: (0..AGE_MAX).map(|_| Group::new()).collect(),
            in_flight: VecDeque::new(),
            dropper,
            random: Random(0x9E37_79B9_7F4A_7C15),
        }
    }

    /// Runs a frame and returns the time that the library took. `submit` must make the queue signal the given value.
    pub fn frame(&mut self, submit: &mut dyn FnMut(u64)) -> Duration {
        if self.in_flight.len() == IN_FLIGHT {
            let value = self.in_flight.pop_front().expect("there are three");
            assert!(self.timeline.wait(value, WAIT_MAX).expect("the device is not lost"));
        }
        let (value, recording) = self.record();
        submit(value);
        self.in_flight.push_back(value);
        recording + self.reclaim()
    }

    /// Does all work of a frame before its submission. Returns the value that the submission signals, and the time of
    /// the work.
    #[inline(never)]
    fn record(&mut self) -> (u64, Duration) {
        let start = Instant::now();
        let frame = self.timeline.begin();
        self.writer.begin(&frame).expect("its own frame");
        let content = [7; 256];
        for _ in 0..CONSTANTS {
            _ = std::hint::black_box(self.writer.write(&content).expect("there is a page"));
        }
        for _ in 0..SMALL_BUFFERS {
            let size = self.random.size(256, 6);
            self.make_buffer(size);
        }
        for _ in 0..LARGE_BUFFERS {
            let size = self.random.size(64 << 10, 6);
            self.make_buffer(size);
        }
        (0..TEXTURES).for_each(|_| self.make_texture());
        self.write_views();
        self.drop_a_group();
        let value = frame.value();
        self.timeline.submitted(frame).expect("in order");
        (value, start.elapsed())
    }

    #[inline(never)]
    fn reclaim(&self) -> Duration {
        let start = Instant::now();
        self.memory.reclaim();
        start.elapsed()
    }

    /// Returns the group for a new resource. Its age is random.
    fn group(&mut self) -> &mut Group<D> {
        let age = self.random.next() as usize % AGE_MAX;
        &mut self.groups[age]
    }

    fn make_buffer(&mut self, size: u64) {
        let usage = BufferUsage::STORAGE_READ | BufferUsage::COPY_DST;
        let desc = BufferDesc { size, usage };
        let buffer = self.memory.create_buffer(&desc, AllocationDesc::default()).expect("there is memory");
        self.group().buffers.push(buffer);
    }

    fn make_texture(&mut self) {
        let desc = TextureDesc {
            dimension: Dimension::D2,
            width: 256,
            height: 256,
            depth: 1,
            layers: 1,
            mips: 1,
            samples: 1,
            format: Format::Rgba8Unorm,
            usage: TextureUsage::SAMPLED | TextureUsage::COPY_DST,
            ..Default::default()
        };
        let texture = self.memory.create_texture(&desc, AllocationDesc::default()).expect("there is memory");
        self.group().textures.push(texture);
    }

    /// Writes views of buffers that are dropped in this frame, and drops the views.
    fn write_views(&mut self) {
        let kind = BufferViewKind::Storage { stride: 0, writes: false };
        for buffer in self.groups[0].buffers.iter().take(VIEWS) {
            let view = View::buffer(buffer, BufferView { kind, offset: 0, size: 256 }).expect("it was made for it");
            let mut slot = self.heap.allocate(1).expect("there are 4,096");
            slot.write(0, &view).expect("the heap takes buffers");
            self.views.push(slot);
        }
        self.views.clear();
    }

    fn drop_a_group(&mut self) {
        let mut group = self.groups.pop_front().expect("there is one for every age");
        (self.dropper)(&mut group);
        self.groups.push_back(group);
    }
}

impl<D: Device + Descriptors> Drop for Renderer<D> {
    fn drop(&mut self) {
        let last = self.in_flight.back().copied().unwrap_or(0);
        self.timeline.wait(last, WAIT_MAX).expect("the device is not lost");
    }
}
