//! How resources are let go of.
//!
//! ```text
//!   drop(resource) ──▶ retired: RetireQueue, tagged with the latest begun of every timeline
//!                          │ reclaim: one reading of each timeline
//!                          ▼
//!                      destroy object ──▶ range back to its arena ──▶ empty for long? block back to the driver
//! ```
//!
//! No driver call is made while a lock is held that an allocation needs.
//!
//! | operation | cost |
//! |---|---|
//! | retire | O(1), one short lock |
//! | reclaim | a driver call a timeline, and one for each object that goes |

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ringfence_core::blocks::BlockAllocation;
use ringfence_core::range::Invalid;
use ringfence_core::retire::RetireQueue;
use ringfence_core::sync::{Progress, SyncSet};

use super::allocation::Common;
use super::place::{ArenaRef, Hold, Memory, Place};
use super::shared::Shared;
use super::statistics::count;
use super::{Reclaimed, ShutdownError};
use crate::device::{Device, DeviceError};
use crate::lifetime::{Passed, WaitError};
use crate::resource::RawObject;

/// What waits for the GPU.
struct Retired<D: Device> {
    object: RawObject<D>,
    place: Place<D>,
}

/// What was let go of and may still be in use.
struct RetiredQueue<D: Device> {
    queue: RetireQueue<Retired<D>>,
    /// What is retired during `turn` waits for this.
    waits: SyncSet,
    turn: Option<u64>,
}

/// What `reclaim` works with, kept so that a steady frame makes nothing.
struct Scratch<D: Device> {
    passed: Passed,
    released: Vec<Retired<D>>,
    /// Counts the calls of reclaim: the clock of empty blocks.
    tick: u64,
}

/// What an allocator keeps of releases.
pub(super) struct Releases<D: Device> {
    retired: Mutex<RetiredQueue<D>>,
    scratch: Mutex<Scratch<D>>,
}

impl<D: Device> Releases<D> {
    pub(super) fn new() -> Self {
        Self {
            retired: Mutex::new(RetiredQueue { queue: RetireQueue::new(), waits: SyncSet::new(), turn: None }),
            scratch: Mutex::new(Scratch { passed: Passed::default(), released: Vec::new(), tick: 0 }),
        }
    }

    pub(super) fn retired_count(&self) -> u64 {
        self.retired.lock().queue.len() as u64
    }

    pub(super) fn validate(&self) -> Result<(), Invalid> {
        self.retired.lock().queue.validate()
    }
}

impl<D: Device> Shared<D> {
    /// Lets go of a resource: it is destroyed once every submission that has begun is complete.
    pub(crate) fn retire(&self, object: RawObject<D>, place: Place<D>) {
        let mut retired = self.releases.retired.lock();
        let RetiredQueue { queue, waits, turn } = &mut *retired;
        let now = self.lifetimes.current_turn();
        if *turn != Some(now) {
            self.lifetimes.begun(waits);
            *turn = Some(now);
        }
        queue.retire(waits, Retired { object, place });
    }

    /// Lets go of a resource that only the submissions of `points` use.
    pub(crate) fn retire_after(&self, points: &SyncSet, object: RawObject<D>, place: Place<D>) {
        self.releases.retired.lock().queue.retire(points, Retired { object, place });
    }

    pub(crate) fn reclaim(&self) -> Reclaimed {
        let Some(mut scratch) = self.releases.scratch.try_lock() else { return Reclaimed::default() };
        let Scratch { passed, released, tick } = &mut *scratch;
        *tick += 1;
        if self.lifetimes.read(&self.device, passed).is_err() {
            self.lost.store(true, Ordering::Relaxed);
        }
        let device_lost = self.lost.load(Ordering::Relaxed);
        if device_lost {
            self.releases.retired.lock().queue.release_all(|item| released.push(item));
        } else {
            self.releases.retired.lock().queue.reclaim(passed, |item| released.push(item));
        }
        self.reclaim_rings(passed, device_lost);
        let objects = released.len();
        for item in released.drain(..) {
            self.destroy(item);
        }
        let own: usize = self.arenas.iter().map(|arena| self.free_all(|| arena.take_surplus(*tick))).sum();
        let blocks = own + self.reclaim_pools(*tick);
        Reclaimed { objects, blocks, device_lost }
    }

    /// Rings free what has passed now, so that few writes have to poll.
    fn reclaim_rings(&self, passed: &Passed, device_lost: bool) {
        for ring in self.rings.lock().iter().filter_map(Weak::upgrade) {
            ring.release(|users| device_lost || passed.passed_all(users));
        }
    }

    /// Destroys an object and gives its bytes back, without asking the device.
    ///
    /// # Safety
    /// No submission that is under way uses it, and it is destroyed once.
    pub(crate) unsafe fn destroy_now(&self, object: RawObject<D>, place: Place<D>) {
        self.destroy(Retired { object, place });
    }

