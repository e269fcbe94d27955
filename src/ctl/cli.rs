//! The command line of `pyhostctl`, as clap reads it.

use crate::find::Name;
use crate::serve::Address;
use crate::sweep::{Range, Rule};
use crate::top::Interval;
use clap::{Args, Parser, Subcommand, value_parser};
use pyhost_record::directory::Setting;
use std::ffi::OsString;
use std::path::PathBuf;

/// Looks at hosts from outside: those that run, and what the killed have left.
///
/// Exit status: 0; 1 where something cannot be read or is not there; 2 for a bad command line; `sweep` has
/// two more.
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
    /// Make a page of a report, for a browser
    Html(HtmlOptions),
    /// Keep the accounts of a process, to compare with later
    Baseline(BaselineOptions),
    /// Compare two reports or processes, or a process with its baseline, an account a row
    Diff(DiffOptions),
    /// Serve the metrics of all hosts that run, for Prometheus
    Serve(ServeOptions),
    /// Run a program once for each of its requests for memory, which fails, and find crashes and hangs
    Sweep(SweepOptions),
}

/// The options of `top`.
#[derive(Debug, Args)]
pub struct TopOptions {
    /// How often to look: 50ms to 1h; a number alone is of seconds
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub interval: Interval,

    /// Print one table, with rates over one interval, and end; so also where standard input or output
    /// is no terminal
    #[arg(long)]
    pub once: bool,

    /// The host to watch, to its end; without it, all of them
    #[arg(value_name = "PID")]
    pub pid: Option<Name>,
}

/// The options of `baseline`.
#[derive(Debug, Args)]
pub struct BaselineOptions {
    /// A process id; NAMESPACE:PID where processes of several pid namespaces have it
    #[arg(value_name = "PID")]
    pub pid: Name,
}

/// The options of `diff`.
#[derive(Debug, Args)]
pub struct DiffOptions {
    /// As JSON, schema pyhost-diff/1
    #[arg(long)]
    pub json: bool,

    /// A process id, a file of --live, or a report in JSON
    #[arg(value_name = "A")]
    pub a: String,

    /// The same; without it, A is a process id, which is compared with its baseline
    #[arg(value_name = "B")]
    pub b: Option<String>,
}

/// The options of `serve`.
#[derive(Debug, Args)]
pub struct ServeOptions {
    /// Where to listen, as HOST:PORT; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value_t)]
    pub listen: Address,

    /// A name by which clients know this server, beside localhost, the name of --listen and, where that is
    /// not a loopback address, all addresses and the machine's own name; `*` for any. May be repeated
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
}

/// The options of `show`.
#[derive(Debug, Args)]
pub struct ShowOptions {
    /// As the report's JSON, schema pyhost-report/1
    #[arg(long)]
    pub json: bool,

    /// A process id, a file of --live, or a report in JSON
    #[arg(value_name = "FILE|PID")]
    pub what: String,
}

/// The options of `report`.
#[derive(Debug, Args)]
pub struct ReportOptions {
    /// As a table
    #[arg(long)]
    pub text: bool,

    /// Process ids of hosts with --live; NAMESPACE:PID where processes of several pid namespaces have one
    #[arg(value_name = "PID", required = true)]
    pub pids: Vec<Name>,
}

/// The options of `html`.
#[derive(Debug, Args)]
pub struct HtmlOptions {
    /// The timeline of the same run, as --timeline wrote it
    #[arg(long, value_name = "FILE")]
    pub timeline: Option<PathBuf>,

    /// Where the page goes, `-` for stdout [default: beside a report in a file, with .html; else
    /// stdout]
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,

    /// A report in JSON, `-` for stdin, a process id, or a file of --live
    #[arg(value_name = "REPORT")]
    pub report: String,
}

/// Runs the program under the host with N = 1, 2, 3, ...: the Nth request fails. It ends with the run in which
/// nothing failed, since the program makes no such request. Prints how each run ended, and for a crash or a hang
/// the request and the end of standard error. The runs' output is dropped, and their input is empty.
///
/// Exit status: 0; 1 if the host cannot be run; 2 for a bad command line; 24 if a run crashed or hung; 25 if the
/// program makes no request that is counted.
///
/// Variables give the host's other options, such as PYHOST_CAP; the rules of PYHOST_FAIL hold in each run, too.
#[derive(Debug, Args)]
pub struct SweepOptions {
    /// The requests that are counted.
    #[command(flatten)]
    pub rule: Rule,

    /// The requests to try: from FIRST on, below END, each STEP-th of them
    #[arg(long, value_name = "FIRST[:END[:STEP]]", default_value = "1::1")]
    pub range: Range,

    /// A run that takes longer hangs, and is ended
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    pub timeout: u64,

    /// The host [default: pyhost beside this program, else in PATH]
    #[arg(long, value_name = "PATH")]
    pub host: Option<PathBuf>,

    /// Python's options, the script, -c CODE or -m MODULE, and the arguments
    #[arg(
        value_name = "SCRIPT",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub program: Vec<OsString>,
}
