//! The command line: subcommands, options and their checks. If an argument is invalid, the command prints one line, and
//! the exit code is 1.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::replay::Strategy;
use crate::units::parse_bytes;

/// Manages GPU memory, descriptors and their lifetimes: demo, measurements and reports
#[derive(Parser, Debug)]
#[command(
    name = "ringfence",
    version,
    after_help = "Without a command, `demo` runs.\n\n\
        Examples:\n  \
        ringfence\n  \
        ringfence demo --device sim --trace run.rft\n  \
        ringfence report run.rft --output page.html\n  \
        ringfence replay run.rft\n\n\
        Exit codes:\n  \
        0  success (also if the reader of the output stops reading)\n  \
        1  bad input, a file that cannot be read or written, an unknown device, or a wrong byte\n  \
        2  only `plan`: no plan was found that fits the capacity, or the heaps are too small\n\n\
        Tables are written to standard output, progress and remarks to standard error. Output has no colours, with or \
        without NO_COLOR."
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
    /// Examines the devices of this machine: the features that the library uses, and the missing ones
    Doctor(DoctorOptions),
    /// Measures a recorded sequence of allocations with one strategy or with all strategies
    Replay(ReplayOptions),
    /// Computes offsets for buffers with known lifetimes; buffers that are never alive together share bytes
    Plan(PlanOptions),
    /// Writes a page from a snapshot, a trace or a dump of VMA: the resources in memory, their location and age
    Report(ReportOptions),
    /// Converts a trace for Perfetto: heaps and rings as counters, frames and blocks as slices
    Export(ExportOptions),
    /// Runs seeded random programs on the simulated device under its hazard finder
    World(WorldOptions),
    /// Prints the completions for a shell
    Completions(CompletionsOptions),
    /// Prints the manual page
    #[command(after_help = "Example:\n  ringfence man > ~/.local/share/man/man1/ringfence.1")]
    Man,
}

impl Default for Task {
    fn default() -> Self {
        Self::Demo(DemoOptions::parse_from(["demo"]))
    }
}

/// Streams a world through a device and checks every byte.
#[derive(Parser, Debug, Clone)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  ringfence demo\n  ringfence demo --device sim --frames 1000 --seed 7\n  \
    ringfence demo --report run.html --image run.png"
)]
pub struct DemoOptions {
    /// Device: auto, sim, vulkan, d3d12. The last three may be followed by :NAME, a part of the name of a device or
    /// profile
    #[arg(long, default_value = "auto", value_name = "DEVICE", value_parser = device)]
    pub device: DeviceChoice,
    /// Number of frames to run
    #[arg(long, default_value_t = 300, value_name = "N", value_parser = frames)]
    pub frames: u64,
    /// Seed of the world, and of the simulated device's clock
    #[arg(long, default_value_t = 0, value_name = "S")]
    pub seed: u64,
    /// Write a page about the run: memory map, upload ring, retired objects; with --trace also memory over time
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Write the last picture that the device drew, as an image
    #[arg(long, value_name = "FILE.png")]
    pub image: Option<PathBuf>,
    /// Write a snapshot of the memory in the last frame, for `ringfence report`
    #[arg(long, value_name = "FILE.json")]
    pub snapshot: Option<PathBuf>,
    /// Record every event of the allocator, for `ringfence replay` and `ringfence report`
    #[arg(long, value_name = "FILE.rft")]
    pub trace: Option<PathBuf>,
    /// Print the tables as JSON
    #[arg(long)]
    pub json: bool,
    /// Load the Vulkan validation layers; any of their messages makes the demo fail
    #[arg(long)]
    pub validation: bool,
}

/// Shows devices, their memory heaps and types, budgets and limits.
#[derive(Parser, Debug, Clone)]
#[command(after_help = "The text before the brackets is a value for `ringfence demo --device`.\n\n\
        Examples:\n  \
        ringfence devices\n  \
        ringfence devices --json")]
