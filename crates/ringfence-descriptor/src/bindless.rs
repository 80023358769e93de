//! Bindless tables: entries that shaders access by index, in one run of the shader-visible heap.
//!
//! ```text
//!   free ──insert──▶ live, generation g ──remove──▶ retired until begun frames are over ──reclaim──▶ free
//!                       │        ▲                         (cleared, in debug mode)
//!                       └ update ┘  the slot has the new view once all begun frames are complete
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | insert | O(1) under a short lock; one driver call without the lock (more if the heap can grow) |
//! | update | as insert; the copy to the slot is a driver call in reclaim, or under the lock if the device binds snapshots |
//! | remove | O(1) under a short lock |
//! | reclaim | O(freed slots + applied updates) |
//!
//! The slots belong to the table and its entries together: after the table is dropped, its entries keep the slots until
//! the last entry is dropped. Slots are reused in the order in which they were freed, so that a slot stays free for as
//! long as possible. A use after removal then reads the cleared slot ([`BindlessDesc::clear_freed`]) and not another
//! entry.

use std::collections::VecDeque;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::device::lock::Lock;
use ringfence_core::range::Invalid;

use super::cpu::{CpuDescriptorHeap, CpuDescriptors, CpuHeapDesc};
use super::heap_state::{HeapOwner, State, release_passed};
use super::{DescriptorError, DescriptorSnapshot, Persistent, ShaderVisibleHeap, View, region};
use crate::device::descriptors::Descriptors;
use ringfence_memory::Allocator;
use ringfence_memory::extend::{Passed, ReclaimHeap, Shared, is_locked, run_unlocked};
use ringfence_memory::lifetime::RetireBin;
use ringfence_memory::trace::Event;
use scopeguard::{ScopeGuard, guard};

/// Description of a bindless table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BindlessDesc {
    /// Largest number of entries. If the number is [`BindlessDesc::CAPACITY`] and the heap's persistent region has no
    /// free run of that length, the table gets half of the longest run. [`BindlessTable::capacity`] returns the actual
    /// number.
    pub capacity: u32,
    /// If `true`, freed slots are overwritten with null descriptors, to detect uses after removal. Costs one driver
    /// call per slot.
    pub clear_freed: bool,
}

impl BindlessDesc {
    /// Default of [`BindlessDesc::capacity`]: 4,096. Reduced if the heap has too few free slots.
    pub const CAPACITY: u32 = 4096;
}

impl Default for BindlessDesc {
    /// Allows up to 4,096 entries; clears slots in debug builds.
    fn default() -> Self {
        Self { capacity: Self::CAPACITY, clear_freed: cfg!(debug_assertions) }
    }
}

/// Index of an entry of a [`BindlessTable`]. A plain value that owns no slot. The table returns an error for the index
/// of a removed entry or of an entry of another table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BindlessIndex {
    slot: u32,
    generation: u32,
    /// Number of the table, unique in the process.
    table: u64,
}

impl BindlessIndex {
    /// Returns the index for shaders: the slot, counted from the start of the heap. Constant for the life of the entry.
    #[must_use]
    pub const fn slot(self) -> u32 {
        self.slot
    }

    /// Returns the generation of the slot: 1 for the first entry in the slot, 3 for the second, and so on. Always odd,
    /// because each insertion and each removal increments it.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

/// An entry of a [`BindlessTable`]. Dropping it removes the entry: its slot is freed once every submission that had
/// begun at the drop is complete. The entry stays valid if the table is dropped first.
///
/// [`BindlessEntry::into_index`] leaves the entry in the table until [`BindlessTable::remove`], for programs that store
/// plain indices.
#[must_use = "the entry is removed when this is dropped"]
pub struct BindlessEntry<D: Descriptors> {
    slots: Arc<TableSlots<D>>,
    index: BindlessIndex,
}

impl<D: Descriptors> BindlessEntry<D> {
    /// Returns the index for shaders: the slot, counted from the start of the heap. Constant for the life of the entry.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.index.slot()
    }

    /// Returns the index of the entry, for the methods of the table.
    #[must_use]
    pub fn index(&self) -> BindlessIndex {
        self.index
    }

    /// Releases ownership: the entry stays in the table until [`BindlessTable::remove`], or until the table and all
    /// other entries are dropped.
    pub fn into_index(self) -> BindlessIndex {
        let mut this = ManuallyDrop::new(self);
        let index = this.index;
        // SAFETY: the field is dropped once, here, and not used again, because `this` is never dropped.
        unsafe { std::ptr::drop_in_place(&raw mut this.slots) };
        index
    }

    /// Replaces the entry with another view in another slot. Pending submissions use the old slot. Later submissions
    /// must use the new slot.
    ///
    /// # Errors
    /// As [`BindlessTable::replace`]. After an error, the old entry is unchanged.
    pub fn replace(&mut self, view: &View<'_, D>) -> Result<(), DescriptorError> {
        self.index = self.slots.state.replace(&self.slots.heap_owner, self.index, view)?;
        Ok(())
    }
}

