//! What is behind a shader-visible heap: epochs of driver heaps, the regions, and what waits.
//!
//! ```text
//!   State ── persistent region, frame region              Persistent, FrameDescriptors, BindlessTable
//!     └── Core ── epochs ── Epoch { heap, shadow }           Binding
//!              └─ waiting: ranges, leftovers, bindings, old epochs ── reclaim ──▶ freed or destroyed
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::device::lock::{Lock, SharedLock};
use ringfence_core::blocks::{BlockAllocation, Blocks};
use ringfence_core::ring::Ring;
use ringfence_core::sync::{Progress, SyncPoint, SyncSet};
use smallvec::SmallVec;

use super::desc::ShaderVisibleDesc;
use super::tables::{FrameTables, TableCache};
use super::{DescriptorError, DescriptorSnapshot, Heap, SlotAllocator, TableSource, View, region};
use crate::device::DeviceError;
use crate::device::descriptors::{Descriptors, HeapDesc, HeapKind, ViewCopy, ViewTypes};
use ringfence_memory::extend::{Passed, ReclaimHeap, Shared, Undo};
use ringfence_memory::lifetime::RetireBin;
use ringfence_memory::trace::Event;

/// What `reclaim` works on.
pub(super) struct State<D: Descriptors, A: SlotAllocator> {
    pub(super) kind: HeapKind,
    pub(super) types: ViewTypes,
    pub(super) chunk_slots: u32,
    pub(super) frame_slots: u32,
    pub(super) slots_max: u32,
    pub(super) name: Box<str>,
    /// Its number in a trace.
    pub(super) number: u64,
    pub(super) owning: bool,
    /// The runs of the persistent region. What stands for a block's heap is its first slot.
    pub(super) persistent: Lock<Blocks<A, u32>>,
    pub(super) ring: Lock<Ring<SyncPoint>>,
    /// Tables that frames left, emptied, so that a steady frame makes nothing.
    pub(super) spare_tables: Lock<Vec<TableCache>>,
    pub(super) frames: Lock<FrameTables>,
    pub(super) core: Arc<Core<D>>,
    /// What a shortage polls with.
    pub(super) scratch: Lock<Passed>,
    pub(super) tables_made: AtomicU64,
    pub(super) tables_shared: AtomicU64,
    /// Persistent slots that were released and wait for the device.
    pub(super) waiting_slots: AtomicU64,
    /// What a trace recorded last of the tables: slots in use, made, shared.
    pub(super) traced: Lock<[u64; 3]>,
    pub(super) closed: AtomicBool,
    pub(super) only: Lock<Option<Arc<()>>>,
}

/// What handles, allocations and bindings share.
pub(super) struct Keeper<D: Descriptors, A: SlotAllocator> {
    pub(super) shared: Arc<Shared<D>>,
    pub(super) state: Arc<State<D, A>>,
}

impl<D: Descriptors, A: SlotAllocator> Keeper<D, A> {
    /// How many descriptors the sources are together, if the heap takes them.
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

impl<D: Descriptors, A: SlotAllocator> Drop for Keeper<D, A> {
    /// The heap goes once every submission that has begun by now is complete: a mark on the queue waits for them.
    fn drop(&mut self) {
        self.shared.retire_into(&self.state.core.waiting, Retired::Epoch(u64::MAX));
        self.state.closed.store(true, Ordering::Release);
    }
}

/// The part that bindings hold: what does not depend on the algorithm inside.
pub(super) struct Core<D: Descriptors> {
    pub(super) kind: HeapKind,
    pub(super) epochs: SharedLock<Epochs<D>>,
    pub(super) waiting: RetireBin<Retired<D>>,
}

/// A heap of the driver and the frames that it serves.
pub(super) struct Epoch<D: Descriptors> {
    pub(super) number: u64,
    pub(super) heap: Heap<D>,
    /// The persistent region, for the host; there iff the heap may grow.
    pub(super) shadow: Option<Heap<D>>,
}

pub(super) struct Epochs<D: Descriptors> {
    pub(super) current: Arc<Epoch<D>>,
    /// Older ones, oldest first, each with the last frames that it serves.
    pub(super) old: SmallVec<[(SyncSet, Arc<Epoch<D>>); 1]>,
}

impl<D: Descriptors> Epochs<D> {
    pub(super) fn of(&self, frame: SyncPoint) -> &Arc<Epoch<D>> {
        let serves = |until: &SyncSet| until.value_on(frame.timeline).is_some_and(|last| frame.value <= last);
        self.old.iter().find(|(until, _)| serves(until)).map_or(&self.current, |(_, epoch)| epoch)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Epoch<D>> {
        self.old.iter().map(|(_, epoch)| &**epoch).chain([&*self.current])
    }
}

/// What waits for points.
pub(super) enum Retired<D: Descriptors> {
    Range(BlockAllocation),
    Leftover(D::Leftover),
    Bound(Arc<Epoch<D>>, D::Bound),
    Epoch(u64),
}

impl<D: Descriptors> Epoch<D> {
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
        // SAFETY: no other thread has seen it.
        let destroyed = Undo::new(|| held.take().into_iter().for_each(|heap| unsafe { heap.destroy(device) }));
        let shadow = Heap::new(device, &shadow, heap_number)?;
        destroyed.done();
        let heap = held.expect("it was not destroyed");
        Ok(Self { number, heap, shadow: Some(shadow) })
    }

