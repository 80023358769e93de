//! Range allocators on traces: time, percentiles, memory waste.
//!
//! In each repetition every contender plays the whole trace once before any plays it again, so that a slow spell of the
//! machine falls on all of them. The time of a contender is the least of its repetitions: noise only adds.

use crate::contenders::Contender;
use crate::output::{Row, Value, table};
use crate::trace::{Kind, Op, Trace};
use std::hint::black_box;
use std::time::Instant;

/// What was measured of one contender on one trace.
#[derive(Clone, Default)]
pub struct Figures {
    /// Nanoseconds an operation, the least of the repetitions.
    pub ns: f64,
    /// Their median.
    pub ns_median: f64,
    /// Single operations, by a clock read before and after each, its own cost taken off: ns.
    pub half: f64,
    pub per_thousand: f64,
    pub worst: f64,
    /// Smallest capacity that holds the trace over the peak of live units.
    pub room: Option<f64>,
    /// Requests that were refused in the timed run.
    pub refused: u64,
}

/// A contender as the runner sees it.
pub struct Entry {
    pub name: &'static str,
    pub ours: bool,
    linear: bool,
    capacity_max: u64,
    time: fn(&Trace, u64) -> (f64, u64),
    each: fn(&Trace, u64, &mut [f64]),
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

/// Plays operations; gives how many requests were refused.
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

#[inline(never)]
fn time<C: Contender>(trace: &Trace, capacity: u64) -> (f64, u64) {
    let mut allocator = C::new(capacity);
    let mut held = held::<C>(trace);
    let (warm_up, timed) = trace.ops.split_at(trace.warm_up);
    play(&mut allocator, &mut held, warm_up);
    let start = Instant::now();
    let refused = play(&mut allocator, &mut held, timed);
    let ns = start.elapsed().as_nanos() as f64 / timed.len() as f64;
    black_box(&held);
    allocator.finish(held.into_iter().flatten());
    (ns, refused)
}

/// The time of each timed operation, where it is less than what stands there: the trace is the same in each run, so what
/// an interrupt adds to one falls away.
#[inline(never)]
fn each<C: Contender>(trace: &Trace, capacity: u64, least: &mut [f64]) {
    let mut allocator = C::new(capacity);
    let mut held = held::<C>(trace);
    let (warm_up, timed) = trace.ops.split_at(trace.warm_up);
    play(&mut allocator, &mut held, warm_up);
    let ns_per_tick = ns_per_tick();
    for (op, least) in timed.chunks(1).zip(least) {
        let start = ticks();
        play(&mut allocator, &mut held, op);
        let ns = (ticks() - start) as f64 * ns_per_tick;
        *least = least.min(ns);
    }
    allocator.finish(held.into_iter().flatten());
}

/// The processor's clock where it has one that the program can read, else the system's.
#[inline(always)]
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut processor = 0;
        // SAFETY: the instruction is part of every x86-64 processor; it writes `processor` and nothing else.
        unsafe { core::arch::x86_64::__rdtscp(&raw mut processor) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::OnceLock;
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

fn ns_per_tick() -> f64 {
    use std::sync::OnceLock;
    static NS_PER_TICK: OnceLock<f64> = OnceLock::new();
    *NS_PER_TICK.get_or_init(|| {
        let (start, first) = (Instant::now(), ticks());
        while start.elapsed().as_millis() < 50 {}
        start.elapsed().as_nanos() as f64 / (ticks() - first) as f64
    })
}

/// What reading the clock twice takes, in ns: the median.
fn clock_ns() -> f64 {
    let mut times: Vec<_> = (0..10_001)
        .map(|_| {
            let start = ticks();
            (ticks() - start) as f64 * ns_per_tick()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn fits<C: Contender>(trace: &Trace, capacity: u64) -> bool {
    let mut allocator = C::new(capacity);
    let mut held = held::<C>(trace);
    let fits = trace.ops.chunks(1024).all(|ops| play(&mut allocator, &mut held, ops) == 0);
    allocator.finish(held.into_iter().flatten());
    fits
}

/// The smallest capacity that holds the trace, to 1/1000, over its peak.
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
    /// Runs of which the least time of each operation is taken; 0: no percentiles.
    pub percentile_runs: usize,
    pub room: bool,
    /// Times of what capacity: this over the peak, where the trace does not say.
    pub roominess: f64,
}

/// Every entry on one trace; `None` for an entry that the trace is too much for.
pub fn measure(trace: &Trace, entries: &[Entry], settings: &Settings) -> Vec<Option<Figures>> {
    let capacity = trace.capacity.unwrap_or((trace.peak as f64 * settings.roominess) as u64);
    let plays = |entry: &Entry| {
        let long = trace.slots > 50_000 || trace.refusals_expected && entry.linear;
        capacity <= entry.capacity_max && !(entry.linear && long)
    };
    let mut times = vec![Vec::new(); entries.len()];
    let mut figures: Vec<_> = entries.iter().map(|entry| plays(entry).then(Figures::default)).collect();
    for _ in 0..settings.repetitions {
        for ((entry, times), figures) in entries.iter().zip(&mut times).zip(&mut figures) {
            if let Some(figures) = figures
                && !(entry.linear && times.len() == 1)
            {
                let (ns, refused) = (entry.time)(trace, capacity);
                times.push(ns);
                figures.refused = refused;
            }
        }
    }
    for ((entry, times), figures) in entries.iter().zip(&mut times).zip(&mut figures) {
        let Some(figures) = figures else { continue };
        times.sort_by(f64::total_cmp);
        (figures.ns, figures.ns_median) = (times[0], times[times.len() / 2]);
        if settings.percentile_runs != 0 && !entry.linear {
            percentiles(trace, capacity, entry, settings.percentile_runs, figures);
        }
        if settings.room && !entry.linear && !trace.refusals_expected {
            figures.room = entry.room.map(|room| room(trace));
        }
    }
    figures
}

fn percentiles(trace: &Trace, capacity: u64, entry: &Entry, runs: usize, figures: &mut Figures) {
    let mut least = vec![f64::INFINITY; trace.ops.len() - trace.warm_up];
    for _ in 0..runs {
        (entry.each)(trace, capacity, &mut least);
    }
    let clock = clock_ns();
    least.iter_mut().for_each(|ns| *ns = (*ns - clock).max(0.0));
    least.sort_by(f64::total_cmp);
    let at = |share: f64| least[((least.len() - 1) as f64 * share) as usize];
    (figures.half, figures.per_thousand, figures.worst) = (at(0.5), at(0.999), at(1.0));
}

/// Prints what was measured on one trace and gives it as rows.
pub fn report(trace: &Trace, entries: &[Entry], figures: &[Option<Figures>], settings: &Settings) -> Vec<Row> {
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
            row.push("50 %", value(figures.half));
            row.push("99.9 %", value(figures.per_thousand));
            row.push("worst", value(figures.worst));
        }
        row.push("room", figures.room.map_or(Value::None, |room| Value::Number(room, 3)));
        row.push("refused", Value::Number(figures.refused as f64, 0));
        row.hide("kind", Value::Text(trace.kind.name().into()));
        row.hide("ours", Value::Text(entry.ours.to_string()));
        row.hide("operations", Value::Number((trace.ops.len() - trace.warm_up) as f64, 0));
        row.hide("peak_live", Value::Number(trace.peak as f64, 0));
        row.hide("capacity_over_peak", Value::Number(settings.roominess, 3));
        rows.push(row);
    }
    println!("\n{} ({})", trace.name, trace.kind.name());
    print!("{}", table(&rows, 1));
    rows
}

/// Whether percentiles are asked for: they matter where a trace was made to hurt.
pub const fn wants_percentiles(kind: Kind) -> bool {
    matches!(kind, Kind::Adversarial | Kind::Churn)
}
