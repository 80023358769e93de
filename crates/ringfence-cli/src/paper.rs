//! `ringfence completions` and `ringfence man`: files that a package installs beside the command.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Args, CompletionsOptions};
use crate::failure::Failure;

/// Prints the completions of a shell.
pub fn completions(options: &CompletionsOptions) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Args::command(), "ringfence", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the manual page of the command and of each of its subcommands.
pub fn man() -> Result<ExitCode, Failure> {
    let mut page = Vec::new();
    let mut command = Args::command();
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for task in command.get_subcommands().filter(|task| task.get_name() != "help") {
        let man = clap_mangen::Man::new(task.clone());
        writeln!(page, ".SH \"{}\"", task.get_name().to_uppercase())?;
        man.render_synopsis_section(&mut page)?;
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
        man.render_extra_section(&mut page)?;
    }
    io::stdout().lock().write_all(&page)?;
    Ok(ExitCode::SUCCESS)
}
