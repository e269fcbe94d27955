//! The command line of `pyhostctl`, as clap reads it.

use crate::find::Directories;
use crate::{
    compare, convert, diff, html, kernel, leaks, lines, report, serve, sweep, symbolize, top, tree,
};
use clap::{Parser, Subcommand};
use pyhost_record::directory::Setting;
use std::path::PathBuf;

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "pyhostctl",
    version,
    about = "Looks at hosts from outside: those that run, and what the killed have left",
    long_about = None,
    after_help = "Exit status: 0; 1 if something cannot be read or is not there; 2 for a bad\n\
                  command line; sweep and leaks have two more.",
    disable_help_subcommand = true
)]
pub struct Cli {
    /// A directory of --live, also several [default: $PYHOST_LIVE, or --live=on]
    #[arg(long, value_name = "DIR", global = true)]
    dir: Vec<PathBuf>,

    /// The default directories of all users
    #[arg(long, global = true, conflicts_with = "dir")]
    all_users: bool,

    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    pub fn directories(&self) -> Directories {
        let variable = || Setting::of(&std::env::var_os("PYHOST_LIVE")?);
        match &self.dir[..] {
            _ if self.all_users => Directories::OfAllUsers,
            [] => Directories::These(vec![variable().unwrap_or(Setting::On).directory()]),
            given => Directories::These(given.to_vec()),
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Watch the hosts that run, or one of them; --once: list them
    Top(top::TopOptions),
    /// Show the processes of a tree, with what they share, and their sum
    Tree(tree::TreeOptions),
    /// List the hosts that were killed
    Killed(tree::KilledOptions),
    /// Report on processes, alive or killed; show reports as tables
    Report(report::ReportOptions),
    /// Show the lines of Python that hold the memory
    Lines(lines::LinesOptions),
    /// Make a page of a report, for a browser
    Html(html::HtmlOptions),
    /// Compare two reports or processes, or a process with its baseline
    Diff(diff::DiffOptions),
    /// Watch a process and name the lines whose live bytes rise
    Leaks(leaks::LeaksOptions),
    /// Convert sampled lines for pprof, OTLP, speedscope, flame graphs
    Convert(convert::ConvertOptions),
    /// Serve metrics for Prometheus, and heap profiles for pprof
    Serve(serve::ServeOptions),
    /// Run a program under hosts of several Pythons, and compare peaks, times and lines
    Compare(compare::CompareOptions),
    /// Run a program once for each request for memory, which fails
    Sweep(sweep::SweepOptions),
    /// Install a kernel for Jupyter that runs under the host
    #[command(hide = true)]
    InstallKernel(kernel::KernelOptions),
    /// Give the native calls in a text of the host's their functions and source lines
    #[command(hide = true)]
    Symbolize(symbolize::SymbolizeOptions),
}
