//! A long campaign of generated items. Checks each plan, and that none is lower than a proven bound.
//!
//! `cargo run --release -p ringfence-planner --features testing --example alias_campaign [SECONDS|COUNTops [FIRST_SEED]]`
//!
//! An operation is one planned item.

fn main() {
    ringfence_core::testing::campaign::main(&ringfence_planner::testing::ALL);
}
