//! Residency: if memory is short, the memory used least recently is evicted, and made resident before its next use.
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
//! On devices where the program controls residency
//! ([`Capabilities::residency`](crate::device::Capabilities::residency): Direct3D 12), the system pages the memory of a
//! heap beyond its budget at any time, or allocations fail. Where the system controls residency (Vulkan),
//! [`Residency::commit`] does nothing. There, [`Priority`](crate::device::Priority) says what to keep resident longest,
//! if the device accepts priorities ([`Capabilities::memory_priority`](crate::device::Capabilities::memory_priority)).
//!
//! A memory object (a block or dedicated memory) can be evicted if it is device-local, not mapped by the host, and
//! every resource in it is [`evictable`](crate::AllocationDesc::evictable): a single other resource keeps its block
//! resident. So put evictable resources into a [`Pool`](crate::Pool) of their own. If a resource that is not evictable
//! is allocated in an evicted block, the block is made resident at once.
//!
//! Memory is evicted only once all submissions that use it are complete, and only if its heap is beyond the budget, if
//! listed memory must be made resident beyond the budget, or if an allocation is short of memory. The allocation evicts
//! before it calls the eviction callback.
//!
//! # Locks
//!
//! Memory objects are evicted and made resident under one lock. An allocation takes that lock only if it must make a
//! block resident or evict memory. No arena is locked meanwhile.
//!
//! | operation | cost |
//! |---|---|
//! | [`UseList::add`] | O(1): a load and a compare if the memory is listed already |
//! | [`Residency::commit`] within the budget, everything resident | O(memory objects listed), no driver call |
//! | … otherwise | a reading of budgets and timelines, O(memory objects log memory objects), a call to evict, one to make resident |

mod eviction;
mod manager;
pub(crate) mod state;
#[cfg(test)]
mod tests;

pub use manager::{Committed, Residency, ResidencyError, UseList};