impl<D: Descriptors> From<&BindlessEntry<D>> for BindlessIndex {
    fn from(entry: &BindlessEntry<D>) -> Self {
        entry.index
    }
}

impl<D: Descriptors> Drop for BindlessEntry<D> {
    fn drop(&mut self) {
        // The program may have removed the entry by its index.
        if is_locked() {
            let (slots, index) = (Arc::clone(&self.slots), self.index);
            run_unlocked(move || _ = slots.state.remove(&slots.heap_owner, index));
        } else {
            let _ = self.slots.state.remove(&self.slots.heap_owner, self.index);
        }
    }
}

impl<D: Descriptors> fmt::Debug for BindlessEntry<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BindlessEntry({} of generation {})", self.slot(), self.index.generation())
    }
}

/// A table of entries that shaders access by index. All threads may use it. See the [crate](crate) for the rules of
/// slots.
///
/// If the table is dropped before its entries, the slots keep their views until the last [`BindlessEntry`] is dropped.
/// Entries without an owner ([`BindlessEntry::into_index`]) end at the same time.
///
/// # Examples
///
/// An entry that a draw uses is removed while the draw is under way. `device`, `fence`, `memory` and `timeline` are
/// created as in the example of [`Allocator`](ringfence_memory::Allocator#examples).
///
/// ```
/// # use ringfence::{Allocator, AllocatorDesc, sim};
/// # let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
/// # let memory = Allocator::over(device.clone(), AllocatorDesc::default());
/// # let fence = device.create_fence(0);
/// # // SAFETY: each submission below signals the fence with the value of its frame.
/// # let timeline = unsafe { memory.timeline(fence) }?;
/// # use std::time::Duration;
/// # use ringfence::device::{BufferDesc, BufferUsage};
/// # use ringfence::sim::{BufferRange, Command, DescriptorUse, Kernel};
/// # use ringfence::{AllocationDesc, Location};
/// # let desc = BufferDesc { size: 256, usage: BufferUsage::STORAGE };
/// # let create = |location| memory.create_buffer(&desc, AllocationDesc { location, ..Default::default() });
/// # let (mut lights, back) = (create(Location::Upload)?, create(Location::Readback)?);
/// # let result = BufferRange::new(*back.object(), 0, 256);
/// # lights.write(0, &[7; 256])?;
/// use ringfence::descriptor::{BindlessDesc, ShaderVisibleDesc, View};
/// use ringfence::device::descriptors::{BufferView, BufferViewKind};
/// use ringfence::{BindlessTable, ShaderVisibleHeap};
///
/// let heap = ShaderVisibleHeap::new(&memory, ShaderVisibleDesc::default())?;
/// let table = BindlessTable::new(&memory, &heap, BindlessDesc { capacity: 1000, ..Default::default() })?;
/// let kind = BufferViewKind::Storage { stride: 0, writes: false };
/// let entry = table.insert(&View::buffer(&lights, BufferView { kind, offset: 0, size: 256 })?)?;
/// let slot = entry.slot(); // for shaders: write it into constants or a storage buffer
///
/// let frame = timeline.begin();
/// # let binding = heap.bind(&frame)?;
/// # let heap_object = *binding.bound(ringfence::device::descriptors::HeapKind::Resources).ok_or("bound")?;
/// # let uses = vec![DescriptorUse { heap: heap_object, slot, writes: false }];
/// # let shader = Kernel::new(vec![], vec![result], |memory| memory.writes[0].copy_from_slice(&memory.descriptors[0]));
/// # let commands = vec![Command::Kernel(Kernel { descriptors: uses, ..shader })];
/// device.submit(0, &[], commands, (fence, frame.value()))?; // binds the heap; a shader reads `slot`
/// let point = timeline.submitted(frame)?;
/// drop((entry, lights)); // slot and buffer are kept until the frame is complete
/// assert_eq!((table.live_count(), table.free_count()), (0, 999));
///
/// assert!(timeline.wait_for(point, Duration::MAX)?);
/// assert_eq!(memory.reclaim().objects, 1); // the buffer
/// assert_eq!(table.free_count(), 1000);
/// # let mut bytes = [0; 256];
/// # back.read(0, &mut bytes)?;
/// # assert_eq!(bytes, [7; 256]); // read by the shader through the descriptor
/// assert!(device.take_hazards().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BindlessTable<D: Descriptors> {
    slots: Arc<TableSlots<D>>,
    /// CPU-only heap for the views of pending updates.
    staging: CpuDescriptorHeap<D>,
}

/// The slots of a table. The table and its entries own them together.
struct TableSlots<D: Descriptors> {
    state: Arc<TableState<D>>,
    heap_owner: Arc<HeapOwner<D>>,
    _run: Persistent<D>,
}

