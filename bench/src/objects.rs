//! Driver objects that are created and released: pairs a second, by kind and by number of threads; and a frame of a
//! renderer.
//!
//! Each thread repeatedly creates [`BATCH`] objects of one description and releases them. Ringfence is measured with
//! recycled objects (*hits*), with different sizes that may be larger than requested, and without recycling (*misses*,
//! `recycle: false`). The peers and the raw calls create and destroy each object. At most [`KEPT_BYTES`] are kept: 16
//! threads have 640 MiB of textures in use.

use std::collections::VecDeque;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ash::vk;
use ringfence::device::{BufferDesc, BufferUsage, Driver};
use ringfence::placement::FastConstantsDesc;
use ringfence::{AllocationDesc, AllocatorDesc, FastConstants, Location, vulkan as rf};
use vk_mem::Alloc;

use crate::makers::{GpuAllocator, Handles, Maker, Memory, Vma};
use crate::output::{Report, Row, Value};
use crate::threads;

/// Number of live objects of a thread.
const BATCH: usize = 32;
/// Number of contenders.
const CONTENDERS: usize = 15;
/// Number of batches of a thread between reclaims.
const RECLAIM: usize = 4;
/// Size of a buffer, in bytes.
pub const BYTES: u64 = 4096;

/// Limit of recycled objects, in bytes.
pub const KEPT_BYTES: u64 = 1 << 30;

pub const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::TRANSFER_SRC.as_raw()
        | vk::BufferUsageFlags::TRANSFER_DST.as_raw()
        | vk::BufferUsageFlags::VERTEX_BUFFER.as_raw(),
);
pub const IMAGE_USAGE: vk::ImageUsageFlags =
    vk::ImageUsageFlags::from_raw(vk::ImageUsageFlags::SAMPLED.as_raw() | vk::ImageUsageFlags::TRANSFER_DST.as_raw());

pub fn image_info() -> vk::ImageCreateInfo<'static> {
    *rf::TextureInfo::new(vk::Format::R8G8B8A8_UNORM, 256, 256, IMAGE_USAGE).raw()
}

/// Work that a thread repeats: creates and releases [`BATCH`] objects.
type Work<'a> = dyn Fn(&mut usize) + Sync + 'a;

/// Returns millions of pairs a second, all threads together.
fn rate(threads: usize, time: Duration, work: &Work<'_>) -> f64 {
    let (stop, done, barrier) = (AtomicBool::new(false), AtomicU64::new(0), Barrier::new(threads + 1));
    let elapsed = std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (mut round, mut count) = (0, 0);
                // Warm-up: fills the recycled objects and grows the blocks.
                (0..64).for_each(|_| work(&mut round));
                barrier.wait();
                while !stop.load(Ordering::Relaxed) {
                    work(&mut round);
                    count += BATCH as u64;
                }
                done.fetch_add(count, Ordering::Relaxed);
            });
        }
        barrier.wait();
        let start = Instant::now();
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        start
    })
    .elapsed();
    done.load(Ordering::Relaxed) as f64 / elapsed.as_secs_f64() / 1e6
}

/// Drops the objects, and reclaims every [`RECLAIM`] rounds, as at the end of a frame.
fn dropped<T>(memory: &rf::Allocator, round: &mut usize, make: impl Fn() -> T) {
    let held: [T; BATCH] = std::array::from_fn(|_| make());
    drop(held);
    *round += 1;
    if round.is_multiple_of(RECLAIM) {
        memory.reclaim();
    }
}

fn buffer(memory: &rf::Allocator, recycle: bool) -> rf::Buffer {
    let desc = AllocationDesc { recycle, ..Default::default() };
    memory.create_buffer(&rf::BufferInfo::new(BYTES, USAGE), desc).expect("there is memory")
}

/// Creates a buffer of one of a thousand sizes.
fn sized_buffer(memory: &rf::Allocator, number: u64) -> rf::Buffer {
    let desc = AllocationDesc { may_be_larger: true, ..Default::default() };
    let size = 256 + number * 7919 % 1000 * 16;
    memory.create_buffer(&rf::BufferInfo::new(size, USAGE), desc).expect("there is memory")
}

fn texture(memory: &rf::Allocator, recycle: bool) -> rf::Texture {
    let desc = AllocationDesc { recycle, ..Default::default() };
    let info = rf::TextureInfo::new(vk::Format::R8G8B8A8_UNORM, 256, 256, IMAGE_USAGE);
    memory.create_texture(&info, desc).expect("there is memory")
}

