//! The sparse buffer: its page table, and what is to be changed in it.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

use super::batch::{Changes, PageRun, binds, runs};
use super::{Sparse, SparseNeeds};
use crate::device::{BufferInfo, Buffers, Create, Device, DeviceError, RawBuffer, Requirements, ResourceClass};
use crate::error::Error;
use crate::memory::{Allocation, Allocator, Shared};
use crate::resource::{AllocationDesc, RawObject};

/// Why pages were not bound. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SparseError {
    /// The pages lie outside the buffer.
    #[error("pages {first}..{end} lie outside the sparse buffer of {page_count} pages")]
    OutOfRange {
        /// The first page that was asked for.
        first: u64,
        /// The page after the last one.
        end: u64,
        /// Pages of the buffer.
        page_count: u64,
    },
    /// There is no memory for them.
    #[error(transparent)]
    Memory(#[from] Error),
}

/// A buffer of addresses, whose pages get memory as they are needed. See [`sparse`](crate::sparse).
///
/// Dropping it retires it with all of its memory, as a [`Buffer`](crate::Buffer) is.
pub struct SparseBuffer<D: Device> {
    shared: Arc<Shared<D>>,
    object: ManuallyDrop<RawBuffer<D>>,
    needs: SparseNeeds,
    /// How pages get memory.
    desc: AllocationDesc<'static>,
    name: Box<str>,
    /// By page: what is behind those that the last submission left bound.
    table: BTreeMap<u64, Allocation<D>>,
    /// What the next submission changes. A page is bound here only if the table has it not, and unbound only if it has.
    changes: Changes<D>,
}

impl<D: Sparse> Allocator<D> {
    /// Makes a sparse buffer, without memory. Of `desc` those fields count that say where its pages lie.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] where the device has none, or the driver refuses the description.
    pub fn create_sparse_buffer(
        &self,
        info: &BufferInfo<'_, D>,
        desc: AllocationDesc<'_>,
    ) -> Result<SparseBuffer<D>, Error> {
        let shared = self.shared();
        shared.check_lost()?;
        // SAFETY: safe code can build only descriptions that the device accepts or refuses with an error.
        let (object, needs) = unsafe { shared.device.make_sparse(info) }?;
        shared.count_created();
        if !desc.name.is_empty() {
            // SAFETY: the object was made just now.
            unsafe { Create::<Buffers>::set_name(&shared.device, &object, desc.name) };
        }
        Ok(SparseBuffer {
            shared: Arc::clone(shared),
            object: ManuallyDrop::new(object),
            needs,
            desc: AllocationDesc { name: "", share: None, ..desc },
            name: desc.name.into(),
            table: BTreeMap::new(),
            changes: BTreeMap::new(),
        })
    }
}

impl<D: Device> SparseBuffer<D> {
    /// The driver's buffer.
    #[must_use]
    pub fn object(&self) -> &RawBuffer<D> {
        &self.object
    }