    /// # Safety
    /// No pending work uses it.
    pub(super) unsafe fn destroy(self, device: &D) {
        // SAFETY: as the caller promises; shaders do not see the shadow.
        unsafe {
            self.heap.destroy(device);
            if let Some(shadow) = self.shadow {
                shadow.destroy(device);
            }
        }
    }
}

impl<D: Descriptors, A: SlotAllocator> State<D, A> {
    pub(super) fn desc(&self) -> ShaderVisibleDesc<'_> {
        ShaderVisibleDesc {
            kind: self.kind,
            types: self.types,
            frame_slots: self.frame_slots,
            persistent_slots: 0,
            chunk_slots: self.chunk_slots,
            slots_max: self.slots_max,
            name: &self.name,
        }
    }

    /// Brings the persistent region into a larger heap that no frame sees yet.
    pub(super) fn copy_shadow(&self, device: &D, from: &Epoch<D>, to: &Epoch<D>) {
        let (Some(src), Some(dst)) = (&from.shadow, &to.shadow) else { return };
        let to_shadow =
            ViewCopy { src: src.object(), src_start: 0, dst: dst.object(), dst_start: 0, count: src.slots() };
        let to_heap = ViewCopy { dst: to.heap.object(), dst_start: self.frame_slots, ..to_shadow };
        // SAFETY: the heaps are this device's and have the slots; no frame sees the new ones yet; a writer of the old
        // shadow needs the lock of the epochs, which the caller holds exclusively.
        unsafe { device.copy_views(&[to_shadow, to_heap]) };
    }

    /// Makes a persistent slot show something.
    ///
    /// # Safety
    /// The slot is the caller's alone and no pending work reads it (on a device of snapshots: the slot is the
    /// caller's).
    pub(super) unsafe fn write_slot(
        &self,
        shared: &Shared<D>,
        slot: u32,
        view: &View<'_, D>,
    ) -> Result<(), DescriptorError> {
        let view = view.describe(shared, self.kind, self.types)?;
        let epochs = self.core.epochs.read();
        let first = match &epochs.current.shadow {
            Some(shadow) => (shadow, slot - self.frame_slots),
            None => (&epochs.current.heap, slot),
        };
        // SAFETY: the caller promises that the slot is free to be written; the view was checked.
        let leftover = unsafe { shared.device.write_view(first.0.object(), first.1, &view) }?;
        if let Some(shadow) = &epochs.current.shadow {
            let source = [(shadow.object(), slot - self.frame_slots, 1)];
            // SAFETY: as above; the shadow's slot is the caller's too.
            unsafe { self.copy_to_all(&shared.device, &epochs, source.into_iter(), slot) };
        }
        drop(epochs);
        self.retire_leftover(shared, leftover);
        Ok(())
    }

