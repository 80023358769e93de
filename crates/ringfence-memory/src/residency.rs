//! Residency: if not everything fits, the memory objects used least recently are evicted, and made resident again
//! before they are used.
//!
//! ```text
//!   list.clear()                      frame = timeline.begin()
//!   list.add(&buffer) …               each resource that the frame uses: two loads, if its block is listed already
//!   residency.commit(&list, &frame)
//!     stamps what is listed with the frame's point
//!     what is listed and evicted ──▶ room? ── no ──▶ evict: lowest priority, then least recently used, of what every
//!                                      │             submission is past
//!                                      └───────────▶ make resident
//!   submit, timeline.submitted(frame)
//! ```
//!
//! Where the program says what is resident ([`Capabilities::residency`](crate::device::Capabilities::residency):
//! Direct3D 12), a heap beyond its budget is paged when the system chooses, or allocations fail. Where the system
//! decides by itself (Vulkan), there is nothing to evict, and [`Residency::commit`] does nothing; there
//! [`Priority`](crate::device::Priority) says what the system should keep resident longest, where
//! [`Capabilities::memory_priority`](crate::device::Capabilities::memory_priority) says that it takes priorities.
//!
//! A memory object, a block or dedicated memory, can be evicted if it is device-local, not mapped by the host, and
//! everything in it is [`evictable`](crate::AllocationDesc::evictable): a single resource that is not evictable keeps
//! its block resident. Put evictable resources into a [`Pool`](crate::Pool) of their own. If something that is not
//! evictable is later allocated in an evicted block, the block is made resident at once.
//!
//! No memory is evicted before all submissions that use it are complete, and none while the heap is within its budget.
//! When an allocation finds no room within the budget, evicting is tried before the caller is asked to release
//! something.
//!
//! # Locks
//!
//! Memory objects are evicted and made resident under one lock, which no allocation takes except one that has to make a
//! block resident. Arenas are not locked meanwhile.
//!
//! | operation | cost |
//! |---|---|
//! | [`UseList::add`] | O(1): a load and a compare if the memory is listed already |
//! | [`Residency::commit`] within the budget, everything resident | O(memory objects listed), no driver call |
//! | … otherwise | a reading of budgets and timelines, O(memory objects log memory objects), a call to evict, one to bring back |

mod manager;
#[cfg(test)]
mod tests;

pub use manager::{Committed, Residency, ResidencyError, UseList};
