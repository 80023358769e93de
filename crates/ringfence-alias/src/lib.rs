//! Aliasing: offsets for buffers and textures whose lifetimes are known, so that those never alive together share bytes.
//!
//! ```text
//!   space ▲ ┌───────a───────┐ ┌────d────┐      height: what the plan needs
//!         │ ├───b───┬───c───┴─┤         │      bound: the largest sum of sizes alive at once
//!         └─┴───────┴─────────┴─────────┴─▶ time
//! ```
//!
//! The problem is known as dynamic storage allocation, or offset assignment with fixed lifetimes; it is NP-hard, and the
//! plans of real frames are reached all the same.
//!
//! | what | how | cost |
//! |---|---|---|
//! | [`Problem`] | items checked, time cut into sections, the bound | O(n log n) |
//! | [`plan`] | greedy orders; a canonical search with conflict sets; for thousands the fullest moments by it, then local repair; always a plan at hand | first plan O(n²), O(n log n) for many; then as long as the caller says |
//! | [`AliasPlan`] | offsets with their certificate: height, load, proven bound | – |
//! | [`verify`], [`verify_passes`] | proves a plan, apart from the planners | O(n log n), O(n²) |
//! | [`PassGraph`] | several queues: lifetimes as a partial order | O(n³ / 64) |
//! | [`class_costs`] | heap tier 1: classes apart or together | two plans |
//! | [`PlanCache`], [`plan_keeping`] | the frame like the last; the frame almost like it | O(n), O(n² log n) |
//! | [`transitions`], [`lower_transitions`] | aliasing barriers, and fewer of them at the same height | O(n log n), O(n² · columns of an item) a round |
//! | [`suggest_order`], [`pass_edges`] | an order of passes with a lower bound | O(passes² · uses) a round |
//!
//! `docs/planner.md` holds what the example `alias_cases` measures.
//!
//! The core has no clock: whatever takes long takes a closure that says whether to go on. The same input and the same
//! answers give the same plan. Heights and offsets are in units: bytes for memory.
//!
//! Drawbacks: the exact search is for up to 1,536 items; beyond that greedy plans are repaired here and there, which proves
//! nothing but a plan at the bound. Where alignments are mixed, the bound knows of the largest and the least only; a plan
//! may be the best and yet not proven.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod asking;
mod bound;
mod buckets;
mod check;
mod classes;
mod columns;
mod exact;
mod greedy;
mod hottest;
mod item;
mod keep;
mod lowering;
mod passes;
mod plan;
mod portfolio;
mod problem;
mod reorder;
mod repair;
mod reuse;
mod sections;
mod shape;
mod sweep;
mod transitions;
mod uses;

pub use check::{Violation, verify};
pub use classes::{ClassCosts, ClassPlan, class_costs};
pub use item::{Item, ItemClass, ItemError, Lifetime};
pub use keep::{KeptPlan, plan_keeping};
pub use lowering::{Lowering, lower_transitions};
pub use passes::{PassError, PassGraph, PassItem, verify_passes};
pub use plan::{AliasPlan, Policy, Progress, plan, plan_by};
pub use problem::Problem;
pub use reorder::{PassOrder, suggest_order};
pub use reuse::{DeclaredFrame, Fingerprint, PlanCache};
pub use transitions::{Transition, transitions};
pub use uses::{PassUse, pass_edges};

#[cfg(feature = "testing")]
pub mod testing;
