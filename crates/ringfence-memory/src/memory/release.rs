//! Retiring and destroying resources.
//!
//! ```text
//!   drop(resource) ──▶ retired: RetireBin, tagged with the latest begun of every timeline
//!                          │ reclaim: one reading of each timeline
//!                          ▼
//!                      destroy object ──▶ range freed to its arena ──▶ empty for long? block freed to the driver
//! ```
//!
//! No driver call is made while a lock is held that an allocation needs. No lock is held while objects are destroyed,
//! because the destruction may call the allocator.
//!
//! In `reclaim`, one thread at a time visits the retired objects of all threads. Other threads that call it meanwhile
//! release only their own objects. In a shutdown or a shortage of memory, several threads may visit all objects.
//!
//! A thread that drops objects faster than they are destroyed helps. If it has more than 1,024 retired objects, a drop
//! destroys up to 64 that are complete, and the dropped object too if the device is idle. A chunk of 256 objects may be
//! filled before the next check. So at most 1,280 complete objects stay retired for each thread that drops. A shard is
//! a part of the queue of retired objects; threads without a shard of their own share a few shards, each with this
//! limit. At most one in 32 drops reads the timelines. No drop waits for a thread that takes objects out.
//!
//! | operation | cost |
//! |---|---|
//! | retire | O(1), without waiting for a lock; beyond 1,024 objects also a driver call for each timeline once in 32 drops, and one for each of up to 65 destroyed objects |
//! | reclaim | a driver call for each timeline, and one for each destroyed object, up to the caller's limit |

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::yield_now;
use std::time::{Duration, Instant};

use ringfence_core::algorithm::Cutter;
use ringfence_core::blocks::BlockAllocation;
use ringfence_core::sync::{Progress, SyncSet};
use ringfence_lockfree::slots::{Ready, Slots};
use ringfence_observe::{Call, Event, SlowPath, Warning};
use ringfence_timeline::{Passed, RetireBin, WaitError};

use super::place::{ArenaRef, Place, PlaceKind, SharedPlace};
use super::placed_object::Item;
use super::retired::{Reclaimed, Retired, ShutdownError};
use super::rings::Visited;
use super::shared::Shared;
use crate::device::lock::{Lock, defer, is_locked};
use crate::device::{Device, DeviceError};
use ringfence_arena::RawObject;
use ringfence_arena::{Arena, ArenaDesc, Compact};

/// The buffers of a reclaim. A drop returns them to the allocator, even after a panic.
struct Scratch<'a> {
    home: &'a Lock<Option<Passed>>,
    passed: Passed,
}

impl<'a> Scratch<'a> {
    /// Takes the buffers; returns `None` if a reclaim is under way.
    fn take(home: &'a Lock<Option<Passed>>) -> Option<Self> {
        let passed = home.look(Option::take)?;
        Some(Self { home, passed })
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        let passed = std::mem::take(&mut self.passed);
        self.home.look(|home| *home = Some(passed));
    }
}

/// If a thread has more retired objects than this, its drops destroy objects. Up to one chunk of [`RetireBin`] more may
/// stay retired after the GPU is done with it.
const HELP_THRESHOLD: usize = 1024;

/// Number of reclaims after which refusals of the driver are forgotten if the driver reports no budgets.
const REFUSALS_KEPT: u64 = 64;

/// Maximum time for which a request without memory waits for objects that another thread is destroying.
const OTHERS_WAIT: Duration = Duration::from_millis(2);

/// Maximum number of retired objects that a drop destroys, in addition to the dropped object.
const HELP_MAX: usize = 64;

/// Number of drops in which a thread beyond [`HELP_THRESHOLD`] reads the timelines once.
const HELP_STEP: usize = 32;

thread_local! {
    static HELPS: Cell<bool> = const { Cell::new(false) };
    /// Number of drops on this thread beyond [`HELP_THRESHOLD`], counted if the thread shares its shard.
    static DROPS: Cell<usize> = const { Cell::new(0) };
}

/// Exists while this thread destroys retired objects: drops during the destruction only retire.
struct Helping;

impl Helping {
    /// Marks the thread; returns `None` if it is already marked, or if the thread is exiting.
    fn begin() -> Option<Self> {
        let begins = HELPS.try_with(|helps| !helps.replace(true));
        begins.unwrap_or(false).then_some(Self)
    }

