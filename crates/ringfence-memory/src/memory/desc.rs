//! How an allocator is set up.

use crate::observe::debugging::DebugDesc;

/// How an allocator is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocatorDesc {
    /// The largest block in bytes of memory that only the device uses. Less where a heap is small: at most an eighth of
    /// it.
    pub device_block_bytes_max: u64,
    /// The largest block in bytes of memory that the host sees too: making it takes the driver longer.
    pub host_block_bytes_max: u64,
    /// How many empty blocks of one memory type and class are kept always.
    pub empty_blocks_kept: usize,
    /// For how many calls of [`Allocator::reclaim`](crate::Allocator::reclaim) an empty block beyond those is kept. 0:
    /// none; what empties it frees it. That is for programs that have no frames to count, and may make a block come and
    /// go with one resource; nothing is recycled then.
    pub empty_block_grace: u64,
    /// Whether common small sizes get pools of equal slots, which are lock-free. A slot may be half as large again as
    /// what lies in it, and a pool that is empty holds its bytes until a reclaim. Without them every range is exact.
    pub small_slots: bool,
    /// What recycled objects hold at the most, in bytes of all heaps together: buffers and textures that the device is
    /// done with, kept bound to their memory for the next request of the same description. They count as free memory.
    /// 0: none are kept.
    pub recycled_bytes_max: u64,
    /// What is taken of each memory heap at the most, in bytes, by heap index: to share a device, or to try out a
    /// smaller one.
    pub heap_bytes_max: [u64; 16],
    /// What is taken at the most, in bytes, of a *small window*: a heap of up to 256 MiB through which the host reaches
    /// into a larger device memory. Beyond it, [`Location::DeviceUpload`] falls back to host memory, so that what
    /// cannot do without the window still finds memory there.
    ///
    /// [`Location::DeviceUpload`]: crate::Location::DeviceUpload
    pub window_bytes_max: u64,
    /// What is looked for while the program runs: see [`debugging`](crate::debugging). Nothing, by default.
    pub debug: DebugDesc,
}

impl Default for AllocatorDesc {
    fn default() -> Self {
        Self {
            device_block_bytes_max: 256 << 20,
            host_block_bytes_max: 64 << 20,
            empty_blocks_kept: 1,
            empty_block_grace: 120,
            small_slots: true,
            recycled_bytes_max: 256 << 20,
            heap_bytes_max: [u64::MAX; 16],
            window_bytes_max: 128 << 20,
            debug: DebugDesc::default(),
        }
    }
}
