//! Descriptor tables of a frame, written by one recording thread.
//!
//! ```text
//!   frame region   ┌──────────────┬──────────────┬──────────────┬───────────┐
//!                  │ chunk of     │ chunk of     │ chunk of     │   free    │     the ring: one lock for each chunk
//!                  │ A, frame 7   │ B, frame 7   │ A, frame 8   │           │
//!                  └──┬───────────┴──────────────┴──────────────┴───────────┘
//!                     └ ▓▓▓░░░░░  tables: allocated linearly, no lock
//! ```
//!
//! Identical tables of a frame ([`FrameDescriptors::table`]) share one copy, with these exceptions:
//!
//! - If two [`FrameDescriptors`] access the frame's shared tables at the same moment, neither waits, and each may write
//!   its own copy.
//! - Of tables with equal hashes, only the last one is found again.
//! - Tables are shared between the [`FrameDescriptors`] of at most eight frames at a time.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use ringfence_core::ring::RingError;
use ringfence_core::sync::SyncPoint;
use smallvec::SmallVec;

use super::heap_state::{HeapOwner, HeapVersion, copy_runs, largest_free};
use super::tables::{self, TableCache};
use super::{DescriptorError, Region, TableSource, View};
use crate::device::descriptors::{Descriptors, GpuHandle};
use ringfence_memory::extend::run_unlocked;
use ringfence_memory::lifetime::Frame;

/// A run of written slots in the frame region, which a command list sets as a descriptor table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Table {
    start: u32,
    len: u32,
    frame: SyncPoint,
}

impl Table {
    /// Returns the first slot, counted from the start of the heap.
    #[must_use]
    pub const fn start(self) -> u32 {
        self.start
    }

    /// Returns the number of slots; never 0.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub const fn len(self) -> u32 {
        self.len
    }
}

/// Slots for the tables of one frame, for one thread. Created by
/// [`ShaderVisibleHeap::frame_descriptors`](super::ShaderVisibleHeap::frame_descriptors). The slots are freed when the
/// frame is complete.
pub struct FrameDescriptors<'f, D: Descriptors> {
    heap_owner: Arc<HeapOwner<D>>,
    version: Arc<HeapVersion<D>>,
    frame: SyncPoint,
    /// Free slots of the present chunk: `next..end`.
    next: u32,
    end: u32,
    /// The tables that [`FrameDescriptors::table`] has written.
    tables: TableCache,
    /// Borrows the frame, so that the program cannot submit the frame while this value exists.
    _frame: PhantomData<&'f Frame>,
}

