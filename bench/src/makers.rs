//! The contenders with a Vulkan device: each makes and unmakes buffers with memory, or memory alone.
//!
//! Ours gives a buffer back as programs do: a dropped one is retired, and `reclaim` after every [`FRAME`] drops
//! destroys what is due. Memory alone it gives back at once, as the others do.

use ash::vk;
use gpu_allocator::MemoryLocation;
use gpu_allocator::vulkan as ga;
use ringfence::Allocation;
use ringfence::device::{Requirements, ResourceClass};
use ringfence::memory::{AllocatorDesc, Location, Maintenance};
use ringfence::vulkan as rf;
use ringfence::{AllocationDesc, Dedicated};
use std::mem::ManuallyDrop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use vk_mem::Alloc;

/// After this many drops ours reclaims, as a program does once a frame.
const FRAME: usize = 200;

/// Which memory is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    Device,
    /// Memory of the device that the host writes into.
    DeviceMapped,
    /// Memory of the host that the device reads.
    Host,
}

impl Memory {
    pub const ALL: [Self; 3] = [Self::Device, Self::DeviceMapped, Self::Host];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "device-local",
            Self::DeviceMapped => "device-local, written by the host",
            Self::Host => "host memory",
        }
    }

    fn location(self) -> Location {
        match self {
            Self::Device => Location::Device,
            Self::DeviceMapped => Location::DeviceUpload,
            Self::Host => Location::Upload,
        }
    }
}

/// The raw handles that every contender is made from.
pub struct Handles<'a> {
    pub instance: &'a ash::Instance,
    pub physical: vk::PhysicalDevice,
    pub device: ash::Device,
    pub ours: rf::Device,
}

const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::from_raw(
    vk::BufferUsageFlags::TRANSFER_SRC.as_raw()
        | vk::BufferUsageFlags::TRANSFER_DST.as_raw()
        | vk::BufferUsageFlags::VERTEX_BUFFER.as_raw(),
);

fn buffer_info(size: u64) -> vk::BufferCreateInfo<'static> {
    vk::BufferCreateInfo::default().size(size).usage(USAGE)
}

/// What a buffer of any size asks for, but for the size: so that memory alone can be asked for.
fn requirements(device: &ash::Device) -> vk::MemoryRequirements {
    // SAFETY: the description is valid, and the buffer is destroyed before anything uses it.
    unsafe {
        let buffer = device.create_buffer(&buffer_info(65_536), None).expect("a buffer without memory");
        let requirements = device.get_buffer_memory_requirements(buffer);
        device.destroy_buffer(buffer, None);
        requirements
    }
}

/// Makes and unmakes something of `size` bytes.
pub trait Maker: Sync {
    type Made: Send;

    fn make(&self, size: u64, memory: Memory) -> Self::Made;
    fn unmake(&self, made: Self::Made);
    /// Blocks and dedicated memory that it holds.
    fn block_count(&self) -> u64;

    /// The program says that it is going to ask for this many bytes, where the interface has that.
    fn announce(&self, _bytes: u64, _memory: Memory) {}

    /// The end of a frame, where the interface has that.
    fn end_frame(&self) {}
}

/// Nothing: some hundred nanoseconds of the processor's time. What it shows is the machine's own doing, to which every
/// other row is subject too.
pub struct Nothing;

impl Nothing {
    pub fn new(_: &Handles) -> Self {
        Self
    }
}

impl Maker for Nothing {
    type Made = u64;

    fn make(&self, size: u64, _: Memory) -> u64 {
        (0..400).fold(size, |sum, step| std::hint::black_box(sum ^ step))
    }

    fn unmake(&self, _: u64) {}

    fn block_count(&self) -> u64 {
        0
    }
}

pub struct Ours {
    /// Before the allocator: its thread ends first.
    _maintenance: Option<Maintenance>,
    allocator: rf::Allocator,
    /// Of what is going to be asked for, this many bytes are announced.
    announces: u64,
    drops: AtomicUsize,
}

impl Ours {
    pub fn new(handles: &Handles) -> Self {
        let allocator = rf::Allocator::over(handles.ours.clone(), AllocatorDesc::default());
        Self { _maintenance: None, allocator, announces: 0, drops: AtomicUsize::new(0) }
    }

    /// With the library's thread that makes blocks ahead of need.
    pub fn in_background(handles: &Handles) -> Self {
        let plain = Self::new(handles);
        let maintenance = plain.allocator.budgets().maintain_in_background().expect("there is a thread");
        Self { _maintenance: Some(maintenance), ..plain }
    }

    /// With what is going to be asked for announced.
    pub fn announcing(handles: &Handles) -> Self {
        Self { announces: u64::MAX, ..Self::new(handles) }
    }
}

fn block_count(allocator: &rf::Allocator) -> u64 {
    let total = allocator.statistics().total();
    total.block_count + total.dedicated_count
}

