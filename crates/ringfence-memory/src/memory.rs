//! Memory: which type, which block, which range; when blocks come and go; what is used.
//!
//! ```text
//!   create_buffer(info, desc), allocate(requirements, desc)
//!        │ requirements
//!        ▼
//!   types ── candidates by location ──▶ arena (memory type × resource class)
//!                                          ├ common small size: a slot of a pool              lock-free
//!                                          ├ a range of a block (TLSF)                        one short lock
//!                                          ├ full: a new block, made outside that lock
//!                                          └ too large, or the driver wishes: dedicated
//! ```
//!
//! # The fallback order
//!
//! The order in which things are tried for a request:
//!
//! 1. the memory types that the location allows and whose heap is not smaller than the request, best first; for each of
//!    them
//! 2. a slot of a size class or a free range in a block of the arena,
//! 3. a new block of the arena's present block size; if the driver refuses it, retired objects that the device is done
//!    with and recycled ones are destroyed, all that is empty in the heap is freed (blocks, those of placements too, and
//!    buffers that small ones shared; in every heap, if there are too many memory objects), and the block is tried again;
//! 4. a block of 1/2, 1/4, 1/8 of that, while it still holds the request,
//! 5. then the next memory type;
//! 6. at last dedicated memory, in each type (not for [`Dedicated::Never`]). Requests that are too large for a block, or
//!    for which the driver prefers it, get dedicated memory of each type in step 2, the latter with a block after it;
//! 7. everything again, once, if objects were destroyed in step 3: blocks that are in use may have room now. A request
//!    that may not grow, or of a full pool, destroys them here;
//! 8. memory that no submission uses is evicted, once, where the program manages [`residency`](crate::residency), and
//!    everything again;
//! 9. the caller's eviction callback ([`MemoryBudgets::set_eviction`](crate::memory::MemoryBudgets::set_eviction)), and
//!    everything again if it released something, at most 8 times;
//! 10. a typed error with size, usage, budget and what was tried.
//!
//! What the driver refuses is remembered: as long as nothing is freed in the heap and its budget does not change, a
//! request of as many bytes goes on with the next step without a driver call. Before a request fails, every step is
//! tried without that.
//!
//! Budgets: a block that would exceed the budget is halved like one that is refused; the smallest is requested
//! nevertheless, unless the request is [`within_budget`](crate::AllocationDesc::within_budget). A limit that the caller
//! has set is never exceeded.
//!
//! # Blocks
//!
//! No memory is allocated before the first request. The first block has 4 MiB (device) or 1 MiB (host) on a large heap,
//! each further one is twice as large as the one before it, up to [`AllocatorDesc::device_block_bytes_max`]. One empty
//! block of each arena is kept always, others for [`AllocatorDesc::empty_block_grace`] calls of `reclaim`. With
//! [`maintain_in_background`](crate::memory::MemoryBudgets::maintain_in_background) a thread makes the next block before
//! it is needed; with [`reserve`](crate::memory::MemoryBudgets::reserve) a program announces what it is going to need.
//!
//! Where the device allows few memory objects, the last three quarters of them are spent with care: a resource gets the
//! dedicated memory that the driver prefers only if it is at least as large as an object's share of the device's
//! memory, and blocks are so large that the objects that are left can hold the memory that is left.

mod arena;
mod block_memory;
mod blocks;
mod bound;
mod budget;
mod classes;
mod decide;
mod desc;
pub(crate) mod descriptor_heaps;
mod driver_memory;
mod eviction;
mod figures;
mod growth;
mod libraries;
mod location;
mod memory_budgets;
mod memory_object;
mod note;
pub(crate) mod place;
mod placing;
mod plan;
mod pool_state;
mod pressure;
mod recycle;
mod refusals;
mod release;
mod request;
mod residence;
mod retired;
pub(crate) mod rings;
mod self_placed;
mod shared;
mod shells;
pub(crate) mod shortage;
mod small_state;
mod trim;
mod types;
mod unbound;
mod watching;

pub(crate) use arena::{Arena, ArenaDesc, BlockFacts, Destinations, PassLimits, Reserved};
pub use bound::ResourceKind;
pub(crate) use bound::{Bound, Item, SmallBound};
pub use budget::Budget;
pub use desc::AllocatorDesc;
pub use growth::Maintenance;
pub use location::Location;
pub use memory_budgets::MemoryBudgets;
pub use memory_object::{Memory, RawObject};
pub use place::Place;
pub(crate) use place::{ArenaRef, Common, Hold, SharedBuffer};
pub use placing::Made;
pub(crate) use placing::{Bytes, BytesFor, Origin, PlacementRequest, Prepared, Unplaced};
pub use plan::{Plan, PlannedWay, Planner};
pub(crate) use pool_state::PoolState;
pub use pressure::{Evict, Pressure, Tried};

pub(crate) use recycle::name_bits;
pub use release::Retirement;
pub(crate) use request::grained;
pub use request::{AllocationDesc, Dedicated};
pub(crate) use residence::{Residence, Residents, Scratch};
pub use retired::{Reclaimed, ShutdownError};
pub use shared::Shared;
pub(crate) use shared::{CLASSES, Handle, memory_alignment};

pub(crate) use ringfence_lockfree::ticket::Ticket;
pub use ringfence_trace::{
    BlockSnapshot, DescriptorSnapshot, DriverCalls, HeapSnapshot, RangeSnapshot, RingSnapshot, Snapshot, Statistics,
    TypeSnapshot, TypeStatistics, region,
};
pub(crate) use shortage::retry_after_eviction;
pub(crate) use small_state::{SHARED_BYTES, SmallState, UsageClass};
pub use watching::{Debug, Recording};
