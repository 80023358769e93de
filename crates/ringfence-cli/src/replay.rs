//! `ringfence replay`: what a recorded sequence of allocations costs under one strategy or another.
//!
//! ```text
//!   input ── CSV, a VMA recording or a Ringfence trace; checked, one operation at a time
//!     │
//!   spool ── the same in a few bytes an operation, in a file once it is large: read again and again
//!     │
//!   measure ── strategy by strategy: one timed pass, then a bisection for the smallest capacity
//!     │
//!   table ── for people, or JSON
//! ```
//!
//! Host memory grows with what is alive at once, never with the length of the trace.

mod input;
mod lines;
mod measure;
mod naive;
mod own;
mod spool;
mod strategy;
mod table;
mod vma;

use std::process::ExitCode;

use crate::args::{ReplayOptions, StrategyChoice};
use crate::failure::Failure;
use crate::progress;
use input::Input;
use measure::Outcome;
use spool::Spool;
use strategy::Kind;

/// Above this number of operations `all` leaves out what needs time proportional to the number of holes.
const SLOW_OPERATIONS_MAX: u64 = 1_000_000;

/// A heap that even strategies with large steps can do something with.
const AMPLE_BYTES_MIN: u64 = 16 << 20;

/// What is printed.
struct Replay {
    trace: String,
    notes: Vec<String>,
    spool: Spool,
    /// What the timed pass had to do with, in bytes.
    capacity: u64,
    outcomes: Vec<Outcome>,
}

/// Runs the command.
pub fn main(options: &ReplayOptions) -> Result<ExitCode, Failure> {
    let progress = progress::open_end();
    let Input { spool, mut notes, damage } = input::read(&options.trace, &progress)?;
    progress.finish_and_clear();
    let kinds = kinds(options.allocator, &spool, &mut notes);
    let capacity = options.capacity.unwrap_or_else(|| ample(&spool));
    let progress = progress::steps("replayed", kinds.len() as u64);
    let mut outcomes = Vec::new();
    for kind in kinds {
        progress.set_message(kind.name());
        let outcome = measure::measure(&spool, kind, capacity);
        outcomes.push(outcome.map_err(|error| format!("cannot read the temporary file: {error}"))?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    let trace = options.trace.display().to_string();
    table::print(&Replay { trace, notes, spool, capacity, outcomes }, options.json)?;
    match damage {
        // What could be read is answered for, but the input is bad.
        Some(damage) => Err(damage.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn kinds(choice: StrategyChoice, spool: &Spool, notes: &mut Vec<String>) -> Vec<Kind> {
    match choice {
        StrategyChoice::One(kind) => vec![kind],
        StrategyChoice::All => {
            let (kinds, slow): (Vec<_>, Vec<_>) = Kind::ALL
                .into_iter()
                .partition(|kind| !kind.is_slow() || spool.operation_count() <= SLOW_OPERATIONS_MAX);
            for kind in slow {
                let name = kind.name();
                notes.push(format!("{name} is left out of so long a trace; request it with --allocator {name}"));
            }
            kinds
        }
    }
}

/// Room enough that no strategy is short of it.
fn ample(spool: &Spool) -> u64 {
    spool.peak_live_bytes().next_power_of_two().saturating_mul(4).max(AMPLE_BYTES_MIN)
}

pub use strategy::Kind as Strategy;
