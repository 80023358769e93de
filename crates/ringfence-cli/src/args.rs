//! What the command understands. Bad input is answered with one line and exit code 1.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Manages GPU memory, descriptors and their lifetimes; this command shows it at work.
#[derive(Parser, Debug)]
#[command(
    name = "ringfence",
    version,
    after_help = "Without a command, `demo` runs. Exit codes: 0 all is well, 1 bad \
    input, no such device, or a wrong byte."
)]
pub struct Args {
    #[command(subcommand)]
    pub task: Option<Task>,
}

#[derive(Subcommand, Debug)]
pub enum Task {
    /// Streams a world through a device and checks every byte
    Demo(DemoOptions),
    /// Shows devices, their memory heaps and types, budgets and limits
    Devices(DevicesOptions),
}

impl Default for Task {
    fn default() -> Self {
        Self::Demo(DemoOptions::parse_from(["demo"]))
    }
}

/// Streams a world through a device and checks every byte.
#[derive(Parser, Debug, Clone)]
#[command(after_help = "Examples:\n  ringfence demo\n  ringfence demo --device sim --frames 1000 --seed 7\n  \
    ringfence demo --report run.html --image run.png")]
pub struct DemoOptions {
    /// Which device: auto, sim, vulkan, d3d12; the last three with :NAME, part of a device's or profile's name
    #[arg(long, default_value = "auto", value_name = "DEVICE", value_parser = device)]
    pub device: DeviceChoice,
    /// How many frames to run
    #[arg(long, default_value_t = 300, value_name = "N", value_parser = frames)]
    pub frames: u64,
    /// Seed of the world, and of the simulated device's clock
    #[arg(long, default_value_t = 0, value_name = "S")]
    pub seed: u64,
    /// Write a page about the run: memory map, ring, retirements
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Write the last picture that the device drew
    #[arg(long, value_name = "FILE.png")]
    pub image: Option<PathBuf>,
    /// Print the tables as JSON
    #[arg(long)]
    pub json: bool,
    /// Load the Vulkan validation layers, and fail on any message
    #[arg(long)]
    pub validation: bool,
}

/// Shows devices, their memory heaps and types, budgets and limits.
#[derive(Parser, Debug, Clone)]
pub struct DevicesOptions {
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Which device to run on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceChoice {
    /// A real one if there is one, else the simulated one.
    Auto,
    /// The simulated one, with this profile.
    Sim(Option<String>),
    /// Vulkan, the device with this in its name.
    Vulkan(Option<String>),
    /// Direct3D 12, the adapter with this in its name.
    D3d12(Option<String>),
}

fn device(text: &str) -> Result<DeviceChoice, String> {
    let (kind, name) = match text.split_once(':') {
        Some((kind, name)) => (kind, Some(name.to_owned())),
        None => (text, None),
    };
    match (kind, name) {
        ("auto", None) => Ok(DeviceChoice::Auto),
        ("sim", name) => Ok(DeviceChoice::Sim(name)),
        ("vulkan", name) => Ok(DeviceChoice::Vulkan(name)),
        ("d3d12", name) => Ok(DeviceChoice::D3d12(name)),
        _ => {
            Err("there is no such device; known are auto, sim, vulkan and d3d12, the last three with :NAME".to_owned())
        }
    }
}

/// More frames than that take days: surely a slip.
const FRAMES_MAX: u64 = 10_000_000;

fn frames(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(frames @ 1..=FRAMES_MAX) => Ok(frames),
        _ => Err(format!("expected a number of frames from 1 to {FRAMES_MAX}")),
    }
}

/// The parser's complaint without its hints.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    format!("{} (see --help)", first.strip_prefix("error: ").unwrap_or(first))
}
