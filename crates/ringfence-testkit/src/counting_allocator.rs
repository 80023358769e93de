//! A global allocator that counts the host allocations of each thread, and the bytes that the thread holds.
//!
//! A test program declares it once. Each test then counts the allocations of its own thread.
//!
//! ```
//! use ringfence_testkit::counting_allocator::{CountingAllocator, host_allocations};
//!
//! #[global_allocator]
//! static HOST: CountingAllocator = CountingAllocator;
//!
//! assert_eq!(host_allocations(|| drop(Box::new(1))), 1);
//! ```
//!
//! This file imports nothing from its crate: the tests of crates without a GPU dependency include the file by path.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator with counters.
#[derive(Clone, Copy, Debug)]
pub struct CountingAllocator;

thread_local! {
    // The initial values are constant and have no destructor, so access never allocates.
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static HELD_BYTES: Cell<i64> = const { Cell::new(0) };
}

/// Counts one allocation and `bytes` held bytes.
fn count(bytes: i64) {
    COUNT.set(COUNT.get() + 1);
    HELD_BYTES.set(HELD_BYTES.get() + bytes);
}

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promises are those that `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: `block` came from `System`, like all blocks; the caller promises the rest.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD_BYTES.set(HELD_BYTES.get() - layout.size() as i64);
        // SAFETY: `block` came from `System`, like all blocks; the caller promises the rest.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Returns the number of allocations and reallocations of this thread so far.
#[must_use]
pub fn host_allocation_count() -> u64 {
    COUNT.get()
}

/// Returns the number of host allocations that `work` made on this thread.
pub fn host_allocations(work: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    work();
    COUNT.get() - before
}

/// Runs `work` without counting its allocations. The bytes that it holds are counted.
pub fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let before = COUNT.get();
    let result = work();
    COUNT.set(before);
    result
}

/// Returns the number of bytes that this thread has allocated, minus the bytes that it has freed. A block that another
/// thread frees is subtracted from the count of that thread.
#[must_use]
pub fn held_bytes() -> i64 {
    HELD_BYTES.get()
}
