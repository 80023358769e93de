//! What the validation layers say, kept until they are taken.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;

/// Advice of the best-practices layer that is not followed, each with why: by what the message's name contains.
const EXPLAINED: [(&str, &str); 7] = [
    (
        "UNASSIGNED-BestPractices-pipeline-stage-flags",
        "copies are ordered against whatever comes before and after them, which the recorder does not know",
    ),
    ("UNASSIGNED-BestPractices-SemaphoreCount", "an empty list has an address, which nothing reads"),
    ("UNASSIGNED-CoreValidation-DrawState-InvalidImageLayout", "the test kit keeps every image in the general layout"),
    (
        "UNASSIGNED-BestPractices-vkCreateInstance-specialuse-extension",
        "it is the extension that these messages come through",
    ),
    (
        "UNASSIGNED-BestPractices-vkCreateCommandPool-command-buffer-reset",
        "the test kit records one buffer at a time anew",
    ),
    (
        "UNASSIGNED-BestPractices-vkBindMemory-small-dedicated-allocation",
        "tests ask for small memory of their own on purpose",
    ),
    (
        "UNASSIGNED-BestPractices-vkAllocateMemory-small-allocation",
        "tests ask for small memory of their own on purpose",
    ),
];

/// Messages that are no fault of the program's, each with why: by the message's name and a text in it.
const HARMLESS: [(&str, &str, &str); 1] = [(
    "WARNING-vkGetDeviceProcAddr-device",
    "vkGetPhysicalDeviceVideoEncodeQualityLevelPropertiesKHR",
    "`ash` 0.38 asks the device for this function of the instance when it loads, and nothing calls it",
)];

/// Whether a message, which begins with its name, is no defect.
fn is_explained(message: &str) -> bool {
    let is_harmless = |(name, text, _): &(&str, &str, &str)| message.starts_with(name) && message.contains(text);
    EXPLAINED.iter().any(|(name, _)| message.starts_with(name)) || HARMLESS.iter().any(is_harmless)
}

/// Collects warnings and errors of the validation layers. A copy is the same collection.
#[derive(Clone, Default)]
pub(super) struct Messages(Arc<Mutex<Vec<String>>>);

impl Messages {
    /// What was said since the last call.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Describes a messenger that collects here. Valid as long as a copy of this collection is alive.
    pub(super) fn messenger(&self) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
        // Advice comes as performance messages.
        let advice = if super::instance::wants_best_practices() {
            vk::DebugUtilsMessageTypeFlagsEXT::PERFORMANCE
        } else {
            vk::DebugUtilsMessageTypeFlagsEXT::empty()
        };
        let severities = vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR;
        vk::DebugUtilsMessengerCreateInfoEXT::default()
            .message_severity(severities)
            // The general ones are of the loader and the drivers that it skipped: no defects of ours.
            .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION | advice)
            .pfn_user_callback(Some(collect))
            .user_data(Arc::as_ptr(&self.0).cast_mut().cast())
    }
}

/// Called by the layers, from whatever thread is in a Vulkan call.
unsafe extern "system" fn collect(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    messages: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the pointer is the one that `Messages::messenger` passed, of a collection that is alive.
    let messages = unsafe { &*messages.cast_const().cast::<Mutex<Vec<String>>>() };
    // SAFETY: the layers pass valid data, with texts that end with a null byte or are absent.
    let message = unsafe { format!("{}: {}", text((*data).p_message_id_name), text((*data).p_message)) };
    if !is_explained(&message) {
        messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }
    // False lets the call that was complained of go on.
    vk::FALSE
}

/// A text of Vulkan's; empty if absent.
///
/// # Safety
/// The pointer is null, or to a text that ends with a null byte and lives as long as the result is used.
unsafe fn text<'a>(pointer: *const c_char) -> Cow<'a, str> {
    if pointer.is_null() {
        return Cow::Borrowed("");
    }
    // SAFETY: not null; the caller promises a text that ends with a null byte and lives as long as the result.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy()
}

#[cfg(test)]
mod tests;