fn small(memory: &rf::Allocator) -> ringfence::SmallBuffer<rf::Device> {
    let desc = BufferDesc { size: 1000, usage: BufferUsage::VERTEX | BufferUsage::COPY_DST };
    memory.create_small_buffer(desc, Location::Device).expect("there is memory")
}

/// Creates, binds and destroys buffers with raw calls. All share one memory object.
fn raw_buffer(device: &ash::Device, memory: vk::DeviceMemory) {
    let info = vk::BufferCreateInfo::default().size(BYTES).usage(USAGE);
    // SAFETY: the description is valid. The memory has a type and size that such a buffer requires. The buffer is not
    // used.
    unsafe {
        let made: [vk::Buffer; BATCH] = std::array::from_fn(|_| {
            let buffer = device.create_buffer(&info, None).expect("a buffer");
            _ = std::hint::black_box(device.get_buffer_memory_requirements(buffer));
            device.bind_buffer_memory(buffer, memory, 0).expect("it can be bound");
            buffer
        });
        made.into_iter().for_each(|buffer| device.destroy_buffer(buffer, None));
    }
}

fn raw_image(device: &ash::Device, memory: vk::DeviceMemory) {
    let info = image_info();
    // SAFETY: as for buffers.
    unsafe {
        let made: [vk::Image; BATCH] = std::array::from_fn(|_| {
            let image = device.create_image(&info, None).expect("an image");
            _ = std::hint::black_box(device.get_image_memory_requirements(image));
            device.bind_image_memory(image, memory, 0).expect("it can be bound");
            image
        });
        made.into_iter().for_each(|image| device.destroy_image(image, None));
    }
}

/// Allocates memory that such buffers and images can be bound to.
pub fn raw_memory(device: &ash::Device) -> [vk::DeviceMemory; 2] {
    // SAFETY: the descriptions are valid, and the objects are destroyed without being used.
    let needs = unsafe {
        let buffer =
            device.create_buffer(&vk::BufferCreateInfo::default().size(BYTES).usage(USAGE), None).expect("one");
        let image = device.create_image(&image_info(), None).expect("one");
        let needs = [device.get_buffer_memory_requirements(buffer), device.get_image_memory_requirements(image)];
        device.destroy_buffer(buffer, None);
        device.destroy_image(image, None);
        needs
    };
    needs.map(|needs| {
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(needs.size)
            .memory_type_index(needs.memory_type_bits.trailing_zeros());
        // SAFETY: the requirements allow this type.
        unsafe { device.allocate_memory(&info, None) }.expect("there is memory")
    })
}

fn made_by<M: Maker>(maker: &M) -> impl Fn(&mut usize) + Sync + '_ {
    |_| {
        let held: [M::Made; BATCH] = std::array::from_fn(|_| maker.make(BYTES, Memory::Device));
        held.into_iter().for_each(|made| maker.unmake(made));
    }
}

