//! Descriptions that a program passes to create a resource: the portable one, or the device's own.
//!
//! ```text
//!   BufferDesc, TextureDesc                    ── Create::describe ──▶ info     every device
//!   vulkan::BufferInfo, d3d12::ResourceInfo, … ─────────────────────▶ info     that device
//! ```
//!
//! A conversion fills a structure. For a texture on Vulkan, it also checks that the device supports the image. The
//! device caches the driver's answer for each combination of format, usage and flags, so that most checks need no
//! driver call.

use super::device::Create;
use super::error::DeviceError;
use super::kind::{BufferDesc, Buffers, Kind, TextureDesc, Textures};

/// A description from which the device `D` creates a resource of the kind `K`.
///
/// The portable descriptions [`BufferDesc`] and [`TextureDesc`] implement it for every device. Each device implements
/// it for its own descriptions. Code that is generic over the device wraps such a description in [`Native`].
pub trait Describe<D: Create<K>, K: Kind> {
    /// Calls `then` with the device's own description.
    ///
    /// # Errors
    /// For a portable description, the errors of [`Create::describe`]. In this case, `then` is not called.
    fn with_info<R>(&self, device: &D, then: impl FnOnce(&D::Info<'_>) -> R) -> Result<R, DeviceError>;
}

impl<D: Create<Buffers>> Describe<D, Buffers> for BufferDesc {
    #[inline]
    fn with_info<R>(&self, device: &D, then: impl FnOnce(&D::Info<'_>) -> R) -> Result<R, DeviceError> {
        Create::<Buffers>::describe(device, self).map(|info| then(&info))
    }
}

impl<D: Create<Textures>> Describe<D, Textures> for TextureDesc {
    #[inline]
    fn with_info<R>(&self, device: &D, then: impl FnOnce(&D::Info<'_>) -> R) -> Result<R, DeviceError> {
        Create::<Textures>::describe(device, self).map(|info| then(&info))
    }
}

/// The device's own description of a resource, in code that is generic over the device.
pub struct Native<'r, 'i, D: Create<K>, K: Kind>(pub &'r D::Info<'i>);

impl<D: Create<K>, K: Kind> Describe<D, K> for Native<'_, '_, D, K> {
    #[inline]
    fn with_info<R>(&self, _: &D, then: impl FnOnce(&D::Info<'_>) -> R) -> Result<R, DeviceError> {
        Ok(then(self.0))
    }
}
