//! What stays near the device when not everything has room: memory objects used least recently are evicted, and brought
//! back before they are used.
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
//! Direct3D 12), a heap beyond its budget means paging at a moment that the system chooses, or failure. Where the
//! system decides by itself (Vulkan), there is nothing to evict, and [`Residency::commit`] does nothing; there
//! [`Priority`](crate::device::Priority) says what the system should keep resident longest, where
//! [`Capabilities::memory_priority`](crate::device::Capabilities::memory_priority) says that it takes priorities.
//!
//! What can be evicted are memory objects, blocks and such as belong to one resource, in memory near the device that
//! the host does not map, and in which everything is [`evictable`](crate::AllocationDesc::evictable): a single resource
//! that is not keeps its block where it is. Put what may go into a [`Pool`](crate::Pool) of its own. If something that
//! is not evictable is later allocated in an evicted block, that is brought back at once.
//!
//! No memory is evicted before all submissions that use it are complete; nothing is evicted but to stay within the
//! budget. When an allocation finds no room within the budget, evicting is tried before the caller is asked to release
//! something.
//!
//! # Locks
//!
//! Evicting and bringing back happen one at a time, under a lock that no allocation takes but one that itself has to
//! bring a block back. Arenas are not locked meanwhile.
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
