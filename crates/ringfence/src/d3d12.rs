//! The allocator over a Direct3D 12 device, and types and handles of that API.

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
    /// Creates an allocator over a device that was opened with optional features.
    #[must_use]
    pub fn over(device: Device, desc: AllocatorDesc) -> Self {
        Self(ringfence_memory::Allocator::over(device, desc))
    }

    /// Creates an allocator over the program's device. Without an adapter, the adapter of the device is looked up.
    ///
    /// # Errors
    /// A query that every device supports fails: the device is lost or out of memory.
    pub fn new(
        device: &ID3D12Device,
        adapter: Option<&IDXGIAdapter>,
        desc: AllocatorDesc,
    ) -> Result<Self, DeviceError> {
        Ok(Self::over(Device::new(device, adapter)?, desc))
    }
}

impl Binding<Device> {
    /// Sets the heaps on a command list. Call it once, before you record anything else.
    ///
    /// # Errors
    /// [`DescriptorError::AlreadyBound`] for every later call.
    ///
    /// # Safety
    /// The list must be open, belong to this device, and have no descriptor heaps set.
    pub unsafe fn set(&mut self, list: &ID3D12GraphicsCommandList) -> Result<(), DescriptorError> {
        let heaps: SmallVec<[_; 2]> = self.set_once()?.map(|heap| Some(heap.raw().clone())).collect();
        // SAFETY: the caller promises that the list is open. The heaps are alive, of at most two kinds, each once.
        unsafe { list.SetDescriptorHeaps(&heaps) };
        Ok(())
    }
}
