//! A global allocator that counts: how often a thread allocates on the host, and how many bytes it holds.
//!
//! A test program declares it once; then each test counts what its own thread does.
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
//! This file imports nothing of the crate: the tests of crates that know no GPU include it by its path.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counted.
#[derive(Clone, Copy, Debug)]
pub struct CountingAllocator;

thread_local! {
    // Constant and without a destructor, so that reading it never allocates.
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static HELD_BYTES: Cell<i64> = const { Cell::new(0) };
}

/// One allocation more, and `bytes` bytes more that are held.
fn count(bytes: i64) {
    COUNT.set(COUNT.get() + 1);
    HELD_BYTES.set(HELD_BYTES.get() + bytes);
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promises are those that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: `block` came from `System`, as all blocks do; the rest is the caller's promise.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD_BYTES.set(HELD_BYTES.get() - layout.size() as i64);
        // SAFETY: `block` came from `System`, as all blocks do; the rest is the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

/// How often this thread has allocated so far. Reallocations count.
#[must_use]
pub fn host_allocation_count() -> u64 {
    COUNT.get()
}

/// How often this thread allocated on the host while `work` ran.
pub fn host_allocations(work: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    work();
    COUNT.get() - before
}

/// Does something whose allocations are not counted.
pub fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let before = COUNT.get();
    let result = work();
    COUNT.set(before);
    result
}

/// Bytes that this thread has allocated and not freed. A block that another thread frees counts for that thread.
#[must_use]
pub fn held_bytes() -> i64 {
    HELD_BYTES.get()
}
