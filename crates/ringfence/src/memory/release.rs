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
use ringfence_core::range::Invalid;
use ringfence_core::retire::RetireQueue;
use ringfence_core::sync::{Progress, SyncSet};

use super::arena::Memory;
use super::shared::{Hold, Place, Shared};
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
        self.rooms.reclaim(&self.device, passed, device_lost);
        let objects = released.len();
        for item in released.drain(..) {
            self.destroy(item);
        }
        let blocks = self.arenas.iter().map(|arena| self.free_all(|| arena.take_surplus(*tick))).sum();
        Reclaimed { objects, blocks, device_lost }
    }

    /// Rings free what has passed now, so that few writes have to poll.
    fn reclaim_rings(&self, passed: &Passed, device_lost: bool) {
        for ring in self.rings.lock().iter().filter_map(Weak::upgrade) {
            ring.release(|users| device_lost || passed.passed_all(users));
        }
    }

    fn destroy(&self, Retired { object, place }: Retired<D>) {
        self.device.note_retired(&place.memory.object, place.offset, place.memory.size);
        // SAFETY: every submission that used the object is complete, or the device is lost; it is destroyed once, as
        // the queue gives each item out once.
        unsafe { object.destroy(&self.device) };
        count(&self.calls.destroy_object);
        self.give_back(place);
    }

    /// Gives a resource's bytes back, its object being gone.
    pub(super) fn give_back(&self, Place { memory, arena, hold, .. }: Place<D>) {
        let arena = &self.arenas[arena as usize];
        match hold {
            Hold::Range(allocation) => {
                // First, so that whoever takes the block out when it is empty is the last to hold its memory.
                drop(memory);
                arena.free(allocation);
            }
            Hold::Dedicated(number) => {
                arena.remove_dedicated(number);
                let memory = Arc::into_inner(memory).expect("dedicated memory has one owner");
                self.free_memory(memory);
            }
        }
    }

    pub(super) fn trim(&self) -> usize {
        self.arenas.iter().map(|arena| self.free_all(|| arena.take_empty())).sum()
    }

    fn free_all(&self, mut next: impl FnMut() -> Option<Memory<D>>) -> usize {
        std::iter::from_fn(&mut next).map(|memory| self.free_memory(memory)).count()
    }

    fn free_memory(&self, memory: Memory<D>) {
        // SAFETY: this device made it, and nothing is placed in it: its block is empty, or its only resource destroyed.
        unsafe { self.device.free_memory(memory.object) };
        self.memory_objects.fetch_sub(1, Ordering::Relaxed);
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
        let unused = self.releases.retired.lock().queue.is_empty() && self.rooms.is_empty();
        let idle = unused || self.wait_submitted(Duration::MAX).is_ok();
        let mut left = Vec::new();
        self.releases.retired.lock().queue.release_all(|item| left.push(item));
        if !idle {
            // The driver failed while waiting: what the GPU may still use is better leaked than destroyed under it.
            self.rooms.leak();
            return std::mem::forget(left);
        }
        // SAFETY: the device is idle, and whoever has a heap has this allocator too.
        unsafe { self.rooms.destroy(&self.device) };
        left.into_iter().for_each(|item| self.destroy(item));
        self.trim();
    }
}