    fn destroy(&self, Retired { object, place }: Retired<D>) {
        let memory = place.memory(self);
        self.device.note_retired(&memory.object, place.offset, memory.size);
        // SAFETY: every submission that used the object is complete, or the device is lost; it is destroyed once, as
        // the queue gives each item out once.
        if unsafe { object.destroy(&self.device) } {
            count(&self.calls.destroy_object);
        }
        self.give_back(place);
    }

    /// Gives a resource's bytes back, its object being gone.
    pub(super) fn give_back(&self, Place { arena, hold, .. }: Place<D>) {
        match hold {
            Hold::Range { memory, allocation } => {
                // First, so that whoever takes the block out when it is empty is the last to hold its memory.
                drop(memory);
                self.free_range(&arena, allocation);
            }
            Hold::Cell { class, named, allocation } => self.arena_cells(&arena).free(class, named, allocation),
            Hold::Dedicated { memory, number } => {
                self.remove_dedicated(&arena, number);
                self.free_memory(memory);
            }
            Hold::Common(common) => {
                if let Some(Common { place, size }) = Arc::into_inner(common) {
                    self.device.note_aliasing(&place.memory(self).object, place.offset, size, false);
                    self.give_back(place);
                }
            }
            Hold::Small { state, backing, allocation } => {
                drop(backing);
                if let Some(backing) = state.free(allocation) {
                    self.destroy_backing(backing);
                }
            }
        }
    }

    fn free_range(&self, arena: &ArenaRef<D>, allocation: BlockAllocation) {
        match arena {
            ArenaRef::Own(index) => self.arenas[*index as usize].free(allocation),
            ArenaRef::Pool(pool) => pool.arena.free(allocation),
        }
    }

    fn remove_dedicated(&self, arena: &ArenaRef<D>, number: u64) {
        match arena {
            ArenaRef::Own(index) => self.arenas[*index as usize].remove_dedicated(number),
            ArenaRef::Pool(pool) => pool.arena.remove_dedicated(number),
        }
    }

    pub(super) fn trim(&self) -> usize {
        self.trim_small_buffers();
        self.free_empty_blocks(|_| true, 0).0
    }

    fn free_all(&self, mut next: impl FnMut() -> Option<Memory<D>>) -> usize {
        std::iter::from_fn(&mut next).map(|memory| self.free_memory(memory)).count()
    }

    /// Blocks of custom pools that have been empty for long, and those of pools whose handle is gone.
    fn reclaim_pools(&self, tick: u64) -> usize {
        if self.pools.read().is_empty() {
            return 0;
        }
        self.collect_closed_pools();
        let pools = self.pools.read().clone();
        pools.iter().map(|pool| self.free_all(|| pool.arena.take_surplus(tick))).sum()
    }

    pub(super) fn free_memory(&self, memory: Memory<D>) {
        let Memory { object, memory_type, size, .. } = memory;
        // SAFETY: this device made it, and nothing is placed in it: its block is empty, or its only resource destroyed.
        unsafe { self.device.free_memory(object) };
        self.memory_objects.fetch_sub(1, Ordering::Relaxed);
        self.budgets.remove(self.heap_of(memory_type), size);
        count(&self.calls.free_memory);
    }

    pub(super) fn wait_submitted(&self, timeout: Duration) -> Result<(), ShutdownError> {
        let deadline = Instant::now().checked_add(timeout);
        match self.wait(&self.lifetimes.submitted(), deadline) {
            Ok(()) | Err(WaitError::Device(DeviceError::Lost)) => Ok(()),
            Err(WaitError::Device(error)) => Err(error.into()),
            Err(WaitError::Timeout | WaitError::NotSubmitted(_)) => Err(ShutdownError::Timeout),
        }
    }

    /// Waits for points, counted.
    pub(crate) fn wait(&self, points: &SyncSet, deadline: Option<Instant>) -> Result<(), WaitError> {
        count(&self.calls.wait);
        self.lifetimes.wait(&self.device, points, deadline)
    }
}

impl<D: Device> Drop for Shared<D> {
    /// Whatever is left waits for the GPU here: nothing may be destroyed under it. After [`Allocator::shutdown`] there
    /// is nothing left to wait for.
    fn drop(&mut self) {
        let idle = self.releases.retired.lock().queue.is_empty() || self.wait_submitted(Duration::MAX).is_ok();
        let mut left = Vec::new();
        self.releases.retired.lock().queue.release_all(|item| left.push(item));
        if !idle {
            // The driver failed while waiting: what the GPU may still use is better leaked than destroyed under it.
            return std::mem::forget(left);
        }
        left.into_iter().for_each(|item| self.destroy(item));
        self.pools.read().iter().for_each(|pool| pool.is_closed.store(true, Ordering::Relaxed));
        self.trim();
    }
}
