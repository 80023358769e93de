//! What can go wrong, in gpu-allocator's terms, and how Ringfence's errors become that.

use ringfence::Error;
use ringfence::device::DeviceError;

/// Why there is no memory. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum AllocationError {
    /// The device or its driver has none left.
    #[error("out of memory")]
    OutOfMemory,
    /// Memory was there, but the host could not be shown it.
    #[error("{0}")]
    FailedToMap(String),
    /// The device has no memory type that the resource and the location both allow.
    #[error("no memory type is compatible with the request")]
    NoCompatibleMemoryTypeFound,
    /// Size 0, or an alignment that is not a power of two.
    #[error("the allocation's description is not valid")]
    InvalidAllocationCreateDesc,
    /// An allocator cannot be made of this.
    #[error("the allocator's description is not valid: {0}")]
    InvalidAllocatorCreateDesc(String),
    /// Anything else, in words.
    #[error("internal error: {0}")]
    Internal(String),
    /// A resource is to begin in a barrier layout, which `ID3D12Device10` is needed for.
    #[error("an initial barrier layout needs at least `ID3D12Device10`")]
    BarrierLayoutNeedsDevice10,
    /// Castable formats go with barrier layouts only.
    #[error("castable formats need an initial barrier layout")]
    CastableFormatsRequiresEnhancedBarriers,
    /// Castable formats need `ID3D12Device12`.
    #[error("castable formats need at least `ID3D12Device12`")]
    CastableFormatsRequiresAtLeastDevice12,
}

/// What calls return.
pub type Result<V, E = AllocationError> = std::result::Result<V, E>;

impl From<Error> for AllocationError {
    /// By kind; the numbers in Ringfence's error are kept where a variant has room for words.
    fn from(error: Error) -> Self {
        match error {
            Error::ZeroSize | Error::BadAlignment { .. } => Self::InvalidAllocationCreateDesc,
            Error::NoMemoryType { .. } => Self::NoCompatibleMemoryTypeFound,
            // The numbers would say how much memory is in use, and memory is what there was.
            Error::OutOfMemory { cause: cause @ DeviceError::MapFailed, .. } => Self::FailedToMap(cause.to_string()),
            Error::OutOfMemory { .. } | Error::OverBudget { .. } | Error::TooLarge { .. } => {
                log::debug!("{error}");
                Self::OutOfMemory
            }
            other => Self::Internal(other.to_string()),
        }
    }
}
