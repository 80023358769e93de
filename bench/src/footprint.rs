//! Memory that a process holds: a level that is loaded and dropped (*level*), textures that are replaced in each frame
//! (*stream*), and buffers of any size that are replaced (*churn_bytes*). No work is submitted, so that only the host's side
//! is measured.
//!
//! The peers destroy objects two frames after their release, as programs with frames in flight do. Ringfence releases them
//! in its `reclaim`, once a frame.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use ash::vk;
use gpu_allocator::vulkan as ga;
use ringfence::memory::Maintenance;
use ringfence::placement::{Compactor, CompactorDesc};
use ringfence::{AllocationDesc, AllocatorDesc, vulkan as rf};
use vk_mem::Alloc;

use crate::driver_calls::{self, Calls};
use crate::makers::{Handles, Vma, raw_gpu_allocator};
use crate::objects::{IMAGE_USAGE, USAGE};
use crate::output::{Report, Row, Value};
use crate::trace::Random;

/// Number of frames between the release of a peer's object and its destruction.
const IN_FLIGHT: usize = 2;

/// A frame is slow if its objects take longer.
const SLOW_US: f64 = 500.0;

/// An object to create.
#[derive(Clone, Copy)]
enum Wanted {
    Buffer(u64),
    /// A texture of four bytes a texel, by its width and height.
    Texture(u32, u32),
}

