//! Errors of transient resources. Nothing has changed then.

use ringfence_alias::{ItemError, PassError};
use ringfence_core::sync::TimelineId;

use super::pass::{Pass, TransientId};
use crate::device::DeviceError;
use ringfence_memory::Error;

/// Why a request was refused. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransientError {
    /// No memory, or the driver failed.
    #[error(transparent)]
    Memory(#[from] Error),
    /// The pass is not of this allocator, or of an execution that is over.
    #[error("{pass:?} is no pass of this execution")]
    UnknownPass {
        /// What was given.
        pass: Pass,
    },
    /// The timeline of the queue is of another allocator.
    #[error("{queue} is not of the transient allocator's own allocator")]
    ForeignQueue {
        /// What was given.
        queue: TimelineId,
    },
    /// A later pass of the queue has acquired something already.
    #[error("{pass:?} comes before pass {latest} of its queue, for which something was acquired already")]
    OutOfOrder {
        /// What was given.
        pass: Pass,
        /// The number of the later pass.
        latest: u64,
    },
    /// A last use that does not come after the first one.
    #[error("{last:?} is not ordered after {first:?}, where the resource begins")]
    NotAfter {
        /// Where the resource was acquired.
        first: Pass,
        /// The last use that was given.
        last: Pass,
    },
    /// The handle is not of this allocator, or its execution is over, or the resource was discarded before.
    #[error("the handle of {id:?} is stale or foreign")]
    Stale {
        /// Which object it named.
        id: TransientId,
    },
    /// The resource was discarded, and another one has some or all of its bytes since: its contents are gone, and
    /// commands that use it from here on would read or damage the other's. Get the driver's object before.
    #[error("{id:?} was discarded, and {by:?} was acquired over its bytes")]
    Taken {
        /// Which object the handle named.
        id: TransientId,
        /// The object that has the bytes, or had them since: the same one, if it was acquired again.
        by: TransientId,
    },
    /// The lists of the planned frame do not have this index, or the resource there is of the other kind.
    #[error("the planned frame has no such pass or resource at place {place} of its list")]
    NotPlanned {
        /// The place that was named.
        place: usize,
    },
    /// The execution that was suspended is another allocator's, or it ended: another one was begun since, or everything
    /// was released.
    #[error("execution {execution} is not suspended in this transient allocator")]
    NotSuspended {
        /// Its number.
        execution: u64,
    },
    /// The passes of a frame cannot be ordered: the planner's table of them would be too large.
    #[error("the passes cannot be planned: {0}")]
    Passes(PassError),
    /// The resources of a frame cannot be planned together: the planner's table of them would be too large.
    #[error("the resources cannot be planned: {0}")]
    Resources(ItemError),
    /// More queues than a transient allocator supports.
    #[error("a transient allocator works with {max} queues at the most")]
    TooManyQueues {
        /// How many are allowed.
        max: usize,
    },
}

impl From<DeviceError> for TransientError {
    fn from(error: DeviceError) -> Self {
        Self::Memory(error.into())
    }
}
