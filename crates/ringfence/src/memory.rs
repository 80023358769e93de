//! Memory: which type, which block, which range; when blocks come and go; what is used.
//!
//! ```text
//!   create_buffer(info, desc)
//!        │ requirements
//!        ▼
//!   types ── candidates by location ──▶ arena (memory type × resource class) ──▶ block ──▶ range (TLSF)
//!                                          │ full: a new block, made outside the lock
//!                                          └ too large, or the driver wishes: dedicated
//! ```
//!
//! The order in which things are tried for a request:
//!
//! 1. the memory types that the location allows, best first; for each of them
//! 2. a free range in a block of the arena,
//! 3. a new block: of the arena's present block size, then 1/2, 1/4, 1/8 of it while that still holds the request,
//! 4. memory of its own,
//! 5. then the next memory type; at last [`Error::OutOfMemory`](crate::Error::OutOfMemory) with the numbers.

mod allocator;
mod arena;
mod placing;
mod release;
mod shared;
mod snapshot;
mod statistics;
mod types;

pub use allocator::{Allocator, AllocatorDesc, Reclaimed, ShutdownError};
pub(crate) use arena::Memory;
pub(crate) use placing::Made;
pub(crate) use release::{Backing, RangeOwner};
pub(crate) use shared::{Place, Shared};
pub use snapshot::{BlockSnapshot, HeapSnapshot, RangeSnapshot, RingSnapshot, Snapshot, TypeSnapshot};
pub use statistics::{DriverCalls, Statistics, TypeStatistics};
pub use types::Location;
