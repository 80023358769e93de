//! Planning on several threads. The result does not depend on the number of threads.
//!
//! ```text
//!   worker 0   ├──── steps ──────┤         ├─ …       each worker searches on its own, with its own seed
//!   worker 1   ├──── steps ──────┤ lowest  ├─ …
//!   worker 2   ├──── steps ──────┤ plan    ├─ …       the number of workers depends only on the number of items;
//!   …                            ▲                    at most `threads` of them run at a time
//!                        end of a round: all continue with the lowest plan (of equal ones, that of the first worker)
//!                                        and the highest lower bound
//! ```
//!
//! Each worker has its own thread, which waits while others run, so that it can continue in the middle of its search.
//! The calling thread calls the closure.

use super::plan::{Planner, Policy};
use alloc::vec::Vec;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use ringfence_alias::Problem;
use ringfence_alias::{AliasPlan, Progress};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Options of [`plan_with`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanDesc {
    /// Number of threads that search at a time. The result does not depend on it.
    ///
    /// One thread is started per worker: 16 for up to 1,536 items, 8 for up to 100,000 and 4 for more. At most
    /// `threads` of them run at a time; the others wait.
    pub threads: NonZeroUsize,
    /// Seed of the random numbers. No value is better than another.
    pub seed: u64,
}

impl Default for PlanDesc {
    fn default() -> Self {
        Self { threads: NonZeroUsize::MIN, seed: 0 }
    }
}

/// Pairs of a maximum number of items and the number of workers up to it. There are fewer workers for more items,
/// because each worker's host memory grows with the items.
const WORKERS: [(usize, usize); 3] = [(1_536, 16), (100_000, 8), (usize::MAX, 4)];
/// Steps of a worker in the first round. Each later round has twice as many, up to `STEPS_MAX`.
const STEPS_FIRST: u64 = 2_000;
const STEPS_MAX: u64 = 128_000;
/// Number of the last round.
const LAST_ROUND: u64 = u64::MAX / 2;
/// Time between two calls of the closure within a round.
const PATIENCE: Duration = Duration::from_millis(1);

/// Plans as [`plan`](super::plan) does, on several threads.
///
/// First, the calling thread tries greedy policies; for more than 1,536 items, it also plans the moments with the most
/// live bytes. Then the workers search in rounds of a limited number of steps. The number of workers depends on the
/// number of items. The closure is called at the end of each round with the steps of all workers. Within a round it is
/// called about once per millisecond with 0 steps, so that it can read a clock. If it then returns `false`, the round
/// is cut short.
///
/// *Determinism*: the plan depends only on the problem, the seed and the number of rounds, not on `threads`. A closure
/// that decides by steps, heights and bounds ends after the same number of rounds each time; one that reads a clock or
/// counts its calls does not. If a round is cut short, the result is the lowest plan found by then, which depends on
/// time.
///
/// With a single thread, [`plan`](super::plan) is faster, because the thread has to do the work of all workers.
///
/// # Panics
/// A thread cannot be started, or the closure panics. All started threads end first.
#[must_use]
pub fn plan_with(problem: &Problem, desc: &PlanDesc, mut go_on: impl FnMut(&Progress) -> bool) -> AliasPlan {
    let mut asked = |best: &mut AliasPlan, steps| go_on(&best.progress(steps));
    let mut planner = Planner::new(problem, &mut asked);
    planner.begin();
    if planner.done() {
        return planner.best;
    }
    let untried = core::mem::take(&mut planner.untried);
    let best = planner.best;
    let count = WORKERS.iter().find(|(items, _)| problem.len() <= *items).map_or(1, |&(_, workers)| workers);
    let meeting = Meeting::new(best, desc.threads.get(), count);
    thread::scope(|scope| {
        // Ends the rounds on every exit from the block, since the scope waits for all workers.
        let _ending = Ending { meeting: &meeting };
        for worker in 0..count {
            let (meeting, untried) = (&meeting, &untried);
            let seed = desc.seed.wrapping_mul(WORKERS[0].1 as u64).wrapping_add(worker as u64);
            scope.spawn(move || meeting.work(problem, worker, seed, untried));
        }
        meeting.preside(&mut go_on);
    });
    meeting.state.into_inner().unwrap_or_else(PoisonError::into_inner).best
}

/// Returns the policies that a worker tries. Each policy is tried by one worker.
fn share(untried: &[Policy], worker: usize, count: usize) -> Vec<Policy> {
    untried.iter().enumerate().filter(|(place, _)| place % count == worker).map(|(_, policy)| *policy).collect()
}

/// Shared state of the workers and the calling thread.
struct Meeting {
    /// Number of workers.
    count: usize,
    state: Mutex<State>,
    changed: Condvar,
    /// Read without the lock. Set to stop all workers.
    is_over: AtomicBool,
}

struct State {
    best: AliasPlan,
    /// Plan of each worker that has finished the round.
    found: Vec<Option<AliasPlan>>,
    /// Number of the round.
    round: u64,
    /// Number of steps that a worker takes in this round.
    quota: u64,
    /// Steps of all workers in the round.
    steps: u64,
    /// Number of further workers that may run.
    free: usize,
    /// Number of workers that have not ended.
    working: usize,
}

impl Meeting {
    fn new(best: AliasPlan, threads: usize, count: usize) -> Self {
        let found = (0..count).map(|_| None).collect();
        let state = State { best, found, round: 0, quota: STEPS_FIRST, steps: 0, free: threads, working: count };
        Self { count, state: Mutex::new(state), changed: Condvar::new(), is_over: AtomicBool::new(false) }
    }

    /// Locks the state. A worker does not panic while it changes the state, so a poisoned lock is still consistent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one worker, from its first round to its last.
    fn work(&self, problem: &Problem, worker: usize, seed: u64, untried: &[Policy]) {
        let leaving = Leaving { meeting: self };
        let best = self.enter(0);
        let (mut round, mut steps, mut quota) = (0, 0, STEPS_FIRST);
        let mut asked = |best: &mut AliasPlan, more: u64| {
            steps += more;
            if self.is_over.load(Ordering::Relaxed) {
                return false;
            }
            if steps < quota && !best.is_proven() {
                return true;
            }
            round += 1;
            quota = self.meet(worker, best, core::mem::take(&mut steps), round);
            quota > 0
        };
        let mut planner = Planner::new(problem, &mut asked);
        (planner.best, planner.seed) = (best, seed);
        planner.untried = share(untried, worker, self.count);
        planner.go_on();
        let best = planner.best;
        self.lock().found[worker] = Some(best);
        drop(leaving);
    }

    /// Waits for the round and for a free thread. Returns the plan to continue from.
    fn enter(&self, round: u64) -> AliasPlan {
        let mut state = self.lock();
        while state.round < round || state.free == 0 {
            state = self.wait(state);
        }
        state.free -= 1;
        state.best.clone()
    }

    /// Ends a worker's round: publishes its plan and takes the lowest plan of all workers. Returns the number of steps
    /// of the next round, or 0 if the worker must end.
    fn meet(&self, worker: usize, best: &mut AliasPlan, steps: u64, round: u64) -> u64 {
        let mut state = self.lock();
        state.found[worker] = Some(best.clone());
        state.steps += steps;
        state.free += 1;
        self.changed.notify_all();
        drop(state);
        let lowest = self.enter(round);
        best.lower_bound = best.lower_bound.max(lowest.lower_bound);
        if lowest.height < best.height {
            *best = lowest;
        }
        if self.is_over.load(Ordering::Relaxed) { 0 } else { self.lock().quota }
    }

    /// Runs the calling thread's part: calls the closure and ends the rounds.
    fn preside(&self, go_on: &mut dyn FnMut(&Progress) -> bool) {
        let mut state = self.lock();
        while state.working > 0 {
            let is_whole = state.found.iter().all(Option::is_some);
            if !is_whole {
                let progress = state.best.progress(0);
                drop(state);
                if !self.is_over.load(Ordering::Relaxed) && !go_on(&progress) {
                    self.is_over.store(true, Ordering::Relaxed);
                }
                state = self.lock();
                if state.working > 0 && !state.found.iter().all(Option::is_some) {
                    let waited = self.changed.wait_timeout(state, PATIENCE);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                continue;
            }
            state.take_lowest();
            let steps = core::mem::take(&mut state.steps);
            let progress = state.best.progress(steps);
            let is_proven = state.best.is_proven();
            drop(state);
            if is_proven || self.is_over.load(Ordering::Relaxed) || !go_on(&progress) {
                self.is_over.store(true, Ordering::Relaxed);
            }
            state = self.lock();
            state.begin_round();
            self.changed.notify_all();
            if self.is_over.load(Ordering::Relaxed) {
                while state.working > 0 {
                    state = self.wait(state);
                }
            }
        }
        state.take_lowest();
    }
}

impl State {
    /// Continues with the lowest of the workers' plans (of equal plans, that of the first worker) and the highest lower
    /// bound.
    fn take_lowest(&mut self) {
        for found in self.found.iter().flatten() {
            let bound = self.best.lower_bound.max(found.lower_bound);
            if found.height < self.best.height {
                self.best.clone_from(found);
            }
            self.best.lower_bound = bound;
        }
        self.best.lower_bound = self.best.lower_bound.min(self.best.height);
    }

    fn begin_round(&mut self) {
        self.found.fill(None);
        self.round = (self.round + 1).min(LAST_ROUND);
        self.quota = (2 * self.quota).min(STEPS_MAX);
    }
}

/// Ends the rounds when the calling thread leaves, also by a panic, so that no worker waits for another round.
struct Ending<'m> {
    meeting: &'m Meeting,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let mut state = self.meeting.lock();
        self.meeting.is_over.store(true, Ordering::Relaxed);
        state.round = LAST_ROUND;
        self.meeting.changed.notify_all();
    }
}

/// Unregisters a worker that ends, also by a panic, so that no thread waits for it.
struct Leaving<'m> {
    meeting: &'m Meeting,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut state = self.meeting.lock();
        state.working -= 1;
        state.free += 1;
        if thread::panicking() {
            // No thread waits for its plan; the scope propagates the panic.
            self.meeting.is_over.store(true, Ordering::Relaxed);
            state.round = LAST_ROUND;
        }
        self.meeting.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_tried_by_one_worker() {
        for (_, count) in WORKERS {
            let mut tried: Vec<Policy> = (0..count).flat_map(|worker| share(&Policy::ALL, worker, count)).collect();
            tried.sort_by_key(|policy| Policy::ALL.iter().position(|other| other == policy));
            assert_eq!(tried, Policy::ALL, "{count} workers");
        }
    }
}
