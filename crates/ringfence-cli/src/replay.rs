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
use std::time::Duration;

use crate::args::{ReplayOptions, StrategyChoice};
use crate::failure::Failure;
use crate::progress;
use input::Input;
use measure::{Outcome, Smallest};
use spool::Spool;
use strategy::Kind;

/// What a strategy may take, for the trace at all and for each operation: many times what one needs whose operations
/// take the same time in every heap. What walks over many holes is cut short.
const TIME_MAX: Duration = Duration::from_secs(5);
const TIME_PER_OPERATION_MAX: Duration = Duration::from_micros(5);

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
    let progress = progress::open_end("reading the trace");
    let Input { spool, mut notes, damage } = input::read(&options.trace, &progress)?;
    progress.finish_and_clear();
    let (kinds, is_requested) = match options.allocator {
        StrategyChoice::One(kind) => (vec![kind], true),
        StrategyChoice::All => (Kind::ALL.to_vec(), false),
    };
    let limit = time_max(&spool);
    let capacity = options.capacity.unwrap_or_else(|| ample(&spool));
    let progress = progress::steps("replayed", kinds.len() as u64);
    let mut outcomes = Vec::new();
    for kind in kinds {
        let name = kind.name();
        progress.set_message(name);
        let outcome = measure::measure(&spool, kind, capacity, limit, is_requested);
        match outcome.map_err(|error| format!("cannot read the temporary file: {error}"))? {
            Some(outcome) => {
                if outcome.smallest == Smallest::NotSearched {
                    notes.push(format!("{name} takes too long on this trace to look for its smallest capacity"));
                }
                outcomes.push(outcome);
            }
            None => notes.push(format!("{name} is left out: it takes too long; request it with --allocator {name}")),
        }
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

fn time_max(spool: &Spool) -> Duration {
    let operations = u32::try_from(spool.operation_count()).unwrap_or(u32::MAX);
    TIME_MAX + TIME_PER_OPERATION_MAX * operations
}

/// Room enough that no strategy is short of it.
fn ample(spool: &Spool) -> u64 {
    spool.peak_live_bytes().next_power_of_two().saturating_mul(4).max(AMPLE_BYTES_MIN)
}

pub use strategy::Kind as Strategy;
