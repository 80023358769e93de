//! Planning on several threads, with the same answer for any number of them.
//!
//! ```text
//!   worker 0   ├──── steps ──────┤         ├─ …       each searches by itself, in a way of its own
//!   worker 1   ├──── steps ──────┤ lowest  ├─ …
//!   worker 2   ├──── steps ──────┤ plan    ├─ …       the number of workers depends on the number of items alone;
//!   …                            ▲                    as many of them run at a time as there are threads
//!                        the end of a round: all take the lowest plan, of these the first worker's, and the highest bound
//! ```
//!
//! A worker has a thread of its own, which waits while others run: so it goes on where it was. The caller's closure is
//! asked by the thread that called.

use super::plan::{AliasPlan, Planner, Policy, Progress};
use super::problem::Problem;
use alloc::vec::Vec;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// How [`plan_with`] plans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanDesc {
    /// How many threads search at a time. The answer does not depend on it.
    ///
    /// It is not how many are started: each worker has a thread of its own, sixteen up to 1,536 items, eight up to
    /// 100,000 and four for more. Of these `threads` run at a time, the others wait.
    pub threads: NonZeroUsize,
    /// What is drawn by chance depends on it; 0 is as good as any other.
    pub seed: u64,
}

impl Default for PlanDesc {
    fn default() -> Self {
        Self { threads: NonZeroUsize::MIN, seed: 0 }
    }
}

/// The largest number of items, and the workers for it: what each keeps grows with the items.
const WORKERS: [(usize, usize); 3] = [(1_536, 16), (100_000, 8), (usize::MAX, 4)];
/// Steps of a worker in the first round; in each one after it twice as many, up to the last.
const STEPS_FIRST: u64 = 2_000;
const STEPS_MAX: u64 = 128_000;
/// None comes after it.
const LAST_ROUND: u64 = u64::MAX / 2;
/// How often the caller is asked within a round.
const PATIENCE: Duration = Duration::from_millis(1);

/// Plans as [`plan`](super::plan) does, on several threads.
///
/// What comes first (greedy policies; of more than 1,536 items the fullest moments) is done by one. Then there are
/// rounds, in which the workers, whose number depends on that of the items, take a number of steps each. The closure is
/// asked at the end of a round, with the steps of all; and within a round about once in a millisecond, with no steps,
/// for the sake of clocks. If its answer to the latter is no, the round is cut short.
///
/// *What is deterministic*: the same problem, seed and number of rounds give the same plan, whatever the number of
/// threads; so does a closure that counts steps or reads heights and bounds, but no clock and not how often it is
/// asked. Of a round that was cut short the lowest plan is given that was found by then, which depends on time.
///
/// One thread does all the work of several: [`plan`](super::plan) is quicker then.
///
/// # Panics
/// If a thread cannot be started, or the closure panics; the threads that were started end first.
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
        // However the block is left: the scope waits for every worker.
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

/// The policies that a worker tries: each is tried by one.
fn share(untried: &[Policy], worker: usize, count: usize) -> Vec<Policy> {
    untried.iter().enumerate().filter(|(place, _)| place % count == worker).map(|(_, policy)| *policy).collect()
}

/// Where workers meet.
struct Meeting {
    /// How many workers there are.
    count: usize,
    state: Mutex<State>,
    changed: Condvar,
    /// Read without the lock: no worker goes on.
    is_over: AtomicBool,
}

struct State {
    best: AliasPlan,
    /// Of each worker its plan, when it is through with the round.
    found: Vec<Option<AliasPlan>>,
    /// The number of the round, and the steps of a worker in it.
    round: u64,
    quota: u64,
    /// Steps of all in the round.
    steps: u64,
    /// How many more may run.
    free: usize,
    /// Workers that have not ended.
    working: usize,
}

impl Meeting {
    fn new(best: AliasPlan, threads: usize, count: usize) -> Self {
        let found = (0..count).map(|_| None).collect();
        let state = State { best, found, round: 0, quota: STEPS_FIRST, steps: 0, free: threads, working: count };
        Self { count, state: Mutex::new(state), changed: Condvar::new(), is_over: AtomicBool::new(false) }
    }

    /// A worker that panicked has left the state as it was.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// One worker, from its first round to its last.
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

    /// Waits until the round has come and there is a thread to spare; the plan to go on from.
    fn enter(&self, round: u64) -> AliasPlan {
        let mut state = self.lock();
        while state.round < round || state.free == 0 {
            state = self.wait(state);
        }
        state.free -= 1;
        state.best.clone()
    }

    /// The end of a worker's round: gives its plan, takes the lowest. The steps of the next round; 0 to end.
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

    /// The thread that called: asks the closure, and ends the rounds.
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
    /// Of the plans that were found the lowest, of these the first worker's; and the highest bound.
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

/// The thread that called goes, also by a panic: no worker waits for another round.
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

/// A worker that ends, also by a panic, keeps no other waiting.
struct Leaving<'m> {
    meeting: &'m Meeting,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut state = self.meeting.lock();
        state.working -= 1;
        state.free += 1;
        if thread::panicking() {
            // No other waits for its plan: the scope passes the panic on.
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
