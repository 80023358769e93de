//! The messages of the validation layers. They are collected until they are taken.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;

/// Best-practices advice that the test kit ignores: the start of the message's name, and the reason.
const EXPLAINED: [(&str, &str); 7] = [
    (
        "UNASSIGNED-BestPractices-pipeline-stage-flags",
        "copies are ordered against all earlier and later work, which the recorder does not know",
    ),
    ("UNASSIGNED-BestPractices-SemaphoreCount", "an empty list has an address, which is not read"),
    ("UNASSIGNED-CoreValidation-DrawState-InvalidImageLayout", "the test kit keeps every image in the general layout"),
    ("UNASSIGNED-BestPractices-vkCreateInstance-specialuse-extension", "this extension delivers these messages"),
    (
        "UNASSIGNED-BestPractices-vkCreateCommandPool-command-buffer-reset",
        "the test kit rerecords single command buffers",
    ),
    (
        "UNASSIGNED-BestPractices-vkBindMemory-small-dedicated-allocation",
        "tests request small dedicated memory on purpose",
    ),
    ("UNASSIGNED-BestPractices-vkAllocateMemory-small-allocation", "tests request small dedicated memory on purpose"),
];

/// Other messages that are no defects: the start of the message's name, a part of its text, and the reason.
const HARMLESS: [(&str, &str, &str); 1] = [(
    "WARNING-vkGetDeviceProcAddr-device",
    "vkGetPhysicalDeviceVideoEncodeQualityLevelPropertiesKHR",
    "`ash` 0.38 requests this instance function from the device while loading, and never calls it",
)];

/// Returns `true` if a message is no defect. The message starts with its name.
fn is_explained(message: &str) -> bool {
    let is_harmless = |(name, text, _): &(&str, &str, &str)| message.starts_with(name) && message.contains(text);
    EXPLAINED.iter().any(|(name, _)| message.starts_with(name)) || HARMLESS.iter().any(is_harmless)
}

/// Collection of warnings and errors of the validation layers. Clones share one collection.
#[derive(Clone, Default)]
pub(super) struct Messages(Arc<Mutex<Vec<String>>>);

impl Messages {
    /// Returns the messages since the last call.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a description that sends messages here. It is valid while a clone of this collection exists.
    pub(super) fn messenger(&self) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
        // Advice arrives as performance messages.
        let advice = if super::instance::wants_best_practices() {
            vk::DebugUtilsMessageTypeFlagsEXT::PERFORMANCE
        } else {
            vk::DebugUtilsMessageTypeFlagsEXT::empty()
        };
        let severities = vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR;
        vk::DebugUtilsMessengerCreateInfoEXT::default()
            .message_severity(severities)
            // General messages are not received: they are about the loader and skipped drivers, not about the program.
            .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION | advice)
            .pfn_user_callback(Some(collect))
            .user_data(Arc::as_ptr(&self.0).cast_mut().cast())
    }
}

/// Called by the layers, on any thread during a Vulkan call.
unsafe extern "system" fn collect(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    messages: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the pointer comes from `Messages::messenger`, and its collection is alive.
    let messages = unsafe { &*messages.cast_const().cast::<Mutex<Vec<String>>>() };
    // SAFETY: the layers pass valid data. Its texts are null-terminated or absent.
    let message = unsafe { format!("{}: {}", text((*data).p_message_id_name), text((*data).p_message)) };
    if !is_explained(&message) {
        messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }
    // `FALSE` lets the reported call continue.
    vk::FALSE
}

/// Returns a text from Vulkan, or an empty text if it is absent.
///
/// # Safety
/// The pointer must be null, or point to a null-terminated text that lives as long as the result is used.
unsafe fn text<'a>(pointer: *const c_char) -> Cow<'a, str> {
    if pointer.is_null() {
        return Cow::Borrowed("");
    }
    // SAFETY: the pointer is not null. The caller promises a null-terminated text that lives as long as the result.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy()
}

#[cfg(test)]
mod tests;
