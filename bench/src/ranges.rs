//! Range allocators on traces: time, percentiles, memory waste.
//!
//! In each repetition, every contender plays the whole trace once before any plays it again, so that a slow period of
//! the machine affects all. The time of a contender is the least of its repetitions, because noise only adds time. A
//! contender that has used a hundred times one run of the fastest plays no more repetitions. A contender that is linear
//! in the ranges plays for one second.

use crate::clock::{Singles, ticks};
use crate::contenders::Contender;
use crate::output::{Report, Row, Value};
use crate::trace::{Kind, Op, Trace};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Figures of one contender on one trace.
#[derive(Clone, Default)]
pub struct Figures {
    /// Nanoseconds per operation, the least of the repetitions.
    pub ns: f64,
    /// The median of the repetitions.
    pub ns_median: f64,
    /// Number of repetitions.
    pub runs: usize,
    /// `true` if it played only a part of the trace.
    pub partly: bool,
    /// Percentiles of single operations, measured as in [`crate::clock`], in ns.
    pub half: f64,
    pub per_thousand: f64,
    pub worst: f64,
    /// Smallest capacity that holds the trace, divided by the peak of live units.
    pub room: Option<f64>,
    /// Refused requests in the timed run.
    pub refused: u64,
}

/// A contender, as the runner uses it.
pub struct Entry {
    pub name: &'static str,
    pub ours: bool,
    linear: bool,
    capacity_max: u64,
    time: fn(&Trace, u64, Option<Duration>) -> Timed,
    each: fn(&Trace, u64, &mut Singles),
    room: Option<fn(&Trace) -> f64>,
}

impl Entry {
    pub fn of<C: Contender>() -> Self {
        Self {
            name: C::NAME,
            ours: C::OURS,
            linear: C::LINEAR,
            capacity_max: C::CAPACITY_MAX,
            time: time::<C>,
            each: each::<C>,
            room: if C::BOUNDED { Some(room::<C>) } else { None },
        }
    }
}

fn held<C: Contender>(trace: &Trace) -> Vec<Option<C::Held>> {
    std::iter::repeat_with(|| None).take(trace.slots).collect()
}

/// Plays operations. Returns the number of refused requests.
#[inline(always)]
fn play<C: Contender>(allocator: &mut C, held: &mut [Option<C::Held>], ops: &[Op]) -> u64 {
    let mut refused = 0;
    for op in ops {
        let slot = &mut held[op.slot as usize];
        if op.size == Op::FREE {
            if let Some(range) = slot.take() {
                allocator.free(range);
            }
        } else {
            *slot = allocator.allocate(op.size, op.alignment());
            refused += u64::from(slot.is_none());
        }
    }
    refused
}

/// Time of a run of a trace.
struct Timed {
    ns: f64,
    refused: u64,
    /// `true` if the time limit ended the run.
    partly: bool,
}

/// Plays in pieces until `limit` has passed. Returns the number of refused requests and the number of operations.
fn play_within<C: Contender>(
    allocator: &mut C,
    held: &mut [Option<C::Held>],
    ops: &[Op],
    limit: Duration,
) -> (u64, usize) {
    let (start, mut refused, mut count) = (Instant::now(), 0, 0);
    for piece in ops.chunks(256) {
        if start.elapsed() > limit {
            break;
        }
        refused += play(allocator, held, piece);
        count += piece.len();
    }
    (refused, count)
}

#[inline(never)]
fn time<C: Contender>(trace: &Trace, capacity: u64, limit: Option<Duration>) -> Timed {
    let mut allocator = C::new(capacity);
    let mut held = held::<C>(trace);
    let (warm_up, timed) = trace.ops.split_at(trace.warm_up);
    play(&mut allocator, &mut held, warm_up);
    let start = Instant::now();
    let (refused, count) = match limit {
        None => (play(&mut allocator, &mut held, timed), timed.len()),
        Some(limit) => play_within(&mut allocator, &mut held, timed, limit),
    };
    // The free of a refused request does nothing and does not count as an operation.
    let ns = start.elapsed().as_nanos() as f64 / (count as u64 - refused).max(1) as f64;
    black_box(&held);
    allocator.finish(held.into_iter().flatten());
    Timed { ns, refused, partly: count < timed.len() }
}