    /// Returns `true` in one of [`HELP_STEP`] calls on a thread.
    fn is_due() -> bool {
        DROPS.try_with(|drops| drops.replace(drops.get().wrapping_add(1)) % HELP_STEP == 0).unwrap_or(false)
    }

    fn is_under_way() -> bool {
        HELPS.try_with(Cell::get).unwrap_or(true)
    }
}

impl Drop for Helping {
    fn drop(&mut self) {
        _ = HELPS.try_with(|helps| helps.set(false));
    }
}

/// Deferred free for the program's own objects, which wait for an allocator's timelines as resources do. Created by
/// [`Allocator::retirement`](crate::Allocator::retirement).
pub struct Retirement<'a, D: Device>(pub(crate) &'a Arc<Shared<D>>);

impl<D: Device> Retirement<'_, D> {
    /// As [`Allocator::reclaim`](crate::Allocator::reclaim), but releases at most `objects_max` resources, to bound the
    /// cost of a frame in which many resources are dropped. The other resources stay retired for the next call. After a
    /// device loss all are released at once.
    pub fn reclaim_at_most(&self, objects_max: usize) -> Reclaimed {
        self.0.reclaim(objects_max)
    }

    /// Puts an object of the program into `bin`. Like a dropped resource of this allocator, the object can be taken out
    /// once every submission that has begun is complete. O(1).
    pub fn retire_into<T>(&self, bin: &RetireBin<T>, item: T) {
        self.0.lifetimes.retire_into(bin, item);
    }

    /// As [`Retirement::retire_into`](crate::memory::Retirement::retire_into) for all of `items`, with one visit of the
    /// bin in total. `items` is empty afterwards, and keeps its capacity.
    pub fn retire_all_into<T>(&self, bin: &RetireBin<T>, items: &mut Vec<T>) {
        self.0.lifetimes.retire_all_into(bin, items);
    }

    /// Takes items out of `bin` if all points that they wait for have passed, at most `items_max`. Moves them to
    /// `into`, and returns their number. One driver call for each timeline. Several allocators may share a bin: a call
    /// takes out only this allocator's items.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] (use [`RetireBin::collect_all`] then), or another error of the driver. An error changes
    /// nothing.
    pub fn collect_from<T>(
        &self,
        bin: &RetireBin<T>,
        items_max: usize,
        into: &mut Vec<T>,
    ) -> Result<usize, DeviceError> {
        Ok(bin.collect_passed(&self.passed()?, items_max, into))
    }

    /// Takes items out of `bin` as [`Retirement::collect_from`](crate::memory::Retirement::collect_from) does, and
    /// calls `each` with each item, without a vector: see [`RetireBin::release`].
    ///
    /// # Errors
    /// As [`Retirement::collect_from`](crate::memory::Retirement::collect_from).
    pub fn release_from<T>(
        &self,
        bin: &RetireBin<T>,
        items_max: usize,
        each: impl FnMut(T),
    ) -> Result<usize, DeviceError> {
        Ok(bin.release_passed(&self.passed()?, items_max, each))
    }

    fn passed(&self) -> Result<Passed, DeviceError> {
        let mut passed = Passed::default();
        self.0.read(&mut passed)?;
        Ok(passed)
    }
}

impl<D: Device> Shared<D> {
    /// Retires a resource, or a place without an object: destroys it once all submissions that have begun are complete.
    ///
    /// # Safety
    /// Both belong to this allocator, the object is bound to the place, and neither has another owner.
    pub unsafe fn retire(self: &Arc<Self>, object: Option<RawObject<D>>, place: Place<D>) {
        if self.observers.is_watching() {
            // SAFETY: the caller's promise, passed on.
            return unsafe { self.retire_watched(object, place) };
        }
        place.never_move();
        let Some(object) = object else { return self.enqueue(Retired::Place(place)) };
        object.note_retired(&self.device);
        self.enqueue(Retired::Pair(object, place));
    }

