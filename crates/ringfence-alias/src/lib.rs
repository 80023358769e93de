//! Packing of lifetimes into bytes: offsets for buffers whose lifetimes are known, so that those never alive together
//! share bytes. `no_std`, no GPU, no graphics API.
//!
//! ```text
//!   space ▲ ┌───────a───────┐ ┌────d────┐      height: what the plan needs
//!         │ ├───b───┬───c───┴─┤         │      bound: the largest sum of sizes alive at once
//!         └─┴───────┴─────────┴─────────┴─▶ time
//! ```
//!
//! A compiler for neural networks plans its tensors with it, a renderer the render targets of a frame. The problem is
//! known as dynamic storage allocation, or offset assignment with fixed lifetimes. It is NP-hard. Of the 21 frames,
//! networks and challenges that `docs/planner.md` of the repository measures, 19 have a plan that is proven the best
//! there is.
//!
//! ```
//! use ringfence_alias::{Item, Problem, plan, transitions, verify};
//!
//! // Tensors of a small network: bytes, the step that writes it first, the step after the one that reads it last.
//! let items = [
//!     Item::new(6 << 20, 0, 2).aligned(256), // the input
//!     Item::new(4 << 20, 1, 3).aligned(256),
//!     Item::new(6 << 20, 2, 4).aligned(256), // begins as the input ends
//!     Item::new(2 << 20, 3, 5).aligned(256), // the output
//! ];
//! let problem = Problem::new(&items)?;
//!
//! // The planner has no clock. The closure says whether to go on; here after at most 10,000 steps of work.
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
//! # What it costs
//!
//! n is the number of items.
//!
//! | what | how | cost |
//! |---|---|---|
//! | [`Problem`] | items checked, time cut into sections, the bound | O(n log n), O(n) of few moments |
//! | [`plan`] | greedy orders, then a search (below) | first plan O(n²) ¹; then as long as the caller says |
//! | [`AliasPlan`] | offsets with their proof: height, load, proven bound | – |
//! | [`verify`], [`verify_passes`] | proves a plan; shares no code with the planners | O(n log n), O(n²) |
//! | [`PassGraph`] | several queues: lifetimes as a partial order | O(n³ / 64) |
//! | [`RecurringItem`] | buffers alive several times, at one offset | O(n²) |
//! | [`class_costs`] | heap tier 1: classes apart or together | two plans |
//! | [`PlanCache`], [`plan_keeping`] | the same items again; almost the same items again | O(n), O(n² log n) |
//! | [`plan_heaps`] | several heaps, pinned offsets, granularity pages | O(n²) an order |
//! | [`replan_heaps`] | such a plan after a small change | O(n log n + n · changes) |
//! | [`verify_heaps`] | proves such a plan | O(n log n) |
//! | [`transitions`] | aliasing barriers | O(n log n) |
//! | [`lower_transitions`] | fewer of them at the same height | O(n² · columns of an item) a round |
//! | [`suggest_order`], [`pass_edges`] | an order of passes with a lower bound | O(passes² · uses) a round |
//!
//! ¹ O(n log n) for more than 1,536 items, O(n) for more than 80,000.
//!
//! The search is exact; of up to 64 items beam searches from the top down take turns with it, which know what is left
//! of each moment needs, and it learns from failures; where alignments are mixed a low stack of what is
//! fullest comes first. For more than 1,536 items it is for the fullest moments alone, and greedy orders and local repair
//! follow.
//!
//! The example `alias_cases` writes `docs/planner.md`: frames of O3DE, MiniMalloc's challenge, networks of XLA and TVM.
//!
//! Whatever takes long takes a closure that says whether to go on. A plan exists from the first greedy order on, and
//! planning stops as soon as it is proven. The same input and the same answers give the same plan.
//! Heights and offsets are in units: bytes for memory.
//!
//! # What it is not good at
//!
//! - More than 1,536 items: there the exact search is left out. The greedy plans are repaired, and proven only if they
//!   reach the bound.
//! - Mixed alignments: of more than 64 items the bound takes one alignment at a time, with those above it, and stacks
//!   what is alive at once only where few items are of less than the largest. A plan may be the best and yet not proven.
//! - Lifetimes that are not known before the first allocation: that is the work of an allocator (`ringfence-core` has
//!   some).
//! - Several heaps: greedy orders and what is better near them; proven are some ten items, and plans at the load.
//! - Several threads: [`plan`] uses one. With the feature `threads` (which needs the standard library) `plan_with` uses
//!   as many as it is given, and gives the same plan for any number of them.
//! - Trading bytes for time: it plans what it is given. It recomputes no tensor, splits none and moves none while it is
//!   alive;
//!   [`suggest_order`] changes the order of passes, if the caller wants that.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "threads")]
extern crate std;

mod again;
mod asking;
mod beam;
mod bound;
mod check;
mod classes;
mod columns;
mod counted;
mod exact;
mod greedy;
mod heaps;
mod hottest;
mod item;
mod keep;
mod learning;
mod lowering;
mod order;
mod passes;
mod piling;
mod plan;
mod portfolio;
mod problem;
mod random;
mod recurring;
mod reorder;
mod repair;
mod reuse;
mod runs;
mod sections;
mod shape;
mod sizes;
mod stack;
mod stacking;
mod sweep;
#[cfg(feature = "threads")]
mod threads;
mod transitions;
mod uses;

pub use check::{Violation, verify};
pub use classes::{ClassCosts, ClassPlan, class_costs};
pub use greedy::Fit;
pub use heaps::{
    Heap, HeapError, HeapItem, HeapOffset, HeapPlan, HeapProblem, HeapViolation, ReplannedHeaps, plan_heaps,
    replan_heaps, verify_heaps,
};
pub use item::{Item, ItemClass, ItemError, Lifetime};
pub use keep::{KeptPlan, plan_keeping};
pub use lowering::{Lowering, lower_transitions};
pub use order::Order;
pub use passes::{PassError, PassGraph, PassItem, verify_passes};
pub use plan::{AliasPlan, GREEDY_WHOLE, Policy, Progress, plan, plan_by};
pub use problem::Problem;
pub use recurring::RecurringItem;
pub use reorder::{PassOrder, suggest_order};
pub use reuse::{DeclaredFrame, Fingerprint, PlanCache};
#[cfg(feature = "threads")]
pub use threads::{PlanDesc, plan_with};
pub use transitions::{Transition, transitions};
pub use uses::{PassUse, pass_edges};

#[cfg(feature = "testing")]
pub mod testing;
