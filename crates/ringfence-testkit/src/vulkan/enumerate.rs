//! The list of Vulkan devices, as plain data for people and scripts. No device is opened.

use ash::vk;
use ringfence::device::{Capabilities, DeviceError};
use ringfence::vulkan;

use super::instance::{Instance, ONE_AT_A_TIME};
use crate::{OpenError, Options};

/// The properties of a Vulkan device that are known before it is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceSummary {
    /// Name of the device.
    pub name: String,
    /// `discrete`, `integrated`, `virtual`, `cpu` or `other`.
    pub kind: &'static str,
    /// Vulkan version of the device, such as `1.3.230`.
    pub api_version: String,
    /// Name and version of the driver; empty if the driver is too old to report them.
    pub driver: String,
    /// Memory heaps, memory types and limits; or the reason why Ringfence cannot use the device.
    pub capabilities: Result<Capabilities, DeviceError>,
    /// Current usage and budget of each memory heap; `None` if the driver does not report them.
    pub budgets: Option<ringfence::device::HeapBudgets>,
}

/// Lists the Vulkan devices of this machine, in the loader's order.
///
/// # Errors
/// [`OpenError::Absent`] with the reason if there is no loader, no driver or no device.
pub fn enumerate() -> Result<Vec<DeviceSummary>, OpenError> {
    let _one = ONE_AT_A_TIME.lock();
    let instance = Instance::new(&Options::default())?;
    let devices = instance.physical_devices()?;
    Ok(devices.into_iter().map(|physical| summary(instance.raw(), physical)).collect())
}

fn summary(instance: &ash::Instance, physical: vk::PhysicalDevice) -> DeviceSummary {
    // SAFETY: the physical device belongs to the instance, which is alive.
    let properties = unsafe { instance.get_physical_device_properties(physical) };
    // SAFETY: as above, and the instance was created for Vulkan 1.2.
    let capabilities = unsafe { vulkan::capabilities(instance, physical) };
    let usable = capabilities.is_ok();
    DeviceSummary {
        name: name(&properties),
        kind: kind(properties.device_type),
        api_version: version(properties.api_version),
        driver: if usable { driver(instance, physical) } else { String::new() },
        capabilities,
        // SAFETY: as above.
        budgets: if usable { unsafe { vulkan::budgets(instance, physical) } } else { None },
    }
}

/// Returns the driver's name and its own description. The device must support Vulkan 1.2.
fn driver(instance: &ash::Instance, physical: vk::PhysicalDevice) -> String {
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
    // SAFETY: the physical device belongs to the instance, is alive, and supports Vulkan 1.2.
    unsafe { instance.get_physical_device_properties2(physical, &mut properties) };
    let texts = [driver.driver_name_as_c_str(), driver.driver_info_as_c_str()];
    let texts = texts.map(|text| text.unwrap_or_default().to_string_lossy().into_owned());
    texts.join(" ").trim().to_owned()
}

pub(super) fn name(properties: &vk::PhysicalDeviceProperties) -> String {
    properties.device_name_as_c_str().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns a Vulkan version in the form `1.2.3`.
pub(super) fn version(version: u32) -> String {
    let parts = [vk::api_version_major(version), vk::api_version_minor(version), vk::api_version_patch(version)];
    parts.map(|part| part.to_string()).join(".")
}

fn kind(device_type: vk::PhysicalDeviceType) -> &'static str {
    match device_type {
        vk::PhysicalDeviceType::DISCRETE_GPU => "discrete",
        vk::PhysicalDeviceType::INTEGRATED_GPU => "integrated",
        vk::PhysicalDeviceType::VIRTUAL_GPU => "virtual",
        vk::PhysicalDeviceType::CPU => "cpu",
        _ => "other",
    }
}