    /// As [`Shared::retire`], while a subscriber records events. If this thread holds a lock of the library, the call
    /// is deferred until it holds none. This happens if the program's global allocator drops a resource inside an
    /// allocation that the library makes under a lock.
    ///
    /// # Safety
    /// As [`Shared::retire`].
    #[cold]
    unsafe fn retire_watched(self: &Arc<Self>, object: Option<RawObject<D>>, place: Place<D>) {
        if is_locked() {
            let owner = Arc::clone(self);
            // SAFETY: the caller's promise also applies later, because the deferred object has no other owner.
            return defer(move || unsafe { owner.retire(object, place) });
        }
        self.enqueue(self.released(object, place));
        self.write_due();
    }

    /// Records the release of an object and its place by their owner, and returns them as a retired item.
    fn released(&self, object: Option<RawObject<D>>, place: Place<D>) -> Retired<D> {
        self.note_retired(&place);
        let Some(object) = object else { return Retired::Place(place) };
        object.note_retired(&self.device);
        Retired::Pair(object, place)
    }

    /// As [`Shared::retire`], for the item of a handle. Also releases the handle's reference to the allocator.
    #[inline]
    pub(crate) fn retire_item(owner: Arc<Self>, item: Item<D>) {
        if owner.observers.is_watching() {
            return Self::retire_item_watched(owner, item);
        }
        item.place().never_move();
        item.note_retired(&owner.device);
        owner.enqueue(Retired::Item(item));
        Self::keep_owner(owner);
    }

    /// As [`Shared::retire_item`], while a subscriber records events: see [`Shared::retire_watched`].
    #[cold]
    fn retire_item_watched(owner: Arc<Self>, item: Item<D>) {
        if is_locked() {
            return defer(move || Self::retire_item(owner, item));
        }
        owner.note_retired(item.place());
        item.note_retired(&owner.device);
        owner.enqueue(Retired::Item(item));
        owner.write_due();
        Self::keep_owner(owner);
    }

    #[inline]
    pub(super) fn enqueue(&self, item: Retired<D>) {
        let turn = self.lifetimes.turn();
        if let Err(item) = self.releases.retired.try_retire_in_turn(turn, item) {
            self.enqueue_or_help(turn, item);
        }
    }

    #[cold]
    #[inline(never)]
    fn enqueue_or_help(&self, turn: u64, item: Retired<D>) {
        let retired = &self.releases.retired;
        let has_passed = |_: &Passed| self.lifetimes.is_idle();
        match self.help_with(item, has_passed) {
            Ok(()) => {}
            Err((item, step)) => retired.put_tagged(turn, |set| self.lifetimes.begun(set), step, item),
        }
    }

    /// Retires a resource that only the submissions of `points` use. It is destroyed once these points have passed.
    ///
    /// # Panics
    /// If a point belongs to a timeline of another allocator. The object then waits for all begun submissions.
    ///
    /// # Safety
    /// As [`Shared::retire`], and no other submission uses it.
    pub unsafe fn retire_after(&self, points: &SyncSet, object: Option<RawObject<D>>, place: Place<D>) {
        self.enqueue_after(points, self.released(object, place));
    }

    /// As [`Shared::retire_after`], for the item of a handle.
    pub(crate) fn retire_item_after(owner: Arc<Self>, points: &SyncSet, item: Item<D>) {
        owner.note_retired(item.place());
        item.note_retired(&owner.device);
        owner.enqueue_after(points, Retired::Item(item));
        Self::keep_owner(owner);
    }

    fn enqueue_after(&self, points: &SyncSet, item: Retired<D>) {
        if let Some(foreign) = points.iter().find(|point| !self.lifetimes.owns_timeline(point.timeline)) {
            self.enqueue(item);
            panic!("{foreign} belongs to another allocator than the resource");
        }
        let retired = &self.releases.retired;
        let Err(item) = retired.try_retire(points, item) else { return };
        if let Err((item, step)) = self.help_with(item, |passed| passed.passed_all(points)) {
            retired.put_points(points, step, item);
        }
    }

