//! Times of single operations. A step of the clock may be longer than an operation.
//!
//! ```text
//!   clock      0    │    0    │    1    │    1    │    2  …      some clocks step every 10 ns, in any unit
//!   operation           └──── 14 ns ────┘                        reads 1 or 2 steps, 1.4 on average
//! ```
//!
//! The same trace is played several times, so each operation has several readings. An interrupt or another program adds
//! more than one clock step to a reading. Readings within one step of the least differ only by the clock's rounding,
//! which their mean removes. So the time of an operation is the mean of its readings that are at most one step above
//! the least. The cost of reading the clock is measured in the same way and subtracted.

/// Reads the processor's clock if the program can read it, else the system's.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut processor = 0;
        // SAFETY: every x86-64 processor has this instruction; it only writes `processor`.
        unsafe { core::arch::x86_64::__rdtscp(&raw mut processor) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::sync::OnceLock;
        use std::time::Instant;
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Properties of the clock.
struct Clock {
    ns_per_tick: f64,
    /// Step of the clock, in ticks.
    step: u64,
    /// Cost of two readings, in ticks.
    cost: f64,
}

fn clock() -> &'static Clock {
    use std::sync::OnceLock;
    use std::time::Instant;
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    CLOCK.get_or_init(|| {
        let (start, first) = (Instant::now(), ticks());
        while start.elapsed().as_millis() < 50 {}
        let ns_per_tick = start.elapsed().as_nanos() as f64 / (ticks() - first) as f64;
        let mut readings: Vec<u64> = (0..100_000)
            .map(|_| {
                let start = ticks();
                ticks() - start
            })
            .collect();
        readings.sort_unstable();
        readings.truncate(readings.len() * 99 / 100);
        let step = step_of(&readings);
        let near: Vec<_> = readings.iter().take_while(|&&reading| reading <= readings[0] + step).collect();
        let cost = near.iter().copied().sum::<u64>() as f64 / near.len() as f64;
        Clock { ns_per_tick, step, cost }
    })
}

/// Returns the widest gap between two readings of the same operation that both occur more often than once in a
/// thousand.
fn step_of(sorted: &[u64]) -> u64 {
    let often = sorted.chunk_by(|a, b| a == b).filter(|same| same.len() * 1000 >= sorted.len()).map(|same| same[0]);
    let often: Vec<_> = often.collect();
    often.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(1)
}

/// Readings of single operations, over several runs of one trace.
pub struct Singles {
    /// For each operation one reading per run, in ticks; [`NOTHING`] if there was none.
    readings: Vec<u32>,
    runs: usize,
    run: usize,
    at: usize,
}

const NOTHING: u32 = u32::MAX;

impl Singles {
    pub fn new(operations: usize, runs: usize) -> Self {
        Self { readings: vec![NOTHING; operations * runs], runs, run: 0, at: 0 }
    }

    /// Starts the next run of the trace.
    pub fn begin_run(&mut self) {
        (self.run, self.at) = (if self.at == 0 { self.run } else { self.run + 1 }, 0);
    }

    /// Records the time of the next operation; `None` if the operation did nothing.
    #[inline(always)]
    pub fn note(&mut self, ticks: Option<u64>) {
        let reading = ticks.map_or(NOTHING, |ticks| ticks.min(u64::from(NOTHING) - 1) as u32);
        self.readings[self.at * self.runs + self.run] = reading;
        self.at += 1;
    }

    /// Returns the times of the operations in ascending order, in ns.
    pub fn times_ns(&self) -> Vec<f64> {
        let Clock { ns_per_tick, step, cost } = *clock();
        let time = |readings: &[u32]| {
            let least = *readings.iter().min()?;
            let near = readings.iter().filter(|reading| u64::from(**reading) <= u64::from(least) + step);
            let (sum, count) = near.fold((0.0, 0.0), |(sum, count), reading| (sum + f64::from(*reading), count + 1.0));
            (least != NOTHING).then_some(((sum / count - cost) * ns_per_tick).max(0.0))
        };
        let mut times: Vec<_> = self.readings.chunks(self.runs).filter_map(time).collect();
        times.sort_by(f64::total_cmp);
        if times.is_empty() { vec![0.0] } else { times }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_is_the_gap_between_what_is_read_often() {
        let mut coarse: Vec<_> = (0..10_000).map(|number| if number % 3 == 0 { 26 } else { 52 }).collect();
        coarse.push(9_000);
        coarse.sort_unstable();
        assert_eq!(step_of(&coarse), 26);
        let mut fine: Vec<_> = (0..10_000).map(|number| 40 + number % 5).collect();
        fine.sort_unstable();
        assert_eq!(step_of(&fine), 1);
        assert_eq!(step_of(&[30, 30, 30]), 1);
    }

    /// An operation of 1.4 steps, read as 1 or 2, is reported as 1.4, and an interrupt in one run does not change it.
    #[test]
    fn a_coarse_clock_is_averaged_out_and_an_interrupt_falls_away() {
        let clock = clock();
        let (mut singles, step) = (Singles::new(2, 6), clock.step as f64);
        for run in 0..6 {
            singles.begin_run();
            let steps = [10, 11, 10, 11, 10, 4_000][run];
            singles.note(Some((clock.cost + steps as f64 * step) as u64));
            singles.note(None);
        }
        let times = singles.times_ns();
        assert_eq!(times.len(), 1, "what was nothing is not counted");
        let expected = 10.4 * step * clock.ns_per_tick;
        assert!((times[0] - expected).abs() <= 2.0 * clock.ns_per_tick, "{} and {expected}", times[0]);
    }
}
