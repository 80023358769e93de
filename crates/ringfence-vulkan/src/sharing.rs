//! Memory that is shared with other processes: `VK_KHR_external_memory_fd`, `VK_EXT_external_memory_dma_buf`,
//! `VK_KHR_external_memory_win32`.
//!
//! ```text
//!   prepare_shared    VkExternalMemoryBufferCreateInfo / VkExternalMemoryImageCreateInfo
//!   allocate          VkExportMemoryAllocateInfo, or VkImportMemoryFdInfoKHR with the handle, which the driver owns
//!                     after success; with VkMemoryDedicatedAllocateInfo if the memory is tied to a resource
//!   import_types      vkGetMemoryFdPropertiesKHR, for a dma-buf
//!   export_memory     vkGetMemoryFdKHR, vkGetMemoryWin32HandleKHR
//! ```

#[cfg(unix)]
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
#[cfg(windows)]
use std::os::windows::io::{FromRawHandle, OwnedHandle};

use ash::vk;

use crate::error::failed;

use super::device::Device;
use super::external::{Import, NOT_ENABLED, ShareHandle, handle_type};
use super::memory::{Memory, Owner};
use ringfence_hal::sharing::{Share, ShareKind, Tied};
use ringfence_hal::{DeviceError, Driver, MemoryDesc};

// SAFETY: file descriptors and handles are owned values of the standard library, which close when they are dropped.
// Handles from the driver are converted to such values.
unsafe impl Share for Device {
    type Handle = ShareHandle;

    fn share_identity(&self) -> [u8; 32] {
        self.0.sharing.identity
    }

    #[cfg(unix)]
    unsafe fn export_memory(&self, memory: &Memory, kind: ShareKind) -> Result<OwnedFd, DeviceError> {
        let calls = self.0.sharing.fd.as_ref().filter(|_| self.0.sharing.has(kind)).ok_or(NOT_ENABLED)?;
        let info = vk::MemoryGetFdInfoKHR::default().memory(memory.raw()).handle_type(handle_type(kind)?);
        // SAFETY: the caller promises that the memory was allocated for this kind. The descriptor is new and has no
        // other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(calls.get_memory_fd(&info).map_err(failed("vkGetMemoryFdKHR"))?) })
    }

    #[cfg(windows)]
    unsafe fn export_memory(&self, memory: &Memory, kind: ShareKind) -> Result<OwnedHandle, DeviceError> {
        let calls = self.0.sharing.win32.as_ref().filter(|_| self.0.sharing.has(kind)).ok_or(NOT_ENABLED)?;
        let info = vk::MemoryGetWin32HandleInfoKHR::default().memory(memory.raw()).handle_type(handle_type(kind)?);
        // SAFETY: the caller promises that the memory was allocated for this kind. The handle is new and has no other
        // owner.
        Ok(unsafe {
            OwnedHandle::from_raw_handle(
                calls.get_memory_win32_handle(&info).map_err(failed("vkGetMemoryWin32HandleKHR"))? as *mut _,
            )
        })
    }

    #[cfg(unix)]
    fn import_types(&self, handle: &OwnedFd, kind: ShareKind, memory_type: u32) -> Result<u32, DeviceError> {
        let asked = (kind == ShareKind::DmaBuf).then(|| self.dma_buf_types(handle));
        asked.unwrap_or_else(|| Ok(1_u32.checked_shl(memory_type).unwrap_or(0)))
    }

    unsafe fn import_memory(
        &self,
        handle: ShareHandle,
        desc: &MemoryDesc<'_>,
        tied: Tied<'_, Self>,
    ) -> Result<<Self as Driver>::Memory, DeviceError> {
        let kind = desc.share.filter(|kind| self.0.sharing.has(*kind)).ok_or(NOT_ENABLED)?;
        #[cfg(unix)]
        if kind == ShareKind::DmaBuf {
            DeviceError::invalid("a dma-buf cannot be imported as this memory type, one bit each")
                .flags(1 << desc.memory_type, self.dma_buf_types(&handle)?.into())?;
        }
        let owner = match tied {
            Tied::Nothing => None,
            Tied::Buffer(buffer) => Some(Owner::Buffer(*buffer)),
            Tied::Texture(image) => Some(Owner::Image(*image)),
        };
        let import = Import { handle, handle_type: handle_type(kind)? };
        // SAFETY: the caller promises that the kind, size, memory type and tied resource are those of the handle.
        unsafe { self.allocate(desc, owner, Some(import)) }
    }
}

#[cfg(unix)]
impl Device {
    /// Returns the memory types that can import a dma-buf, as a bit mask. Vulkan does not allow this query for opaque
    /// handles.
    fn dma_buf_types(&self, handle: &OwnedFd) -> Result<u32, DeviceError> {
        let calls = self.0.sharing.fd.as_ref().filter(|_| self.0.sharing.has(ShareKind::DmaBuf)).ok_or(NOT_ENABLED)?;
        let mut found = vk::MemoryFdPropertiesKHR::default();
        let handle_type = vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT;
        // SAFETY: the descriptor is open and stays open during the call.
        unsafe { calls.get_memory_fd_properties(handle_type, handle.as_raw_fd(), &mut found) }
            .map_err(failed("vkGetMemoryFdPropertiesKHR"))?;
        Ok(found.memory_type_bits)
    }
}
