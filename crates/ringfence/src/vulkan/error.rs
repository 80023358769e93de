//! What `VkResult` means to Ringfence.

use ash::vk;

use crate::device::DeviceError;

impl From<vk::Result> for DeviceError {
    /// Takes a failure; what has no name of its own becomes [`DeviceError::Other`] with Vulkan's number.
    fn from(result: vk::Result) -> Self {
        match result {
            vk::Result::ERROR_OUT_OF_HOST_MEMORY => Self::OutOfHostMemory,
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => Self::OutOfDeviceMemory,
            vk::Result::ERROR_TOO_MANY_OBJECTS => Self::TooManyObjects,
            vk::Result::ERROR_MEMORY_MAP_FAILED => Self::MapFailed,
            vk::Result::ERROR_DEVICE_LOST => Self::Lost,
            vk::Result::ERROR_FORMAT_NOT_SUPPORTED => Self::Unsupported("this format for this use"),
            vk::Result::ERROR_FEATURE_NOT_PRESENT => Self::Unsupported("a feature that was asked for"),
            vk::Result::ERROR_EXTENSION_NOT_PRESENT => Self::Unsupported("an extension that was asked for"),
            other => Self::Other(i64::from(other.as_raw())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_results_keep_their_number() {
        assert_eq!(DeviceError::from(vk::Result::ERROR_DEVICE_LOST), DeviceError::Lost);
        assert_eq!(DeviceError::from(vk::Result::ERROR_UNKNOWN), DeviceError::Other(-13));
        assert!(DeviceError::from(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY).is_out_of_memory());
    }
}