    /// If this thread has more than [`HELP_THRESHOLD`] retired objects, destroys up to [`HELP_MAX`] that are complete,
    /// and `item` if it is complete. If the item must wait, returns the item and the number of drops after which this
    /// function must be called again. The only locks that it waits for are those that the release of an object takes.
    fn help_with(&self, item: Retired<D>, has_passed: impl Fn(&Passed) -> bool) -> Result<(), (Retired<D>, usize)> {
        if self.releases.retired.len_near() <= HELP_THRESHOLD {
            return Err((item, usize::MAX));
        }
        // Destroying needs locks, and a drop inside a host allocation may happen while this thread holds one of them.
        if is_locked() {
            return Err((item, HELP_STEP));
        }
        let Some(_helping) = Helping::begin() else { return Err((item, HELP_STEP)) };
        let retired = &self.releases.retired;
        let is_due = retired.has_own_shard() || Helping::is_due();
        let mut passed = Passed::default();
        self.lifetimes.seen_by_all(&mut passed);
        // In most cases the progress that was seen last already shows that the device is idle.
        let asks = is_due && !has_passed(&passed);
        if asks && self.read(&mut passed) == Err(DeviceError::Lost) {
            self.note_lost();
        }
        if is_due {
            retired.release_near(&passed, HELP_MAX, |item| self.destroy(item));
        }
        if !self.lost.load(Ordering::Relaxed) && !has_passed(&passed) {
            return Err((item, HELP_STEP));
        }
        self.destroy(item);
        Ok(())
    }

    /// Releases at most `objects_max` objects that this thread has retired and the device was seen to be done with.
    /// Returns their number. The only driver calls are those that destroy objects.
    fn release_own(&self, objects_max: usize) -> usize {
        let Some(_helping) = Helping::begin() else { return 0 };
        let mut passed = Passed::default();
        self.lifetimes.seen_by_all(&mut passed);
        self.releases.retired.release_own(&passed, objects_max, |item| self.destroy(item))
    }

    /// As [`Shared::release_own`], with a limit for use within a request. Returns `true` if an object was released.
    pub(super) fn release_some(&self) -> bool {
        if self.releases.retired.len_near() == 0 {
            return false;
        }
        let Some(_helping) = Helping::begin() else { return false };
        let mut passed = Passed::default();
        self.lifetimes.seen_by_all(&mut passed);
        self.releases.retired.release_near(&passed, HELP_MAX, |item| self.destroy(item)) > 0
    }

    /// Reclaims, and releases at most `objects_max` objects. While another thread is in this call, releases only this
    /// thread's objects. If this thread is already in the call, releases nothing.
    pub fn reclaim(&self, objects_max: usize) -> Reclaimed {
        self.reclaim_unless_busy(objects_max, false)
    }

    /// As [`Shared::reclaim`], for a shortage of memory: also releases the objects of threads that release their own
    /// objects. If another thread is in the call, waits up to 2 ms for it.
    pub(super) fn reclaim_in_shortage(&self) -> Reclaimed {
        self.reclaim_unless_busy(usize::MAX, true)
    }

    fn reclaim_unless_busy(&self, objects_max: usize, is_short: bool) -> Reclaimed {
        let Some(mut scratch) = Scratch::take(&self.releases.scratch) else {
            if is_short && !Helping::is_under_way() {
                return self.reclaim_until_others_finish();
            }
            let objects = self.release_own(objects_max);
            return Reclaimed { objects, waiting: self.releases.retired.len(), ..Default::default() };
        };
        let (reclaimed, visited) = self.reclaim_with(&mut scratch.passed, objects_max, is_short);
        drop(scratch);
        self.after_reclaim(visited);
        if !is_short {
            self.excess.look(&self.budgets);
        }
        reclaimed
    }

    /// Repeats [`Shared::reclaim_concurrently`] until the other thread has destroyed the objects that it has taken out,
    /// but at most for [`OTHERS_WAIT`]. Otherwise a request would fail although its memory is about to be freed.
    fn reclaim_until_others_finish(&self) -> Reclaimed {
        let (until, before) = (Instant::now() + OTHERS_WAIT, self.releases.retired.len());
        loop {
            let reclaimed = self.reclaim_concurrently();
            let is_alone = self.releases.scratch.lock().is_some();
            if is_alone || reclaimed.waiting == 0 || is_locked() || Instant::now() > until {
                let objects = reclaimed.objects.max(before.saturating_sub(reclaimed.waiting));
                return Reclaimed { objects, ..reclaimed };
            }
            yield_now();
        }
    }

    /// Releases the objects of all threads, even if another thread is in [`Shared::reclaim`].
    fn reclaim_concurrently(&self) -> Reclaimed {
        let (reclaimed, visited) = self.reclaim_with(&mut Passed::default(), usize::MAX, true);
        self.after_reclaim(visited);
        reclaimed
    }

