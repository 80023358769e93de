//! Which Vulkan devices there are, for people and scripts: plain data, no device is opened.

use ash::vk;
use ringfence::device::{Capabilities, DeviceError};
use ringfence::vulkan;

use super::instance::{Instance, ONE_AT_A_TIME};
use crate::{OpenError, Options};

/// What there is to know of a Vulkan device before it is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceSummary {
    /// The device's name.
    pub name: String,
    /// `discrete`, `integrated`, `virtual`, `cpu` or `other`.
    pub kind: &'static str,
    /// The Vulkan version of the device, such as `1.3.230`.
    pub api_version: String,
    /// The driver's name and version; empty if it is too old to tell.
    pub driver: String,
    /// Memory heaps and types, and limits; or why Ringfence cannot use the device.
    pub capabilities: Result<Capabilities, DeviceError>,
    /// Use and budget of each memory heap now; `None` where the driver does not tell.
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
    // SAFETY: the physical device is the instance's, which is alive; so below.
    let properties = unsafe { instance.get_physical_device_properties(physical) };
    // SAFETY: as above, and the instance is for Vulkan 1.2.
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

/// The driver's name and what it says of itself; for devices of Vulkan 1.2.
fn driver(instance: &ash::Instance, physical: vk::PhysicalDevice) -> String {
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
    // SAFETY: the physical device is the instance's, alive, and of Vulkan 1.2.
    unsafe { instance.get_physical_device_properties2(physical, &mut properties) };
    let texts = [driver.driver_name_as_c_str(), driver.driver_info_as_c_str()];
    let texts = texts.map(|text| text.unwrap_or_default().to_string_lossy().into_owned());
    texts.join(" ").trim().to_owned()
}

/// A device's name.
pub(super) fn name(properties: &vk::PhysicalDeviceProperties) -> String {
    properties.device_name_as_c_str().unwrap_or_default().to_string_lossy().into_owned()
}

/// A Vulkan version as people write it.
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
