//! Strong plans for buffers with known lifetimes: buffers that are never alive at the same time can share bytes.
//! `no_std`, no GPU, no graphics API.
//!
//! ```text
//!   space ▲ ┌───────a───────┐ ┌────d────┐      height: the highest end of the plan
//!         │ ├───b───┬───c───┴─┤         │      bound: the largest sum of sizes alive at once
//!         └─┴───────┴─────────┴─────────┴─▶ time
//! ```
//!
//! A compiler for neural networks can use it to place tensors. The problem is known as dynamic storage allocation, or
//! offset assignment with fixed lifetimes. It is NP-hard. `docs/measured.md` beside this crate measures 21 frames,
//! networks and challenges; for 19 of them the planner finds a plan and proves that it is optimal. A renderer can use
//! `ringfence-alias`, which this crate is built on: it makes a plan by size for the resources of a frame, with less
//! code.
//!
//! ```
//! use ringfence_planner::{Item, Problem, plan, transitions, verify};
//!
//! // Tensors of a small network: size in bytes, first step that writes it, one past the last step that reads it.
//! let items = [
//!     Item::new(6 << 20, 0, 2).aligned(256), // the input
//!     Item::new(4 << 20, 1, 3).aligned(256),
//!     Item::new(6 << 20, 2, 4).aligned(256), // begins as the input ends
//!     Item::new(2 << 20, 3, 5).aligned(256), // the output
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
//! assert_eq!(plan.offsets[0], plan.offsets[2]); // the third tensor has the bytes of the first
//! assert!(!transitions(&items, &plan.offsets).is_empty()); // where a GPU needs a barrier
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Cost
//!
//! n is the number of items. The other items are re-exported from `ringfence-alias`, which has a table of its own.
//!
//! | item | purpose | cost |
//! |---|---|---|
//! | [`plan`] | greedy orders, then a search (below) | first plan O(n²) ¹; then until the caller stops it |
//! | [`plan_by`] | the plan of one greedy policy | O(n²) |
//! | [`RecurringItem`] | buffers with several lifetimes and one offset | O(n²) |
//! | [`plan_heaps`] | several heaps, pinned offsets, granularity pages | O(n²) per order |
//! | [`replan_heaps`] | repairs a plan of several heaps after a small change | O(n log n + n · changes) |
//! | [`verify_heaps`] | checks a plan of several heaps; shares no code with the planners | O(n log n) |
//!
//! ¹ O(n log n) for more than 1,536 items, O(n) for more than 80,000.
//!
//! The search is exact. For up to 64 items it alternates with beam searches, which place items from the top down and
//! know how much space the remaining items of each moment need, and with a search that learns from failures. For mixed
//! alignments, a low stack of the items of the fullest moment comes first. For more than 1,536 items the exact search
//! plans only the fullest moments; greedy orders and local repair plan the rest.
//!
//! The example `alias_cases` prints `docs/measured.md`: frames of O3DE, MiniMalloc's challenge, networks of XLA and
//! TVM.
//!
//! Each long operation takes a closure that decides if it continues. A plan exists after the first greedy order.
//! Planning stops as soon as the plan is proven optimal. The same input and the same answers of the closure give the
//! same plan. Heights and offsets are in units: bytes for memory.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `threads` | `plan_with`: plans on several threads; needs the standard library |
//! | `formats` | `formats`: dumps of XLA and TVM as rows; needs the standard library |
//! | `testing` | generated plans, for the fuzz targets |
//!
//! # Limits
//!
//! - More than 1,536 items: no exact search of the whole problem. Greedy plans are repaired, and are proven only if
//!   they reach the bound.
//! - Mixed alignments: for more than 64 items the bound considers one alignment, and the larger ones, at a time. It
//!   stacks the items of a moment only if few of them have less than the largest alignment. A plan can be optimal
//!   without a proof.
//! - Several heaps: greedy orders and local improvement. Only plans of about ten items, and plans at the lower bound,
//!   are proven.
//! - Several threads: [`plan`] uses one. With the feature `threads`, `plan_with` uses several, and gives the same plan
//!   for any number of threads if the closure cuts no round short.
//! - Trading time for bytes: the planner does not recompute, split or move a tensor. [`suggest_order`] changes the
//!   order of passes, if the caller wants that.
#![cfg_attr(not(feature = "formats"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(all(feature = "threads", not(feature = "formats")))]
extern crate std;

mod again;
mod beam;
mod exact;
#[cfg(feature = "formats")]
pub mod formats;
mod heaps;
mod hottest;
mod learning;
mod mending;
mod order;
mod piling;
mod plan;
mod portfolio;
mod recurring;
mod runs;
mod stack;
mod sweep;
#[cfg(feature = "threads")]
mod threads;

// The modules of this crate name them as if they were its own.
use ringfence_alias::internals::{
    asking, bound, cliques, counted, greedy, limits, random, repair, sections, shape, sizes, stacking,
};

pub use greedy::Fit;
pub use heaps::{
    Heap, HeapError, HeapItem, HeapOffset, HeapPlan, HeapProblem, HeapViolation, ReplannedHeaps, plan_heaps,
    replan_heaps, verify_heaps,
};
pub use order::Order;
pub use plan::{GREEDY_WHOLE, Policy, plan, plan_by};
pub use recurring::RecurringItem;
pub use ringfence_alias::{
    AliasPlan, Item, ItemError, KeptPlan, Lifetime, Lowering, PassError, PassGraph, PassItem, PassOrder, PassUse,
    Problem, Progress, Transition, Violation, lower_transitions, pass_edges, plan_keeping, suggest_order, transitions,
    verify, verify_passes,
};
#[cfg(feature = "threads")]
pub use threads::{PlanDesc, plan_with};

#[cfg(feature = "testing")]
pub mod testing;
