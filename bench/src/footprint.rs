//! Memory that a process holds: a level that is loaded and dropped (*level*), and textures that are replaced in each
//! frame (*stream*). No work is submitted, so that only the host's side is measured.
//!
//! The peers destroy objects two frames after their release, as programs with frames in flight do. Ringfence releases them
//! in its `reclaim`, once a frame.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Instant;

use ash::vk;
use gpu_allocator::vulkan as ga;
use ringfence::memory::Maintenance;
use ringfence::{AllocationDesc, AllocatorDesc, vulkan as rf};
use vk_mem::Alloc;

use crate::makers::{Handles, Vma, raw_gpu_allocator};
use crate::objects::{IMAGE_USAGE, USAGE};
use crate::output::{Report, Row, Value};
use crate::trace::Random;

/// Number of frames between the release of a peer's object and its destruction.
const IN_FLIGHT: usize = 2;

/// An object to create.
#[derive(Clone, Copy)]
enum Wanted {
    Buffer(u64),
    /// A texture of four bytes a texel, by its width and height.
    Texture(u32, u32),
}

impl Wanted {
    fn bytes(self) -> u64 {
        match self {
            Self::Buffer(bytes) => bytes,
            Self::Texture(width, height) => u64::from(width) * u64::from(height) * 4,
        }
    }
}

fn image_info(width: u32, height: u32) -> vk::ImageCreateInfo<'static> {
    *rf::TextureInfo::new(vk::Format::R8G8B8A8_UNORM, width, height, IMAGE_USAGE).raw()
}

/// An allocator that creates and releases objects.
trait Objects {
    type Held;

    fn make(&self, wanted: Wanted) -> Self::Held;
    /// Releases an object: it is destroyed once the frame is complete.
    fn release(&self, held: Self::Held);
    fn end_frame(&self);
    /// Returns the bytes of all memory objects.
    fn held_bytes(&self) -> u64;
    /// Returns the number of memory objects.
    fn object_count(&self) -> u64;
}

struct Ours {
    /// Declared before the allocator, because its thread must end first.
    _maintenance: Option<Maintenance>,
    memory: rf::Allocator,
}

enum OurObject {
    Buffer { _held: rf::Buffer },
    Texture { _held: rf::Texture },
}

impl Ours {
    fn new(handles: &Handles, in_background: bool) -> Self {
        let memory = rf::Allocator::over(handles.ours.clone(), AllocatorDesc::default());
        let start = || memory.budgets().maintain_in_background().expect("there is a thread");
        Self { _maintenance: in_background.then(start), memory }
    }
}

impl Objects for Ours {
    type Held = OurObject;

    fn make(&self, wanted: Wanted) -> OurObject {
        let desc = AllocationDesc::default();
        match wanted {
            Wanted::Buffer(bytes) => {
                let held = self.memory.create_buffer(&rf::BufferInfo::new(bytes, USAGE), desc);
                OurObject::Buffer { _held: held.expect("there is memory") }
            }
            Wanted::Texture(width, height) => {
                let info = rf::TextureInfo::new(vk::Format::R8G8B8A8_UNORM, width, height, IMAGE_USAGE);
                OurObject::Texture { _held: self.memory.create_texture(&info, desc).expect("there is memory") }
            }
        }
    }

    fn release(&self, held: OurObject) {
        drop(held);
    }

    fn end_frame(&self) {
        self.memory.reclaim();
    }

    fn held_bytes(&self) -> u64 {
        let total = self.memory.statistics().total();
        total.block_bytes + total.dedicated_bytes
    }

    fn object_count(&self) -> u64 {
        self.memory.budgets().memory_object_count()
    }
}

/// Objects that were released in each of the last frames.
struct Released<T>(RefCell<VecDeque<Vec<T>>>);

impl<T> Released<T> {
    fn new() -> Self {
        Self(RefCell::new(VecDeque::from([Vec::new()])))
    }

    fn add(&self, one: T) {
        self.0.borrow_mut().back_mut().expect("there is a frame").push(one);
    }

    /// Begins a frame, and returns the objects of the frame that is now complete.
    fn next_frame(&self) -> Vec<T> {
        let mut frames = self.0.borrow_mut();
        frames.push_back(Vec::new());
        if frames.len() > IN_FLIGHT { frames.pop_front().unwrap_or_default() } else { Vec::new() }
    }
}

enum Object {
    Buffer(vk::Buffer),
    Texture(vk::Image),
}

struct OfVma {
    vma: Vma,
    released: Released<(Object, vk_mem::Allocation)>,
}

