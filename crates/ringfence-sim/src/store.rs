//! The bytes of a memory object, twice: as the host sees them and as the device sees them.
//!
//! ```text
//!   host view     │ what `Mapped` points to: zeroed, one piece, committed as it is touched
//!      │ flush              ▲ never written back: `read_back` copies from the device view straight to the caller
//!      ▼
//!   device view   │ pages, made on first touch and filled with the poison; what GPU work reads and writes
//! ```
//!
//! Two views, since a program may rely on no more: what was not flushed has not arrived, and bytes that were not
//! written are not zero. All device-side bytes are safe Rust behind the device's lock, so work that executes late can
//! race with nothing.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Alignment of the first mapped byte: above any `minMemoryMapAlignment`.
const MAP_ALIGNMENT: usize = 4096;

/// What the host sees of a mapped memory object.
#[derive(Debug)]
pub(super) struct HostView {
    /// What the allocator gave, of `layout`.
    allocation: NonNull<u8>,
    layout: Layout,
    /// The first multiple of `MAP_ALIGNMENT` in the allocation; `size` bytes follow it.
    first: NonNull<u8>,
    size: usize,
}

// SAFETY: the allocation belongs to no thread. The view itself reads it in `copy_out` alone, whose caller ensures
// exclusion; everything else goes through `Mapped`, whose users do.
unsafe impl Send for HostView {}

impl HostView {
    /// `size` zero bytes; `None` if the host is out of memory.
    pub(super) fn new(size: u64) -> Option<Self> {
        let size = usize::try_from(size).ok()?;
        // Aligned by hand: for large alignments the standard allocator writes the zeros, which commits every page.
        let layout = Layout::from_size_align(size.checked_add(MAP_ALIGNMENT)?, 16).ok()?;
        // SAFETY: the layout is at least `MAP_ALIGNMENT` bytes, so not of size 0.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let skip = allocation.as_ptr().align_offset(MAP_ALIGNMENT);
        // SAFETY: `skip < MAP_ALIGNMENT`, and the allocation is that much longer than `size`.
        let first = unsafe { allocation.add(skip) };
        Some(Self { allocation, layout, first, size })
    }

    /// Where the host sees byte `offset`; `None` beyond the end.
    pub(super) fn at(&self, offset: u64) -> Option<NonNull<u8>> {
        let offset = usize::try_from(offset).ok().filter(|&offset| offset < self.size)?;
        // SAFETY: `offset < size`, and `size` bytes follow `first` in its allocation.
        Some(unsafe { self.first.add(offset) })
    }

    /// Copies `into.len()` bytes at `offset` out of the view; nothing if they are not all inside it.
    ///
    /// # Safety
    /// Nothing writes these bytes during the call.
    unsafe fn copy_out(&self, offset: u64, into: &mut [u8]) {
        let Some(from) = self.at(offset).filter(|_| offset as usize + into.len() <= self.size) else { return };
        // SAFETY: `offset + len <= size`, so the bytes are inside the allocation; they were zeroed or written by the
        // host; the caller promises that nothing writes them now; `into` is a unique borrow of other memory.
        unsafe { from.copy_to_nonoverlapping(NonNull::from(&mut *into).cast(), into.len()) }
    }
}

impl Drop for HostView {
    fn drop(&mut self) {
        // SAFETY: `allocation` came from `alloc_zeroed` with this layout and is given back only here.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) }
    }
}

/// Bytes a page of the device view: small, so that poisoning what is touched costs little.
const PAGE: usize = 16 << 10;

/// What the device sees of a memory object.
#[derive(Debug)]
pub(super) struct DeviceView {
    size: u64,
    poison: u8,
    /// `None` iff no byte of the page was touched yet: all of it is poison.
    pages: Vec<Option<Box<[u8]>>>,
}

impl DeviceView {
    /// `size` bytes of poison; `None` if the host cannot hold the table of pages.
    pub(super) fn new(size: u64, poison: u8) -> Option<Self> {
        let count = usize::try_from(size.div_ceil(PAGE as u64)).ok()?;
        let mut pages = Vec::new();
        pages.try_reserve_exact(count).ok()?;
        pages.resize_with(count, || None);
        Some(Self { size, poison, pages })
    }

