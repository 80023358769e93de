//! `ringfence world`: runs seeded worlds (random programs) under the hazard finder. A seed always gives the same world
//! if the world has one thread.

use std::fs::File;
use std::io::{self, Write};
use std::process::ExitCode;

use ringfence_testkit::world::{Figures, WorldOptions as World, run};
use serde::Serialize;

use crate::args::WorldOptions;
use crate::failure::Failure;
use crate::{output, progress};

/// Sums of the figures of all worlds.
#[derive(Serialize)]
struct Summary {
    first_seed: u64,
    worlds: u64,
    steps: u64,
    submissions: u64,
    resources_made: u64,
    pictures_drawn: u64,
    checked_bytes: u64,
    refused: u64,
    moved: u64,
    brought_back: u64,
    imported: u64,
    sparse_pages: u64,
    lost_devices: u64,
    digest: String,
}

/// Runs the worlds. At the first error the command stops, and the exit code is 1.
pub fn main(options: &WorldOptions) -> Result<ExitCode, Failure> {
    if options.trace.is_some() && (options.count != 1 || options.threads != 1) {
        return Err("expected --count 1 and --threads 1 with --trace".into());
    }
    let Some(last) = options.seed.checked_add(options.count - 1) else {
        let WorldOptions { seed, count, .. } = options;
        return Err(
            format!("expected the last seed to be at most 2^64-1, found {count} worlds from seed {seed} on").into()
        );
    };
    if let Some(path) = &options.trace {
        output::check(path)?;
    }
    // The command reports a panic in a world on one line, so the default message is suppressed.
    std::panic::set_hook(Box::new(|_| {}));
    let progress = progress::steps("worlds", options.count);
    let (mut total, mut lost_devices) = (Figures::default(), 0);
    for seed in options.seed..=last {
        let world = World { seed, steps: options.steps, threads: options.threads.into(), bug: None };
        let trace = options.trace.as_ref().map(File::create).transpose()?;
        let figures = run(&world, trace.map(|file| Box::new(file) as Box<dyn Write + Send>))?;
        total.add(&figures);
        lost_devices += u64::from(figures.lost);
        progress.inc(1);
    }
    progress.finish_and_clear();
    let summary = Summary {
        first_seed: options.seed,
        worlds: options.count,
        steps: total.steps,
        submissions: total.submissions,
        resources_made: total.made,
        pictures_drawn: total.drawn,
        checked_bytes: total.checked_bytes,
        refused: total.refused,
        moved: total.moved,
        brought_back: total.brought_back,
        imported: total.imported,
        sparse_pages: total.pages,
        lost_devices,
        digest: format!("{:016x}", total.digest),
    };
    print(&summary, options.json)?;
    Ok(ExitCode::SUCCESS)
}

fn print(summary: &Summary, json: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, summary)?;
        return Ok(writeln!(out)?);
    }
    let Summary {
        first_seed,
        worlds,
        steps,
        submissions,
        resources_made,
        pictures_drawn,
        checked_bytes,
        refused,
        moved,
        brought_back,
        imported,
        sparse_pages,
        lost_devices,
        digest,
    } = summary;
    let lines = [
        format!("{worlds} worlds from seed {first_seed} on: no errors found"),
        format!(
            "  {steps} steps, {submissions} submissions, {resources_made} resources created, {pictures_drawn} pictures drawn"
        ),
        format!("  {checked_bytes} bytes read back and compared"),
        format!(
            "  {moved} moved, {brought_back} evicted and made resident, {imported} imported, {sparse_pages} sparse pages"
        ),
        format!("  {refused} requests failed for lack of memory, {lost_devices} devices lost"),
        format!("  digest {digest}"),
    ];
    for line in lines {
        writeln!(out, "{}", crate::table::wrapped(&line, 2))?;
    }
    Ok(())
}
