//! The host's command line, as clap reads it. Parsing has no effects.

mod caps;
mod device;
mod faults;

pub use faults::FaultOptions;
mod guards;
mod leaks;
mod observation;

use crate::allocator::Allocator;
use crate::heap::placement::HugePages;
use crate::heap::pool::Limit;
use crate::heap::profile::Profile;
use crate::native;
use crate::numpy::{Alignment, ArrayAllocator, Region};
use crate::report::Format;
pub use caps::CapOptions;
use clap::builder::PossibleValue;
use clap::{Args, Parser, ValueEnum};
use guards::GuardOptions;
use leaks::LeakOptions;
use observation::ObservationOptions;
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
            native::Mode::Count | native::Mode::Faulty => "serve malloc from mimalloc and count it",
            native::Mode::Plain => "serve malloc from mimalloc, do not count it",
            native::Mode::Off => {
                "leave malloc to what is preloaded, else to libc, and no domain on mimalloc"
            }
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

impl ValueEnum for Profile {
    fn value_variants<'a>() -> &'a [Self] {
        &[Profile::Balanced, Profile::Speed, Profile::Small]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Profile::Balanced => "give freed memory back after a second",
            Profile::Speed => "keep freed memory for 10 s, and ask for huge pages",
            Profile::Small => "give freed memory back at once",
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

impl ValueEnum for ArrayAllocator {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            ArrayAllocator::Mimalloc,
            ArrayAllocator::Pool,
            ArrayAllocator::Bfc,
            ArrayAllocator::System,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            ArrayAllocator::Mimalloc => "mimalloc, in a heap of their own",
            ArrayAllocator::Pool => "over it, a pool that keeps freed blocks by size",
            ArrayAllocator::Bfc => "one region, best fit with coalescing",
            ArrayAllocator::System => "libc's malloc, counted",
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

impl ValueEnum for HugePages {
    fn value_variants<'a>() -> &'a [Self] {
        &[HugePages::Auto, HugePages::Always, HugePages::Never]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            HugePages::Auto => "ask for them for arrays of 4 MiB and more, as NumPy does",
            HugePages::Always => "ask for them for all array memory",
            HugePages::Never => "refuse them for all array memory",
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Format::Text,
            Format::Json,
            Format::Html,
            Format::OpenMetrics,
            Format::Off,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Format::Text => ("text", "a table for people"),
            Format::Json => ("json", "one line of JSON, schema pyhost-report/1"),
            Format::Html => ("html", "a page for a browser, made by pyhostctl"),
            Format::OpenMetrics => ("openmetrics", "metrics for Prometheus and its like"),
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
wins over its variable. PYHOST_DEBUG_HOOKS, PYHOST_REGION_LOCK and PYHOST_REGION_HUGE_PAGES take 1 or 0. Called by a name that starts with
`python`, the host reads the variables alone. PYTHONMALLOC, -X dev and PYTHONDEVMODE keep their
meaning.

Exit status: the script's own; 2 for a bad host option, when nothing is run; 24 for a --fail sweep
with a run that crashed or hung; 53 where a script has used up the reserve of a cap.
Python's own help: pyhost -h"
)]
pub struct Cli {
    /// CPython's allocators [default: mimalloc, or as PYTHONMALLOC says]
    #[arg(
        long,
        value_name = "KIND",
        hide_possible_values = true,
        help = "\
CPython's allocators [default: mimalloc, or as PYTHONMALLOC says]
  mimalloc  RAW, MEM, OBJ and the arenas on mimalloc
  pymalloc  RAW, MEM and the arenas on mimalloc; OBJ stays pymalloc, counted
  system    nothing replaced: CPython's own allocators, counted"
    )]
    pub allocator: Option<Allocator>,

    /// Put CPython's debug hooks over the host's allocators (PyMem_SetupDebugHooks)
    #[arg(long)]
    pub debug_hooks: bool,

    /// The process's malloc
    #[arg(
        long,
        value_name = "HOW",
        hide_possible_values = true,
        help = "\
The process's malloc
[default: count; off under Valgrind, a preloaded sanitizer, or a ulimit
on memory of less than 32 MiB]
  count  from mimalloc, booked to the account `native`
  plain  from mimalloc, not counted
  off    by what is preloaded, else by libc; and no domain on mimalloc"
    )]
    pub native: Option<native::Mode>,

    /// How much freed memory the heaps keep
    #[arg(
        long,
        value_name = "NAME",
        hide_possible_values = true,
        help = "\
How much freed memory the heaps keep, and how long
  balanced  for a second [default]
  speed     for 10 s, and huge pages for the first GiB
  small     nothing
