//! State of a shader-visible heap: versions of driver heaps, the regions, and retired objects.
//!
//! ```text
//!   State ── persistent region, frame region              Persistent, FrameDescriptors, BindlessTable
//!     └── Core ── versions ── HeapVersion { heap, shadow }           Binding
//!              └─ waiting: ranges, leftovers, bindings, old versions ── reclaim ──▶ freed or destroyed
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::device::lock::{Lock, SharedLock};
use ringfence_core::algorithm::AnyAllocator;
use ringfence_core::blocks::{BlockAllocation, Blocks};
use ringfence_core::ring::Ring;
use ringfence_core::sync::{Progress, SyncPoint, SyncSet};
use scopeguard::{ScopeGuard, guard};
use smallvec::SmallVec;

use super::desc::ShaderVisibleDesc;
use super::tables::{FrameTables, TableCache};
use super::{DescriptorError, DescriptorSnapshot, Heap, SlotAlgorithm, TableSource, View, region};
use crate::device::DeviceError;
use crate::device::descriptors::{Descriptors, HeapDesc, HeapKind, ViewCopy, ViewTypes};
use ringfence_memory::extend::{Passed, ReclaimHeap, Shared};
use ringfence_memory::lifetime::RetireBin;
use ringfence_memory::trace::Event;

/// State of a shader-visible heap, which `reclaim` also accesses.
pub(super) struct State<D: Descriptors> {
    pub(super) kind: HeapKind,
    pub(super) types: ViewTypes,
    pub(super) algorithm: SlotAlgorithm,
    pub(super) chunk_slots: u32,
    pub(super) frame_slots: u32,
    pub(super) slots_max: u32,
    pub(super) name: Box<str>,
    /// Number of the heap in a trace.
    pub(super) number: u64,
    pub(super) owning: bool,
    /// Allocator of the persistent region, with one block for the initial slots and one for each growth. Each block
    /// stores the number of its first slot.
    pub(super) persistent: Lock<Blocks<AnyAllocator, u32>>,
    pub(super) ring: Lock<Ring<SyncPoint>>,
    /// Emptied table caches of earlier frames, kept to reuse their host memory.
    pub(super) spare_tables: Lock<Vec<TableCache>>,
    pub(super) frames: Lock<FrameTables>,
    pub(super) core: Arc<Core<D>>,
    /// Result of the last poll for the frame region. Kept to reuse its host memory.
    pub(super) scratch: Lock<Passed>,
    pub(super) tables_made: AtomicU64,
    pub(super) tables_shared: AtomicU64,
    /// Number of released persistent slots that are not free yet.
    pub(super) waiting_slots: AtomicU64,
    /// Statistics of tables that were last recorded in a trace: slots in use, tables written, tables shared.
    pub(super) traced: Lock<[u64; 3]>,
    pub(super) closed: AtomicBool,
    pub(super) only: Lock<Option<Arc<()>>>,
}

/// State that the handles of a heap, its persistent runs, its [`FrameDescriptors`](super::FrameDescriptors) and its
/// bindless tables share.
pub(super) struct HeapOwner<D: Descriptors> {
    pub(super) shared: Arc<Shared<D>>,
    pub(super) state: Arc<State<D>>,
}

