//! The page table: the memory of each page, and the changes of the next submission.
//!
//! ```text
//!   table     │ 3 ▶ range │ 4 ▶ range │          │ 9 ▶ slot │     after the last submission
//!   changes               │ 4 ▶ none  │ 7 ▶ slot │                of the next submission
//! ```

use std::collections::BTreeMap;
use std::mem::take;
use std::sync::Arc;

use ringfence_memory::extend::Shared;
use ringfence_memory::{Allocation, AllocationDesc, Error, RawObject};

use crate::device::{Device, DeviceError, Requirements, ResourceClass};

/// The memory of the first page of a run: the memory object, and the offset in it.
pub(super) type PageMemory<'a, D> = (&'a <D as crate::device::Driver>::Memory, u64);

/// Consecutive pages with the same change.
pub(super) struct Run<M> {
    pub(super) page: u64,
    pub(super) count: u64,
    pub(super) change: M,
}

pub(super) struct PageTable<D: Device> {
    shared: Arc<Shared<D>>,
    /// Memory requirements of a page.
    page: Requirements,
    /// Request for the memory of a page.
    desc: AllocationDesc<'static>,
    name: Box<str>,
    /// The memory of each page that is bound after the last submission, by page number.
    table: BTreeMap<u64, Allocation<D>>,
    /// The changes of the next submission, by page number: memory to bind, or `None` to unbind. Binds only pages that
    /// are not in `table`, and unbinds only pages that are.
    changes: BTreeMap<u64, Option<Allocation<D>>>,
}

impl<D: Device> PageTable<D> {
    pub(super) fn new(
        shared: &Arc<Shared<D>>,
        (page_bytes, memory_type_bits, class): (u64, u32, ResourceClass),
        desc: AllocationDesc<'_>,
    ) -> Self {
        let page = Requirements {
            size: page_bytes,
            alignment: page_bytes,
            memory_type_bits,
            class,
            prefers_dedicated: false,
            requires_dedicated: false,
        };
        let name = desc.name.into();
        // A sparse resource cannot be added to a use list, and a page that was moved could not be bound again.
        let desc = AllocationDesc { name: "", share: None, movable: false, evictable: false, ..desc };
        Self { shared: Arc::clone(shared), page, desc, name, table: BTreeMap::new(), changes: BTreeMap::new() }
    }

    pub(super) fn bound_count(&self) -> u64 {
        let bound = self.changes.values().filter(|change| change.is_some()).count();
        (self.table.len() + bound - (self.changes.len() - bound)) as u64
    }

    pub(super) fn is_bound(&self, page: u64) -> bool {
        match self.changes.get(&page) {
            Some(change) => change.is_some(),
            None => self.table.contains_key(&page),
        }
    }

    pub(super) fn behind(&self, page: u64) -> Option<PageMemory<'_, D>> {
        self.table.get(&page).map(|held| (held.memory(), held.offset()))
    }

    /// Allocates memory for the pages that have none. If one allocation fails, nothing has changed.
    #[track_caller]
    pub(super) fn bind(&mut self, pages: impl Iterator<Item = u64>) -> Result<(), Error> {
        let mut added = Vec::new();
        let mut kept = Vec::new();
        for page in pages {
            if self.is_bound(page) {
                continue;
            }
            if self.changes.remove(&page).is_some() {
                // The pending unbind is cancelled: the page keeps its memory.
                kept.push(page);
                continue;
            }
            let desc = AllocationDesc { name: &self.name, ..self.desc };
            match self.shared.allocate_page(self.page, &desc) {
                Ok(allocation) => {
                    self.changes.insert(page, Some(allocation));
                    added.push(page);
                }
                Err(error) => {
                    added.into_iter().for_each(|page| self.take_back(page));
                    self.changes.extend(kept.into_iter().map(|page| (page, None)));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Unbinds the pages that have memory.
    pub(super) fn unbind(&mut self, pages: impl Iterator<Item = u64>) {
        for page in pages {
            if !self.is_bound(page) {
                continue;
            }
            if self.table.contains_key(&page) {
                self.changes.insert(page, None);
            } else {
                self.take_back(page);
            }
        }
    }

    /// Frees memory that was allocated for a page and never bound.
    fn take_back(&mut self, page: u64) {
        if let Some(Some(allocation)) = self.changes.remove(&page) {
            // SAFETY: no submission has bound it.
            unsafe { allocation.destroy_now() };
        }
    }

    /// Returns the changes of the next submission as runs of consecutive pages with consecutive memory. A page that
    /// satisfies `begins` begins a new run.
    pub(super) fn binds(&self, begins: impl Fn(u64) -> bool) -> Vec<Run<Option<PageMemory<'_, D>>>> {
        let page_bytes = self.page.size;
        let follows = |last: &Run<Option<PageMemory<'_, D>>>, next: Option<PageMemory<'_, D>>| match (last.change, next)
        {
            (Some((held, first)), Some((memory, at))) => {
                std::ptr::eq(held, memory) && first + last.count * page_bytes == at
            }
            (None, None) => true,
            _ => false,
        };
        let changes = self.changes.iter();
        let changes = changes.map(|(page, held)| (*page, held.as_ref().map(|held| (held.memory(), held.offset()))));
        runs(changes, follows, begins)
    }

    /// Returns the changes as runs, without the memory: `true` if the pages get memory, `false` if they lose it.
    pub(super) fn runs(&self, begins: impl Fn(u64) -> bool) -> Vec<Run<bool>> {
        let changes = self.changes.iter().map(|(page, held)| (*page, held.is_some()));
        runs(changes, |last, is_bound| last.change == is_bound, begins)
    }

    /// Applies the pending changes, which have been submitted. Memory of unbound pages is retired.
    pub(super) fn settle(&mut self) {
        for (page, change) in take(&mut self.changes) {
            match change {
                Some(allocation) => _ = self.table.insert(page, allocation),
                // The drop of the allocation retires it.
                None => _ = self.table.remove(&page),
            }
        }
    }

    pub(super) fn device(&self) -> &D {
        &self.shared.device
    }

    pub(super) fn check_lost(&self) -> Result<(), DeviceError> {
        self.shared.check_lost()
    }

    /// Retires `object`, with the memory of all its pages, including pages with pending binds.
    ///
    /// # Safety
    /// The object belongs to the allocator of the pages, and has no other owner.
    pub(super) unsafe fn retire(&mut self, object: RawObject<D>) {
        let Self { table, changes, .. } = self;
        let pages = take(table).into_values().chain(take(changes).into_values().flatten());
        // SAFETY: the caller promises the same; the pages were allocated from this allocator, for this object.
        unsafe { self.shared.retire_paged(object, pages) };
    }
}

/// Merges consecutive pages with the same change into runs.
fn runs<M: Copy>(
    changes: impl Iterator<Item = (u64, M)>,
    follows: impl Fn(&Run<M>, M) -> bool,
    begins: impl Fn(u64) -> bool,
) -> Vec<Run<M>> {
    let mut runs: Vec<Run<M>> = Vec::new();
    for (page, change) in changes {
        match runs.last_mut() {
            Some(last) if last.page + last.count == page && !begins(page) && follows(last, change) => last.count += 1,
            _ => runs.push(Run { page, count: 1, change }),
        }
    }
    runs
}