    /// Copies CPU-only descriptors to persistent slots, side by side from `slot` on.
    ///
    /// # Safety
    /// As [`State::write_slot`]; the sources were checked.
    pub(super) unsafe fn copy_to_slots(&self, device: &D, slot: u32, sources: &[TableSource<'_, D>]) {
        let epochs = self.core.epochs.read();
        let runs = sources.iter().map(|part| (part.heap.object(), part.start, part.contents.len() as u32));
        if let Some(shadow) = &epochs.current.shadow {
            // SAFETY: as the caller promises; the shadow's slots are the caller's too.
            unsafe { copy_runs(device, shadow.object(), slot - self.frame_slots, runs.clone()) };
        }
        // SAFETY: as the caller promises.
        unsafe { self.copy_to_all(device, &epochs, runs, slot) };
    }

    /// # Safety
    /// As [`State::write_slot`].
    unsafe fn copy_to_all<'a>(
        &self,
        device: &D,
        epochs: &'a Epochs<D>,
        runs: impl Iterator<Item = (&'a D::Heap, u32, u32)> + Clone,
        slot: u32,
    ) {
        for epoch in epochs.all().filter(|epoch| slot < epoch.heap.slots()) {
            // SAFETY: as the caller promises.
            unsafe { copy_runs(device, epoch.heap.object(), slot, runs.clone()) };
        }
    }

    /// Makes a slot show nothing that nothing under way can read: what it showed goes at once.
    ///
    /// # Safety
    /// As [`State::write_slot`], and no pending work uses what the slot shows through it.
    pub(super) unsafe fn clear_passed(&self, device: &D, slot: u32) {
        let epochs = self.core.epochs.read();
        let shadow = epochs.current.shadow.as_ref().map(|shadow| (shadow, slot - self.frame_slots));
        let visible = epochs.all().map(|epoch| (&epoch.heap, slot));
        for (heap, slot) in visible.chain(shadow).filter(|(heap, slot)| *slot < heap.slots()) {
            // SAFETY: as the caller promises, for the slot and for what it showed.
            unsafe { device.clear_view(heap.object(), slot).map(|leftover| device.discard_leftover(leftover)) };
        }
    }

    /// Keeps what a slot showed before until nothing under way can use it.
    pub(super) fn retire_leftover(&self, shared: &Shared<D>, leftover: Option<D::Leftover>) {
        if let Some(leftover) = leftover {
            shared.retire_into(&self.core.waiting, Retired::Leftover(leftover));
        }
    }

    pub(super) fn count_table(&self, is_shared: bool) {
        let counter = if is_shared { &self.tables_shared } else { &self.tables_made };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Records in a trace what has changed with the tables of frames since the last record.
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

    /// Records in a trace the heap that new frames see.
    pub(super) fn trace_heap(&self, shared: &Shared<D>) {
        shared.record(|| Event::DescriptorHeap {
            heap: self.number,
            owner: self.number,
            kind: self.kind as u32,
            shader_visible: true,
            capacity: self.core.epochs.read().current.heap.slots().into(),
            frame_capacity: self.frame_slots.into(),
            name: &self.name,
        });
    }

    /// Frees what is complete of the frame region, without waiting.
    pub(super) fn poll(&self, shared: &Shared<D>) -> Result<(), DeviceError> {
        let mut passed = self.scratch.lock();
        shared.read(&mut passed)?;
        self.ring.lock().release_while(|frame| passed.passed(*frame));
        Ok(())
    }

    fn release(&self, shared: &Shared<D>, retired: Retired<D>) -> Option<Retired<D>> {
        match retired {
            Retired::Leftover(leftover) => {
                // SAFETY: every submission that had begun when its slot released it is complete.
                unsafe { shared.device.discard_leftover(leftover) };
            }
            Retired::Bound(epoch, bound) => {
                // SAFETY: the frame that it was bound for is complete, and each comes out of the queue once.
                unsafe { shared.device.unbind_heap(epoch.heap.object(), bound) };
            }
            Retired::Range(allocation) => self.free(shared, &allocation),
            Retired::Epoch(number) => return self.end_epoch(&shared.device, number),
        }
        None
    }

    fn free(&self, shared: &Shared<D>, allocation: &BlockAllocation) {
        let blocks = self.persistent.lock();
        let (base, _) = blocks.get(allocation.block()).expect("an allocation's block is there");
        let start = base + allocation.offset() as u32;
        drop(blocks);
        if self.owning {
            for slot in start..start + allocation.size() as u32 {
                // SAFETY: the run was released, and every submission that had begun by then is complete.
                unsafe { self.clear_passed(&shared.device, slot) };
            }
        }
        // Before they can be handed out again.
        let count = allocation.size();
        shared.record(|| Event::DescriptorsFreed { heap: self.number, first: start.into(), count });
        self.waiting_slots.fetch_sub(allocation.size(), Ordering::Relaxed);
        let freed = self.persistent.lock().free(allocation);
        debug_assert!(freed.is_ok(), "an allocation is freed once");
    }

    /// The frames of an old heap are complete. A binding that a program still holds keeps it for another while.
    fn end_epoch(&self, device: &D, number: u64) -> Option<Retired<D>> {
        let mut epochs = self.core.epochs.write();
        let at = epochs.old.iter().position(|(_, epoch)| epoch.number == number)?;
        if Arc::strong_count(&epochs.old[at].1) > 1 {
            return Some(Retired::Epoch(number));
        }
        let (_, epoch) = epochs.old.remove(at);
        drop(epochs);
        if let Some(epoch) = Arc::into_inner(epoch) {
            // SAFETY: the frames that it served are complete, and nothing holds it.
            unsafe { epoch.destroy(device) };
        }
        None
    }

    /// # Safety
    /// No pending work uses the heaps, and no handle is left.
    unsafe fn destroy_heaps(&self, shared: &Shared<D>) {
        let mut epochs = self.core.epochs.write();
        let old = epochs.old.drain(..).map(|(_, epoch)| epoch).collect::<Vec<_>>();
        for epoch in old.iter().chain([&epochs.current]) {
            // SAFETY: as the caller promises; the object is not used again, as the state is closed.
            unsafe {
                shared.device.destroy_heap(epoch.heap.object().clone());
                if let Some(shadow) = &epoch.shadow {
                    shared.device.destroy_heap(shadow.object().clone());
                }
            }
        }
        shared.record(|| Event::DescriptorHeapFreed { heap: self.number });
        self.only.lock().take();
    }
}

/// Hands out what has waited long enough.
pub(super) fn release_passed<T>(waiting: &RetireBin<T>, passed: &Passed, device_lost: bool, each: impl FnMut(T)) {
    if device_lost {
        waiting.release_all(each)
    } else {
        waiting.release_passed(passed, usize::MAX, each)
    };
}

/// Copies runs of slots side by side to `dst_start` on. Neighbours are merged; 32 runs go in one call.
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
                    // SAFETY: as the caller promises.
                    unsafe { device.copy_views(&batch) };
                    batch.clear();
                }
                batch.push(ViewCopy { src, src_start, dst, dst_start, count });
            }
        }
        dst_start += count;
    }
    // SAFETY: as the caller promises.
    unsafe { device.copy_views(&batch) };
}

