//! The host's command line, as clap reads it. Parsing has no effects.

use crate::allocator::Allocator;
use crate::native;
use crate::report::Format;
use clap::builder::PossibleValue;
use clap::{Parser, ValueEnum};
use std::ffi::OsString;

impl ValueEnum for Allocator {
    fn value_variants<'a>() -> &'a [Self] {
        &[Allocator::Mimalloc, Allocator::Pymalloc, Allocator::System]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Allocator::Mimalloc => "RAW, MEM, OBJ and the arenas on mimalloc",
            Allocator::Pymalloc => {
                "RAW, MEM and the arenas on mimalloc; OBJ stays pymalloc, counted"
            }
            Allocator::System => "nothing replaced: CPython's own allocators, counted",
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

impl ValueEnum for native::Mode {
    fn value_variants<'a>() -> &'a [Self] {
        &[native::Mode::Count, native::Mode::Plain, native::Mode::Off]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            native::Mode::Count => "serve malloc from mimalloc and count it",
            native::Mode::Plain => "serve malloc from mimalloc, do not count it",
            native::Mode::Off => {
                "leave malloc to what is preloaded, else to libc, and no domain on mimalloc"
            }
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        &[Format::Text, Format::Json, Format::Off]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Format::Text => ("text", "a table for people"),
            Format::Json => ("json", "one line of JSON, schema pyhost-report/1"),
            Format::Off => (
                "off",
                "no report, not even an interactive run's closing line",
            ),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

/// Runs Python programs as python does, with every allocation on mimalloc and accounted for.
///
/// The host's options come first; the first argument that is none of them, and all that follow,
/// are Python's. `pyhost -h`, `-V` and `--version` are Python's own.
#[derive(Debug, Default, Parser)]
#[command(
    name = "pyhost",
    disable_help_flag = true,
    disable_version_flag = true,
    override_usage = "pyhost [host options] [python options] [script.py | -c code | -m module | -] [args]",
    after_help = "\
Each option has a variable, PYHOST_ALLOCATOR and so on, which child processes inherit; an option
wins over its variable. PYHOST_DEBUG_HOOKS takes 1 or 0. Called by a name that starts with
`python`, the host reads the variables alone. PYTHONMALLOC, -X dev and PYTHONDEVMODE keep their
meaning.

Exit status: the script's own; 2 for a bad host option, when nothing is run.
Python's own help: pyhost -h"
)]
pub struct Cli {
    /// What CPython's allocators are [default: mimalloc, or as PYTHONMALLOC says]
    #[arg(
        long,
        value_name = "KIND",
        hide_possible_values = true,
        help = "\
What CPython's allocators are [default: mimalloc, or as PYTHONMALLOC says]
  mimalloc  RAW, MEM, OBJ and the arenas on mimalloc
  pymalloc  RAW, MEM and the arenas on mimalloc; OBJ stays pymalloc, counted
  system    nothing replaced: CPython's own allocators, counted"
    )]
    pub allocator: Option<Allocator>,

    /// Put CPython's debug hooks over the host's allocators (PyMem_SetupDebugHooks)
    #[arg(long)]
    pub debug_hooks: bool,

    /// How the process's malloc serves
    #[arg(
        long,
        value_name = "HOW",
        hide_possible_values = true,
        help = "\
How the process's malloc serves
[default: count; off under Valgrind or a preloaded sanitizer]
  count  from mimalloc, booked to the account `native`
  plain  from mimalloc, not counted
  off    by what is preloaded, else by libc; and no domain on mimalloc"
    )]
    pub native: Option<native::Mode>,

    /// Report live and peak bytes an account at the end
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true,
          default_missing_value = "text", hide_possible_values = true, help = "\
Report live and peak bytes an account at the end, on stderr
  text  a table [default]
  json  one line, schema pyhost-report/1
  off   nothing, not even the closing line of an interactive run")]
    pub stats: Option<Format>,

    /// Write the report to a file instead; %p is the process id
    #[arg(
        long,
        value_name = "PATH",
        help = "\
Write the report to this file, as JSON unless --stats says otherwise,
whole or not at all. %p in it is the process id: then forked workers and
child processes write theirs too, else only the outermost process does"
    )]
    pub stats_file: Option<OsString>,

    /// Write the report to an open descriptor instead
    #[arg(
        long,
        value_name = "N",
        help = "\
Write the report to this open descriptor, as JSON unless --stats says
otherwise"
    )]
    pub stats_fd: Option<i32>,

    /// Print this help
    #[arg(long)]
    pub help: bool,

    /// Print the host's version and the Python it runs
    #[arg(long)]
    pub host_version: bool,
}
