//! The sparse buffer: addresses, and a [page table](super::table).

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::error::SparseError;
use super::object::SparseObject;
use super::{PageBind, Sparse, SparseNeeds};
use crate::device::{BufferInfo, Buffers, Device, DeviceError, RawBuffer, ResourceClass};
use crate::error::Error;
use crate::memory::{AllocationDesc, Shared};

/// A run of pages that a submission will bind or unbind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRun {
    /// The first page.
    pub page: u64,
    /// How many.
    pub count: u64,
    /// Whether they get memory; else they lose it.
    pub is_bound: bool,
}

/// A buffer of addresses, whose pages get memory as they are needed. See [`sparse`](crate::sparse).
///
/// Dropping it retires it with all of its memory, as a [`Buffer`](crate::Buffer) is.
pub struct SparseBuffer<D: Device> {
    object: SparseObject<D, Buffers>,
    needs: SparseNeeds,
}

impl<D: Sparse> SparseBuffer<D> {
    /// Makes a sparse buffer, without memory. Of `desc` those fields count that say where its pages lie.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] where the device has none, or the driver refuses the description.
    pub(super) fn new(
        shared: &Arc<Shared<D>>,
        info: &BufferInfo<'_, D>,
        desc: AllocationDesc<'_>,
    ) -> Result<SparseBuffer<D>, Error> {
        // SAFETY: safe code can build only descriptions that the device accepts or refuses with an error.
        let make = |device: &D| unsafe { device.make_sparse(info) };
        let page = |needs: &SparseNeeds| (needs.page_bytes, needs.memory_type_bits, ResourceClass::Buffer);
        let (object, needs) = SparseObject::new(shared, desc, make, page)?;
        Ok(SparseBuffer { object, needs })
    }
}

impl<D: Device> SparseBuffer<D> {
    /// The driver's buffer.
    #[must_use]
    pub fn object(&self) -> &RawBuffer<D> {
        self.object.get()
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
        self.object.table.bound_count()
    }

    /// Whether a page has memory once what is pending is submitted.
    #[must_use]
    pub fn is_bound(&self, page: u64) -> bool {
        self.object.table.is_bound(page)
    }

    /// The memory behind a page that a submission has bound: the memory object and the first byte in it.
    #[must_use]
    pub fn behind(&self, page: u64) -> Option<(&D::Memory, u64)> {
        self.object.table.behind(page)
    }

    /// What the next submission does, as data.
    #[must_use]
    pub fn batch(&self) -> Vec<PageRun> {
        let runs = self.object.table.runs(|_| false).into_iter();
        runs.map(|run| PageRun { page: run.page, count: run.count, is_bound: run.change }).collect()
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
        Ok(self.object.table.bind(pages)?)
    }

    /// Has pages unbound by the next submission, those without memory left as they are.
    ///
    /// # Errors
    /// They lie outside the buffer.
    pub fn unbind(&mut self, pages: Range<u64>) -> Result<(), SparseError> {
        self.check(&pages)?;
        self.object.table.unbind(pages);
        Ok(())
    }

    fn check(&self, pages: &Range<u64>) -> Result<(), SparseError> {
        let page_count = self.page_count();
        let (first, end) = (pages.start, pages.end);
        if end > page_count { Err(SparseError::OutOfRange { first, end, page_count }) } else { Ok(()) }
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
    ///   the frame whose value and fence are `signal`; the queue is the device's, can bind, and no other thread uses it.
    /// - Work that uses pages which lose their memory comes before, on this queue or through `waits`; work that uses new
    ///   ones comes after.
    pub unsafe fn submit(
        &mut self,
        queue: &D::BindQueue,
        waits: &[(D::Fence, u64)],
        signal: (D::Fence, u64),
    ) -> Result<(), DeviceError> {
        self.object.table.check_lost()?;
        let page_bytes = self.needs.page_bytes;
        let runs = self.object.table.binds(|_| false).into_iter();
        let binds = runs.map(|run| PageBind {
            offset: run.page * page_bytes,
            size: run.count * page_bytes,
            memory: run.change,
        });
        let binds: Vec<_> = binds.collect();
        // SAFETY: runs of a map do not overlap; pages lie inside the buffer, and their memory was made for them; the rest
        // is the caller's promise.
        unsafe { self.object.table.device().bind_pages(queue, self.object.get(), &binds, waits, signal) }?;
        self.object.table.settle();
        Ok(())
    }
}

impl<D: Device> fmt::Debug for SparseBuffer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bound, pages) = (self.bound_count(), self.page_count());
        write!(f, "SparseBuffer({:?}, {bound} of {pages} pages of {} bytes)", self.object(), self.page_bytes())
    }
}
