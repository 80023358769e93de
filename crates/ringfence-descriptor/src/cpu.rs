//! CPU-only descriptors: runs of slots in heaps that shaders do not access.
//!
//! ```text
//!   CpuDescriptorHeap ──▶ blocks, each a heap     block ┌────┬────┬─────────┐   a block is one heap of the driver
//!        │                                              │ 1  │ 1  │    2    │   runs of slots, one for each request
//!   CpuDescriptors { heap, start, length } ────────────────┘               │
//!        │                                              └────┴────┴─────────┘
//!        └◀─▶ this thread's cache of single slots ◀─ batches ─▶ singles ◀─▶ blocks
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | allocate or drop one slot, through the thread's cache | O(1), one atomic exchange |
//! | allocate or drop other runs | O(log slots + length of the run), a short lock; a driver call for a new block, without the lock |
//! | write | one driver call |
//! | reclaim | O(thread caches + freed slots and objects); a driver call for each block whose grace period is over |

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::device::lock::Lock;
use ringfence_core::blocks::{BlockAllocation, Blocks, BlocksDesc, BlocksStatistics};
use ringfence_core::range::{AllocError, Allocate, FreeError, Invalid};
use ringfence_lockfree::thread_cache::{self, BATCH_MAX, ThreadCaches, batch};

use super::heap_state::release_passed;
use super::single_slots::{BoxedRun, Held, Slots};
use super::{DescriptorError, DescriptorSnapshot, Heap, SlotAlgorithm, View, region};
use crate::device::descriptors::{CpuHandle, Descriptors, HeapDesc, HeapKind, ViewTypes};
use ringfence_memory::Allocator;
use ringfence_memory::extend::{Passed, ReclaimHeap, Shared, run_unlocked};
use ringfence_memory::lifetime::RetireBin;
use ringfence_memory::trace::Event;

/// Largest number of slots of one heap: 1,000,000, the limit of Direct3D 12 for shader-visible heaps of views, rounded
/// up to a power of two.
const BLOCK_SLOTS_MAX: u32 = 1 << 20;
/// Index of the only size class in the thread caches: single slots.
const SINGLES: usize = 0;

/// Description of an allocator of CPU-only descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuHeapDesc<'a> {
    /// Kind of the descriptors.
    pub kind: HeapKind,
    /// View types of a heap of resources. They must equal those of the shader-visible heap that the descriptors are
    /// copied to.
    pub types: ViewTypes,
    /// Number of slots of a block, which is a heap of the driver. A larger request gets a block of the request's size.
    pub block_slots: u32,
    /// Algorithm that divides the slots of each block.
    pub algorithm: SlotAlgorithm,
    /// Number of empty blocks that are kept permanently.
    pub empty_blocks_kept: usize,
    /// Number of calls of [`Allocator::reclaim`] after which further empty blocks are destroyed.
    pub empty_block_grace: u64,
    /// Name for debuggers.
    pub name: &'a str,
}

impl Default for CpuHeapDesc<'_> {
    fn default() -> Self {
        Self {
            kind: HeapKind::Resources,
            types: ViewTypes::all(),
            block_slots: 256,
            algorithm: SlotAlgorithm::Buddy,
            empty_blocks_kept: 1,
            empty_block_grace: 120,
            name: "CPU-only descriptors",
        }
    }
}

/// An allocator of CPU-only descriptors of one kind. It creates heaps as needed.
///
/// Cheap to clone; clones share one state. All threads may allocate.
pub struct CpuDescriptorHeap<D: Descriptors> {
    heap_owner: Arc<HeapOwner<D>>,
    _open: Arc<Open<D>>,
}

impl<D: Descriptors> Clone for CpuDescriptorHeap<D> {
    fn clone(&self) -> Self {
        Self { heap_owner: Arc::clone(&self.heap_owner), _open: Arc::clone(&self._open) }
    }
}

/// State that handles and allocations share. After the last of them is dropped, the heaps can be destroyed.
pub(super) struct HeapOwner<D: Descriptors> {
    shared: Arc<Shared<D>>,
    state: Arc<State<D>>,
}

/// State that the handles share. When the last handle is dropped, the caches are emptied, so that no cached slot keeps
/// a heap alive.
struct Open<D: Descriptors> {
    heap_owner: Arc<HeapOwner<D>>,
}

