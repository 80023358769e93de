//! Measures a strategy on a trace: time, memory, failures.
//!
//! Time is measured in stretches of 1,024 operations. A stretch is either timed as a whole, for the mean, or operation
//! by operation, for the 99.9th percentile (minus the median cost of reading the clock); the two modes alternate. A
//! short trace is repeated on empty heaps until there are enough samples. The time includes the lookup of the
//! operation's slot, a few nanoseconds.
//!
//! The smallest capacity is found by bisection, to a thousandth of the peak of live bytes. The search begins with the
//! peak and with a capacity in which the trace fits. Placement depends on the capacity, so a trace may fit into a heap
//! and not into a larger one. The result is therefore a capacity in which the trace fits, and above a capacity in which
//! it does not fit; the two differ by at most a thousandth of the peak. If a strategy has the same offsets in every
//! heap that is large enough, no search is needed: its high-water mark is the smallest capacity.

use std::io;
use std::time::{Duration, Instant};

use super::spool::{Operation, Spool};
use super::strategy::{Kind, Pass, Strategy};

const STRETCH: usize = 1024;
/// Number of operations to time. Half of them are timed one by one, which suffices for a 99.9th percentile.
const TIMED_OPERATIONS: u64 = 400_000;
const RUNS_MAX: u64 = 400;
/// A trace is not repeated once this fraction of the time limit has passed: one divided by this number.
const REPEATED_PART: u32 = 8;
/// The bisection ends at this fraction of the peak: one divided by this number.
const PRECISION: u64 = 1000;

/// Result of a strategy.
pub struct Outcome {
    pub kind: Kind,
    pub about: String,
    pub ns_per_operation: f64,
    pub ns_999: u64,
    pub high_water_bytes: u64,
    pub smallest: Smallest,
    pub failure_count: u64,
}

/// The smallest capacity in which a trace fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Smallest {
    Bytes(u64),
    /// The trace does not fit into sixteen times its peak.
    NotFound,
    /// The time limit was reached before the search ended.
    NotSearched,
}

/// Times the trace in a heap of `capacity` bytes, and searches for the smallest capacity. Returns `None` if the time
/// limit ends the timed run and the strategy was not requested by name.
pub fn measure(
    spool: &Spool,
    kind: Kind,
    capacity: u64,
    limit: Duration,
    is_requested: bool,
) -> io::Result<Option<Outcome>> {
    let mut clock = Clock::new();
    let mut first = None;
    let runs = TIMED_OPERATIONS.div_ceil(spool.operation_count()).clamp(1, RUNS_MAX);
    let started = Instant::now();
    let deadline = Deadline { started, limit };
    for run in 0..runs {
        let end = (!is_requested).then_some(deadline);
        let Some(result) = kind.run(capacity, spool, Timed { spool, clock: &mut clock, first: run, end })? else {
            break;
        };
        first.get_or_insert(result);
        if started.elapsed() >= limit / REPEATED_PART {
            break;
        }
    }
    let Some((high_water_bytes, failure_count)) = first else { return Ok(None) };
    let (known, served) = (high_water_bytes.max(1), failure_count == 0);
    Ok(Some(Outcome {
        kind,
        about: kind.about(capacity, spool),
        ns_per_operation: clock.mean_ns(),
        ns_999: clock.each.quantile(0.999),
        high_water_bytes,
        smallest: smallest(spool, kind, known, served, deadline)?.unwrap_or(Smallest::NotSearched),
        failure_count,
    }))
}

/// The start and the time limit of a measurement.
#[derive(Clone, Copy)]
struct Deadline {
    started: Instant,
    limit: Duration,
}

impl Deadline {
    fn is_over(self) -> bool {
        self.started.elapsed() >= self.limit
    }
}

/// Searches for the smallest capacity by bisection. Returns `None` at the deadline. `known` is the high-water mark of
/// the timed run, and `served` is `true` if all requests of that run succeeded.
fn smallest(spool: &Spool, kind: Kind, known: u64, served: bool, end: Deadline) -> io::Result<Option<Smallest>> {
    if served && kind.is_alike_in_larger() {
        return Ok(Some(Smallest::Bytes(known)));
    }
    let holds = |capacity: u64| kind.run(capacity, spool, Fits { spool, end });
    let peak = spool.peak_live_bytes();
    let (mut low, mut high) = (peak, if served { known.max(peak + 1) } else { peak.saturating_mul(2) });
    match holds(peak)? {
        Some(true) => return Ok(Some(Smallest::Bytes(peak))),
        Some(false) => {}
        None => return Ok(None),
    }
    loop {
        match holds(high)? {
            Some(true) => break,
            Some(false) if high >= peak.saturating_mul(16) => return Ok(Some(Smallest::NotFound)),
            Some(false) => (low, high) = (high, high.saturating_mul(2).min(peak.saturating_mul(16))),
            None => return Ok(None),
        }
    }
    while high - low > (peak / PRECISION).max(1) {
        let middle = low + (high - low) / 2;
        match holds(middle)? {
            Some(true) => high = middle,
            Some(false) => low = middle,
            None => return Ok(None),
        }
    }
    Ok(Some(Smallest::Bytes(high)))
}

