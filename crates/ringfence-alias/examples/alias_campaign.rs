//! A long campaign of generated items: each plan checked, and none lower than a bound that was proven.
//!
//! `cargo run --release -p ringfence-alias --features testing --example alias_campaign [SECONDS|COUNTops [FIRST_SEED]]`
//!
//! An operation is an item that was planned.

fn main() {
    ringfence_core::testing::campaign::main(&ringfence_alias::testing::ALL);
}
