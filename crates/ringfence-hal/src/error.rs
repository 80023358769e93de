//! What goes wrong in a driver.

use super::hresult::Hresult;
use super::vk_result::VkResult;

/// What went wrong in the driver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The host has no memory left.
    #[error("the host is out of memory")]
    OutOfHostMemory,
    /// The device has no memory left.
    #[error("the device is out of memory")]
    OutOfDeviceMemory,
    /// As many memory objects are alive as the driver allows.
    #[error("the driver's limit of memory objects is reached")]
    TooManyObjects,
    /// Memory could not be mapped.
    #[error("the memory could not be mapped")]
    MapFailed,
    /// The device is lost: nothing that was submitted will complete.
    #[error("the device is lost")]
    Lost,
    /// The device has no such thing.
    #[error("the device does not support this: {0}")]
    Unsupported(&'static str),
    /// The description is not valid.
    #[error("the description is not valid: {0}")]
    InvalidInfo(&'static str),
    /// Any other failure of Direct3D 12, with the call that failed.
    #[error("{0}")]
    Hresult(Hresult),
    /// Any other failure of Vulkan, with the call that failed.
    #[error("{0}")]
    VkResult(VkResult),
    /// Anything else, as a number of the driver's own.
    #[error("the driver failed with code {0}")]
    Other(i64),
}

impl DeviceError {
    /// Whether freeing memory may help.
    #[must_use]
    pub const fn is_out_of_memory(self) -> bool {
        matches!(self, Self::OutOfHostMemory | Self::OutOfDeviceMemory | Self::TooManyObjects | Self::MapFailed)
    }
}
