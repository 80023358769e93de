//! Residency: if memory is short, the memory objects used least recently are evicted, and made resident again before
//! they are used.
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
//! If the program controls residency ([`Capabilities::residency`](crate::device::Capabilities::residency): Direct3D
//! 12), a heap beyond its budget is paged when the system chooses, or allocations fail. If the system decides by itself
//! (Vulkan), there is nothing to evict, and [`Residency::commit`] does nothing. There,
//! [`Priority`](crate::device::Priority) tells the system what to keep resident longest, if the device takes priorities
//! ([`Capabilities::memory_priority`](crate::device::Capabilities::memory_priority)).
//!
//! A memory object (a block or dedicated memory) can be evicted if it is device-local, not mapped by the host, and
//! everything in it is [`evictable`](crate::AllocationDesc::evictable): a single resource that is not evictable keeps
//! its block resident. Put evictable resources into a [`Pool`](crate::Pool) of their own. If a resource that is not
//! evictable is later allocated in an evicted block, the block is made resident at once.
//!
//! Memory is evicted only once all submissions that use it are complete, and only while the heap is beyond its budget.
//! If an allocation finds no room within the budget, evicting is tried before the eviction callback is called.
//!
//! # Locks
//!
//! Memory objects are evicted and made resident under one lock. An allocation takes that lock only if it must make a
//! block resident. Arenas are not locked meanwhile.
//!
//! | operation | cost |
//! |---|---|
//! | [`UseList::add`] | O(1): a load and a compare if the memory is listed already |
//! | [`Residency::commit`] within the budget, everything resident | O(memory objects listed), no driver call |
//! | … otherwise | a reading of budgets and timelines, O(memory objects log memory objects), a call to evict, one to make resident |

mod manager;
#[cfg(test)]
mod tests;

pub use manager::{Committed, Residency, ResidencyError, UseList};
