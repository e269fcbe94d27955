//! The host's options, one row each: name, variable, value, help. All else about an option is derived
//! from its row: clap's command and `--help`, what a variable says, what children inherit, the scan
//! before `main` ([`super::early`]), and the table in `docs/options.md`.

use super::kinds::{Choice, Flag, Kind, Leading, List, Live, Number, Path, Text};
use crate::allocator::Allocator;
use crate::check::faults::Spec;
use crate::check::leaks;
use crate::error::Error;
use crate::heap::bound::Size;
use crate::heap::guards;
use crate::heap::placement::HugePages;
use crate::heap::pool::PoolLimit;
use crate::heap::retention::Retention;
use crate::libc_exports::native;
use crate::limit::caps::{Rule, Share};
use crate::observe::lines::LineSettings;
use crate::observe::report::Format;
use crate::observe::timeline::Interval;
use crate::python::numpy::{Alignment, ArrayAllocator, ArrayRegion};
use std::ffi::{OsStr, OsString};

/// How a value is written on the command line, and its name in `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `--option`: no value.
    Alone,
    /// `--option VALUE` or `--option=VALUE`.
    Next(&'static str),
    /// `--option=VALUE` only: the next word is Python's.
    Equals(&'static str),
    /// `--option` or `--option=VALUE`; the second text is the value where none is given.
    Optional(&'static str, &'static str),
}

/// One option.
pub struct Row {
    /// Its name, `--` included.
    pub option: &'static str,
    /// Its variable, which children inherit. Empty: it has none, and is the command line's alone.
    pub variable: &'static str,
    /// How its value is written.
    pub form: Form,
    /// Whether it may be given several times.
    pub is_list: bool,
    /// The names that its value is one of; empty for other values.
    pub names: fn() -> String,
    /// Its help: the first lines are a text, an indented line is one of the values.
    pub help: &'static str,
}

/// The row of an option, by its name. Allocates nothing.
pub fn row_of(name: &[u8]) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.option.as_bytes() == name)
}

macro_rules! options {
    ($($field:ident: $kind:ty, $option:literal, $variable:literal, $form:expr, $help:literal;)*) => {
        /// All rows, in the order of `--help`.
        pub static ROWS: &[Row] = &[$(Row {
            option: $option,
            variable: $variable,
            form: $form,
            is_list: <$kind as Kind>::IS_LIST,
            names: <$kind as Kind>::names,
            help: $help,
        }),*];

        /// The values that the command line gave, or those of the variables.
        #[derive(Default)]
        pub struct Given {
            $(#[doc = concat!("`", $option, "`.")]
            pub $field: Option<<$kind as Kind>::Value>,)*
        }

        impl Given {
            /// Reads the values: `value` finds the texts of a row.
            ///
            /// # Errors
            /// What `bad` makes of a row, a value that is wrong, and the reason.
            pub fn read(
                texts: &dyn Fn(&Row) -> Vec<OsString>,
                bad: &dyn Fn(&Row, &OsStr, String) -> Error,
            ) -> Result<Self, Error> {
                let mut rows = ROWS.iter();
                let mut given = Given::default();
                $(if let Some(row) = rows.next() {
                    for text in texts(row) {
                        <$kind as Kind>::add(&mut given.$field, &text)
                            .map_err(|reason| bad(row, &text, reason))?;
                    }
                })*
                Ok(given)
            }

            /// The variables that stand for the values.
            ///
            /// # Errors
            /// A path that cannot be made absolute.
            pub fn exports(&self) -> Result<Vec<(String, OsString)>, Error> {
                let mut exports = Vec::new();
                $(if let Some(value) = &self.$field && !$variable.is_empty() {
                    exports.push(($variable.to_owned(), <$kind as Kind>::show(value, $option)?));
                })*
                Ok(exports)
            }
        }
    };
}