impl<D: Descriptors> Drop for TableSlots<D> {
    fn drop(&mut self) {
        // Breaks a cycle: a pending update owns a descriptor, the descriptor keeps the allocator alive, and the
        // allocator keeps this state alive.
        let state = Arc::clone(&self.state);
        run_unlocked(move || state.waiting.collect_all(&mut Vec::new()));
    }
}

struct TableState<D: Descriptors> {
    heap: Arc<State<D>>,
    base: u32,
    clear_freed: bool,
    /// `true` if the device binds snapshots of heaps: only later binds see a write, so a write never affects pending
    /// work.
    is_snapshot: bool,
    entries: Lock<Entries>,
    waiting: RetireBin<Retired<D>>,
    /// Slots that a `reclaim` is about to free. Empty outside of `reclaim`; kept so that a steady frame allocates no
    /// host memory.
    returned: Lock<Vec<u32>>,
    /// The slots, until the table and all of its entries are dropped. A `reclaim` in progress keeps them until its end,
    /// because it may write to slots that it has taken out of the queue.
    slots: Weak<TableSlots<D>>,
}

struct Entries {
    /// Number of the table, unique in the process.
    table: u64,
    /// Free slots, relative to the base, in the order in which they were freed.
    free: VecDeque<u32>,
    /// Generation of each slot; odd if the entry is live.
    generations: Box<[u32]>,
    /// Number of live entries.
    live_count: u32,
    /// Number of updates of all entries so far.
    updates: u64,
    /// Number of the last update that was applied to each slot.
    applied: Box<[u64]>,
    /// `true` for each slot that still has the view of a removed entry, which may be revived.
    removed: Box<[bool]>,
}

enum Retired<D: Descriptors> {
    /// Slot of a removed entry, and the slot's generation after the removal. If the entry is revived, the slot has
    /// another generation.
    Slot(u32, u32),
    Update {
        index: BindlessIndex,
        number: u64,
        staged: CpuDescriptors<D>,
    },
}

impl<D: Descriptors> BindlessTable<D> {
    /// Creates a table in a run of the heap's persistent region.
    ///
    /// # Errors
    /// `capacity` is 0, the region has no free run of `capacity` slots, or the heap belongs to another allocator.
    pub fn new(
        memory: &Allocator<D>,
        heap: &ShaderVisibleHeap<D>,
        desc: BindlessDesc,
    ) -> Result<Self, DescriptorError> {
        if !std::ptr::eq(&**memory.shared(), &*heap.heap_owner.shared) {
            return Err(DescriptorError::Foreign);
        }
        let longest = heap.longest_free();
        let is_default = desc.capacity == BindlessDesc::CAPACITY && longest < desc.capacity;
        let capacity = if is_default { longest.div_ceil(2).max(1) } else { desc.capacity };
        let run = heap.allocate(capacity)?;
        let staging = CpuHeapDesc {
            kind: heap.kind(),
            types: heap.types(),
            block_slots: 64,
            name: "bindless updates",
            ..Default::default()
        };
        let staging = CpuDescriptorHeap::new(memory, staging)?;
        let heap_owner = Arc::clone(&heap.heap_owner);
        static TABLES: AtomicU64 = AtomicU64::new(0);
        let entries = Entries {
            table: TABLES.fetch_add(1, Ordering::Relaxed),
            free: (0..capacity).collect(),
            generations: vec![0; capacity as usize].into_boxed_slice(),
            live_count: 0,
            updates: 0,
            applied: vec![0; capacity as usize].into_boxed_slice(),
            removed: vec![false; capacity as usize].into_boxed_slice(),
        };
        let slots = Arc::new_cyclic(|slots| {
            let state = TableState {
                heap: Arc::clone(&heap_owner.state),
                base: run.start(),
                clear_freed: desc.clear_freed,
                is_snapshot: heap_owner.shared.device.descriptor_support().is_snapshot(),
                entries: Lock::new(entries),
                waiting: RetireBin::new(),
                returned: Lock::new(Vec::new()),
                slots: Weak::clone(slots),
            };
            TableSlots { state: Arc::new(state), heap_owner, _run: run }
        });
        slots.heap_owner.shared.add_heap(Arc::clone(&slots.state) as Arc<dyn ReclaimHeap<D>>);
        Ok(Self { slots, staging })
    }

    /// Adds an entry, which lives until the returned value is dropped.
    ///
    /// # Errors
    /// - No slot is free. `reclaim` frees the slot of a removed entry once the device no longer uses the slot.
    /// - The heap does not support the view.
    /// - The resource of the view belongs to another allocator.
    /// - The driver is out of memory.
    pub fn insert(&self, view: &View<'_, D>) -> Result<BindlessEntry<D>, DescriptorError> {
        let index = self.insert_index(view)?;
        Ok(BindlessEntry { slots: Arc::clone(&self.slots), index })
    }

