//! The allocator over a Direct3D 12 device, and the API's own objects of what it makes.

mod transient;

use smallvec::SmallVec;
use windows::Win32::Graphics::Direct3D12::{ID3D12Device, ID3D12GraphicsCommandList};
use windows::Win32::Graphics::Dxgi::IDXGIAdapter;

use crate::descriptor::{Binding, DescriptorError};
use crate::device::DeviceError;
pub use ringfence_d3d12::*;
use ringfence_memory::memory::AllocatorDesc;

native_types!("Direct3D 12");

impl Allocator {
    /// Makes an allocator over a device that was opened with optional features.
    #[must_use]
    pub fn over(device: Device, desc: AllocatorDesc) -> Self {
        Self(ringfence_memory::Allocator::over(device, desc))
    }

    /// Makes an allocator over the program's device. Without an adapter, the device's own is looked up.
    ///
    /// # Errors
    /// A query that every device supports has failed: the device is lost, or out of memory.
    pub fn new(
        device: &ID3D12Device,
        adapter: Option<&IDXGIAdapter>,
        desc: AllocatorDesc,
    ) -> Result<Self, DeviceError> {
        Ok(Self::over(Device::new(device, adapter)?, desc))
    }
}

impl Binding<Device> {
    /// Sets the heaps on a command list: once, before anything else is recorded.
    ///
    /// # Errors
    /// [`DescriptorError::AlreadyBound`] at every later call.
    ///
    /// # Safety
    /// The list is open, of this device, and was not given descriptor heaps before.
    pub unsafe fn set(&mut self, list: &ID3D12GraphicsCommandList) -> Result<(), DescriptorError> {
        let heaps: SmallVec<[_; 2]> = self.set_once()?.map(|heap| Some(heap.raw().clone())).collect();
        // SAFETY: the caller promises that the list is open; the heaps are alive, of two kinds at most, each once.
        unsafe { list.SetDescriptorHeaps(&heaps) };
        Ok(())
    }
}