options! {
    allocator: Choice<Allocator>, "--allocator", "PYHOST_ALLOCATOR", Form::Next("KIND"), "\
CPython's allocators [default: mimalloc, or as PYTHONMALLOC says]
  mimalloc  RAW, MEM, OBJ and the arenas on mimalloc
  pymalloc  RAW, MEM and the arenas on mimalloc; OBJ stays pymalloc, counted
  system    nothing replaced: CPython's own allocators, counted";
    debug_hooks: Flag, "--debug-hooks", "PYHOST_DEBUG_HOOKS", Form::Alone, "\
Put CPython's debug hooks over the host's allocators (PyMem_SetupDebugHooks),
and pads and a quarantine around every block, malloc's and NumPy's included.
A line about a block has the C calls that allocated and freed it";
    malloc: Choice<native::Mode>, "--malloc", "PYHOST_MALLOC", Form::Next("HOW"), "\
How the process's malloc serves
[default: count; off beneath a tool that must see every block, such as
Valgrind or a sanitizer, or if `ulimit -d` is below 32 MiB or `ulimit -v`
below 64]
  count  from mimalloc, booked to the account `native`
  plain  from mimalloc, not counted
  off    by what is preloaded, else by libc; and no domain on mimalloc";
    retain: Choice<Retention>, "--retain", "PYHOST_RETAIN", Form::Next("NAME"), "\
How much freed memory the heaps keep, and how long
  balanced  little, and nothing while the program waits [default]
  speed     for 10 s, and huge pages for the first GiB
  small     nothing
MIMALLOC_* variables win";
    cap: List<Rule>, "--cap", "PYHOST_CAP", Form::Next("[ACCOUNT=]SIZE"), "\
Cap live bytes, of one account or of all together; may be repeated. At
the cap the script gets MemoryError, which it can catch. SIZE: 64M, 25%
(of the cgroup's limit, else of the machine), or auto (what the cgroup
allows, less what the accounts do not see)";
    soft_cap: List<Rule>, "--soft-cap", "PYHOST_SOFT_CAP", Form::Next("[ACCOUNT=]SIZE"), "\
From so many live bytes on collect garbage, give kept memory back, call
what pyhost.on_pressure() registered, and warn, once; may be repeated";
    cap_share: Text<Share>, "--cap-share", "PYHOST_CAP_SHARE", Form::Next("N"), "Divide the caps among N workers: each process has an Nth of them";
    numpy_allocator: Choice<ArrayAllocator>, "--numpy-allocator", "PYHOST_NUMPY_ALLOCATOR", Form::Next("NAME"), "\
The allocator of NumPy's array data [default: mimalloc;
system with --allocator system]
  mimalloc  mimalloc, in a heap of their own
  pool      over it, a pool that keeps freed blocks by size
            (TensorFlow's PoolAllocator)
  bfc       one region, best fit with coalescing (TensorFlow's
            BFCAllocator)
  system    libc's malloc, counted";
    numpy_align: Text<Alignment>, "--numpy-align", "PYHOST_NUMPY_ALIGN", Form::Next("N"), "\
Align array data to N bytes, a power of two from 16 to 4096 (256 with
bfc), and round its size up likewise [default: 64]";
    numpy_huge_pages: Choice<HugePages>, "--numpy-huge-pages", "PYHOST_NUMPY_HUGE_PAGES", Form::Next("WHEN"), "\
Transparent huge pages for array data
  auto    ask for them for arrays of 4 MiB and more, as NumPy does
          (NUMPY_MADVISE_HUGEPAGE=0: not at all) [default]
  always  ask for them for all array memory
  never   refuse them for all array memory";
    numpy_numa: Number<u32>, "--numpy-numa", "PYHOST_NUMPY_NUMA", Form::Next("NODE"), "Take array data from this NUMA node as long as it has room";
    numpy_pool_limit: Text<PoolLimit>, "--numpy-pool-limit", "PYHOST_NUMPY_POOL_LIMIT", Form::Next("LIMIT"), "\
The most that the pool keeps: a number of blocks, a size such as 64M, or
auto: a number that grows with use, and never more bytes than were in
use at once [default: auto]";
    numpy_region: Text<ArrayRegion>, "--numpy-region", "PYHOST_NUMPY_REGION", Form::Next("SIZE[,MAX]"), "\
The region of bfc: its size, and what it may grow to by doubling, such
as 256M,4G; K, M, G, T are powers of 1024, KB and so on of 1000
[default: 64M, growing to the machine's memory]";
    region: Text<Size>, "--region", "PYHOST_REGION", Form::Next("SIZE"), "\
Keep all heaps in one region of addresses, of which never more than SIZE
is committed, such as 24M; a request that does not fit fails. Makes
`small` the default of --retain";
    region_lock: Flag, "--region-lock", "PYHOST_REGION_LOCK", Form::Alone, "\
Lock what is committed of the region in memory, as soon as it is touched";
    region_huge_pages: Flag, "--region-huge-pages", "PYHOST_REGION_HUGE_PAGES", Form::Alone, "\
Ask for transparent huge pages for the region, which then counts by
2 MiB";
    fail: List<Spec>, "--fail", "PYHOST_FAIL", Form::Next("[ACCOUNT=]SPEC"), "\
Let requests for memory fail while the script runs; may be given more
than once. ACCOUNT is raw, mem, obj, arena, numpy, native, mapped, or several
with + between them [default: all]; SPEC is some of these, with commas
  N              the Nth request
  every=N        each Nth
  p=P[,seed=N]   each with probability P
  above=SIZE     counts only those above SIZE
  when=open      counts only while pyhost.fail() is open; alone: lets
                 the script use pyhost.fail(SPEC)
`pyhostctl sweep` runs a program once for each N";
    fail_log: Path, "--fail-log", "PYHOST_FAIL_LOG", Form::Next("PATH"), "\
Write one line for each injected failure to this file: process, number
of the request, account, size, and the lines of Python it came from";
    guard: Text<guards::GuardSettings>, "--guard", "PYHOST_GUARD", Form::Optional("SPEC", "every=8"), "\
Put a page that cannot be touched behind sampled blocks, so that a write
past the end dies at once, with the account and the size in one line
  min=SIZE  blocks of this size and more [default: 4K]; those of 1K and
            less from the script's start on
  every=N   one of N of them [default: 8]; joined by a comma
  all       every block of more than 1K
  off       none";
    leak_check: Choice<leaks::Scope>, "--leak-check", "PYHOST_LEAK_CHECK", Form::Optional("WHAT", "python"), "\
When Python has been finalised, look for blocks that the script allocated
and that nothing points at any more; a leak is printed on stderr and makes
the exit status 23 where it would be 0
  python  in CPython's domains and array data [default]
  native  in malloc's blocks, too
  off     not at all";
    leak_exit_status: Number<u8>, "--leak-exit-status", "PYHOST_LEAK_EXIT_STATUS", Form::Next("N"), "\
The exit status of a leak, 0 to 255; 0 leaves the script's [default: 23]";
    leak_suppressions: List<leaks::Source>, "--leak-suppressions", "PYHOST_LEAK_SUPPRESSIONS", Form::Next("FILE"), "\
Do not report the leaks that a rule of this file matches, a rule a line,
such as type:some_package; may be given more than once
  unused  name the rules that match nothing";
    stats: Choice<Format>, "--stats", "PYHOST_STATS", Form::Optional("FORMAT", "text"), "\
Report live and peak bytes an account at the end, on stderr
  text         a table [default]
  json         one line, schema pyhost-report/1
  html         a page for a browser, into the file of --stats-file, else
               pyhost-PID.html; pyhostctl makes it, which must lie beside
               the host's executable or in PATH
  openmetrics  metrics; a file of them is one for node_exporter
  off          nothing, not even the closing line of an interactive run";
    stats_file: Path, "--stats-file", "PYHOST_STATS_FILE", Form::Next("PATH"), "\
Write the report to this file, as JSON unless --stats says otherwise,
whole or not at all. %p in it is the process id: then forked workers and
child processes write theirs too, else only the outermost process does.
SIGUSR2 has the report of the moment written, and the process goes on";
    stats_fd: Number<i32>, "--stats-fd", "PYHOST_STATS_FD", Form::Next("N"), "\
Write the report to this open descriptor, as JSON unless --stats says
otherwise";
    live: Live, "--live", "PYHOST_LIVE", Form::Optional("DIR|on|off|file:PATH", "on"), "\
Keep the ledger in a file of this directory, which pyhostctl reads while
the process runs and after a kill; child processes do so too
  on         in $XDG_RUNTIME_DIR/pyhost, else in /dev/shm/pyhost-UID
             [default]
  off        not at all, whatever PYHOST_LIVE says
  file:PATH  in this file, which stays; %p is the process id, then child
             processes keep files of their own";
    lines: Text<LineSettings>, "--lines", "PYHOST_LINES", Form::Optional("INTERVAL", "on"), "\
Report which lines of Python allocated what was live at the peak, what
is live, and all: by a sample of the allocations, at a few percent of the
time. Without --stats the table is printed
  on        one sample every 128 KiB in the mean [default]
  INTERVAL  one every so many bytes, such as 64K; 1 is every allocation
  off       none";
    lines_native: Flag, "--lines-native", "PYHOST_LINES_NATIVE", Form::Alone, "\
Have the stacks of --lines begin with the native calls between the
allocation and the interpreter. pyhostctl finds the names of functions
that are not exported, and lines (x86-64, glibc 2.35 and newer)";
    timeline: Path, "--timeline", "PYHOST_TIMELINE", Form::Equals("FILE"), "\
Write every account and the resident size over time to this file, as
lines of JSON; --timeline-interval says how often. %p is the process id";
    timeline_interval: Text<Interval>, "--timeline-interval", "PYHOST_TIMELINE_INTERVAL", Form::Next("INTERVAL"), "\
The time between two samples, such as 10ms or 0.5s; it doubles each time
the file is full, at 8192 samples [default: 10ms]";
    stats_brief: Path, "--stats-brief", "PYHOST_STATS_BRIEF", Form::Next("PATH"), "\
Rewrite this file, of at most 4 KiB, at each new peak worth telling, at
each refusal and at the end: for a container's termination log. %p is
the process id";
    python: Leading, "--python", "", Form::Next("PATH"), "\
Run this interpreter. Before all other options; the command of a wheel alone takes it";
    help: Flag, "--help", "", Form::Alone, "Print this help";
    host_version: Flag, "--host-version", "", Form::Alone, "Print the host's version and the Python it runs";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::statuses::STATUSES;
    use std::collections::BTreeSet;

    const DOCUMENT: &str = include_str!("../../../docs/options.md");

    /// The first cells of the table below a line of the document.
    fn first_cells(line: &str) -> Vec<&'static str> {
        let (_, rest) = DOCUMENT.split_once(line).unwrap();
        let rows = rest.lines().skip_while(|line| !line.starts_with("|---"));
        let rows = rows.skip(1).take_while(|line| line.starts_with("| "));
        rows.map(|row| row[2..].split(" | ").next().unwrap())
            .collect()
    }

    #[test]
    fn the_table_in_the_docs_has_every_option_and_no_other() {
        let cells = first_cells("# Options\n");
        let words = cells.iter().flat_map(|cell| cell.split('`'));
        let documented: BTreeSet<&str> = words
            .filter(|word| word.starts_with("--"))
            .map(|word| word.split([' ', '=', '[']).next().unwrap())
            .collect();
        let rows = ROWS.iter().filter(|row| !row.variable.is_empty());
        assert_eq!(documented, rows.map(|row| row.option).collect());
    }

    #[test]
    fn the_table_in_the_docs_has_every_exit_status_and_no_other() {
        let documented: Vec<i32> = first_cells("## Exit statuses\n")
            .iter()
            .filter_map(|cell| cell.parse().ok())
            .collect();
        assert_eq!(documented, STATUSES.map(|(status, _)| status));
    }

    #[test]
    fn a_variable_has_the_name_of_its_option() {
        for row in ROWS.iter().filter(|row| !row.variable.is_empty()) {
            let name = row.option.trim_start_matches("--").replace('-', "_");
            assert_eq!(row.variable, format!("PYHOST_{}", name.to_uppercase()));
        }
    }

    #[test]
    fn children_inherit_what_was_given() {
        let text = |row: &Row| {
            match (row.form, (row.names)().as_str(), row.option) {
                (_, _, "--fail") => "3;obj=every=2",
                (_, _, "--cap" | "--soft-cap") => "64M;numpy=25%",
                (_, _, "--timeline-interval") => "10ms",
                (_, _, "--guard") => "all",
                (_, _, "--leak-suppressions") => "/tmp/a;unused",
                (_, _, "--lines") => "64K,seed=7",
                (_, _, "--live" | "--timeline") => "/tmp/a",
                (_, _, "--numpy-region") => "64M,1G",
                (_, _, "--region") => "64M",
                (Form::Alone, ..) => "1",
                (_, "", _) => "64",
                (_, names, _) => return names.split(", ").next().unwrap().into(),
            }
            .into()
        };
        let wrong = |row: &Row, _: &OsStr, reason: String| panic!("{}: {reason}", row.option);
        let all = |row: &Row| match row.option {
            "--python" => Vec::new(), // the launcher's
            _ => vec![text(row)],
        };
        let given = Given::read(&all, &wrong).unwrap();
        let exports = given.exports().unwrap();
        let variables = ROWS.iter().map(|row| row.variable);
        let variables: Vec<&str> = variables.filter(|name| !name.is_empty()).collect();
        assert!(exports.iter().map(|(name, _)| name.as_str()).eq(variables));
        let find = |name: &str| exports.iter().find(|(known, _)| known == name);
        let again = Given::read(
            &|row| {
                find(row.variable)
                    .map(|(_, value)| value.clone())
                    .into_iter()
                    .collect()
            },
            &wrong,
        );
        assert_eq!(again.unwrap().exports().unwrap(), exports);
    }
}
