//! The picture and the report.

use std::fs::File;
use std::io::BufWriter;
use std::time::Duration;

use ringfence::vulkan::Device;
use ringfence::{Allocator, Readback};
use ringfence_report::{FrameSample, Report};

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
pub fn sample(memory: &Allocator<Device>, frame: u32) -> FrameSample {
    let statistics = memory.statistics();
    let total = statistics.total();
    FrameSample {
        frame: frame.into(),
        retired_count: statistics.retired_count as u64,
        reserved_bytes: total.reserved_bytes(),
        used_bytes: total.used_bytes(),
        live_count: total.range_count as u64,
        ..Default::default()
    }
}

/// Writes the library's page: a map of the memory, and the charts over the frames.
pub fn write_report(
    path: &str,
    memory: &Allocator<Device>,
    frames: Vec<FrameSample>,
    facts: Vec<(String, String)>,
) -> Result<(), Failure> {
    let report = Report { title: "Viewer".into(), snapshot: memory.snapshot(), frames, facts, ..Default::default() };
    Ok(std::fs::write(path, report.to_html())?)
}