impl<D: Descriptors> Drop for Open<D> {
    fn drop(&mut self) {
        let heap_owner = Arc::clone(&self.heap_owner);
        run_unlocked(move || {
            let state = &heap_owner.state;
            state.thread_caches.close(|_, single| state.slots.lock().give_back(single));
            state.slots.lock().close();
        });
    }
}

/// State of a CPU-only heap, which `reclaim` also accesses.
struct State<D: Descriptors> {
    kind: HeapKind,
    types: ViewTypes,
    algorithm: SlotAlgorithm,
    name: Box<str>,
    /// Number of the allocator in a trace.
    number: u64,
    /// `true` if slots own objects of the driver.
    owning: bool,
    slots: Lock<Slots<D>>,
    /// Free single slots in the caches of threads, without views. Like an allocated descriptor, each keeps its heap
    /// alive.
    thread_caches: ThreadCaches<BoxedRun<D>>,
    leftovers: RetireBin<D::Leftover>,
    /// Number of calls of `reclaim`: the clock for empty blocks.
    tick: AtomicU64,
    closed: AtomicBool,
}

impl<D: Descriptors> CpuDescriptorHeap<D> {
    /// Creates an allocator of descriptors. The first request creates the first heap.
    ///
    /// # Errors
    /// `block_slots` is 0 or more than 2²⁰.
    pub fn new(memory: &Allocator<D>, desc: CpuHeapDesc<'_>) -> Result<Self, DescriptorError> {
        if desc.block_slots == 0 {
            return Err(DescriptorError::ZeroCount);
        }
        check_count(desc.block_slots.into())?;
        let blocks = Blocks::new(BlocksDesc {
            basic_size: desc.block_slots.into(),
            destroy_threshold: desc.empty_blocks_kept,
            grace_ticks: desc.empty_block_grace,
        });
        let shared = Arc::clone(memory.shared());
        let state = Arc::new(State {
            kind: desc.kind,
            types: desc.types,
            algorithm: desc.algorithm,
            name: desc.name.into(),
            number: shared.descriptors_number(),
            owning: shared.device.descriptor_support().slots_own_objects,
            slots: Lock::new(Slots::new(blocks)),
            thread_caches: ThreadCaches::new([2 * BATCH_MAX]),
            leftovers: RetireBin::new(),
            tick: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        });
        shared.add_heap(Arc::clone(&state) as Arc<dyn ReclaimHeap<D>>);
        let heap_owner = Arc::new(HeapOwner { shared, state });
        Ok(Self { _open: Arc::new(Open { heap_owner: Arc::clone(&heap_owner) }), heap_owner })
    }

    /// Allocates a run of consecutive slots.
    ///
    /// # Errors
    /// - `count` is 0, or more than 2²⁰ (the largest number of slots of a heap).
    /// - The driver cannot create another heap.
    ///
    /// After an error, no slot is allocated.
    #[inline]
    pub fn allocate(&self, count: u32) -> Result<CpuDescriptors<D>, DescriptorError> {
        if count == 1
            && let Some((single, _)) = self.heap_owner.state.thread_caches.take(SINGLES)
        {
            return Ok(self.handed_out(single));
        }
        self.allocate_aligned(count.into(), 1)
    }

    fn allocate_aligned(&self, count: u64, alignment: u64) -> Result<CpuDescriptors<D>, DescriptorError> {
        check_count(count)?;
        match self.allocate_from_slots(count, alignment) {
            Ok(run) => Ok(self.handed_out(run)),
            Err(AllocError::OutOfSpace { .. }) => Ok(self.handed_out(self.allocate_from_new_block(count, alignment)?)),
            Err(_) => Err(DescriptorError::BadAlignment { alignment }),
        }
    }

    #[inline]
    fn handed_out(&self, run: BoxedRun<D>) -> CpuDescriptors<D> {
        let descriptors = CpuDescriptors { run: Some(run) };
        self.heap_owner.shared.record(|| Event::DescriptorsAllocated {
            heap: descriptors.heap().number(),
            first: descriptors.start().into(),
            count: descriptors.len().into(),
        });
        descriptors
    }

