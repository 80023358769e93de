//! Growth in frames: the times that a program sees which draws while its memory grows. A loop without a pause would
//! only show the driver.
//!
//! A frame allocates some tens of MiB as fast as possible, and ends when its time is over. Only the allocations are
//! timed. Every contender gets the same bytes: as many as make Ringfence add the given number of blocks of its largest
//! size.

use crate::device::{Contender, has_room};
use crate::makers::{Handles, Maker, Memory};
use crate::output::{Report, Row, Value};
use crate::trace::Random;
use std::time::{Duration, Instant};

/// Time and bytes of a frame.
#[derive(Clone, Copy)]
pub struct Frame {
    pub time_us: u64,
    pub bytes: u64,
}

impl Frame {
    /// Parses `MS:MIB`, as on the command line.
    pub fn read(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once(':').and_then(|(ms, mib)| Some((ms.parse::<f64>().ok()?, mib.parse::<u64>().ok()?)));
        let (ms, mib) = parts.ok_or(format!("{text}: expected MS:MIB, a frame's time and what it allocates"))?;
        Ok(Self { time_us: (ms * 1000.0) as u64, bytes: mib << 20 })
    }
}

/// Amount and rate of the allocations.
#[derive(Clone, Copy)]
pub struct Paced {
    /// Number of blocks that Ringfence adds; 0 to skip this section.
    pub blocks: u64,
    pub device: Frame,
    pub host: Frame,
}

impl Default for Paced {
    fn default() -> Self {
        Self {
            blocks: 0,
            device: Frame { time_us: 4_000, bytes: 64 << 20 },
            host: Frame { time_us: 12_000, bytes: 16 << 20 },
        }
    }
}

/// Result of a run of frames.
pub struct Shown {
    /// Times of the allocations, sorted, in ns.
    times: Vec<f64>,
    /// The longest time after the first frames. In the first frames, the program requests more at once than any driver
    /// has allocated yet.
    later_worst: f64,
    /// The slowest allocations, slowest first.
    slow: Vec<Slow>,
    blocks: u64,
    announced: Duration,
}

/// A slow allocation, and the events of its thread meanwhile.
struct Slow {
    ns: f64,
    /// Number of the allocation, from 0.
    number: usize,
    spent: Spent,
}

/// Number of frames that count as the first.
const FIRST_FRAMES: usize = 8;

/// Number of slow allocations in the table.
const SLOW_MAX: usize = 10;

/// Counts of a thread's events so far.
#[derive(Clone, Copy)]
struct Spent {
    /// Page faults, minor and major.
    faults: i64,
    /// Voluntary context switches: the thread slept for a lock, in the driver or in the system.
    waits: i64,
    /// Involuntary context switches: another thread got its processor.
    preemptions: i64,
}

impl Spent {
    fn now() -> Self {
        // SAFETY: the structure consists of numbers, for which zeros are valid, and the call fills it.
        let usage = unsafe {
            let mut usage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage
        };
        Self { faults: usage.ru_minflt + usage.ru_majflt, waits: usage.ru_nvcsw, preemptions: usage.ru_nivcsw }
    }

    fn since(self, before: Self) -> Self {
        Self {
            faults: self.faults - before.faults,
            waits: self.waits - before.waits,
            preemptions: self.preemptions - before.preemptions,
        }
    }
}

/// Runs frames until `total` bytes are allocated.
pub fn run<M: Maker>(maker: &M, frame: Frame, total: u64, memory: Memory) -> Shown {
    let mut random = Random::new(7);
    let start = Instant::now();
    maker.announce(total, memory);
    let announced = start.elapsed();
    let (mut made, mut times, mut sum, mut until) = (Vec::new(), Vec::new(), 0, Instant::now());
    let (mut slow, mut later_worst): (Vec<Slow>, f64) = (Vec::new(), 0.0);
    let mut frames = 0;
    while sum < total {
        let end = total.min(sum + frame.bytes);
        while sum < end {
            let size = random.log_uniform(64 << 10, 4 << 20);
            let before = Spent::now();
            let start = Instant::now();
            let one = maker.make(size, memory);
            let ns = start.elapsed().as_nanos() as f64;
            note(&mut slow, Slow { ns, number: times.len(), spent: Spent::now().since(before) });
            times.push(ns);
            if frames >= FIRST_FRAMES {
                later_worst = later_worst.max(ns);
            }
            // Not timed, because the list sometimes grows.
            made.push(one);
            sum += size;
        }
        maker.end_frame();
        frames += 1;
        // A late frame is not compensated: the next one begins immediately.
        until = (until + Duration::from_micros(frame.time_us)).max(Instant::now());
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    }
    let blocks = maker.block_count();
    made.into_iter().for_each(|made| maker.unmake(made));
    times.sort_by(f64::total_cmp);
    Shown { times, later_worst, slow, blocks, announced }
}

