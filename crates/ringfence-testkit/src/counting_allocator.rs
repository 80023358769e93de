//! A global allocator that counts: how often a thread allocates on the host, and how many bytes the process holds.
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
use std::sync::atomic::{AtomicI64, Ordering};

/// The system's allocator, counted.
#[derive(Clone, Copy, Debug)]
pub struct CountingAllocator;

thread_local! {
    // Constant and without a destructor, so that reading it never allocates.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

static HELD_BYTES: AtomicI64 = AtomicI64::new(0);

/// One allocation more, and `bytes` bytes more that are held.
fn count(bytes: i64) {
    COUNT.set(COUNT.get() + 1);
    HELD_BYTES.fetch_add(bytes, Ordering::Relaxed);
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
        HELD_BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
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

/// Bytes that all threads of the process hold.
#[must_use]
pub fn held_bytes() -> i64 {
    HELD_BYTES.load(Ordering::Relaxed)
}
