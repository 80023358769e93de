//! The host cost of planned frames: of the first frame of a shape, and of later frames of the same shape. Prints the
//! rows of `planner/docs/measured.md`.
//!
//! `cargo run --release -p ringfence --example planned_frames`. The device is the simulated one. On a real driver, the
//! first frame also includes the time to create the objects.

use std::time::{Duration, Instant};

use ringfence::device::{TextureDesc, TextureUsage};
use ringfence::transient::{Described, FramePass, FrameResource, TransientDesc};
use ringfence::{Allocator, AllocatorDesc, TransientAllocator, sim};

/// Number of repeated frames per run, and number of runs. The minimum time of a frame is printed.
const FRAMES: u32 = 200;
const RUNS: u32 = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("| resources | first frame µs | repeated frame µs | ns a resource |");
    println!("|--:|--:|--:|--:|");
    for count in [20, 55, 1_000] {
        let runs = (0..RUNS).map(|_| run(count)).collect::<Result<Vec<_>, _>>()?;
        let first = runs.iter().map(|run| run.0).min().unwrap_or_default();
        let again = runs.iter().map(|run| run.1).min().unwrap_or_default();
        let us = |time: Duration| 1e6 * time.as_secs_f64();
        println!("| {count} | {:.0} | {:.1} | {:.0} |", us(first), us(again), 1e3 * us(again) / count as f64);
    }
    Ok(())
}

/// Returns the time of the first frame, and the minimum time of the later frames.
fn run(count: usize) -> Result<(Duration, Duration), Box<dyn std::error::Error>> {
    let gpu = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    let memory = Allocator::over(gpu.clone(), AllocatorDesc::default());
    // SAFETY: there are no submissions.
    let timeline = unsafe { memory.timeline(gpu.create_fence(0)) }?;
    let mut transient = TransientAllocator::new(&memory, TransientDesc::default());
    let usage = TextureUsage::RENDER_TARGET | TextureUsage::SAMPLED;
    let side = |at: usize| [64, 128, 256, 64][at % 4];
    let desc = |at: usize| TextureDesc { width: side(at), height: side(at / 2), usage, ..Default::default() };
    let descs: Vec<_> = (0..count).map(desc).collect();
    let lasts: Vec<_> = (0..count).map(|at| [(at + 1 + at % 5).min(count - 1)]).collect();
    let resource =
        |at: usize| FrameResource { info: Described::Texture(&descs[at]), first: at, last: &lasts[at], name: "" };
    let resources: Vec<_> = (0..count).map(resource).collect();
    let passes = vec![FramePass::on(timeline.id()); count];
    let mut frame = || -> Result<(), ringfence::transient::TransientError> {
        transient.plan(&passes, &resources, |_progress| false)?.finish(&[]);
        transient.end_frame();
        Ok(())
    };
    let start = Instant::now();
    frame()?;
    let first = start.elapsed();
    frame()?;
    let mut least = Duration::MAX;
    for _ in 0..FRAMES {
        let start = Instant::now();
        frame()?;
        least = least.min(start.elapsed());
    }
    Ok((first, least))
}