/// Keeps the slowest allocations.
fn note(slow: &mut Vec<Slow>, one: Slow) {
    let place = slow.partition_point(|other| other.ns >= one.ns);
    if place < SLOW_MAX {
        slow.insert(place, one);
        slow.truncate(SLOW_MAX);
    }
}

/// Measures every contender, in memory of the device and of the host.
pub fn section(
    handles: &Handles,
    contenders: &[Contender],
    paced: &Paced,
    device: &str,
    report: &mut Report,
) -> std::io::Result<()> {
    if paced.blocks == 0 {
        println!("\ngrowth in frames is left out: --paced-blocks says how many blocks (device memory 256 MiB each)");
        return Ok(());
    }
    for (memory, frame, block) in [(Memory::Device, paced.device, 256_u64 << 20), (Memory::Host, paced.host, 64 << 20)]
    {
        let total = paced.blocks * block;
        if !has_room(handles, memory, total) {
            println!("\nno growth in frames in {}: the device has too little of it", memory.name());
            continue;
        }
        let shown: Vec<_> =
            contenders.iter().map(|contender| contender.by.pace(handles, frame, total, memory)).collect();
        let rows: Vec<_> =
            contenders.iter().zip(&shown).map(|(contender, shown)| row(contender, shown, device)).collect();
        let slowest: Vec<_> =
            contenders.iter().zip(&shown).flat_map(|(of, shown)| slow_rows(of, shown, device)).collect();
        let (ms, mib, gib) = (frame.time_us as f64 / 1e3, frame.bytes >> 20, total as f64 / (1_u64 << 30) as f64);
        let heading = format!("Growth in frames, {}: {mib} MiB every {ms} ms up to {gib:.1} GiB", memory.name());
        report.table("device_paced", &heading, &rows, 0)?;
        report.table("device_paced_slow", &format!("The slowest of these, {}", memory.name()), &slowest, 0)?;
    }
    Ok(())
}

fn row(contender: &Contender, shown: &Shown, device: &str) -> Row {
    let times = &shown.times;
    let at = |share: f64| Value::Number(times[((times.len() - 1) as f64 * share) as usize] / 1000.0, 2);
    let mut row = Row::new();
    row.push("by", Value::Text(contender.name.into()));
    row.push("blocks", Value::Number(shown.blocks as f64, 0));
    row.push("allocations", Value::Number(times.len() as f64, 0));
    row.push("50 % µs", at(0.5));
    row.push("99 % µs", at(0.99));
    row.push("99.9 % µs", at(0.999));
    row.push("99.99 % µs", at(0.9999));
    row.push("worst µs", at(1.0));
    row.push("worst later µs", Value::Number(shown.later_worst / 1000.0, 2));
    row.push("beforehand ms", Value::Number(shown.announced.as_secs_f64() * 1e3, 1));
    row.hide("ours", Value::Text(contender.ours.to_string()));
    row.hide("device", Value::Text(device.into()));
    row
}

/// Returns the rows of the slowest allocations.
fn slow_rows(contender: &Contender, shown: &Shown, device: &str) -> Vec<Row> {
    let row = |slow: &Slow| {
        let Spent { faults, waits, preemptions } = slow.spent;
        let mut row = Row::new();
        row.push("by", Value::Text(contender.name.into()));
        row.push("µs", Value::Number(slow.ns / 1000.0, 2));
        row.push("number", Value::Number(slow.number as f64, 0));
        row.push("page faults", Value::Number(faults as f64, 0));
        row.push("waits", Value::Number(waits as f64, 0));
        row.push("preemptions", Value::Number(preemptions as f64, 0));
        row.hide("ours", Value::Text(contender.ours.to_string()));
        row.hide("device", Value::Text(device.into()));
        row
    };
    shown.slow.iter().map(row).collect()
}
