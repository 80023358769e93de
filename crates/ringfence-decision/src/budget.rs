//! Usage and limits of each memory heap.
//!
//! ```text
//!   usage  = the driver's last figure + the bytes that this allocator has allocated since
//!   budget = the driver's last figure, or 80 % of the heap if the driver reports none; at most the heap
//!   limit  = set by the caller; bytes are reserved before the driver call, so threads that race stay within it
//! ```
//!
//! The driver's refusals for a heap are remembered: see [`Refusals`].
//!
//! The driver's budgets are read once a frame (`Allocator::reclaim`), and after every [`ASK_AFTER`] memory objects that
//! were created or freed. If no memory object was created or freed since the last reading, a frame reads them only
//! after the time that [`Driver::budgets_hold_for`](crate::device::Driver::budgets_hold_for) returns. Between readings,
//! the usage is updated by the memory that this allocator allocates and frees.
//!
//! | operation | cost |
//! |---|---|
//! | `heap` | a few loads |
//! | `refresh` | one driver call, no lock, no host memory for up to 16 heaps |

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use crate::desc::AllocatorDesc;
use crate::device::{Capabilities, Device, HeapBudgets, MemoryProperties};
use crate::refusals::Refusals;

/// Number of created or freed memory objects after which the driver's budgets are read again.
const ASK_AFTER: u32 = 32;
/// The budget of a heap if the driver reports none, in percent of its size.
const ESTIMATE_PERCENT: u64 = 80;
/// Maximum size of a *window* (see `is_window`), in bytes: the default size of the device memory that the host can
/// access over PCI.
const WINDOW_BYTES: u64 = 256 << 20;

/// Usage and limits of one heap at one moment, in bytes.
#[doc(alias = "VmaBudget")]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Budget {
    /// Bytes of the heap that the process uses; without a report of the driver, the resident part of `reserved_bytes`.
    pub usage_bytes: u64,
    /// Bytes that the process may use before allocations fail or performance drops
    /// (`VkPhysicalDeviceMemoryBudgetPropertiesEXT::heapBudget`); 80 % of the heap if the driver reports no budget.
    pub budget_bytes: u64,
    /// Bytes that this allocator has allocated from the heap (blocks and dedicated memory) or imported from other
    /// processes.
    pub reserved_bytes: u64,
    /// Maximum of `reserved_bytes` for new allocations: the heap's limit (at first [`AllocatorDesc::heap_bytes_max`]).
    /// If the heap is a small window, at most [`AllocatorDesc::window_bytes_max`]. Requests that only the window can
    /// serve ignore `window_bytes_max`.
    pub limit_bytes: u64,
    /// Size of the heap, in bytes.
    pub heap_bytes: u64,
}

impl Budget {
    /// Returns the number of bytes that can be allocated without exceeding the budget or the limit.
    #[must_use]
    pub fn headroom_bytes(&self) -> u64 {
        let below_budget = self.budget_bytes.saturating_sub(self.usage_bytes);
        below_budget.min(self.limit_bytes.saturating_sub(self.reserved_bytes))
    }

