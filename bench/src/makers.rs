//! The contenders with a Vulkan device: each creates and destroys buffers with memory, or memory only.
//!
//! Ringfence releases a buffer as programs do: a drop retires it, and a `reclaim` after every [`FRAME`] drops destroys
//! the buffers whose points have passed. It frees memory without buffers immediately, as the others do.

use ash::vk;
use gpu_allocator::MemoryLocation;
use gpu_allocator::vulkan as ga;
use ringfence::device::{Requirements, ResourceClass};
use ringfence::memory::{Allocation, Maintenance};
use ringfence::{AllocationDesc, AllocatorDesc, Dedicated, Location, vulkan as rf};
use std::mem::ManuallyDrop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use vk_mem::Alloc;

/// Number of drops between reclaims, as in a program that reclaims once a frame.
const FRAME: usize = 200;

/// Kind of memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    Device,
    /// Memory of the device that the host writes.
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

/// The raw handles that every contender is created from.
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

/// Returns the requirements of a buffer of any size, except for the size, to request memory without a buffer.
fn requirements(device: &ash::Device) -> vk::MemoryRequirements {
    // SAFETY: the description is valid, and the buffer is destroyed without being used.
    unsafe {
        let buffer = device.create_buffer(&buffer_info(65_536), None).expect("a buffer without memory");
        let requirements = device.get_buffer_memory_requirements(buffer);
        device.destroy_buffer(buffer, None);
        requirements
    }
}

/// Creates and destroys objects of `size` bytes.
pub trait Maker: Sync {
    type Made: Send;

    fn make(&self, size: u64, memory: Memory) -> Self::Made;
    fn unmake(&self, made: Self::Made);
    /// Returns the number of blocks and dedicated allocations.
    fn block_count(&self) -> u64;

    /// Announces that the program will request this many bytes, if the interface supports it.
    fn announce(&self, _bytes: u64, _memory: Memory) {}

    /// Ends a frame, if the interface supports it.
    fn end_frame(&self) {}
}

/// Allocates nothing: some hundred nanoseconds of CPU time. It shows the noise of the machine, which also affects every
/// other row.
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
    /// Declared before the allocator, because its thread must end first.
    _maintenance: Option<Maintenance>,
    allocator: rf::Allocator,
    /// Limit of the announced bytes.
    announces: u64,
    drops: AtomicUsize,
}

impl Ours {
    pub fn new(handles: &Handles) -> Self {
        let allocator = rf::Allocator::over(handles.ours.clone(), AllocatorDesc::default());
        Self { _maintenance: None, allocator, announces: 0, drops: AtomicUsize::new(0) }
    }

    /// Uses the library's thread that creates blocks ahead of need.
    pub fn in_background(handles: &Handles) -> Self {
        let plain = Self::new(handles);
        let maintenance = plain.allocator.budgets().maintain_in_background().expect("there is a thread");
        Self { _maintenance: Some(maintenance), ..plain }
    }

    /// Announces all requests.
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
        // Announces slightly more, because the end of a block may be too small for the next request.
        let bytes = (bytes + bytes / 50).min(self.announces);
        self.allocator.budgets().reserve(ResourceClass::Buffer, bytes, desc).expect("there is memory");
    }

    fn end_frame(&self) {
        self.allocator.reclaim();
    }
}

/// Ringfence without buffers: memory only, which is free immediately after a free.
pub struct OursMemory {
    ours: Ours,
    requirements: Requirements,
}

impl OursMemory {
    pub fn new(handles: &Handles) -> Self {
        Self::of(Ours::new(handles), handles)
    }

    /// Uses the library's thread that creates blocks ahead of need.
    pub fn in_background(handles: &Handles) -> Self {
        Self::of(Ours::in_background(handles), handles)
    }

    /// Announces all requests.
    pub fn announcing(handles: &Handles) -> Self {
        Self::of(Ours::announcing(handles), handles)
    }

    /// Uses the background thread and announces the first blocks, because in the very first frames the program requests
    /// more than the driver can allocate meanwhile.
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
        // SAFETY: the memory contains no resource.
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

    /// Returns VMA's own interface.
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
        // SAFETY: both came from this allocator and are destroyed once; no device work uses them.
        unsafe { self.allocator.destroy_buffer(buffer, &mut allocation) };
    }

    fn block_count(&self) -> u64 {
        vma_block_count(&self.allocator)
    }
}

/// VMA without buffers: memory only.
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
        // SAFETY: these are the requirements of a buffer on this device.
        unsafe { self.0.allocator.allocate_memory(&requirements, &info) }.expect("there is memory")
    }

    fn unmake(&self, mut made: Self::Made) {
        // SAFETY: the memory came from this allocator and is freed once.
        unsafe { self.0.allocator.free_memory(&mut made) };
    }

    fn block_count(&self) -> u64 {
        vma_block_count(&self.0.allocator)
    }
}

/// gpu-allocator behind one mutex, as in wgpu.
pub struct GpuAllocator {
    allocator: ManuallyDrop<Mutex<ga::Allocator>>,
    device: ash::Device,
    requirements: vk::MemoryRequirements,
    buffers: bool,
}

/// Creates gpu-allocator's own allocator.
pub fn raw_gpu_allocator(handles: &Handles) -> ga::Allocator {
    let allocator = ga::Allocator::new(&ga::AllocatorCreateDesc {
        instance: handles.instance.clone(),
        device: handles.device.clone(),
        physical_device: handles.physical,
        debug_settings: gpu_allocator::AllocatorDebugSettings::default(),
        buffer_device_address: false,
        allocation_sizes: gpu_allocator::AllocationSizes::default(),
    });
    allocator.expect("gpu-allocator takes the device")
}

impl GpuAllocator {
    pub fn new(handles: &Handles, buffers: bool) -> Self {
        let allocator = ManuallyDrop::new(Mutex::new(raw_gpu_allocator(handles)));
        let device = handles.device.clone();
        Self { allocator, requirements: requirements(&device), device, buffers }
    }
}

impl Drop for GpuAllocator {
    fn drop(&mut self) {
        // SAFETY: it is dropped only here. Dropped by hand, because it must be dropped before the device's function
        // table.
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
            // Its `CpuToGpu` prefers device memory if the host can write to it.
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
            // SAFETY: the memory has a type and size that the buffer requires, and the buffer is not bound yet.
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