/// A run that returns `true` if every allocation succeeds. It stops at the first failure, and returns `None` at the
/// deadline.
struct Fits<'a> {
    spool: &'a Spool,
    end: Deadline,
}

impl Pass for Fits<'_> {
    type Output = io::Result<Option<bool>>;

    fn run<S: Strategy>(self, mut strategy: S) -> io::Result<Option<bool>> {
        let mut fits = Some(true);
        self.spool.for_each_batch(STRETCH, |batch| {
            let granted = batch.iter().all(|operation| apply(&mut strategy, operation));
            fits = (!self.end.is_over()).then_some(granted);
            fits == Some(true)
        })?;
        Ok(fits)
    }
}

/// A timed run. It returns the high-water mark and the number of failures, or `None` at the deadline.
struct Timed<'a> {
    spool: &'a Spool,
    clock: &'a mut Clock,
    /// Number of the first stretch. Even stretches are timed as a whole, odd ones operation by operation.
    first: u64,
    end: Option<Deadline>,
}

impl Pass for Timed<'_> {
    type Output = io::Result<Option<(u64, u64)>>;

    fn run<S: Strategy>(self, mut strategy: S) -> io::Result<Option<(u64, u64)>> {
        let (mut stretch, mut failures, mut is_cut) = (self.first, 0, false);
        self.spool.for_each_batch(STRETCH, |batch| {
            if stretch.is_multiple_of(2) {
                failures += self.clock.whole(&mut strategy, batch);
            } else {
                failures += self.clock.one_by_one(&mut strategy, batch);
            }
            stretch += 1;
            is_cut = self.end.is_some_and(Deadline::is_over);
            !is_cut
        })?;
        Ok((!is_cut).then(|| (strategy.high_water(), failures)))
    }
}

/// Executes an operation. Returns `true` if it succeeded; a free always succeeds.
#[inline]
fn apply<S: Strategy>(strategy: &mut S, operation: &Operation) -> bool {
    match *operation {
        Operation::Allocate { slot, size, alignment } => strategy.allocate(slot, size, alignment),
        Operation::Free { slot } => {
            strategy.free(slot);
            true
        }
    }
}

struct Clock {
    /// Median cost of reading the clock, in nanoseconds.
    own_ns: u64,
    total_ns: u64,
    total_count: u64,
    each: Histogram,
}

impl Clock {
    fn new() -> Self {
        let mut own: Vec<u64> =
            (0..1001).map(|_| Instant::now()).map(|then| then.elapsed().as_nanos() as u64).collect();
        own.sort_unstable();
        Self { own_ns: own[own.len() / 2], total_ns: 0, total_count: 0, each: Histogram::new() }
    }

    fn whole<S: Strategy>(&mut self, strategy: &mut S, batch: &[Operation]) -> u64 {
        let start = Instant::now();
        let refused = batch.iter().filter(|operation| !apply(strategy, operation)).count();
        self.total_ns += (start.elapsed().as_nanos() as u64).saturating_sub(self.own_ns);
        self.total_count += batch.len() as u64;
        refused as u64
    }

    fn one_by_one<S: Strategy>(&mut self, strategy: &mut S, batch: &[Operation]) -> u64 {
        let mut refused = 0;
        for operation in batch {
            let start = Instant::now();
            refused += u64::from(!apply(strategy, operation));
            self.each.add((start.elapsed().as_nanos() as u64).saturating_sub(self.own_ns));
        }
        refused
    }

    /// Returns the mean time of an operation, from the stretches that were timed as a whole. A trace of one stretch
    /// that ran once has no such stretch; then the mean is that of the operations that were timed one by one.
    fn mean_ns(&self) -> f64 {
        if self.total_count == 0 { self.each.mean() } else { self.total_ns as f64 / self.total_count as f64 }
    }
}

/// Counts of values in classes: one class per value below 64, then 32 classes for each power of two, so that the error
/// is below 1/32.
struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u64,
}

impl Histogram {
    fn new() -> Self {
        Self { counts: vec![0; 64 + 58 * 32], count: 0, sum: 0 }
    }

