//! How resources are let go of.
//!
//! ```text
//!   drop(resource) ──▶ retired: RetireBin, tagged with the latest begun of every timeline
//!                          │ reclaim: one reading of each timeline
//!                          ▼
//!                      destroy object ──▶ range back to its arena ──▶ empty for long? block back to the driver
//! ```
//!
//! No driver call is made while a lock is held that an allocation needs.
//!
//! | operation | cost |
//! |---|---|
//! | retire | O(1), no lock that is waited for |
//! | reclaim | a driver call a timeline, and one for each object that goes, of which there are as many as the caller allows |

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ringfence_core::blocks::{BlockAllocation, BlockId};
use ringfence_core::range::Invalid;
use ringfence_core::sync::SyncSet;

use super::allocation::Common;
use super::arena::{Arena, ArenaDesc, Compact, Cutter, Moves, Request};
use super::place::{ArenaRef, Hold, Memory, Place};
use super::rings::Seen;
use super::shared::Shared;
use super::statistics::count;
use super::{Reclaimed, ShutdownError};
use crate::device::{Device, DeviceError, MemoryDesc, RawBuffer};
use crate::lifetime::{Passed, RetireBin, WaitError};
use crate::resource::RawObject;
use crate::telling::{Lock, slow, tell};
use crate::upload::Told;

/// What waits for the GPU.
struct Retired<D: Device> {
    /// The driver's object, unless others share it.
    object: Option<RawObject<D>>,
    /// Where it lies, unless its memory is retired by itself.
    place: Option<Place<D>>,
}

/// Whoever cuts blocks into ranges outside the arenas: how ranges come back to it, and its blocks to the driver.
pub(crate) trait RangeOwner<D: Device>: Send + Sync {
    /// Takes a range back. Nobody but the block holds its memory through the range any more.
    fn give_back(&self, allocation: &BlockAllocation);

    /// A block that is empty, however short it has been so, taken out to be destroyed.
    fn take_empty(&self) -> Option<Backing<D>>;

    /// Whether nobody will ask it for ranges again.
    fn is_closed(&self) -> bool;

    /// Whether it is closed and has no block left.
    fn is_gone(&self) -> bool;

    /// Checks every rule of the structure.
    fn validate(&self) -> Result<(), Invalid>;
}

/// What lies under a block of a [`RangeOwner`].
pub(crate) enum Backing<D: Device> {
    /// A memory object, which the arena counts under this number.
    Heap { memory: Arc<Memory<D>>, arena: u32, number: u64 },
    /// A buffer that the ranges share.
    Buffer { object: RawBuffer<D>, place: Place<D> },
}

/// What `reclaim` works with, kept so that a steady frame makes nothing.
struct Scratch {
    passed: Passed,
    /// Counts the calls of reclaim: the clock of empty blocks.
    tick: u64,
}

/// What an allocator keeps of releases.
pub(super) struct Releases<D: Device> {
    retired: RetireBin<Retired<D>>,
    scratch: Lock<Scratch>,
}

impl<D: Device> Releases<D> {
    pub(super) fn new() -> Self {
        let scratch = Scratch { passed: Passed::default(), tick: 0 };
        Self { retired: RetireBin::new(), scratch: Lock::new(scratch) }
    }

    pub(super) fn retired_count(&self) -> u64 {
        self.retired.len() as u64
    }

    pub(super) fn validate(&self) -> Result<(), Invalid> {
        self.retired.validate()
    }
}

impl<D: Device> Shared<D> {
    /// Lets go of a resource, or of a range of one: it is destroyed once every submission that has begun is complete.
    pub(crate) fn retire(&self, object: Option<RawObject<D>>, place: Place<D>) {
        self.note_retired(&place);
        self.lifetimes.retire_into(&self.releases.retired, Retired { object, place: Some(place) });
        if self.trace.is_on() {
            self.trace.write_due();
        }
    }

    /// Lets go of an object whose memory is let go of by itself.
    pub(crate) fn retire_object(&self, object: RawObject<D>) {
        self.lifetimes.retire_into(&self.releases.retired, Retired { object: Some(object), place: None });
    }

    /// Lets go of a resource that only the submissions of `points` use.
    pub(crate) fn retire_after(&self, points: &SyncSet, object: Option<RawObject<D>>, place: Place<D>) {
        self.note_retired(&place);
        self.releases.retired.retire(points, Retired { object, place: Some(place) });
    }

    /// Nothing to do if another thread is at it.
    pub(crate) fn reclaim(&self, objects_max: usize) -> Reclaimed {
        let Some(mut scratch) = self.releases.scratch.try_lock() else {
            return Reclaimed { waiting: self.releases.retired.len(), ..Default::default() };
        };
        let (reclaimed, seen) = self.reclaim_with(&mut scratch, objects_max);
        drop(scratch);
        self.after_reclaim(seen);
        reclaimed
    }