/// Measures pairs a second by number of threads: the contenders in turns, the best of `repetitions`.
pub fn section(
    handles: &Handles,
    (threads, repetitions): (usize, usize),
    time: Duration,
    report: &mut Report,
) -> std::io::Result<()> {
    let device = &handles.ours.capabilities().name;
    let desc = AllocatorDesc { recycled_bytes_max: KEPT_BYTES, ..Default::default() };
    let memory = rf::Allocator::over(handles.ours.clone(), desc);
    let raw = &handles.device;
    let [of_buffers, of_images] = raw_memory(raw);
    let (vma, gpu_allocator) = (Vma::new(handles), GpuAllocator::new(handles, true));
    let vma_images = |_: &mut usize| {
        let info = vk_mem::AllocationCreateInfo { usage: vk_mem::MemoryUsage::AutoPreferDevice, ..Default::default() };
        // SAFETY: the description is valid. Each object is destroyed once and not used.
        unsafe {
            let made: [_; BATCH] = std::array::from_fn(|_| vma.raw().create_image(&image_info(), &info).expect("room"));
            made.into_iter().for_each(|(image, mut held)| vma.raw().destroy_image(image, &mut held));
        }
    };
    // SAFETY: the objects are not used.
    let now = |buffer: rf::Buffer| unsafe { buffer.destroy_now() };
    let (by_vma, by_gpu_allocator) = (made_by(&vma), made_by(&gpu_allocator));
    let sizes = |round: &mut usize| {
        let number = std::cell::Cell::new(*round as u64 * BATCH as u64);
        dropped(&memory, round, || sized_buffer(&memory, number.replace(number.get() + 1)));
    };
    let contenders: [(&str, &str, Box<Work<'_>>); CONTENDERS] = [
        ("buffers", "ringfence, 1000 sizes, dropped", Box::new(sizes)),
        ("buffers", "ringfence, dropped", Box::new(|round| dropped(&memory, round, || buffer(&memory, true)))),
        (
            "buffers",
            "ringfence, destroy_now",
            Box::new(|_| std::array::from_fn::<_, BATCH, _>(|_| buffer(&memory, true)).into_iter().for_each(now)),
        ),
        (
            "buffers",
            "ringfence, dropped, not recycled",
            Box::new(|round| dropped(&memory, round, || buffer(&memory, false))),
        ),
        (
            "buffers",
            "ringfence, destroy_now, not recycled",
            Box::new(|_| std::array::from_fn::<_, BATCH, _>(|_| buffer(&memory, false)).into_iter().for_each(now)),
        ),
        ("buffers", "raw calls", Box::new(|_| raw_buffer(raw, of_buffers))),
        ("buffers", "VMA 3.3", Box::new(by_vma)),
        ("buffers", "gpu-allocator 0.28", Box::new(by_gpu_allocator)),
        ("small buffers", "ringfence, dropped", Box::new(|round| dropped(&memory, round, || small(&memory)))),
        (
            "small buffers",
            "ringfence, destroy_now",
            Box::new(|_| {
                let made = std::array::from_fn::<_, BATCH, _>(|_| small(&memory));
                // SAFETY: the objects are not used.
                made.into_iter().for_each(|small| unsafe { small.destroy_now() });
            }),
        ),
        ("textures", "ringfence, dropped", Box::new(|round| dropped(&memory, round, || texture(&memory, true)))),
        (
            "textures",
            "ringfence, destroy_now",
            Box::new(|_| {
                let made = std::array::from_fn::<_, BATCH, _>(|_| texture(&memory, true));
                // SAFETY: the objects are not used.
                made.into_iter().for_each(|texture| unsafe { texture.destroy_now() });
            }),
        ),
        (
            "textures",
            "ringfence, dropped, not recycled",
            Box::new(|round| dropped(&memory, round, || texture(&memory, false))),
        ),
        ("textures", "raw calls", Box::new(|_| raw_image(raw, of_images))),
        ("textures", "VMA 3.3", Box::new(vma_images)),
    ];
    let mut rows = Vec::new();
    for threads in threads::counts(threads) {
        let mut best = [0_f64; CONTENDERS];
        for _ in 0..repetitions {
            for ((_, _, work), best) in contenders.iter().zip(&mut best) {
                *best = best.max(rate(threads, time, &**work));
            }
        }
        for ((kind, name, _), pairs) in contenders.iter().zip(best) {
            let of_kind =
                |wanted: &str| contenders.iter().zip(best).find(|((of, by, _), _)| of == kind && *by == wanted);
            let ratio = |wanted| of_kind(wanted).map_or(Value::None, |(_, other)| Value::Number(pairs / other, 2));
            let mut row = Row::new();
            row.push("threads", Value::Number(threads as f64, 0));
            row.push("kind", Value::Text((*kind).into()));
            row.push("by", Value::Text((*name).into()));
            row.push("/ raw calls", ratio("raw calls"));
            row.push("/ VMA", ratio("VMA 3.3"));
            row.push("million pairs/s", Value::Number(pairs, 3));
            row.hide("device", Value::Text(device.clone()));
            rows.push(row);
        }
    }
    drop(contenders);
    // SAFETY: all objects bound to them are destroyed.
    [of_buffers, of_images].into_iter().for_each(|memory| unsafe { raw.free_memory(memory, None) });
    let heading =
        format!("Objects made and released, {BATCH} at a time: buffers of {BYTES} bytes, RGBA8 textures of 256 by 256");
    report.table("objects", &heading, &rows, 0)
}

/// Number of constants of a frame, of 256 bytes each.
const CONSTANTS: usize = 200;
/// Number of small buffers of a frame, of 1,000 bytes each.
const SMALL: usize = 64;
/// Sizes of the buffers of a frame, in bytes.
const BUFFERS: [u64; 8] = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 1 << 20, 2 << 20, 4 << 20];
/// Number of textures of a frame.
const TEXTURES: usize = 4;
/// Number of frames in flight.
const IN_FLIGHT: u64 = 3;
const FRAMES: usize = 2000;
const WARM_UP: usize = 300;

/// A frame with Ringfence, which drops its objects at its end.
struct OurFrames<'a> {
    memory: rf::Allocator,
    timeline: ringfence::Timeline<rf::Device>,
    constants: FastConstants<rf::Device>,
    device: &'a ash::Device,
    fence: vk::Semaphore,
}