    /// Allocates from the existing blocks. For a single slot, also takes a batch of slots for the thread's cache.
    fn allocate_from_slots(&self, count: u64, alignment: u64) -> Result<BoxedRun<D>, AllocError> {
        let (heap_owner, state) = (&self.heap_owner, &self.heap_owner.state);
        let is_single = (count, alignment) == (1, 1);
        let wanted = if is_single { state.thread_caches.wanted(SINGLES) } else { 0 };
        let mut slots = state.slots.lock();
        let found = if is_single { slots.take_single(heap_owner) } else { slots.take(heap_owner, count, alignment) };
        if found.is_err() {
            drop(slots);
            return self.allocate_without_caches(count, alignment);
        }
        let mut singles = batch((0..wanted).map_while(|_| slots.take_single(heap_owner).ok()));
        drop(slots);
        if wanted > 0 {
            state.thread_caches.fill(SINGLES, &mut singles);
            singles.for_each(|single| state.slots.lock().put(single));
        }
        found
    }

    /// Frees all cached slots, then allocates from the existing blocks. Called before a block is created.
    #[cold]
    fn allocate_without_caches(&self, count: u64, alignment: u64) -> Result<BoxedRun<D>, AllocError> {
        let (heap_owner, state) = (&self.heap_owner, &self.heap_owner.state);
        state.thread_caches.empty(|_, single| state.slots.lock().give_back(single));
        let mut slots = state.slots.lock();
        slots.give_singles_back(usize::MAX);
        slots.take(heap_owner, count, alignment)
    }

    /// Creates a heap and allocates from it. Holds no lock during the creation, so another thread may create a heap at
    /// the same time.
    fn allocate_from_new_block(&self, count: u64, alignment: u64) -> Result<BoxedRun<D>, DescriptorError> {
        let HeapOwner { shared, state } = &*self.heap_owner;
        let slots = state.slots.lock().blocks.new_block_size(count);
        let slots = check_count(slots)?;
        let mut allocator = state.algorithm.slots(slots);
        let Ok(range) = allocator.allocate(count, alignment) else {
            return Err(DescriptorError::TooMany { count, max: slots.into() });
        };
        let desc = HeapDesc {
            kind: state.kind,
            types: state.types,
            slots,
            layout_slots: slots,
            shader_visible: false,
            name: &state.name,
        };
        let number = shared.descriptors_number();
        let heap = Arc::new(Heap::new(&shared.device, &desc, number)?);
        shared.record(|| Event::DescriptorHeap {
            heap: number,
            owner: state.number,
            kind: state.kind as u32,
            shader_visible: false,
            capacity: slots.into(),
            frame_capacity: 0,
            name: &state.name,
        });
        let mut slots = state.slots.lock();
        let id = slots.blocks.insert(Arc::clone(&heap), allocator);
        let allocation = BlockAllocation::new(id, range);
        Ok(slots.boxed(Held { heap_owner: Arc::clone(&self.heap_owner), heap, allocation }))
    }

    /// Returns the kind of the descriptors.
    #[must_use]
    pub fn kind(&self) -> HeapKind {
        self.heap_owner.state.kind
    }

    /// Returns the numbers of blocks, slots and free slots. O(blocks + thread caches).
    #[must_use]
    pub fn statistics(&self) -> BlocksStatistics {
        self.heap_owner.state.statistics()
    }

    /// Checks every invariant of the structure. For tests.
    ///
    /// # Errors
    /// The first violated invariant.
    pub fn validate(&self) -> Result<(), Invalid> {
        let State { leftovers, slots, thread_caches, .. } = &*self.heap_owner.state;
        leftovers.validate()?;
        let slots = slots.lock();
        slots.validate()?;
        thread_caches.validate(|_, single| slots.validate_cached(single))
    }
}

fn check_count(count: u64) -> Result<u32, DescriptorError> {
    match u32::try_from(count) {
        Ok(0) => Err(DescriptorError::ZeroCount),
        Ok(count) if count <= BLOCK_SLOTS_MAX => Ok(count),
        _ => Err(DescriptorError::TooMany { count, max: BLOCK_SLOTS_MAX.into() }),
    }
}