    /// Adds an entry as [`BindlessTable::insert`] does, but returns an index without ownership.
    pub(super) fn insert_index(&self, view: &View<'_, D>) -> Result<BindlessIndex, DescriptorError> {
        self.slots.state.insert(&self.slots.heap_owner, view)
    }

    /// Removes an entry by its index ([`BindlessEntry::into_index`]). The slot of the entry is freed once every
    /// submission that has begun by now is complete. If the program still has the [`BindlessEntry`], its drop has no
    /// effect after this call.
    ///
    /// # Errors
    /// The entry was removed, or belongs to another table.
    pub fn remove(&self, index: BindlessIndex) -> Result<(), DescriptorError> {
        self.slots.state.remove(&self.slots.heap_owner, index)
    }

    /// Revives a removed entry, in its slot and with its view, under a new generation. Returns `None` if the slot is
    /// already free or has another entry.
    pub(super) fn revive(&self, index: BindlessIndex) -> Option<BindlessIndex> {
        let generation = self.slots.state.entries.lock().revive(self.slots.state.base, index)?;
        let HeapOwner { shared, state: heap } = &*self.slots.heap_owner;
        shared.record(|| Event::BindlessInserted { heap: heap.number, slot: index.slot.into() });
        Some(BindlessIndex { generation, ..index })
    }

    /// Returns `true` if an entry is in the table or can be revived.
    pub(super) fn is_there(&self, index: BindlessIndex) -> bool {
        let entries = self.slots.state.entries.lock();
        entries.find(self.slots.state.base, index).is_ok()
            || entries.find_removed(self.slots.state.base, index).is_some()
    }

    /// Changes the view of an entry and keeps its index.
    ///
    /// The slot is written by the first [`Allocator::reclaim`] after every submission that has begun by now is
    /// complete; if no submission is pending, by the next call. Submissions that begin before
    /// [`BindlessTable::is_settled`] returns `true` must not use the entry. If an entry has several pending updates,
    /// the last one wins. If the device binds snapshots of heaps
    /// ([`is_snapshot`](crate::device::descriptors::DescriptorSupport::is_snapshot)), the slot is written immediately,
    /// and the next bind has the new view.
    ///
    /// To change an entry that every frame uses, call [`BindlessEntry::replace`].
    ///
    /// # Errors
    /// - The entry is not in the table.
    /// - The heap does not support the view.
    /// - The resource of the view belongs to another allocator.
    /// - The driver is out of memory.
    pub fn update(&self, index: impl Into<BindlessIndex>, view: &View<'_, D>) -> Result<(), DescriptorError> {
        let index = index.into();
        self.slots.state.check(index)?;
        let mut staged = self.staging.allocate(1)?;
        staged.write(0, view)?;
        let shared = &self.slots.heap_owner.shared;
        if self.slots.state.is_snapshot {
            return self.slots.state.show(&shared.device, index, &staged);
        }
        let number = self.slots.state.entries.lock().begin_update(self.slots.state.base, index)?;
        shared.retire_into(&self.slots.state.waiting, Retired::Update { index, number, staged });
        Ok(())
    }

    /// Inserts a view and removes the entry at `index`, which must have no owner ([`BindlessEntry::into_index`]).
    /// Returns the new index. Pending submissions use the old entry. Later submissions must use the new entry. For an
    /// entry with an owner, call [`BindlessEntry::replace`].
    ///
    /// # Errors
    /// As [`BindlessTable::insert`] and [`BindlessTable::remove`]. After an error, the old entry is unchanged.
    pub fn replace(&self, index: BindlessIndex, view: &View<'_, D>) -> Result<BindlessIndex, DescriptorError> {
        self.slots.state.replace(&self.slots.heap_owner, index, view)
    }

    /// Returns `true` if no update or removal is pending.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.slots.state.waiting.is_empty()
    }

    /// Returns `true` if the entry is in the table. O(1).
    #[must_use]
    pub fn is_live(&self, index: impl Into<BindlessIndex>) -> bool {
        self.slots.state.check(index.into()).is_ok()
    }

    /// Returns the number of entries: slots that are neither free nor waiting to be freed.
    #[must_use]
    pub fn live_count(&self) -> u32 {
        self.slots.state.entries.lock().live_count
    }

    /// Returns the number of free slots.
    #[must_use]
    pub fn free_count(&self) -> u32 {
        self.slots.state.entries.lock().free.len() as u32
    }

    /// Returns the largest number of entries.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.slots.state.entries.lock().generations.len() as u32
    }

    /// Checks every invariant of the structure. For tests; no other thread may use the table during the call.
    ///
    /// # Errors
    /// The first violated invariant.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.slots.state.waiting.validate()?;
        let entries = self.slots.state.entries.lock();
        let mut free = vec![false; entries.generations.len()];
        for &slot in &entries.free {
            let at = slot as usize;
            Invalid::unless(!free[at], "a slot is in the free list twice", slot.into())?;
            Invalid::unless(entries.generations[at].is_multiple_of(2), "a free slot has a live entry", slot.into())?;
            free[at] = true;
        }
        let live = entries.generations.iter().filter(|generation| **generation % 2 == 1).count();
        Invalid::unless(live == entries.live_count as usize, "the count of live entries is wrong", live as u64)
    }
}

