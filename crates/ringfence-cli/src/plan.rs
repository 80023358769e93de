//! `ringfence plan`: computes offsets for buffers with known lifetimes.
//!
//! ```text
//!   input ── CSV, or rows made from a compiler's dump; each row is checked; errors with file and line
//!     │ ╲
//!     │  heaps ── if there are several heaps, pinned offsets, or granularity pages
//!   plan ── ringfence_planner, until the plan is proven, fits the capacity, or the time is over
//!     │
//!   lower ── reduces aliasing transitions at the same height, for a number of steps
//!     │
//!   verify ── the checker, which shares no code with the planner
//!     │
//!   output ── the same rows with their offsets; figures; a page
//! ```

mod advice;
mod first_fit;
mod heaps;
mod input;
mod output;

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ringfence_planner::{self as planner, AliasPlan, PlanDesc, Problem, Progress};
use serde::Serialize;

use crate::args::PlanOptions;
use crate::failure::Failure;
use crate::units::{bytes, count};
use crate::{output as files, progress};

pub use input::Offsets;
pub use ringfence_planner::formats::Format;

/// Exit code if the plan exceeds the capacity, or if the heaps are too small.
const NOT_MET: u8 = 2;

/// Maximum number of rows for which first fit is computed for comparison. For more rows it takes longer than the plan.
const COMPARED_MAX: usize = 20_000;

/// First fit may take this fraction of the time limit: one divided by this number. If it takes longer, it is omitted.
const COMPARED_PART: u32 = 10;

/// Maximum number of rows for which the plan's aliasing transitions are reduced. Inputs with more rows are not frames
/// whose barriers a program records.
const LOWERED_MAX: usize = 2_000;

/// Budget of the reduction of transitions, in steps of some nanoseconds. It is not a time, so that the same plan always
/// gives the same result.
const LOWERING_STEPS: u64 = 30_000_000;

/// Time between two updates of the progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// The figures of a plan in one heap.
#[derive(Serialize)]
struct Figures {
    input: String,
    rows: usize,
    peak_bytes: u64,
    lower_bound_bytes: u64,
    /// Largest total size of rows that are alive at the same time, in bytes. The lower bound may be higher, if
    /// alignment forces gaps.
    load_bytes: u64,
    ratio: f64,
    is_proven: bool,
    capacity_bytes: Option<u64>,
    is_capacity_met: Option<bool>,
    first_fit_bytes: Option<u64>,
    /// Height of the compiler's own plan in bytes, if the input contains it.
    given_bytes: Option<u64>,
    /// Numbers of transitions. `None` if there are too many rows, if the plan exceeds the capacity, or if a buffer has
    /// several lifetimes.
    transitions: Option<Transitions>,
    /// Time of the search for the plan, in seconds.
    seconds: f64,
    /// Time of the reduction of transitions, in seconds.
    lowering_seconds: f64,
    /// Names of the input's columns that were not read.
    unread_columns: Vec<String>,
    /// An order of the passes that needs less memory, if the input has the passes of each row.
    advice: Option<advice::Advice>,
}

/// Numbers of aliasing transitions: pairs of rows where the second one begins on bytes that the first one had last.
/// Each transition needs an aliasing barrier.
#[derive(Clone, Copy, Serialize)]
struct Transitions {
    /// Number in the plan that the search found.
    found: usize,
    /// Number in the plan after the reduction, which has the same height.
    left: usize,
}

/// Runs the command.
pub fn main(options: &PlanOptions) -> Result<ExitCode, Failure> {
    let outputs = [("--output", options.output.as_deref()), ("--report", options.report.as_deref())];
    files::check_apart(&[&options.input], &outputs)?;
    for path in [&options.output, &options.report].into_iter().flatten().filter(|path| path.as_os_str() != "-") {
        files::check(path)?;
    }
    let input = input::read(&options.input, options)?;
    if heaps::are_named(&input, options) {
        if options.threads > NonZeroUsize::MIN {
            return Err("--threads is for plans of one heap, without pinned offsets and pages".into());
        }
        return heaps::main(&input, options);
    }
    let advice = advice::of(&input)?;
    let is_recurring = !input.owners.is_empty();
    let (problem, of_rows) = if is_recurring {
        let (buffers, of_rows) = input.buffers(0..input.items.len());
        (planner::RecurringItem::problem(&buffers), of_rows)
    } else {
        (Problem::new(&input.items), Vec::new())
    };
    let problem = problem.map_err(|error| input.explain(&error))?;
    let started = Instant::now();
    // First fit runs before the search, because the search often takes all remaining time.
    let first_fit =
        (!is_recurring && problem.len() <= COMPARED_MAX).then(|| first_fit(&input, options.time_limit)).flatten();
    let searched = Instant::now();
    let mut plan = search(&problem, options, started);
    let seconds = searched.elapsed().as_secs_f64();
    let found = Instant::now();
    let met = options.capacity.map(|capacity| plan.height <= capacity);
    // If the plan exceeds the capacity, it is not written, so its transitions are not reduced.
    let is_lowered = !is_recurring && problem.len() <= LOWERED_MAX && met != Some(false);
    let transitions = is_lowered.then(|| lower(&input, &problem, &mut plan));
    let lowering_seconds = found.elapsed().as_secs_f64();
    if is_recurring {
        plan.offsets = of_rows.iter().map(|&buffer| plan.offsets[buffer]).collect();
    }
    planner::verify(&input.items, &plan.offsets, plan.height).map_err(|error| format!("the plan is wrong: {error}"))?;
    let figures = Figures {
        input: input.name.clone(),
        rows: input.items.len(),
        peak_bytes: plan.height,
        lower_bound_bytes: plan.lower_bound,
        load_bytes: plan.load,
        ratio: plan.height as f64 / plan.lower_bound as f64,
        is_proven: plan.is_proven(),
        capacity_bytes: options.capacity,
        is_capacity_met: met,
        first_fit_bytes: first_fit,
        given_bytes: input.given_bytes,
        transitions,
        seconds,
        lowering_seconds,
        unread_columns: input.unread.clone(),
        advice,
    };
    if let Some(path) = &options.report {
        let page = output::page(&input, &plan, options.capacity, figures.facts());
        files::write_or_print(path, page.as_bytes())?;
    }
    if let Some(path) = options.output.as_ref().filter(|_| met != Some(false)) {
        files::write_or_print(path, &output::rows(&input, &plan)?)?;
    }
    figures.print(options.json, &mut *figures_to(options))?;
    Ok(if met == Some(false) { ExitCode::from(NOT_MET) } else { ExitCode::SUCCESS })
}

