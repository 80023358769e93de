//! [`Driver`] for the device: memory and fences.

use std::time::Duration;

use windows::Win32::Graphics::Direct3D12::*;

use super::device::Device;
use super::memory::Memory;
use super::{capabilities, error, event};
use ringfence_hal::{
    Capabilities, DeviceError, Driver, Format, FormatSupport, HeapBudgets, Mapped, MemoryDesc, Priority,
};

/// Time for which a queried budget may be reused: shorter than a frame. A query is a system call.
const BUDGETS_HOLD_FOR: Duration = Duration::from_millis(1);

// SAFETY: a buffer in a host-visible heap is mapped when it is created. This crate never unmaps it, so it stays mapped
// until the driver destroys it. The driver has returned each object with success.
unsafe impl Driver for Device {
    type Memory = Memory;
    type Fence = ID3D12Fence;
    type Pageable = ID3D12Pageable;

    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    fn format_support(&self, format: Format) -> FormatSupport {
        self.supported_uses(format)
    }

    unsafe fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<Memory, DeviceError> {
        self.create_heap(desc)
    }

    fn pageable(&self, memory: &Memory) -> Option<ID3D12Pageable> {
        memory.pageable.clone()
    }

    unsafe fn make_resident(&self, memory: &[ID3D12Pageable]) -> Result<(), DeviceError> {
        let objects: Vec<_> = memory.iter().cloned().map(Some).collect();
        // SAFETY: the objects are alive. The caller promises that they belong to this device.
        let made = unsafe { self.raw().MakeResident(&objects) };
        made.map_err(error::failed(error::call!("ID3D12Device::MakeResident", "making memory resident")))
    }

    unsafe fn evict(&self, memory: &[ID3D12Pageable]) -> Result<(), DeviceError> {
        let objects: Vec<_> = memory.iter().cloned().map(Some).collect();
        // SAFETY: the objects are alive. The caller promises that they belong to this device and that no work uses
        // them.
        let evicted = unsafe { self.raw().Evict(&objects) };
        evicted.map_err(error::failed(error::call!("ID3D12Device::Evict", "evicting memory")))
    }

    unsafe fn set_priority(&self, memory: &Memory, priority: Priority) {
        self.set_residency_priority(memory, priority);
    }

    unsafe fn free_memory(&self, memory: Memory) {
        drop(memory); // the last reference, unless the program holds its own
    }

    unsafe fn flush(&self, _memory: &Memory, _offset: u64, _size: u64) -> Result<(), DeviceError> {
        Ok(()) // all heap types that can be mapped are coherent
    }

    unsafe fn read_back(
        &self,
        _memory: &Memory,
        _offset: u64,
        mapped: Mapped,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller promises that `mapped` is the mapping of the range, and that it has at least the length of
        // `into`. `into` is an exclusive slice of other memory, so it does not overlap the mapping.
        unsafe { std::ptr::copy_nonoverlapping(mapped.as_ptr(), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    unsafe fn completed(&self, fence: &ID3D12Fence) -> Result<u64, DeviceError> {
        event::completed(fence)
    }

    unsafe fn wait(&self, fence: &ID3D12Fence, value: u64, timeout: Duration) -> Result<bool, DeviceError> {
        self.0.events.wait(fence, value, timeout)
    }

    fn map_whole(&self, memory: &Memory) -> Option<Mapped> {
        memory.window.get_or_init(|| self.make_window(memory)).as_ref().map(|(_, mapped)| *mapped)
    }

    fn budgets(&self) -> Option<HeapBudgets> {
        capabilities::budgets(self.adapter()?, self.0.capabilities.memory_heaps.len())
    }

    fn budgets_hold_for(&self) -> Duration {
        BUDGETS_HOLD_FOR
    }
}