impl Objects for OfVma {
    type Held = (Object, vk_mem::Allocation);

    fn make(&self, wanted: Wanted) -> Self::Held {
        let info = vk_mem::AllocationCreateInfo { usage: vk_mem::MemoryUsage::AutoPreferDevice, ..Default::default() };
        let vma = self.vma.raw();
        // SAFETY: the descriptions are valid.
        unsafe {
            match wanted {
                Wanted::Buffer(bytes) => {
                    let desc = vk::BufferCreateInfo::default().size(bytes).usage(USAGE);
                    let (buffer, held) = vma.create_buffer(&desc, &info).expect("there is memory");
                    (Object::Buffer(buffer), held)
                }
                Wanted::Texture(width, height) => {
                    let (image, held) = vma.create_image(&image_info(width, height), &info).expect("there is memory");
                    (Object::Texture(image), held)
                }
            }
        }
    }

    fn release(&self, held: Self::Held) {
        self.released.add(held);
    }

    fn end_frame(&self) {
        for (object, mut held) in self.released.next_frame() {
            // SAFETY: each object is destroyed once and not used.
            unsafe {
                match object {
                    Object::Buffer(buffer) => self.vma.raw().destroy_buffer(buffer, &mut held),
                    Object::Texture(image) => self.vma.raw().destroy_image(image, &mut held),
                }
            }
        }
    }

    fn held_bytes(&self) -> u64 {
        let budgets = self.vma.raw().get_heap_budgets().expect("they are counted");
        budgets.iter().map(|budget| budget.statistics.blockBytes).sum()
    }

    fn object_count(&self) -> u64 {
        let budgets = self.vma.raw().get_heap_budgets().expect("they are counted");
        budgets.iter().map(|budget| u64::from(budget.statistics.blockCount)).sum()
    }
}

struct OfGpuAllocator {
    /// `None` only while it is dropped: it must be dropped before the device's function table.
    allocator: RefCell<Option<ga::Allocator>>,
    device: ash::Device,
    released: Released<(Object, ga::Allocation)>,
}

impl OfGpuAllocator {
    fn new(handles: &Handles) -> Self {
        let allocator = RefCell::new(Some(raw_gpu_allocator(handles)));
        Self { allocator, device: handles.device.clone(), released: Released::new() }
    }

    fn allocate(&self, requirements: vk::MemoryRequirements, linear: bool) -> ga::Allocation {
        let desc = ga::AllocationCreateDesc {
            name: "",
            requirements,
            location: gpu_allocator::MemoryLocation::GpuOnly,
            linear,
            allocation_scheme: ga::AllocationScheme::GpuAllocatorManaged,
        };
        self.allocator.borrow_mut().as_mut().expect("it is alive").allocate(&desc).expect("there is memory")
    }
}

impl Drop for OfGpuAllocator {
    fn drop(&mut self) {
        drop(self.allocator.borrow_mut().take());
    }
}

impl Objects for OfGpuAllocator {
    type Held = (Object, ga::Allocation);

    fn make(&self, wanted: Wanted) -> Self::Held {
        // SAFETY: the descriptions are valid; the memory has a type and size that the object requires.
        unsafe {
            match wanted {
                Wanted::Buffer(bytes) => {
                    let desc = vk::BufferCreateInfo::default().size(bytes).usage(USAGE);
                    let buffer = self.device.create_buffer(&desc, None).expect("a buffer");
                    let held = self.allocate(self.device.get_buffer_memory_requirements(buffer), true);
                    self.device.bind_buffer_memory(buffer, held.memory(), held.offset()).expect("it can be bound");
                    (Object::Buffer(buffer), held)
                }
                Wanted::Texture(width, height) => {
                    let image = self.device.create_image(&image_info(width, height), None).expect("an image");
                    let held = self.allocate(self.device.get_image_memory_requirements(image), false);
                    self.device.bind_image_memory(image, held.memory(), held.offset()).expect("it can be bound");
                    (Object::Texture(image), held)
                }
            }
        }
    }

    fn release(&self, held: Self::Held) {
        self.released.add(held);
    }

    fn end_frame(&self) {
        for (object, held) in self.released.next_frame() {
            // SAFETY: each object is destroyed once and not used.
            unsafe {
                match object {
                    Object::Buffer(buffer) => self.device.destroy_buffer(buffer, None),
                    Object::Texture(image) => self.device.destroy_image(image, None),
                }
            }
            self.allocator.borrow_mut().as_mut().expect("it is alive").free(held).expect("it is live");
        }
    }

