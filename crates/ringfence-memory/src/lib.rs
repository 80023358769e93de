//! GPU memory and its lifetimes: policy over any device of `ringfence-hal`.
//!
//! ```text
//!   Allocator          what a user sees
//!     │
//!     ├── defrag   residency   sparse   sharing     side by side
//!     ▼
//!   resource           Buffer, Texture: one owner, drop retires
//!     ▼
//!   memory             request → memory type → block → range; budgets; growth
//!     ▼
//!   lifetime           timelines, frames, what has passed
//!     ▼
//!   trace, debugging   what happened
//! ```
//!
//! Most programs use it through the crate `ringfence`, which adds rings, descriptors, transient memory and the backends.
//! What those are built on is in [`extend`], for anyone who builds more of the kind.
#![warn(missing_docs)]

mod allocator;
pub mod defrag;
mod error;
pub mod extend;
pub mod lifetime;
pub mod memory;
mod observe;
mod primitive;
pub mod residency;
pub mod resource;
pub mod sharing;
pub mod sparse;

use ringfence_hal as device;
#[cfg(test)]
use ringfence_sim as sim;

pub use allocator::Allocator;
pub use error::{AccessError, Error};
pub use lifetime::{Frame, FrameError, SubmittedError, Timeline};
pub use memory::{
    AllocationDesc, AllocatorDesc, Budget, Dedicated, Location, Maintenance, Plan, PlannedWay, Pressure, RawObject,
    Reclaimed, Tried,
};
pub use observe::{DebugDesc, debugging, trace};
pub use resource::{Allocation, Buffer, Pool, PoolDesc, Resource, ResourceKind, SmallBuffer, Texture};
pub use ringfence_core::sync::{SyncPoint, SyncSet, TimelineId};
pub use sharing::{ShareError, SharedMemory};
