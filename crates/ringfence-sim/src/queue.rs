//! Queues with their pending submissions, and the current values of fences.

use super::ids::Fence;
use super::options::SimOptions;
use super::order::Point;
use super::rng::Rng;
use super::step::Step;
use ringfence_hal::{DeviceError, Numbers};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
pub(super) struct Queues {
    pub(super) queues: Vec<Queue>,
    pub(super) fences: BTreeMap<Fence, u64>,
    pub(super) rng: Rng,
    /// Average number of ticks until a queue runs next.
    pub(super) lateness: u64,
    pub(super) tick_ns: u64,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) pending: VecDeque<Submission>,
    /// Number of submissions so far, which is also the number of the latest submission.
    pub(super) submitted: u64,
    /// Number of submissions that have ended.
    pub(super) ended: u64,
    pub(super) is_paused: bool,
    pub(super) family: u32,
}

#[derive(Debug)]
pub(super) struct Submission {
    pub(super) waits: Vec<Point>,
    pub(super) steps: VecDeque<Step>,
    pub(super) signal: Point,
}

impl Queues {
    pub(super) fn new(options: &SimOptions) -> Self {
        Self {
            queues: (0..options.queues).map(|_| Queue::default()).collect(),
            fences: BTreeMap::new(),
            rng: Rng::new(options.seed),
            lateness: u64::from(options.lateness.max(1)),
            tick_ns: options.tick_ns.max(1),
        }
    }

    pub(super) fn value(&self, fence: Fence) -> Result<u64, DeviceError> {
        self.fences.get(&fence).copied().ok_or(DeviceError::invalid("no such fence").with(Numbers::Given(fence.0)))
    }

    pub(super) fn set_paused(&mut self, queue: usize, is_paused: bool) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.is_paused = is_paused;
        }
    }

    pub(super) fn set_family(&mut self, queue: usize, family: u32) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.family = family;
        }
    }

    pub(super) fn family(&self, queue: usize) -> u32 {
        self.queues.get(queue).map_or(0, |queue| queue.family)
    }

    /// Returns `true` if the queue is not paused and the waits of its next submission are reached.
    pub(super) fn is_ready(&self, queue: usize) -> bool {
        let queue = &self.queues[queue];
        let reached = |&(fence, value): &Point| self.fences.get(&fence).is_some_and(|&held| held >= value);
        !queue.is_paused && queue.pending.front().is_some_and(|next| next.waits.iter().all(reached))
    }

    pub(super) fn can_progress(&self) -> bool {
        (0..self.queues.len()).any(|queue| self.is_ready(queue))
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queues.iter().all(|queue| queue.pending.is_empty())
    }
}
