//! Writes a page of 100,000 allocations. A real allocator makes the allocations on the simulated device, and a trace
//! records all of them.
//!
//! `cargo run --release -p ringfence-report --example large_page [FOLDER] [COUNT]` writes `large.html`, `large.json`
//! and `large.rft` into the folder, and prints for each file its size and the time to write it.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ringfence::device::{BufferDesc, BufferUsage, TextureDesc, TextureUsage};
use ringfence::sim;
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, Buffer, Location, Texture};
use ringfence_report::{Figures, History, Report};

type Failure = Box<dyn std::error::Error>;
type Memory = Allocator<sim::Device>;

const FRAMES: usize = 400;
const PLACES: [&str; 6] = ["terrain/tile", "crowd/person", "harbour/ship", "sky/cloud", "ui/glyphs", "water/wave"];
const PARTS: [&str; 4] = ["vertices", "indices", "instances", "constants"];

/// A resource that a frame creates. Some resources are dropped in a later frame.
enum Held {
    Buffer(#[expect(dead_code, reason = "held for its drop")] Buffer<sim::Device>),
    Texture(#[expect(dead_code, reason = "held for its drop")] Texture<sim::Device>),
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "target/large-page".to_owned()));
    let count: usize = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    fs::create_dir_all(&folder)?;

    let device = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    let memory = Allocator::over(device, AllocatorDesc::default());
    let trace = folder.join("large.rft");
    memory.trace().start(File::create(&trace)?)?;
    let held = timed("made", || fill(&memory, count))?;
    let snapshot = memory.snapshot();
    let summary = memory.trace().stop()?.unwrap_or_default();
    println!("{:>10}  {} events in {} bytes", "trace", summary.event_count, summary.bytes);
    let json = serde_json::to_vec(&snapshot)?;
    fs::write(folder.join("large.json"), &json)?;
    let (history, replayed) = timed("read", || Ok(History::read(BufReader::new(File::open(&trace)?))?))?;
    assert_eq!(
        Figures::of(&replayed).used_bytes,
        Figures::of(&snapshot).used_bytes,
        "the trace ends where the run did"
    );
    let title = format!("{} allocations", ringfence_report::count(count as u64));
    let report = Report { title, snapshot, history: Some(history), ..Report::default() };
    let page = timed("page", || Ok(report.to_html()))?;
    fs::write(folder.join("large.html"), &page)?;
    let figures = Figures::of(&report.snapshot);
    println!("{:>10}  {} allocations in {} blocks", "in it", figures.allocation_count, figures.block_count);
    println!("{:>10}  {} bytes of page, {} of JSON", "size", page.len(), json.len());
    drop(held);
    memory.shutdown(Duration::from_secs(1))?;
    Ok(())
}

fn timed<T>(what: &str, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let start = Instant::now();
    let made = work()?;
    println!("{what:>10}  {:.2} s", start.elapsed().as_secs_f64());
    Ok(made)
}

/// Allocates frame by frame until `count` allocations are live. One of five is freed soon after, so that blocks have
/// holes.
fn fill(memory: &Memory, count: usize) -> Result<Vec<Held>, Failure> {
    let mut dice = 0x2545_f491_4f6c_dd1d_u64;
    let mut roll = move |end: u64| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice % end
    };
    let mut held = Vec::with_capacity(count + count / 4);
    for frame in 0..FRAMES {
        let goal = count * (frame + 1) / FRAMES;
        while held.len() < goal + goal / FRAMES {
            held.push(make(memory, &mut roll)?);
        }
        while held.len() > goal {
            held.swap_remove(roll(held.len() as u64) as usize);
        }
        memory.reclaim();
    }
    Ok(held)
}

fn make(memory: &Memory, roll: &mut impl FnMut(u64) -> u64) -> Result<Held, Failure> {
    let place = PLACES[roll(PLACES.len() as u64) as usize];
    if roll(40) == 0 {
        let side = 32 << roll(3);
        let info = TextureDesc { width: side, height: side, usage: TextureUsage::SAMPLED, ..Default::default() };
        let name = format!("{place} {}/albedo", roll(5000));
        return Ok(Held::Texture(memory.create_texture(&info, AllocationDesc { name: &name, ..Default::default() })?));
    }
    // Each power of two is equally likely, so most sizes are small, as in real programs.
    let least = 256 << roll(7);
    let info = BufferDesc { size: least + roll(least), usage: BufferUsage::COPY_DST | BufferUsage::VERTEX };
    let part = PARTS[roll(PARTS.len() as u64) as usize];
    let name = format!("{place} {}/{part}", roll(5000));
    let location = if roll(12) == 0 { Location::Upload } else { Location::Device };
    let desc = AllocationDesc { name: &name, location, ..Default::default() };
    Ok(Held::Buffer(memory.create_buffer(&info, desc)?))
}