impl<D: Descriptors> TableState<D> {
    fn insert(&self, heap_owner: &HeapOwner<D>, view: &View<'_, D>) -> Result<BindlessIndex, DescriptorError> {
        let HeapOwner { shared, state: heap } = heap_owner;
        let (begun, table) = {
            let mut entries = self.entries.lock();
            (entries.begin(), entries.table)
        };
        let Some((slot, generation)) = begun else {
            let heap_free = heap.persistent.lock().statistics().free_size;
            return Err(DescriptorError::TableFull {
                entries: self.entries.lock().generations.len() as u32,
                heap_free,
            });
        };
        let at = self.base + slot;
        let begun = guard((), |()| self.entries.lock().undo(slot));
        // SAFETY: the slot was free, so only this call uses it, and no submitted work reads it.
        unsafe { heap.write_slot(shared, at, view) }?;
        ScopeGuard::into_inner(begun);
        shared.record(|| Event::BindlessInserted { heap: heap.number, slot: at.into() });
        Ok(BindlessIndex { slot: at, generation, table })
    }

    fn remove(&self, heap_owner: &HeapOwner<D>, index: BindlessIndex) -> Result<(), DescriptorError> {
        let (slot, generation) = self.entries.lock().end(self.base, index)?;
        let HeapOwner { shared, state: heap } = heap_owner;
        // Recorded before another entry can get the slot.
        shared.record(|| Event::BindlessRemoved { heap: heap.number, slot: index.slot.into() });
        shared.retire_into(&self.waiting, Retired::Slot(slot, generation));
        Ok(())
    }

    fn replace(
        &self,
        heap_owner: &HeapOwner<D>,
        index: BindlessIndex,
        view: &View<'_, D>,
    ) -> Result<BindlessIndex, DescriptorError> {
        self.check(index)?;
        let new = self.insert(heap_owner, view)?;
        self.remove(heap_owner, index).inspect_err(|_| {
            let _ = self.remove(heap_owner, new);
        })?;
        Ok(new)
    }

    fn check(&self, index: BindlessIndex) -> Result<u32, DescriptorError> {
        self.entries.lock().find(self.base, index)
    }

    /// Writes an entry immediately, on a device that binds snapshots of heaps, where pending work never reads a slot
    /// that is written. Holds the table's lock during the write, so that the slot cannot get another entry, and the
    /// later of two updates wins. The driver has already created its objects for the staged view: on these devices, a
    /// copy of slots only copies host memory.
    fn show(&self, device: &D, index: BindlessIndex, staged: &CpuDescriptors<D>) -> Result<(), DescriptorError> {
        let entries = self.entries.lock();
        entries.find(self.base, index)?;
        // SAFETY: while the lock is held, the entry is live, so no other entry has its slot, and no other update writes
        // it. On a device of snapshots, no pending work reads a slot that is written. The staged view was checked.
        unsafe { self.heap.copy_to_slots(device, index.slot, &[staged.all()]) };
        Ok(())
    }

    fn release(&self, device: &D, retired: Retired<D>, returned: &mut Vec<u32>) {
        match retired {
            Retired::Slot(slot, generation) => {
                if !self.entries.lock().is_over(slot, generation) {
                    return;
                }
                if self.clear_freed || self.heap.owning {
                    // SAFETY: the entry was removed, and every submission that had begun at the removal is complete.
                    unsafe { self.heap.clear_passed(device, self.base + slot) };
                }
                returned.push(slot);
            }
            Retired::Update { index, number, staged } => {
                if self.entries.lock().apply_update(self.base, index, number) {
                    // SAFETY: every submission that had begun at the update is complete, and the entry was live. If it
                    // is removed now, its slot is freed by a later step of this `reclaim` at the earliest, and only
                    // `reclaim` applies updates. The staged view was checked when it was written.
                    unsafe { self.heap.copy_to_slots(device, index.slot, &[staged.all()]) };
                }
            }
        }
    }
}

impl Entries {
    /// Begins an entry in the slot that has been free for the longest time. Returns the slot and its generation.
    fn begin(&mut self) -> Option<(u32, u32)> {
        let slot = self.free.pop_front()?;
        let generation = &mut self.generations[slot as usize];
        *generation = generation.wrapping_add(1);
        self.live_count += 1;
        Some((slot, *generation))
    }

