//! `ringfence report`: a snapshot as a page.
//!
//! What comes in is told by its content: a snapshot of this library, a trace, a report with its frames, or a dump of the
//! Vulkan Memory Allocator. Nothing is written before everything is read and checked.

use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use ringfence::memory::Snapshot;
use ringfence::trace::MAGIC;
use ringfence_report::{Compared, Figures, History, Report, import};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::args::ReportOptions;
use crate::{Failure, output};

/// Runs the command.
pub fn main(options: &ReportOptions) -> Result<ExitCode, Failure> {
    let to_output = options.output.as_deref().is_some_and(is_dash);
    if let Some(path) = options.output.as_deref().filter(|_| !to_output) {
        output::check(path)?;
    }
    let (mut report, damage) = read(&options.snapshot)?;
    if let Some(title) = &options.title {
        report.title.clone_from(title);
    }
    if let Some(other) = &options.compare {
        let Report { title, snapshot, .. } = read(other)?.0;
        report.compared = Some(Compared { title, snapshot });
    }
    if let Some(folder) = &options.svg {
        write_svgs(folder, &report)?;
    }
    if let Some(path) = &options.output {
        let page = report.to_html();
        if to_output {
            io::stdout().lock().write_all(page.as_bytes())?;
        } else {
            output::write(path, page.as_bytes())?;
        }
    }
    if options.json {
        let mut out = io::stdout().lock();
        serde_json::to_writer_pretty(&mut out, &Figures::of(&report.snapshot))?;
        writeln!(out)?;
    }
    match damage {
        // What could be read is shown, but the input is bad.
        Some(damage) => Err(damage.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Each chart as a file in a folder, which is made if it is not there.
fn write_svgs(folder: &Path, report: &Report) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    for (name, svg) in report.to_svgs() {
        output::write(&folder.join(name).with_extension("svg"), svg.as_bytes())?;
    }
    Ok(())
}

fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// A report out of a file, and why it is only a part; `-` is standard input.
fn read(path: &Path) -> Result<(Report, Option<String>), Failure> {
    let name = if is_dash(path) { "standard input".to_owned() } else { path.display().to_string() };
    let mut file = open(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    let mut head = Vec::new();
    let begin = file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut head);
    begin.map_err(|error| format!("cannot read {name}: {error}"))?;
    let is_trace = head == MAGIC;
    let mut whole = Cursor::new(head).chain(file);
    let stem = path.file_stem().filter(|_| !is_dash(path)).map(|stem| stem.to_string_lossy().into_owned());
    let mut report = if is_trace {
        let (history, snapshot) = History::read(whole).map_err(|error| format!("{name}: {error}"))?;
        Report { history: Some(history), snapshot, ..Report::default() }
    } else {
        let mut bytes = Vec::new();
        whole.read_to_end(&mut bytes).map_err(|error| format!("cannot read {name}: {error}"))?;
        parse(&bytes).map_err(|what| format!("{name}{what}"))?
    };
    if report.title.is_empty() {
        report.title = stem.unwrap_or_else(|| "GPU memory".to_owned());
    }
    let damage = report.history.as_ref().and_then(|history| history.damage.as_ref());
    let damage = damage.map(|damage| format!("{name}: {damage}"));
    Ok((report, damage))
}

fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    Ok(if is_dash(path) { Box::new(io::stdin().lock()) } else { Box::new(BufReader::new(File::open(path)?)) })
}

const EXPECTED: &str = "expected a snapshot or a trace of this library, or a JSON dump of the Vulkan Memory Allocator";

/// What is wrong begins with the line where it is.
fn parse(bytes: &[u8]) -> Result<Report, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| at_line(&error))?;
    if import::is_vma_dump(&value) {
        let snapshot = import::vma_dump(&value).map_err(|error| format!(": {error}"))?;
        return Ok(Report { snapshot, ..Report::default() });
    }
    if value.get("snapshot").is_some() {
        return typed(bytes).and_then(|report: Report| checked(report.snapshot.version).map(|()| report));
    }
    if value.get("blocks").is_none() {
        return Err(format!(": {EXPECTED}"));
    }
    let snapshot: Snapshot = typed(bytes)?;
    checked(snapshot.version)?;
    Ok(Report { snapshot, ..Report::default() })
}

/// Read again from the text, since errors in a value have lost their line.
fn typed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| at_line(&error))
}

fn checked(version: u32) -> Result<(), String> {
    match version {
        1 => Ok(()),
        version => Err(format!(": expected version 1 of a snapshot, found {version}")),
    }
}

fn at_line(error: &serde_json::Error) -> String {
    let what = error.to_string();
    let what = what.split(" at line ").next().unwrap_or_default();
    format!(":{}: {EXPECTED}: {what}", error.line())
}