    /// Returns the limit, if any, that an allocation of `bytes` more would exceed.
    fn grant(&self, bytes: u64) -> Grant {
        let sum = |held: u64| held.saturating_add(bytes);
        if sum(self.reserved_bytes) > self.limit_bytes {
            Grant::BeyondLimit
        } else if sum(self.usage_bytes) > self.budget_bytes {
            Grant::BeyondBudget
        } else {
            Grant::Within
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Grant {
    Within,
    BeyondBudget,
    BeyondLimit,
}

#[derive(Default)]
struct Heap {
    bytes: u64,
    limits: Limits,
    reserved: AtomicU64,
    /// Number of bytes that were ever freed.
    freed: AtomicU64,
    /// Number of bytes of `reserved` that are evicted.
    absent: AtomicU64,
    /// The driver's last figures, and the reserved bytes at that time.
    usage_then: AtomicU64,
    budget_then: AtomicU64,
    reserved_then: AtomicU64,
}

/// Maximum numbers of reserved bytes of a heap.
#[derive(Default)]
struct Limits {
    /// For any request.
    bytes: AtomicU64,
    /// For a request that another heap can also serve; [`u64::MAX`] if the heap is not a small window.
    window_bytes: u64,
}

/// The limits that a request for a memory object may exceed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reach {
    /// `true` if the request may exceed the budget.
    pub beyond_budget: bool,
    /// `true` if only a small window can serve the request: the limit of the window does not apply.
    pub beyond_window: bool,
}

impl Reach {
    /// Returns `true` if a request with this reach may allocate `bytes` more in a heap with this usage.
    #[must_use]
    pub fn allows(self, bytes: u64, budget: &Budget) -> bool {
        match budget.grant(bytes) {
            Grant::Within => true,
            Grant::BeyondBudget => self.beyond_budget,
            Grant::BeyondLimit => false,
        }
    }
}

/// Usage and limits of every heap. Shared by all threads without a lock.
pub struct Budgets {
    heaps: Box<[Heap]>,
    /// The driver's refusals.
    pub refusals: Refusals,
    has_window: bool,
    reported: AtomicBool,
    since: AtomicU32,
    /// Time of the last reading, in nanoseconds after `begun`.
    asked_at: AtomicU64,
    begun: Instant,
}

impl Budgets {
    /// Creates the heaps of a device with the limits of `desc`, and reads the driver's budgets.
    pub fn new<D: Device>(device: &D, desc: &AllocatorDesc) -> Self {
        let capabilities = device.capabilities();
        let heaps = (0..).zip(&capabilities.memory_heaps).map(|(index, heap)| {
            let wanted = desc.heap_bytes_max.get(index as usize).copied().unwrap_or(u64::MAX);
            let window = if is_window(capabilities, index) { desc.window_bytes_max } else { u64::MAX };
            Heap {
                bytes: heap.bytes,
                limits: Limits { bytes: AtomicU64::new(wanted), window_bytes: window },
                budget_then: AtomicU64::new(heap.bytes / 100 * ESTIMATE_PERCENT),
                ..Heap::default()
            }
        });
        let (reported, since, asked_at) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU64::new(0));
        let heaps: Box<[Heap]> = heaps.collect();
        let refusals = Refusals::new(capabilities.memory_types.len(), heaps.len());
        let has_window = heaps.iter().any(|heap| heap.limits.window_bytes != u64::MAX);
        let budgets = Self { heaps, refusals, has_window, reported, since, asked_at, begun: Instant::now() };
        budgets.refresh(device);
        budgets
    }

    /// Reads the driver's budgets. Changes no figures if the driver reports none. The figures may be off by the bytes
    /// that other threads allocate or free meanwhile.
    pub fn refresh<D: Device>(&self, device: &D) {
        self.since.store(0, Ordering::Relaxed);
        let reserved = |heap: &Heap| heap.reserved.load(Ordering::Relaxed);
        let before: smallvec::SmallVec<[u64; 16]> = self.heaps.iter().map(reserved).collect();
        let Some(reported) = device.budgets() else { return };
        for (index, ((heap, reported), reserved)) in (0..).zip(self.heaps.iter().zip(reported).zip(before)) {
            let then = |value: &AtomicU64| value.load(Ordering::Relaxed);
            let expected = then(&heap.usage_then).wrapping_add(reserved).wrapping_sub(then(&heap.reserved_then));
            let more_budget = reported.budget_bytes.wrapping_sub(then(&heap.budget_then)).cast_signed();
            let more_usage = reported.usage_bytes.wrapping_sub(expected).cast_signed();
            // Other users of the heap need less, or the budget is larger, so a refused call may succeed now.
            if more_budget > more_usage {
                self.refusals.forget(index);
            }
            heap.usage_then.store(reported.usage_bytes, Ordering::Relaxed);
            heap.budget_then.store(reported.budget_bytes, Ordering::Relaxed);
            heap.reserved_then.store(reserved, Ordering::Relaxed);
        }
        self.reported.store(true, Ordering::Relaxed);
    }

    /// Reads the driver's budgets, unless they were read recently and no memory object was created or freed since.
    pub fn refresh_in_frame<D: Device>(&self, device: &D) {
        let hold_for = device.budgets_hold_for();
        if !hold_for.is_zero() {
            let now = self.begun.elapsed().as_nanos() as u64;
            let is_new = u128::from(now.saturating_sub(self.asked_at.load(Ordering::Relaxed))) < hold_for.as_nanos();
            if is_new && self.since.load(Ordering::Relaxed) == 0 {
                return;
            }
            self.asked_at.store(now, Ordering::Relaxed);
        }
        self.refresh(device);
    }

    /// Reads the driver's budgets if `ASK_AFTER` memory objects were created or freed after the last reading.
    pub fn refresh_if_old<D: Device>(&self, device: &D) {
        if self.since.load(Ordering::Relaxed) >= ASK_AFTER {
            self.refresh(device);
        }
    }

    /// Returns the figures that the driver reports now. Each budget is limited to the size of its heap. Returns `None`
    /// if the driver reports none.
    pub fn reported<D: Device>(&self, device: &D) -> Option<HeapBudgets> {
        let mut reported = device.budgets()?;
        for (reported, heap) in reported.iter_mut().zip(&self.heaps) {
            reported.budget_bytes = reported.budget_bytes.min(heap.bytes);
        }
        Some(reported)
    }

    /// Returns `true` if the driver has reported a budget.
    pub fn is_reported(&self) -> bool {
        self.reported.load(Ordering::Relaxed)
    }

    /// Returns `true` if a heap is a small window with a limit.
    pub fn has_window(&self) -> bool {
        self.has_window
    }

    /// Returns `true` if this heap is a small window with a limit.
    pub fn is_window(&self, heap: u32) -> bool {
        self.heaps[heap as usize].limits.window_bytes != u64::MAX
    }

    /// Returns the heap's figures. A few loads.
    #[must_use]
    pub fn heap(&self, heap: u32) -> Budget {
        self.heap_with(heap, self.heaps[heap as usize].reserved.load(Ordering::Relaxed))
    }

    /// Returns the heap's figures. If `beyond_window` is `true`, the limit of a small window does not apply.
    pub fn heap_for(&self, heap: u32, beyond_window: bool) -> Budget {
        self.limited(self.heap(heap), heap, beyond_window)
    }

    fn limit(&self, heap: u32) -> u64 {
        self.heaps[heap as usize].limits.bytes.load(Ordering::Relaxed)
    }

    /// Sets the maximum number of reserved bytes of a heap. Returns the bytes that are reserved beyond it.
    pub fn set_limit(&self, heap: u32, bytes: u64) -> u64 {
        self.heaps[heap as usize].limits.bytes.store(bytes, Ordering::Relaxed);
        self.heap(heap).reserved_bytes.saturating_sub(bytes)
    }

    fn limited(&self, budget: Budget, heap: u32, beyond_window: bool) -> Budget {
        let limit_bytes = if beyond_window { self.limit(heap) } else { budget.limit_bytes };
        Budget { limit_bytes, ..budget }
    }

    /// Returns the figures that the heap would have if this allocator had reserved `reserved_bytes` in it.
    fn heap_with(&self, heap: u32, reserved_bytes: u64) -> Budget {
        let held = &self.heaps[heap as usize];
        let get = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let reported = self.reported.load(Ordering::Relaxed);
        let since = if reported { get(&held.usage_then).saturating_add(reserved_bytes) } else { reserved_bytes };
        let resident_bytes = reserved_bytes.saturating_sub(get(&held.absent));
        let usage_bytes = if reported { since.saturating_sub(get(&held.reserved_then)) } else { resident_bytes };
        let budget_bytes = get(&held.budget_then).min(held.bytes);
        let limit_bytes = self.limit(heap).min(held.limits.window_bytes);
        Budget { usage_bytes, budget_bytes, reserved_bytes, limit_bytes, heap_bytes: held.bytes }
    }

    /// Returns the number of heaps.
    #[must_use]
    pub fn heap_count(&self) -> u32 {
        self.heaps.len() as u32
    }

    /// Returns `true` if [`Budgets::take`] would reserve the bytes.
    pub fn would_take(&self, heap: u32, bytes: u64, reach: Reach) -> bool {
        reach.allows(bytes, &self.heap_for(heap, reach.beyond_window))
    }

    /// Reserves bytes of a heap before they are allocated, so that threads that allocate at the same time together stay
    /// within the limits. Returns `None`, and reserves nothing, if `bytes` would exceed a limit that `reach` does not
    /// lift.
    pub fn take(&self, heap: u32, bytes: u64, reach: Reach) -> Option<Taken<'_>> {
        let budget = |reserved| self.limited(self.heap_with(heap, reserved), heap, reach.beyond_window);
        let with_these =
            |reserved: u64| reach.allows(bytes, &budget(reserved)).then(|| reserved.checked_add(bytes)).flatten();
        let reserved = &self.heaps[heap as usize].reserved;
        reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with_these).ok()?;
        Some(Taken { budgets: self, heap, bytes })
    }

    /// Adds bytes of memory that another process allocated. No limit applies to them.
    pub fn add(&self, heap: u32, bytes: u64) {
        self.heaps[heap as usize].reserved.fetch_add(bytes, Ordering::Relaxed);
        self.since.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that `bytes` of the reserved memory were evicted.
    pub fn add_absent(&self, heap: u32, bytes: u64) {
        self.heaps[heap as usize].absent.fetch_add(bytes, Ordering::Relaxed);
        self.refusals.forget(heap);
    }

    /// Records that `bytes` of evicted memory were made resident or freed.
    pub fn remove_absent(&self, heap: u32, bytes: u64) {
        self.heaps[heap as usize].absent.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Records that a memory object of `bytes` was freed.
    pub fn remove(&self, heap: u32, bytes: u64) {
        self.heaps[heap as usize].reserved.fetch_sub(bytes, Ordering::Relaxed);
        self.heaps[heap as usize].freed.fetch_add(bytes, Ordering::Relaxed);
        self.since.fetch_add(1, Ordering::Relaxed);
        self.refusals.forget(heap);
    }

    /// Returns the number of bytes of a heap that were ever freed. Cancelled reservations are not counted.
    pub fn freed_bytes(&self, heap: u32) -> u64 {
        self.heaps[heap as usize].freed.load(Ordering::Relaxed)
    }
}

/// Reserved bytes of a heap. Dropping it cancels the reservation, unless [`Taken::keep`] was called.
#[must_use]
pub struct Taken<'a> {
    budgets: &'a Budgets,
    heap: u32,
    bytes: u64,
}

impl Taken<'_> {
    /// Keeps the reservation, because the driver has created the memory object.
    pub fn keep(self) {
        self.budgets.since.fetch_add(1, Ordering::Relaxed);
        std::mem::forget(self);
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.budgets.heaps[self.heap as usize].reserved.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Returns `true` if a heap is a small window through which the host accesses part of a larger device memory.
fn is_window(capabilities: &Capabilities, index: u32) -> bool {
    let heap = capabilities.memory_heaps[index as usize];
    let mut types = capabilities.memory_types.iter().filter(|held| held.heap == index);
    let is_larger = |other: &crate::device::MemoryHeap| other.device_local && other.bytes > heap.bytes;
    heap.device_local
        && heap.bytes <= WINDOW_BYTES
        && types.all(|held| held.properties.contains(MemoryProperties::HOST_VISIBLE))
        && capabilities.memory_heaps.iter().any(is_larger)
}

#[cfg(test)]
mod tests;
