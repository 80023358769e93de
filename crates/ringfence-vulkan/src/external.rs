//! Handles to shared memory, and the commands of the sharing extensions.

#[cfg(unix)]
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
#[cfg(windows)]
use std::os::windows::io::{AsRawHandle, OwnedHandle};

use ash::vk;

use super::features::Features;
use ringfence_hal::DeviceError;
use ringfence_hal::sharing::ShareKind;

/// A file descriptor for shared memory.
#[cfg(unix)]
pub type ShareHandle = OwnedFd;
/// A Windows handle to shared memory.
#[cfg(windows)]
pub type ShareHandle = OwnedHandle;

pub(super) const NOT_ENABLED: DeviceError =
    DeviceError::unsupported("handles of this kind: the extension was not enabled");

/// Commands of the sharing extensions that [`Features`] lists.
pub(super) struct Calls {
    #[cfg(unix)]
    pub(super) fd: Option<ash::khr::external_memory_fd::Device>,
    #[cfg(unix)]
    has_dma_buf: bool,
    #[cfg(windows)]
    pub(super) win32: Option<ash::khr::external_memory_win32::Device>,
    /// UUID of the device, followed by the UUID of the driver.
    pub(super) identity: [u8; 32],
}

impl Calls {
    /// # Safety
    /// `device` was created from `physical`, which comes from `instance`. All are alive, and `features` are enabled.
    pub(super) unsafe fn load(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        device: &ash::Device,
        features: Features,
    ) -> Self {
        let mut ids = vk::PhysicalDeviceIDProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut ids);
        // SAFETY: the caller promises that `physical` comes from `instance`. Vulkan 1.1 has the structure.
        unsafe { instance.get_physical_device_properties2(physical, &mut properties) };
        let mut identity = [0; 32];
        identity[..16].copy_from_slice(&ids.device_uuid);
        identity[16..].copy_from_slice(&ids.driver_uuid);
        let _ = (device, features);
        Self {
            #[cfg(unix)]
            fd: features
                .contains(Features::EXTERNAL_MEMORY_FD)
                .then(|| ash::khr::external_memory_fd::Device::new(instance, device)),
            #[cfg(unix)]
            has_dma_buf: features.contains(Features::EXTERNAL_MEMORY_DMA_BUF),
            #[cfg(windows)]
            win32: features
                .contains(Features::EXTERNAL_MEMORY_WIN32)
                .then(|| ash::khr::external_memory_win32::Device::new(instance, device)),
            identity,
        }
    }

    /// Returns a value without commands, for a device that cannot share memory.
    pub(super) fn none() -> Self {
        Self {
            #[cfg(unix)]
            fd: None,
            #[cfg(unix)]
            has_dma_buf: false,
            #[cfg(windows)]
            win32: None,
            identity: [0; 32],
        }
    }

    pub(super) fn has(&self, kind: ShareKind) -> bool {
        match kind {
            #[cfg(unix)]
            ShareKind::OpaqueFd => self.fd.is_some(),
            #[cfg(unix)]
            ShareKind::DmaBuf => self.has_dma_buf,
            #[cfg(windows)]
            ShareKind::OpaqueWin32 => self.win32.is_some(),
            _ => false,
        }
    }
}

/// Returns Vulkan's flag for a kind of handle.
pub(super) fn handle_type(kind: ShareKind) -> Result<vk::ExternalMemoryHandleTypeFlags, DeviceError> {
    match kind {
        ShareKind::OpaqueFd => Ok(vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD),
        ShareKind::DmaBuf => Ok(vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT),
        ShareKind::OpaqueWin32 => Ok(vk::ExternalMemoryHandleTypeFlags::OPAQUE_WIN32),
        _ => Err(DeviceError::unsupported("handles of this kind on Vulkan")),
    }
}

/// Handle for an import. If the import does not take place, dropping this value closes the handle.
pub(super) struct Import {
    pub(super) handle: ShareHandle,
    pub(super) handle_type: vk::ExternalMemoryHandleTypeFlags,
}

impl Import {
    /// Consumes the handle. Must be called after a successful import. The driver then owns a file descriptor, so the
    /// descriptor stays open; a Windows handle is closed.
    pub(super) fn used_up(self) {
        #[cfg(unix)]
        let _ = self.handle.into_raw_fd();
        #[cfg(windows)]
        drop(self.handle);
    }
}

/// Structure for an [`Import`] that is chained to `VkMemoryAllocateInfo`.
pub(super) struct RawImport<'a> {
    #[cfg(unix)]
    raw: Option<vk::ImportMemoryFdInfoKHR<'a>>,
    #[cfg(windows)]
    raw: Option<vk::ImportMemoryWin32HandleInfoKHR<'a>>,
}

#[cfg(unix)]
fn chained(import: &Import) -> vk::ImportMemoryFdInfoKHR<'static> {
    vk::ImportMemoryFdInfoKHR::default().handle_type(import.handle_type).fd(import.handle.as_raw_fd())
}

#[cfg(windows)]
fn chained(import: &Import) -> vk::ImportMemoryWin32HandleInfoKHR<'static> {
    let handle = import.handle.as_raw_handle() as vk::HANDLE;
    vk::ImportMemoryWin32HandleInfoKHR::default().handle_type(import.handle_type).handle(handle)
}

impl<'a> RawImport<'a> {
    pub(super) fn of(import: Option<&Import>) -> Self {
        let raw = import.map(chained);
        Self { raw }
    }

    pub(super) fn push_to(&'a mut self, info: vk::MemoryAllocateInfo<'a>) -> vk::MemoryAllocateInfo<'a> {
        match &mut self.raw {
            Some(raw) => info.push_next(raw),
            None => info,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_vulkans_own_kinds_have_a_handle_type() {
        assert_eq!(handle_type(ShareKind::OpaqueFd), Ok(vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD));
        assert_eq!(handle_type(ShareKind::DmaBuf), Ok(vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT));
        assert!(handle_type(ShareKind::Simulated).is_err() && handle_type(ShareKind::D3d12Heap).is_err());
    }
}
