//! Errors of requests, with the numbers that explain them.

use crate::budget::Budget;
use crate::device::descriptors::DescriptorError;
use crate::device::sharing::ShareKind;
use crate::device::{DeviceError, ResourceClass};
use crate::location::Location;
use crate::pressure::Tried;

/// An error of a request. The request has allocated nothing, but may have freed unused memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No suitable memory is left, and every step of the fallback order has failed: see the module `ringfence::memory`.
    #[error(
        "out of memory: {size} bytes for {location:?}; heap {heap} has {} of {} bytes in use, {} by this allocator \
         (memory types tried: {tried_type_bits:#b}; further steps tried: {tried:?}; last error: {cause})",
        .budget.usage_bytes, .budget.budget_bytes, .budget.reserved_bytes
    )]
    OutOfMemory {
        /// Size of the request, in bytes.
        size: u64,
        /// Location of the request.
        location: Location,
        /// Memory types that were tried: bit n for type n.
        tried_type_bits: u32,
        /// The memory heap of the best type.
        heap: u32,
        /// Usage and budget of that heap.
        budget: Budget,
        /// Steps of the fallback order that were tried after the first block.
        tried: Tried,
        /// The driver's error in the last step; `OutOfDeviceMemory` if the driver refused such a size before.
        cause: DeviceError,
    },
    /// The request would exceed the budget although [`within_budget`](crate::AllocationDesc::within_budget) forbids it,
    /// or it would exceed a limit of the allocator.
    #[error(
        "{size} bytes for {location:?} exceed the budget: heap {heap} has {} of {} bytes in use, {} of at most {} \
         by this allocator (memory types tried: {tried_type_bits:#b}; further steps tried: {tried:?})",
        .budget.usage_bytes, .budget.budget_bytes, .budget.reserved_bytes, .budget.limit_bytes
    )]
    OverBudget {
        /// Size of the request, in bytes.
        size: u64,
        /// Location of the request.
        location: Location,
        /// Memory types that were tried: bit n for type n.
        tried_type_bits: u32,
        /// The memory heap of the best type.
        heap: u32,
        /// Usage and budget of that heap.
        budget: Budget,
        /// Steps of the fallback order that were tried after the first block.
        tried: Tried,
    },
    /// No existing block has room, and the request forbids driver calls for memory
    /// ([`never_grow`](crate::AllocationDesc::never_grow)).
    #[error("no block has room for {size} bytes for {location:?}, and the request forbids driver calls (`never_grow`)")]
    WouldGrow {
        /// Size of the request, in bytes.
        size: u64,
        /// Location of the request.
        location: Location,
    },
    /// The custom pool has no room, and cannot get another block that is large enough for the request.
    #[error("the pool has no room for {size} bytes: it has at most {block_count_max} blocks of {block_bytes} bytes")]
    PoolFull {
        /// Size of the request, in bytes.
        size: u64,
        /// The pool's maximum number of blocks.
        block_count_max: usize,
        /// Size of the pool's blocks, in bytes.
        block_bytes: u64,
    },
    /// The request is for 0 bytes of memory.
    #[error("the request is for 0 bytes of memory")]
    ZeroSize,
    /// The alignment is 0 or not a power of two.
    #[error("the alignment {alignment} is not a power of two")]
    BadAlignment {
        /// The requested alignment, in bytes.
        alignment: u64,
    },
    /// The device has no such memory type.
    #[error("memory type {memory_type} does not exist: the device has {memory_type_count} memory types")]
    UnknownMemoryType {
        /// The requested memory type.
        memory_type: u32,
        /// Number of the device's memory types.
        memory_type_count: u32,
    },
    /// The resource does not allow this memory type.
    #[error("the resource does not allow memory type {memory_type}, only the types {memory_type_bits:#b}")]
    WrongMemoryType {
        /// Memory type of the pool or the allocation.
        memory_type: u32,
        /// Memory types that the resource allows: bit n for type n.
        memory_type_bits: u32,
    },
    /// The device does not allow a resource of this class in memory that was created for another class.
    #[error("the device does not allow resources of class {class:?} in memory for class {block_class:?}")]
    WrongClass {
        /// Class of the resource.
        class: ResourceClass,
        /// Class of the pool or the allocation.
        block_class: ResourceClass,
    },
    /// The device never allows resources of all classes in one memory object.
    #[error("the device does not allow resources of every class in one memory object (groups {class_groups:?})")]
    MixedClasses {
        /// Groups of classes that may share a memory object: see
        /// [`Capabilities::class_groups`](crate::device::Capabilities::class_groups).
        class_groups: [u8; 3],
    },
    /// An aliasing resource exceeds its allocation, or would not be aligned at its offset.
    #[error(
        "{size} bytes aligned to {alignment} do not fit at offset {offset} of an allocation of {allocation_size} bytes"
    )]
    DoesNotFit {
        /// Offset of the resource in the allocation, in bytes.
        offset: u64,
        /// Size of the resource, in bytes.
        size: u64,
        /// Alignment of the resource, in bytes.
        alignment: u64,
        /// Size of the allocation, in bytes.
        allocation_size: u64,
    },
    /// The device has no memory type that suits both the resource and the location.
    #[error("the resource allows the memory types {memory_type_bits:#b}, and none of them suits {location:?}")]
    NoMemoryType {
        /// Location of the request.
        location: Location,
        /// Memory types that the resource allows: bit n for type n.
        memory_type_bits: u32,
    },
    /// The request is larger than a limit: the largest memory object, every heap that it may use, a block of its pool's
    /// algorithm ([`Algorithm::capacity_max`](ringfence_core::algorithm::Algorithm::capacity_max)), or a small buffer
    /// (256 KiB).
    #[error("{size} bytes exceed the limit of {max} bytes for a memory object, a pool's block or a small buffer")]
    TooLarge {
        /// Size of the request, in bytes.
        size: u64,
        /// The limit, in bytes.
        max: u64,
    },
    /// The requested kind of shared handle is not that of the pool's blocks.
    #[error("the request is for memory shared as {wanted:?}, but the pool's blocks are shared as {pool:?}")]
    WrongShare {
        /// Kind of the request.
        wanted: Option<ShareKind>,
        /// Kind of the pool's blocks.
        pool: Option<ShareKind>,
    },
    /// The host must write the memory, but the host does not write memory of the requested location.
    #[error("the host does not write {location:?} memory: use Upload or DeviceUpload")]
    NotHostWritten {
        /// Location of the request.
        location: Location,
    },
    /// The descriptors of the resource could not be allocated.
    #[error(transparent)]
    Descriptors(#[from] DescriptorError),
    /// The driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl Error {
    /// Returns `true` if memory was short: a smaller request, or the same request later, may succeed.
    #[must_use]
    pub const fn is_out_of_memory(&self) -> bool {
        match self {
            Self::OutOfMemory { .. } | Self::OverBudget { .. } => true,
            Self::Device(error) => error.is_out_of_memory(),
            _ => false,
        }
    }

    /// Returns `true` if another memory type or a smaller memory object may serve the request: memory was short, or a
    /// heap or memory object is too small for the request.
    #[must_use]
    pub const fn may_fit_elsewhere(&self) -> bool {
        matches!(self, Self::TooLarge { .. }) || self.is_out_of_memory()
    }
}
