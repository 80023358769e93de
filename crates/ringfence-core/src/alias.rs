//! Aliasing: offsets for buffers whose lifetimes are known, so that those never alive together share bytes.

mod buckets;
mod check;
mod exact;
mod greedy;
mod item;
mod plan;
mod portfolio;
mod problem;
mod sections;
mod shape;
mod sweep;

pub use check::{Violation, verify};
pub use item::{Item, ItemClass, ItemError, Lifetime};
pub use plan::{AliasPlan, Policy, Progress, plan, plan_by};
pub use problem::Problem;
