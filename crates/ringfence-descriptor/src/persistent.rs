//! Runs of persistent slots.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ringfence_core::blocks::BlockAllocation;
use smallvec::SmallVec;

use super::heap_state::{HeapOwner, Retired};
use super::{DescriptorError, TableSource, View};
use crate::device::descriptors::Descriptors;

/// A run of persistent slots. Each slot can be written only once; to change a slot, allocate another run. Dropping the
/// run releases the slots, which are freed once every submission that had begun at the drop is complete.
pub struct Persistent<D: Descriptors> {
    pub(super) heap_owner: Arc<HeapOwner<D>>,
    pub(super) allocation: BlockAllocation,
    pub(super) start: u32,
    /// One bit for each written slot.
    pub(super) written: SmallVec<[u64; 1]>,
}

impl<D: Descriptors> Persistent<D> {
    /// Returns the first slot, counted from the start of the heap: the index for shaders.
    #[must_use]
    pub fn start(&self) -> u32 {
        self.start
    }

    /// Returns the number of slots; never 0.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> u32 {
        self.allocation.size() as u32
    }

    /// Writes a view into a slot. Command lists that have already bound the heap see the view too, unless the device
    /// binds snapshots of heaps.
    ///
    /// # Errors
    /// - `index` is outside the run, or the slot was already written.
    /// - The heap does not support the view, or the resource of the view belongs to another allocator.
    /// - The driver is out of memory.
    pub fn write(&mut self, index: u32, view: &View<'_, D>) -> Result<(), DescriptorError> {
        self.check_unwritten(index, 1)?;
        let HeapOwner { shared, state } = &*self.heap_owner;
        // SAFETY: the slot belongs to this run and was not written since the run was allocated, so no submitted work
        // reads it.
        unsafe { state.write_slot(shared, self.start + index, view) }?;
        self.mark(index, 1);
        Ok(())
    }

    /// Copies CPU-only descriptors to consecutive slots from `index` on.
    ///
    /// # Errors
    /// - [`DescriptorError::ZeroCount`] if there are no sources.
    /// - [`DescriptorError::OutOfRange`] if there are more descriptors than slots from `index` on.
    /// - [`DescriptorError::InUse`] if one of the slots was already written.
    /// - A source has another kind, other types or another allocator than this heap, or has a slot that was never
    ///   written.
    pub fn copy(&mut self, index: u32, sources: &[TableSource<'_, D>]) -> Result<(), DescriptorError> {
        let HeapOwner { shared, state } = &*self.heap_owner;
        let count = self.heap_owner.check_sources(sources)?;
        self.check_unwritten(index, count)?;
        // SAFETY: as in `write`; the sources are borrowed, so no thread writes them.
        unsafe { state.copy_to_slots(&shared.device, self.start + index, sources) };
        self.mark(index, count);
        Ok(())
    }

    fn check_unwritten(&self, index: u32, count: u32) -> Result<(), DescriptorError> {
        let end = u64::from(index) + u64::from(count);
        if count == 0 || end > u64::from(self.len()) {
            return Err(DescriptorError::OutOfRange { index: end.saturating_sub(1), count: self.len().into() });
        }
        let is_written = |index: &u32| self.written[*index as usize / 64] >> (index % 64) & 1 == 1;
        (index..index + count).find(is_written).map_or(Ok(()), |index| Err(DescriptorError::InUse { index }))
    }

    fn mark(&mut self, index: u32, count: u32) {
        (index..index + count).for_each(|index| self.written[index as usize / 64] |= 1 << (index % 64));
    }
}

impl<D: Descriptors> Drop for Persistent<D> {
    fn drop(&mut self) {
        let HeapOwner { shared, state } = &*self.heap_owner;
        state.waiting_slots.fetch_add(self.allocation.size(), Ordering::Relaxed);
        shared.retire_into(&state.core.waiting, Retired::Range(self.allocation));
    }
}

impl<D: Descriptors> fmt::Debug for Persistent<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Persistent({} slots from {})", self.len(), self.start())
    }
}
