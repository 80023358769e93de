//! Tests of the filtered messages.

use super::is_explained;

#[test]
fn what_ash_asks_for_is_explained_and_what_a_program_asks_for_is_not() {
    let asked = |function| {
        format!(
            "WARNING-vkGetDeviceProcAddr-device: Validation Warning: [ WARNING-vkGetDeviceProcAddr-device ] | \
             vkGetDeviceProcAddr(): pName is trying to grab {function} which is an instance level function"
        )
    };
    assert!(is_explained(&asked("vkGetPhysicalDeviceVideoEncodeQualityLevelPropertiesKHR")));
    assert!(!is_explained(&asked("vkGetPhysicalDeviceFeatures")));
    assert!(!is_explained("VUID-VkBufferCreateInfo-size-00912: vkCreateBuffer()"));
}