    /// The part of a reclaim that may run the program's code, with no lock held.
    fn after_reclaim(&self, visited: Visited) {
        self.rings.finish_visit(visited);
        self.write_due();
    }

    fn reclaim_with(&self, passed: &mut Passed, objects_max: usize, is_short: bool) -> (Reclaimed, Visited) {
        let _helping = Helping::begin();
        // A reclaim for a shortage is an extra one within a frame, so it does not advance the clock of grace periods.
        let step = u64::from(!is_short);
        let tick = self.releases.tick.fetch_add(step, Ordering::Relaxed) + step;
        self.budgets.refresh_in_frame(&self.device);
        // Without budgets from the driver, nothing shows that another process has freed memory.
        if !is_short && !self.budgets.is_reported() && tick.is_multiple_of(REFUSALS_KEPT) {
            self.budgets.refusals.forget_all();
        }
        // If a timeline cannot be read for another reason, its last seen progress is used.
        if self.read(passed) == Err(DeviceError::Lost) {
            self.note_lost();
        }
        let device_lost = self.lost.load(Ordering::Relaxed);
        // Before the rings free anything: the figures are those of the frame.
        let mut visited = self.rings.all();
        self.rings.report(&visited, &self.observers);
        self.rings.reclaim(&mut visited, passed, device_lost, is_short);
        self.descriptor_heaps.reclaim(self, passed, device_lost, is_short);
        self.settle_losses();
        let retired = &self.releases.retired;
        let objects = match (device_lost, is_short) {
            (true, _) => retired.release_all(|item| self.destroy(item)),
            (false, true) => retired.release_passed(passed, objects_max, |item| self.destroy(item)),
            (false, false) => retired.release_unspared(passed, objects_max, |item| self.destroy(item)),
        };
        // Recycled objects age once a frame: extra reclaims for a shortage must not age them.
        if !is_short {
            self.recycled.age(tick, |item| self.destroy_item(item));
            self.empty_caches_after_unload(tick);
        }
        let blocks = self.free_surplus_off_thread(tick);
        let budgets = || self.budgets.reported(&self.device).unwrap_or_default();
        self.observers.trace.reclaimed(passed.values(), (objects, blocks), budgets);
        (Reclaimed { objects, blocks, waiting: self.releases.retired.len(), device_lost }, visited)
    }

    /// Frees descriptors that the device is done with, and destroys dropped heaps that it is done with.
    pub(super) fn reclaim_descriptor_heaps(&self) {
        let mut passed = Passed::default();
        if self.read(&mut passed) == Err(DeviceError::Lost) {
            self.note_lost();
        }
        self.descriptor_heaps.reclaim(self, &passed, self.lost.load(Ordering::Relaxed), true);
    }

    /// Records that the device is lost, and reports it once.
    fn note_lost(&self) {
        if !self.lost.swap(true, Ordering::Relaxed) {
            self.notify(Event::Warned(Warning::DeviceLost));
        }
    }

    pub(super) fn destroy(&self, retired: Retired<D>) {
        match retired {
            Retired::Item(item) => self.release_item(item),
            Retired::Place(place) => self.destroy_parts(None, Some(place)),
            Retired::Paged(paged) => {
                let (object, pages) = *paged;
                self.destroy_parts(Some(object), None);
                pages.into_iter().for_each(|page| self.destroy_parts(None, Some(page)));
            }
            Retired::Pair(object, place) => self.destroy_parts(Some(object), Some(place)),
        }
    }

    /// Destroys an item that the device is done with.
    pub(crate) fn destroy_item(&self, item: Item<D>) {
        let (object, place) = self.take_apart(item);
        self.destroy_parts(object, Some(place));
    }