impl<D: Descriptors> HeapOwner<D> {
    /// Checks that the heap accepts the sources. Returns the number of their descriptors.
    pub(super) fn check_sources(&self, sources: &[TableSource<'_, D>]) -> Result<u32, DescriptorError> {
        let Self { shared, state } = self;
        sources.iter().try_for_each(|source| source.check(shared, state.kind, state.types))?;
        let count: u64 = sources.iter().map(|source| source.contents.len() as u64).sum();
        match u32::try_from(count) {
            Ok(0) => Err(DescriptorError::ZeroCount),
            Ok(count) => Ok(count),
            Err(_) => Err(DescriptorError::TooMany { count, max: u32::MAX.into() }),
        }
    }
}

impl<D: Descriptors> Drop for HeapOwner<D> {
    /// Retires a mark (version `u64::MAX`) that waits for every submission that had begun before the drop. The heap is
    /// destroyed once the mark is released.
    fn drop(&mut self) {
        self.shared.retire_into(&self.state.core.waiting, Retired::HeapVersion(u64::MAX));
        self.state.closed.store(true, Ordering::Release);
    }
}

/// The part of the state that bindings keep alive.
pub(super) struct Core<D: Descriptors> {
    pub(super) kind: HeapKind,
    pub(super) versions: SharedLock<Epochs<D>>,
    pub(super) waiting: RetireBin<Retired<D>>,
}

/// A heap of the driver, and its shadow. Each frame uses one version.
pub(super) struct HeapVersion<D: Descriptors> {
    pub(super) number: u64,
    pub(super) heap: Heap<D>,
    /// CPU-only copy of the persistent region. `None` if the heap never grows or has no persistent slots.
    pub(super) shadow: Option<Heap<D>>,
}

pub(super) struct Epochs<D: Descriptors> {
    pub(super) current: Arc<HeapVersion<D>>,
    /// Older versions, oldest first, each with the last frame on each timeline that uses the version.
    pub(super) old: SmallVec<[(SyncSet, Arc<HeapVersion<D>>); 1]>,
}

impl<D: Descriptors> Epochs<D> {
    pub(super) fn of(&self, frame: SyncPoint) -> &Arc<HeapVersion<D>> {
        let serves = |until: &SyncSet| until.value_on(frame.timeline).is_some_and(|last| frame.value <= last);
        self.old.iter().find(|(until, _)| serves(until)).map_or(&self.current, |(_, version)| version)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &HeapVersion<D>> {
        self.old.iter().map(|(_, version)| &**version).chain([&*self.current])
    }
}

/// An object that is kept until the submissions that may use it are complete. A leftover is the driver's object of an
/// overwritten or cleared view.
pub(super) enum Retired<D: Descriptors> {
    Range(BlockAllocation),
    Leftover(D::Leftover),
    Bound(Arc<HeapVersion<D>>, D::Bound),
    HeapVersion(u64),
}

impl<D: Descriptors> HeapVersion<D> {
    pub(super) fn new(
        device: &D,
        desc: &ShaderVisibleDesc<'_>,
        (slots, number, heap_number): (u32, u64, u64),
    ) -> Result<Self, DeviceError> {
        let visible = HeapDesc {
            kind: desc.kind,
            types: desc.types,
            slots,
            layout_slots: slots.max(desc.slots_max),
            shader_visible: true,
            name: desc.name,
        };
        let heap = Heap::new(device, &visible, heap_number)?;
        let shadow_slots = slots - desc.frame_slots;
        if desc.slots_max == 0 || shadow_slots == 0 {
            return Ok(Self { number, heap, shadow: None });
        }
        let shadow = HeapDesc { slots: shadow_slots, layout_slots: shadow_slots, shader_visible: false, ..visible };
        let mut held = Some(heap);
        // SAFETY: no other thread has the heap.
        let destroyed = guard((), |()| held.take().into_iter().for_each(|heap| unsafe { heap.destroy(device) }));
        let shadow = Heap::new(device, &shadow, heap_number)?;
        ScopeGuard::into_inner(destroyed);
        let heap = held.expect("not destroyed");
        Ok(Self { number, heap, shadow: Some(shadow) })
    }

    /// Destroys the driver's heap and the shadow.
    ///
    /// # Safety
    /// No pending work uses the version.
    pub(super) unsafe fn destroy(self, device: &D) {
        // SAFETY: by the caller's promise; shaders do not access the shadow.
        unsafe {
            self.heap.destroy(device);
            if let Some(shadow) = self.shadow {
                shadow.destroy(device);
            }
        }
    }
}

impl<D: Descriptors> State<D> {
    pub(super) fn desc(&self) -> ShaderVisibleDesc<'_> {
        ShaderVisibleDesc {
            kind: self.kind,
            types: self.types,
            frame_slots: self.frame_slots,
            persistent_slots: 0,
            algorithm: self.algorithm,
            chunk_slots: self.chunk_slots,
            slots_max: self.slots_max,
            name: &self.name,
        }
    }

