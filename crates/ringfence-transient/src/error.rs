//! Errors of transient resources.

use ringfence_alias::{ItemError, PassError};
use ringfence_core::sync::TimelineId;

use super::pass::{Pass, TransientId};
use crate::device::DeviceError;
use ringfence_memory::Error;

/// Error of a transient allocator. Unless the function says otherwise, nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransientError {
    /// There is no memory, or the driver failed.
    #[error(transparent)]
    Memory(#[from] Error),
    /// The pass belongs to another transient allocator, or to an execution that has ended.
    #[error("{pass:?} is not a pass of this execution; add it with `Execution::pass` first")]
    UnknownPass {
        /// The given pass.
        pass: Pass,
    },
    /// The timeline of the queue belongs to another allocator.
    #[error("{queue} belongs to another allocator; use a timeline of the allocator below this transient allocator")]
    ForeignQueue {
        /// The given timeline.
        queue: TimelineId,
    },
    /// A later pass of the queue has already acquired a resource.
    #[error("{pass:?} is before pass {latest} of its queue, which acquired a resource already; acquire in pass order")]
    OutOfOrder {
        /// The given pass.
        pass: Pass,
        /// Number of the later pass.
        latest: u64,
    },
    /// A last use is not ordered after the first use.
    #[error("{last:?} is not ordered after {first:?}, the first use of the resource; let the later pass wait")]
    NotAfter {
        /// The pass that acquired the resource.
        first: Pass,
        /// The last use that was given.
        last: Pass,
    },
    /// The handle belongs to another transient allocator or to an earlier execution, or the resource was already
    /// discarded or released.
    #[error("the handle of {id:?} is stale or foreign; acquire the resource in this execution")]
    Stale {
        /// Object of the handle.
        id: TransientId,
    },
    /// The texture was created from a native description without a portable form, so its views cannot be checked.
    #[error("{id:?} has no portable description; get the driver's texture and describe its views natively")]
    Undescribed {
        /// Object of the handle.
        id: TransientId,
    },
    /// The resource was discarded, and another resource was acquired over some or all of its bytes. The contents are
    /// lost, and commands that use the discarded resource from now on would read or overwrite the other resource. Get
    /// the driver's object before you discard the resource.
    #[error("{id:?} was discarded, and {by:?} was acquired over its bytes; get the driver's object before the discard")]
    Taken {
        /// Object of the handle.
        id: TransientId,
        /// Object that uses the bytes now or has used them; the same object if it was acquired again.
        by: TransientId,
    },
    /// The index is out of range for the lists of the planned frame, or the pass or resource at that index breaks a
    /// rule of the function that returned the error (for example the resource is not of the requested kind).
    #[error("the planned frame has no such pass or resource at index {place} of its list")]
    NotPlanned {
        /// The given index.
        place: usize,
    },
    /// The suspended execution belongs to another transient allocator, or it has ended, because another execution began
    /// or everything was released.
    #[error("execution {execution} is not suspended in this transient allocator; it has ended or is foreign")]
    NotSuspended {
        /// Number of the execution.
        execution: u64,
    },
    /// The passes of a frame cannot be ordered, because the planner's table of passes would be too large.
    #[error("the passes of the frame cannot be ordered: {0}")]
    Passes(PassError),
    /// The resources of a frame cannot be planned together, because the planner's table of resources would be too
    /// large.
    #[error("the resources of the frame cannot be planned together: {0}")]
    Resources(ItemError),
    /// The execution uses more queues than a transient allocator supports.
    #[error("a transient allocator supports at most {max} queues")]
    TooManyQueues {
        /// Maximum number of queues.
        max: usize,
    },
}

impl From<DeviceError> for TransientError {
    fn from(error: DeviceError) -> Self {
        Self::Memory(error.into())
    }
}