    /// As [`Shared::destroy_item`]; also caches the handle's reference to the allocator for this thread's next handle.
    pub(crate) fn destroy_item_and_owner(owner: Arc<Self>, item: Item<D>) {
        let (object, place) = owner.take_apart(item);
        owner.note_released(&place);
        owner.destroy_object(object);
        match place {
            // Slot and reference are cached together, by one exchange.
            Place {
                arena: ArenaRef::Own(arena),
                kind: PlaceKind::Slot { class, named: false, memory, allocation: slot },
                offset,
            } if !owner.is_watched() => {
                let ready = || Ready { slot, memory, offset };
                // SAFETY: the slot belongs to the allocator's arena with this number, which the owner keeps alive.
                unsafe { Slots::put_ready(owner, |owner| &owner.arenas[arena as usize].slots, class, ready) };
            }
            place => {
                owner.free_place(place);
                Self::keep_owner(owner);
            }
        }
    }

    fn destroy_parts(&self, object: Option<RawObject<D>>, place: Option<Place<D>>) {
        if let Some(place) = &place {
            self.note_released(place);
        }
        self.destroy_object(object);
        if let Some(place) = place {
            self.free_place(place);
        }
    }

    #[inline]
    fn destroy_object(&self, object: Option<RawObject<D>>) {
        if let Some(object) = object {
            // SAFETY: every submission that used the object is complete, or the device is lost. It is destroyed once,
            // because the bin returns each item once.
            unsafe { object.destroy(&self.device) };
            self.notify(Event::Called(Call::DestroyObject));
        }
    }

    /// Destroys or recycles the item of a handle, without checking the device's progress.
    ///
    /// # Safety
    /// No submission that is under way uses it.
    #[inline]
    pub(crate) unsafe fn destroy_now(owner: Arc<Self>, item: Item<D>) {
        // The item may be recycled and destroyed later. The device is notified now, so that later submissions leave the
        // object out.
        item.note_retired(&owner.device);
        Self::release_item_and_owner(owner, item);
    }

    /// Frees one of several ranges of a resource. The resource stays in use.
    ///
    /// # Safety
    /// As [`Shared::retire`], and no submission that is under way uses it.
    pub unsafe fn destroy_place(&self, place: Place<D>) {
        self.destroy_parts(None, Some(place));
    }

    /// Frees a resource's bytes. Its object is already destroyed.
    #[inline]
    pub(crate) fn free_place(&self, place: Place<D>) {
        match place {
            // With guards the offset is not that of the slot.
            Place {
                arena: ArenaRef::Own(arena),
                kind: PlaceKind::Slot { class, named: false, memory, allocation: slot },
                offset,
            } if !self.is_watched() => {
                self.arenas[arena as usize].slots.free_cached(class, Ready { slot, memory, offset });
            }
            place => self.free_place_of_any_kind(place),
        }
    }

    fn free_place_of_any_kind(&self, place: Place<D>) {
        self.note_freed(&place);
        let Place { arena, kind, .. } = place;
        match kind {
            PlaceKind::Range { memory: _, allocation, ticket: _ } => match arena {
                ArenaRef::Own(index) => self.free_range(index, allocation),
                ArenaRef::Pool(pool) => self.free_range_of(&pool.arena, allocation),
            },
            PlaceKind::Slot { class, named, allocation, .. } => {
                self.slot_arena(&arena).free_slot(class, named, allocation)
            }
            PlaceKind::Dedicated { memory, number } => {
                match arena {
                    ArenaRef::Own(index) => self.arenas[index as usize].remove_dedicated(number),
                    ArenaRef::Pool(pool) => pool.arena.remove_dedicated(number),
                }
                self.free_memory(Arc::into_inner(memory).expect("dedicated memory has one owner"));
            }
            PlaceKind::Pooled { memory, owner, allocation } => {
                // Dropped before the range is freed, so that the thread that takes out the empty block has the last
                // reference.
                drop(memory);
                owner.free(&allocation);
            }
            PlaceKind::Aliased(whole) => {
                if let Some(whole) = Arc::into_inner(whole) {
                    self.free_place(whole);
                }
            }
            PlaceKind::Shared(shared) => {
                if let Some(SharedPlace { place, size }) = Arc::into_inner(shared) {
                    self.device.note_aliasing(&self.memory_of(&place).object, place.offset, size, false);
                    self.free_place(place);
                }
            }
            PlaceKind::Small { owner, buffer, allocation } => {
                drop(buffer);
                if let Some(buffer) = owner.free(allocation) {
                    self.destroy_shared_buffer(buffer);
                }
            }
        }
    }

