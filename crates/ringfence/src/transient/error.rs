//! What can go wrong with transient resources. Nothing has changed then.

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
    /// The pass is none of this allocator's, or of an execution that is over.
    #[error("{pass:?} is no pass of this execution")]
    UnknownPass {
        /// What was given.
        pass: Pass,
    },
    /// The timeline that stands for the queue is of another allocator: it says nothing of what is complete here.
    #[error("{queue} is not of the transient allocator's own allocator")]
    ForeignQueue {
        /// What was given.
        queue: TimelineId,
    },
    /// Something was acquired for a later pass of the queue before.
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
    /// The handle is none of this allocator's, or its execution is over, or the resource was discarded before.
    #[error("the handle of {id:?} is stale or foreign")]
    Stale {
        /// Which object it named.
        id: TransientId,
    },
    /// A place that the lists of the planned frame do not have, or a resource of the other kind there.
    #[error("the planned frame has no such pass or resource at place {place} of its list")]
    NotPlanned {
        /// The place that was named.
        place: usize,
    },
    /// More queues than one transient allocator works with.
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