    /// Copies the persistent region to a larger heap and to its shadow. No frame uses the larger heap yet.
    pub(super) fn copy_shadow(&self, device: &D, from: &HeapVersion<D>, to: &HeapVersion<D>) {
        let (Some(src), Some(dst)) = (&from.shadow, &to.shadow) else { return };
        let to_shadow =
            ViewCopy { src: src.object(), src_start: 0, dst: dst.object(), dst_start: 0, count: src.slots() };
        let to_heap = ViewCopy { dst: to.heap.object(), dst_start: self.frame_slots, ..to_shadow };
        // SAFETY: the heaps belong to this device and have these slots. No frame uses the new heaps yet. A writer of
        // the old shadow needs the lock of the versions, which the caller holds exclusively.
        unsafe { device.copy_views(&[to_shadow, to_heap]) };
    }

    /// Writes a view into a persistent slot.
    ///
    /// # Safety
    /// Only the caller uses the slot, and no pending work reads it. The second condition always holds on a device that
    /// binds snapshots of heaps.
    pub(super) unsafe fn write_slot(
        &self,
        shared: &Shared<D>,
        slot: u32,
        view: &View<'_, D>,
    ) -> Result<(), DescriptorError> {
        let view = view.describe(shared, self.kind, self.types)?;
        let versions = self.core.versions.read();
        let first = match &versions.current.shadow {
            Some(shadow) => (shadow, slot - self.frame_slots),
            None => (&versions.current.heap, slot),
        };
        // SAFETY: the caller promises that the slot may be written. The view was checked.
        let leftover = unsafe { shared.device.write_view(first.0.object(), first.1, &view) }?;
        if let Some(shadow) = &versions.current.shadow {
            let source = [(shadow.object(), slot - self.frame_slots, 1)];
            // SAFETY: as above; only the caller uses the shadow's slot too.
            unsafe { self.copy_to_all(&shared.device, &versions, source.into_iter(), slot) };
        }
        drop(versions);
        self.retire_leftover(shared, leftover);
        Ok(())
    }

