//! Benchmarks of Ringfence and other allocators. `README.md` here describes how to run them and what the columns mean.

mod clock;
mod contenders;
mod defrag;
mod device;
mod driver_calls;
mod driver_waits;
mod footprint;
mod frames;
mod makers;
mod objects;
mod output;
mod paced;
mod parts;
mod paths;
mod ranges;
mod threads;
mod trace;

use output::Report;
use ranges::{Entry, Settings};
use std::path::PathBuf;
use std::time::Duration;

struct Arguments {
    quick: bool,
    json: Option<PathBuf>,
    csv: Option<PathBuf>,
    /// Runs the sections and traces with one of these in their name; all if empty.
    only: Vec<String>,
    roominess: f64,
    ours: bool,
    /// Measures times only.
    fast: bool,
    repetitions: Option<usize>,
    threads: usize,
    device_bytes: u64,
    host_bytes: u64,
    paced: paced::Paced,
    level_textures: usize,
    stream: footprint::Stream,
    churn: footprint::Churn,
}

impl Arguments {
    fn read() -> Result<Self, String> {
        let mut read = Self {
            quick: false,
            json: None,
            csv: None,
            only: Vec::new(),
            roominess: 2.0,
            ours: false,
            fast: false,
            repetitions: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            device_bytes: 1 << 30,
            host_bytes: 256 << 20,
            paced: paced::Paced::default(),
            level_textures: 5_000,
            churn: footprint::Churn {
                live_bytes: 2 << 30,
                sizes: (1 << 10, 8 << 20),
                operations: 200_000,
                wanders: false,
            },
            stream: footprint::Stream { live: 2_000, replaced: 40, frames: 2_000, side_max: 2048, differs: false },
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} wants a value"));
            match argument.as_str() {
                "--quick" => read.quick = true,
                "--repetitions" => {
                    read.repetitions = Some(value()?.parse().map_err(|_| "--repetitions wants a number")?);
                }
                "--threads" => {
                    read.threads = value()?.parse().map_err(|_| "--threads wants a number")?;
                }
                "--device-mib" => read.device_bytes = mib(&value()?)?,
                "--host-mib" => read.host_bytes = mib(&value()?)?,
                "--fast" => read.fast = true,
                "--ours" => read.ours = true,
                "--paced-blocks" => {
                    read.paced.blocks = value()?.parse().map_err(|_| "--paced-blocks wants a number")?;
                }
                "--paced-device" => read.paced.device = paced::Frame::read(&value()?)?,
                "--paced-host" => read.paced.host = paced::Frame::read(&value()?)?,
                "--level-textures" => {
                    read.level_textures = value()?.parse().map_err(|_| "--level-textures wants a number")?;
                }
                "--churn-mib" => read.churn.live_bytes = mib(&value()?)?,
                "--stream-side" => {
                    read.stream.side_max = value()?.parse().map_err(|_| "--stream-side wants a number")?;
                }
                "--csv" => read.csv = Some(value()?.into()),
                "--json" => read.json = Some(value()?.into()),
                "--roominess" => read.roominess = value()?.parse().map_err(|_| "--roominess wants a number")?,
                "--only" => read.only.push(value()?),
                _ => return Err(format!("{argument}: no such option; bench/README.md lists them")),
            }
        }
        Ok(read)
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| name.contains(only.as_str()))
    }
}

fn mib(text: &str) -> Result<u64, String> {
    text.parse::<u64>().map(|mib| mib << 20).map_err(|_| format!("{text}: expected MiB"))
}

/// Time limit for starting further repetitions of traces, in total.
const RANGES_TIME: Duration = Duration::from_secs(100);

fn range_section(arguments: &Arguments, report: &mut Report) -> std::io::Result<()> {
    let mut entries = vec![
        Entry::of::<ringfence_core::tlsf::Tlsf>(),
        Entry::of::<contenders::Blocks>(),
        Entry::of::<ringfence_core::free_list::FreeList>(),
        Entry::of::<offset_allocator::Allocator>(),
        Entry::of::<contenders::VirtualBlock>(),
        Entry::of::<contenders::GpuAlloc>(),
        Entry::of::<range_alloc::RangeAllocator<u64>>(),
    ];
    if arguments.ours {
        entries.retain(|entry| entry.ours);
    }
    let mut traces = trace::made(if arguments.quick { 10 } else { 1 });
    let cases = std::env::var_os("RINGFENCE_CASES").map_or_else(|| "../shared/data".into(), PathBuf::from);
    let real = trace::real(&cases);
    if real.is_empty() {
        println!("no recorded traces at {}: generated ones alone", cases.display());
    }
    traces.extend(real);
    traces.retain(|trace| arguments.wants(&trace.name) || arguments.wants(trace.kind.name()));
    for trace in &traces {
        let settings = Settings {
            repetitions: arguments.repetitions.unwrap_or(if arguments.quick { 40 } else { 15 }),
            percentile_runs: if !arguments.fast && ranges::wants_percentiles(trace.kind) { 9 } else { 0 },
            room: !arguments.fast,
            roominess: arguments.roominess,
            time: RANGES_TIME / traces.len() as u32,
        };
        let figures = ranges::measure(trace, &entries, &settings);
        ranges::show(trace, &entries, &figures, &settings, report)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::read()?;
    let mut report = Report::new(arguments.csv.clone(), arguments.json.clone());
    let repetitions = arguments.repetitions.unwrap_or(if arguments.quick { 5 } else { 15 });
    range_section(&arguments, &mut report)?;
    if arguments.wants("paths") {
        paths::section(repetitions, &mut report)?;
    }
    if arguments.wants("frames") {
        frames::section(repetitions, &mut report)?;
    }
    if arguments.wants("threads") {
        let time = Duration::from_millis(if arguments.quick { 50 } else { 200 });
        threads::section(arguments.threads, repetitions.min(5), time, &mut report)?;
    }
    if arguments.wants("defragmentation") {
        defrag::section(arguments.quick, repetitions.min(7), &mut report)?;
    }
    if [
        "device",
        "played",
        "pairs",
        "paced",
        "objects",
        "objects_parts",
        "objects_frame",
        "level",
        "stream",
        "churn_bytes",
        "driver",
    ]
    .iter()
    .any(|section| arguments.wants(section))
    {
        let traces = trace::made(if arguments.quick { 50 } else { 5 });
        let churn: Vec<_> = traces.iter().filter(|trace| trace.kind == trace::Kind::Churn).collect();
        let settings = device::Settings {
            repetitions: repetitions.min(5),
            threads: arguments.threads,
            time: Duration::from_millis(if arguments.quick { 50 } else { 300 }),
            device_bytes: arguments.device_bytes,
            host_bytes: arguments.host_bytes,
            paced: arguments.paced,
            with_objects: arguments.wants("objects"),
            with_object_parts: arguments.wants("objects_parts"),
            with_object_frames: arguments.wants("objects_frame"),
            with_growth: arguments.wants("device"),
            with_traces: arguments.wants("device") || arguments.wants("played"),
            level_textures: arguments.wants("level").then_some(arguments.level_textures),
            stream: arguments.wants("stream").then_some(arguments.stream),
            churn: arguments.wants("churn_bytes").then_some(arguments.churn),
            with_driver: arguments.wants("driver"),
            with_pairs: arguments.wants("device") || arguments.wants("pairs"),
        };
        device::sections(&churn, &settings, &mut report)?;
    }
    Ok(())
}