pub struct DevicesOptions {
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Examines the devices of this machine: the features that the library uses, and the missing ones.
#[derive(Parser, Debug, Clone)]
#[command(after_help = "Opens each device once.\n\n\
        Examples:\n  \
        ringfence doctor\n  \
        ringfence doctor --json")]
pub struct DoctorOptions {
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Replays a recorded sequence of allocations and measures its cost: time, memory, failures.
#[derive(Parser, Debug, Clone)]
#[command(
    allow_negative_numbers = true,
    after_help = "The trace is CSV with the columns op,id,size,alignment (op is a or f), a recording of the Vulkan \
        Memory Allocator, or a trace of this library.\n\n\
        Strategies: tlsf, buddy, free-list; first-fit and pools are naive strategies for comparison.\n\n\
        Examples:\n  \
        ringfence replay trace.csv\n  \
        ringfence replay trace.csv --allocator tlsf --capacity 4GiB --json\n  \
        zcat trace.csv.gz | ringfence replay -"
)]
pub struct ReplayOptions {
    /// Trace; - is standard input
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Strategy: tlsf, buddy, free-list, first-fit, pools or all
    #[arg(long, default_value = "all", value_name = "NAME", value_parser = strategy)]
    pub allocator: StrategyChoice,
    /// Size of the heap in the timed run: bytes, or 64KiB, 512MiB, 4GiB; by default at least four times the peak of
    /// live bytes
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub capacity: Option<u64>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Computes offsets for buffers with known lifetimes; buffers that are never alive together share bytes.
#[derive(Parser, Debug, Clone)]
#[command(
    allow_negative_numbers = true,
    after_help = "The input is CSV with the columns id,lower,upper,size and optionally alignment. Other columns are \
        ignored and named in the figures. Rows that already have an offset (of an earlier plan, or of MiniMalloc) need \
        --offsets; MiniMalloc's gaps are not supported. A buffer is alive from lower until just before upper. The \
        output has a heading, then the same rows in the same order with their offset. Lines that begin with # are \
        comments; quote an id that begins with #. A quoted field must end on its line.\n\n\
        Further columns of a row:\n  \
        uses      passes that use the row, as in \"3w 5 9w\" (w: the pass writes it), for advice on their order\n  \
        pinned    the offset that the row must have\n  \
        heaps     as in \"1 0\": the row is placed in the first of these heaps (--heap) that has room\n  \
        kind      rows of different kinds share no page of --granularity\n  \
        again_of  an earlier id: another lifetime of that buffer, at the same offset\n\n\
        Without --heap, heaps have no limit.\n\n\
        A dump of XLA (the buffer assignment of one module, followed by its live ranges) or of TVM (save_json of \
        the USMP's BufferInfo) is read too. Each pool of TVM becomes a heap with the size of the pool's size hint, \
        and a buffer is placed in one of its candidate pools.\n\n\
        With a capacity the search ends as soon as a plan fits. Exit code 2 means that no plan fits the capacity, \
        or that the heaps are too small: then no rows are written (--output), but a page (--report) is, if there is a \
        plan to show. The comparison with first fit is omitted if it takes longer than a tenth of the time limit.\n\n\
        Examples:\n  \
        ringfence plan frame.csv --output planned.csv --report plan.html\n  \
        ringfence plan model.csv --capacity 1MiB --time-limit 2 --threads 8\n  \
        zcat big.csv.gz | ringfence plan - --json\n  \
        ringfence plan frame.csv --heap 256MiB --heap 4GiB --granularity 1KiB\n  \
        cat dump/*buffer-assignment.txt dump/*live-range.txt |\n    \
        ringfence plan - --alignment 64"
)]
pub struct PlanOptions {
    /// Buffers; - is standard input
    #[arg(value_name = "IN.csv")]
    pub input: PathBuf,
    /// Available bytes; the search stops as soon as a plan fits
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub capacity: Option<u64>,
    /// Alignment of rows that have none, a power of two
    #[arg(long, value_name = "BYTES", default_value = "1", value_parser = alignment)]
    pub alignment: u64,
    /// Format of the input: csv, xla, tvm, or auto, which detects it from the first lines
    #[arg(long, value_name = "FORMAT", default_value = "auto", value_parser = format)]
    pub format: crate::plan::Format,
    /// Use of existing offsets: replace (compute new offsets) or pin (rows keep their offset, as in MiniMalloc)
    #[arg(long, value_name = "WHAT", value_parser = offsets)]
    pub offsets: Option<crate::plan::Offsets>,
    /// Size of a heap; give the option once per heap. A row is placed in the first of its heaps that has room
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub heap: Vec<u64>,
    /// Size of a page that rows of different kinds must not share, as bufferImageGranularity
    #[arg(long, value_name = "BYTES", default_value = "1", value_parser = granularity)]
    pub granularity: u64,
    /// Time to search for a better plan than the first. The advice on the order of passes and the reduction of
    /// transitions are not included; each of them takes a second or two at most
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub time_limit: Duration,
    /// Number of threads. If the search ends before the time limit, the plan is the same for any number above 1
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads)]
    pub threads: NonZeroUsize,
    /// Write the rows with their offsets; - is standard output: the figures are then written to standard error
    #[arg(long, short, value_name = "OUT.csv")]
    pub output: Option<PathBuf>,
    /// Write a page with a chart of time and offset
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Writes a page from a snapshot, a trace or a dump of VMA: the resources in memory, their location and age.
#[derive(Parser, Debug, Clone)]
#[command(
    group = clap::ArgGroup::new("answer").required(true).multiple(true),
    override_usage = "ringfence report [OPTIONS] <--output|--svg|--json> <SNAPSHOT.json>",
    after_help = "The input is a snapshot of this library, as JSON (`ringfence demo --snapshot`), a trace (`ringfence \
        demo --trace`), which adds charts over time, or a JSON dump of the Vulkan Memory Allocator. If the file is cut \
        off or damaged, the page shows the readable part, and the exit code is 1.\n\n\
        Examples:\n  \
        ringfence report snapshot.json --output page.html\n  \
        ringfence report vma.json --output - > page.html\n  \
        ringfence report snapshot.json --json\n  \
        ringfence report before.json --compare after.json -o page.html\n  \
        ringfence report run.rft --svg figures/"
)]
pub struct ReportOptions {
    /// Snapshot, trace or dump; - is standard input
    #[arg(value_name = "SNAPSHOT.json")]
    pub snapshot: PathBuf,
    /// Write the page; - is standard output
    #[arg(long, short, value_name = "FILE.html", group = "answer")]
    pub output: Option<PathBuf>,
    /// A later snapshot or trace to compare with
    #[arg(long, value_name = "OTHER.json")]
    pub compare: Option<PathBuf>,
    /// Write each chart as an SVG file into a folder, for papers and slides
    #[arg(long, value_name = "DIR", group = "answer")]
    pub svg: Option<PathBuf>,
    /// Heading of the page; by default the name of the file
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Print the figures at the top of the page as JSON
    #[arg(long, group = "answer")]
    pub json: bool,
}