    /// Copies CPU-only descriptors to consecutive persistent slots from `slot` on.
    ///
    /// # Safety
    /// As [`State::write_slot`], and the sources were checked.
    pub(super) unsafe fn copy_to_slots(&self, device: &D, slot: u32, sources: &[TableSource<'_, D>]) {
        let versions = self.core.versions.read();
        let runs = sources.iter().map(|part| (part.heap.object(), part.start, part.contents.len() as u32));
        if let Some(shadow) = &versions.current.shadow {
            // SAFETY: by the caller's promise; only the caller uses the shadow's slots too.
            unsafe { copy_runs(device, shadow.object(), slot - self.frame_slots, runs.clone()) };
        }
        // SAFETY: by the caller's promise.
        unsafe { self.copy_to_all(device, &versions, runs, slot) };
    }

    /// Copies the runs to consecutive slots from `slot` on, in every version that has this slot.
    ///
    /// # Safety
    /// As [`State::write_slot`].
    unsafe fn copy_to_all<'a>(
        &self,
        device: &D,
        versions: &'a Epochs<D>,
        runs: impl Iterator<Item = (&'a D::Heap, u32, u32)> + Clone,
        slot: u32,
    ) {
        for version in versions.all().filter(|version| slot < version.heap.slots()) {
            // SAFETY: by the caller's promise.
            unsafe { copy_runs(device, version.heap.object(), slot, runs.clone()) };
        }
    }

    /// Clears a slot that no pending work can read, and destroys the driver's objects of its view immediately.
    ///
    /// # Safety
    /// As [`State::write_slot`], and no pending work uses the view through this slot.
    pub(super) unsafe fn clear_passed(&self, device: &D, slot: u32) {
        let versions = self.core.versions.read();
        let shadow = versions.current.shadow.as_ref().map(|shadow| (shadow, slot - self.frame_slots));
        let visible = versions.all().map(|version| (&version.heap, slot));
        for (heap, slot) in visible.chain(shadow).filter(|(heap, slot)| *slot < heap.slots()) {
            // SAFETY: by the caller's promise, for the slot and for its view.
            unsafe { device.clear_view(heap.object(), slot).map(|leftover| device.discard_leftover(leftover)) };
        }
    }

    /// Keeps the driver's object of a replaced view until no pending submission can use it.
    pub(super) fn retire_leftover(&self, shared: &Shared<D>, leftover: Option<D::Leftover>) {
        if let Some(leftover) = leftover {
            shared.retire_into(&self.core.waiting, Retired::Leftover(leftover));
        }
    }

    pub(super) fn count_table(&self, is_shared: bool) {
        let counter = if is_shared { &self.tables_shared } else { &self.tables_made };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Records in a trace the changes of the statistics of tables since the last record.
    fn trace_tables(&self, shared: &Shared<D>) {
        if !shared.is_recording() {
            return;
        }
        let [made, reused] = [&self.tables_made, &self.tables_shared].map(|count| count.load(Ordering::Relaxed));
        let now = [self.ring.lock().used(), made, reused];
        let before = std::mem::replace(&mut *self.traced.lock(), now);
        if now != before {
            let (made, reused) = (made - before[1], reused - before[2]);
            shared.record(|| Event::DescriptorTables { heap: self.number, frame_used: now[0], made, shared: reused });
        }
    }

    /// Records in a trace the heap of the driver that new frames use.
    pub(super) fn trace_heap(&self, shared: &Shared<D>) {
        shared.record(|| Event::DescriptorHeap {
            heap: self.number,
            owner: self.number,
            kind: self.kind as u32,
            shader_visible: true,
            capacity: self.core.versions.read().current.heap.slots().into(),
            frame_capacity: self.frame_slots.into(),
            name: &self.name,
        });
    }

    /// Frees the slots of the oldest frames in the frame region, up to the first frame that is not complete. Does not
    /// wait for the device.
    pub(super) fn poll(&self, shared: &Shared<D>) -> Result<(), DeviceError> {
        let mut passed = self.scratch.lock();
        shared.read(&mut passed)?;
        self.ring.lock().release_while(|frame| passed.passed(*frame));
        Ok(())
    }

    fn release(&self, shared: &Shared<D>, retired: Retired<D>) -> Option<Retired<D>> {
        match retired {
            Retired::Leftover(leftover) => {
                // SAFETY: every submission that had begun when the slot released it is complete.
                unsafe { shared.device.discard_leftover(leftover) };
            }
            Retired::Bound(version, bound) => {
                // SAFETY: its frame is complete, and each binding is removed from the queue once.
                unsafe { shared.device.unbind_heap(version.heap.object(), bound) };
            }
            Retired::Range(allocation) => self.free(shared, &allocation),
            Retired::HeapVersion(number) => return self.end_version(&shared.device, number),
        }
        None
    }

    fn free(&self, shared: &Shared<D>, allocation: &BlockAllocation) {
        let blocks = self.persistent.lock();
        let (base, _) = blocks.get(allocation.block()).expect("the block of an allocation exists");
        let start = base + allocation.offset() as u32;
        drop(blocks);
        if self.owning {
            for slot in start..start + allocation.size() as u32 {
                // SAFETY: the run was released, and every submission that had begun at the release is complete.
                unsafe { self.clear_passed(&shared.device, slot) };
            }
        }
        // Recorded before the slots can be handed out again.
        let count = allocation.size();
        shared.record(|| Event::DescriptorsFreed { heap: self.number, first: start.into(), count });
        self.waiting_slots.fetch_sub(allocation.size(), Ordering::Relaxed);
        let freed = self.persistent.lock().free(allocation);
        debug_assert!(freed.is_ok(), "an allocation is freed once");
    }

    /// Destroys an old heap whose frames are complete. If a binding or a [`FrameDescriptors`](super::FrameDescriptors)
    /// still refers to the heap, returns the retired version, which the caller retires again.
    fn end_version(&self, device: &D, number: u64) -> Option<Retired<D>> {
        let mut versions = self.core.versions.write();
        let at = versions.old.iter().position(|(_, version)| version.number == number)?;
        if Arc::strong_count(&versions.old[at].1) > 1 {
            return Some(Retired::HeapVersion(number));
        }
        let (_, version) = versions.old.remove(at);
        drop(versions);
        if let Some(version) = Arc::into_inner(version) {
            // SAFETY: the frames that used it are complete, and this is the last reference.
            unsafe { version.destroy(device) };
        }
        None
    }

    /// Destroys the heaps of all versions. The allocator may then have another heap of this kind.
    ///
    /// # Safety
    /// No pending work uses the heaps, and all handles are dropped.
    unsafe fn destroy_heaps(&self, shared: &Shared<D>) {
        let mut versions = self.core.versions.write();
        let old = versions.old.drain(..).map(|(_, version)| version).collect::<Vec<_>>();
        for version in old.iter().chain([&versions.current]) {
            // SAFETY: by the caller's promise; the object is not used again, since the state is closed.
            unsafe {
                shared.device.destroy_heap(version.heap.object().clone());
                if let Some(shadow) = &version.shadow {
                    shared.device.destroy_heap(shadow.object().clone());
                }
            }
        }
        shared.record(|| Event::DescriptorHeapFreed { heap: self.number });
        self.only.lock().take();
    }
}

/// Calls `each` with the objects that no pending submission can use. If the device is lost, calls it with all objects.
pub(super) fn release_passed<T>(waiting: &RetireBin<T>, passed: &Passed, device_lost: bool, each: impl FnMut(T)) {
    if device_lost {
        waiting.release_all(each)
    } else {
        waiting.release_passed(passed, usize::MAX, each)
    };
}

/// Copies runs of slots to consecutive slots from `dst_start` on. Adjacent runs are merged. One driver call copies up
/// to 32 runs.
///
/// # Safety
/// As [`Descriptors::copy_views`].
pub(super) unsafe fn copy_runs<'a, D: Descriptors>(
    device: &D,
    dst: &'a D::Heap,
    mut dst_start: u32,
    runs: impl Iterator<Item = (&'a D::Heap, u32, u32)>,
) {
    let mut batch: SmallVec<[ViewCopy<'a, D::Heap>; 32]> = SmallVec::new();
    for (src, src_start, count) in runs {
        match batch.last_mut() {
            Some(last) if std::ptr::eq(last.src, src) && last.src_start + last.count == src_start => {
                last.count += count
            }
            _ => {
                if batch.len() == batch.inline_size() {
                    // SAFETY: by the caller's promise.
                    unsafe { device.copy_views(&batch) };
                    batch.clear();
                }
                batch.push(ViewCopy { src, src_start, dst, dst_start, count });
            }
        }
        dst_start += count;
    }
    // SAFETY: by the caller's promise.
    unsafe { device.copy_views(&batch) };
}

impl<D: Descriptors> ReclaimHeap<D> for State<D> {
    fn reclaim(&self, shared: &Shared<D>, passed: &Passed, device_lost: bool, _: bool) -> bool {
        // Read before the queue is emptied, so that the queue contains everything that the last handle retired.
        let closed = self.closed.load(Ordering::Acquire);
        self.ring.lock().release_while(|frame| device_lost || passed.passed(*frame));
        let mut held: SmallVec<[Retired<D>; 2]> = SmallVec::new();
        release_passed(&self.core.waiting, passed, device_lost, |retired| held.extend(self.release(shared, retired)));
        held.into_iter().for_each(|retired| self.core.waiting.retire(&SyncSet::new(), retired));
        self.trace_tables(shared);
        if !closed || !self.core.waiting.is_empty() || !self.ring.lock().is_empty() {
            return true;
        }
        // SAFETY: all handles are dropped, and the last one retired a mark. The queue is empty, so the submissions
        // before that mark are complete.
        unsafe { self.destroy_heaps(shared) };
        false
    }

    fn snapshot(&self, into: &mut Vec<DescriptorSnapshot>) {
        let blocks = self.persistent.lock().statistics();
        let (name, kind) = (self.name.to_string(), self.kind.to_string());
        let heap_count = self.core.versions.read().all().count() as u64;
        let persistent = DescriptorSnapshot {
            name: name.clone(),
            kind: kind.clone(),
            region: region::PERSISTENT.into(),
            slot_count: blocks.capacity,
            used_count: blocks.capacity - blocks.free_size,
            waiting_count: self.waiting_slots.load(Ordering::Relaxed),
            largest_free: blocks.largest_free,
            heap_count,
            ..Default::default()
        };
        let ring = self.ring.lock();
        let frame = DescriptorSnapshot {
            name,
            kind,
            region: region::FRAME.into(),
            slot_count: ring.capacity(),
            used_count: ring.used(),
            high_water: Some(ring.high_water()),
            largest_free: largest_free(&ring),
            heap_count,
            tables_made: self.tables_made.load(Ordering::Relaxed),
            tables_shared: self.tables_shared.load(Ordering::Relaxed),
            ..Default::default()
        };
        drop(ring);
        into.extend([persistent, frame].into_iter().filter(|region| region.slot_count > 0));
    }

    unsafe fn destroy(&self, shared: &Shared<D>) {
        self.core.waiting.release_all(|retired| {
            if !matches!(retired, Retired::HeapVersion(_)) {
                self.release(shared, retired);
            }
        });
        // SAFETY: by the caller's promise.
        unsafe { self.destroy_heaps(shared) };
    }
}

/// Returns the length of the longest run of free slots of a ring.
pub(super) fn largest_free(ring: &Ring<SyncPoint>) -> u64 {
    let mut extents: SmallVec<[_; 8]> = ring.iter().flat_map(|held| held.extents()).collect();
    extents.sort_unstable_by_key(|extent| extent.offset);
    let (mut longest, mut end) = (0, 0);
    for extent in extents {
        longest = longest.max(extent.offset - end);
        end = extent.offset + extent.size;
    }
    longest.max(ring.capacity() - end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each step allocates slots for a frame, or frees those of the oldest frame.
    #[test]
    fn the_longest_free_run_of_a_ring_is_between_its_ranges_or_around_them() {
        enum Step {
            Take(u64),
            Free,
        }
        use Step::{Free, Take};
        for (steps, longest) in [
            (&[][..], 100),
            (&[Take(100)], 0),
            (&[Take(30)], 70),
            (&[Take(99)], 1),
            (&[Take(60), Take(30), Free], 60),
            (&[Take(30), Take(30), Free], 40),
            (&[Take(30), Take(60), Free], 30),
            (&[Take(40), Take(50), Free, Take(20)], 20),
            // The third range does not fit behind the second, so it also holds the last ten slots.
            (&[Take(40), Take(50), Free, Take(20), Free], 70),
            (&[Take(50), Take(50), Free, Free], 100),
        ] {
            let mut ring = Ring::for_frames(100);
            let mut value = 0;
            for step in steps {
                match step {
                    Take(count) => {
                        value += 1;
                        let frame = SyncPoint { timeline: ringfence_core::sync::TimelineId::new(0), value };
                        ring.allocate(*count, 1, &frame).expect("there is room");
                    }
                    Free => {
                        let mut is_first = true;
                        ring.release_while(|_| std::mem::take(&mut is_first));
                    }
                }
            }
            assert_eq!(largest_free(&ring), longest, "after {} steps", steps.len());
        }
    }
}