    /// As [`Shared::reclaim`], after whoever is at it. For the end of life.
    fn reclaim_last(&self) -> Reclaimed {
        let (reclaimed, seen) = self.reclaim_with(&mut self.releases.scratch.lock(), usize::MAX);
        self.after_reclaim(seen);
        reclaimed
    }

    /// What may run code of the program's: with no lock held.
    fn after_reclaim(&self, seen: Seen) {
        self.rings.look_after(seen);
        self.trace.write_due();
    }

    fn reclaim_with(&self, scratch: &mut Scratch, objects_max: usize) -> (Reclaimed, Seen) {
        let Scratch { passed, tick } = scratch;
        *tick += 1;
        self.budgets.refresh(&self.device);
        // A timeline that cannot be read for another reason counts as not having moved.
        if self.lifetimes.read(&self.device, passed) == Err(DeviceError::Lost) {
            self.lost.store(true, Ordering::Relaxed);
            tell!(error, "device lost");
        }
        let device_lost = self.lost.load(Ordering::Relaxed);
        // Before they free anything: as full as the frame made them.
        let mut seen = self.rings.all();
        self.rings.tell(&seen, &self.trace);
        self.rings.reclaim(&mut seen, &Told { passed, device_lost });
        self.rooms.reclaim(&self.device, &self.trace, passed, device_lost);
        let objects = match device_lost {
            true => self.destroy_all(),
            false => self.releases.retired.release(passed, objects_max, |item| self.destroy(item)),
        };
        let mut blocks = self.free_pools(|pool| pool.is_closed());
        blocks += self.arenas.iter().map(|arena| self.free_all(|| arena.take_surplus(*tick))).sum::<usize>();
        blocks += self.reclaim_custom_pools(*tick);
        let budgets = || self.device.budgets().unwrap_or_default();
        self.trace.reclaimed(passed.values(), (objects, blocks), budgets);
        (Reclaimed { objects, blocks, waiting: self.releases.retired.len(), device_lost }, seen)
    }

    /// Destroys everything that waits: the device is lost.
    fn destroy_all(&self) -> usize {
        let mut all = Vec::new();
        self.releases.retired.collect_all(&mut all);
        let objects = all.len();
        all.into_iter().for_each(|item| self.destroy(item));
        objects
    }

    /// Pools outside the arenas are one range each in a trace, as in a snapshot: what comes and goes in them is not told.
    ///
    /// What is let go of is not moved any more either.
    fn note_retired(&self, place: &Place<D>) {
        place.never_move();
        if self.trace.is_on() && place.is_own_range() {
            self.trace.retired(place.memory(self).block, self.range_offset(place));
        }
        if self.debug.is_some() {
            self.debug_retired(place);
        }
    }

    #[cold]
    fn debug_retired(&self, place: &Place<D>) {
        if let Some(debug) = &self.debug
            && let Some(key) = place.key(self)
        {
            debug.retired(key);
        }
    }

    /// The device is done with the place's bytes, and its owner has let go of them.
    #[inline]
    fn note_released(&self, place: &Place<D>) {
        if self.debug.is_some() {
            self.debug_released(place);
        }
    }

    #[cold]
    fn debug_released(&self, place: &Place<D>) {
        if let Some(debug) = &self.debug
            && let Some(key) = place.key(self)
        {
            debug.released(self, key);
        }
    }

    /// Where the place's range begins in its memory: before its guard, if it has one.
    pub(super) fn range_offset(&self, place: &Place<D>) -> u64 {
        if self.debug.is_none() { place.offset } else { place.range_offset(self) }
    }

    fn destroy(&self, Retired { object, place }: Retired<D>) {
        if let Some(place) = &place {
            self.device.note_retired(&place.memory(self).object, self.range_offset(place), place.size());
            self.note_released(place);
        }
        if let Some(object) = object {
            // SAFETY: every submission that used the object is complete, or the device is lost; it is destroyed once, as
            // the bin gives each item out once.
            unsafe { object.destroy(&self.device) };
            count(&self.calls.destroy_object);
        }
        if let Some(place) = place {
            self.give_back(place);
        }
    }

    /// Destroys an object and gives its bytes back, without asking the device.
    ///
    /// # Safety
    /// No submission that is under way uses it, and it is destroyed once.
    pub(crate) unsafe fn destroy_now(&self, object: RawObject<D>, place: Place<D>) {
        self.destroy(Retired { object: Some(object), place: Some(place) });
    }

    /// Gives back a range of a resource that others share. No submission that is under way uses it.
    pub(crate) fn give_back_range(&self, place: Place<D>) {
        self.destroy(Retired { object: None, place: Some(place) });
    }

