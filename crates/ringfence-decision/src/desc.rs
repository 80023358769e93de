//! The description of an allocator.

use ringfence_core::block_sizes::BlockSizes;
use ringfence_observe::DebugDesc;

use crate::device::{Capabilities, MemoryProperties, MemoryType};

/// Description of an allocator.
///
/// Pass it to `Allocator::over`, or to `new` of the allocator of a backend. The defaults suit most programs: set a
/// field to limit the memory, to change the sizes of blocks, or to turn on a check.
///
/// # Examples
///
/// A limit of 256 MiB for each heap, and a search for leaks in debug builds:
///
/// ```
/// # use ringfence::sim;
/// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
/// # use std::time::Duration;
/// use ringfence::debugging::DebugDesc;
/// use ringfence::device::{BufferDesc, BufferUsage};
/// use ringfence::memory::Error;
/// use ringfence::{AllocationDesc, Allocator, AllocatorDesc};
///
/// let desc = AllocatorDesc {
///     heap_bytes_max: [256 << 20; 16],
///     debug: DebugDesc { leaks: cfg!(debug_assertions), ..Default::default() },
///     ..Default::default()
/// };
/// let memory = Allocator::over(device, desc); // on Vulkan, `desc` is the last argument of `vulkan::Allocator::new`
///
/// let grid = BufferDesc { size: 200 << 20, usage: BufferUsage::STORAGE };
/// let voxels = memory.create_buffer(&grid, AllocationDesc { name: "voxels", ..Default::default() })?;
/// let more = BufferDesc { size: 300 << 20, ..grid };
/// assert!(matches!(memory.create_buffer(&more, AllocationDesc::default()), Err(Error::OverBudget { .. })));
///
/// memory.shutdown(Duration::from_secs(10))?; // `voxels` is still alive
/// let findings = memory.debug().take_findings();
/// assert_eq!(findings.len(), usize::from(cfg!(debug_assertions)));
/// assert!(findings.iter().all(|finding| finding.to_string().contains("voxels")));
/// # drop(voxels);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("VmaAllocatorCreateInfo", "ALLOCATOR_DESC"))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocatorDesc {
    /// Maximum regular size of a block in memory that the host cannot access, in bytes; at most an eighth of the heap.
    /// A block is larger if a single request needs it, or if memory objects are scarce.
    pub device_block_bytes_max: u64,
    /// Maximum regular size of a block in memory that the host can access, in bytes; at most an eighth of the heap. The
    /// driver takes longer to create such a block.
    pub host_block_bytes_max: u64,
    /// Number of empty blocks of one memory type and class that are always kept. Exception: an empty block is freed
    /// after the grace ([`AllocatorDesc::empty_block_grace`]) if it is larger than a quarter of
    /// [`AllocatorDesc::empty_bytes_min`] and than all live bytes of its memory type and class together.
    pub empty_blocks_kept: usize,
    /// Bytes of empty blocks that each memory type and class keeps for the grace
    /// ([`AllocatorDesc::empty_block_grace`]), in addition to one block of the next size. If an eighth of the live
    /// bytes is more, that many are kept. Blocks above this limit are freed by the next `Allocator::reclaim`, the
    /// largest first ([`EmptyBlocks`](ringfence_core::empty_blocks::EmptyBlocks)). With `u64::MAX`, there is no such
    /// limit. Pools keep all their empty blocks for the grace.
    pub empty_bytes_min: u64,
    /// The grace: the number of calls of `Allocator::reclaim` for which empty blocks beyond
    /// [`AllocatorDesc::empty_blocks_kept`] are kept. If a block is created soon after another was freed because its
    /// grace was over, the grace doubles, up to 16 × this number. The grace becomes shorter again if no such block is
    /// created, or if blocks are freed because of the limit
    /// ([`EmptyBlocks`](ringfence_core::empty_blocks::EmptyBlocks)). With 0 (for programs without frames), such a block
    /// is freed as soon as it is empty, and objects are not recycled.
    pub empty_block_grace: u64,
    /// `true` if resources of common small sizes are placed in pools of equal slots, which are lock-free. A slot has at
    /// least 256 bytes and may be 1.5 times as large as its resource. An empty pool keeps its bytes until its grace is
    /// over or memory is short. With `false`, each resource gets a range of its exact size.
    pub small_slots: bool,
    /// Maximum total size of the recycled objects in all heaps, in bytes. Recycled objects are buffers and textures
    /// that the device is done with; they stay bound to their memory for the next request with the same description.
    /// They count as free memory. With 0, objects are not recycled.
    pub recycled_bytes_max: u64,
    /// Maximum number of bytes that the allocator takes from each memory heap, by heap index. Used to share a device
    /// with other programs.
    pub heap_bytes_max: [u64; 16],
    /// Maximum number of bytes that the allocator takes from a *small window*: a heap of up to 256 MiB through which
    /// the host accesses part of a larger device memory. Beyond this number, [`Location::DeviceUpload`] falls back to
    /// host memory, so that the window has room for requests that need it. Requests that only the window can serve, and
    /// pools of the window's memory types, are limited only by [`AllocatorDesc::heap_bytes_max`].
    ///
    /// [`Location::DeviceUpload`]: crate::Location::DeviceUpload
    pub window_bytes_max: u64,
    /// The checks to run: see [`debugging`](ringfence_observe::debugging). None by default.
    pub debug: DebugDesc,
}

impl Default for AllocatorDesc {
    fn default() -> Self {
        Self {
            device_block_bytes_max: 256 << 20,
            host_block_bytes_max: 64 << 20,
            empty_blocks_kept: 1,
            empty_bytes_min: 64 << 20,
            empty_block_grace: 48,
            small_slots: true,
            recycled_bytes_max: 256 << 20,
            heap_bytes_max: [u64::MAX; 16],
            window_bytes_max: 128 << 20,
            debug: DebugDesc::default(),
        }
    }
}

/// Returns the block sizes of a memory type. The sizes grow with use.
#[must_use]
pub fn block_sizes(desc: &AllocatorDesc, capabilities: &Capabilities, held: &MemoryType) -> BlockSizes {
    let is_host = held.properties.contains(MemoryProperties::HOST_VISIBLE);
    let wanted_max = if is_host { desc.host_block_bytes_max } else { desc.device_block_bytes_max };
    let heap_bytes = capabilities.memory_heaps[held.heap as usize].bytes;
    BlockSizes::for_heap(heap_bytes, capabilities.memory_object_bytes_max, wanted_max)
}
