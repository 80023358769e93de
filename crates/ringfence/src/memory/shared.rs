//! What every clone of the allocator and everything that it made share; how resources are let go of.
//!
//! ```text
//!   drop(resource) ──▶ retired: RetireQueue, tagged with the latest begun of every timeline
//!                          │ reclaim: one reading of each timeline
//!                          ▼
//!                      destroy object ──▶ range back to its arena ──▶ empty for long? block back to the driver
//! ```
//!
//! No driver call is made while a lock is held that an allocation needs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use ringfence_core::blocks::{BlockAllocation, BlocksDesc};
use ringfence_core::range::Invalid;
use ringfence_core::retire::RetireQueue;
use ringfence_core::sync::{Progress, SyncSet};

use super::arena::{Arena, BlockSizes, Memory};
use super::statistics::{Calls, count};
use super::types::TypeOrder;
use super::{AllocatorDesc, Reclaimed, ShutdownError};
use crate::device::{Device, DeviceError, MemoryProperties, ResourceClass};
use crate::lifetime::{Lifetimes, Passed, WaitError};
use crate::resource::RawObject;
use crate::upload::RingState;

/// Where a resource's bytes are.
pub(crate) struct Place<D: Device> {
    pub(crate) memory: Arc<Memory<D>>,
    pub(crate) offset: u64,
    pub(super) arena: u32,
    pub(super) hold: Hold,
}

/// By what right.
pub(super) enum Hold {
    Range(BlockAllocation),
    /// Memory of its own, and the number under which the arena knows it.
    Dedicated(u64),
}

/// What waits for the GPU.
struct Retired<D: Device> {
    object: RawObject<D>,
    place: Place<D>,
}

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

/// What every clone of the allocator and everything that it made share.
pub(crate) struct Shared<D: Device> {
    pub(crate) device: D,
    pub(crate) lifetimes: Lifetimes<D>,
    pub(super) rings: Mutex<Vec<Weak<RingState>>>,
    pub(super) order: TypeOrder,
    /// One for each memory type and class group: see [`Shared::arena_index`].
    pub(super) arenas: Box<[Arena<D>]>,
    retired: Mutex<RetiredQueue<D>>,
    scratch: Mutex<Scratch<D>>,
    lost: AtomicBool,
    pub(super) memory_objects: AtomicU64,
    pub(super) calls: Calls,
}

pub(super) const CLASSES: [ResourceClass; 3] =
    [ResourceClass::Buffer, ResourceClass::Texture, ResourceClass::RenderTarget];

impl<D: Device> Shared<D> {
    pub(super) fn new(device: D, desc: AllocatorDesc) -> Self {
        let capabilities = device.capabilities();
        let blocks = BlocksDesc {
            destroy_threshold: desc.empty_blocks_kept,
            grace_ticks: desc.empty_block_grace,
            ..Default::default()
        };
        let arenas = (0..).zip(&capabilities.memory_types).flat_map(|(index, held)| {
            let heap = capabilities.memory_heaps[held.heap as usize].bytes;
            let host = held.properties.contains(MemoryProperties::HOST_VISIBLE);
            let wanted = if host { desc.host_block_bytes_max } else { desc.device_block_bytes_max };
            let sizes = BlockSizes::for_heap(heap, capabilities.memory_object_bytes_max, wanted);
            CLASSES.map(|class| Arena::new(index, class, sizes, blocks))
        });
        Self {
            order: TypeOrder::new(capabilities),
            arenas: arenas.collect(),
            lifetimes: Lifetimes::new(),
            rings: Mutex::new(Vec::new()),
            retired: Mutex::new(RetiredQueue { queue: RetireQueue::new(), waits: SyncSet::new(), turn: None }),
            scratch: Mutex::new(Scratch { passed: Passed::default(), released: Vec::new(), tick: 0 }),
            lost: AtomicBool::new(false),
            memory_objects: AtomicU64::new(0),
            calls: Calls::default(),
            device,
        }
    }

    /// Lets go of a resource: it is destroyed once every submission that has begun is complete.
    pub(crate) fn retire(&self, object: RawObject<D>, place: Place<D>) {
        let mut retired = self.retired.lock();
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
        self.retired.lock().queue.retire(points, Retired { object, place });
    }

    pub(crate) fn reclaim(&self) -> Reclaimed {
        let Some(mut scratch) = self.scratch.try_lock() else { return Reclaimed::default() };
        let Scratch { passed, released, tick } = &mut *scratch;
        *tick += 1;
        if self.lifetimes.read(&self.device, passed).is_err() {
            self.lost.store(true, Ordering::Relaxed);
        }
        let device_lost = self.lost.load(Ordering::Relaxed);
        if device_lost {
            self.retired.lock().queue.release_all(|item| released.push(item));
        } else {
            self.retired.lock().queue.reclaim(passed, |item| released.push(item));
        }
        self.reclaim_rings(passed, device_lost);
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

    /// Makes host writes at `offset..offset + size` of the place visible to the device, where that needs a call.
    pub(crate) fn flush(&self, place: &Place<D>, offset: u64, size: u64) -> Result<(), DeviceError> {
        let memory = &place.memory;
        let capabilities = self.device.capabilities();
        if size == 0 || !capabilities.needs_flush(memory.memory_type) {
            return Ok(());
        }
        let atom =
            if capabilities.is_non_coherent(memory.memory_type) { capabilities.non_coherent_atom_bytes } else { 1 };
        let start = (place.offset + offset) / atom * atom;
        let end = (place.offset + offset + size).div_ceil(atom).saturating_mul(atom).min(memory.size);
        // SAFETY: the range lies in this device's memory, which is mapped as long as it exists, and is atom-aligned.
        unsafe { self.device.flush(&memory.object, start, end - start) }
    }

    /// Notes a ring, for snapshots.
    pub(crate) fn add_ring(&self, ring: &Arc<RingState>) {
        let mut rings = self.rings.lock();
        rings.retain(|held| held.strong_count() > 0);
        rings.push(Arc::downgrade(ring));
    }

    pub(crate) fn count_staged(&self) {
        count(&self.calls.staged);
    }

    pub(crate) fn check_lost(&self) -> Result<(), DeviceError> {
        if self.lost.load(Ordering::Relaxed) { Err(DeviceError::Lost) } else { Ok(()) }
    }

    pub(super) fn retired_count(&self) -> u64 {
        self.retired.lock().queue.len() as u64
    }

    pub(super) fn validate(&self) -> Result<(), Invalid> {
        self.arenas.iter().try_for_each(Arena::validate)?;
        self.retired.lock().queue.validate()
    }
}

impl<D: Device> Drop for Shared<D> {
    /// Whatever is left waits for the GPU here: nothing may be destroyed under it. After [`Allocator::shutdown`] there
    /// is nothing left to wait for.
    fn drop(&mut self) {
        let idle = self.retired.lock().queue.is_empty() || self.wait_submitted(Duration::MAX).is_ok();
        let mut left = Vec::new();
        self.retired.lock().queue.release_all(|item| left.push(item));
        if !idle {
            // The driver failed while waiting: what the GPU may still use is better leaked than destroyed under it.
            return std::mem::forget(left);
        }
        left.into_iter().for_each(|item| self.destroy(item));
        self.trim();
    }
}
