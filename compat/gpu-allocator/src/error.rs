//! Errors in gpu-allocator's terms, and the conversion from Ringfence's errors.

use ringfence::device::DeviceError;
use ringfence::memory::Error;

/// Error of an allocator. The allocator is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum AllocationError {
    /// The device or its driver is out of memory.
    #[error("out of memory")]
    OutOfMemory,
    /// The memory could not be mapped.
    #[error("{0}")]
    FailedToMap(String),
    /// No memory type of the device fits both the resource and the location.
    #[error("no memory type is compatible with the request")]
    NoCompatibleMemoryTypeFound,
    /// Size 0, or an alignment that is not a power of two.
    #[error("the allocation's description is not valid")]
    InvalidAllocationCreateDesc,
    /// The description of an allocator is not valid.
    #[error("the allocator's description is not valid: {0}")]
    InvalidAllocatorCreateDesc(String),
    /// Any other error, as text.
    #[error("internal error: {0}")]
    Internal(String),
    /// An initial barrier layout needs `ID3D12Device10`.
    #[error("an initial barrier layout needs at least `ID3D12Device10`")]
    BarrierLayoutNeedsDevice10,
    /// Castable formats need an initial barrier layout.
    #[error("castable formats need an initial barrier layout")]
    CastableFormatsRequiresEnhancedBarriers,
    /// Castable formats need `ID3D12Device12`.
    #[error("castable formats need at least `ID3D12Device12`")]
    CastableFormatsRequiresAtLeastDevice12,
}

/// Result of the calls of this crate.
pub type Result<V, E = AllocationError> = std::result::Result<V, E>;

impl From<Error> for AllocationError {
    /// Converts by kind. The numbers of Ringfence's error are kept if the variant has a text.
    fn from(error: Error) -> Self {
        match error {
            Error::ZeroSize | Error::BadAlignment { .. } => Self::InvalidAllocationCreateDesc,
            Error::NoMemoryType { .. } => Self::NoCompatibleMemoryTypeFound,
            // Without the numbers, which report the memory in use: the memory was there, but it was not mapped.
            Error::OutOfMemory { cause: cause @ DeviceError::MapFailed, .. } => Self::FailedToMap(cause.to_string()),
            Error::OutOfMemory { .. } | Error::OverBudget { .. } | Error::TooLarge { .. } => {
                log::debug!("{error}");
                Self::OutOfMemory
            }
            other => Self::Internal(other.to_string()),
        }
    }
}
