//! When the GPU has let go of something: timelines, and the queue of what waits for them.
//!
//! ```text
//!   begin() ──▶ Frame 7 ──record──▶ submit, signalling 7 ──▶ submitted(frame)
//!                 │                                                │
//!                 └── drop(buffer): retired, tagged {timeline: 7}  │
//!                                                                  ▼
//!   reclaim(): reads each timeline once ─── 7 reached? ──▶ object destroyed, range given back
//! ```

mod bin;
mod lane;
pub(crate) mod seat;
pub(crate) mod timeline;
pub(crate) mod try_cell;

pub use bin::RetireBin;
#[cfg(all(test, loom))]
pub(crate) use seat::sit;
pub(crate) use seat::thread_place;
pub use timeline::{Frame, FrameError, SubmittedError, Timeline};
pub(crate) use timeline::{Lifetimes, Passed, Timed, WaitError};
pub(crate) use try_cell::TryCell;
