//! Step 8: records a trace and a snapshot, finds a leak, and ends without one.

use std::fs::File;

use first_hour::frames::Renderer;
use first_hour::gpu::{Failure, Gpu, PATIENCE};
use ringfence::AllocationDesc;
use ringfence::device::{BufferDesc, BufferUsage};

fn main() -> Result<(), Failure> {
    let gpu = Gpu::open()?;
    gpu.memory.trace().start(File::create("step_8.rft")?)?; // before the first resource
    inspect(&gpu)?;
    leak(&gpu)?;
    let summary = gpu.memory.trace().stop()?.ok_or("the trace was started")?;
    println!("step_8.rft: {} events in {} bytes", summary.event_count, summary.bytes);
    gpu.close()?; // fails if anything is left
    println!("nothing is left");
    Ok(())
}

fn inspect(gpu: &Gpu) -> Result<(), Failure> {
    let mut renderer = Renderer::new(gpu)?;
    for number in 0..20 {
        renderer.frame(gpu, number, false)?;
        let (statistics, total) = (gpu.memory.statistics(), gpu.memory.statistics().total());
        if number % 5 == 0 {
            let (used, reserved, live) = (total.used_bytes(), total.reserved_bytes(), total.range_count);
            let waiting = statistics.retired_count;
            println!("frame {number}: {used} of {reserved} bytes in {live} ranges, {waiting} objects wait");
        }
    }
    let snapshot = gpu.memory.snapshot();
    let names = || snapshot.blocks.iter().flat_map(|block| &block.ranges).map(|range| &range.name);
    if !names().any(|name| name == "sphere/vertices") {
        return Err("the snapshot does not contain the mesh".into());
    }
    serde_json::to_writer(File::create("step_8.json")?, &snapshot)?;
    println!("step_8.json: {} blocks, {} ranges", snapshot.blocks.len(), names().count());
    renderer.retire(gpu);
    Ok(())
}

/// Shows the report of a resource that is alive at the shutdown.
fn leak(gpu: &Gpu) -> Result<(), Failure> {
    let desc = BufferDesc { size: 4096, usage: BufferUsage::VERTEX };
    let forgotten = gpu.memory.create_buffer(&desc, AllocationDesc { name: "forgotten", ..Default::default() })?;
    gpu.memory.shutdown(PATIENCE)?;
    let findings = gpu.memory.debug().take_findings();
    findings.iter().for_each(|finding| println!("{finding}"));
    if findings.len() != 1 || !findings[0].to_string().contains("forgotten") {
        return Err("exactly one leak was expected".into());
    }
    drop(forgotten);
    gpu.memory.reclaim();
    Ok(())
}