impl<'a> OurFrames<'a> {
    fn new(handles: &'a Handles<'_>) -> Self {
        let memory = rf::Allocator::over(handles.ours.clone(), AllocatorDesc::default());
        let fence = semaphore(&handles.device);
        // SAFETY: the fence belongs to this device and outlives the allocator; values are signalled in order.
        let timeline = unsafe { memory.timeline(fence) }.expect("the device is not lost");
        let constants = FastConstants::new(&memory, FastConstantsDesc::default());
        Self { memory, timeline, constants, device: &handles.device, fence }
    }

    fn frame(&mut self, bytes: &[u8]) -> Duration {
        let start = Instant::now();
        let frame = self.timeline.begin();
        let mut writer = self.constants.writer(&frame).expect("the frame is the allocator's own");
        (0..CONSTANTS).for_each(|_| _ = std::hint::black_box(writer.write(bytes).expect("there is a page")));
        let small: [_; SMALL] = std::array::from_fn(|_| small(&self.memory));
        let desc = AllocationDesc::default();
        let buffers =
            BUFFERS.map(|bytes| self.memory.create_buffer(&rf::BufferInfo::new(bytes, USAGE), desc).expect("room"));
        let textures: [_; TEXTURES] = std::array::from_fn(|_| texture(&self.memory, true));
        let value = frame.value();
        let made = start.elapsed();
        signal(self.device, self.fence, value);
        let start = Instant::now();
        drop(writer);
        self.timeline.submitted(frame).expect("in order");
        drop((small, buffers, textures));
        self.memory.reclaim();
        made + start.elapsed()
    }
}

impl Drop for OurFrames<'_> {
    /// Signals the last frames, because the allocator waits for them.
    fn drop(&mut self) {
        signal(self.device, self.fence, self.timeline.submitted_value() + IN_FLIGHT);
    }
}

/// The same by hand with VMA: a ring, a virtual block, and a queue for deferred destruction.
struct VmaFrames<'a> {
    vma: &'a Vma,
    device: &'a ash::Device,
    fence: vk::Semaphore,
    value: u64,
    ring: (vk::Buffer, vk_mem::Allocation),
    mapped: *mut u8,
    head: usize,
    block: vk_mem::VirtualBlock,
    waiting: VecDeque<Waiting>,
}

/// The objects of a frame.
struct Waiting {
    value: u64,
    small: Vec<vk_mem::VirtualAllocation>,
    buffers: Vec<(vk::Buffer, vk_mem::Allocation)>,
    images: Vec<(vk::Image, vk_mem::Allocation)>,
}

const RING: usize = 1 << 20;

impl<'a> VmaFrames<'a> {
    fn new(handles: &'a Handles<'_>, vma: &'a Vma) -> Self {
        let info = vk::BufferCreateInfo::default().size(RING as u64).usage(vk::BufferUsageFlags::UNIFORM_BUFFER);
        let how = vk_mem::AllocationCreateInfo {
            usage: vk_mem::MemoryUsage::AutoPreferHost,
            flags: vk_mem::AllocationCreateFlags::HOST_ACCESS_SEQUENTIAL_WRITE | vk_mem::AllocationCreateFlags::MAPPED,
            ..Default::default()
        };
        // SAFETY: the description is valid.
        let ring = unsafe { vma.raw().create_buffer(&info, &how) }.expect("there is memory");
        let mapped = vma.raw().get_allocation_info(&ring.1).mapped_data.cast();
        let block = vk_mem::VirtualBlock::new(vk_mem::VirtualBlockCreateInfo { size: 16 << 20, ..Default::default() });
        let (fence, block) = (semaphore(&handles.device), block.expect("host memory"));
        Self { vma, device: &handles.device, fence, value: 0, ring, mapped, head: 0, block, waiting: VecDeque::new() }
    }

