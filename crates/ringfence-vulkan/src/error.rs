//! Conversion of `VkResult` to errors of Ringfence.

use ash::vk;

use ringfence_hal::{Api, ApiResult, DeviceError};

/// Returns the error for a failure of the command `call`, such as `vkAllocateMemory`. A `VkResult` that has no variant
/// of [`DeviceError`] becomes [`DeviceError::Api`]; its text contains the result and the command.
#[must_use]
pub fn device_error(result: vk::Result, call: &'static str) -> DeviceError {
    match result {
        vk::Result::ERROR_OUT_OF_HOST_MEMORY => DeviceError::OutOfHostMemory,
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => DeviceError::OutOfDeviceMemory,
        vk::Result::ERROR_TOO_MANY_OBJECTS => DeviceError::TooManyObjects,
        vk::Result::ERROR_MEMORY_MAP_FAILED => DeviceError::MapFailed,
        vk::Result::ERROR_DEVICE_LOST => DeviceError::Lost,
        vk::Result::ERROR_FORMAT_NOT_SUPPORTED => DeviceError::unsupported("this format for this usage"),
        vk::Result::ERROR_FEATURE_NOT_PRESENT => DeviceError::unsupported("a feature that the call needs"),
        vk::Result::ERROR_EXTENSION_NOT_PRESENT => DeviceError::unsupported("an extension that the call needs"),
        other => DeviceError::Api(ApiResult { api: Api::Vulkan, code: other.as_raw(), call }),
    }
}

/// Returns [`device_error`] as a closure, for `map_err`.
pub(crate) fn failed(call: &'static str) -> impl Fn(vk::Result) -> DeviceError {
    move |result| device_error(result, call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_without_a_variant_keep_their_number_and_call() {
        let error = failed("vkBindBufferMemory");
        assert_eq!(error(vk::Result::ERROR_DEVICE_LOST), DeviceError::Lost);
        assert!(error(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY).is_out_of_memory());
        assert_eq!(
            error(vk::Result::ERROR_UNKNOWN).to_string(),
            "vkBindBufferMemory failed with VK_ERROR_UNKNOWN (-13)"
        );
    }
}