/// Converts a trace for other tools. Heaps and rings become counters; frames, blocks and waits become slices and marks.
#[derive(Parser, Debug, Clone)]
#[command(
    after_help = "The file is in the JSON form of Chrome's trace events. Open it in Perfetto or chrome://tracing. If the \
        trace is cut off or damaged, the file has the readable part, and the exit code is 1.\n\n\
        Examples:\n  \
        ringfence demo --trace run.rft\n  \
        ringfence export run.rft --perfetto run.json"
)]
pub struct ExportOptions {
    /// Trace; - is standard input
    #[arg(value_name = "TRACE.rft")]
    pub trace: PathBuf,
    /// Write the trace events; - is standard output
    #[arg(long, value_name = "FILE.json")]
    pub perfetto: PathBuf,
}

/// Runs seeded worlds: random programs on the simulated device under its hazard finder. Compares all bytes that are
/// read back.
#[derive(Parser, Debug, Clone)]
#[command(
    allow_negative_numbers = true,
    after_help = "A seed always gives the same world if it has one thread. The command stops at the first \
        error, prints it with its seed, and the exit code is 1.\n\n\
        Examples:\n  \
        ringfence world --seed 17\n  \
        ringfence world --seed 17 --trace world.rft\n  \
        ringfence world --count 10000"
)]
pub struct WorldOptions {
    /// Seed of the first world
    #[arg(long, default_value_t = 0, value_name = "S")]
    pub seed: u64,
    /// Number of worlds, with consecutive seeds
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,
    /// Number of steps of each world
    #[arg(long, default_value_t = 150, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub steps: u32,
    /// Number of threads in each world; with more than one, two runs of a seed differ
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub threads: u8,
    /// Record the world for `ringfence replay` and `ringfence report`; only for one world with one thread
    #[arg(long, value_name = "FILE.rft")]
    pub trace: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints the completions for a shell.
#[derive(Parser, Debug, Clone)]
#[command(after_help = "Example:\n  ringfence completions bash > ~/.local/share/bash-completion/completions/ringfence")]
pub struct CompletionsOptions {
    /// Shell
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// The strategies that `replay` measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StrategyChoice {
    All,
    One(Strategy),
}

fn offsets(text: &str) -> Result<crate::plan::Offsets, String> {
    match text {
        "replace" => Ok(crate::plan::Offsets::Replace),
        "pin" => Ok(crate::plan::Offsets::Pin),
        _ => Err("expected replace or pin".to_owned()),
    }
}

fn strategy(text: &str) -> Result<StrategyChoice, String> {
    match text {
        "all" => Ok(StrategyChoice::All),
        name => Strategy::by_name(name).map(StrategyChoice::One).ok_or_else(|| {
            let names: Vec<_> = Strategy::ALL.iter().map(|kind| kind.name()).collect();
            format!("unknown strategy; expected {} or all", names.join(", "))
        }),
    }
}

/// The device of `demo`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceChoice {
    /// A real device if there is one, else the simulated device.
    Auto,
    /// The simulated device with the profile of this name, or with the default profile.
    Sim(Option<String>),
    /// The best Vulkan device whose name contains this text; without a text, the best one.
    Vulkan(Option<String>),
    /// The first Direct3D 12 adapter whose name contains this text; without a text, the first one.
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
            Err("unknown device; expected auto, sim, vulkan or d3d12, the last three optionally with :NAME".to_owned())
        }
    }
}

