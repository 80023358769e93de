//! Names of objects for debuggers and validation messages, through `VK_EXT_debug_utils`.

use ash::ext::debug_utils;
use smallvec::SmallVec;

/// Names shorter than this need no host allocation.
const SHORT_BYTES: usize = 64;

/// Loads the functions of `VK_EXT_debug_utils`. Returns `None` if the device does not have them.
///
/// `Some` does not prove that the extension is enabled: if it is disabled, loaders return functions without effect.
///
/// # Safety
/// `device` comes from `instance`, and both are alive.
pub(super) unsafe fn load(instance: &ash::Instance, device: &ash::Device) -> Option<debug_utils::Device> {
    let name = c"vkSetDebugUtilsObjectNameEXT";
    // SAFETY: the device is alive and the name ends with a null byte.
    let found = unsafe { instance.get_device_proc_addr(device.handle(), name.as_ptr()) };
    found.map(|_| debug_utils::Device::new(instance, device))
}

/// Returns the name with a terminating null byte.
pub(super) fn terminated(name: &str) -> SmallVec<[u8; SHORT_BYTES]> {
    let mut bytes = SmallVec::from_slice(name.as_bytes());
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn short_names_stay_on_the_stack_and_end_at_a_null_byte() {
        assert!(!terminated("vertices").spilled());
        assert!(terminated(&"x".repeat(100)).spilled());
        assert_eq!(CStr::from_bytes_until_nul(&terminated("a\0b")).unwrap(), c"a");
    }
}