    fn frame(&mut self, bytes: &[u8]) -> Duration {
        let start = Instant::now();
        self.value += 1;
        for _ in 0..CONSTANTS {
            self.head = (self.head + 256) % RING;
            // SAFETY: all of the ring is mapped.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.mapped.add(self.head), 256) };
        }
        let of_block = vk_mem::VirtualAllocationCreateInfo {
            size: 1000,
            alignment: 256,
            user_data: 0,
            flags: vk_mem::VirtualAllocationCreateFlags::empty(),
        };
        let how = vk_mem::AllocationCreateInfo { usage: vk_mem::MemoryUsage::AutoPreferDevice, ..Default::default() };
        let raw = self.vma.raw();
        // SAFETY: the descriptions are valid; only one thread uses the block.
        let used = unsafe {
            Waiting {
                value: self.value,
                small: (0..SMALL).map(|_| self.block.allocate(of_block).expect("room").0).collect(),
                buffers: BUFFERS
                    .iter()
                    .map(|size| {
                        raw.create_buffer(&vk::BufferCreateInfo::default().size(*size).usage(USAGE), &how)
                            .expect("room")
                    })
                    .collect(),
                images: (0..TEXTURES).map(|_| raw.create_image(&image_info(), &how).expect("room")).collect(),
            }
        };
        self.waiting.push_back(used);
        let made = start.elapsed();
        signal(self.device, self.fence, self.value);
        let start = Instant::now();
        // SAFETY: the fence belongs to this device.
        let reached = unsafe { self.device.get_semaphore_counter_value(self.fence) }.expect("not lost");
        while let Some(mut done) = self.waiting.pop_front_if(|held| held.value <= reached) {
            // SAFETY: each came from here, is freed once, and is not used.
            unsafe {
                done.small.drain(..).for_each(|mut held| self.block.free(&mut held));
                done.buffers.drain(..).for_each(|(buffer, mut held)| raw.destroy_buffer(buffer, &mut held));
                done.images.drain(..).for_each(|(image, mut held)| raw.destroy_image(image, &mut held));
            }
        }
        made + start.elapsed()
    }
}

impl Drop for VmaFrames<'_> {
    fn drop(&mut self) {
        for mut left in self.waiting.drain(..) {
            // SAFETY: as in a frame.
            unsafe {
                left.small.drain(..).for_each(|mut held| self.block.free(&mut held));
                left.buffers.drain(..).for_each(|(buffer, mut held)| self.vma.raw().destroy_buffer(buffer, &mut held));
                left.images.drain(..).for_each(|(image, mut held)| self.vma.raw().destroy_image(image, &mut held));
            }
        }
        // SAFETY: the buffer is not used.
        unsafe { self.vma.raw().destroy_buffer(self.ring.0, &mut self.ring.1) };
    }
}

fn semaphore(device: &ash::Device) -> vk::Semaphore {
    let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE).initial_value(0);
    // SAFETY: the description is valid.
    unsafe { device.create_semaphore(&vk::SemaphoreCreateInfo::default().push_next(&mut kind), None) }.expect("one")
}

/// Signals the progress that a renderer with [`IN_FLIGHT`] frames in flight would see. The host signals it, because no
/// work is submitted.
fn signal(device: &ash::Device, fence: vk::Semaphore, value: u64) {
    if value > IN_FLIGHT {
        let info = vk::SemaphoreSignalInfo::default().semaphore(fence).value(value - IN_FLIGHT);
        // SAFETY: the semaphore belongs to this device; values rise by one.
        unsafe { device.signal_semaphore(&info) }.expect("not lost");
    }
}

/// Measures the same frame with Ringfence and by hand with VMA, in turns.
pub fn frame_section(handles: &Handles, repetitions: usize, report: &mut Report) -> std::io::Result<()> {
    let device = &handles.ours.capabilities().name;
    let vma = Vma::new(handles);
    let mut times: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    let bytes = [7; 256];
    for _ in 0..repetitions.max(1) {
        let (mut ours, mut theirs) = (OurFrames::new(handles), VmaFrames::new(handles, &vma));
        for number in 0..WARM_UP + FRAMES {
            let both = [ours.frame(&bytes), theirs.frame(&bytes)];
            for (times, time) in times.iter_mut().zip(both).filter(|_| number >= WARM_UP) {
                times.push(time.as_nanos() as f64 / 1000.0);
            }
        }
    }
    let mut rows = Vec::new();
    let mut medians = [0.0; 2];
    for (times, median) in times.iter_mut().zip(&mut medians) {
        times.sort_by(f64::total_cmp);
        *median = times[times.len() / 2];
    }
    for (index, name) in ["ringfence", "VMA 3.3 by hand"].into_iter().enumerate() {
        let at = |share: f64| Value::Number(times[index][((times[index].len() - 1) as f64 * share) as usize], 1);
        let mut row = Row::new();
        row.push("by", Value::Text(name.into()));
        row.push("median / VMA's", Value::Number(medians[index] / medians[1], 2));
        row.push("50 % µs", at(0.5));
        row.push("99 % µs", at(0.99));
        row.push("99.9 % µs", at(0.999));
        row.push("worst µs", at(1.0));
        row.hide("device", Value::Text(device.clone()));
        rows.push(row);
    }
    let heading = format!(
        "A frame of {CONSTANTS} constants, {SMALL} small buffers, {} buffers and {TEXTURES} textures, {IN_FLIGHT} in flight",
        BUFFERS.len()
    );
    report.table("objects_frame", &heading, &rows, 0)
}
