//! The two copies of a memory object's bytes: the host view and the device view.
//!
//! ```text
//!   host view     │ target of `Mapped`: zeroed, contiguous, committed on first access
//!      │ flush              ▲ never written back: `read_back` copies from the device view to the caller
//!      ▼
//!   device view   │ pages, created on first write and filled with poison; read and written by GPU work
//! ```
//!
//! There are two views to detect programs that rely on behaviour that is not guaranteed: without a flush, the device
//! does not see the host's writes, and bytes that the device never received are not zero. The device view is safe Rust
//! behind the device's lock, so late work causes no data race.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// Alignment of the first mapped byte, in bytes; at least the `minMemoryMapAlignment` of real devices.
const MAP_ALIGNMENT: usize = 4096;

/// The host view of a mapped memory object.
#[derive(Debug)]
pub(super) struct HostView {
    /// The allocation. It has the layout `layout`.
    allocation: NonNull<u8>,
    layout: Layout,
    /// First multiple of `MAP_ALIGNMENT` in the allocation. The view is the `size` bytes from there.
    first: NonNull<u8>,
    size: usize,
}

// SAFETY: the allocation is not bound to a thread. The view reads it only in `copy_out`, whose caller ensures exclusive
// access. All other accesses are made through `Mapped`, whose users ensure exclusive access.
unsafe impl Send for HostView {}

impl HostView {
    /// Returns a view of `size` zero bytes. Returns `None` if the host is out of memory.
    pub(super) fn new(size: u64) -> Option<Self> {
        let size = usize::try_from(size).ok()?;
        // The address is aligned here: for large alignments, the standard allocator writes the zeros itself, which
        // commits every page.
        let layout = Layout::from_size_align(size.checked_add(MAP_ALIGNMENT)?, 16).ok()?;
        // SAFETY: the layout has at least `MAP_ALIGNMENT` bytes, so its size is not 0.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let skip = allocation.as_ptr().align_offset(MAP_ALIGNMENT);
        // SAFETY: `skip < MAP_ALIGNMENT`, and the allocation is larger than `size` by `MAP_ALIGNMENT`.
        let first = unsafe { allocation.add(skip) };
        Some(Self { allocation, layout, first, size })
    }

    /// Returns the address of byte `offset`. Returns `None` if `offset` is not inside the view.
    pub(super) fn at(&self, offset: u64) -> Option<NonNull<u8>> {
        let offset = usize::try_from(offset).ok().filter(|&offset| offset < self.size)?;
        // SAFETY: `offset < size`, and `size` bytes follow `first` in its allocation.
        Some(unsafe { self.first.add(offset) })
    }

    /// Copies the `into.len()` bytes at `offset` to `into`. Copies nothing if they are not all inside the view.
    ///
    /// # Safety
    /// No thread writes these bytes during the call.
    unsafe fn copy_out(&self, offset: u64, into: &mut [u8]) {
        let Some(from) = self.at(offset).filter(|_| offset as usize + into.len() <= self.size) else { return };
        // SAFETY: `offset + len <= size`, so the bytes are inside the allocation. They are initialised, by zeros or by
        // the host. The caller promises that no thread writes them now. `into` is a unique borrow of other memory.
        unsafe { from.copy_to_nonoverlapping(NonNull::from(&mut *into).cast(), into.len()) }
    }
}

impl Drop for HostView {
    fn drop(&mut self) {
        // SAFETY: `allocation` came from `alloc_zeroed` with this layout and is freed only here.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) }
    }
}

/// Size of a page of the device view, in bytes. Small pages make it cheap to fill a page with poison on its first
/// write.
const PAGE: usize = 16 << 10;

/// The device view of a memory object.
#[derive(Debug)]
pub(super) struct DeviceView {
    size: u64,
    poison: u8,
    /// One entry per page. `None` if the page was never written; all of its bytes are then poison.
    pages: Vec<Option<Box<[u8]>>>,
}

impl DeviceView {
    /// Returns a view of `size` bytes of poison. Returns `None` if the host has no memory for the list of pages.
    pub(super) fn new(size: u64, poison: u8) -> Option<Self> {
        let count = usize::try_from(size.div_ceil(PAGE as u64)).ok()?;
        let mut pages = Vec::new();
        pages.try_reserve_exact(count).ok()?;
        pages.resize_with(count, || None);
        Some(Self { size, poison, pages })
    }

    /// Returns `true` if `offset..offset + size` is inside the view.
    pub(super) fn holds(&self, offset: u64, size: u64) -> bool {
        offset.checked_add(size).is_some_and(|end| end <= self.size)
    }

    /// Copies bytes out of the view. Bytes beyond the last page read as poison.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) {
        let poison = self.poison;
        for_pages(offset, into.len(), |page, inside, part| match self.pages.get(page) {
            Some(Some(bytes)) => into[part].copy_from_slice(&bytes[inside]),
            _ => into[part].fill(poison),
        });
    }

    /// Copies bytes into the view. Bytes beyond the last page are dropped.
    pub(super) fn write(&mut self, offset: u64, from: &[u8]) {
        self.write_with(offset, from.len(), |part, bytes| bytes.copy_from_slice(&from[part]));
    }

    /// Sets `size` bytes from `offset` on to `value`.
    pub(super) fn fill(&mut self, offset: u64, size: u64, value: u8) {
        self.write_with(offset, size as usize, |_, bytes| bytes.fill(value));
    }

    /// Copies `size` bytes at `offset` from the host view to this view.
    ///
    /// # Safety
    /// No thread writes these bytes of the host view during the call.
    pub(super) unsafe fn flush_from(&mut self, host: &HostView, offset: u64, size: u64) {
        self.write_with(offset, size as usize, |part, bytes| {
            // SAFETY: the caller makes the same promise for the whole range, which contains this part.
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

/// Visits the pages of `offset..offset + size`. `visit` gets the index of the page, the range in the page, and the
/// range in the caller's bytes.
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
        // SAFETY: only this test uses the 256 bytes.
        unsafe { first.write_bytes(7, 256) };
        // SAFETY: the view has 256 bytes, and no thread writes them during the call.
        unsafe { view.flush_from(&host, 64, 64) };
        let mut back = [0; 256];
        view.read(0, &mut back);
        assert!(back[..64].iter().chain(&back[128..]).all(|&byte| byte == 0xcd));
        assert!(back[64..128].iter().all(|&byte| byte == 7));
    }
}
