//! The allocator over a Direct3D 12 device, and the types and handles of this API.

use windows::Win32::Graphics::Direct3D12::ID3D12Device;
use windows::Win32::Graphics::Dxgi::IDXGIAdapter;

use crate::device::DeviceError;
pub use ringfence_d3d12::*;
use ringfence_memory::memory::AllocatorDesc;

native_types!("Direct3D 12");

// Inlined into the program, so that the allocator is compiled once, there, and not in this crate too.
impl Allocator {
    /// Creates an allocator over a device that was opened with optional features.
    #[must_use]
    #[inline]
    pub fn over(device: Device, desc: AllocatorDesc) -> Self {
        Self(ringfence_memory::Allocator::over(device, desc))
    }

    /// Creates an allocator over the program's device. If `adapter` is `None`, uses the adapter of the device.
    ///
    /// # Errors
    /// A query that every device supports failed, because the device is lost or out of memory.
    #[inline]
    pub fn new(
        device: &ID3D12Device,
        adapter: Option<&IDXGIAdapter>,
        desc: AllocatorDesc,
    ) -> Result<Self, DeviceError> {
        Ok(Self::over(Device::new(device, adapter)?, desc))
    }
}
