//! Events of an allocator: one type of event, one sink that receives all events, and the sink's subscribers. The crate
//! does not depend on the allocator: events contain numbers, names and addresses, and the trait [`Watched`] gives
//! access to the bytes of memory objects.
//!
//! ```text
//!                                                              ┌─▶ Calls        counters, for statistics
//!   timeline, memory, resource, libraries ── Event ─▶ Observers ┼─▶ Trace        a file, while one is recorded
//!                                                              ├─▶ Debugger     guards, fills, leaks, history; if on
//!                                                              └─▶ slow paths   spans and events of `tracing`, if on
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | an event that no subscriber takes | the loads of [`Observers::is_watching`] |
//! | a call that is counted | an addition to a counter of this thread |
//! | an event that is recorded | see [`trace`] |
//! | an event that debugging records | one lock, and an access to a map of all live ranges |
//!
//! Programs use the modules [`debugging`] and [`trace`] through `ringfence`, which re-exports them. The other items are
//! for the allocator of `ringfence-memory`, and may change in any release.
//!
//! A subscriber may run the program's code: see [`ringfence_hal::lock`]. A report to a `tracing` subscriber is deferred
//! until the thread holds no lock of the library. A panic in deferred code is caught: the panic hook has shown it, and
//! the reported operation has already happened.
#![warn(missing_docs)]

mod calls;
mod debugger;
pub mod debugging;
mod event;
mod guard;
mod observers;
mod recorder;
mod slow_paths;
pub mod trace;
mod watched;

use ringfence_hal as device;

pub use calls::{Call, Calls};
pub use debugger::Debugger;
pub use debugging::DebugDesc;
pub use event::{Event, Key, NewPlace, NewRange, RangeId};
pub use guard::Margins;
pub use observers::{Numbered, Observers};
pub use recorder::Trace;
pub use slow_paths::{SlowPath, Warning};
pub use watched::Watched;

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
