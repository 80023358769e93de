//! What a device was made with.

use super::descriptor::kinds::PlainViews;
use super::features::Features;

/// What a device and its instance were made with, as far as Vulkan does not report it.
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
    /// The features and extensions that were enabled.
    pub features: Features,
    /// The kinds of image view and of texels that heaps of plain sets have an array for; none stands for
    /// [`PlainViews::USUAL`]. Each kind costs slots, since all arrays share the limits of the device.
    pub plain_views: PlainViews,
}