    /// Reverts [`Entries::begin`], before the caller has seen the entry.
    fn undo(&mut self, slot: u32) {
        let generation = &mut self.generations[slot as usize];
        *generation = generation.wrapping_sub(1);
        self.live_count -= 1;
        self.free.push_front(slot);
    }

    /// Ends a live entry. Returns its slot, relative to the base, and the new generation.
    fn end(&mut self, base: u32, index: BindlessIndex) -> Result<(u32, u32), DescriptorError> {
        let slot = self.find(base, index)?;
        let generation = &mut self.generations[slot as usize];
        *generation = generation.wrapping_add(1);
        self.removed[slot as usize] = true;
        self.live_count -= 1;
        Ok((slot, *generation))
    }

    /// Returns the slot of a removed entry, if the slot still has the view of that entry.
    fn find_removed(&self, base: u32, index: BindlessIndex) -> Option<u32> {
        let slot = index.slot.wrapping_sub(base);
        let generation = *self.generations.get(slot as usize)?;
        let is_last = index.table == self.table && index.generation.checked_add(1) == Some(generation);
        (is_last && self.removed[slot as usize]).then_some(slot)
    }

    /// Begins a new entry in the slot of a removed entry, with the same view. Returns the new generation.
    fn revive(&mut self, base: u32, index: BindlessIndex) -> Option<u32> {
        let slot = self.find_removed(base, index)? as usize;
        self.removed[slot] = false;
        self.generations[slot] += 1;
        self.live_count += 1;
        Some(self.generations[slot])
    }

    /// Returns `true` if a retired slot can be freed, because its entry was not revived. After that, the entry cannot
    /// be revived.
    fn is_over(&mut self, slot: u32, generation: u32) -> bool {
        let is_last = self.generations[slot as usize] == generation;
        if is_last {
            self.removed[slot as usize] = false;
        }
        is_last
    }

    /// Returns the number of a new update of a live entry.
    fn begin_update(&mut self, base: u32, index: BindlessIndex) -> Result<u64, DescriptorError> {
        self.find(base, index)?;
        self.updates += 1;
        Ok(self.updates)
    }

    /// Returns `true` if the update must be written to the slot. Updates of several threads can be applied in any
    /// order, so an update that began before the last applied update is outdated.
    fn apply_update(&mut self, base: u32, index: BindlessIndex, number: u64) -> bool {
        let Ok(slot) = self.find(base, index) else { return false };
        let applied = &mut self.applied[slot as usize];
        let is_newer = number > *applied;
        *applied = number.max(*applied);
        is_newer
    }

    /// Returns `true` if a released slot has used up its generations. Its next generation would equal the generation of
    /// an early entry, whose index the program may still have. This happens after 2³¹ inserts into one slot.
    fn is_worn_out(&self, slot: u32) -> bool {
        self.generations[slot as usize] == 0
    }

    fn find(&self, base: u32, index: BindlessIndex) -> Result<u32, DescriptorError> {
        if index.table != self.table {
            return Err(DescriptorError::ForeignEntry { slot: index.slot });
        }
        let slot = index.slot.wrapping_sub(base);
        match self.generations.get(slot as usize) {
            Some(generation) if *generation == index.generation && generation % 2 == 1 => Ok(slot),
            _ => Err(DescriptorError::Stale { slot: index.slot, generation: index.generation }),
        }
    }
}

impl<D: Descriptors> ReclaimHeap<D> for TableState<D> {
    fn reclaim(&self, shared: &Shared<D>, passed: &Passed, device_lost: bool, _: bool) -> bool {
        let Some(_slots) = self.slots.upgrade() else { return false };
        let mut returned = self.returned.lock();
        let free = |retired| self.release(&shared.device, retired, &mut returned);
        release_passed(&self.waiting, passed, device_lost, free);
        if !returned.is_empty() {
            let mut entries = self.entries.lock();
            for slot in returned.drain(..) {
                if !entries.is_worn_out(slot) {
                    entries.free.push_back(slot);
                }
            }
        }
        true
    }

    fn snapshot(&self, into: &mut Vec<DescriptorSnapshot>) {
        if self.slots.strong_count() == 0 {
            return;
        }
        let entries = self.entries.lock();
        let (slots, live, free) =
            (entries.generations.len() as u64, entries.live_count.into(), entries.free.len() as u64);
        drop(entries);
        into.push(DescriptorSnapshot {
            name: self.heap.name.to_string(),
            kind: self.heap.kind.to_string(),
            region: region::BINDLESS.into(),
            slot_count: slots,
            used_count: slots - free,
            waiting_count: (slots - free).saturating_sub(live),
            largest_free: free,
            heap_count: 1,
            ..Default::default()
        });
    }

    unsafe fn destroy(&self, _: &Shared<D>) {
        // The run and the objects of its slots belong to the heap.
    }
}

