//! Description of a wrapped device.

use super::descriptor::kinds::PlainViews;
use super::features::Features;

/// The enabled features of a device, which Vulkan does not report, and the settings of this crate.
///
/// ```
/// use ringfence_vulkan::{DeviceDesc, Features};
///
/// let features = Features::BUFFER_DEVICE_ADDRESS | Features::MEMORY_PRIORITY;
/// let desc = DeviceDesc { features, ..Default::default() };
/// assert!(desc.features.contains(Features::MEMORY_PRIORITY));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DeviceDesc {
    /// The enabled features and extensions.
    pub features: Features,
    /// Kinds of image view and of texel buffer for which heaps have an array, if the features include neither
    /// [`Features::DESCRIPTOR_BUFFER`] nor [`Features::UPDATE_AFTER_BIND`] (plain sets). Empty stands for
    /// [`PlainViews::USUAL`]. All arrays share the limits of the device, so each additional kind reduces the number of
    /// slots.
    pub plain_views: PlainViews,
}
