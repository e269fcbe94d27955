//! The command line of `pyhostctl`, as clap reads it.

use crate::baseline::BaselineOptions;
use crate::convert::ConvertOptions;
use crate::diff::DiffOptions;
use crate::html::HtmlOptions;
use crate::kernel::KernelOptions;
use crate::leaks::LeaksOptions;
use crate::lines::LinesOptions;
use crate::report::ReportOptions;
use crate::serve::ServeOptions;
use crate::show::ShowOptions;
use crate::sweep::SweepOptions;
use crate::symbolize::SymbolizeOptions;
use crate::top::TopOptions;
use clap::{Parser, Subcommand};
use pyhost_record::directory::Setting;
use std::path::PathBuf;

/// Looks at hosts from outside: those that run, and what the killed have left.
///
/// Exit status: 0; 1 where something cannot be read or is not there; 2 for a bad command line; `sweep` and
/// `leaks` have two more.
#[derive(Debug, Parser)]
#[command(name = "pyhostctl", version)]
pub struct Cli {
    /// The directory of --live [default: $PYHOST_LIVE, else $XDG_RUNTIME_DIR/pyhost, else
    /// /dev/shm/pyhost-UID]
    #[arg(long, value_name = "DIR", global = true)]
    dir: Option<PathBuf>,

    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// The directory that the hosts' files are in.
    pub fn directory(&self) -> PathBuf {
        let variable = || Setting::of(&std::env::var_os("PYHOST_LIVE")?);
        match &self.dir {
            Some(path) => path.clone(),
            None => variable().unwrap_or(Setting::On).directory(),
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the hosts that run
    Ps,
    /// Watch the hosts that run, or one of them, in the terminal
    Top(TopOptions),
    /// Show the accounts of a process, alive or killed, or of a report
    Show(ShowOptions),
    /// Report on processes that run, as their hosts would, without asking them
    Report(ReportOptions),
    /// Show the lines of Python that hold the memory, of a report or of a process that runs
    Lines(LinesOptions),
    /// Make a page of a report, for a browser
    Html(HtmlOptions),
    /// Keep the accounts of a process, to compare with later
    Baseline(BaselineOptions),
    /// Compare two reports or processes, or a process with its baseline, an account a row
    Diff(DiffOptions),
    /// Watch a process and name the lines whose live bytes rise all the time
    Leaks(LeaksOptions),
    /// Convert the lines of a report (pyhost --lines) for other programs: pprof, OTLP, speedscope, flame graphs
    Convert(ConvertOptions),
    /// Serve the metrics of all hosts that run, for Prometheus, and heap profiles of those with --lines, for pprof
    Serve(ServeOptions),
    /// Install a kernel for Jupyter that runs under the host
    InstallKernel(KernelOptions),
    /// Give the native calls in a text of the host's their functions and source lines
    Symbolize(SymbolizeOptions),
    /// Run a program once for each of its requests for memory, which fails, and find crashes, hangs and leaks
    Sweep(SweepOptions),
}