impl<D: Descriptors> Allocate for CpuDescriptorHeap<D> {
    type Allocation = CpuDescriptors<D>;
    type Error = DescriptorError;

    fn allocate(&mut self, size: u64, alignment: u64) -> Result<CpuDescriptors<D>, DescriptorError> {
        self.allocate_aligned(size, alignment)
    }

    /// Drops the allocation. If it belongs to another heap, it is freed in that heap, and an error is returned.
    fn free(&mut self, allocation: CpuDescriptors<D>) -> Result<(), FreeError> {
        let (offset, size) = (allocation.start().into(), allocation.len() as u64);
        let own = Arc::ptr_eq(&allocation.held().heap_owner, &self.heap_owner);
        if own { Ok(()) } else { Err(FreeError::Foreign { offset, size }) }
    }
}

impl<D: Descriptors> fmt::Debug for CpuDescriptorHeap<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuDescriptorHeap({}, {:?})", self.kind(), self.statistics())
    }
}

/// Content number of a slot that was not written since its allocation.
pub(super) const UNWRITTEN: u64 = 0;

/// Returns a new, unique content number for a slot that is written. Tables are compared by the content numbers of their
/// slots, not by their bytes.
fn new_content() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(UNWRITTEN + 1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A run of CPU-only descriptors: heap, start and length. Dropping it frees the slots immediately.
pub struct CpuDescriptors<D: Descriptors> {
    /// `None` only during the drop.
    run: Option<BoxedRun<D>>,
}

impl<D: Descriptors> CpuDescriptors<D> {
    #[inline]
    fn run(&self) -> &BoxedRun<D> {
        self.run.as_ref().expect("present until the drop")
    }

    #[inline]
    fn held(&self) -> &Held<D> {
        self.run().held()
    }

    /// Returns the heap of the slots.
    #[must_use]
    pub fn heap(&self) -> &Heap<D> {
        &self.held().heap
    }

    /// Returns the first slot, counted from the start of the heap.
    #[must_use]
    pub fn start(&self) -> u32 {
        self.held().allocation.offset() as u32
    }

    /// Returns the number of slots; never 0.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> u32 {
        self.run().contents.len() as u32
    }

    /// Returns the API's host handle of slot `index` of the run.
    ///
    /// # Panics
    /// If `index` is not less than [`CpuDescriptors::len`].
    #[must_use]
    pub fn cpu_handle(&self, index: u32) -> CpuHandle {
        assert!(index < self.len(), "descriptor {index} of {}", self.len());
        self.heap().cpu_handle(self.start() + index)
    }

    /// Writes a view into a slot. Earlier copies of the slot do not change.
    ///
    /// # Errors
    /// - `index` is outside the run.
    /// - The heap or the device does not support the view.
    /// - The resource belongs to another allocator.
    /// - The driver is out of memory.
    ///
    /// After an error, the slot is unchanged.
    pub fn write(&mut self, index: u32, view: &View<'_, D>) -> Result<(), DescriptorError> {
        self.check_index(index)?;
        let HeapOwner { shared, state } = &*self.held().heap_owner;
        let view = view.describe(shared, state.kind, state.types)?;
        // SAFETY: the slot belongs to this allocation, which is borrowed exclusively. Shaders do not access the heap.
        // The view was checked, or the caller of `View::native` guarantees it.
        let leftover = unsafe { shared.device.write_view(self.heap().object(), self.start() + index, &view) }?;
        if let Some(leftover) = leftover {
            shared.retire_into(&state.leftovers, leftover);
        }
        let run = self.run.as_mut().expect("present until the drop");
        run.contents[index as usize] = new_content();
        Ok(())
    }

    fn check_index(&self, index: u32) -> Result<(), DescriptorError> {
        let count = self.len();
        if index < count {
            Ok(())
        } else {
            Err(DescriptorError::OutOfRange { index: index.into(), count: count.into() })
        }
    }

    /// Returns all slots, as a source for a table.
    #[must_use]
    pub fn all(&self) -> TableSource<'_, D> {
        let run = self.run();
        TableSource {
            owner: &run.held().heap_owner.shared,
            heap: self.heap(),
            start: self.start(),
            first: 0,
            contents: &run.contents,
        }
    }

    /// Returns a range of the slots, as a source for a table.
    ///
    /// # Errors
    /// The range is empty or not inside the run.
    pub fn part(&self, range: Range<u32>) -> Result<TableSource<'_, D>, DescriptorError> {
        let contents = self.run().contents.get(range.start as usize..range.end as usize);
        let out = DescriptorError::OutOfRange { index: range.end.into(), count: self.len().into() };
        let contents = contents.filter(|part| !part.is_empty()).ok_or(out)?;
        Ok(TableSource { contents, start: self.start() + range.start, first: range.start, ..self.all() })
    }
}

