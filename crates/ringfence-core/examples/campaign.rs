//! A long campaign of generated operations: every structure and its naive twin, compared and validated after each
//! operation.
//!
//! `cargo run --release -p ringfence-core --features testing --example campaign [SECONDS|COUNTops [FIRST_SEED [NAME]]]`

use ringfence_core::testing::{campaign, drive};

fn main() {
    campaign::main(&drive::ALL);
}
