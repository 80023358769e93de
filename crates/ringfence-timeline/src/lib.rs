//! Timelines: a queue's progress and pending submissions. A [bin](RetireBin) contains items that wait for points on
//! timelines.
//!
//! ```text
//!            completed          submitted       begun
//!   ───1────2────3────4────5────────6──────7──────8───▶ value
//!                │◀── the GPU runs ──▶│◀─ recorded ─▶│
//!                                            └ open frames
//! ```
//!
//! `completed ≤ submitted ≤ begun`. Any submission that has begun may use an object that is retired now. So the object
//! waits until the timeline has reached `begun`. If a timeline has completed every submission that has begun, an object
//! that is retired then does not wait for this timeline.
//!
//! # How a frame ends
//!
//! | end | declares | objects that were in use while the frame was open |
//! |---|---|---|
//! | [`Timeline::submitted`] | the value will be signalled | wait for its value |
//! | [`Frame::discard`] | it was not and will not be submitted | do not wait for it |
//! | dropped | nothing | wait until its value or a later one is reached, like all objects retired before that |
//!
//! Two frames never get the same value. Objects that wait for the value of a discarded frame are released when a later
//! value is signalled. If no later frame was submitted or dropped and no earlier frame is open, they are released as
//! soon as all earlier frames are complete. An early return or a panic drops a frame, before or after the submission. A
//! dropped frame is *unresolved* until the fence has reached its value. Submissions of one timeline complete in order,
//! so the signal of a later frame resolves the dropped frame too. Every wait for an unresolved frame has a limit,
//! because its value may never be signalled.
//!
//! | operation | cost |
//! |---|---|
//! | begin, submitted, discard, drop of a frame | O(open frames), one short lock of this timeline |
//! | the set of points that a release waits for | O(timelines), two atomic reads each |
//! | reading progress | O(timelines), one driver call each |
//!
//! Programs use this crate through `ringfence`, as `ringfence::lifetime`. [`Lifetimes`], [`Timed`], [`OpenFrame`],
//! [`Passed`] and [`WaitError`] are for the allocator of `ringfence-memory` and for libraries that build on it.
#![warn(missing_docs)]

mod frame;
mod lifetimes;
#[cfg(all(test, loom))]
mod models;
mod primitive;
mod timeline;

use ringfence_hal as device;
#[cfg(all(test, loom))]
use ringfence_sim as sim;

pub use frame::{Frame, FrameError, OpenFrame};
pub use lifetimes::{Lifetimes, Passed, WaitError};
pub use ringfence_lockfree::retire_bin::RetireBin;
pub use timeline::{Timed, Timeline};

/// The README, with its examples compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
