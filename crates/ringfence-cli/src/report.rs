//! `ringfence report`: writes a page from a snapshot.
//!
//! The input is a snapshot of this library, a trace, a report with its frames, or a dump of the Vulkan Memory
//! Allocator. The command detects the kind from the content. Output is written only after the whole input was read and
//! checked.

use std::fs;
use std::io::{self, Cursor, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use ringfence_report::{Compared, History, Report, Source};
use ringfence_trace::MAGIC;

use crate::args::ReportOptions;
use crate::failure::Failure;
use crate::input::{is_dash, name_of, open, read_whole};
use crate::output;

/// Runs the command.
pub fn main(options: &ReportOptions) -> Result<ExitCode, Failure> {
    let to_output = options.output.as_deref().is_some_and(is_dash);
    if to_output && options.json {
        return Err("expected one answer on standard output, found --output - and --json".into());
    }
    let inputs: Vec<&Path> =
        [Some(&options.snapshot), options.compare.as_ref()].into_iter().flatten().map(|path| &**path).collect();
    output::check_apart(&inputs, &[("--output", options.output.as_deref())])?;
    if let Some(path) = options.output.as_deref().filter(|_| !to_output) {
        output::check(path)?;
    }
    let (mut report, mut damage) = read(&options.snapshot)?;
    if let Some(title) = &options.title {
        report.title.clone_from(title);
    }
    if let Some(other) = &options.compare {
        let (Report { title, snapshot, source, .. }, its_damage) = read(other)?;
        report.compared = Some(Compared { title, snapshot, source, damage: its_damage.clone() });
        damage = [damage, its_damage].into_iter().flatten().reduce(|one, other| format!("{one}; {other}"));
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
        serde_json::to_writer_pretty(&mut out, &report.figures())?;
        writeln!(out)?;
    }
    match damage {
        // The page shows the part that could be read, but a damaged input sets the exit code.
        Some(damage) => Err(damage.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Writes each chart as a file into a folder. Creates the folder if it does not exist.
fn write_svgs(folder: &Path, report: &Report) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    for (name, svg) in report.to_svgs() {
        output::write(&folder.join(name).with_extension("svg"), svg.as_bytes())?;
    }
    Ok(())
}

/// Reads a report from a file, or from standard input if the path is `-`. If only a part could be read, also returns
/// the reason.
fn read(path: &Path) -> Result<(Report, Option<String>), Failure> {
    let name = name_of(path);
    let mut file = open(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    let mut head = Vec::new();
    let begin = file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut head);
    begin.map_err(|error| format!("cannot read {name}: {error}"))?;
    let is_trace = head == MAGIC;
    let whole = Cursor::new(head).chain(file);
    let stem = path.file_stem().filter(|_| !is_dash(path)).map(|stem| stem.to_string_lossy().into_owned());
    let mut report = if is_trace {
        let (history, snapshot) = History::read(whole).map_err(|error| format!("{name}: {error}"))?;
        Report { history: Some(history), snapshot, source: Source::Trace, ..Report::default() }
    } else {
        let bytes = read_whole(whole).map_err(|error| format!("cannot read {name}: {error}"))?;
        Report::from_json(&bytes).map_err(|error| match error.line {
            Some(line) => format!("{name}:{line}: {}", error.what),
            None => format!("{name}: {}", error.what),
        })?
    };
    if report.title.is_empty() {
        report.title = stem.unwrap_or_else(|| "GPU memory".to_owned());
    }
    let of_trace = report.history.as_ref().and_then(|history| history.damage.as_ref());
    let damage = report.damage.as_ref().or(of_trace).map(|damage| format!("{name}: {damage}"));
    Ok((report, damage))
}