impl Wanted {
    /// Returns the bytes that the driver requires for the object.
    fn bytes(self, device: &ash::Device) -> u64 {
        // SAFETY: the description is valid, and the object is destroyed unused.
        unsafe {
            match self {
                Self::Buffer(bytes) => bytes,
                Self::Texture(width, height) => {
                    let image = device.create_image(&image_info(width, height), None).expect("an image");
                    let bytes = device.get_image_memory_requirements(image).size;
                    device.destroy_image(image, None);
                    bytes
                }
            }
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

/// Ringfence with a [`Compactor`]: buffers are movable. Nothing is submitted: the host signals the timeline, and the
/// commands of the copies are recorded and dropped.
struct Compacting {
    buffers: RefCell<HashMap<u64, rf::Buffer>>,
    made: Cell<u64>,
    compactor: RefCell<Compactor<rf::Device>>,
    timeline: rf::Timeline,
    semaphore: vk::Semaphore,
    commands: (vk::CommandPool, vk::CommandBuffer),
    device: ash::Device,
    ours: Ours,
}

impl Compacting {
    fn new(handles: &Handles) -> Self {
        let (ours, device) = (Ours::new(handles, false), handles.device.clone());
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        let flags = vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER;
        // SAFETY: the descriptions are valid, and `end_frame` signals the semaphore.
        unsafe {
            let semaphore = device.create_semaphore(&info, None).expect("a semaphore");
            let timeline = ours.memory.timeline(semaphore).expect("a timeline");
            let pool = vk::CommandPoolCreateInfo::default().flags(flags);
            let pool = device.create_command_pool(&pool, None).expect("a pool");
            let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
            let buffer = device.allocate_command_buffers(&info).expect("a command buffer")[0];
            let compactor = RefCell::new(Compactor::new(&ours.memory, CompactorDesc::default()));
            let (buffers, made) = (RefCell::default(), Cell::new(0));
            Self { buffers, made, compactor, timeline, semaphore, commands: (pool, buffer), device, ours }
        }
    }
}

impl Objects for Compacting {
    type Held = u64;

    fn make(&self, wanted: Wanted) -> u64 {
        let Wanted::Buffer(bytes) = wanted else { unreachable!("churn has buffers only") };
        let number = self.made.replace(self.made.get() + 1);
        let desc = AllocationDesc { movable: true, user_data: number, ..Default::default() };
        let held = self.ours.memory.create_buffer(&rf::BufferInfo::new(bytes, USAGE), desc).expect("there is memory");
        self.buffers.borrow_mut().insert(number, held);
        number
    }

    fn release(&self, held: u64) {
        self.buffers.borrow_mut().remove(&held);
    }

    fn end_frame(&self) {
        let (frame, mut buffers) = (self.timeline.begin(), self.buffers.borrow_mut());
        let (_, commands) = self.commands;
        // SAFETY: the command buffer is never submitted, and the semaphore belongs to the timeline.
        unsafe {
            self.device.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default()).expect("it begins");
            let mut recorder = rf::CopyRecorder::new(&self.device, commands);
            let step = self.compactor.borrow_mut().step(&frame, &mut recorder, |pass, index| {
                let number = pass.moves()[index].user_data;
                pass.copy_buffer(buffers.get_mut(&number).expect("it is held")).map(drop)
            });
            step.expect("the frame is of this allocator");
            self.device.end_command_buffer(commands).expect("it ends");
            let info = vk::SemaphoreSignalInfo::default().semaphore(self.semaphore).value(frame.value());
            self.device.signal_semaphore(&info).expect("it is signalled");
        }
        self.timeline.submitted(frame).expect("it is of this timeline");
        self.ours.end_frame();
    }

    fn held_bytes(&self) -> u64 {
        self.ours.held_bytes()
    }

    fn object_count(&self) -> u64 {
        self.ours.object_count()
    }
}

impl Drop for Compacting {
    fn drop(&mut self) {
        self.buffers.borrow_mut().clear();
        self.ours.memory.shutdown(Duration::from_secs(10)).expect("nothing is under way");
        // SAFETY: the host has signalled all values, and nothing was submitted.
        unsafe {
            self.device.destroy_semaphore(self.semaphore, None);
            self.device.destroy_command_pool(self.commands.0, None);
        }
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

fn play_level<O: Objects>(objects: &O, wanted: &[Wanted], live: u64) -> LevelFigures {
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
    /// Time for objects in each frame, and its driver calls on the program's thread; the fastest frame first.
    frames: Vec<(f64, Calls)>,
    /// Memory objects that any thread has created and freed.
    objects: [u32; 2],
    peak: f64,
    mean: f64,
}

fn play_stream<O: Objects>(objects: &O, device: &ash::Device, stream: &Stream) -> StreamFigures {
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
            let bytes = wanted.bytes(device);
            live_bytes += bytes;
            (bytes, objects.make(wanted))
        })
        .collect();
    let (mut frames, mut shares) = (Vec::with_capacity(stream.frames), Vec::with_capacity(stream.frames));
    driver_calls::take_all();
    for _ in 0..stream.frames {
        let wanted: Vec<_> = (0..stream.replaced).map(|_| next()).collect();
        let mut made = Vec::with_capacity(stream.replaced);
        let gone: Vec<_> = live.drain(..stream.replaced).collect();
        let bytes: Vec<_> = wanted.iter().map(|wanted| wanted.bytes(device)).collect();
        live_bytes -= gone.iter().map(|(bytes, _)| bytes).sum::<u64>();
        live_bytes += bytes.iter().sum::<u64>();
        driver_calls::take();
        let start = Instant::now();
        gone.into_iter().for_each(|(_, one)| objects.release(one));
        made.extend(bytes.into_iter().zip(wanted).map(|(bytes, wanted)| (bytes, objects.make(wanted))));
        objects.end_frame();
        frames.push((start.elapsed().as_secs_f64() * 1e6, driver_calls::take()));
        live.extend(made);
        shares.push(objects.held_bytes() as f64 / live_bytes as f64);
        // The rest of a frame: a background thread works meanwhile.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let calls = driver_calls::take_all();
    live.into_iter().for_each(|(_, one)| objects.release(one));
    (0..=IN_FLIGHT).for_each(|_| objects.end_frame());
    frames.sort_by(|one, other| one.0.total_cmp(&other.0));
    let peak = shares.iter().copied().fold(0.0, f64::max);
    StreamFigures { frames, objects: calls, peak, mean: shares.iter().sum::<f64>() / shares.len() as f64 }
}

/// Buffers that are replaced: how many bytes are live, the sizes, and for how many operations.
#[derive(Clone, Copy)]
pub struct Churn {
    pub live_bytes: u64,
    pub sizes: (u64, u64),
    pub operations: u64,
    /// `true` if the range of sizes moves, so that holes of one time do not fit the requests of another.
    pub wanders: bool,
}

/// Memory over live bytes.
struct ChurnFigures {
    peak: f64,
    mean: f64,
    end: f64,
    ns: f64,
    /// Memory objects that any thread has created and freed.
    objects: [u32; 2],
}

/// Number of operations in a frame of churn.
const CHURN_FRAME: u64 = 20;

impl Churn {
    /// Returns the next size. A range that wanders covers a 16th of the sizes at a time, and crosses them all four times.
    fn size(&self, random: &mut Random, operation: u64) -> u64 {
        let (low, high) = self.sizes;
        if !self.wanders {
            return random.log_uniform(low, high);
        }
        let phase = (operation as f64 / self.operations as f64 * 4.0) % 2.0;
        let place = if phase < 1.0 { phase } else { 2.0 - phase };
        let low = low as f64 * (high as f64 / low as f64 / 16.0).powf(place);
        random.log_uniform(low as u64, low as u64 * 16)
    }
}

fn play_churn<O: Objects>(objects: &O, churn: &Churn) -> ChurnFigures {
    let (mut random, mut live, mut held) = (Random::new(5), Vec::new(), 0_u64);
    let (mut sum, mut samples, mut peak, mut share) = (0.0, 0_u64, 0.0_f64, 0.0);
    driver_calls::take_all();
    let start = Instant::now();
    for operation in 0..churn.operations {
        let bytes = churn.size(&mut random, operation);
        while held + bytes > churn.live_bytes {
            let (bytes, one) = live.swap_remove(random.below(live.len() as u64) as usize);
            held -= bytes;
            objects.release(one);
        }
        live.push((bytes, objects.make(Wanted::Buffer(bytes))));
        held += bytes;
        if operation % CHURN_FRAME == 0 {
            objects.end_frame();
            // The first part fills the memory.
            if operation > churn.operations / 10 {
                share = objects.held_bytes() as f64 / held as f64;
                (sum, samples, peak) = (sum + share, samples + 1, peak.max(share));
            }
        }
    }
    let ns = start.elapsed().as_secs_f64() * 1e9 / churn.operations as f64;
    let calls = driver_calls::take_all();
    live.into_iter().for_each(|(_, one)| objects.release(one));
    (0..=IN_FLIGHT).for_each(|_| objects.end_frame());
    ChurnFigures { peak, mean: sum / samples as f64, end: share, ns, objects: calls }
}

/// The measurements of a contender; each creates a new allocator.
trait Measure {
    fn level(&self, handles: &Handles, wanted: &[Wanted], live: u64) -> LevelFigures;
    fn churn(&self, handles: &Handles, churn: &Churn) -> ChurnFigures;
    fn stream(&self, handles: &Handles, stream: &Stream) -> StreamFigures;
}

impl<O: Objects, F: Fn(&Handles) -> O> Measure for F {
    fn level(&self, handles: &Handles, wanted: &[Wanted], live: u64) -> LevelFigures {
        LevelFigures { held_mib: play_unload(&self(handles), wanted), ..play_level(&self(handles), wanted, live) }
    }

    fn churn(&self, handles: &Handles, churn: &Churn) -> ChurnFigures {
        play_churn(&self(handles), churn)
    }

    fn stream(&self, handles: &Handles, stream: &Stream) -> StreamFigures {
        play_stream(&self(handles), &handles.device, stream)
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
    let live = wanted.iter().map(|one| one.bytes(&handles.device)).sum::<u64>();
    let gib = live as f64 / MIB / 1024.0;
    let rows: Vec<_> = contenders()
        .iter()
        .map(|(name, by)| {
            let figures = by.level(handles, &wanted, live);
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
                let StreamFigures { frames, objects, peak, mean } = by.stream(handles, &stream);
                let at = |share: f64| Value::Number(frames[((frames.len() - 1) as f64 * share) as usize].0, 0);
                let slow: Vec<_> = frames.iter().filter(|(us, _)| *us > SLOW_US).collect();
                let sum = |of: fn(&Calls) -> f64| slow.iter().map(|(_, calls)| of(calls)).sum::<f64>();
                let mut row = Row::new();
                row.push("by", Value::Text((*name).into()));
                row.push("50 % µs", at(0.5));
                row.push("99 % µs", at(0.99));
                row.push("worst µs", at(1.0));
                row.push("slow frames", Value::Number(slow.len() as f64, 0));
                row.push("ms", Value::Number(slow.iter().map(|(us, _)| us).sum::<f64>() / 1e3, 1));
                row.push("memory calls", Value::Number(sum(|calls| calls.memory_us) / 1e3, 1));
                row.push("image calls", Value::Number(sum(|calls| calls.object_us) / 1e3, 1));
                row.push("blocks made", Value::Number(objects[0].into(), 0));
                row.push("freed", Value::Number(objects[1].into(), 0));
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

/// Replaces buffers of any size, with the same live bytes.
pub fn churn_section(handles: &Handles, churn: &Churn, report: &mut Report) -> std::io::Result<()> {
    for wanders in [false, true] {
        let churn = Churn { wanders, ..*churn };
        let mut contenders = contenders();
        contenders.insert(2, ("ringfence, compacting", Box::new(Compacting::new)));
        let rows: Vec<_> = contenders
            .iter()
            .map(|(name, by)| {
                let ChurnFigures { peak, mean, end, ns, objects } = by.churn(handles, &churn);
                let mut row = Row::new();
                row.push("by", Value::Text((*name).into()));
                row.push("peak bytes / live", Value::Number(peak, 2));
                row.push("mean", Value::Number(mean, 2));
                row.push("end", Value::Number(end, 2));
                row.push("ns of an operation", Value::Number(ns, 0));
                row.push("blocks made", Value::Number(objects[0].into(), 0));
                row.push("freed", Value::Number(objects[1].into(), 0));
                row
            })
            .collect();
        let heading = format!(
            "Churn of {} MiB, {} operations, sizes {}",
            churn.live_bytes >> 20,
            churn.operations,
            if wanders { "wander" } else { "steady" }
        );
        report.table("footprint_churn", &heading, &rows, 0)?;
    }
    Ok(())
}
