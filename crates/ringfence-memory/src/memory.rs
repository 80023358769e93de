//! Memory: which type, which block, which range; when blocks come and go; what is used.
//!
//! ```text
//!   create_buffer(info, desc), allocate(requirements, desc)
//!        │ requirements
//!        ▼
//!   types ── candidates by location ──▶ arena (memory type × resource class)
//!                                          ├ common small size: a cell of a pool              lock-free
//!                                          ├ a range of a block (TLSF)                        one short lock
//!                                          ├ full: a new block, made outside that lock
//!                                          └ too large, or the driver wishes: dedicated
//! ```
//!
//! # The pressure ladder
//!
//! The order in which things are tried for a request:
//!
//! 1. the memory types that the location allows, best first; for each of them
//! 2. a cell or a free range in a block of the arena,
//! 3. a new block of the arena's present block size; if that is refused, what the device is done with is reclaimed, empty
//!    blocks of the heap are given back, and it is tried again;
//! 4. a block of 1/2, 1/4, 1/8 of that, while it still holds the request,
//! 5. memory of its own (not for [`Dedicated::Never`](crate::Dedicated::Never)),
//! 6. then the next memory type;
//! 7. memory that no submission uses is evicted, once, where the program manages [`residency`](crate::residency), and
//!    everything again;
//! 8. the caller's eviction callback ([`Allocator::set_eviction`]), and everything again if it let go of something;
//! 9. a typed error with need, use, budget and what was tried.
//!
//! Budgets: a block that would go beyond the budget is halved like one that is refused; the smallest is asked for all the
//! same, unless the request is [`within_budget`](crate::AllocationDesc::within_budget).
//!
//! # Blocks
//!
//! Nothing is taken until something is asked for. The first block has 4 MiB (device) or 1 MiB (host) on a large heap,
//! and each next one as much as all before together, up to [`AllocatorDesc::device_block_bytes_max`]. One empty block of
//! each arena is kept for good, others for [`AllocatorDesc::empty_block_grace`] frames. With
//! [`Allocator::maintain_in_background`] the next block is made before it is needed; with [`Allocator::reserve`] a program
//! announces what it is going to need.

mod allocation;
mod allocator;
mod arena;
mod block_memory;
mod block_sizes;
mod budget;
mod cells;
mod classes;
pub(crate) mod descriptor_heaps;
mod growth;
mod ladder;
mod low_water;
pub(crate) mod place;
pub(crate) mod placing;
mod plan;
mod pool;
mod quick;
pub(crate) mod release;
mod rename;
pub(crate) mod rings;
pub(crate) mod shared;
pub(crate) mod shortage;
mod small;
mod snapshot;
mod statistics;
mod subject;
mod types;
mod watched;

pub use allocation::Allocation;
pub use allocator::{Allocator, AllocatorDesc, Reclaimed, ShutdownError};
pub(crate) use arena::{BlockFacts, Destinations, Moves, Request, Reserved};
pub(crate) use block_memory::BlockMemory;
pub use budget::Budget;
pub use growth::Maintenance;
pub use ladder::{Evict, Pressure, Tried};
pub(crate) use place::{ArenaRef, Memory, Place};
pub(crate) use placing::Made;
pub use plan::{Plan, PlannedWay};
pub use pool::{Pool, PoolDesc};
pub(crate) use shared::Shared;
pub use small::SmallBuffer;
pub use snapshot::{
    BlockSnapshot, DescriptorSnapshot, HeapSnapshot, RangeSnapshot, RingSnapshot, Snapshot, TypeSnapshot, region,
};
pub use statistics::{DriverCalls, Statistics, TypeStatistics};
pub use types::Location;