    /// Frees a range of one of the allocator's own arenas.
    #[inline]
    pub(crate) fn free_range(&self, arena: u64, allocation: BlockAllocation) {
        self.free_range_of(&self.arenas[arena as usize], allocation);
    }

    fn free_range_of<A: Cutter, O>(&self, arena: &Arena<D, A, O>, allocation: BlockAllocation) {
        if let Some(surplus) = arena.free(allocation) {
            self.free_memory(surplus);
        }
    }

    /// Returns the interface of an arena for defragmentation.
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

    /// Waits for all submissions, then destroys the retired objects and frees the empty blocks. After a device loss,
    /// does not wait.
    pub(crate) fn shutdown(&self, timeout: Duration) -> Result<Reclaimed, ShutdownError> {
        // First, so an error counts only objects that are still in use.
        let passed = self.reclaim_concurrently();
        let ended = self.wait_for_retired(&LastWait::begin(timeout));
        let is_over = ended.is_ok();
        let ended = ended.map(|rest| Reclaimed {
            objects: passed.objects + rest.objects,
            blocks: passed.blocks + rest.blocks + self.trim(),
            ..rest
        });
        self.notify(Event::Ended { is_over });
        ended
    }

    fn wait_for_retired(&self, wait: &LastWait) -> Result<Reclaimed, ShutdownError> {
        if !self.lost.load(Ordering::Relaxed) {
            self.no_frame_is_open()?;
            self.wait_submitted(wait)?;
            let reclaimed = self.reclaim_concurrently();
            if reclaimed.waiting == 0 && self.descriptor_heaps.is_empty() {
                return Ok(reclaimed);
            }
            self.wait_dropped(&wait.at_most(DROPPED_WAIT))?;
        }
        let mut reclaimed = self.reclaim_concurrently();
        let mut last = reclaimed.objects;
        while reclaimed.waiting > 0 && !reclaimed.device_lost {
            // Other threads may begin frames, drop objects, or be about to destroy some. If the caller itself is inside
            // a destruction (as a subscriber), that destruction cannot end, so the timeout decides.
            self.no_frame_is_open()?;
            if last == 0 && (Helping::is_under_way() || wait.is_over()) {
                return Err(self.timeout(wait));
            }
            yield_now();
            let more = self.reclaim_concurrently();
            last = more.objects;
            reclaimed = Reclaimed { objects: reclaimed.objects + last, blocks: reclaimed.blocks + more.blocks, ..more };
        }
        Ok(reclaimed)
    }

    fn no_frame_is_open(&self) -> Result<(), ShutdownError> {
        let waiting = self.releases.retired.len();
        let open = self.lifetimes.open_frames();
        open.map_or(Ok(()), |(frame, open)| Err(ShutdownError::OpenFrames { frame, open, waiting }))
    }

    fn wait_submitted(&self, wait: &LastWait) -> Result<(), ShutdownError> {
        match self.wait(&self.lifetimes.submitted(), wait.deadline) {
            Ok(()) | Err(WaitError::Device(DeviceError::Lost)) => Ok(()),
            Err(WaitError::Device(error)) => Err(error.into()),
            Err(WaitError::Timeout | WaitError::NotSubmitted(_) | WaitError::Unresolved(_)) => Err(self.timeout(wait)),
        }
    }

    /// Waits for dropped frames, because they may have been submitted.
    fn wait_dropped(&self, wait: &LastWait) -> Result<(), ShutdownError> {
        let dropped = self.lifetimes.unresolved();
        if dropped.is_empty() {
            return Ok(());
        }
        match self.wait(&dropped, wait.deadline) {
            Ok(()) | Err(WaitError::Device(DeviceError::Lost)) => Ok(()),
            Err(WaitError::Device(error)) => Err(error.into()),
            Err(WaitError::Unresolved(frame) | WaitError::NotSubmitted(frame)) => {
                let (waited_ns, waiting) = (wait.waited_ns(), self.reclaim_concurrently().waiting);
                Err(ShutdownError::DroppedFrame { frame, waited_ns, waiting })
            }
            Err(WaitError::Timeout) => Err(self.timeout(wait)),
        }
    }

    fn timeout(&self, wait: &LastWait) -> ShutdownError {
        ShutdownError::Timeout { waited_ns: wait.waited_ns(), waiting: self.reclaim_concurrently().waiting }
    }