MIMALLOC_* variables win"
    )]
    pub profile: Option<Profile>,

    /// Caps.
    #[command(flatten)]
    pub caps: CapOptions,

    /// What NumPy's arrays are made from, and where.
    #[command(flatten)]
    pub numpy: NumpyOptions,

    /// The bounded heap.
    #[command(flatten)]
    pub device: device::DeviceOptions,
    /// Which requests for memory fail.
    #[command(flatten)]
    pub faults: faults::FaultOptions,
    /// Guard pages.
    #[command(flatten)]
    pub guards: GuardOptions,

    /// The leak check.
    #[command(flatten)]
    pub leaks: LeakOptions,

    /// Report live and peak bytes an account at the end
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true,
          default_missing_value = "text", hide_possible_values = true, help = "\
Report live and peak bytes an account at the end, on stderr
  text         a table [default]
  json         one line, schema pyhost-report/1
  html         a page for a browser, into the file of --stats-file, else
               pyhost-PID.html; pyhostctl makes it, which must lie beside
               the host's executable or in PATH
  openmetrics  metrics; a file of them is one for node_exporter
  off          nothing, not even the closing line of an interactive run")]
    pub stats: Option<Format>,

    /// Write the report to a file instead; %p is the process id
    #[arg(
        long,
        value_name = "PATH",
        help = "\
Write the report to this file, as JSON unless --stats says otherwise,
whole or not at all. %p in it is the process id: then forked workers and
child processes write theirs too, else only the outermost process does.
SIGUSR2 has the report of the moment written, and the process goes on"
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

    /// The shared ledger, the timeline, the brief.
    #[command(flatten)]
    pub observation: ObservationOptions,

    /// Print this help
    #[arg(long)]
    pub help: bool,

    /// Print the host's version and the Python it runs
    #[arg(long)]
    pub host_version: bool,
}

/// The options of array data.
#[derive(Debug, Default, Args)]
pub struct NumpyOptions {
    /// What NumPy's arrays are made from
    #[arg(
        long,
        value_name = "NAME",
        hide_possible_values = true,
        help = "\
The allocator of NumPy's array data [default: mimalloc;
system with --allocator system]
  mimalloc  mimalloc, in a heap of their own
  pool      over it, a pool that keeps freed blocks by size
            (TensorFlow's PoolAllocator)
  bfc       one region, best fit with coalescing (TensorFlow's
            BFCAllocator)
  system    libc's malloc, counted"
    )]
    pub numpy_allocator: Option<ArrayAllocator>,

    /// Align array data to N bytes
    #[arg(
        long,
        value_name = "N",
        help = "\
Align array data to N bytes, a power of two from 16 to 4096 (256 with
bfc), and round its size up likewise [default: 64]"
    )]
    pub numpy_align: Option<Alignment>,

    /// Transparent huge pages for arrays
    #[arg(
        long,
        value_name = "WHEN",
        hide_possible_values = true,
        help = "\
Transparent huge pages for array data
  auto    ask for them for arrays of 4 MiB and more, as NumPy does
          (NUMPY_MADVISE_HUGEPAGE=0: not at all) [default]
  always  ask for them for all array memory
  never   refuse them for all array memory"
    )]
    pub numpy_huge_pages: Option<HugePages>,

    /// Prefer this memory node for array data
    #[arg(
        long,
        value_name = "NODE",
        help = "\
Take array data from this NUMA node as long as it has room"
    )]
    pub numpy_numa: Option<u32>,

    /// The most that the pool keeps
    #[arg(
        long,
        value_name = "LIMIT",
        help = "\
The most that the pool keeps: a number of blocks, a size such as 64M, or
auto: a number that grows with use, and never more bytes than were in
use at once [default: auto]"
    )]
    pub numpy_pool_limit: Option<Limit>,

    /// The region of bfc
    #[arg(
        long,
        value_name = "SIZE[,MAX]",
        help = "\
The region of bfc: its size, and what it may grow to by doubling, such
as 256M,4G; K, M, G, T are powers of 1024, KB and so on of 1000
[default: 64M, growing to the machine's memory]"
    )]
    pub numpy_region: Option<Region>,
}
