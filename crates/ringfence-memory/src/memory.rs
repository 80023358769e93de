//! Memory: choosing the memory type, the block and the range; creating and freeing blocks; usage and budgets.
//!
//! ```text
//!   create_buffer(info, desc), allocate(requirements, desc)
//!        │ requirements
//!        ▼
//!   types ── candidates by location ──▶ arena (memory type × resource class)
//!                                          ├ common small size: a slot of a pool              lock-free
//!                                          ├ a range of a block (TLSF)                        one short lock
//!                                          ├ full: a new block, created outside that lock
//!                                          └ too large, or preferred by the driver: dedicated
//! ```
//!
//! # The fallback order
//!
//! The allocator tries these steps for a request:
//!
//! 1. Steps 2 to 4 for the best memory type that the location allows and that has a large enough heap.
//! 2. A slot of a size class, or a free range in a block of the arena.
//! 3. A new block of the arena's current block size. If the block exceeds a limit or the driver refuses it, the
//!    allocator destroys retired objects that the device is done with, and recycled objects. It frees everything empty
//!    in the heap (in every heap, if there are too many memory objects): blocks, also those of placements
//!    (`ringfence-placement`), and buffers that small buffers shared. Then it tries the block again.
//! 4. A block of 1/2, 1/4 and 1/8 of that size, if the request fits in it.
//! 5. Steps 2 to 4 for the next memory type, until all types were tried.
//! 6. Dedicated memory, in each type. This step is left out with [`Dedicated::Never`] and in custom pools. If the
//!    driver requires dedicated memory, if the request is for shared memory or [`Dedicated::Always`], or (with
//!    [`Dedicated::Auto`]) if it is larger than half of the largest block, dedicated memory replaces steps 2 to 4. If
//!    the driver only prefers it, [`Dedicated::Auto`] tries dedicated memory before step 2 of each type.
//! 7. All steps again, once, if objects were destroyed in step 3, because blocks that are in use may have room now. If
//!    the request may not grow, or its pool is full, the objects are destroyed in this step.
//! 8. If the program manages [`residency`](crate::residency), unused memory is evicted, once, and all steps are
//!    repeated.
//! 9. The caller's eviction callback ([`MemoryBudgets::set_eviction`](crate::memory::MemoryBudgets::set_eviction)). If
//!    it released memory, all steps are repeated, at most 8 times.
//! 10. A typed error with size, usage, budget and the steps that were tried.
//!
//! If the driver was out of memory, a request of the same size or larger skips the call until memory is freed in the
//! heap or its budget changes. Before a request fails, every step is tried without this shortcut.
//!
//! If a block would exceed the budget, the next smaller size is tried. The smallest size may exceed the budget, unless
//! the request is [`within_budget`](crate::AllocationDesc::within_budget). No block exceeds the caller's limits.
//!
//! # Blocks
//!
//! No memory is allocated before the first request. On a large heap the first block of an arena has 4 MiB (device) or 1
//! MiB (host) by default. Each further block has twice the size of the previous one, up to 32 MiB. Later blocks have
//! about 1/32 of the bytes of all blocks of the arena, up to [`AllocatorDesc::device_block_bytes_max`] or
//! [`AllocatorDesc::host_block_bytes_max`]. Empty blocks are kept for the next requests, within the limits of
//! [`EmptyBlocks`](ringfence_core::empty_blocks::EmptyBlocks). With
//! [`maintain_in_background`](crate::memory::MemoryBudgets::maintain_in_background) a thread creates the next block
//! before it is needed. With [`reserve`](crate::memory::MemoryBudgets::reserve) a program announces future requests.
//!
//! Once a quarter of the memory objects that the device allows exists, the others are used sparingly. A resource for
//! which the driver only prefers dedicated memory gets it if its size is at least the device's memory divided by the
//! number of allowed objects. From three quarters on, no such resource gets it. Blocks become so large that the
//! remaining objects can hold the remaining memory, up to an eighth of the heap.

mod blocks;
mod box_cache;
pub(crate) mod descriptor_heaps;
mod driver_memory;
mod excess;
mod extension;
mod figures;
mod growth;
mod memory_budgets;
mod paged;
pub(crate) mod place;
mod placed_object;
mod placing;
mod plan;
mod pool;
mod recording;
mod recycle;
mod release;
mod retired;
pub(crate) mod rings;
mod self_placed;
mod shared;
pub(crate) mod shortage;
mod small_buffers;
mod trim;

pub use excess::OnExcess;
pub use growth::Maintenance;
pub use memory_budgets::MemoryBudgets;
pub use place::Place;
pub(crate) use place::{ArenaRef, PlaceKind, SharedBuffer, SharedPlace};
pub use placed_object::ResourceKind;
pub(crate) use placed_object::{Item, PlacedObject, PlacedSmallBuffer};
pub use placing::Made;
pub(crate) use placing::{Bytes, BytesFor, Origin, PlacementRequest, Prepared, Unplaced};
pub use plan::{Plan, PlannedWay, Planner};
pub(crate) use pool::PoolState;
pub(crate) use ringfence_arena::{Arena, ArenaDesc, BlockFacts, Destinations, PassLimits, Reserved};
pub use ringfence_arena::{Memory, RawObject};

pub(crate) use recycle::name_bits;
pub use release::Retirement;
pub use retired::{Reclaimed, ShutdownError};
pub use shared::Shared;
pub(crate) use shared::{CLASSES, Handle, memory_alignment};

pub use recording::{Debug, Recording};
pub use ringfence_decision::{AllocationDesc, AllocatorDesc, Budget, Dedicated, Evict, Location, Pressure, Tried};
pub(crate) use ringfence_lockfree::ticket::Ticket;
pub use ringfence_trace::{
    BlockSnapshot, DescriptorSnapshot, DriverCalls, HeapSnapshot, RangeSnapshot, RingSnapshot, Snapshot, Statistics,
    TypeSnapshot, TypeStatistics, region,
};
pub(crate) use shortage::retry_after_eviction;
pub(crate) use small_buffers::{SHARED_BYTES, SmallState, UsageClass};