    /// Waits for points until `deadline`; if it is `None`, without limit. The statistics count the wait.
    ///
    /// # Errors
    /// - [`WaitError::NotSubmitted`], at once, if the frame of a point is open.
    /// - [`WaitError::Unresolved`] if the frame of a point was dropped and the point has not passed by the deadline
    ///   (without a deadline: at once).
    /// - [`WaitError::Timeout`], or the driver's error.
    ///
    /// # Panics
    /// If a timeline of `points` does not belong to this allocator.
    pub fn wait(&self, points: &SyncSet, deadline: Option<Instant>) -> Result<(), WaitError> {
        self.notify(Event::Called(Call::Wait));
        let _slow = self.observers.during(SlowPath::Wait);
        // SAFETY: the program promised at `Allocator::timeline` that each fence belongs to this device.
        unsafe { self.lifetimes.wait(&self.device, points, deadline) }
    }
}

/// The time limit of a shutdown or of the last drop, which consist of several waits.
struct LastWait {
    started: Instant,
    deadline: Option<Instant>,
}

impl LastWait {
    fn begin(timeout: Duration) -> Self {
        let started = Instant::now();
        Self { started, deadline: started.checked_add(timeout) }
    }

    /// Returns the wait with a deadline at most `longest` from now.
    fn at_most(&self, longest: Duration) -> Self {
        let end = Instant::now().checked_add(longest);
        Self { started: self.started, deadline: self.deadline.into_iter().chain(end).min() }
    }

    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn waited_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Number of attempts to wait in the last drop, because the driver may be out of memory for a moment.
const LAST_WAITS: usize = 3;

/// Maximum time for which a shutdown or the last drop waits for a dropped frame, which may have been submitted.
const DROPPED_WAIT: Duration = Duration::from_secs(1);

impl<D: Device> Shared<D> {
    /// Waits until the GPU uses no retired object and no descriptor heap. Returns `false` if the GPU may still use one,
    /// because a wait failed.
    fn wait_until_unused(&self) -> bool {
        let is_unused = || self.releases.retired.is_empty() && self.descriptor_heaps.is_empty();
        if is_unused() {
            return true;
        }
        if !(0..LAST_WAITS).any(|_| self.wait_submitted(&LastWait::begin(Duration::MAX)).is_ok()) {
            let objects = self.releases.retired.len();
            self.notify(Event::Warned(Warning::CannotWait { objects }));
            return false;
        }
        let Err(error) = self.wait_dropped(&LastWait::begin(DROPPED_WAIT)) else { return true };
        // Objects that do not wait for the dropped frame can be destroyed.
        let mut passed = Passed::default();
        if self.read(&mut passed) == Ok(()) {
            self.releases.retired.release_passed(&passed, usize::MAX, |item| self.destroy(item));
            self.descriptor_heaps.reclaim(self, &passed, false, true);
        }
        if !is_unused() {
            let objects = self.releases.retired.len();
            self.notify(Event::Warned(Warning::Leaked { error: &error, objects }));
        }
        is_unused()
    }
}

impl<D: Device> Drop for Shared<D> {
    /// Waits until the GPU is done with the remaining objects, then destroys them. If none remain, for example after a
    /// successful [`Allocator::shutdown`](crate::Allocator::shutdown), does not wait.
    fn drop(&mut self) {
        self.losses.forget();
        let idle = self.wait_until_unused();
        if !idle {
            // Objects that the GPU may still use are leaked. Blocks are leaked too, because the objects in them do not
            // own their memory, and on Direct3D 12 a heap is destroyed with its last owner.
            let mut left = Vec::new();
            self.releases.retired.collect_all(&mut left);
            self.descriptor_heaps.leak();
            self.recycled.close(|item| self.destroy_item(item));
            let arenas = std::mem::take(&mut self.arenas);
            return std::mem::forget((left, std::mem::take(self.pools.get_mut()), arenas));
        }
        // SAFETY: the device is idle, and this is the last owner of the allocator.
        unsafe { self.descriptor_heaps.destroy(self) };
        self.releases.retired.release_all(|item| self.destroy(item));
        self.recycled.close(|item| self.destroy_item(item));
        self.custom_pools.read().iter().for_each(|pool| pool.is_closed.store(true, Ordering::Relaxed));
        self.trim();
    }
}
