//! The range allocators, each behind the same four functions.
//!
//! Every peer is used as its documentation shows, with its default settings. Missing features are emulated in the
//! cheapest way and documented: offset-allocator has no alignment, so each request adds `alignment - 1`.

use gpu_alloc::{Config, GpuAllocator, MemoryBlock, Request, UsageFlags};
use gpu_alloc_types as gpu;
use offset_allocator::{Allocation as OffsetAllocation, Allocator as OffsetAllocator};
use ringfence_core::blocks::{BlockAllocation, BlockSource, BlocksDesc, GrowableBlocks};
use ringfence_core::free_list::FreeList;
use ringfence_core::range::{Allocate, Range};
use ringfence_core::tlsf::Tlsf;
use std::convert::Infallible;
use std::ptr::NonNull;

/// A range allocator under test.
pub trait Contender: Sized {
    const NAME: &'static str;
    /// `true` if it belongs to Ringfence.
    const OURS: bool = false;
    /// `true` if it has a fixed capacity; if not, memory waste cannot be measured from outside.
    const BOUNDED: bool = true;
    /// `true` if an operation takes time linear in the number of ranges; such a contender does not play long traces.
    const LINEAR: bool = false;
    /// Largest capacity that it can be created with.
    const CAPACITY_MAX: u64 = u64::MAX;
    type Held;

    fn new(capacity: u64) -> Self;
    fn allocate(&mut self, size: u64, alignment: u64) -> Option<Self::Held>;
    fn free(&mut self, held: Self::Held);
    /// Called before the drop, with the ranges that are still live.
    fn finish(&mut self, held: impl Iterator<Item = Self::Held>) {
        held.for_each(|held| self.free(held));
    }
}

macro_rules! ours {
    ($type:ty, $name:literal, $new:expr, $held:ty) => {
        impl Contender for $type {
            const NAME: &'static str = $name;
            const OURS: bool = true;
            type Held = $held;

            fn new(capacity: u64) -> Self {
                ($new)(capacity)
            }

            fn allocate(&mut self, size: u64, alignment: u64) -> Option<$held> {
                Allocate::allocate(self, size, alignment).ok()
            }

            fn free(&mut self, held: $held) {
                Allocate::free(self, held).expect("what is held is live");
            }
        }
    };
}

ours!(Tlsf, "ringfence Tlsf", Tlsf::new, Range);
ours!(FreeList, "ringfence FreeList", FreeList::new, Range);

/// Ringfence's growable blocks: as many blocks as needed.
pub struct Blocks(GrowableBlocks<Numbers>);

/// Blocks of 64 MiB without memory.
pub struct Numbers;

impl BlockSource for Numbers {
    type Heap = ();
    type Allocator = Tlsf;
    type Error = Infallible;

    fn create(&mut self, size: u64) -> Result<((), Tlsf), Infallible> {
        Ok(((), Tlsf::new(size)))
    }

    fn destroy(&mut self, (): ()) {}
}

impl Contender for Blocks {
    const NAME: &'static str = "ringfence Blocks<Tlsf>";
    const OURS: bool = true;
    const BOUNDED: bool = false;
    type Held = BlockAllocation;

    fn new(_: u64) -> Self {
        Self(GrowableBlocks::new(BlocksDesc::default(), Numbers))
    }

    fn allocate(&mut self, size: u64, alignment: u64) -> Option<BlockAllocation> {
        self.0.allocate(size, alignment).ok()
    }

    fn free(&mut self, held: BlockAllocation) {
        self.0.free(held).expect("what is held is live");
    }
}

impl Contender for OffsetAllocator {
    const NAME: &'static str = "offset-allocator 0.2";
    const CAPACITY_MAX: u64 = u32::MAX as u64;
    type Held = OffsetAllocation;

    fn new(capacity: u64) -> Self {
        // Its default of 128 Ki nodes is too small for 100,000 live ranges and their holes; more nodes do not slow it
        // down.
        Self::with_max_allocs(capacity as u32, 512 << 10)
    }

    fn allocate(&mut self, size: u64, alignment: u64) -> Option<OffsetAllocation> {
        self.allocate((size + alignment - 1) as u32)
    }

    fn free(&mut self, held: OffsetAllocation) {
        self.free(held);
    }
}

impl Contender for range_alloc::RangeAllocator<u64> {
    const NAME: &'static str = "range-alloc 0.1.5";
    const LINEAR: bool = true;
    type Held = std::ops::Range<u64>;

    fn new(capacity: u64) -> Self {
        Self::new(0..capacity)
    }

    fn allocate(&mut self, size: u64, alignment: u64) -> Option<Self::Held> {
        if alignment == 1 {
            return self.allocate_range(size).ok();
        }
        self.allocate_range_aligned(size, alignment).ok()
    }