/// Returns the stream for the figures: standard error if the rows or the page are written to standard output, else
/// standard output.
fn figures_to(options: &PlanOptions) -> Box<dyn Write> {
    let to_output = [&options.output, &options.report].into_iter().flatten().any(|path| path.as_os_str() == "-");
    if to_output { Box::new(io::stderr().lock()) } else { Box::new(io::stdout().lock()) }
}

/// Returns the height of first fit, in bytes. Returns `None` if first fit takes longer than its part of the time limit.
fn first_fit(input: &input::Input, time_limit: Duration) -> Option<u64> {
    let started = Instant::now();
    first_fit::height(&input.items, || started.elapsed() < time_limit / COMPARED_PART)
}

/// Searches until the plan is proven or fits the capacity, until it is proven that no plan fits, or until the time is
/// over. The first plan is always finished.
fn search(problem: &Problem, options: &PlanOptions, started: Instant) -> AliasPlan {
    let spinner = progress::open_end("planning");
    let mut shown = started;
    let go_on = |progress: &Progress| {
        let now = Instant::now();
        if now - shown >= PROGRESS_EVERY {
            shown = now;
            let Progress { height, lower_bound, .. } = *progress;
            let above = 100.0 * (height as f64 / lower_bound.max(1) as f64 - 1.0);
            spinner.set_message(format!("peak {}, {above:.2} % above the bound", bytes(height)));
        }
        let settled = options.capacity.is_some_and(|capacity| {
            // The plan fits, or it is proven that no plan fits.
            progress.height <= capacity || progress.lower_bound > capacity
        });
        !settled && now - started < options.time_limit
    };
    // For one thread, `planner::plan` is faster than `planner::plan_with`.
    let plan = match options.threads {
        NonZeroUsize::MIN => planner::plan(problem, go_on),
        threads => planner::plan_with(problem, &PlanDesc { threads, ..PlanDesc::default() }, go_on),
    };
    spinner.finish_and_clear();
    plan
}

/// Reduces the number of transitions of a plan at the same height. Returns the numbers before and after.
fn lower(input: &input::Input, problem: &Problem, plan: &mut AliasPlan) -> Transitions {
    let found = planner::transitions(&input.items, &plan.offsets).len();
    let mut steps_left = LOWERING_STEPS;
    let left = planner::lower_transitions(
        problem,
        plan,
        |_| true,
        |progress| {
            steps_left = steps_left.saturating_sub(progress.steps);
            steps_left > 0
        },
    );
    Transitions { found, left }
}

/// Returns the row of the table about columns that were not read. Returns `None` if all columns were read.
fn unread(columns: &[String]) -> Option<(String, String)> {
    (!columns.is_empty()).then(|| ("Not read".to_owned(), format!("the columns {}", columns.join(", "))))
}

impl Figures {
    /// Returns the rows of the table: label and value.
    fn facts(&self) -> Vec<(String, String)> {
        let both = |number: u64| format!("{} ({})", count(number), bytes(number));
        let proven = if self.is_proven { ", and no plan is lower" } else { "" };
        let mut facts = vec![
            ("Rows".to_owned(), count(self.rows as u64)),
            ("Peak".to_owned(), both(self.peak_bytes)),
            ("Lower bound".to_owned(), both(self.lower_bound_bytes)),
            ("Ratio".to_owned(), format!("{:.4}{proven}", self.ratio)),
        ];
        if let Some(first_fit) = self.first_fit_bytes {
            facts.push(("First fit".to_owned(), both(first_fit)));
        }
        if let Some(given) = self.given_bytes {
            facts.push(("In the dump".to_owned(), both(given)));
        }
        if let (Some(capacity), Some(met)) = (self.capacity_bytes, self.is_capacity_met) {
            let answer = if met { "met" } else { "not met" };
            facts.push(("Capacity".to_owned(), format!("{}, {answer}", both(capacity))));
        }
        let mut time = format!("{:.3} s", self.seconds);
        if let Some(Transitions { found, left }) = self.transitions {
            facts.push((
                "Transitions".to_owned(),
                format!("{}, reduced from {}", count(left as u64), count(found as u64)),
            ));
            time += &format!(", then {:.3} s for fewer transitions", self.lowering_seconds);
        }
        facts.push(("Time".to_owned(), time));
        facts.extend(unread(&self.unread_columns));
        if let Some(advice) = &self.advice {
            let none = || "no order of the passes was found with a lower load".to_owned();
            facts.push(("Advice".to_owned(), advice.line().unwrap_or_else(none)));
        }
        facts
    }

    fn print(&self, json: bool, out: &mut dyn Write) -> io::Result<()> {
        if json {
            serde_json::to_writer_pretty(&mut *out, self)?;
            return writeln!(out);
        }
        for (label, value) in self.facts() {
            writeln!(out, "{}", crate::table::wrapped(&format!("{label:<12} {value}"), 13))?;
        }
        Ok(())
    }
}
