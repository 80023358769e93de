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
//! # The fallback order
//!
//! The order in which things are tried for a request:
//!
//! 1. the memory types that the location allows, best first; for each of them
//! 2. a cell or a free range in a block of the arena,
//! 3. a new block of the arena's present block size; if that is refused, what the device is done with is reclaimed, empty
//!    blocks of the heap are given back, and it is tried again;
//! 4. a block of 1/2, 1/4, 1/8 of that, while it still holds the request,
//! 5. memory of its own (not for [`Dedicated::Never`]),
//! 6. then the next memory type;
//! 7. memory that no submission uses is evicted, once, where the program manages [`residency`](crate::residency), and
//!    everything again;
//! 8. the caller's eviction callback ([`MemoryBudgets::set_eviction`](crate::memory::MemoryBudgets::set_eviction)), and everything again if it released something;
//! 9. a typed error with need, use, budget and what was tried.
//!
//! Budgets: a block that would go beyond the budget is halved like one that is refused; the smallest is asked for all the
//! same, unless the request is [`within_budget`](crate::AllocationDesc::within_budget).
//!
//! # Blocks
//!
//! Nothing is taken until something is asked for. The first block has 4 MiB (device) or 1 MiB (host) on a large heap,
//! and each next one as much as all before together, up to [`AllocatorDesc::device_block_bytes_max`]. One empty block of
//! each arena is kept always, others for [`AllocatorDesc::empty_block_grace`] frames. With
//! [`Growth::maintain_in_background`](crate::memory::Growth::maintain_in_background) the next block is made before it is needed; with [`Growth::reserve`](crate::memory::Growth::reserve) a program
//! announces what it is going to need.

mod arena;
mod ask;
mod attempt;
mod block_memory;
mod block_sizes;
mod blocks;
mod budget;
mod budgets;
mod cached;
mod cells;
mod classes;
mod debug;
mod decide;
mod desc;
pub(crate) mod descriptor_heaps;
mod eviction;
mod fallback;
mod figures;
mod fit;
mod growth;
mod handle;
mod location;
mod memory_object;
mod note;
pub(crate) mod place;
mod placing;
mod plan;
mod pool_state;
mod prepared;
mod pressure;
mod raw_object;
mod reclaimed;
mod recording;
mod release;
mod rename;
mod request;
mod residence;
mod residents;
mod retired;
mod retirement;
pub(crate) mod rings;
mod shared;
pub(crate) mod shortage;
mod small_state;
mod snapshot;
mod statistics;
mod subject;
mod ticket;
mod trim;
mod types;
mod wake;
mod watched;

pub(crate) use arena::{Arena, ArenaDesc, BlockFacts, Destinations, Reserved, Room};
pub(crate) use ask::Ask;
pub(crate) use block_sizes::BlockSizes;
pub use budget::Budget;
pub use budgets::MemoryBudgets;
pub(crate) use cells::{Cells, Ready};
pub use debug::Debug;
pub use desc::AllocatorDesc;
pub use growth::{Growth, Maintenance};
pub(crate) use handle::Handle;
pub use location::Location;
pub use memory_object::Memory;
pub use place::Place;
pub(crate) use place::{ArenaRef, Common, Hold, SharedBuffer};
pub use placing::Made;
pub use plan::{Plan, PlannedWay, Planner};
pub(crate) use pool_state::PoolState;
pub(crate) use prepared::Prepared;
pub use pressure::{Evict, Pressure, Tried};
pub use raw_object::RawObject;
pub use reclaimed::{Reclaimed, ShutdownError};
pub use recording::Recording;
pub use request::{AllocationDesc, Dedicated};
pub(crate) use residence::Residence;
pub(crate) use residents::{Residents, Scratch};
pub use retirement::Retirement;
pub use shared::Shared;
pub(crate) use shared::{CLASSES, memory_alignment};
pub(crate) use shortage::asking;
pub(crate) use small_state::{SHARED_BYTES, SmallState, UsageClass};
pub use snapshot::{
    BlockSnapshot, DescriptorSnapshot, HeapSnapshot, RangeSnapshot, RingSnapshot, Snapshot, TypeSnapshot, region,
};
pub(crate) use statistics::count;
pub use statistics::{DriverCalls, Statistics, TypeStatistics};
pub(crate) use subject::{Bytes, BytesFor, Subject};
pub(crate) use ticket::Ticket;