impl Maker for Ours {
    type Made = rf::Buffer;

    fn make(&self, size: u64, memory: Memory) -> rf::Buffer {
        let desc = AllocationDesc { location: memory.location(), ..Default::default() };
        self.allocator.create_buffer(&rf::BufferInfo::new(size, USAGE), desc).expect("there is memory")
    }

    fn unmake(&self, made: rf::Buffer) {
        drop(made);
        if self.drops.fetch_add(1, Ordering::Relaxed) % FRAME == FRAME - 1 {
            self.allocator.reclaim();
        }
    }

    fn block_count(&self) -> u64 {
        block_count(&self.allocator)
    }

    fn announce(&self, bytes: u64, memory: Memory) {
        let desc = AllocationDesc { location: memory.location(), ..Default::default() };
        // A little more: the end of a block may be too small for what comes.
        let bytes = (bytes + bytes / 50).min(self.announces);
        self.allocator.budgets().reserve(ResourceClass::Buffer, bytes, desc).expect("there is memory");
    }

    fn end_frame(&self) {
        self.allocator.reclaim();
    }
}

/// Ours asked for memory alone: no buffer is made, and what is given back is free at once.
pub struct OursMemory {
    ours: Ours,
    requirements: Requirements,
}

impl OursMemory {
    pub fn new(handles: &Handles) -> Self {
        Self::of(Ours::new(handles), handles)
    }

    /// With the library's thread that makes blocks ahead of need.
    pub fn in_background(handles: &Handles) -> Self {
        Self::of(Ours::in_background(handles), handles)
    }

    /// With what is going to be asked for announced.
    pub fn announcing(handles: &Handles) -> Self {
        Self::of(Ours::announcing(handles), handles)
    }

    /// In the background with the first blocks announced: in the very first frames the program asks for more than the
    /// driver can make meanwhile.
    pub fn in_background_from_a_start(handles: &Handles) -> Self {
        Self::of(Ours { announces: 1 << 30, ..Ours::in_background(handles) }, handles)
    }

    fn of(ours: Ours, handles: &Handles) -> Self {
        let vk::MemoryRequirements { alignment, memory_type_bits, .. } = requirements(&handles.device);
        let requirements = Requirements {
            size: 0,
            alignment,
            memory_type_bits,
            class: ResourceClass::Buffer,
            prefers_dedicated: false,
            requires_dedicated: false,
        };
        Self { ours, requirements }
    }
}

impl Maker for OursMemory {
    type Made = Allocation<rf::Device>;

    fn make(&self, size: u64, memory: Memory) -> Self::Made {
        let needs = Requirements { size, ..self.requirements };
        let desc = AllocationDesc { location: memory.location(), dedicated: Dedicated::Auto, ..Default::default() };
        self.ours.allocator.allocate(needs, desc).expect("there is memory")
    }

    fn unmake(&self, made: Self::Made) {
        // SAFETY: nothing was placed there.
        unsafe { made.destroy_now() };
    }

    fn block_count(&self) -> u64 {
        block_count(&self.ours.allocator)
    }

    fn announce(&self, bytes: u64, memory: Memory) {
        self.ours.announce(bytes, memory);
    }

    fn end_frame(&self) {
        self.ours.end_frame();
    }
}

pub struct Vma {
    allocator: vk_mem::Allocator,
    requirements: vk::MemoryRequirements,
}

impl Vma {
    pub fn new(handles: &Handles) -> Self {
        let mut info = vk_mem::AllocatorCreateInfo::new(handles.instance, &handles.device, handles.physical);
        info.vulkan_api_version = vk::API_VERSION_1_2;
        // SAFETY: instance and device outlive the allocator.
        let allocator = unsafe { vk_mem::Allocator::new(info) }.expect("VMA takes the device");
        Self { allocator, requirements: requirements(&handles.device) }
    }

    /// VMA's own interface.
    pub fn raw(&self) -> &vk_mem::Allocator {
        &self.allocator
    }
}

fn vma_info(memory: Memory) -> vk_mem::AllocationCreateInfo {
    let mut info = vk_mem::AllocationCreateInfo { usage: vk_mem::MemoryUsage::AutoPreferDevice, ..Default::default() };
    if memory == Memory::Host {
        info.usage = vk_mem::MemoryUsage::AutoPreferHost;
    }
    if memory != Memory::Device {
        info.flags =
            vk_mem::AllocationCreateFlags::HOST_ACCESS_SEQUENTIAL_WRITE | vk_mem::AllocationCreateFlags::MAPPED;
    }
    info
}

fn vma_block_count(allocator: &vk_mem::Allocator) -> u64 {
    let budgets = allocator.get_heap_budgets().expect("they are counted");
    budgets.iter().map(|budget| u64::from(budget.statistics.blockCount)).sum()
}

impl Maker for Vma {
    type Made = (vk::Buffer, vk_mem::Allocation);

