//! `ringfence replay`: measures a recorded sequence of allocations with different strategies.
//!
//! ```text
//!   input ── CSV, a recording of VMA, or a Ringfence trace; checked operation by operation
//!     │
//!   spool ── the operations, a few bytes each, in a file if they are many, so that they can be read several times
//!     │
//!   measure ── for each strategy: timed passes, then a bisection for the smallest capacity
//!     │
//!   table ── for readers, or JSON
//! ```
//!
//! Host memory grows with the number of live allocations, not with the length of the trace.

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

/// Time limit of a strategy: a constant per trace, plus a time per operation. Strategies with constant time per
/// operation need much less. The limit stops strategies that search through many holes.
const TIME_MAX: Duration = Duration::from_secs(5);
const TIME_PER_OPERATION_MAX: Duration = Duration::from_micros(5);

/// Minimum capacity of the timed pass, in bytes, so that strategies with a coarse granularity have room too.
const AMPLE_BYTES_MIN: u64 = 16 << 20;

/// Content of the output.
struct Replay {
    trace: String,
    notes: Vec<String>,
    spool: Spool,
    /// Capacity of the timed pass, in bytes.
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
                    notes.push(format!("{name} takes too long on this trace to search for its smallest capacity"));
                }
                outcomes.push(outcome);
            }
            None => notes.push(format!("{name} is omitted: it takes too long; use --allocator {name} to run it")),
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    let trace = options.trace.display().to_string();
    table::print(&Replay { trace, notes, spool, capacity, outcomes }, options.json)?;
    match damage {
        // The output covers the part that could be read, but a damaged input sets the exit code.
        Some(damage) => Err(damage.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn time_max(spool: &Spool) -> Duration {
    let operations = u32::try_from(spool.operation_count()).unwrap_or(u32::MAX);
    TIME_MAX + TIME_PER_OPERATION_MAX * operations
}

/// Returns the capacity of the timed pass if the options have none: at least four times the peak of live bytes, so that
/// most strategies have room for the trace.
fn ample(spool: &Spool) -> u64 {
    spool.peak_live_bytes().next_power_of_two().saturating_mul(4).max(AMPLE_BYTES_MIN)
}

pub use strategy::Kind as Strategy;
