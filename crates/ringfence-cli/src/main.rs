//! The `ringfence` command.
//!
//! | subcommand | purpose |
//! |---|---|
//! | `demo` | runs a streaming frame loop on a device and checks every byte |
//! | `devices` | lists devices, memory heaps and types, budgets, limits |
//! | `doctor` | examines the devices: the parts that the library uses, and the missing ones |
//! | `replay` | measures recorded allocations with each strategy |
//! | `plan` | computes offsets for buffers with known lifetimes |
//! | `report` | writes a page from a snapshot, a trace or a dump of VMA |
//! | `export` | converts a trace for Perfetto |
//! | `world` | runs seeded random programs under the hazard finder |
//! | `completions`, `man` | print shell completions and the manual page, for packagers |

mod args;
mod demo;
mod devices;
mod doctor;
mod export;
mod failure;
mod input;
mod output;
mod paper;
mod plan;
mod progress;
mod replay;
mod report;
mod table;
mod units;
mod world;

use std::io;
use std::process::ExitCode;

use args::{Args, Task};
use clap::Parser;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if !error.use_stderr() => {
            // The parser returns help and version as errors, but they are no failures.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail(&args::one_line(&error)),
    };
    let result = match args.task.unwrap_or_default() {
        Task::Demo(options) => demo::main(&options),
        Task::Devices(options) => devices::main(&options),
        Task::Doctor(options) => doctor::main(&options),
        Task::Replay(options) => replay::main(&options),
        Task::Plan(options) => plan::main(&options),
        Task::Report(options) => report::main(&options),
        Task::Export(options) => export::main(&options),
        Task::World(options) => world::main(&options),
        Task::Completions(options) => paper::completions(&options),
        Task::Man => paper::man(),
    };
    match result {
        Ok(code) => code,
        // The reader of standard output has stopped reading, as in `ringfence … | head`. This is no failure.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        // Errors of files contain the name of the file, so an error without a name is one of standard output.
        Err(error) if io_kind(&*error).is_some() => fail(&format!("cannot write to standard output: {error}")),
        Err(error) => fail(&error.to_string()),
    }
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    io_kind(error) == Some(io::ErrorKind::BrokenPipe)
}

fn io_kind(error: &(dyn std::error::Error + 'static)) -> Option<io::ErrorKind> {
    let io = error.downcast_ref::<io::Error>().map(io::Error::kind);
    let json = error.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
    io.or(json)
}

fn fail(line: &str) -> ExitCode {
    eprintln!("ringfence: {line}");
    ExitCode::FAILURE
}