/// Records the time of each timed operation.
#[inline(never)]
fn each<C: Contender>(trace: &Trace, capacity: u64, singles: &mut Singles) {
    let mut allocator = C::new(capacity);
    let mut held = held::<C>(trace);
    let (warm_up, timed) = trace.ops.split_at(trace.warm_up);
    play(&mut allocator, &mut held, warm_up);
    singles.begin_run();
    for op in timed.chunks(1) {
        // The free of a refused request does nothing.
        let is_nothing = op[0].size == Op::FREE && held[op[0].slot as usize].is_none();
        let start = ticks();
        play(&mut allocator, &mut held, op);
        let end = ticks();
        singles.note(if is_nothing { None } else { Some(end - start) });
    }
    allocator.finish(held.into_iter().flatten());
}

fn fits<C: Contender>(trace: &Trace, capacity: u64) -> bool {
    let mut allocator = C::new(capacity);
    let mut held = held::<C>(trace);
    let fits = trace.ops.chunks(1024).all(|ops| play(&mut allocator, &mut held, ops) == 0);
    allocator.finish(held.into_iter().flatten());
    fits
}

/// Returns the smallest capacity that holds the trace, to 1/1000, divided by its peak.
fn room<C: Contender>(trace: &Trace) -> f64 {
    let (mut low, mut high) = (trace.peak, trace.peak);
    while !fits::<C>(trace, high) {
        low = high;
        high += high / 2;
        if high > C::CAPACITY_MAX {
            return f64::NAN;
        }
    }
    while high - low > trace.peak / 1000 {
        let middle = low + (high - low) / 2;
        if fits::<C>(trace, middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high as f64 / trace.peak as f64
}

pub struct Settings {
    pub repetitions: usize,
    /// Number of runs for the percentiles; 0 for no percentiles.
    pub percentile_runs: usize,
    pub room: bool,
    /// Capacity of the timed runs, divided by the peak, unless the trace sets one.
    pub roominess: f64,
    /// After this time only first repetitions are started.
    pub time: Duration,
}

/// Time limit of all repetitions of a contender, in runs of the fastest.
const PATIENCE: f64 = 100.0;
/// Time limit of a contender that is linear in the ranges.
const LINEAR_TIME: Duration = Duration::from_secs(1);
/// A contender that is slower than the fastest by more than this factor is not measured for smallest capacity and
/// percentiles.
const SLOW: f64 = 20.0;

/// Measures every entry on one trace; `None` for an entry that cannot play it.
pub fn measure(trace: &Trace, entries: &[Entry], settings: &Settings) -> Vec<Option<Figures>> {
    let capacity = trace.capacity.unwrap_or((trace.peak as f64 * settings.roominess) as u64);
    let plays = |entry: &Entry| {
        let long = trace.slots > 50_000 || trace.refusals_expected && entry.linear;
        capacity <= entry.capacity_max && !(entry.linear && long)
    };
    let mut times = vec![Vec::new(); entries.len()];
    let mut figures: Vec<_> = entries.iter().map(|entry| plays(entry).then(Figures::default)).collect();
    let started = Instant::now();
    let mut fastest = f64::INFINITY;
    for repetition in 0..settings.repetitions {
        if repetition > 0 && started.elapsed() > settings.time {
            break;
        }
        for ((entry, times), figures) in entries.iter().zip(&mut times).zip(&mut figures) {
            let taken: f64 = times.iter().sum();
            if let Some(figures) = figures
                && !(entry.linear && repetition > 0 || taken > PATIENCE * fastest)
            {
                let timed = (entry.time)(trace, capacity, entry.linear.then_some(LINEAR_TIME));
                times.push(timed.ns);
                fastest = fastest.min(timed.ns);
                (figures.refused, figures.partly) = (timed.refused, timed.partly);
            }
        }
    }
    for ((entry, times), figures) in entries.iter().zip(&mut times).zip(&mut figures) {
        let Some(figures) = figures else { continue };
        times.sort_by(f64::total_cmp);
        (figures.ns, figures.ns_median, figures.runs) = (times[0], times[times.len() / 2], times.len());
        // Twice the time of the repetitions is the limit for everything.
        if entry.linear || started.elapsed() > settings.time * 2 {
            continue;
        }
        // Ringfence's percentiles are always measured.
        let is_slow = figures.ns > SLOW * fastest;
        if settings.percentile_runs != 0 && (entry.ours || !is_slow) {
            percentiles(trace, capacity, entry, settings.percentile_runs, figures);
        }
        if settings.room && !is_slow && !trace.refusals_expected {
            figures.room = entry.room.map(|room| room(trace));
        }
    }
    figures
}

fn percentiles(trace: &Trace, capacity: u64, entry: &Entry, runs: usize, figures: &mut Figures) {
    let mut singles = Singles::new(trace.ops.len() - trace.warm_up, runs);
    for _ in 0..runs {
        (entry.each)(trace, capacity, &mut singles);
    }
    let times = singles.times_ns();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    (figures.half, figures.per_thousand, figures.worst) = (at(0.5), at(0.999), at(1.0));
}

/// Writes the figures of one trace.
pub fn show(
    trace: &Trace,
    entries: &[Entry],
    figures: &[Option<Figures>],
    settings: &Settings,
    report: &mut Report,
) -> std::io::Result<()> {
    let peers = entries.iter().zip(figures).filter(|(entry, _)| !entry.ours);
    let best =
        peers.filter_map(|(_, figures)| figures.as_ref()).map(|figures| figures.ns).fold(f64::INFINITY, f64::min);
    let mut rows = Vec::new();
    for (entry, figures) in entries.iter().zip(figures) {
        let Some(figures) = figures else { continue };
        let mut row = Row::new();
        row.push("trace", Value::Text(trace.name.clone()));
        row.push("allocator", Value::Text(entry.name.into()));
        row.push("ns/op", Value::Number(figures.ns, 1));
        row.push("median", Value::Number(figures.ns_median, 1));
        row.push("best peer / this", Value::Number(best / figures.ns, 2));
        if settings.percentile_runs != 0 {
            let known = figures.worst != 0.0;
            let value = |ns: f64| if known { Value::Number(ns, 0) } else { Value::None };
            row.push("50 %", if known { Value::Number(figures.half, 1) } else { Value::None });
            row.push("99.9 %", value(figures.per_thousand));
            row.push("worst", value(figures.worst));
        }
        row.push("room", figures.room.map_or(Value::None, |room| Value::Number(room, 3)));
        row.push("refused", Value::Number(figures.refused as f64, 0));
        let runs = if figures.partly { "a part".into() } else { figures.runs.to_string() };
        row.push("runs", Value::Text(runs));
        row.hide("kind", Value::Text(trace.kind.name().into()));
        row.hide("ours", Value::Text(entry.ours.to_string()));
        row.hide("operations", Value::Number((trace.ops.len() - trace.warm_up) as f64, 0));
        row.hide("peak_live", Value::Number(trace.peak as f64, 0));
        row.hide("capacity_over_peak", Value::Number(settings.roominess, 3));
        rows.push(row);
    }
    report.table("ranges", &format!("{} ({})", trace.name, trace.kind.name()), &rows, 1)
}

/// Returns `true` if percentiles are measured for this kind: they matter for the adversarial traces and for churn.
pub const fn wants_percentiles(kind: Kind) -> bool {
    matches!(kind, Kind::Adversarial | Kind::Churn)
}
