//! Requests for memory, and the decision on them: which memory type a request gets, in a block or as dedicated memory,
//! and how much the budgets of the heaps still allow. The crate allocates no device memory; the allocator of
//! `ringfence-memory` executes the decision.
//!
//! ```text
//!   AllocationDesc, Requirements ──┐
//!   TypeOrder, Classes ────────────┼─▶ decide ──▶ Step, Step, …     memory type; block or dedicated memory
//!   AllocatorDesc, Capabilities ───┘
//!   Budgets ── take(heap, bytes, reach) ──▶ Taken, or a limit is exceeded ──▶ Error, with the numbers
//!   Refusals ── covers(type, kind, bytes) ──▶ the driver would refuse again
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | the steps of a request | O(memory types); no lock, no driver call, no host allocation |
//! | the figures of a heap | a few loads |
//! | reading the driver's budgets | one driver call |
//!
//! Programs use this crate through `ringfence`, which re-exports the descriptions, [`Budget`] and [`Error`]. The other
//! items are for the allocator of `ringfence-memory`, and may change in any release.
#![warn(missing_docs)]

mod attempt;
mod budget;
mod classes;
mod decide;
mod desc;
mod error;
mod location;
mod pressure;
mod refusals;
mod request;
mod types;

use ringfence_hal as device;
#[cfg(test)]
use ringfence_sim as sim;

pub use attempt::{Attempt, Constraints, Failure, ObjectRequest};
pub use budget::{Budget, Budgets, Reach, Taken};
pub use classes::Classes;
pub use decide::{PoolView, Step, View, Way, decide, is_plain, padded, plain_types};
pub use desc::{AllocatorDesc, block_sizes};
pub use error::Error;
pub use location::Location;
pub use pressure::{Evict, Pressure, Tried};
pub use refusals::{ObjectKind, Refusals};
pub use request::{AllocationDesc, Dedicated, aligned, grained, rounded};
pub use types::TypeOrder;

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
