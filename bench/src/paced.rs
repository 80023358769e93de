//! Growth in frames: what a program sees that draws while its memory grows, where a loop without a pause would show
//! nothing but the driver.
//!
//! A frame allocates some tens of MiB as fast as it can, and is over when its time is; only the allocations are timed.
//! Every contender is given the same bytes: as many as make ours add the wanted number of blocks of its largest size.

use crate::device::{Contender, has_room};
use crate::makers::{Handles, Maker, Memory};
use crate::output::{Report, Row, Value};
use crate::trace::Random;
use std::time::{Duration, Instant};

/// What a frame is.
#[derive(Clone, Copy)]
pub struct Frame {
    pub time_us: u64,
    pub bytes: u64,
}

impl Frame {
    /// `MS:MIB`, as on the command line.
    pub fn read(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once(':').and_then(|(ms, mib)| Some((ms.parse::<f64>().ok()?, mib.parse::<u64>().ok()?)));
        let (ms, mib) = parts.ok_or(format!("{text}: expected MS:MIB, a frame's time and what it allocates"))?;
        Ok(Self { time_us: (ms * 1000.0) as u64, bytes: mib << 20 })
    }
}

/// How much is allocated, and how fast.
#[derive(Clone, Copy)]
pub struct Paced {
    /// Blocks that ours adds; 0: this is left out.
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

/// What a run of frames showed.
pub struct Shown {
    /// Of each allocation, sorted: ns.
    times: Vec<f64>,
    blocks: u64,
    announced: Duration,
}

/// Frames until `total` bytes are allocated.
pub fn run<M: Maker>(maker: &M, frame: Frame, total: u64, memory: Memory) -> Shown {
    let mut random = Random::new(7);
    let start = Instant::now();
    maker.announce(total, memory);
    let announced = start.elapsed();
    let (mut made, mut times, mut sum, mut until) = (Vec::new(), Vec::new(), 0, Instant::now());
    while sum < total {
        let end = total.min(sum + frame.bytes);
        while sum < end {
            let size = random.log_uniform(64 << 10, 4 << 20);
            let start = Instant::now();
            let one = maker.make(size, memory);
            times.push(start.elapsed().as_nanos() as f64);
            // Not timed: now and then the list has to grow.
            made.push(one);
            sum += size;
        }
        maker.end_frame();
        // A frame that was late is not made up for: the next one begins now.
        until = (until + Duration::from_micros(frame.time_us)).max(Instant::now());
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    }
    let blocks = maker.block_count();
    made.into_iter().for_each(|made| maker.unmake(made));
    times.sort_by(f64::total_cmp);
    Shown { times, blocks, announced }
}

/// Every contender, in memory of the device and of the host.
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
        let rows: Vec<_> = contenders
            .iter()
            .map(|contender| row(contender, &contender.by.pace(handles, frame, total, memory), device))
            .collect();
        let (ms, mib, gib) = (frame.time_us as f64 / 1e3, frame.bytes >> 20, total as f64 / (1_u64 << 30) as f64);
        let heading = format!("Growth in frames, {}: {mib} MiB every {ms} ms up to {gib:.1} GiB", memory.name());
        report.table("device_paced", &heading, &rows, 0)?;
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
    row.push("beforehand ms", Value::Number(shown.announced.as_secs_f64() * 1e3, 1));
    row.hide("ours", Value::Text(contender.ours.to_string()));
    row.hide("device", Value::Text(device.into()));
    row
}
