//! The cost of a trace: the time to create and drop a buffer, with and without a trace, in nanoseconds; the bytes per
//! event; and the additional time of a frame with few events.
//!
//! `cargo run --release -p ringfence --example trace_cost [FILE]`. Without a file, the trace is discarded.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::upload::UploadDesc;
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, UploadRing, sim};

const FRAMES: u64 = 300;
const BUFFERS: usize = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1);
    println!("{:>10} {:>8} {:>16} {:>12} {:>14}", "trace", "names", "ns a buffer", "events", "bytes an event");
    for named in [false, true] {
        let mut best = [f64::MAX; 2];
        let mut summary_of_run = None;
        // Alternates between runs with and without a trace, so that other load on the machine affects both.
        for _ in 0..7 {
            for on in [false, true] {
                let to: Option<Box<dyn Write + Send>> = match (&path, on) {
                    (_, false) => None,
                    (None, true) => Some(Box::new(io::sink())),
                    (Some(path), true) => Some(Box::new(File::create(path)?)),
                };
                let (ns, summary) = run(named, to)?;
                best[usize::from(on)] = best[usize::from(on)].min(ns);
                summary_of_run = summary.or(summary_of_run);
            }
        }
        println!("{:>10} {named:>8} {:>16.1}", "off", best[0]);
        let summary = summary_of_run.unwrap_or_default();
        let bytes = summary.bytes as f64 / summary.event_count as f64;
        println!("{:>10} {named:>8} {:>16.1} {:>12} {bytes:>14.1}", "on", best[1], summary.event_count);
        // A buffer causes three events: it is allocated, it is released, and its range is freed.
        println!("{:>10} {named:>8} {:>16.1} an event", "", (best[1] - best[0]) / 3.0);
    }
    let mut best = [f64::MAX; 2];
    for _ in 0..7 {
        for on in [false, true] {
            best[usize::from(on)] = best[usize::from(on)].min(quiet_frame(on)?);
        }
    }
    println!("a quiet frame: {:.0} ns, recorded {:.0} ns", best[0], best[1]);
    Ok(())
}

type Run = (f64, Option<ringfence::trace::TraceSummary>);

/// Runs frames that create and drop buffers. Returns the nanoseconds per buffer in the best frame.
fn run(named: bool, to: Option<Box<dyn Write + Send>>) -> Result<Run, Box<dyn std::error::Error>> {
    let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    let memory = Allocator::over(device, AllocatorDesc::default());
    if let Some(to) = to {
        memory.trace().start(to)?;
    }
    let info = BufferDesc { size: 4096, usage: BufferUsage::COPY_DST };
    let desc = AllocationDesc { name: if named { "terrain/tile" } else { "" }, ..Default::default() };
    let mut held = Vec::with_capacity(BUFFERS);
    let mut best = f64::MAX;
    for _ in 0..FRAMES {
        let start = Instant::now();
        for _ in 0..BUFFERS {
            held.push(memory.create_buffer(&info, desc)?);
        }
        black_box(&held);
        held.clear();
        memory.reclaim();
        best = best.min(start.elapsed().as_nanos() as f64 / BUFFERS as f64);
    }
    Ok((best, memory.trace().stop()?))
}

/// Returns the median time of a quiet frame, in nanoseconds. The frame writes to a ring eight times, keeps all its
/// buffers, and reclaims.
fn quiet_frame(is_traced: bool) -> Result<f64, Box<dyn std::error::Error>> {
    let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    let memory = Allocator::over(device.clone(), AllocatorDesc::default());
    if is_traced {
        memory.trace().start(io::sink())?;
    }
    // SAFETY: there are no submissions.
    let timeline = unsafe { memory.timeline(device.create_fence(0)) }?;
    let ring = UploadRing::new(&memory, UploadDesc { capacity: 1 << 20, ..Default::default() })?;
    let mut times = Vec::with_capacity(20_000);
    for _ in 0..20_000 {
        let start = Instant::now();
        let frame = timeline.begin();
        for _ in 0..8 {
            black_box(ring.write(&[0; 64], 16)?);
        }
        frame.discard();
        memory.reclaim();
        times.push(start.elapsed().as_nanos() as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
