//! Sizes of memory blocks.

use ringfence::AllocatorDesc;

const STEP: u64 = 4 << 20;
const MOST: u64 = 256 << 20;

/// The sizes of memory blocks that several allocations share, in bytes: from 4 MiB to 256 MiB, in steps of 4 MiB.
///
/// Ringfence starts with a small block and doubles, regardless of the smallest size, so a program that needs less
/// reserves less. The last step is the larger of the smallest size and half of the largest size, rounded down to a
/// power of two, and at most an eighth of the heap. One more doubling step would reserve more than allocators with
/// large first blocks do. Requests for more than half of a block get dedicated memory.
///
/// ```
/// use gpu_allocator::AllocationSizes;
///
/// // Blocks of up to 64 MiB of device memory, and 32 MiB of host-visible memory.
/// let small = AllocationSizes::new(64 << 20, 32 << 20);
/// // The same, starting from 8 MiB.
/// let growing = AllocationSizes::new(8 << 20, 8 << 20)
///     .with_max_device_memblock_size(64 << 20)
///     .with_max_host_memblock_size(32 << 20);
/// # let _ = (small, growing);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AllocationSizes {
    device_min: u64,
    device_max: u64,
    host_min: u64,
    host_max: u64,
}

impl AllocationSizes {
    /// Sets the smallest sizes, and the largest sizes to the same. Sizes out of bounds are clamped; others are rounded
    /// up to a step.
    #[must_use]
    pub fn new(device_memblock_size: u64, host_memblock_size: u64) -> Self {
        let (device, host) = (stepped(device_memblock_size), stepped(host_memblock_size));
        Self { device_min: device, device_max: device, host_min: host, host_max: host }
    }

    /// Sets the largest size of blocks of device memory; at least the smallest.
    #[must_use]
    pub fn with_max_device_memblock_size(self, size: u64) -> Self {
        Self { device_max: stepped(size).max(self.device_min), ..self }
    }

    /// Sets the largest size of host-visible blocks; at least the smallest.
    #[must_use]
    pub fn with_max_host_memblock_size(self, size: u64) -> Self {
        Self { host_max: stepped(size).max(self.host_min), ..self }
    }

    /// Returns Ringfence's description for callers that count no frames, have their own lock, and rely on the memory
    /// type that they predict.
    pub(crate) fn to_desc(self) -> AllocatorDesc {
        AllocatorDesc {
            device_block_bytes_max: self.device_min.max(self.device_max / 2),
            host_block_bytes_max: self.host_min.max(self.host_max / 2),
            empty_blocks_kept: 1,
            empty_block_grace: 0,
            small_slots: false,
            window_bytes_max: u64::MAX,
            ..Default::default()
        }
    }
}

impl Default for AllocationSizes {
    /// Returns 256 MiB for device memory and 64 MiB for host-visible memory.
    fn default() -> Self {
        Self::new(MOST, 64 << 20)
    }
}

fn stepped(size: u64) -> u64 {
    let clamped = size.clamp(STEP, MOST);
    let stepped = clamped.next_multiple_of(STEP);
    if stepped != clamped {
        log::warn!("a memory block of {size} bytes is rounded up to {stepped}, a multiple of 4 MiB");
    }
    stepped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_clamped_and_rounded_up_to_steps() {
        let of =
            |sizes: AllocationSizes| (sizes.to_desc().device_block_bytes_max, sizes.to_desc().host_block_bytes_max);
        assert_eq!(of(AllocationSizes::default()), (256 << 20, 64 << 20));
        assert_eq!(of(AllocationSizes::new(1, u64::MAX)), (4 << 20, 256 << 20));
        assert_eq!(of(AllocationSizes::new((8 << 20) + 1, 8 << 20)), (12 << 20, 8 << 20));
        let growing = AllocationSizes::new(8 << 20, 8 << 20);
        let growing = growing.with_max_device_memblock_size(64 << 20).with_max_host_memblock_size(4 << 20);
        assert_eq!(of(growing), (32 << 20, 8 << 20), "half of the largest size, but at least the smallest");
    }
}
