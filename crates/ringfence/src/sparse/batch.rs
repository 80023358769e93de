//! What is to be bound and unbound, page by page, and the same as runs.

use std::collections::BTreeMap;

use crate::device::Device;
use crate::device::sparse::PageBind;
use crate::memory::Allocation;

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

/// Changes by page: the memory that it gets, or none.
pub(super) type Changes<D> = BTreeMap<u64, Option<Allocation<D>>>;

/// The changes as the driver takes them: neighbours whose memory is neighbouring too are one run.
pub(super) fn binds<D: Device>(changes: &Changes<D>, page_bytes: u64) -> Vec<PageBind<'_, D::Memory>> {
    let mut runs: Vec<PageBind<'_, D::Memory>> = Vec::new();
    for (page, change) in changes {
        let offset = page * page_bytes;
        let memory = change.as_ref().map(|held| (held.memory(), held.offset()));
        let follows = |last: &PageBind<'_, D::Memory>| {
            let behind = match (last.memory, memory) {
                (Some((held, first)), Some((next, at))) => std::ptr::eq(held, next) && first + last.size == at,
                (None, None) => true,
                _ => false,
            };
            behind && last.offset + last.size == offset
        };
        match runs.last_mut() {
            Some(last) if follows(last) => last.size += page_bytes,
            _ => runs.push(PageBind { offset, size: page_bytes, memory }),
        }
    }
    runs
}

/// The changes as data.
pub(super) fn runs<D: Device>(changes: &Changes<D>) -> Vec<PageRun> {
    let mut runs: Vec<PageRun> = Vec::new();
    for (&page, change) in changes {
        let is_bound = change.is_some();
        match runs.last_mut() {
            Some(last) if last.page + last.count == page && last.is_bound == is_bound => last.count += 1,
            _ => runs.push(PageRun { page, count: 1, is_bound }),
        }
    }
    runs
}
