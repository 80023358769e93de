//! Residency: if memory is short, unused memory is evicted (the lowest priority first, then the least recently used),
//! and made resident before its next use.
//!
//! ```text
//!   list.clear()                      frame = timeline.begin()
//!   list.add(&buffer) …               each resource that the frame uses: two loads, if its block is listed already
//!   residency.commit(&list, &frame)
//!     stamps the listed memory with the frame's point
//!     listed and evicted memory ───▶ room? ── no ──▶ evict: lowest priority, then least recently used, of the memory
//!                                      │             that no submission under way uses
//!                                      └───────────▶ make resident
//!   submit, timeline.submitted(frame)
//! ```
//!
//! On some devices the program controls residency ([`Capabilities::residency`](crate::device::Capabilities::residency):
//! Direct3D 12). If a heap is beyond its budget there, the system moves memory out of the heap at any time, or
//! allocations fail. On other devices the system controls residency (Vulkan), and [`Residency::commit`] evicts nothing.
//! If such a device accepts priorities
//! ([`Capabilities::memory_priority`](crate::device::Capabilities::memory_priority)), the system keeps the memory with
//! the highest [`Priority`](crate::device::Priority) resident longest.
//!
//! A memory object (a block or dedicated memory) can be evicted if its memory type is device-local and not
//! host-visible, and if every resource in it is [`evictable`](crate::AllocationDesc::evictable). A single other
//! resource keeps its block resident. So put evictable resources into a [`Pool`](crate::Pool) of their own. If a
//! resource that is not evictable is allocated in an evicted block, the block is made resident at once.
//!
//! Memory is evicted only once all submissions that use it are complete, and only in these cases:
//!
//! - its heap is beyond the budget,
//! - listed memory must be made resident, and there is no room for it within the budget or on the device,
//! - an allocation is short of memory: it evicts memory before it calls the eviction callback.
//!
//! # Locks
//!
//! Memory objects are evicted and made resident under one lock. An allocation takes this lock only if it must make a
//! block resident or evict memory. No arena is locked meanwhile.
//!
//! | operation | cost |
//! |---|---|
//! | [`UseList::add`] | O(1): two loads and a compare if the memory is listed already |
//! | [`Residency::commit`] within the budget, everything resident | O(memory objects listed + heaps), no driver call |
//! | … otherwise | two readings of the budgets, one of the timelines, O(memory objects log memory objects), a call to evict for each heap, one to make resident; all of this at most twice |

mod eviction;
mod manager;
#[cfg(test)]
mod tests;

pub use manager::{Committed, Residency, ResidencyError, UseList};