    /// Its bytes: addresses, not memory.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.needs.size
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        self.needs.page_bytes
    }

    /// How many pages it has.
    #[must_use]
    pub fn page_count(&self) -> u64 {
        self.needs.size / self.needs.page_bytes
    }

    /// How many of them have memory once what is pending is submitted.
    #[must_use]
    pub fn bound_count(&self) -> u64 {
        let bound = self.changes.values().filter(|change| change.is_some()).count();
        (self.table.len() + bound - (self.changes.len() - bound)) as u64
    }

    /// Whether a page has memory once what is pending is submitted.
    #[must_use]
    pub fn is_bound(&self, page: u64) -> bool {
        match self.changes.get(&page) {
            Some(change) => change.is_some(),
            None => self.table.contains_key(&page),
        }
    }

    /// The memory behind a page that a submission has bound: the memory object and the first byte in it.
    #[must_use]
    pub fn behind(&self, page: u64) -> Option<(&D::Memory, u64)> {
        self.table.get(&page).map(|held| (held.memory(), held.offset()))
    }

    /// What the next submission does, as data.
    #[must_use]
    pub fn batch(&self) -> Vec<PageRun> {
        runs(&self.changes)
    }

    /// The pages that bytes lie in.
    #[must_use]
    pub fn pages_of(&self, bytes: Range<u64>) -> Range<u64> {
        bytes.start / self.needs.page_bytes..bytes.end.div_ceil(self.needs.page_bytes)
    }

    /// Has pages bound by the next submission, those that have memory left as they are. Their memory is taken now. What
    /// new pages hold is of no meaning.
    ///
    /// # Errors
    /// They lie outside the buffer, or there is no memory; no page has changed then.
    #[track_caller]
    pub fn bind(&mut self, pages: Range<u64>) -> Result<(), SparseError> {
        self.check(&pages)?;
        let mut added = Vec::new();
        let mut kept = Vec::new();
        for page in pages.filter(|page| !self.is_bound(*page)).collect::<Vec<_>>() {
            if self.changes.remove(&page).is_some() {
                // It was to lose the memory that it has.
                kept.push(page);
                continue;
            }
            match self.page() {
                Ok(allocation) => {
                    self.changes.insert(page, Some(allocation));
                    added.push(page);
                }
                Err(error) => {
                    added.into_iter().for_each(|page| self.take_back(page));
                    self.changes.extend(kept.into_iter().map(|page| (page, None)));
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Has pages unbound by the next submission, those without memory left as they are.
    ///
    /// # Errors
    /// They lie outside the buffer.
    pub fn unbind(&mut self, pages: Range<u64>) -> Result<(), SparseError> {
        self.check(&pages)?;
        for page in pages.filter(|page| self.is_bound(*page)).collect::<Vec<_>>() {
            if self.table.contains_key(&page) {
                self.changes.insert(page, None);
            } else {
                self.take_back(page);
            }
        }
        Ok(())
    }

    fn check(&self, pages: &Range<u64>) -> Result<(), SparseError> {
        let page_count = self.page_count();
        let (first, end) = (pages.start, pages.end);
        if end > page_count { Err(SparseError::OutOfRange { first, end, page_count }) } else { Ok(()) }
    }

    /// Memory for a page.
    #[track_caller]
    fn page(&self) -> Result<Allocation<D>, Error> {
        let SparseNeeds { page_bytes, memory_type_bits, .. } = self.needs;
        let needs = Requirements {
            size: page_bytes,
            alignment: page_bytes,
            memory_type_bits,
            class: ResourceClass::Buffer,
            prefers_dedicated: false,
            requires_dedicated: false,
        };
        let desc = AllocationDesc { name: &self.name, ..self.desc };
        Allocation::bytes(&self.shared, needs, &desc)
    }

    /// Gives memory back that was taken for a page and never bound.
    fn take_back(&mut self, page: u64) {
        if let Some(Some(allocation)) = self.changes.remove(&page) {
            // SAFETY: no submission has bound it.
            unsafe { allocation.free_now() };
        }
    }
}

impl<D: Sparse> SparseBuffer<D> {
    /// Binds and unbinds what is pending, on a queue: after `waits` and the queue's earlier work, and signals then. What
    /// loses its memory is retired. With nothing pending, it only waits and signals.
    ///
    /// # Errors
    /// Device lost or out of memory: what is pending is still pending.
    ///
    /// # Safety
    /// - It is called between the [`begin`](crate::Timeline::begin) and the [`submitted`](crate::Timeline::submitted) of
    ///   the frame whose value and fence are `signal`; the queue is the device's, can bind, and nobody else uses it meanwhile.
    /// - Work that uses pages which lose their memory comes before, on this queue or through `waits`; work that uses new
    ///   ones comes after.
    pub unsafe fn submit(
        &mut self,
        queue: &D::BindQueue,
        waits: &[(D::Fence, u64)],
        signal: (D::Fence, u64),
    ) -> Result<(), DeviceError> {
        self.shared.check_lost()?;
        let binds = binds(&self.changes, self.needs.page_bytes);
        // SAFETY: runs of a map do not overlap; pages lie inside the buffer, and their memory was made for them; the rest
        // is the caller's promise.
        unsafe { self.shared.device.bind_pages(queue, &self.object, &binds, waits, signal) }?;
        for (page, change) in std::mem::take(&mut self.changes) {
            match change {
                Some(allocation) => _ = self.table.insert(page, allocation),
                // Dropped, which retires it.
                None => _ = self.table.remove(&page),
            }
        }
        Ok(())
    }
}

impl<D: Device> Drop for SparseBuffer<D> {
    fn drop(&mut self) {
        // SAFETY: a value is dropped once, and nothing reads the field afterwards.
        let object = unsafe { ManuallyDrop::take(&mut self.object) };
        // First, so that it is destroyed before its memory goes.
        self.shared.retire_object(RawObject::Buffer(object));
    }
}

impl<D: Device> fmt::Debug for SparseBuffer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bound, pages) = (self.bound_count(), self.page_count());
        write!(f, "SparseBuffer({:?}, {bound} of {pages} pages of {} bytes)", self.object(), self.page_bytes())
    }
}