    /// Gives a resource's bytes back, its object being gone.
    pub(crate) fn give_back(&self, place: Place<D>) {
        place.never_move();
        if self.trace.is_on() && place.is_own_range() {
            self.trace.freed(place.memory(self).block, self.range_offset(&place));
        }
        self.note_released(&place);
        let Place { arena, hold, .. } = place;
        match hold {
            Hold::Range { memory: _, allocation, ticket: _ } => match arena {
                ArenaRef::Own(index) => self.free_range(index, allocation),
                ArenaRef::Pool(pool) => self.free_range_of(&pool.arena, allocation),
            },
            Hold::Cell { class, named, allocation } => self.arena_cells(&arena).free(class, named, allocation),
            Hold::Dedicated { memory, number } => {
                self.remove_dedicated(&arena, number);
                self.free_memory(Arc::into_inner(memory).expect("dedicated memory has one owner"));
            }
            Hold::Pooled { memory, owner, allocation } => {
                // First, so that whoever takes the block out when it is empty is the last to hold its memory.
                drop(memory);
                owner.give_back(&allocation);
            }
            Hold::Aliased(whole) => {
                if let Some(whole) = Arc::into_inner(whole) {
                    self.give_back(whole);
                }
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

    /// Gives a range of one of the allocator's own arenas back.
    #[inline]
    pub(super) fn free_range(&self, arena: u64, allocation: BlockAllocation) {
        self.free_range_of(&self.arenas[arena as usize], allocation);
    }

    fn free_range_of<A: Cutter>(&self, arena: &Arena<D, A>, allocation: BlockAllocation) {
        if let Some(surplus) = arena.free(allocation) {
            self.free_memory(surplus);
        }
    }

    /// What moves ranges sees of an arena.
    pub(crate) fn compact<'a>(&'a self, arena: &'a ArenaRef<D>) -> &'a dyn Compact<D> {
        match arena {
            ArenaRef::Own(index) => &self.arenas[*index as usize],
            ArenaRef::Pool(pool) => &pool.arena,
        }
    }

    pub(crate) fn arena_desc<'a>(&'a self, arena: &'a ArenaRef<D>) -> &'a ArenaDesc {
        match arena {
            ArenaRef::Own(index) => &self.arenas[*index as usize].desc,
            ArenaRef::Pool(pool) => &pool.arena.desc,
        }
    }

    /// Gives a block back to the driver, if it is here and empty and its pool does not keep it; says whether it did.
    pub(crate) fn free_empty_block(&self, arena: &ArenaRef<D>, block: BlockId) -> bool {
        let taken = match arena {
            ArenaRef::Pool(pool) if !pool.may_give_back() => None,
            arena => self.compact(arena).take_block(block),
        };
        let Some(memory) = taken else { return false };
        self.free_memory(memory);
        true
    }

    fn remove_dedicated(&self, arena: &ArenaRef<D>, number: u64) {
        match arena {
            ArenaRef::Own(index) => self.arenas[*index as usize].remove_dedicated(number),
            ArenaRef::Pool(pool) => pool.arena.remove_dedicated(number),
        }
    }

    pub(super) fn trim(&self) -> usize {
        self.trim_small_buffers();
        self.free_pools(|_| true) + self.free_empty_blocks(|_| true, 0).0
    }

    /// Has an owner of ranges looked after as long as it has blocks.
    pub(crate) fn add_pool(&self, pool: Arc<dyn RangeOwner<D>>) {
        let mut pools = self.pools.lock();
        pools.retain(|held| !held.is_gone());
        pools.push(pool);
    }

    /// Destroys the empty blocks of those pools that are `due`; how many those were.
    pub(crate) fn free_pools(&self, due: impl Fn(&dyn RangeOwner<D>) -> bool) -> usize {
        let next = || self.pools.lock().iter().filter(|pool| due(&***pool)).find_map(|pool| pool.take_empty());
        std::iter::from_fn(next).map(|backing| self.free_backing(backing)).count()
    }

    /// Destroys what lay under a block that is empty.
    pub(crate) fn free_backing(&self, backing: Backing<D>) {
        match backing {
            Backing::Heap { memory, arena, number } => {
                self.trace.freed(memory.block, 0);
                self.arenas[arena as usize].remove_dedicated(number);
                self.free_memory(Arc::into_inner(memory).expect("an empty block's memory has one owner"));
            }
            Backing::Buffer { object, place } => {
                self.destroy(Retired { object: Some(RawObject::Buffer(object)), place: Some(place) })
            }
        }
    }

    /// A heap for a pool: counted like memory of a resource's own, since no arena has it.
    pub(crate) fn make_heap(
        &self,
        arena: u32,
        size: u64,
        alignment: u64,
        name: &str,
    ) -> Result<Backing<D>, DeviceError> {
        let ArenaDesc { memory_type, class, priority, .. } = self.arenas[arena as usize].desc;
        let desc = MemoryDesc { share: None, memory_type, size, alignment, class, priority, name };
        let memory = self.allocate_memory(&desc)?;
        memory.pin();
        self.trace_dedicated(&memory, &self.arenas[arena as usize].desc);
        self.trace.allocated(memory.block, 0, size, alignment, name);
        let request =
            Request { size, alignment, high: false, moves: Moves::Never, evictable: false, name, user_data: 0 };
        let number = self.arenas[arena as usize].add_dedicated(&request);
        Ok(Backing::Heap { memory: Arc::new(memory), arena, number })
    }

    fn free_all(&self, mut next: impl FnMut() -> Option<Memory<D>>) -> usize {
        std::iter::from_fn(&mut next).map(|memory| self.free_memory(memory)).count()
    }

    /// Blocks of custom pools that have been empty for long, and those of pools whose handle is gone.
    fn reclaim_custom_pools(&self, tick: u64) -> usize {
        if self.custom_pools.read().is_empty() {
            return 0;
        }
        self.collect_closed_pools();
        let pools = self.custom_pools.read().clone();
        pools.iter().map(|pool| self.free_all(|| pool.arena.take_surplus(tick))).sum()
    }

    pub(super) fn free_memory(&self, memory: Memory<D>) {
        if memory.residence.as_ref().is_some_and(|residence| self.close_residence(residence)) {
            self.budgets.remove_absent(self.heap_of(memory.memory_type), memory.size);
        }
        let Memory { object, memory_type, size, block, .. } = memory;
        self.trace.block_freed(block);
        slow!("free_memory", bytes = size, memory_type = memory_type);
        // SAFETY: this device made it, and nothing is placed in it: its block is empty, or its only resource destroyed.
        unsafe { self.device.free_memory(object) };
        self.memory_objects.fetch_sub(1, Ordering::Relaxed);
        self.budgets.remove(self.heap_of(memory_type), size);
        count(&self.calls.free_memory);
    }

    /// Waits for all that was submitted, and destroys what waited for it; after a device loss at once.
    pub(super) fn shutdown(&self, timeout: Duration) -> Result<Reclaimed, ShutdownError> {
        self.wait_submitted(timeout)?;
        let mut reclaimed = self.reclaim_last();
        reclaimed.blocks += self.trim();
        if let Some(debug) = &self.debug {
            debug.tell_leaks();
        }
        Ok(reclaimed)
    }

    fn wait_submitted(&self, timeout: Duration) -> Result<(), ShutdownError> {
        let started = Instant::now();
        let deadline = started.checked_add(timeout);
        match self.wait(&self.lifetimes.submitted(), deadline) {
            Ok(()) | Err(WaitError::Device(DeviceError::Lost)) => Ok(()),
            Err(WaitError::Device(error)) => Err(error.into()),
            Err(WaitError::Timeout | WaitError::NotSubmitted(_)) => {
                let waited_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
                Err(ShutdownError::Timeout { waited_ns, waiting: self.releases.retired.len() })
            }
        }
    }

    /// Waits for points, counted.
    pub(crate) fn wait(&self, points: &SyncSet, deadline: Option<Instant>) -> Result<(), WaitError> {
        count(&self.calls.wait);
        slow!("wait");
        self.lifetimes.wait(&self.device, points, deadline)
    }
}

/// How often the end of an allocator's life asks the driver to wait: it may be short of memory for a moment.
const LAST_WAITS: usize = 3;

impl<D: Device> Drop for Shared<D> {
    /// Whatever is left waits for the GPU here: nothing may be destroyed under it. After [`Allocator::shutdown`] there
    /// is nothing left to wait for.
    fn drop(&mut self) {
        let unused = self.releases.retired.is_empty() && self.rooms.is_empty();
        let idle = unused || (0..LAST_WAITS).any(|_| self.wait_submitted(Duration::MAX).is_ok());
        let mut left = Vec::new();
        self.releases.retired.collect_all(&mut left);
        if !idle {
            // The driver failed at every wait: what the GPU may still use is better leaked than destroyed under it. The blocks
            // too, as what lies in them does not own their memory, and on Direct3D 12 a heap goes with its last owner.
            self.rooms.leak();
            let arenas = std::mem::take(&mut self.arenas);
            return std::mem::forget((left, std::mem::take(self.pools.get_mut()), arenas));
        }
        // SAFETY: the device is idle, and whoever has a heap has this allocator too.
        unsafe { self.rooms.destroy(&self.device, &self.trace) };
        left.into_iter().for_each(|item| self.destroy(item));
        self.custom_pools.read().iter().for_each(|pool| pool.is_closed.store(true, Ordering::Relaxed));
        self.trim();
    }
}
