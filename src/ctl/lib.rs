//! `pyhostctl`: reads what hosts leave in a directory of `--live`, and their reports.
//!
//! It links no libpython. Each command has a module. Several commands use [`find`] (the files of hosts),
//! [`process`] (`/proc`), [`document`] (reads a file of either kind, or standard input), [`model`] (a report), [`summary`] (its figures as a table shows them), [`stacks`] (its
//! sampled lines, checked), [`symbols`] (the names of native calls) and [`output`] (writes files).

mod baseline;
mod cli;
mod compare;
mod convert;
mod diff;
mod document;
mod find;
#[cfg(any(test, fuzzing))]
pub mod hostile;
mod html;
mod kernel;
mod leaks;
mod lines;
mod model;
mod output;
mod process;
mod report;
mod serve;
mod stacks;
mod summary;
mod sweep;
mod symbolize;
mod symbols;
mod top;
mod tree;

use clap::Parser;
pub use cli::Cli;
use cli::Command;
use output::Failure;
use pyhost_os::terminal_text::plain;
use std::{io::Write, process::ExitCode};

/// Runs the command line of the process; its exit status.
pub fn main() -> ExitCode {
    run(&Cli::parse()).unwrap_or_else(|Failure(text)| {
        // `eprintln!` panics if standard error is a terminal that is gone.
        let _ = writeln!(std::io::stderr(), "pyhostctl: {}", plain(&text));
        ExitCode::FAILURE
    })
}

fn run(cli: &Cli) -> Result<ExitCode, Failure> {
    let directories = &cli.directories();
    for (path, error) in directories.unreadable() {
        let Failure(text) = Failure::unreadable(&path, &error);
        let _ = writeln!(std::io::stderr(), "pyhostctl: {}", plain(&text));
    }
    match &cli.command {
        Command::Top(options) => top::run(options, directories)?,
        Command::Tree(options) => tree::run(options, directories)?,
        Command::Killed(options) => tree::list_killed(options, directories)?,
        Command::Diff(options) => diff::run(options, directories)?,
        Command::Serve(options) => serve::run(options, directories)?,
        Command::InstallKernel(options) => kernel::run(options)?,
        Command::Report(options) => report::run(options, directories)?,
        Command::Lines(options) => lines::run(options, directories)?,
        Command::Html(options) => html::run(options, directories)?,
        Command::Leaks(options) => return leaks::run(options, directories).map(ExitCode::from),
        Command::Symbolize(options) => symbolize::run(options)?,
        Command::Convert(options) => convert::run(options, directories)?,
        Command::Compare(options) => return compare::run(options).map(ExitCode::from),
        Command::Sweep(options) => return sweep::run(options).map(ExitCode::from),
    }
    Ok(ExitCode::SUCCESS)
}