/// Maximum number of frames. More would take days, so a larger number is rejected as a mistake.
const FRAMES_MAX: u64 = 10_000_000;

fn frames(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(frames @ 1..=FRAMES_MAX) => Ok(frames),
        _ => Err(format!("expected a number of frames from 1 to {FRAMES_MAX}")),
    }
}

fn alignment(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text).ok().filter(|bytes| bytes.is_power_of_two());
    bytes.ok_or_else(|| "expected a power of two, such as 256 or 64KiB".to_owned())
}

fn format(text: &str) -> Result<crate::plan::Format, String> {
    let found = crate::plan::Format::ALL.iter().find(|(name, _)| *name == text);
    found.map(|(_, format)| *format).ok_or_else(|| "unknown format; expected auto, csv, xla or tvm".to_owned())
}

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a number of threads, 1 or more".to_owned())
}

fn granularity(text: &str) -> Result<u64, String> {
    alignment(text)
        .ok()
        .filter(|bytes| *bytes <= 1 << 32)
        .ok_or_else(|| "expected a power of two up to 4GiB".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "expected a number of seconds, such as 10 or 0.5".to_owned())
}

/// Returns the parser's error as one line, without the hints in its other lines.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    // The following indented lines list the missing arguments.
    let more: Vec<&str> = text.lines().skip(1).take_while(|line| line.starts_with("  ")).map(str::trim).collect();
    let names = if first.ends_with(':') { format!(" {}", more.join(", ")) } else { String::new() };
    format!("{first}{names} (see --help)")
}
