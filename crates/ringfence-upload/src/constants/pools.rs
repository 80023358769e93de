//! The static pools of one class. Finds the first pool with a free slot, and pools that have been empty for a number of
//! ticks (calls of `reclaim`).
//!
//! | operation | cost |
//! |---|---|
//! | take or free a slot | O(log pools) |
//! | add a pool | O(log pools), amortized |
//! | take out an empty pool | O(log pools), amortized |

use std::collections::VecDeque;

use ringfence_core::fit_tree::FitTree;

struct Listed<P> {
    pool: P,
    slots: u32,
    free: Vec<u32>,
    /// Tick from which on all slots are free; `None` if a slot is in use.
    empty_since: Option<u64>,
    /// `true` if the pool is in [`Pools::empty`].
    queued: bool,
}

/// The static pools of one class, with the number of free slots of each pool and a queue of empty pools.
pub(super) struct Pools<P> {
    /// `None` at the index of a removed pool.
    listed: Vec<Option<Listed<P>>>,
    vacant: Vec<usize>,
    /// Number of free slots of each pool.
    room: FitTree,
    /// Pools that became empty, each with its `empty_since` at the time when it was queued. Each pool is queued at most
    /// once.
    empty: VecDeque<(usize, u64)>,
}

impl<P: Clone> Pools<P> {
    pub(super) fn new() -> Self {
        let (listed, vacant, empty) = (Vec::new(), Vec::new(), VecDeque::new());
        Self { listed, vacant, room: FitTree::empty(), empty }
    }

    pub(super) fn len(&self) -> usize {
        self.listed.len() - self.vacant.len()
    }

    /// Adds a pool with free slots only. `tick` is the present tick.
    pub(super) fn add(&mut self, pool: P, slots: u32, tick: u64) {
        let listed = Listed { pool, slots, free: (0..slots).rev().collect(), empty_since: Some(tick), queued: true };
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.listed.push(None);
            self.listed.len() - 1
        });
        self.listed[index] = Some(listed);
        self.empty.push_back((index, tick));
        self.room.reserve(index + 1);
        self.room.set(index, slots.into());
    }

    fn held(&mut self, index: usize) -> &mut Listed<P> {
        self.listed[index].as_mut().expect("a pool with a slot in use or in a queue is listed")
    }

    /// Takes a free slot of the first pool that has one. Returns the pool, the pool's index and the slot.
    pub(super) fn take(&mut self) -> Option<(P, usize, u32)> {
        let index = self.room.first(1)?;
        let held = self.held(index);
        let slot = held.free.pop()?;
        held.empty_since = None;
        let (pool, free) = (held.pool.clone(), held.free.len() as u64);
        self.room.set(index, free);
        Some((pool, index, slot))
    }

    /// Frees a slot. `tick` is the present tick.
    pub(super) fn free(&mut self, index: usize, slot: u32, tick: u64) {
        let held = self.held(index);
        held.free.push(slot);
        let free = held.free.len() as u64;
        if free == u64::from(held.slots) {
            held.empty_since = Some(tick);
            if !std::mem::replace(&mut held.queued, true) {
                self.empty.push_back((index, tick));
            }
        }
        self.room.set(index, free);
    }

    /// Returns `true` if a pool has been empty for at least `grace` ticks. That pool is then the first in the queue.
    pub(super) fn has_idle(&mut self, tick: u64, grace: u64) -> bool {
        while let Some(&(index, since)) = self.empty.front() {
            let held = self.held(index);
            match held.empty_since {
                Some(now) if now == since => return tick - since >= grace,
                // A slot was in use after the pool was queued, so the pool waits again.
                Some(now) => self.empty.push_back((index, now)),
                None => held.queued = false,
            }
            self.empty.pop_front();
        }
        false
    }

    /// Removes and returns a pool that has been empty for at least `grace` ticks.
    pub(super) fn take_idle(&mut self, tick: u64, grace: u64) -> Option<P> {
        if !self.has_idle(tick, grace) {
            return None;
        }
        let (index, _) = self.empty.pop_front()?;
        let held = self.listed[index].take()?;
        self.vacant.push(index);
        self.room.set(index, 0);
        Some(held.pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_go_after_their_grace_and_the_first_with_room_serves() {
        let mut pools = Pools::new();
        assert_eq!(pools.take(), None);
        for pool in 0..5_u8 {
            pools.add(pool, 2, 0);
        }
        let taken: Vec<_> = (0..10).map(|_| pools.take().expect("ten slots")).collect();
        assert!((0..10).all(|at| taken[at] == (at as u8 / 2, at / 2, at as u32 % 2)) && pools.take().is_none());
        assert_eq!(pools.take_idle(100, 3), None, "all pools are in use");
        for (at, tick) in [(2, 100), (3, 101), (4, 101), (6, 101), (7, 101), (8, 102)] {
            pools.free(taken[at].1, taken[at].2, tick);
        }
        assert_eq!((pools.take_idle(103, 3), pools.has_idle(104, 3)), (None, true));
        assert_eq!(pools.take(), Some((1, 1, 1)), "the first pool with a free slot");
        assert_eq!((pools.take_idle(104, 3), pools.len()), (Some(3), 4), "the other pool is in use again");
        pools.free(1, 1, 105);
        assert_eq!((pools.take_idle(107, 3), pools.take_idle(108, 3), pools.len()), (None, Some(1), 3));
        pools.add(9, 1, 108);
        let again: Vec<_> = std::iter::from_fn(|| pools.take()).collect();
        assert_eq!(again, [(9, 1, 0), (2, 2, 0), (4, 4, 0)], "at the index of a removed pool");
    }
}
