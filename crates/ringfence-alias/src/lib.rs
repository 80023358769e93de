//! Offsets for the resources of a frame, or other buffers with known lifetimes: buffers that are never alive at the
//! same time can share bytes. `no_std`, no GPU, no graphics API.
//!
//! ```text
//!   space ▲ ┌───────a───────┐ ┌────d────┐      height: the highest end of the plan
//!         │ ├───b───┬───c───┴─┤         │      load: the largest sum of sizes alive at once
//!         └─┴───────┴─────────┴─────────┴─▶ time      bound: the load, or more if alignment forces gaps
//! ```
//!
//! A renderer can place the render targets of a frame with this crate. The problem is known as dynamic storage
//! allocation, or offset assignment with fixed lifetimes, and is NP-hard. This crate places the items by size, the
//! largest first, and repairs the plan: on the three frames in `planner/docs/measured.md` of the repository, the plan
//! by size is at most 0.26 % above the best plan. The crate `ringfence-planner` searches for better plans, for more
//! items and for several heaps, and is useful to compilers of neural networks.
//!
//! ```
//! use ringfence_alias::{Item, Problem, plan, transitions, verify};
//!
//! // Targets of a small frame: size in bytes, first pass that writes it, one past the last pass that reads it.
//! let items = [
//!     Item::new(6 << 20, 0, 2).aligned(256), // shadows
//!     Item::new(4 << 20, 1, 3).aligned(256),
//!     Item::new(6 << 20, 2, 4).aligned(256), // begins as the shadows end
//!     Item::new(2 << 20, 3, 5).aligned(256),
//! ];
//! let problem = Problem::new(&items)?;
//!
//! // The planner has no clock. The closure decides if it continues; here for at most 10,000 steps of work.
//! let mut steps = 0;
//! let plan = plan(&problem, |progress| {
//!     steps += progress.steps;
//!     steps < 10_000
//! });
//!
//! verify(&items, &plan.offsets, plan.height)?; // needs no trust in the planner
//! assert_eq!(plan.height, 10 << 20); // rather than 18 MiB side by side
//! assert!(plan.is_proven()); // no plan is lower
//! assert_eq!(plan.offsets[0], plan.offsets[2]); // the third target has the bytes of the first
//! assert!(!transitions(&items, &plan.offsets).is_empty()); // where a GPU needs a barrier
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Cost
//!
//! Two items *clash* if they cannot share bytes. n is the number of items, uses the number of pairs of an item and a
//! pass that uses it, and members the number of items in a clique (a set of items that all clash).
//!
//! | item | purpose | cost |
//! |---|---|---|
//! | [`Problem`] | checks the items, cuts time, computes the bound | O(n log n); more if alignments differ |
//! | [`plan`] | the plan by size, then repair | O(n²); then until the caller stops it |
//! | [`AliasPlan`] | offsets with height, load and proven bound | – |
//! | [`verify`], [`verify_passes`] | check a plan, independently of the planners | O(n log n), O(uses²) |
//! | [`PassGraph`] | several queues: lifetimes as a partial order | O(edges · passes / 64) |
//! | [`Problem::with_passes`] | a problem with such lifetimes | O(uses² + cliques · members² · n) |
//! | [`plan_keeping`] | replans nearly the same items | O(n² log n) |
//! | [`transitions`] | aliasing barriers | O(n log n) |
//! | [`lower_transitions`] | fewer barriers at the same height | O(n² · columns of an item · log n) per round |
//! | [`suggest_order`] | an order of passes with a lower load | O(passes² · (passes + uses)) per round |
//! | [`pass_edges`] | the dependencies between passes | O(uses · log uses) |
//!
//! [`plan`], [`lower_transitions`] and [`suggest_order`] take a closure that decides if they continue. The same input
//! and the same answers of the closure give the same result. Heights and offsets are in units: bytes for memory.
//!
//! # Limits
//!
//! - No search: a plan is proven only if it reaches the bound.
//! - Mixed alignments: the bound considers one alignment, and the larger ones, at a time. It stacks the items of a
//!   moment only if few of them have less than the largest alignment. A plan can be optimal without a proof.
//! - Unknown lifetimes: use an allocator (`ringfence-core` has some) if lifetimes are not known before the first
//!   allocation.
//! - Trading time for bytes: the planner does not recompute or split a resource. [`suggest_order`] changes the order of
//!   passes, if the caller wants that.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod check;
mod columns;
mod item;
mod keep;
mod lowering;
mod passes;
mod plan;
mod problem;
mod reorder;
mod transitions;
mod uses;

pub use check::{Violation, verify};
pub use item::{Item, ItemError, Lifetime};
pub use keep::{KeptPlan, plan_keeping};
pub use lowering::{Lowering, lower_transitions};
pub use passes::{PassError, PassGraph, PassItem, verify_passes};
pub use plan::{AliasPlan, Progress, plan};
pub use problem::Problem;
pub use reorder::{PassOrder, suggest_order};
pub use transitions::{Transition, transitions};
pub use uses::{PassUse, pass_edges};

#[doc(hidden)]
pub mod internals;

#[cfg(feature = "testing")]
pub mod testing;

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
