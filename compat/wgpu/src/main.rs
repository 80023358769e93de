//! Programs on wgpu without a window. Built twice, with gpu-allocator and with Ringfence; both must write the same
//! bytes. wgpu does not publish its examples as packages, so these programs do the same as its examples without a
//! window.
//! | program | wgpu's example |
//! |---|---|
//! | `compute` | `hello_compute`, `hello_workgroups` |
//! | `texture`, `storage` | `storage_texture`, and the opposite direction |
//! | `render` | `render_to_texture` |
//! | `large` | `big_compute_buffers` |
//! | `copies`, `stress` | – |
//!
//! ```text
//! wgpu-programs OUT                              every program; NAME.bin into the folder OUT, figures to standard output
//! wgpu-programs OUT --only NAME                  programs with NAME in their name; may be repeated
//! wgpu-programs OUT --resources N --hints WORD   number of resources in `stress`; performance or memory
//! wgpu-programs OUT --device wine                skips two known faults of Wine's Direct3D 12: memory that must be zero
//!                                                is not, and one query returns an error
//! ```
//!
//! A figure is a line `figure PROGRAM NAME VALUE UNIT`. A wrong byte, or an error of wgpu or of a validation layer,
//! ends the program with exit status 1.

mod compute;
mod copies;
mod gpu;
mod large;
mod random;
mod render;
mod storage;
mod stress;
mod texture;

use std::path::PathBuf;
use std::time::Instant;

use gpu::Gpu;

/// Settings of a program.
pub struct Settings {
    pub resources: u32,
    /// `true` if bytes that were never written must be zero.
    pub zeroes: bool,
}

type Program = fn(&Gpu, &Settings) -> Result<Vec<u8>, String>;

const PROGRAMS: [(&str, Program); 7] = [
    ("copies", copies::run),
    ("compute", compute::run),
    ("texture", texture::run),
    ("storage", storage::run),
    ("render", render::run),
    ("large", large::run),
    ("stress", stress::run),
];

struct Arguments {
    out: PathBuf,
    only: Vec<String>,
    hints: wgpu::MemoryHints,
    settings: Settings,
}

impl Arguments {
    fn read() -> Result<Self, String> {
        let mut arguments = std::env::args().skip(1);
        let out = arguments.next().ok_or("expected a folder to write to")?.into();
        let settings = Settings { resources: 20_000, zeroes: true };
        let mut read = Self { out, only: Vec::new(), hints: Default::default(), settings };
        while let Some(argument) = arguments.next() {
            let value = arguments.next().ok_or(format!("{argument} wants a value"))?;
            match (argument.as_str(), value.as_str()) {
                ("--only", _) => read.only.push(value),
                ("--hints", "performance") => read.hints = wgpu::MemoryHints::Performance,
                ("--hints", "memory") => read.hints = wgpu::MemoryHints::MemoryUsage,
                ("--device", "wine") => read.settings.zeroes = false,
                ("--resources", _) => read.settings.resources = value.parse().map_err(|_| "expected a number")?,
                _ => return Err(format!("{argument} {value}: not understood")),
            }
        }
        Ok(read)
    }
}

fn run() -> Result<(), String> {
    let arguments = Arguments::read()?;
    gpu::install_log(if arguments.settings.zeroes { None } else { Some("create_factory_media") });
    std::fs::create_dir_all(&arguments.out).map_err(|error| error.to_string())?;
    let wanted = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|only| name.contains(&**only));
    for (name, program) in PROGRAMS.into_iter().filter(|(name, _)| wanted(name)) {
        let started = Instant::now();
        let gpu = Gpu::open(arguments.hints.clone())?;
        let bare = gpu.memory();
        gpu::figure(name, "reserved_bare", bare.reserved, "bytes");
        let bytes = program(&gpu, &arguments.settings).map_err(|error| format!("{name}: {error}"))?;
        drop(gpu);
        gpu::figure(name, "total", started.elapsed().as_micros(), "us");
        let file = arguments.out.join(format!("{name}.bin"));
        std::fs::write(&file, bytes).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    match gpu::errors_logged() {
        0 => Ok(()),
        count => Err(format!("{count} errors were logged")),
    }
}

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
