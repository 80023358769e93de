//! The picture and the report.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence::Allocator;
use ringfence::upload::Readback;
use ringfence::vulkan::{Device, UploadRing};
use ringfence_report::{FrameSample, History, Report};

use crate::Failure;

/// Writes the picture as a PNG file.
pub fn write_image(path: &str, [width, height]: [u32; 2], read: &Readback<Device>) -> Result<(), Failure> {
    read.wait(Duration::from_secs(60))?;
    let mut texels = vec![0; read.read_bytes() as usize];
    read.read(&mut texels)?;
    let colours: Vec<u8> = texels.chunks(4).flat_map(|texel| [texel[0], texel[1], texel[2]]).collect();
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    encoder.write_header()?.write_image_data(&colours)?;
    Ok(())
}

/// Returns the measurements of a frame, for the charts of the report.
pub fn sample(memory: &Allocator<Device>, ring: &UploadRing, frame: u32) -> FrameSample {
    let (statistics, ring) = (memory.statistics(), ring.snapshot());
    let total = statistics.total();
    FrameSample {
        frame: frame.into(),
        ring_used_bytes: ring.used_bytes,
        ring_capacity_bytes: ring.capacity_bytes,
        retired_count: statistics.retired_count,
        reserved_bytes: total.reserved_bytes(),
        used_bytes: total.used_bytes(),
        live_count: total.range_count,
    }
}

/// Starts the recording of all events, beside the report. Nothing may have been created yet.
pub fn start_trace(memory: &Allocator<Device>, report: &str) -> Result<(), Failure> {
    Ok(memory.trace().start(File::create(trace_of(report))?)?)
}

/// Writes the library's page: a map of the memory, charts over the frames, and the history from the trace.
pub fn write_report(
    path: &str,
    memory: &Allocator<Device>,
    frames: Vec<FrameSample>,
    facts: Vec<(String, String)>,
) -> Result<(), Failure> {
    let snapshot = memory.snapshot();
    memory.trace().stop()?;
    let (history, _) = History::read(BufReader::new(File::open(trace_of(path))?))?;
    let (title, history, ring) = ("Viewer".into(), Some(history), Some("uploads".into()));
    let report = Report { title, snapshot, frames, facts, history, ring, ..Default::default() };
    Ok(std::fs::write(path, report.to_html())?)
}

fn trace_of(report: &str) -> PathBuf {
    Path::new(report).with_extension("rft")
}