    /// Whether `offset..offset + size` is inside.
    pub(super) fn holds(&self, offset: u64, size: u64) -> bool {
        offset.checked_add(size).is_some_and(|end| end <= self.size)
    }

    /// Copies bytes out. What lies beyond the end reads as poison.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) {
        let poison = self.poison;
        for_pages(offset, into.len(), |page, inside, part| match self.pages.get(page) {
            Some(Some(bytes)) => into[part].copy_from_slice(&bytes[inside]),
            _ => into[part].fill(poison),
        });
    }

    /// Copies bytes in. What lies beyond the end is dropped.
    pub(super) fn write(&mut self, offset: u64, from: &[u8]) {
        self.write_with(offset, from.len(), |part, bytes| bytes.copy_from_slice(&from[part]));
    }

    /// Sets `size` bytes to `value`.
    pub(super) fn fill(&mut self, offset: u64, size: u64, value: u8) {
        self.write_with(offset, size as usize, |_, bytes| bytes.fill(value));
    }

    /// Copies `size` bytes at `offset` from the host's view.
    ///
    /// # Safety
    /// Nothing writes these bytes of the host's view during the call.
    pub(super) unsafe fn flush_from(&mut self, host: &HostView, offset: u64, size: u64) {
        self.write_with(offset, size as usize, |part, bytes| {
            // SAFETY: a part of the range for which the caller makes the same promise.
            unsafe { host.copy_out(offset + part.start as u64, bytes) }
        });
    }

    fn write_with(&mut self, offset: u64, size: usize, mut write: impl FnMut(std::ops::Range<usize>, &mut [u8])) {
        let poison = self.poison;
        for_pages(offset, size, |page, inside, part| {
            if let Some(held) = self.pages.get_mut(page) {
                let bytes = held.get_or_insert_with(|| vec![poison; PAGE].into_boxed_slice());
                write(part, &mut bytes[inside]);
            }
        });
    }
}

/// Visits the pages of `offset..offset + size`: the page, the range inside it, the range in the caller's bytes.
fn for_pages(offset: u64, size: usize, mut visit: impl FnMut(usize, std::ops::Range<usize>, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < size {
        let at = offset.saturating_add(done as u64);
        let inside = (at % PAGE as u64) as usize;
        let part = (PAGE - inside).min(size - done);
        let page = usize::try_from(at / PAGE as u64).unwrap_or(usize::MAX);
        visit(page, inside..inside + part, done..done + part);
        done += part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_view_is_poison_until_written_across_pages() {
        let mut view = DeviceView::new(3 * PAGE as u64, 0xcd).unwrap();
        let from: Vec<u8> = (0..PAGE + 10).map(|i| i as u8).collect();
        view.write(PAGE as u64 - 5, &from);
        let mut back = vec![0; PAGE + 12];
        view.read(PAGE as u64 - 6, &mut back);
        assert_eq!((back[0], back[PAGE + 11]), (0xcd, 0xcd));
        assert_eq!(back[1..=PAGE + 10], from);
    }

    #[test]
    fn a_flush_moves_its_range_and_no_byte_more() {
        let host = HostView::new(256).unwrap();
        let mut view = DeviceView::new(256, 0xcd).unwrap();
        let first = host.at(0).unwrap();
        assert_eq!(first.as_ptr() as usize % MAP_ALIGNMENT, 0);
        // SAFETY: 256 bytes that only this test knows.
        unsafe { first.write_bytes(7, 256) };
        // SAFETY: the view holds 256 bytes, and nothing writes them during the call.
        unsafe { view.flush_from(&host, 64, 64) };
        let mut back = [0; 256];
        view.read(0, &mut back);
        assert!(back[..64].iter().chain(&back[128..]).all(|&byte| byte == 0xcd));
        assert!(back[64..128].iter().all(|&byte| byte == 7));
    }
}