    fn held_bytes(&self) -> u64 {
        self.allocator.borrow().as_ref().expect("it is alive").generate_report().total_capacity_bytes
    }

    fn object_count(&self) -> u64 {
        self.allocator.borrow().as_ref().expect("it is alive").generate_report().blocks.len() as u64
    }
}

const MIB: f64 = (1 << 20) as f64;

/// Objects of a level: four buffers for each texture.
fn level(textures: usize) -> Vec<Wanted> {
    let mut random = Random::new(11);
    let one = |number: usize| match number % 5 {
        0 => {
            let side = random.log_uniform(128, 1024) as u32;
            Wanted::Texture(side, side)
        }
        _ => Wanted::Buffer(random.log_uniform(1 << 10, 512 << 10)),
    };
    (0..5 * textures).map(one).collect()
}

/// Figures of a level.
#[derive(Default)]
struct LevelFigures {
    loads_ms: [f64; 2],
    drop_ms: f64,
    peak_per_live: f64,
    objects: u64,
    /// Bytes after the drop, one reclaim beyond the frames in flight, and after 60 frames.
    held_mib: [f64; 2],
}

fn play_level<O: Objects>(objects: &O, wanted: &[Wanted]) -> LevelFigures {
    let live: u64 = wanted.iter().map(|one| one.bytes()).sum();
    let mut figures = LevelFigures::default();
    let load = || {
        let start = Instant::now();
        let held: Vec<_> = wanted.iter().map(|one| objects.make(*one)).collect();
        (held, start.elapsed().as_secs_f64() * 1e3)
    };
    for round in 0..2 {
        let (held, ms) = load();
        figures.loads_ms[round] = ms;
        figures.peak_per_live = objects.held_bytes() as f64 / live as f64;
        figures.objects = objects.object_count();
        let start = Instant::now();
        held.into_iter().for_each(|one| objects.release(one));
        (0..=IN_FLIGHT).for_each(|_| objects.end_frame());
        if round == 0 {
            figures.drop_ms = start.elapsed().as_secs_f64() * 1e3;
        }
    }
    figures
}

