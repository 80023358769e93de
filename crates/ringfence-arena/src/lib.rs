//! Memory objects of the driver, and the arenas that divide them: the blocks of one memory type and one resource class.
//!
//! ```text
//!   Request ──▶ Arena ──┬─ slot                    common small sizes, no lock
//!                       ├─ range of a block        one short lock
//!                       └─ no room: sizes to try   the caller creates a memory object, and inserts it as a block
//! ```
//!
//! | part | contents |
//! |---|---|
//! | `memory_object` | a memory object with its properties, and the driver's buffers and textures |
//! | `residence` | the state of a memory object that can be evicted, and the list of these objects |
//! | `block_memory` | a reference from a range to the memory of its block, without a reference count |
//! | `request` | a request that an arena serves, and the record of a range |
//! | `arena` | the arena; compaction of its blocks; empty blocks above the limit |
//!
//! An arena never calls the driver. All items are for the allocator of `ringfence-memory`, and may change in any
//! release.

mod arena;
mod block_memory;
mod memory_object;
mod request;
mod residence;

use ringfence_hal as device;

pub use arena::*;
pub use block_memory::BlockMemory;
pub use memory_object::{Memory, RawObject};
pub use request::{RangeInfo, Request, range_snapshot};
pub use residence::*;

/// The README, with its examples compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
