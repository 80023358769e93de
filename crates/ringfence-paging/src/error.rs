//! Errors of paging.

use ringfence_commands::CommandError;
use ringfence_core::sync::SyncPoint;
use ringfence_hal::Format;
use ringfence_memory::residency::ResidencyError;
use ringfence_memory::{AccessError, Error};

/// Error of a call of [`Paging`](crate::Paging). No resource has lost its contents.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PagingError {
    /// The frame belongs to another allocator.
    #[error("the frame belongs to another allocator than the paging")]
    ForeignFrame,
    /// The resource belongs to another `Paging`.
    #[error("the resource belongs to another Paging")]
    ForeignResource,
    /// The contents have another size than the resource.
    #[error(
        "the contents have {given} bytes, and the resource has {needed}: all mip levels and layers, without padding"
    )]
    WrongSize {
        /// Number of bytes that were given.
        given: u64,
        /// Number of bytes of the resource.
        needed: u64,
    },
    /// Textures of this kind cannot be paged.
    #[error("a texture with the format {format:?} and {samples} samples cannot be paged: {reason}")]
    Unsupported {
        /// The format.
        format: Format,
        /// The number of samples.
        samples: u32,
        /// The reason.
        reason: &'static str,
    },
    /// A used resource is copied in another frame that is neither submitted nor discarded. The commit has recorded
    /// nothing. Submit or discard that frame first.
    #[error("{name:?} is copied in the frame with {open}, which is still open: submit or discard that frame first")]
    OpenFrame {
        /// Name of the resource.
        name: Box<str>,
        /// The point of the open frame.
        open: SyncPoint,
    },
    /// The device has no room for resources that the frame uses. The commit has recorded the copies of the resources
    /// that have room. Wait as `waits_for` describes and commit again, or use fewer resources.
    #[error(
        "{missing_bytes} bytes of {name:?} have no room on the device: paged resources have {device_bytes} of \
         {limit_bytes} bytes there{}{}",
        cause.as_ref().map_or(String::new(), |cause| format!(" ({cause})")),
        waits_for.map_or(", all in use".to_owned(), |point| format!("; some can leave after {point}"))
    )]
    NoRoom {
        /// Name of the first resource without room.
        name: Box<str>,
        /// Bytes of device memory that this resource needs, an estimate.
        missing_bytes: u64,
        /// Bytes of paged resources on the device, with those that have left but are still in use.
        device_bytes: u64,
        /// Limit of these bytes at present.
        limit_bytes: u64,
        /// The allocator's error, if an allocation was tried and failed.
        cause: Option<Box<Error>>,
        /// A point after which other resources can leave, or `None` if waiting does not help. Wait for the point, and
        /// commit again with the same frame.
        /// If the point is that of the frame itself, the frame copies written resources to the host, which can leave
        /// afterwards. Submit the frame without the missing resource, wait for the point, and commit the next frame.
        waits_for: Option<SyncPoint>,
    },
    /// Memory could not be allocated, for another reason than [`PagingError::NoRoom`].
    #[error(transparent)]
    Memory(#[from] Error),
    /// A copy was refused.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The contents could not be written to host memory.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The memory could not be made resident (Direct3D 12).
    #[error(transparent)]
    Residency(#[from] ResidencyError),
}
