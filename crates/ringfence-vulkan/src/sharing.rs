//! Memory that other processes see too: `VK_KHR_external_memory_fd`, `VK_EXT_external_memory_dma_buf`,
//! `VK_KHR_external_memory_win32`.
//!
//! ```text
//!   prepare_shared    VkExternalMemoryBufferCreateInfo / VkExternalMemoryImageCreateInfo
//!   allocate          VkExportMemoryAllocateInfo, or VkImportMemoryFdInfoKHR with the handle, which is the driver's from
//!                     then on if that succeeds; with VkMemoryDedicatedAllocateInfo where the memory is tied
//!   export_memory     vkGetMemoryFdKHR, vkGetMemoryWin32HandleKHR
//! ```

#[cfg(unix)]
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
#[cfg(windows)]
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

use ash::vk;

use crate::error::device_error;

use super::info::{BufferInfo, TextureInfo};
use super::memory::{Memory, Owner};
use super::{Device, DeviceDesc, valid};
use ringfence_hal::sharing::{Share, ShareKind, ShareSupport, Tied};
use ringfence_hal::{Buffers, Create, DeviceError, Driver, MemoryDesc, Requirements, Textures};

/// A handle to memory.
#[cfg(unix)]
pub type ShareHandle = OwnedFd;
/// A handle to memory.
#[cfg(windows)]
pub type ShareHandle = OwnedHandle;

const NOT_ENABLED: DeviceError = DeviceError::Unsupported("handles of this kind: the extension was not enabled");

/// What was loaded of the extensions that `DeviceDesc` names.
pub(super) struct Calls {
    #[cfg(unix)]
    fd: Option<ash::khr::external_memory_fd::Device>,
    #[cfg(unix)]
    has_dma_buf: bool,
    #[cfg(windows)]
    win32: Option<ash::khr::external_memory_win32::Device>,
    /// Of the device, then of the driver.
    identity: [u8; 32],
}