impl<D: Descriptors> FrameDescriptors<'_, D> {
    pub(super) fn new(heap_owner: Arc<HeapOwner<D>>, version: Arc<HeapVersion<D>>, frame: SyncPoint) -> Self {
        let tables = heap_owner.state.spare_tables.lock().pop().unwrap_or_default();
        Self { heap_owner, version, frame, next: 0, end: 0, tables, _frame: PhantomData }
    }

    /// Creates a table with copies of CPU-only descriptors, in order. If an identical table of the frame is found,
    /// returns that table.
    ///
    /// # Errors
    /// - `sources` has no descriptors, or more than `u32::MAX`, or more than the frame region has slots.
    /// - The kind, the view types or the allocator of a source differ from those of the heap.
    /// - A descriptor of a source was never written.
    /// - The frame region is full. Wait until frames are complete, or create the heap with a larger region
    ///   ([`frame_high_water`](super::VisibleStatistics::frame_high_water) is the size that it needs).
    /// - The device is lost.
    pub fn table(&mut self, sources: &[TableSource<'_, D>]) -> Result<Table, DescriptorError> {
        let heap_owner = Arc::clone(&self.heap_owner);
        let (shared, state) = (&heap_owner.shared, &heap_owner.state);
        let len = heap_owner.check_sources(sources)?;
        let contents = sources.iter().flat_map(|source| source.contents.iter().copied());
        let hash = tables::hash(contents.clone());
        if let Some(start) = self.find(hash, contents.clone()) {
            state.count_table(true);
            return Ok(Table { start, len, frame: self.frame });
        }
        let start = self.take(len)?;
        let runs = sources.iter().map(|source| (source.heap.object(), source.start, source.contents.len() as u32));
        // SAFETY: only this value uses the slots, and no submitted work reads them. The sources were checked, and are
        // borrowed, so no thread writes them.
        unsafe { copy_runs(&shared.device, self.version.heap.object(), start, runs) };
        self.tables.add(hash, contents.clone(), start);
        if let Some(mut frames) = state.frames.try_lock() {
            frames.of((self.frame, self.version.number)).add(hash, contents, start);
        }
        state.count_table(false);
        Ok(Table { start, len, frame: self.frame })
    }

    /// Creates a table of views. The views are written directly into the slots, without CPU-only descriptors.
    ///
    /// # Errors
    /// - `views` is empty, or has more views than the frame region has slots.
    /// - The heap does not support a view, or the resource of a view belongs to another allocator.
    /// - The frame region is full, or the device is lost.
    /// - The driver refuses a view. The slots then stay unused until the frame is complete.
    pub fn table_of(&mut self, views: &[View<'_, D>]) -> Result<Table, DescriptorError> {
        let heap_owner = Arc::clone(&self.heap_owner);
        let (shared, state) = (&heap_owner.shared, &heap_owner.state);
        let count = u32::try_from(views.len()).unwrap_or(u32::MAX);
        if count == 0 {
            return Err(DescriptorError::ZeroCount);
        }
        let described: Result<SmallVec<[_; 16]>, _> =
            views.iter().map(|view| view.describe(shared, state.kind, state.types)).collect();
        let described = described?;
        let start = self.take(count)?;
        for (slot, view) in (start..).zip(&described) {
            // SAFETY: only this value uses the slots, and no submitted work reads them. The views were checked.
            let leftover = unsafe { shared.device.write_view(self.version.heap.object(), slot, view) }?;
            state.retire_leftover(shared, leftover);
        }
        state.count_table(false);
        Ok(Table { start, len: count, frame: self.frame })
    }

    /// Returns the device handle of the table's first slot, for command lists.
    ///
    /// # Panics
    /// If the table belongs to another frame.
    #[must_use]
    pub fn gpu_handle(&self, table: Table) -> GpuHandle {
        assert!(
            table.frame == self.frame,
            "the table belongs to the frame with {}, not to the frame with {}",
            table.frame,
            self.frame
        );
        self.version.heap.gpu_handle(table.start).expect("the heap is shader-visible")
    }

    fn find(&mut self, hash: u64, contents: impl Iterator<Item = u64> + Clone) -> Option<u32> {
        if let Some(start) = self.tables.find(hash, contents.clone()) {
            return Some(start);
        }
        let mut frames = self.heap_owner.state.frames.try_lock()?;
        frames.of((self.frame, self.version.number)).find(hash, contents)
    }

    /// Takes slots from the present chunk, or from a new one. The rest of the old chunk is freed when the frame is
    /// complete.
    fn take(&mut self, count: u32) -> Result<u32, DescriptorError> {
        if count > self.end - self.next {
            (self.next, self.end) = self.take_chunk(count)?;
        }
        let start = self.next;
        self.next += count;
        Ok(start)
    }

    fn take_chunk(&self, count: u32) -> Result<(u32, u32), DescriptorError> {
        let (shared, state) = (&self.heap_owner.shared, &self.heap_owner.state);
        let wanted = count.max(state.chunk_slots);
        if let Some(chunk) = self.try_chunk(wanted) {
            return Ok(chunk);
        }
        state.poll(shared)?;
        if let Some(chunk) = self.try_chunk(wanted).or_else(|| self.try_chunk(count)) {
            return Ok(chunk);
        }
        let ring = state.ring.lock();
        let (free, capacity) = (ring.free(), ring.capacity());
        if u64::from(count) > capacity {
            return Err(DescriptorError::TooMany { count: count.into(), max: capacity });
        }
        let largest_free = largest_free(&ring) as u32;
        Err(DescriptorError::Full { region: Region::Frame, need: count, free: free as u32, largest_free })
    }

    fn try_chunk(&self, count: u32) -> Option<(u32, u32)> {
        match self.heap_owner.state.ring.lock().allocate(count.into(), 1, &self.frame) {
            Ok(range) => Some((range.offset() as u32, range.end() as u32)),
            Err(RingError::Full { .. } | RingError::TooLarge { .. }) => None,
            Err(RingError::ZeroSize | RingError::BadAlignment { .. }) => unreachable!("a chunk has slots"),
        }
    }
}

impl<D: Descriptors> Drop for FrameDescriptors<'_, D> {
    fn drop(&mut self) {
        let mut tables = std::mem::take(&mut self.tables);
        tables.clear();
        let state = Arc::clone(&self.heap_owner.state);
        run_unlocked(move || state.spare_tables.lock().push(tables));
    }
}

impl<D: Descriptors> fmt::Debug for FrameDescriptors<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrameDescriptors({}, {} slots left of the chunk)", self.frame, self.end - self.next)
    }
}
