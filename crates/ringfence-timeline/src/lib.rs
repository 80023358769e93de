//! Timelines: a queue's progress and pending submissions. A [bin](RetireBin) contains items that wait for them.
//!
//! ```text
//!            completed          submitted       begun
//!   ───1────2────3────4────5────────6──────7──────8───▶ value
//!                │◀── the GPU runs ──▶│◀─ recorded ─▶│
//!                                            └ open frames
//! ```
//!
//! `completed ≤ submitted ≤ begun`. An object that is retired now may be used by any submission that has begun, so it
//! waits for `begun`. If a timeline has completed every submission that was begun, no object waits for it.
//!
//! # How a frame ends
//!
//! | end | declares | objects that were in use while the frame was open |
//! |---|---|---|
//! | [`Timeline::submitted`] | the value will be signalled | wait for its value |
//! | [`Frame::discard`] | it was not and will not be submitted | do not wait for it |
//! | dropped | nothing: an early return or a panic may have come before or after the submission | wait until its value or a later one is reached, as do all objects that are retired before that |
//!
//! Two frames never get the same value. Objects that wait for the value of a discarded frame are released with the next
//! value that is signalled, or as soon as all earlier submissions are complete. A dropped frame is *unresolved* until
//! the fence has reached its value. Submissions of one timeline complete in order, so the signal of a later frame
//! resolves the dropped frame too. Every wait for an unresolved frame has a limit, because its value may never be
//! signalled.
//!
//! | operation | cost |
//! |---|---|
//! | begin, submitted, discard, drop of a frame | O(open frames), one short lock of this timeline |
//! | the set of points that a release waits for | O(timelines), one atomic read each |
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

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
