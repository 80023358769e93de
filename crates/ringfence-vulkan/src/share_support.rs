//! The device's support of shared memory for buffers and images.

use ash::vk;

use super::device::Device;
use super::external::handle_type;
use ringfence_hal::sharing::{ShareKind, ShareSupport};
use ringfence_hal::{DeviceError, Requirements};

/// Converts Vulkan's properties.
fn support(found: vk::ExternalMemoryProperties) -> ShareSupport {
    let has = |flag| found.external_memory_features.contains(flag);
    ShareSupport {
        can_export: has(vk::ExternalMemoryFeatureFlags::EXPORTABLE),
        can_import: has(vk::ExternalMemoryFeatureFlags::IMPORTABLE),
        needs_dedicated: has(vk::ExternalMemoryFeatureFlags::DEDICATED_ONLY),
    }
}

/// Returns an error if the memory of the resource can be neither exported nor imported.
pub(super) fn check(support: ShareSupport) -> Result<ShareSupport, DeviceError> {
    let nothing = !support.can_export && !support.can_import;
    if nothing { Err(DeviceError::unsupported("sharing the memory of such a resource")) } else { Ok(support) }
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
        let mut found = vk::ExternalBufferProperties::default();
        let (instance, physical) = (&self.0.instance, self.0.physical);
        // SAFETY: the physical device belongs to the instance and is alive (see `Device::new`).
        unsafe { instance.get_physical_device_external_buffer_properties(physical, &asked, &mut found) };
        support(found.external_memory_properties)
    }

    /// Returns the device's support of shared memory for an image, and the limits for such images.
    pub(super) fn shared_image(
        &self,
        info: &vk::ImageCreateInfo<'_>,
        kind: ShareKind,
    ) -> (ShareSupport, vk::ImageFormatProperties) {
        let Ok(handle_type) = handle_type(kind) else { return Default::default() };
        // For images with a DRM format modifier, the query needs the modifier, which is not known here.
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
        let mut found = vk::ExternalImageFormatProperties::default();
        let mut properties = vk::ImageFormatProperties2::default().push_next(&mut found);
        let (instance, physical) = (&self.0.instance, self.0.physical);
        // SAFETY: the physical device belongs to the instance and is alive. Vulkan 1.1 has the structures.
        let asked = unsafe { instance.get_physical_device_image_format_properties2(physical, &asked, &mut properties) };
        let most = properties.image_format_properties;
        if asked.is_ok() { (support(found.external_memory_properties), most) } else { Default::default() }
    }
}

pub(super) fn tied(needs: Requirements, support: ShareSupport) -> Requirements {
    Requirements { requires_dedicated: needs.requires_dedicated || support.needs_dedicated, ..needs }
}
