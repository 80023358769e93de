//! What can go wrong when something is made, with the numbers that one needs to see why.

use crate::device::DeviceError;
use crate::memory::Location;

/// Why nothing was made. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No memory that would do is left; everything that could be tried was tried.
    #[error(
        "out of memory: {size} bytes for {location:?}, heap {heap} has {reserved_bytes} of {heap_bytes} bytes in use \
         by this allocator (memory types tried: {tried_type_bits:#b}; the last said: {cause})"
    )]
    OutOfMemory {
        /// Bytes that were needed.
        size: u64,
        /// Where they were wanted.
        location: Location,
        /// Memory types that were tried, a bit each.
        tried_type_bits: u32,
        /// The memory heap of the best type.
        heap: u32,
        /// Bytes that this allocator holds of that heap.
        reserved_bytes: u64,
        /// Bytes of that heap.
        heap_bytes: u64,
        /// What the driver said to the last try.
        cause: DeviceError,
    },
    /// The device has no memory type that suits both the resource and the location.
    #[error("no memory type is fit for {location:?} among those that the resource allows ({memory_type_bits:#b})")]
    NoMemoryType {
        /// Where it was wanted.
        location: Location,
        /// What the resource allows, a bit a type.
        memory_type_bits: u32,
    },
    /// The resource is larger than every memory object may be.
    #[error("{size} bytes are more than the largest memory object of {max} bytes")]
    TooLarge {
        /// Bytes that were needed.
        size: u64,
        /// The device's limit in bytes.
        max: u64,
    },
    /// The driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Why the host could not reach a resource's bytes. Nothing was read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The memory is not host-visible: the location does not promise it.
    #[error("the resource's memory is not mapped")]
    NotMapped,
    /// The bytes lie outside the resource.
    #[error("bytes {offset}..{offset}+{size} lie outside the resource of {resource_size} bytes")]
    OutOfRange {
        /// First byte that was asked for.
        offset: u64,
        /// How many.
        size: u64,
        /// Bytes of the resource.
        resource_size: u64,
    },
    /// The driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
