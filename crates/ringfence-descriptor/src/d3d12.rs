//! Setting the shader-visible heaps on a Direct3D 12 command list.

use ringfence_d3d12::Device;
use smallvec::SmallVec;
use windows::Win32::Graphics::Direct3D12::ID3D12GraphicsCommandList;

use crate::Binding;
use crate::device::descriptors::DescriptorError;

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