    fn free(&mut self, held: Self::Held) {
        self.free_range(held);
    }
}

/// VMA's allocator on a virtual block: without Vulkan and without a lock.
pub struct VirtualBlock(vk_mem::VirtualBlock);

impl Contender for VirtualBlock {
    const NAME: &'static str = "VMA 3.3 virtual block";
    type Held = vk_mem::VirtualAllocation;

    fn new(capacity: u64) -> Self {
        let info = vk_mem::VirtualBlockCreateInfo { size: capacity, ..Default::default() };
        Self(vk_mem::VirtualBlock::new(info).expect("a virtual block takes host memory alone"))
    }

    fn allocate(&mut self, size: u64, alignment: u64) -> Option<Self::Held> {
        let flags = vk_mem::VirtualAllocationCreateFlags::empty();
        let info = vk_mem::VirtualAllocationCreateInfo { size, alignment, user_data: 0, flags };
        // SAFETY: the block is alive, and only this thread uses it.
        unsafe { self.0.allocate(info) }.ok().map(|(held, _)| held)
    }

    fn free(&mut self, mut held: Self::Held) {
        // SAFETY: `held` came from this block and is freed once, because it is moved in here.
        unsafe { self.0.free(&mut held) };
    }

    fn finish(&mut self, held: impl Iterator<Item = Self::Held>) {
        held.for_each(drop);
        // SAFETY: no allocation of the block is used afterwards.
        unsafe { self.0.clear() };
    }
}

/// gpu-alloc on a device without memory: its free-list strategy, blocks of 64 MiB.
pub struct GpuAlloc(GpuAllocator<()>);

struct Nowhere;

impl gpu::MemoryDevice<()> for Nowhere {
    unsafe fn allocate_memory(&self, _: u64, _: u32, _: gpu::AllocationFlags) -> Result<(), gpu::OutOfMemory> {
        Ok(())
    }

    unsafe fn deallocate_memory(&self, (): ()) {}

    unsafe fn map_memory(&self, (): &mut (), _: u64, _: u64) -> Result<NonNull<u8>, gpu::DeviceMapError> {
        Err(gpu::DeviceMapError::MapFailed)
    }

    unsafe fn unmap_memory(&self, (): &mut ()) {}

    unsafe fn invalidate_memory_ranges(&self, _: &[gpu::MappedMemoryRange<'_, ()>]) -> Result<(), gpu::OutOfMemory> {
        Ok(())
    }

    unsafe fn flush_memory_ranges(&self, _: &[gpu::MappedMemoryRange<'_, ()>]) -> Result<(), gpu::OutOfMemory> {
        Ok(())
    }
}

impl Contender for GpuAlloc {
    const NAME: &'static str = "gpu-alloc 0.6";
    const BOUNDED: bool = false;
    type Held = MemoryBlock<()>;

    fn new(_: u64) -> Self {
        let props = gpu::MemoryPropertyFlags::DEVICE_LOCAL;
        let config = Config {
            dedicated_threshold: 64 << 20,
            preferred_dedicated_threshold: 64 << 20,
            transient_dedicated_threshold: 64 << 20,
            starting_free_list_chunk: 64 << 20,
            final_free_list_chunk: 64 << 20,
            minimal_buddy_size: 256,
            initial_buddy_dedicated_size: 64 << 20,
        };
        let properties = gpu::DeviceProperties {
            memory_types: vec![gpu::MemoryType { heap: 0, props }].into(),
            memory_heaps: vec![gpu::MemoryHeap { size: 1 << 40 }].into(),
            max_memory_allocation_count: u32::MAX,
            max_memory_allocation_size: 1 << 40,
            non_coherent_atom_size: 1,
            buffer_device_address: false,
        };
        Self(GpuAllocator::new(config, properties))
    }

    fn allocate(&mut self, size: u64, alignment: u64) -> Option<Self::Held> {
        let usage = UsageFlags::FAST_DEVICE_ACCESS;
        let request = Request { size, align_mask: alignment - 1, usage, memory_types: 1 };
        // SAFETY: the device has one memory type, number 0, and is the same in each call.
        unsafe { self.0.alloc(&Nowhere, request) }.ok()
    }

    fn free(&mut self, held: Self::Held) {
        // SAFETY: `held` came from this allocator and device, and is freed once, because it is moved in here.
        unsafe { self.0.dealloc(&Nowhere, held) };
    }

    fn finish(&mut self, held: impl Iterator<Item = Self::Held>) {
        held.for_each(|held| self.free(held));
        // SAFETY: the same device as in each call.
        unsafe { self.0.cleanup(&Nowhere) };
    }
}