/// CPU-only descriptors, as the source of a table or of a copy to persistent slots.
pub struct TableSource<'a, D: Descriptors> {
    pub(super) owner: &'a Shared<D>,
    pub(super) heap: &'a Heap<D>,
    pub(super) start: u32,
    /// The first slot, counted from the start of the allocation.
    first: u32,
    pub(super) contents: &'a [u64],
}

impl<D: Descriptors> Clone for TableSource<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Descriptors> Copy for TableSource<'_, D> {}

impl<D: Descriptors> TableSource<'_, D> {
    /// Checks that the descriptors can be copied to a heap of this allocator, this kind and these types.
    ///
    /// # Errors
    /// The source has another kind, other types or another allocator than the heap, or one of its slots was never
    /// written.
    pub(super) fn check(&self, shared: &Shared<D>, kind: HeapKind, types: ViewTypes) -> Result<(), DescriptorError> {
        super::view::check_kind(kind, self.heap.kind())?;
        if !std::ptr::eq(self.owner, shared) {
            return Err(DescriptorError::Foreign);
        }
        if kind == HeapKind::Resources && self.heap.types() != types {
            return Err(DescriptorError::WrongType { heap: types, found: self.heap.types() });
        }
        match self.contents.iter().position(|content| *content == UNWRITTEN) {
            Some(index) => Err(DescriptorError::Unwritten { index: self.first + index as u32 }),
            None => Ok(()),
        }
    }
}

impl<D: Descriptors> fmt::Debug for TableSource<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableSource({} slots from {} of {:?})", self.contents.len(), self.start, self.heap)
    }
}

impl<D: Descriptors> Drop for CpuDescriptors<D> {
    #[inline]
    fn drop(&mut self) {
        let Some(run) = self.run.take() else { return };
        run_unlocked(move || release(run));
    }
}

/// Frees the slots of a dropped run.
#[inline]
fn release<D: Descriptors>(mut run: BoxedRun<D>) {
    end_use(&mut run);
    if let Err(run) = put_cached(run) {
        put_back(run);
    }
}

/// Ends the use of the slots: removes their views and records the free in a trace.
#[inline]
fn end_use<D: Descriptors>(run: &mut BoxedRun<D>) {
    let HeapOwner { shared, state } = &*run.held().heap_owner;
    let Held { heap, allocation, .. } = run.held();
    let (first, count) = (allocation.offset(), allocation.size());
    // Recorded before the slots can be handed out again.
    shared.record(|| Event::DescriptorsFreed { heap: heap.number(), first, count });
    if state.owning {
        clear(run);
    } else {
        run.contents.fill(UNWRITTEN);
    }
}

/// Clears the slots. The driver's objects of their views are destroyed once no pending submission can use them.
fn clear<D: Descriptors>(run: &mut BoxedRun<D>) {
    let Held { heap_owner, heap, allocation } = run.held.as_ref().expect("present while slots are taken");
    let (HeapOwner { shared, state }, start) = (&**heap_owner, allocation.offset() as u32);
    for (slot, content) in (start..).zip(&mut run.contents) {
        if std::mem::replace(content, UNWRITTEN) == UNWRITTEN {
            continue;
        }
        // SAFETY: only this run has the slot, and shaders do not access the heap.
        if let Some(leftover) = unsafe { shared.device.clear_view(heap.object(), slot) } {
            shared.retire_into(&state.leftovers, leftover);
        }
    }
}

