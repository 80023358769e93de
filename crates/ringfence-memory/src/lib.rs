//! GPU memory and its lifetimes: policy over any device of `ringfence-hal`.
//!
//! ```text
//!   Allocator          the user's interface
//!     │
//!     ├── defrag   residency   sharing     independent of each other
//!     ▼
//!   resource           Buffer, Texture: one owner, drop retires
//!     ▼
//!   memory             decision on a request → block → range; growth; release
//!     ▼
//!   ringfence-decision, ringfence-timeline, ringfence-observe     crates below, which do not know the allocator
//! ```
//!
//! Most programs use this crate through `ringfence`, which adds rings, descriptors, transient memory and the backends.
//! The interface that those parts are built on is public in [`extend`].
#![warn(missing_docs)]

mod allocator;
pub mod defrag;
pub mod extend;
pub mod memory;
pub mod residency;
pub mod resource;
pub mod sharing;

use ringfence_hal as device;
#[cfg(test)]
use ringfence_sim as sim;

pub use allocator::Allocator;
pub use memory::{
    AllocationDesc, AllocatorDesc, Budget, Dedicated, Location, Maintenance, Plan, PlannedWay, Pressure, RawObject,
    Reclaimed, Tried,
};
pub use resource::{AccessError, Allocation, Buffer, Pool, PoolDesc, Resource, ResourceKind, SmallBuffer, Texture};
pub use ringfence_core::sync::{SyncPoint, SyncSet, TimelineId};
pub use ringfence_decision::Error;
pub use ringfence_observe::{DebugDesc, debugging, trace};
pub use ringfence_timeline::{Frame, FrameError, Timeline};
pub use sharing::{ShareError, SharedMemory};

pub mod lifetime {
    //! Lifetimes on the GPU: timelines, the queue of retired objects, and replacing a resource that may be in use.
    //!
    //! ```text
    //!   begin() ──▶ Frame 7 ──record──▶ submit, signalling 7 ──▶ submitted(frame)
    //!                 │                                                │
    //!                 └── drop(buffer): retired, tagged {timeline: 7}  │
    //!                                                                  ▼
    //!   reclaim(): reads each timeline once ─── 7 reached? ──▶ object destroyed, range free again
    //! ```

    pub use crate::resource::{BufferCopy, MipCopy, MipSwap, ReplaceError};
    pub use ringfence_timeline::{Frame, FrameError, RetireBin, Timeline};
}

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
