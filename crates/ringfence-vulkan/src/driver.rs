//! The memory and fences of a device.

use std::time::Duration;

use ash::vk;

use super::capabilities;
use super::device::Device;
use super::error::{device_error, failed};
use super::memory::Memory;
use ringfence_hal::{
    Capabilities, DeviceError, Driver, Format, FormatSupport, HeapBudgets, Mapped, MemoryDesc, Priority,
};

/// Time for which a queried budget may be reused: shorter than a frame. A query takes 6 µs on one driver.
const BUDGETS_HOLD_FOR: Duration = Duration::from_millis(1);

// SAFETY: memory is mapped once, when it is allocated, and stays mapped until it is freed (`memory.rs`). All objects
// come from the driver.
unsafe impl Driver for Device {
    type Memory = Memory;
    type Fence = vk::Semaphore;
    type Pageable = ();

    fn capabilities(&self) -> &Capabilities {
        &self.0.found.capabilities
    }

    fn format_support(&self, format: Format) -> FormatSupport {
        self.supported_uses(format)
    }

    unsafe fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<Memory, DeviceError> {
        // SAFETY: the caller promises that the memory type exists.
        unsafe { self.allocate(desc, None, None) }
    }

    unsafe fn free_memory(&self, memory: Memory) {
        // SAFETY: the caller promises that the memory belongs to this device and is unused.
        unsafe { self.free(memory.raw()) }
    }

    unsafe fn flush(&self, memory: &Memory, offset: u64, size: u64) -> Result<(), DeviceError> {
        if size == 0 {
            return Ok(());
        }
        let range = self.mapped_range(memory, offset, size);
        // SAFETY: the caller promises that the memory is mapped; the range is inside it and aligned to atoms.
        unsafe { self.0.device.flush_mapped_memory_ranges(&[range]) }.map_err(failed("vkFlushMappedMemoryRanges"))
    }

    unsafe fn read_back(
        &self,
        memory: &Memory,
        offset: u64,
        mapped: Mapped,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        if self.capabilities().is_non_coherent(memory.memory_type()) && !into.is_empty() {
            let range = self.mapped_range(memory, offset, into.len() as u64);
            // SAFETY: the caller promises that the memory is mapped; the range is inside it and aligned to atoms.
            unsafe { self.0.device.invalidate_mapped_memory_ranges(&[range]) }
                .map_err(failed("vkInvalidateMappedMemoryRanges"))?;
        }
        // SAFETY: the caller promises `into.len()` mapped bytes at `mapped`. `into` is exclusive, so it does not
        // overlap the mapping.
        unsafe { std::ptr::copy_nonoverlapping(mapped.as_ptr(), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    unsafe fn completed(&self, fence: &vk::Semaphore) -> Result<u64, DeviceError> {
        self.check_whole()?;
        // SAFETY: the caller promises that the semaphore belongs to this device, is a timeline, and is alive.
        match unsafe { self.0.device.get_semaphore_counter_value(*fence) } {
            // Some drivers return this value instead of the error when the device is lost.
            Ok(u64::MAX) => Err(DeviceError::Lost),
            Ok(value) => Ok(value),
            Err(error) => Err(device_error(error, "vkGetSemaphoreCounterValue")),
        }
    }

    unsafe fn wait(&self, fence: &vk::Semaphore, value: u64, timeout: Duration) -> Result<bool, DeviceError> {
        self.check_whole()?;
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let (fences, values) = ([*fence], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&fences).values(&values);
        // SAFETY: the caller promises that the semaphore belongs to this device, is a timeline, and is alive.
        match unsafe { self.0.device.wait_semaphores(&info, timeout_ns) } {
            // Vulkan allows a wait on a lost device to succeed. Only the fence's value proves that the work is
            // complete.
            // SAFETY: the caller promises that the semaphore belongs to this device, is a timeline, and is alive.
            Ok(()) => match unsafe { self.completed(fence) }? {
                reached if reached >= value => Ok(true),
                _ => Err(DeviceError::Lost),
            },
            Err(vk::Result::TIMEOUT) => Ok(false),
            Err(error) => Err(device_error(error, "vkWaitSemaphores")),
        }
    }

    fn mapped(&self, memory: &Memory) -> Option<Mapped> {
        memory.mapped()
    }

    fn is_tied(&self, memory: &Memory) -> bool {
        memory.is_tied()
    }

    unsafe fn set_priority(&self, memory: &Memory, priority: Priority) {
        if let Some(pageable) = &self.0.pageable {
            // SAFETY: the caller promises that the memory belongs to this device and is alive. The extension was
            // enabled.
            unsafe {
                (pageable.fp().set_device_memory_priority_ext)(pageable.device(), memory.raw(), priority.as_f32())
            };
        }
    }

    fn budgets(&self) -> Option<HeapBudgets> {
        // SAFETY: `physical` comes from `instance`, and both outlive this device (see `new`).
        self.0.found.memory_budget.then(|| unsafe { capabilities::read_budgets(&self.0.instance, self.0.physical) })
    }

    fn budgets_hold_for(&self) -> Duration {
        BUDGETS_HOLD_FOR
    }
}
