//! Description of a wrapped device.

use super::descriptor::kinds::PlainViews;
use super::features::Features;

/// The part of a device's and its instance's creation parameters that Vulkan does not report.
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
    /// The kinds of image view and of texels that heaps of plain sets have an array for; empty for
    /// [`PlainViews::USUAL`]. Each kind costs slots, because all arrays share the limits of the device.
    pub plain_views: PlainViews,
}
