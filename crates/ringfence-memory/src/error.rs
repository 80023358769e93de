//! Errors of requests, with the numbers that show why.

use crate::device::descriptors::DescriptorError;
use crate::device::sharing::ShareKind;
use crate::device::{DeviceError, ResourceClass};
use crate::memory::{Budget, Location, Tried};

/// Why nothing was made. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No suitable memory is left, and every step of the fallback order has failed: see [`memory`](crate::memory).
    #[error(
        "out of memory: {size} bytes for {location:?}; heap {heap} has {} of {} bytes in use, {} by this allocator \
         (memory types tried: {tried_type_bits:#b}; also tried: {tried:?}; the last said: {cause})",
        .budget.usage_bytes, .budget.budget_bytes, .budget.reserved_bytes
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
        /// Use and budget of that heap.
        budget: Budget,
        /// What was tried beside the first block.
        tried: Tried,
        /// What the driver said to the last try.
        cause: DeviceError,
    },
    /// The request would exceed the budget, which it forbids ([`within_budget`](crate::AllocationDesc::within_budget)),
    /// or a limit of the allocator.
    #[error(
        "{size} bytes for {location:?} are beyond the budget: heap {heap} has {} of {} bytes in use, {} of at most {} \
         by this allocator (memory types tried: {tried_type_bits:#b}; also tried: {tried:?})",
        .budget.usage_bytes, .budget.budget_bytes, .budget.reserved_bytes, .budget.limit_bytes
    )]
    OverBudget {
        /// Bytes that were needed.
        size: u64,
        /// Where they were wanted.
        location: Location,
        /// Memory types that were tried, a bit each.
        tried_type_bits: u32,
        /// The memory heap of the best type.
        heap: u32,
        /// Use and budget of that heap.
        budget: Budget,
        /// What was tried beside the first block.
        tried: Tried,
    },
    /// No block has room, and the request forbids driver calls for memory
    /// ([`never_grow`](crate::AllocationDesc::never_grow)).
    #[error("{size} bytes for {location:?} fit in no block, and the driver was not to be called")]
    WouldGrow {
        /// Bytes that were needed.
        size: u64,
        /// Where they were wanted.
        location: Location,
    },
    /// The custom pool has no room and may have no further block, or none that is large enough.
    #[error("{size} bytes do not fit: the pool has at most {block_count_max} blocks of {block_bytes} bytes")]
    PoolFull {
        /// Bytes that were needed.
        size: u64,
        /// The pool's largest number of blocks.
        block_count_max: usize,
        /// The bytes of its blocks.
        block_bytes: u64,
    },
    /// Memory of 0 bytes.
    #[error("memory of 0 bytes was asked for")]
    ZeroSize,
    /// The alignment is 0 or not a power of two.
    #[error("the alignment {alignment} is not a power of two")]
    BadAlignment {
        /// What was asked for, in bytes.
        alignment: u64,
    },
    /// The device has no such memory type.
    #[error("there is no memory type {memory_type}: the device has {memory_type_count}")]
    UnknownMemoryType {
        /// What was asked for.
        memory_type: u32,
        /// How many there are.
        memory_type_count: u32,
    },
    /// The resource cannot lie in this memory type.
    #[error("memory type {memory_type} is not among those that the resource allows ({memory_type_bits:#b})")]
    WrongMemoryType {
        /// That of the pool or the allocation.
        memory_type: u32,
        /// What the resource allows, a bit a type.
        memory_type_bits: u32,
    },
    /// The device does not allow a resource of this class in memory that was made for another class.
    #[error("the device keeps {class:?} out of memory for {block_class:?}")]
    WrongClass {
        /// That of the resource.
        class: ResourceClass,
        /// That of the pool or the allocation.
        block_class: ResourceClass,
    },
    /// The device never lets resources of all classes share a memory object.
    #[error("the device lets no memory hold resources of every class (groups {class_groups:?})")]
    MixedClasses {
        /// See [`Capabilities::class_groups`](crate::device::Capabilities::class_groups).
        class_groups: [u8; 3],
    },
    /// An aliasing resource reaches beyond its allocation, or would lie unaligned.
    #[error("{size} bytes aligned to {alignment} do not fit at {offset} of an allocation of {allocation_size} bytes")]
    DoesNotFit {
        /// Where it was to lie in the allocation.
        offset: u64,
        /// Bytes that it needs.
        size: u64,
        /// The alignment that it needs, in bytes.
        alignment: u64,
        /// Bytes of the allocation.
        allocation_size: u64,
    },
    /// The device has no memory type that suits both the resource and the location.
    #[error("no memory type is fit for {location:?} among those that the resource allows ({memory_type_bits:#b})")]
    NoMemoryType {
        /// Where it was wanted.
        location: Location,
        /// What the resource allows, a bit a type.
        memory_type_bits: u32,
    },
    /// It is larger than any memory object may be, than every heap that it may lie in, or than any block of its pool's
    /// algorithm ([`Algorithm::capacity_max`](ringfence_core::algorithm::Algorithm::capacity_max)).
    #[error("{size} bytes are more than the largest memory object of {max} bytes")]
    TooLarge {
        /// Bytes that were needed.
        size: u64,
        /// The limit in bytes: the device's or the algorithm's.
        max: u64,
    },
    /// The request asks for another kind of handle than the pool's blocks have.
    #[error("memory shared as {wanted:?} was asked for in a pool whose blocks are shared as {pool:?}")]
    WrongShare {
        /// What was asked for.
        wanted: Option<ShareKind>,
        /// What the pool has.
        pool: Option<ShareKind>,
    },
    /// The host has to write the memory, and the location is one that it does not write.
    #[error("the host does not write {location:?} memory: name Upload or DeviceUpload")]
    NotHostWritten {
        /// What was asked for.
        location: Location,
    },
    /// The descriptors for it could not be allocated.
    #[error(transparent)]
    Descriptors(#[from] DescriptorError),
    /// The driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl Error {
    /// Whether memory was short: a smaller request, or the same one after something was released, may succeed.
    #[must_use]
    pub const fn is_out_of_memory(&self) -> bool {
        match self {
            Self::OutOfMemory { .. } | Self::OverBudget { .. } => true,
            Self::Device(error) => error.is_out_of_memory(),
            _ => false,
        }
    }

    /// Returns `true` if another memory type or a smaller memory object may serve the request: memory was short, or a heap
    /// is too small.
    #[must_use]
    pub const fn may_fit_elsewhere(&self) -> bool {
        matches!(self, Self::TooLarge { .. }) || self.is_out_of_memory()
    }
}

/// Why the host could not reach a resource's bytes. Nothing was read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The memory is not host-visible: the location does not guarantee it.
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
