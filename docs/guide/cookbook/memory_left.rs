use ringfence::device::Driver;
use ringfence::vulkan::Allocator;

/// Returns the number of bytes that fit into device memory before its budget is exceeded.
pub fn memory_left(memory: &Allocator) -> u64 {
    let heaps = &memory.device().capabilities().memory_heaps;
    let device_local = (0..).zip(heaps).filter(|(_, heap)| heap.device_local);
    device_local.map(|(index, _)| memory.budgets().heap(index).headroom_bytes()).sum()
}