/// Loads and drops a level once. Returns the MiB after the drop, and after 60 frames more.
fn play_unload<O: Objects>(objects: &O, wanted: &[Wanted]) -> [f64; 2] {
    let held: Vec<_> = wanted.iter().map(|one| objects.make(*one)).collect();
    held.into_iter().for_each(|one| objects.release(one));
    [IN_FLIGHT + 1, 60].map(|frames| {
        for _ in 0..frames {
            objects.end_frame();
            // A background thread frees the blocks.
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        objects.held_bytes() as f64 / MIB
    })
}

/// Textures that are streamed: how many are live, how many are replaced in a frame, and for how many frames.
#[derive(Clone, Copy)]
pub struct Stream {
    pub live: usize,
    pub replaced: usize,
    pub frames: usize,
    /// Largest width and height.
    pub side_max: u32,
    /// `true` if no size repeats.
    pub differs: bool,
}

struct StreamFigures {
    /// Time for objects in each frame, sorted, in µs.
    frames_us: Vec<f64>,
    peak: f64,
    mean: f64,
}

fn play_stream<O: Objects>(objects: &O, stream: &Stream) -> StreamFigures {
    let mut random = Random::new(23);
    let mut number = 0_u32;
    let mut next = || {
        let low = (stream.side_max / 8).max(1);
        let side = random.log_uniform(u64::from(low), u64::from(stream.side_max) + 1) as u32;
        number += 1;
        match stream.differs {
            true => Wanted::Texture(side, side / 2 + number % (side / 2).max(1)),
            false => Wanted::Texture(1 << side.ilog2(), 1 << side.ilog2()),
        }
    };
    let mut live_bytes = 0;
    let mut live: VecDeque<_> = (0..stream.live)
        .map(|_| {
            let wanted = next();
            live_bytes += wanted.bytes();
            (wanted, objects.make(wanted))
        })
        .collect();
    let (mut frames_us, mut shares) = (Vec::with_capacity(stream.frames), Vec::with_capacity(stream.frames));
    for _ in 0..stream.frames {
        let wanted: Vec<_> = (0..stream.replaced).map(|_| next()).collect();
        let mut made = Vec::with_capacity(stream.replaced);
        let gone: Vec<_> = live.drain(..stream.replaced).collect();
        live_bytes -= gone.iter().map(|(wanted, _)| wanted.bytes()).sum::<u64>();
        live_bytes += wanted.iter().map(|wanted| wanted.bytes()).sum::<u64>();
        let start = Instant::now();
        gone.into_iter().for_each(|(_, one)| objects.release(one));
        made.extend(wanted.into_iter().map(|wanted| (wanted, objects.make(wanted))));
        objects.end_frame();
        frames_us.push(start.elapsed().as_secs_f64() * 1e6);
        live.extend(made);
        shares.push(objects.held_bytes() as f64 / live_bytes as f64);
        // The rest of a frame: a background thread works meanwhile.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    live.into_iter().for_each(|(_, one)| objects.release(one));
    (0..=IN_FLIGHT).for_each(|_| objects.end_frame());
    frames_us.sort_by(f64::total_cmp);
    let peak = shares.iter().copied().fold(0.0, f64::max);
    StreamFigures { frames_us, peak, mean: shares.iter().sum::<f64>() / shares.len() as f64 }
}

/// The measurements of a contender; each creates a new allocator.
trait Measure {
    fn level(&self, handles: &Handles, wanted: &[Wanted]) -> LevelFigures;
    fn stream(&self, handles: &Handles, stream: &Stream) -> StreamFigures;
}

impl<O: Objects, F: Fn(&Handles) -> O> Measure for F {
    fn level(&self, handles: &Handles, wanted: &[Wanted]) -> LevelFigures {
        LevelFigures { held_mib: play_unload(&self(handles), wanted), ..play_level(&self(handles), wanted) }
    }

    fn stream(&self, handles: &Handles, stream: &Stream) -> StreamFigures {
        play_stream(&self(handles), stream)
    }
}

fn contenders() -> Vec<(&'static str, Box<dyn Measure>)> {
    vec![
        ("ringfence", Box::new(|handles: &Handles| Ours::new(handles, false))),
        ("ringfence, in the background", Box::new(|handles: &Handles| Ours::new(handles, true))),
        ("VMA 3.3", Box::new(|handles: &Handles| OfVma { vma: Vma::new(handles), released: Released::new() })),
        ("gpu-allocator 0.28", Box::new(OfGpuAllocator::new)),
    ]
}

/// Loads a level of `textures` textures and four times as many buffers, drops it, and loads it again.
pub fn level_section(handles: &Handles, textures: usize, report: &mut Report) -> std::io::Result<()> {
    let wanted = level(textures);
    let gib = wanted.iter().map(|one| one.bytes()).sum::<u64>() as f64 / MIB / 1024.0;
    let rows: Vec<_> = contenders()
        .iter()
        .map(|(name, by)| {
            let figures = by.level(handles, &wanted);
            let mut row = Row::new();
            row.push("by", Value::Text((*name).into()));
            row.push("load ms", Value::Number(figures.loads_ms[0], 1));
            row.push("drop ms", Value::Number(figures.drop_ms, 1));
            row.push("load again ms", Value::Number(figures.loads_ms[1], 1));
            row.push("bytes / live, loaded", Value::Number(figures.peak_per_live, 3));
            row.push("memory objects, loaded", Value::Number(figures.objects as f64, 0));
            row.push("MiB after the drop", Value::Number(figures.held_mib[0], 0));
            row.push("MiB after 60 frames", Value::Number(figures.held_mib[1], 0));
            row
        })
        .collect();
    let heading = format!("A level of {} buffers and {textures} textures, {gib:.1} GiB", 4 * textures);
    report.table("footprint_level", &heading, &rows, 0)
}

/// Replaces textures in each frame.
pub fn stream_section(handles: &Handles, stream: &Stream, report: &mut Report) -> std::io::Result<()> {
    for differs in [false, true] {
        let stream = Stream { differs, ..*stream };
        let rows: Vec<_> = contenders()
            .iter()
            .map(|(name, by)| {
                let StreamFigures { frames_us, peak, mean } = by.stream(handles, &stream);
                let at = |share: f64| Value::Number(frames_us[((frames_us.len() - 1) as f64 * share) as usize], 0);
                let mut row = Row::new();
                row.push("by", Value::Text((*name).into()));
                row.push("50 % µs", at(0.5));
                row.push("99 % µs", at(0.99));
                row.push("worst µs", at(1.0));
                row.push("peak bytes / live", Value::Number(peak, 2));
                row.push("mean bytes / live", Value::Number(mean, 2));
                row
            })
            .collect();
        let sizes = if differs { "all sizes different" } else { "powers of two" };
        let heading = format!(
            "{} textures up to {}², {sizes}: {} replaced in each of {} frames",
            stream.live, stream.side_max, stream.replaced, stream.frames
        );
        report.table("footprint_stream", &heading, &rows, 0)?;
    }
    Ok(())
}
