//! Streaming: each frame loads some assets through an upload ring, and drops other assets that the device may still
//! read. The run is recorded; view the recording with `ringfence report streaming.rft --output page.html`.
//!
//! `cargo run -p ringfence --example streaming [FILE.rft]`

use std::collections::VecDeque;
use std::fs::File;
use std::time::Duration;

use ringfence::device::{BufferDesc, BufferUsage};
use ringfence::sim::{self, Command};
use ringfence::upload::UploadDesc;
use ringfence::{AllocationDesc, Allocator, AllocatorDesc, UploadRing};

const FRAMES: u64 = 240;
const FRAMES_IN_FLIGHT: u64 = 3;
/// Maximum number of live assets.
const ASSETS: usize = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gpu = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    let memory = Allocator::over(gpu.clone(), AllocatorDesc::default());
    if let Some(path) = std::env::args().nth(1) {
        memory.trace().start(File::create(path)?)?;
    }
    let fence = gpu.create_fence(0);
    // SAFETY: every submission below signals this fence with the value of its frame.
    let timeline = unsafe { memory.timeline(fence) }?;
    let upload = UploadRing::new(&memory, UploadDesc { capacity: 2 << 20, ..Default::default() })?;
    let mut assets = VecDeque::new();

    for number in 0..FRAMES {
        let frame = timeline.begin();
        let value = frame.value();
        // The host is at most this many frames ahead of the device.
        if value > FRAMES_IN_FLIGHT {
            timeline.wait(value - FRAMES_IN_FLIGHT, Duration::from_secs(1))?;
        }
        let mut commands = Vec::new();
        for part in 0..4 {
            let bytes = vec![number as u8; 4096 << ((number + part) % 6)];
            let usage = BufferUsage::COPY_DST | BufferUsage::VERTEX;
            let info = BufferDesc { size: bytes.len() as u64, usage };
            let name = format!("terrain/tile {number}/{part}");
            let asset = memory.create_buffer(&info, AllocationDesc { name: &name, ..Default::default() })?;
            // If the ring is full, waits for the oldest frame only.
            let staged = upload.write_for(&frame, &bytes, 16)?;
            commands.push(Command::CopyBuffer {
                src: staged.buffer,
                src_offset: staged.offset,
                dst: *asset.object(),
                dst_offset: 0,
                size: staged.size,
            });
            assets.push_back(asset);
        }
        // Drop the oldest assets. They are retired, because frames in flight may still draw with them.
        while assets.len() > ASSETS {
            assets.pop_front();
        }
        gpu.submit(0, &[], commands, (fence, value))?;
        timeline.submitted(frame)?;
        memory.reclaim();
    }

    let (total, ring) = (memory.statistics().total(), upload.snapshot());
    println!(
        "{} assets in {} blocks, {} bytes of {}",
        total.range_count, total.block_count, total.range_bytes, total.block_bytes
    );
    println!("ring: at most {} of {} bytes, {} waits", ring.high_water_bytes, ring.capacity_bytes, ring.wait_count);
    if let Some(summary) = memory.trace().stop()? {
        println!("trace: {} events in {} bytes", summary.event_count, summary.bytes);
    }
    assert!(gpu.take_hazards().is_empty(), "a correct program has no hazards");
    drop((assets, upload));
    memory.shutdown(Duration::from_secs(1))?;
    Ok(())
}