impl Calls {
    /// # Safety
    /// `device` comes from `physical` and that from `instance`; all are alive, and `desc` is true.
    pub(super) unsafe fn load(
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
        device: &ash::Device,
        desc: DeviceDesc,
    ) -> Self {
        let mut ids = vk::PhysicalDeviceIDProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut ids);
        // SAFETY: the caller promises that `physical` comes from `instance`; Vulkan 1.1 has the structure.
        unsafe { instance.get_physical_device_properties2(physical, &mut properties) };
        let mut identity = [0; 32];
        identity[..16].copy_from_slice(&ids.device_uuid);
        identity[16..].copy_from_slice(&ids.driver_uuid);
        let _ = (device, desc);
        Self {
            #[cfg(unix)]
            fd: desc.external_memory_fd.then(|| ash::khr::external_memory_fd::Device::new(instance, device)),
            #[cfg(unix)]
            has_dma_buf: desc.external_memory_fd && desc.external_memory_dma_buf,
            #[cfg(windows)]
            win32: desc.external_memory_win32.then(|| ash::khr::external_memory_win32::Device::new(instance, device)),
            identity,
        }
    }

    /// Of a device that shares no memory.
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

    fn has(&self, kind: ShareKind) -> bool {
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

/// Vulkan's word for a kind.
pub(super) fn handle_type(kind: ShareKind) -> Result<vk::ExternalMemoryHandleTypeFlags, DeviceError> {
    match kind {
        ShareKind::OpaqueFd => Ok(vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD),
        ShareKind::DmaBuf => Ok(vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT),
        ShareKind::OpaqueWin32 => Ok(vk::ExternalMemoryHandleTypeFlags::OPAQUE_WIN32),
        _ => Err(DeviceError::Unsupported("handles of this kind on Vulkan")),
    }
}

/// A handle on its way into the driver. Closed when it is dropped.
pub(super) struct Import {
    handle: ShareHandle,
    handle_type: vk::ExternalMemoryHandleTypeFlags,
}

impl Import {
    /// The driver has taken it over: a file descriptor is the driver's then, a Windows handle is to be closed.
    pub(super) fn used_up(self) {
        #[cfg(unix)]
        let _ = self.handle.into_raw_fd();
        #[cfg(windows)]
        drop(self.handle);
    }
}

/// What is chained to the allocation for an [`Import`].
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

/// What Vulkan says of a kind, in Ringfence's terms.
fn support(told: vk::ExternalMemoryProperties) -> ShareSupport {
    let has = |flag| told.external_memory_features.contains(flag);
    ShareSupport {
        can_export: has(vk::ExternalMemoryFeatureFlags::EXPORTABLE),
        can_import: has(vk::ExternalMemoryFeatureFlags::IMPORTABLE),
        needs_dedicated: has(vk::ExternalMemoryFeatureFlags::DEDICATED_ONLY),
    }
}

/// The kinds of a resource that can be shared, or why it cannot.
fn check(support: ShareSupport) -> Result<ShareSupport, DeviceError> {
    let nothing = !support.can_export && !support.can_import;
    if nothing { Err(DeviceError::Unsupported("sharing the memory of such a resource")) } else { Ok(support) }
}

impl Device {
    pub(super) fn buffer_share_support(&self, info: &vk::BufferCreateInfo<'_>, kind: ShareKind) -> ShareSupport {
        let Ok(handle_type) = handle_type(kind) else { return ShareSupport::default() };
        if !self.0.sharing.has(kind) {
            return ShareSupport::default();
        }
        let asked = vk::PhysicalDeviceExternalBufferInfo::default()
            .flags(info.flags)
            .usage(info.usage)
            .handle_type(handle_type);
        let mut told = vk::ExternalBufferProperties::default();
        let (instance, physical) = (&self.0.instance, self.0.physical);
        // SAFETY: the physical device is the instance's and alive (see `Device::new`).
        unsafe { instance.get_physical_device_external_buffer_properties(physical, &asked, &mut told) };
        support(told.external_memory_properties)
    }

    pub(super) fn image_share_support(&self, info: &vk::ImageCreateInfo<'_>, kind: ShareKind) -> ShareSupport {
        self.shared_image(info, kind).0
    }

    /// What can be done with the memory of such an image, and the limits that hold for it then.
    fn shared_image(
        &self,
        info: &vk::ImageCreateInfo<'_>,
        kind: ShareKind,
    ) -> (ShareSupport, vk::ImageFormatProperties) {
        let Ok(handle_type) = handle_type(kind) else { return Default::default() };
        // Of images with modifiers Vulkan is asked with the modifier, which is not known here.
        if !self.0.sharing.has(kind) || info.tiling == vk::ImageTiling::DRM_FORMAT_MODIFIER_EXT {
            return Default::default();
        }
        let mut external = vk::PhysicalDeviceExternalImageFormatInfo::default().handle_type(handle_type);
        let asked = vk::PhysicalDeviceImageFormatInfo2::default()
            .format(info.format)
            .ty(info.image_type)
            .tiling(info.tiling)
            .usage(info.usage)
            .flags(info.flags)
            .push_next(&mut external);
        let mut told = vk::ExternalImageFormatProperties::default();
        let mut properties = vk::ImageFormatProperties2::default().push_next(&mut told);
        let (instance, physical) = (&self.0.instance, self.0.physical);
        // SAFETY: as above; Vulkan 1.1 has the structures.
        let asked = unsafe { instance.get_physical_device_image_format_properties2(physical, &asked, &mut properties) };
        let most = properties.image_format_properties;
        if asked.is_ok() { (support(told.external_memory_properties), most) } else { Default::default() }
    }

    /// # Safety
    /// As [`Create::prepare`].
    pub(super) unsafe fn prepare_shared_buffer(
        &self,
        info: &BufferInfo<'_>,
        kind: ShareKind,
    ) -> Result<(vk::Buffer, Requirements), DeviceError> {
        if !self.0.sharing.has(kind) {
            return Err(NOT_ENABLED);
        }
        self.check_buffer(info)?;
        let support = check(self.buffer_share_support(info.raw(), kind))?;
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(handle_type(kind)?);
        let raw = info.raw().push_next(&mut external);
        // SAFETY: the caller promises that `info` is valid, and the device shares such buffers.
        let (object, needs) = unsafe { Create::<Buffers>::prepare(self, &BufferInfo::from_raw(raw)) }?;
        Ok((object, tied(needs, support)))
    }

    /// # Safety
    /// As [`Create::prepare`].
    pub(super) unsafe fn prepare_shared_image(
        &self,
        info: &TextureInfo<'_>,
        kind: ShareKind,
    ) -> Result<(vk::Image, Requirements), DeviceError> {
        if !self.0.sharing.has(kind) {
            return Err(NOT_ENABLED);
        }
        if info.is_unchecked() {
            self.check_described(info.raw())?;
        }
        if info.raw().initial_layout != vk::ImageLayout::UNDEFINED {
            return Err(DeviceError::InvalidInfo("a shared texture begins in the layout UNDEFINED"));
        }
        let (support, most) = self.shared_image(info.raw(), kind);
        check(support)?;
        valid::within(info.raw(), &most)?;
        let mut external = vk::ExternalMemoryImageCreateInfo::default().handle_types(handle_type(kind)?);
        let raw = info.raw().push_next(&mut external);
        // SAFETY: as above.
        let (object, needs) = unsafe { Create::<Textures>::prepare(self, &TextureInfo::from_raw(raw)) }?;
        Ok((object, tied(needs, support)))
    }
}

fn tied(needs: Requirements, support: ShareSupport) -> Requirements {
    Requirements { requires_dedicated: needs.requires_dedicated || support.needs_dedicated, ..needs }
}

// SAFETY: file descriptors and handles are owned values of the standard library, which close when they are dropped; the
// driver's own are taken over as such.
unsafe impl Share for Device {
    type Handle = ShareHandle;

    fn share_identity(&self) -> [u8; 32] {
        self.0.sharing.identity
    }

    #[cfg(unix)]
    unsafe fn export_memory(&self, memory: &Memory, kind: ShareKind) -> Result<OwnedFd, DeviceError> {
        let calls = self.0.sharing.fd.as_ref().filter(|_| self.0.sharing.has(kind)).ok_or(NOT_ENABLED)?;
        let info = vk::MemoryGetFdInfoKHR::default().memory(memory.raw()).handle_type(handle_type(kind)?);
        // SAFETY: the caller promises that the memory was made for this kind; the descriptor is new and the caller's.
        Ok(unsafe { OwnedFd::from_raw_fd(calls.get_memory_fd(&info).map_err(device_error)?) })
    }

    #[cfg(windows)]
    unsafe fn export_memory(&self, memory: &Memory, kind: ShareKind) -> Result<OwnedHandle, DeviceError> {
        let calls = self.0.sharing.win32.as_ref().filter(|_| self.0.sharing.has(kind)).ok_or(NOT_ENABLED)?;
        let info = vk::MemoryGetWin32HandleInfoKHR::default().memory(memory.raw()).handle_type(handle_type(kind)?);
        // SAFETY: the caller promises that the memory was made for this kind; the handle is new and the caller's.
        Ok(unsafe { OwnedHandle::from_raw_handle(calls.get_memory_win32_handle(&info)? as *mut _) })
    }

    unsafe fn import_memory(
        &self,
        handle: ShareHandle,
        desc: &MemoryDesc<'_>,
        tied: Tied<'_, Self>,
    ) -> Result<<Self as Driver>::Memory, DeviceError> {
        let kind = desc.share.filter(|kind| self.0.sharing.has(*kind)).ok_or(NOT_ENABLED)?;
        #[cfg(unix)]
        self.check_dma_buf(&handle, kind, desc.memory_type)?;
        let owner = match tied {
            Tied::Nothing => None,
            Tied::Buffer(buffer) => Some(Owner::Buffer(*buffer)),
            Tied::Texture(image) => Some(Owner::Image(*image)),
        };
        let import = Import { handle, handle_type: handle_type(kind)? };
        // SAFETY: the caller promises that the handle is of this kind, size and type, and what it is tied to.
        unsafe { self.allocate(desc, owner, Some(import)) }
    }
}

#[cfg(unix)]
impl Device {
    /// The driver knows which memory types it takes a dma-buf for; of its own handles it is not to be asked.
    fn check_dma_buf(&self, handle: &OwnedFd, kind: ShareKind, memory_type: u32) -> Result<(), DeviceError> {
        let Some(calls) = self.0.sharing.fd.as_ref().filter(|_| kind == ShareKind::DmaBuf) else { return Ok(()) };
        let mut told = vk::MemoryFdPropertiesKHR::default();
        let handle_type = vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT;
        // SAFETY: the descriptor is open, and stays so during the call.
        unsafe { calls.get_memory_fd_properties(handle_type, handle.as_raw_fd(), &mut told) }.map_err(device_error)?;
        let takes = told.memory_type_bits >> memory_type & 1 == 1;
        if takes { Ok(()) } else { Err(DeviceError::InvalidInfo("a dma-buf that no such memory type takes")) }
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