    fn class(value: u64) -> usize {
        if value < 64 {
            return value as usize;
        }
        let power = value.ilog2();
        64 + (power as usize - 6) * 32 + ((value >> (power - 5)) & 31) as usize
    }

    /// Returns the largest value that belongs to a class.
    fn end(class: usize) -> u64 {
        if class < 64 {
            return class as u64;
        }
        let (power, part) = ((class - 64) / 32 + 6, (class - 64) % 32);
        (1_u64 << power) + ((part as u64 + 1) << (power - 5)) - 1
    }

    fn add(&mut self, value: u64) {
        self.counts[Self::class(value)] += 1;
        self.count += 1;
        self.sum += value;
    }

    fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Returns the smallest value that at least `fraction` of all values do not exceed, rounded up to the end of its
    /// class. Returns 0 if there are no values.
    fn quantile(&self, fraction: f64) -> u64 {
        let rank = (self.count as f64 * fraction).ceil() as u64;
        let mut below = 0;
        let class = self.counts.iter().position(|count| {
            below += count;
            below >= rank.max(1)
        });
        class.map_or(0, Self::end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_within_three_hundredths() {
        let mut values: Vec<u64> =
            (0..60).flat_map(|power| [1_u64 << power, (1 << power) + (1 << power) / 3]).collect();
        values.sort_unstable();
        for value in &values {
            let end = Histogram::end(Histogram::class(*value));
            assert!(end >= *value && end as f64 <= *value as f64 * 1.0313, "{value} is reported as {end}");
        }
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|value| histogram.add(value));
        let reported = histogram.quantile(0.999);
        assert!((999..=1030).contains(&reported), "{reported}");
        assert_eq!(Histogram::new().quantile(0.999), 0);
    }

    fn measured(spool: &Spool, kind: Kind, capacity: u64) -> Outcome {
        measure(spool, kind, capacity, Duration::MAX, false).expect("no file").expect("no limit")
    }

    #[test]
    fn what_takes_too_long_is_left_out_or_not_searched_and_what_places_alike_needs_no_search() {
        let mut writer = super::super::spool::Writer::default();
        for id in 0..300 {
            writer.allocate(id, 1 + id as u64 % 15, 16).expect("no file").expect("no misuse");
        }
        let spool = writer.finish().expect("no file");
        let at_once =
            |kind, is_requested| measure(&spool, kind, 1 << 20, Duration::ZERO, is_requested).expect("no file");
        assert!(at_once(Kind::FreeList, false).is_none());
        assert_eq!(at_once(Kind::FreeList, true).map(|outcome| outcome.smallest), Some(Smallest::NotSearched));
        let high_water = Smallest::Bytes(16 * 299 + 1 + 299 % 15);
        assert_eq!(at_once(Kind::FirstFit, true).map(|outcome| outcome.smallest), Some(high_water));
    }

    #[test]
    fn the_smallest_capacity_is_the_peak_where_nothing_moves() {
        let mut writer = super::super::spool::Writer::default();
        for id in 0..64 {
            writer.allocate(id, 4096, 4096).expect("no file").expect("no misuse");
        }
        let spool = writer.finish().expect("no file");
        for kind in [Kind::Tlsf, Kind::Buddy, Kind::FreeList, Kind::FirstFit] {
            let outcome = measured(&spool, kind, 1 << 20);
            assert_eq!(outcome.smallest, Smallest::Bytes(64 * 4096), "{}", kind.name());
            assert_eq!((outcome.high_water_bytes, outcome.failure_count), (64 * 4096, 0));
        }
        assert_eq!(measured(&spool, Kind::Tlsf, 4096 * 60).failure_count, 4);
    }

    #[test]
    fn fragmentation_shows_in_the_smallest_capacity() {
        let mut writer = super::super::spool::Writer::default();
        let mut step = |id: u128, size: Option<u64>| match size {
            Some(size) => writer.allocate(id, size, 1).expect("no file").expect("no misuse"),
            None => writer.free(id).expect("no file").expect("no misuse"),
        };
        // Ten small ranges are allocated, every other one is freed, then a range is allocated that fits into no hole.
        (0..10).for_each(|id| step(id, Some(100)));
        (0..10).step_by(2).for_each(|id| step(id, None));
        step(10, Some(500));
        let spool = writer.finish().expect("no file");
        assert_eq!(spool.peak_live_bytes(), 1000);
        for kind in [Kind::Tlsf, Kind::FreeList, Kind::FirstFit] {
            let Smallest::Bytes(smallest) = measured(&spool, kind, 4096).smallest else { panic!("it fits") };
            assert!((1500..=1501).contains(&smallest), "{}: {smallest}", kind.name());
        }
    }
}