impl<D: Descriptors> fmt::Debug for BindlessTable<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BindlessTable")
            .field("capacity", &self.capacity())
            .field("free_count", &self.free_count())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::ShaderVisibleDesc;
    use super::*;
    use crate::device::descriptors::{BufferView, BufferViewKind};
    use crate::device::{BufferDesc, BufferUsage};
    use crate::sim::{Device, Profile, SimOptions};
    use ringfence_memory::{AllocationDesc, AllocatorDesc, Buffer};

    /// Creates a table of one entry, and a buffer to view.
    fn one_entry() -> (Allocator<Device>, BindlessTable<Device>, Buffer<Device>) {
        let memory = Allocator::over(Device::new(Profile::h200(), SimOptions::default()), AllocatorDesc::default());
        let desc = ShaderVisibleDesc { frame_slots: 8, persistent_slots: 8, chunk_slots: 4, ..Default::default() };
        let heap = ShaderVisibleHeap::new(&memory, desc).expect("small");
        let table = BindlessTable::new(&memory, &heap, BindlessDesc { capacity: 1, clear_freed: true }).expect("room");
        let shown = BufferDesc { size: 256, usage: BufferUsage::STORAGE };
        let shown = memory.create_buffer(&shown, AllocationDesc::default()).expect("room");
        (memory, table, shown)
    }

    fn view(shown: &Buffer<Device>) -> View<'_, Device> {
        let kind = BufferViewKind::Storage { stride: 0, writes: true };
        View::buffer(shown, BufferView { kind, offset: 0, size: 256 }).expect("made for it")
    }

    /// A `reclaim` in progress has taken out slots and may write to them after the table is dropped, so it keeps the
    /// run.
    #[test]
    fn the_run_stays_until_a_reclaim_that_is_under_way_ends() {
        let memory = Allocator::over(Device::new(Profile::h200(), SimOptions::default()), AllocatorDesc::default());
        let desc = ShaderVisibleDesc { frame_slots: 8, persistent_slots: 8, chunk_slots: 4, ..Default::default() };
        let heap = ShaderVisibleHeap::new(&memory, desc).expect("small");
        let table = BindlessTable::new(&memory, &heap, BindlessDesc { capacity: 8, clear_freed: true }).expect("room");
        let under_way = table.slots.state.slots.upgrade();
        drop(table);
        memory.reclaim();
        heap.allocate(8).expect_err("the slots may still be written to");
        drop(under_way);
        memory.reclaim();
        heap.allocate(8).expect("the slots are free now");
    }

    /// An entry keeps its slot and its view after the table is dropped, until the entry is dropped too.
    #[test]
    fn a_dropped_table_keeps_the_slots_of_its_entries() {
        let memory = Allocator::over(Device::new(Profile::h200(), SimOptions::default()), AllocatorDesc::default());
        let desc = ShaderVisibleDesc { frame_slots: 8, persistent_slots: 8, chunk_slots: 4, ..Default::default() };
        let heap = ShaderVisibleHeap::new(&memory, desc).expect("small");
        let table = BindlessTable::new(&memory, &heap, BindlessDesc { capacity: 8, clear_freed: true }).expect("room");
        let shown = BufferDesc { size: 256, usage: BufferUsage::STORAGE };
        let shown = memory.create_buffer(&shown, AllocationDesc::default()).expect("room");
        let (first, second) = (table.insert(&view(&shown)).expect("room"), table.insert(&view(&shown)).expect("room"));
        let without_owner = table.insert(&view(&shown)).expect("room").into_index();
        drop((table, first));
        memory.reclaim();
        heap.allocate(1).expect_err("an entry is left");
        assert_eq!(memory.snapshot().descriptors.iter().filter(|held| held.region == region::BINDLESS).count(), 1);
        assert!(second.slot() < without_owner.slot(), "slots are in the order of the inserts");
        drop(second);
        memory.reclaim();
        heap.allocate(8).expect("the last entry released the slots");
        memory.reclaim();
        assert_eq!(memory.snapshot().descriptors.iter().filter(|held| held.region == region::BINDLESS).count(), 0);
    }

    /// On a device of snapshots, an update fails if its entry was removed and the slot was handed out again.
    #[test]
    fn an_update_does_not_reach_the_next_entry_of_its_slot() {
        let (memory, table, shown) = one_entry();
        let view = view(&shown);
        let mut staged = table.staging.allocate(1).expect("room");
        staged.write(0, &view).expect("made for it");
        let first = table.insert_index(&view).expect("room");
        assert_eq!((first.generation(), table.slots.state.show(memory.device(), first, &staged)), (1, Ok(())));
        table.remove(first).expect("live");
        memory.reclaim();
        let second = table.insert_index(&view).expect("room");
        assert_eq!((second.slot(), second.generation()), (first.slot(), 3));
        let stale = DescriptorError::Stale { slot: first.slot(), generation: 1 };
        assert_eq!(table.slots.state.show(memory.device(), first, &staged), Err(stale));
        assert_eq!(table.slots.state.entries.lock().begin_update(table.slots.state.base, first), Err(stale));
        assert!(!table.slots.state.entries.lock().apply_update(table.slots.state.base, first, 1));
    }

    #[test]
    fn a_slot_whose_generations_are_used_up_is_never_given_again() {
        let (memory, table, shown) = one_entry();
        let view = view(&shown);
        let first = table.insert_index(&view).expect("room");
        table.remove(first).expect("live");
        memory.reclaim();
        // Simulates 2³¹ inserts into the slot.
        table.slots.state.entries.lock().generations[0] = u32::MAX - 1;
        let last = table.insert_index(&view).expect("the last generation");
        assert_eq!(last.generation(), u32::MAX);
        table.remove(last).expect("live");
        memory.reclaim();
        assert_eq!((table.free_count(), table.live_count()), (0, 0));
        assert!(table.insert(&view).is_err() && !table.is_live(first) && !table.is_live(last));
        table.validate().expect("sound");
    }

    fn entries(slots: u32) -> Entries {
        Entries {
            table: 5,
            free: (0..slots).collect(),
            generations: vec![0; slots as usize].into_boxed_slice(),
            live_count: 0,
            updates: 0,
            applied: vec![0; slots as usize].into_boxed_slice(),
            removed: vec![false; slots as usize].into_boxed_slice(),
        }
    }

    #[test]
    fn a_removed_entry_is_revived_once_until_its_slot_is_free() {
        let mut entries = entries(2);
        let index = |slot: u32, generation| BindlessIndex { slot: 100 + slot, generation, table: 5 };
        assert_eq!((entries.begin(), entries.begin(), entries.begin()), (Some((0, 1)), Some((1, 1)), None));
        assert_eq!((entries.revive(100, index(0, 1)), entries.live_count), (None, 2), "it is live");
        assert_eq!((entries.end(100, index(0, 1)), entries.live_count), (Ok((0, 2)), 1));
        for other in [
            BindlessIndex { table: 6, ..index(0, 1) },
            index(0, 3),
            index(1, 1),
            index(2, 1),
            BindlessIndex { slot: 99, ..index(0, 1) },
        ] {
            assert_eq!(entries.revive(100, other), None, "{other:?}");
        }
        assert_eq!(entries.find_removed(100, index(0, 1)), Some(0));
        assert_eq!((entries.revive(100, index(0, 1)), entries.live_count), (Some(3), 2));
        assert!(!entries.is_over(0, 2), "it was revived");
        assert_eq!((entries.find(100, index(0, 3)), entries.revive(100, index(0, 1))), (Ok(0), None));
        assert_eq!(entries.end(100, index(0, 3)), Ok((0, 4)));
        assert!(entries.is_over(0, 4));
        assert_eq!(entries.revive(100, index(0, 3)), None, "the slot is about to be free");
    }

    #[test]
    fn an_update_is_applied_unless_a_later_one_was() {
        let mut entries = entries(2);
        let index = |slot| BindlessIndex { slot, generation: 1, table: 5 };
        assert_eq!((entries.begin(), entries.begin()), (Some((0, 1)), Some((1, 1))));
        let numbers = [0, 0, 1, 0].map(|slot| entries.begin_update(0, index(slot)).expect("live"));
        assert_eq!(numbers, [1, 2, 3, 4]);
        for (slot, number, is_applied) in [(0, 2, true), (0, 1, false), (0, 2, false), (1, 3, true), (0, 4, true)] {
            assert_eq!(entries.apply_update(0, index(slot), number), is_applied, "update {number} of slot {slot}");
        }
        let (slot, generation) = (0, 3);
        assert!(!entries.apply_update(0, BindlessIndex { slot, generation, table: 5 }, 9), "another entry");
    }

    #[test]
    fn an_entry_is_there_until_its_slot_is_free() {
        let (memory, table, shown) = one_entry();
        // SAFETY: the fence lives as long as the device, and no frame is submitted.
        let timeline = unsafe { memory.timeline(memory.device().create_fence(0)) }.expect("the device is not lost");
        let frame = timeline.begin();
        let index = table.insert_index(&view(&shown)).expect("room");
        assert!(table.is_there(index) && table.is_live(index));
        table.remove(index).expect("live");
        memory.reclaim();
        assert!(table.is_there(index) && !table.is_live(index), "the open frame may use the slot");
        assert!(!table.is_there(BindlessIndex { generation: 3, ..index }));
        let revived = table.revive(index).expect("its slot waits");
        assert!(!table.is_there(index) && table.is_live(revived));
        assert_eq!((revived.slot(), revived.generation(), table.live_count()), (index.slot(), 3, 1));
        table.remove(revived).expect("live");
        frame.discard();
        memory.reclaim();
        assert!(!table.is_there(revived));
        assert_eq!((table.revive(revived), table.free_count()), (None, 1));
    }
}
