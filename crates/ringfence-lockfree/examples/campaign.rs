//! A long campaign of generated operations: every structure of the core and of this crate and its naive twin, compared
//! and validated after each operation.
//!
//! `cargo run --release -p ringfence-lockfree --features testing --example campaign \
//! [SECONDS|COUNTops [FIRST_SEED [NAME]]]`

use ringfence_core::testing::{campaign, drive};
use ringfence_lockfree::testing;

fn main() {
    let all: Vec<_> = drive::ALL.into_iter().chain(testing::ALL).collect();
    campaign::main(&all);
}
