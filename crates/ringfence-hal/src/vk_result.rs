//! What Vulkan returned, by name and number, with the call that failed.

use std::fmt;

/// A failure code of Vulkan (`VkResult`), and the command that returned it.
///
/// Prints as `vkCreateBuffer failed with VK_ERROR_UNKNOWN (-13)`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VkResult {
    /// The code, negative as every failure.
    pub code: i32,
    /// The command, as the specification names it.
    pub call: &'static str,
}

/// Those that the commands used by a device return, the greatest first.
const NAMES: [(i32, &str); 15] = [
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

impl VkResult {
    /// Its name in the specification, if it is one that the commands used by a device return.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(code, _)| *code == self.code).map(|(_, name)| *name)
    }
}

impl fmt::Display for VkResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, call } = self;
        match self.name() {
            Some(name) => write!(f, "{call} failed with {name} ({code})"),
            None => write!(f, "{call} failed with {code}"),
        }
    }
}

impl fmt::Debug for VkResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VkResult({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceError;

    #[test]
    fn a_result_of_vulkan_prints_with_its_name_and_the_call() {
        let error = |code| DeviceError::VkResult(VkResult { code, call: "vkCreateBuffer" });
        assert_eq!(error(-13).to_string(), "vkCreateBuffer failed with VK_ERROR_UNKNOWN (-13)");
        assert_eq!(error(-7777).to_string(), "vkCreateBuffer failed with -7777");
        assert_eq!(
            format!("{:?}", error(-12)),
            "VkResult(VkResult(vkCreateBuffer failed with VK_ERROR_FRAGMENTED_POOL (-12)))"
        );
    }

    #[test]
    fn every_name_is_of_one_failure() {
        assert!(NAMES.windows(2).all(|pair| pair[0].0 > pair[1].0), "in order, each once");
        assert!(NAMES.iter().all(|(code, _)| *code < 0));
    }
}
