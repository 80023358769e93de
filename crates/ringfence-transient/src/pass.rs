//! A pass, the clock of completed passes, and the id of an object in a barrier.

/// Maximum number of queues of one transient allocator.
pub const QUEUES_MAX: usize = 8;

/// A pass: consecutive work on one queue in a graph execution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pass {
    pub(super) owner: u32,
    pub(super) queue: u32,
    /// Number among the passes of the queue, from 1.
    pub(super) number: u64,
}

impl Pass {
    /// Returns the number of the pass among the passes of its queue, from 1, over all graph executions.
    #[must_use]
    pub fn number(self) -> u64 {
        self.number
    }
}

/// The passes that are over at some time: for each queue, the number of the last one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Clock(pub(super) [u64; QUEUES_MAX]);

impl Clock {
    /// Returns the clock at which a pass and the earlier passes of its queue are over.
    pub(super) fn of(pass: Pass) -> Self {
        let mut clock = Self::default();
        clock.0[pass.queue as usize] = pass.number;
        clock
    }

    /// Returns `true` if every pass that is over in `other` is over in `self`.
    #[inline]
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(have, want)| have >= want)
    }

    /// Sets the number of each queue to the larger of the numbers in the two clocks.
    #[inline]
    pub(super) fn join(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
    }

    pub(super) fn on(&self, queue: u32) -> u64 {
        self.0[queue as usize]
    }
}

/// Id of an object of a transient allocator, in a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TransientId {
    /// Number of the object's transient allocator, unique in the process.
    pub(super) owner: u32,
    pub(super) object: u32,
    /// Number of objects that had the same `object` number before.
    pub(super) generation: u32,
}