impl<D: Descriptors, A: SlotAllocator> ReclaimHeap<D> for State<D, A> {
    fn reclaim(&self, shared: &Shared<D>, passed: &Passed, device_lost: bool, _: bool) -> bool {
        // Before the queue is looked at, so that what the last handle released is in it.
        let closed = self.closed.load(Ordering::Acquire);
        self.ring.lock().release_while(|frame| device_lost || passed.passed(*frame));
        let mut held: SmallVec<[Retired<D>; 2]> = SmallVec::new();
        release_passed(&self.core.waiting, passed, device_lost, |retired| held.extend(self.release(shared, retired)));
        held.into_iter().for_each(|retired| self.core.waiting.retire(&SyncSet::new(), retired));
        self.trace_tables(shared);
        if !closed || !self.core.waiting.is_empty() || !self.ring.lock().is_empty() {
            return true;
        }
        // SAFETY: no handle is left, and all that they were used for has passed: the last handle put a mark on the
        // queue.
        unsafe { self.destroy_heaps(shared) };
        false
    }

    fn snapshot(&self, into: &mut Vec<DescriptorSnapshot>) {
        let blocks = self.persistent.lock().statistics();
        let (name, kind) = (self.name.to_string(), self.kind.to_string());
        let heap_count = self.core.epochs.read().all().count() as u64;
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
            if !matches!(retired, Retired::Epoch(_)) {
                self.release(shared, retired);
            }
        });
        // SAFETY: as the caller promises.
        unsafe { self.destroy_heaps(shared) };
    }
}

/// The longest run of free slots of a ring: before its end, or before its tail.
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
