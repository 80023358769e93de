//! What `VkResult` means to Ringfence.

use ash::vk;

use ringfence_hal::DeviceError;

/// What a failure of Vulkan's is called here; one without a name becomes [`DeviceError::Other`] with Vulkan's number.
#[must_use]
pub fn device_error(result: vk::Result) -> DeviceError {
    match result {
        vk::Result::ERROR_OUT_OF_HOST_MEMORY => DeviceError::OutOfHostMemory,
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => DeviceError::OutOfDeviceMemory,
        vk::Result::ERROR_TOO_MANY_OBJECTS => DeviceError::TooManyObjects,
        vk::Result::ERROR_MEMORY_MAP_FAILED => DeviceError::MapFailed,
        vk::Result::ERROR_DEVICE_LOST => DeviceError::Lost,
        vk::Result::ERROR_FORMAT_NOT_SUPPORTED => DeviceError::Unsupported("this format for this use"),
        vk::Result::ERROR_FEATURE_NOT_PRESENT => DeviceError::Unsupported("a feature that was asked for"),
        vk::Result::ERROR_EXTENSION_NOT_PRESENT => DeviceError::Unsupported("an extension that was asked for"),
        other => DeviceError::Other(i64::from(other.as_raw())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_results_keep_their_number() {
        assert_eq!(device_error(vk::Result::ERROR_DEVICE_LOST), DeviceError::Lost);
        assert_eq!(device_error(vk::Result::ERROR_UNKNOWN), DeviceError::Other(-13));
        assert!(device_error(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY).is_out_of_memory());
    }
}
