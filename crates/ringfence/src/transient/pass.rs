//! A pass, the clock that says which passes are over, and the name of an object in a barrier.

/// The most queues that one transient allocator works with.
pub const QUEUES_MAX: usize = 8;

/// A pass: consecutive work on one queue, in a graph execution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pass {
    pub(super) owner: u32,
    pub(super) queue: u32,
    /// Counts the passes of the queue, from 1.
    pub(super) number: u64,
}

impl Pass {
    /// Counts the passes of its queue from 1, over all graph executions.
    #[must_use]
    pub fn number(self) -> u64 {
        self.number
    }
}

/// Of each queue the number up to which its passes are over.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Clock(pub(super) [u64; QUEUES_MAX]);

impl Clock {
    /// The clock at which a pass is over, its queue's earlier passes too.
    pub(super) fn of(pass: Pass) -> Self {
        let mut clock = Self::default();
        clock.0[pass.queue as usize] = pass.number;
        clock
    }

    /// Whether everything that `other` names is over.
    #[inline]
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(have, want)| have >= want)
    }

    /// At each queue the later of both.
    #[inline]
    pub(super) fn join(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
    }

    pub(super) fn on(&self, queue: u32) -> u64 {
        self.0[queue as usize]
    }
}

/// An object of a transient allocator, in a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TransientId {
    /// The number of its transient allocator, of all in the process.
    pub(super) owner: u32,
    pub(super) object: u32,
}
