//! The demo: a streaming frame loop on a device that checks every byte.
//!
//! ```text
//!   world ── the expected state: objects and their bytes, on the host
//!     │
//!   stream ── frame by frame: create, update, clone, drop; three frames in flight
//!     ├── staging ── several threads write into the upload ring; copies in batches
//!     ├── shading ── constants: static, dynamic, for one draw
//!     ├── targets ── the frame's render targets, which share memory
//!     ├── frame   ── the command lists of a frame, and their queues
//!     └── checks  ── results are read back and compared
//!     │
//!   outcome, summary ── the table at the end, the digest, the exit code
//! ```

mod checks;
mod error;
mod frame;
mod outcome;
mod shading;
mod staging;
mod stream;
mod summary;
mod targets;
mod world;

use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

use ringfence_report::{History, Report};
#[cfg(all(windows, feature = "d3d12"))]
use ringfence_testkit::d3d12::D3d12Gpu;
use ringfence_testkit::sim::SimGpu;
#[cfg(feature = "vulkan")]
use ringfence_testkit::vulkan::VulkanGpu;
use ringfence_testkit::{Gpu, OpenError, Options};

use crate::args::{DemoOptions, DeviceChoice};
use crate::failure::Failure;
use crate::units::count;
use crate::{output, progress};
use outcome::Outcome;
use staging::STAGING;
use stream::Stream;

/// Maximum number of queues that the demo uses: the first draws, the second copies.
const QUEUES: usize = 2;

/// Runs the demo. If it finds a wrong byte, a hazard, a validation message or a leak, the exit code is 1.
pub fn main(options: &DemoOptions) -> Result<ExitCode, Failure> {
    let outputs = [
        ("--report", options.report.as_deref()),
        ("--image", options.image.as_deref()),
        ("--snapshot", options.snapshot.as_deref()),
        ("--trace", options.trace.as_deref()),
    ];
    output::check_apart(&[], &outputs)?;
    for path in outputs.into_iter().filter_map(|(_, path)| path) {
        output::check(path)?;
    }
    match &options.device {
        DeviceChoice::Auto => auto(options),
        DeviceChoice::Sim(name) => open_and_run::<SimGpu>(options, name.clone(), "as requested"),
        #[cfg(feature = "vulkan")]
        DeviceChoice::Vulkan(name) => open_and_run::<VulkanGpu>(options, name.clone(), "as requested"),
        #[cfg(not(feature = "vulkan"))]
        DeviceChoice::Vulkan(_) => Err("this build lacks Vulkan (needs the feature `vulkan`)".into()),
        #[cfg(all(windows, feature = "d3d12"))]
        DeviceChoice::D3d12(name) => open_and_run::<D3d12Gpu>(options, name.clone(), "as requested"),
        #[cfg(not(all(windows, feature = "d3d12")))]
        DeviceChoice::D3d12(_) => Err("this build lacks Direct3D 12 (needs Windows and the feature `d3d12`)".into()),
    }
}

/// Runs on a Direct3D 12 device if there is one, else on a Vulkan device, else on the simulated device. Prints the
/// reason for the choice. If no Vulkan device can be opened with `--validation`, returns the error, because the
/// simulated device has no validation layers.
fn auto(options: &DemoOptions) -> Result<ExitCode, Failure> {
    let mut why = Vec::new();
    #[cfg(all(windows, feature = "d3d12"))]
    match open::<D3d12Gpu>(options, None) {
        Ok(gpu) => return run(gpu, options, "there is a Direct3D 12 device"),
        Err(error) => why.push(error.to_string()),
    }
    #[cfg(feature = "vulkan")]
    match open::<VulkanGpu>(options, None) {
        Ok(gpu) => return run(gpu, options, "there is a Vulkan device"),
        // The simulated device has no validation layers.
        Err(error) if options.validation => return Err(error.into()),
        Err(error) => why.push(format!("no Vulkan device: {error}")),
    }
    if why.is_empty() {
        why.push("this build supports no real device".to_owned());
    }
    open_and_run::<SimGpu>(options, None, &why.join("; "))
}

fn open_and_run<G: Gpu>(options: &DemoOptions, name: Option<String>, why: &str) -> Result<ExitCode, Failure> {
    run(open::<G>(options, name)?, options, why)
}

fn open<G: Gpu>(options: &DemoOptions, name: Option<String>) -> Result<G, OpenError> {
    let options =
        Options { queues: QUEUES, validation: options.validation, name, seed: options.seed, ..Default::default() };
    G::open(&options)
}

fn run<G: Gpu>(gpu: G, options: &DemoOptions, why: &str) -> Result<ExitCode, Failure> {
    // The trace is written during the run, so that it exists if the run fails.
    let create = |path| File::create(path).map_err(|error| format!("cannot write {}: {error}", Path::display(path)));
    let trace = options.trace.as_deref().map(create).transpose()?;
    let mut stream = Stream::new(gpu, options.seed, trace)?;
    eprintln!("{} device: {} ({why})", G::NAME, stream.device_name());
    let progress = progress::steps("frame", options.frames);
    for _ in 0..options.frames {
        stream.frame()?;
        progress.inc(1);
    }
    progress.finish_and_clear();
    let outcome = stream.finish()?;
    if let Some(path) = &options.report {
        output::write(path, page(&outcome, options)?.to_html().as_bytes())?;
    }
    if let Some(path) = &options.image {
        output::write(path, &outcome.findings.picture.to_png()?)?;
    }
    if let Some(path) = &options.snapshot {
        output::write(path, &serde_json::to_vec_pretty(&outcome.snapshot)?)?;
    }
    match summary::print(&outcome, options) {
        // The reader of the output has stopped reading. A wrong byte still sets the exit code.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        printed => printed?,
    }
    Ok(if outcome.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn page(outcome: &Outcome, options: &DemoOptions) -> Result<Report, Failure> {
    Ok(Report {
        title: format!("ringfence demo, {} frames, seed {}", count(options.frames), options.seed),
        snapshot: outcome.snapshot.clone(),
        frames: outcome.samples.clone(),
        ring: Some(STAGING.to_owned()),
        facts: summary::facts(outcome).into_iter().map(summary::Fact::labelled).collect(),
        history: options.trace.as_deref().map(history).transpose()?.flatten(),
        ..Report::default()
    })
}

/// Returns the history in the recorded trace. Returns `None` if the trace was written to a pipe or a device, which
/// cannot be read again.
fn history(trace: &Path) -> Result<Option<History>, Failure> {
    if !fs::metadata(trace).is_ok_and(|found| found.is_file()) {
        return Ok(None);
    }
    let name = trace.display();
    let file = File::open(trace).map_err(|error| format!("cannot read {name}: {error}"))?;
    let (history, _) = History::read(BufReader::new(file)).map_err(|error| format!("{name}: {error}"))?;
    Ok(Some(history))
}
