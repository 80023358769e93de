//! Render targets of a frame that share memory. Their plan is made once, and reused in every frame of the same shape.
//!
//! `cargo run -p ringfence --example transient_frame [FILE.rft]`; `ringfence report FILE.rft --output page.html` draws
//! the plan.

use std::fs::File;
use std::time::Duration;

use ringfence::device::{TextureDesc, TextureUsage};
use ringfence::transient::{Described, FramePass, FrameResource, TransientDesc};
use ringfence::{Allocator, AllocatorDesc, TransientAllocator, sim};

/// Name, side in texels, index of the first pass, index of the last pass.
const TARGETS: [(&str, u32, usize, usize); 9] = [
    ("shadows", 2048, 0, 2),
    ("depth", 1024, 1, 4),
    ("normals", 1024, 1, 2),
    ("albedo", 1024, 1, 2),
    ("lit", 1024, 2, 5),
    ("fog", 512, 3, 4),
    ("bloom", 512, 5, 6),
    ("blurred", 512, 6, 7),
    ("final", 1024, 7, 7),
];
const PASS_COUNT: usize = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gpu = sim::Device::new(sim::Profile::h200(), sim::SimOptions::default());
    let memory = Allocator::over(gpu.clone(), AllocatorDesc::default());
    if let Some(path) = std::env::args().nth(1) {
        memory.trace().start(File::create(path)?)?;
    }
    let fence = gpu.create_fence(0);
    // SAFETY: every submission below signals this fence with the value of its frame.
    let timeline = unsafe { memory.timeline(fence) }?;
    let mut transient = TransientAllocator::new(&memory, TransientDesc::default());

    let usage = TextureUsage::RENDER_TARGET | TextureUsage::SAMPLED;
    let descs = TARGETS.map(|(_, side, ..)| TextureDesc { width: side, height: side, usage, ..Default::default() });
    let lasts = TARGETS.map(|(.., last)| [last]);
    let resource = |at: usize| FrameResource {
        info: Described::Texture(&descs[at]),
        first: TARGETS[at].2,
        last: &lasts[at],
        name: TARGETS[at].0,
    };
    let resources: Vec<_> = (0..TARGETS.len()).map(resource).collect();
    let passes = [FramePass::on(timeline.id()); PASS_COUNT];

    for number in 0..4 {
        let calls_before = memory.statistics().calls.made();
        let frame = timeline.begin();
        let value = frame.value();
        // The callback may stop the search. It need not here, because the plan is proven optimal quickly.
        let execution = transient.plan(&passes, &resources, |_progress| true)?;
        for (at, (name, ..)) in TARGETS.iter().enumerate().filter(|_| number == 0) {
            let target = execution.planned(at)?;
            let (_heap, bytes) = execution.place(target)?;
            let _image = execution.texture(target)?; // the driver's object, for draws
            println!("{name:>8} in bytes {:>9} to {:>9}", bytes.start, bytes.end);
        }
        // Before each pass: record its barriers from `execution.barriers()`, then its draws.
        let figures = execution.figures();
        gpu.submit(0, &[], vec![], (fence, value))?;
        execution.finish(&[timeline.submitted(frame)?]);
        transient.end_frame();
        memory.reclaim();
        let calls = memory.statistics().calls.made() - calls_before;
        println!(
            "frame {number}: {} bytes, at least {}; {calls} driver calls",
            figures.planned_bytes, figures.lower_bound_bytes
        );
    }

    let figures = transient.figures();
    println!("side by side {} bytes, shared {}", figures.requested_bytes, figures.peak_bytes);
    drop(transient);
    memory.trace().stop()?;
    memory.shutdown(Duration::from_secs(1))?;
    Ok(())
}
