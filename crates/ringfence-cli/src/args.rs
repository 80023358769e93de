//! What the command understands. Bad input is answered with one line and exit code 1.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::replay::Strategy;
use crate::units::parse_bytes;

/// Manages GPU memory, descriptors and their lifetimes; this command shows it at work.
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
        0  all is well (also when the reader of the answer stops reading)\n  \
        1  bad input, a file that cannot be read or written, no such device, or a wrong byte\n  \
        2  `plan` alone: no plan was found that the capacity, or the heaps, hold\n\n\
        Tables go to standard output, progress and remarks to standard error. Output holds no colours, with or \
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
    /// Replays a recorded sequence of allocations with one strategy or all
    Replay(ReplayOptions),
    /// Plans offsets for buffers with known lifetimes, so that those never alive together share bytes
    Plan(PlanOptions),
    /// Makes a page out of a snapshot, a trace or a dump of VMA: who has the memory, where, since when
    Report(ReportOptions),
    /// Runs seeded worlds on the simulated device under its hazard finder
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
    /// Which device: auto, sim, vulkan, d3d12; the last three with :NAME, part of a device's or profile's name
    #[arg(long, default_value = "auto", value_name = "DEVICE", value_parser = device)]
    pub device: DeviceChoice,
    /// How many frames to run
    #[arg(long, default_value_t = 300, value_name = "N", value_parser = frames)]
    pub frames: u64,
    /// Seed of the world, and of the simulated device's clock
    #[arg(long, default_value_t = 0, value_name = "S")]
    pub seed: u64,
    /// Write a page about the run: memory map, ring, retirements; with --trace, memory over time too
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Write the last picture that the device drew
    #[arg(long, value_name = "FILE.png")]
    pub image: Option<PathBuf>,
    /// Write the memory as it was in the last frame, for `ringfence report`
    #[arg(long, value_name = "FILE.json")]
    pub snapshot: Option<PathBuf>,
    /// Record everything that happens to memory, for `ringfence replay` and `ringfence report`
    #[arg(long, value_name = "FILE.rft")]
    pub trace: Option<PathBuf>,
    /// Print the tables as JSON
    #[arg(long)]
    pub json: bool,
    /// Load the Vulkan validation layers, and fail on any message
    #[arg(long)]
    pub validation: bool,
}

/// Shows devices, their memory heaps and types, budgets and limits.
#[derive(Parser, Debug, Clone)]
#[command(after_help = "What stands before the brackets is what `ringfence demo --device` takes.\n\n\
        Examples:\n  \
        ringfence devices\n  \
        ringfence devices --json")]
