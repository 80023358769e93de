//! What goes wrong in a driver.

use super::hresult::Hresult;

/// What went wrong in the driver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The host has no memory left.
    #[error("the host is out of memory")]
    OutOfHostMemory,
    /// The device has no memory left.
    #[error("the device is out of memory")]
    OutOfDeviceMemory,
    /// As many memory objects are alive as the driver allows.
    #[error("the driver's limit of memory objects is reached")]
    TooManyObjects,
    /// Memory could not be mapped.
    #[error("the memory could not be mapped")]
    MapFailed,
    /// The device is lost: nothing that was submitted will complete.
    #[error("the device is lost")]
    Lost,
    /// The device has no such thing.
    #[error("the device does not support this: {0}")]
    Unsupported(&'static str),
    /// The description is not valid.
    #[error("the description is not valid: {0}")]
    InvalidInfo(&'static str),
    /// Any other failure of Direct3D 12, with the call that failed.
    #[error("{0}")]
    Hresult(Hresult),
    /// Anything else, as the driver's own number: a `VkResult`, which prints with its name.
    #[error("the driver failed with {}", vk_result(*.0))]
    Other(i64),
}

/// A `VkResult` as people look it up: by name and number.
fn vk_result(code: i64) -> String {
    const NAMES: [(i64, &str); 15] = [
        (-1, "VK_ERROR_OUT_OF_HOST_MEMORY"),
        (-2, "VK_ERROR_OUT_OF_DEVICE_MEMORY"),
        (-3, "VK_ERROR_INITIALIZATION_FAILED"),
        (-4, "VK_ERROR_DEVICE_LOST"),
        (-5, "VK_ERROR_MEMORY_MAP_FAILED"),
        (-12, "VK_ERROR_FRAGMENTED_POOL"),
        (-13, "VK_ERROR_UNKNOWN"),
        (-1_000_000_001, "VK_ERROR_NATIVE_WINDOW_IN_USE_KHR"),
        (-1_000_011_001, "VK_ERROR_VALIDATION_FAILED_EXT"),
        (-1_000_069_000, "VK_ERROR_OUT_OF_POOL_MEMORY"),
        (-1_000_072_003, "VK_ERROR_INVALID_EXTERNAL_HANDLE"),
        (-1_000_158_000, "VK_ERROR_INVALID_DRM_FORMAT_MODIFIER_PLANE_LAYOUT_EXT"),
        (-1_000_161_000, "VK_ERROR_FRAGMENTATION"),
        (-1_000_174_001, "VK_ERROR_NOT_PERMITTED_KHR"),
        (-1_000_257_000, "VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS"),
    ];
    let named = NAMES.iter().find(|(of, _)| *of == code);
    named.map_or_else(|| format!("code {code}"), |(_, name)| format!("{name} ({code})"))
}

impl DeviceError {
    /// Whether freeing memory may help.
    #[must_use]
    pub const fn is_out_of_memory(self) -> bool {
        matches!(self, Self::OutOfHostMemory | Self::OutOfDeviceMemory | Self::TooManyObjects | Self::MapFailed)
    }
}