/// Puts a cleared single slot into this thread's cache, for the next request. Returns the run as an error if it has
/// several slots, or if the cache is full, in use by another thread, or does not exist.
#[inline]
fn put_cached<D: Descriptors>(run: BoxedRun<D>) -> Result<(), BoxedRun<D>> {
    if run.contents.len() != 1 {
        return Err(run);
    }
    let Some(thread_cache) = run.held().heap_owner.state.thread_caches.mine().map(std::ptr::from_ref) else {
        return Err(run);
    };
    // SAFETY: the run keeps the heap's heap_owner alive, and the heap_owner owns the thread cache.
    unsafe { thread_cache::put(thread_cache, SINGLES, || run, ()) }.map_err(|(run, ())| run())
}

/// Puts a run back under the lock. If the run is a single slot and this thread's cache is full, puts the older half of
/// the cache back too.
#[cold]
fn put_back<D: Descriptors>(run: BoxedRun<D>) {
    // Keeps the lock alive, even if the last run is dropped here.
    let heap_owner = Arc::clone(&run.held().heap_owner);
    let older = (run.contents.len() == 1).then(|| heap_owner.state.thread_caches.older(SINGLES));
    let mut slots = heap_owner.state.slots.lock();
    older.into_iter().flatten().chain([run]).for_each(|run| slots.put(run));
}

impl<D: Descriptors> fmt::Debug for CpuDescriptors<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuDescriptors({} slots from {} of {:?})", self.len(), self.start(), self.heap())
    }
}

impl<D: Descriptors> Drop for HeapOwner<D> {
    fn drop(&mut self) {
        self.state.closed.store(true, Ordering::Release);
    }
}

impl<D: Descriptors> State<D> {
    fn destroy_heap(shared: &Shared<D>, heap: Arc<Heap<D>>) {
        let heap = Arc::into_inner(heap).expect("an empty block has no allocation");
        shared.record(|| Event::DescriptorHeapFreed { heap: heap.number() });
        // SAFETY: the heap has no allocation, and shaders never accessed it. Each heap is removed from the blocks once.
        unsafe { heap.destroy(&shared.device) };
    }

    /// Returns the statistics. Threads that allocate from their cache do not wait for this lock.
    fn statistics(&self) -> BlocksStatistics {
        let slots = self.slots.lock();
        slots.statistics(self.thread_caches.count(SINGLES))
    }

    fn discard_leftovers(&self, device: &D, passed: &Passed, device_lost: bool) {
        release_passed(&self.leftovers, passed, device_lost, |leftover| {
            // SAFETY: the submissions begun before the slot released it are complete, or the device is lost or idle.
            unsafe { device.discard_leftover(leftover) };
        });
    }
}

impl<D: Descriptors> ReclaimHeap<D> for State<D> {
    fn reclaim(&self, shared: &Shared<D>, passed: &Passed, device_lost: bool, is_short: bool) -> bool {
        self.discard_leftovers(&shared.device, passed, device_lost);
        let step = u64::from(!is_short);
        let now = self.tick.fetch_add(step, Ordering::Relaxed) + step;
        let closed = self.closed.load(Ordering::Acquire);
        self.thread_caches.sweep(|_, single| self.slots.lock().give_back(single));
        self.slots.lock().trim();
        loop {
            let mut slots = self.slots.lock();
            let empty = if closed { slots.blocks.take_empty() } else { slots.blocks.take_surplus(now) };
            drop(slots);
            let Some((_, heap)) = empty else { break };
            Self::destroy_heap(shared, heap);
        }
        !closed || !self.leftovers.is_empty()
    }

    fn snapshot(&self, into: &mut Vec<DescriptorSnapshot>) {
        let blocks = self.statistics();
        if blocks.capacity == 0 {
            return;
        }
        into.push(DescriptorSnapshot {
            name: self.name.to_string(),
            kind: self.kind.to_string(),
            region: region::CPU_ONLY.into(),
            slot_count: blocks.capacity,
            used_count: blocks.capacity - blocks.free_size,
            largest_free: blocks.largest_free,
            heap_count: blocks.block_count as u64,
            ..Default::default()
        });
    }

    unsafe fn destroy(&self, shared: &Shared<D>) {
        self.discard_leftovers(&shared.device, &Passed::default(), true);
        let mut slots = self.slots.lock();
        slots.close();
        slots.blocks.drain().for_each(|(_, heap)| Self::destroy_heap(shared, heap));
    }
}