pub struct DevicesOptions {
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Replays a recorded sequence of allocations and says what it costs: time, memory, failures.
#[derive(Parser, Debug, Clone)]
#[command(
    allow_negative_numbers = true,
    after_help = "The trace is CSV with the columns op,id,size,alignment (op is a or f), a recording by the Vulkan \
        Memory Allocator, or a trace of this library.\n\n\
        Strategies: tlsf, buddy, free-list; first-fit and pools are naive ones to compare with.\n\n\
        Examples:\n  \
        ringfence replay trace.csv\n  \
        ringfence replay trace.csv --allocator tlsf --capacity 4GiB --json\n  \
        zcat trace.csv.gz | ringfence replay -"
)]
pub struct ReplayOptions {
    /// The trace; - is standard input
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// The strategy: tlsf, buddy, free-list, first-fit, pools or all
    #[arg(long, default_value = "all", value_name = "NAME", value_parser = strategy)]
    pub allocator: StrategyChoice,
    /// The heap that the timed run has: bytes, or 64KiB, 512MiB, 4GiB; without it, four times what the trace needs
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub capacity: Option<u64>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Plans offsets for buffers with known lifetimes, so that those never alive together share bytes.
#[derive(Parser, Debug, Clone)]
#[command(
    allow_negative_numbers = true,
    after_help = "The input is CSV with the columns id,lower,upper,size and, if need be, alignment; further ones are \
        ignored, and named in the figures. Rows that have an offset already (an earlier plan's, or MiniMalloc's) need \
        --offsets; MiniMalloc's gaps are refused. A buffer is alive from lower until before upper. The output has the \
        same rows in the same order under a heading, and their offset. Lines that begin with # are not read; an id \
        that does is quoted. A quoted field ends on its line.\n\n\
        Further columns of a row:\n  \
        uses      its passes, as in \"3w 5 9w\" (w: written there): advice on their order\n  \
        pinned    it has to lie at this offset\n  \
        heaps     as in \"1 0\": it lies in the first of these (--heap) that holds it\n  \
        kind      rows of different kind share no page of --granularity\n  \
        again_of  an earlier id: another lifetime of that buffer, at its offset\n\n\
        Without --heap, heaps have no end.\n\n\
        A dump of XLA (the buffer assignment of one module with its live ranges behind it) or of TVM (save_json of \
        the USMP's BufferInfo) is read too; each pool of TVM's is a heap of its own, of the size that it hints at, and \
        a buffer lies in one of its candidates.\n\n\
        With a capacity the search ends as soon as a plan is no higher; exit code 2 says that none was found, or that \
        the heaps are too small: no rows are written then (--output), but a page (--report) if there is a plan to \
        show. First fit, to compare with, is left out where a tenth of the time limit is too short for it.\n\n\
        Examples:\n  \
        ringfence plan frame.csv --output planned.csv --report plan.html\n  \
        ringfence plan model.csv --capacity 1MiB --time-limit 2 --threads 8\n  \
        zcat big.csv.gz | ringfence plan - --json\n  \
        ringfence plan frame.csv --heap 256MiB --heap 4GiB --granularity 1KiB\n  \
        cat dump/*buffer-assignment.txt dump/*live-range.txt |\n    \
        ringfence plan - --alignment 64"
)]
pub struct PlanOptions {
    /// The buffers; - is standard input
    #[arg(value_name = "IN.csv")]
    pub input: PathBuf,
    /// Bytes that there are: a plan that needs no more is good enough
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub capacity: Option<u64>,
    /// The alignment of rows that say none, a power of two
    #[arg(long, value_name = "BYTES", default_value = "1", value_parser = alignment)]
    pub alignment: u64,
    /// What the input is: csv, xla, tvm, or auto, which looks at its first lines
    #[arg(long, value_name = "FORMAT", default_value = "auto", value_parser = format)]
    pub format: crate::plan::Format,
    /// What the column offset is for: replace (an earlier plan's), or pin (rows have to lie there, as for MiniMalloc)
    #[arg(long, value_name = "WHAT", value_parser = offsets)]
    pub offsets: Option<crate::plan::Offsets>,
    /// Bytes of a heap, once for each: rows lie in the first of their heaps that holds them
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub heap: Vec<u64>,
    /// Bytes of a page that rows of different kind do not share, as bufferImageGranularity
    #[arg(long, value_name = "BYTES", default_value = "1", value_parser = granularity)]
    pub granularity: u64,
    /// For how long to search for a better plan than the first; advice on the order of passes before, and fewer
    /// transitions after, are bounded by work, a second or two each at most
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub time_limit: Duration,
    /// How many threads search; a search that ends before the time limit gives the same plan for any number above 1
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads)]
    pub threads: NonZeroUsize,
    /// Write the rows with their offsets; - is standard output, and the figures then go to standard error
    #[arg(long, short, value_name = "OUT.csv")]
    pub output: Option<PathBuf>,
    /// Write a page with a chart of time by offset
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Makes a page out of a snapshot, a trace or a dump of VMA: who has the memory, where, since when.
#[derive(Parser, Debug, Clone)]
#[command(
    group = clap::ArgGroup::new("answer").required(true).multiple(true),
    override_usage = "ringfence report [OPTIONS] <--output|--svg|--json> <SNAPSHOT.json>",
    after_help = "The snapshot is this library's, as JSON (`ringfence demo --snapshot`), a trace (`ringfence demo \
        --trace`), which adds charts over time, or a JSON dump of the Vulkan Memory Allocator. Of a file that is cut \
        off or damaged, what could be read is shown, and the exit code is 1.\n\n\
        Examples:\n  \
        ringfence report snapshot.json --output page.html\n  \
        ringfence report vma.json --output - > page.html\n  \
        ringfence report snapshot.json --json\n  \
        ringfence report before.json --compare after.json -o page.html\n  \
        ringfence report run.rft --svg figures/"
)]
pub struct ReportOptions {
    /// The snapshot; - is standard input
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
    /// The page's heading; without it, the name of the file
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Print the figures at the head of the page as JSON
    #[arg(long, group = "answer")]
    pub json: bool,
}

/// Runs seeded worlds: random programs on the simulated device, under its hazard finder, every byte compared.
#[derive(Parser, Debug, Clone)]
#[command(
    allow_negative_numbers = true,
    after_help = "The same seed is the same world, as long as it has one thread. The first finding is reported with \
        its seed, and the exit code is 1.\n\n\
        Examples:\n  \
        ringfence world --seed 17\n  \
        ringfence world --seed 17 --trace world.rft\n  \
        ringfence world --count 10000"
)]
pub struct WorldOptions {
    /// The first world
    #[arg(long, default_value_t = 0, value_name = "S")]
    pub seed: u64,
    /// How many worlds, one seed after the other
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,
    /// Steps of each world's program
    #[arg(long, default_value_t = 150, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub steps: u32,
    /// Threads in each world; with more than one, how they meet is a matter of luck
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub threads: u8,
    /// Record the world for `ringfence replay` and `ringfence report`; of one world with one thread
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
    /// Which shell
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// Which strategies to replay with.
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
            format!("there is no such strategy; known are {} and all", names.join(", "))
        }),
    }
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

fn alignment(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text).ok().filter(|bytes| bytes.is_power_of_two());
    bytes.ok_or_else(|| "expected a power of two, such as 256 or 64KiB".to_owned())
}

fn format(text: &str) -> Result<crate::plan::Format, String> {
    let found = crate::plan::Format::ALL.iter().find(|(name, _)| *name == text);
    found
        .map(|(_, format)| *format)
        .ok_or_else(|| "there is no such format; known are auto, csv, xla and tvm".to_owned())
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

/// The parser's complaint without its hints.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    // What is missing stands in the lines after it, indented.
    let more: Vec<&str> = text.lines().skip(1).take_while(|line| line.starts_with("  ")).map(str::trim).collect();
    let names = if first.ends_with(':') { format!(" {}", more.join(", ")) } else { String::new() };
    format!("{first}{names} (see --help)")
}