    fn make(&self, size: u64, memory: Memory) -> Self::Made {
        // SAFETY: the description is valid.
        unsafe { self.allocator.create_buffer(&buffer_info(size), &vma_info(memory)) }.expect("there is memory")
    }

    fn unmake(&self, (buffer, mut allocation): Self::Made) {
        // SAFETY: both came from this allocator and go back once; no device work uses them.
        unsafe { self.allocator.destroy_buffer(buffer, &mut allocation) };
    }

    fn block_count(&self) -> u64 {
        vma_block_count(&self.allocator)
    }
}

/// VMA asked for memory alone: no buffer is made.
pub struct VmaMemory(Vma);

impl VmaMemory {
    pub fn new(handles: &Handles) -> Self {
        Self(Vma::new(handles))
    }
}

impl Maker for VmaMemory {
    type Made = vk_mem::Allocation;

    fn make(&self, size: u64, memory: Memory) -> Self::Made {
        let mut info = vma_info(memory);
        info.usage = vk_mem::MemoryUsage::Unknown;
        let mapped = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        info.required_flags = match memory {
            Memory::Device => vk::MemoryPropertyFlags::DEVICE_LOCAL,
            Memory::DeviceMapped => vk::MemoryPropertyFlags::DEVICE_LOCAL | mapped,
            Memory::Host => mapped,
        };
        let requirements = vk::MemoryRequirements { size, ..self.0.requirements };
        // SAFETY: the requirements are a buffer's on this device.
        unsafe { self.0.allocator.allocate_memory(&requirements, &info) }.expect("there is memory")
    }

    fn unmake(&self, mut made: Self::Made) {
        // SAFETY: it came from this allocator and goes back once.
        unsafe { self.0.allocator.free_memory(&mut made) };
    }

    fn block_count(&self) -> u64 {
        vma_block_count(&self.0.allocator)
    }
}

/// gpu-allocator behind one mutex, as wgpu has it.
pub struct GpuAllocator {
    allocator: ManuallyDrop<Mutex<ga::Allocator>>,
    device: ash::Device,
    requirements: vk::MemoryRequirements,
    buffers: bool,
}

impl GpuAllocator {
    pub fn new(handles: &Handles, buffers: bool) -> Self {
        let allocator = ga::Allocator::new(&ga::AllocatorCreateDesc {
            instance: handles.instance.clone(),
            device: handles.device.clone(),
            physical_device: handles.physical,
            debug_settings: gpu_allocator::AllocatorDebugSettings::default(),
            buffer_device_address: false,
            allocation_sizes: gpu_allocator::AllocationSizes::default(),
        });
        let allocator = ManuallyDrop::new(Mutex::new(allocator.expect("gpu-allocator takes the device")));
        let device = handles.device.clone();
        Self { allocator, requirements: requirements(&device), device, buffers }
    }
}

impl Drop for GpuAllocator {
    fn drop(&mut self) {
        // SAFETY: it is dropped here and nowhere else. By hand, so that it goes before the device's table.
        unsafe { ManuallyDrop::drop(&mut self.allocator) };
    }
}

impl Maker for GpuAllocator {
    type Made = (vk::Buffer, ga::Allocation);

    fn make(&self, size: u64, memory: Memory) -> Self::Made {
        let mut requirements = vk::MemoryRequirements { size, ..self.requirements };
        let mut buffer = vk::Buffer::null();
        if self.buffers {
            // SAFETY: the description is valid.
            unsafe {
                buffer = self.device.create_buffer(&buffer_info(size), None).expect("a buffer without memory");
                requirements = self.device.get_buffer_memory_requirements(buffer);
            }
        }
        let desc = ga::AllocationCreateDesc {
            name: "",
            requirements,
            // What it calls CpuToGpu is memory of the device first, wherever the host can write there.
            location: match memory {
                Memory::Device => MemoryLocation::GpuOnly,
                Memory::DeviceMapped => MemoryLocation::CpuToGpu,
                Memory::Host => MemoryLocation::GpuToCpu,
            },
            linear: true,
            allocation_scheme: ga::AllocationScheme::GpuAllocatorManaged,
        };
        let made = self.allocator.lock().expect("no thread panics").allocate(&desc).expect("there is memory");
        if self.buffers {
            // SAFETY: the memory is of a type and size that the buffer asked for, and nothing is bound to it yet.
            unsafe { self.device.bind_buffer_memory(buffer, made.memory(), made.offset()) }.expect("it can be bound");
        }
        (buffer, made)
    }

    fn unmake(&self, (buffer, made): Self::Made) {
        // SAFETY: no device work uses it; a null buffer is allowed.
        unsafe { self.device.destroy_buffer(buffer, None) };
        self.allocator.lock().expect("no thread panics").free(made).expect("it is live");
    }

    fn block_count(&self) -> u64 {
        self.allocator.lock().expect("no thread panics").generate_report().blocks.len() as u64
    }
}
