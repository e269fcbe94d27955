//! The host's options, one row each: name, variable, value, help, and the parts of its value. All else about an
//! option is derived from its row: the reader ([`super::reader`]), `--help`, what a variable says, what children
//! inherit, and the table in `docs/options.md`.

use super::kinds::{
    Choice, Command, DebugHooks, Flag, Help, Kind, List, Live, Number, Path, PathPart, Text,
};
use crate::allocator::Allocator;
use crate::check::{faults::Spec, leaks};
use crate::heap::bounded_heap::Size;
use crate::heap::guards;
use crate::heap::placement::HugePages;
use crate::heap::pool::PoolLimit;
use crate::heap::retention::Retention;
use crate::libc_exports::native;
use crate::limit::caps::{Rule, Share};
use crate::limit::recycling::RecycleSignal;
use crate::observe::report::{Format, command::Service};
use crate::observe::{lines::LineSettings, timeline::Interval};
use crate::python::module::FunctionName;
use crate::python::numpy::{Alignment, ArrayAllocator, ArrayRegion};
use std::ffi::{OsStr, OsString};

/// How a value is written on the command line, and its name in `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `--option`: no value.
    Alone,
    /// `--option VALUE` or `--option=VALUE`.
    Next(&'static str),
    /// `--option` or `--option=VALUE`; the second text is the value where none is given.
    Optional(&'static str, &'static str),
}

#[derive(Debug)]
pub struct Row {
    /// The heading that it is listed under.
    pub group: &'static str,
    pub option: &'static str,
    /// Its variable, which children inherit. Empty: it has none, and is the command line's alone.
    pub variable: &'static str,
    pub form: Form,
    /// Its help: a line, then the values and the keys.
    pub help: &'static str,
    /// The parts of its value: the first has no key.
    pub parts: &'static [Part],
}

impl Row {
    pub fn is_list(&self) -> bool {
        self.parts.iter().any(|part| part.is_list)
    }

    /// The keys, for an error line; or empty.
    pub fn keys(&self) -> String {
        let keys = self.parts.iter().skip(1).map(|part| part.key);
        keys.collect::<Vec<_>>().join(", ")
    }
}

#[derive(Debug)]
pub struct Part {
    /// How it is written: `key=VALUE`, a key alone, or nothing for the value without a key.
    pub key: &'static str,
    /// Whether it may be given several times.
    pub is_list: bool,
    /// The names that its value is one of; empty for other values.
    pub names: fn() -> String,
}

impl Part {
    pub fn name(&self) -> &'static str {
        self.key.split('=').next().unwrap_or_default()
    }

    pub fn takes_value(&self) -> bool {
        self.key.is_empty() || self.key.contains('=')
    }
}

/// The row of an option, by its name. Allocates nothing.
pub fn row_of(name: &[u8]) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.option.as_bytes() == name)
}

macro_rules! options {
    ($([$group:literal] $($option:literal, $variable:literal, $form:expr, $help:literal {
        $($field:ident: $kind:ty, $key:literal),+
    })+)+) => {
        /// All rows, in the order of `--help`.
        pub static ROWS: &[Row] = &[$($(Row {
            group: $group,
            option: $option,
            variable: $variable,
            form: $form,
            help: $help,
            parts: &[$(Part {
                key: $key,
                is_list: <$kind as Kind>::IS_LIST,
                names: <$kind as Kind>::names,
            }),+],
        }),+),+];

        #[derive(Debug, Default)]
        pub struct Values {
            $($($(#[doc = concat!("`", $option, " ", $key, "`.")]
            pub $field: Option<<$kind as Kind>::Value>,)+)+)+
            /// The options that have a value, and whether a variable gave it.
            pub(super) given: Vec<(&'static str, bool)>,
        }

        impl Values {
            /// Reads a text into the part of an option that has a key.
            pub(super) fn add(&mut self, row: &Row, key: &str, text: &OsStr) -> Result<(), String> {
                match (row.option, key) {
                    $($($(($option, $key) => <$kind as Kind>::add(&mut self.$field, text),)+)+)+
                    _ => Ok(()),
                }
            }

            /// Takes away the part of an option that has the key, or all of its parts.
            pub(super) fn forget(&mut self, option: &str, key: Option<&str>) {
                $($($(if option == $option && key.is_none_or(|key| key == $key) {
                    self.$field = None;
                })+)+)+
            }

            /// The parts of an option's value, each with its key.
            pub(super) fn parts(&self, row: &Row) -> Vec<(&'static str, OsString)> {
                let mut parts = Vec::new();
                $($($(if row.option == $option && let Some(value) = &self.$field {
                    let texts = <$kind as Kind>::show(value);
                    parts.extend(texts.into_iter().map(|text| ($key, text)));
                })+)+)+
                parts
            }
        }
    };
}

options! {
    ["Limits"]
    "--cap", "PYHOST_CAP", Form::Next("[ACCOUNT=]SIZE"), "\
Raise MemoryError above this many live bytes
The script can catch the error. The cap is one account's, or that of
all together, with what is resident of libraries' own maps (without:
owned=SIZE), or the one that the process shares with all that descend
from it (tree=SIZE); may be repeated. SIZE: 64M, 25% (of the cgroup's
limit, else of the machine), or auto (what the cgroup allows, less
what the accounts do not see)" {
        cap: List<Text<Rule>>, ""
    }
    "--soft-cap", "PYHOST_SOFT_CAP", Form::Next("[ACCOUNT=]SIZE"), "\
Warn and give memory back from here on
Once: garbage is collected, kept memory is given back, what
pyhost.on_pressure() registered is called, and a line is printed. May
be repeated" {
        soft_cap: List<Text<Rule>>, ""
    }
    "--cap-share", "PYHOST_CAP_SHARE", Form::Next("N"), "\
Divide the caps among N processes
Each process has an Nth of them" {
        cap_share: Text<Share>, ""
    }
    "--recycle-at", "PYHOST_RECYCLE_AT", Form::Next("SIZE,..."), "\
Replace the worker above this many live bytes
Between two requests, once: if so much stays live after a garbage
collection while the main thread waits for work, the process sends
itself a signal, by which a server's worker ends and its master starts
another
  signal=NAME  TERM, INT, QUIT, HUP, USR1 or USR2 [default: TERM]" {
        recycle_at: Text<Size>, "",
        recycle_signal: Choice<RecycleSignal>, "signal=NAME"
    }
    "--at-exhausted", "PYHOST_AT_EXHAUSTED", Form::Next("COMMAND"), "\
Run a command at the first refusal of a cap
By /bin/sh, once in a process, with the refusal, the accounts, the
largest blocks and, with --lines, the lines with the most bytes as
JSON on its standard input. Its output goes to stderr. The script goes
on meanwhile; its end waits for the command, ten seconds at most" {
        at_exhausted: Command, ""
    }
    ["Observation"]
    "--stats", "PYHOST_STATS", Form::Optional("FORMAT,...", "text"), "\
Report live and peak bytes at the end
On stderr, or where a key says
  text         a table [default; with a key: json]
  json         one line, schema pyhost-report/1
  html         a page for a browser, into the file, else
               pyhost-PID.html; pyhostctl makes it, which must be
               beside the host's executable or in PATH
  openmetrics  metrics; a file of them is one for node_exporter
  off          nothing: no table of --lines, and no closing line of an
               interactive run
  file=PATH    into this file, whole or not at all. %p in it is the
               process id: then forked workers and child processes
               write theirs too, else only the outermost process does.
               SIGUSR2 makes the host write the report of the moment
  fd=N         to this open descriptor" {
        stats: Choice<Format>, "",
        stats_file: PathPart, "file=PATH",
        stats_fd: Number<i32>, "fd=N"
    }
    "--brief", "PYHOST_BRIEF", Form::Next("PATH"), "\
Keep a text with the last peak and refusal
Of at most 4 KiB, for a container's termination log. The file is
rewritten at each new peak that is much higher, at each refusal and at
the end. %p is the process id" {
        brief: Path, ""
    }
    "--live", "PYHOST_LIVE", Form::Optional("DIR", "on"), "\
Let pyhostctl read the accounts at any time
While the process runs, and after a kill: the ledger is in a file of
the directory DIR. Child processes have files of their own there
  on         where PYHOST_LIVE says, else in $XDG_RUNTIME_DIR/pyhost,
             else in /dev/shm/pyhost-UID [default]
  off        not at all, whatever PYHOST_LIVE says
  file:PATH  in this file, which stays; with %p, the process id, child
             processes have theirs, too" {
        live: Live, ""
    }
    "--service", "PYHOST_SERVICE", Form::Next("NAME"), "\
Name the service in metrics, worker by worker
With --live: pyhostctl serve labels its processes by service, role and
worker, not by process id. Without it the name is OTEL_SERVICE_NAME's" {
        service: Text<Service>, ""
    }
    "--lines", "PYHOST_LINES", Form::Optional("INTERVAL,...", "on"), "\
Report which lines of Python allocated memory
Live at the peak, live now, and all: by a sample of the allocations,
at a few percent of the time. Without --stats the table is printed
  on        one sample every 128 KiB in the mean [default]
  INTERVAL  one every so many bytes, such as 64K; 1 is every
            allocation
  off       none
  native    the stacks begin with the native calls between the
            allocation and the interpreter. pyhostctl finds the names
            of functions that are not exported, and lines (x86-64,
            glibc 2.35 and newer)" {
        lines: Text<LineSettings>, "",
        lines_native: Flag, "native"
    }
    "--profile-lines", "PYHOST_PROFILE_LINES", Form::Next("NAME,..."), "\
Print what each line of a function adds
With its peak, its hits and its time, on stderr at the end; libraries'
own maps count. NAME is a module, a colon and a function, as its
__qualname__ has it: __main__:work, app.models:User.load. May be
repeated
  file=PATH  instead as a page for a browser, into this file, also of
             functions below @pyhost.profile; may come without NAME.
             With %p, the process id, child processes write theirs,
             too" {
        profile_lines: List<Text<FunctionName>>, "",
        profile_file: PathPart, "file=PATH"
    }
    "--timeline", "PYHOST_TIMELINE", Form::Next("FILE,..."), "\
Write the accounts over time to a file
Lines of JSON, with the resident size. %p is the process id
  interval=TIME  the time between two samples, such as 50ms or 0.5s;
                 it doubles each time the file is full, at 8192
                 samples [default: 10ms]" {
        timeline: PathPart, "",
        timeline_interval: Text<Interval>, "interval=TIME"
    }
    ["Debugging"]
    "--leak-check", "PYHOST_LEAK_CHECK", Form::Optional("WHAT,...", "python"), "\
Look for lost blocks at the end; status 23
When Python has been finalised: blocks that the script allocated and
that nothing points at any more. A leak is printed on stderr. May be
repeated
  python             in CPython's domains and array data [default]
  native             in malloc's blocks, too
  off                not at all
  status=N           the exit status of a leak, 0 to 255, where it
                     would be 0; 0 leaves the script's [default: 23]
  suppressions=FILE  do not report the leaks that a rule of this file
                     matches, a rule a line, such as
                     type:some_package; may be repeated
  unused             name the rules that match nothing" {
        leak_check: Choice<leaks::Scope>, "",
        leak_status: Number<u8>, "status=N",
        leak_suppressions: List<PathPart>, "suppressions=FILE",
        leak_unused: Flag, "unused"
    }
    "--guard", "PYHOST_GUARD", Form::Optional("SPEC", "every=8"), "\
Put guard pages behind sampled blocks
A write past the end then ends the process at once, with the account
and the size in one line. Status 24 if most found no room, where it
would be 0
  min=SIZE  blocks of this size and more [default: 4K]; those of 1K
            and less from the script's start on
  every=N   one of N of them [default: 8]; joined by a comma
  align=N   a size of no multiple of 16 that is one of N: 1, 2, 4 or
            8, too, ends at the page [default: 16 for malloc, else 1]
  library=TEXT
            those that code of a library asks for, with TEXT in its
            path; min=1,every=1 unless another is given
  all       every block of more than 1K
  off       none" {
        guard: Text<guards::GuardSettings>, ""
    }
    "--debug-hooks", "PYHOST_DEBUG_HOOKS", Form::Optional("guard", "1"), "\
Check every block: pads and a quarantine
CPython's debug hooks (PyMem_SetupDebugHooks) over the host's
allocators, and pads and a quarantine around every block, malloc's and
NumPy's included. A line about a block has the C calls that allocated
and freed it
  guard  guard pages behind the blocks of the script, too, for the
         author of an extension: --guard=min=1,every=1 unless another
         --guard is given" {
        debug_hooks: Choice<DebugHooks>, ""
    }
    "--fail", "PYHOST_FAIL", Form::Next("[ACCOUNT=]SPEC"), "\
Let requests for memory fail
While the script runs; may be repeated. ACCOUNT is raw, mem, obj,
arena, numpy, native, mapped, or several with + between them [default:
all]; SPEC is some of these, with commas. `pyhostctl sweep` runs a
program once for each N
  N             the Nth request
  every=N       each Nth
  p=P[,seed=N]  each with probability P
  above=SIZE    counts only those above SIZE
  when=open     counts only while pyhost.fail() is open; alone: lets
                the script use pyhost.fail(SPEC)
  log=PATH      writes one line for each injected failure to this
                file: process, number of the request, account, size,
                and the lines of Python it came from" {
        fail: List<Text<Spec>>, "",
        fail_log: PathPart, "log=PATH"
    }
    ["Allocators"]
    "--allocator", "PYHOST_ALLOCATOR", Form::Next("KIND"), "\
CPython's allocators: mimalloc, pymalloc or system
[default: mimalloc, or as PYTHONMALLOC says]
  mimalloc  RAW, MEM, OBJ and the arenas on mimalloc
  pymalloc  RAW, MEM and the arenas on mimalloc; OBJ stays pymalloc,
            counted
  system    nothing replaced: CPython's own allocators, counted" {
        allocator: Choice<Allocator>, ""
    }
    "--malloc", "PYHOST_MALLOC", Form::Next("HOW"), "\
The process's malloc: count, plain or off
[default: count; off beneath a tool that must see every block, such as
Valgrind or a sanitizer, or if `ulimit -d` is below 32 MiB or `ulimit
-v` below 64]
  count  from mimalloc, booked to the account `native`
  plain  from mimalloc, not counted
  off    by what is preloaded, else by libc; and no domain on mimalloc" {
        malloc: Choice<native::Mode>, ""
    }
    "--retain", "PYHOST_RETAIN", Form::Next("NAME"), "\
Freed memory that is kept: balanced, speed or small
MIMALLOC_* variables win
  balanced  little, and nothing while the program waits [default]
  speed     for 10 s, and huge pages for the first GiB
  small     nothing [default with --cap or --region]" {
        retain: Choice<Retention>, ""
    }
    ["NumPy"]
    "--numpy", "PYHOST_NUMPY", Form::Next("KIND,..."), "\
NumPy's array data: mimalloc, pool, bfc or system
Each key may come without KIND [default: mimalloc; system with
--allocator system]
  mimalloc           mimalloc, in a heap of their own
  pool               over it, a pool that keeps freed blocks by size
                     (TensorFlow's PoolAllocator)
  bfc                one region, best fit with coalescing
                     (TensorFlow's BFCAllocator)
  system             libc's malloc, counted
  align=N            align to N bytes, a power of two from 16 to 4096
                     (256 with bfc), and round sizes up likewise
                     [default: 64]
  huge-pages=WHEN    transparent huge pages: auto (ask for them for
                     arrays of 4 MiB and more, as NumPy does;
                     NUMPY_MADVISE_HUGEPAGE=0: not at all), always
                     (ask for them for all), never (refuse them)
                     [default: auto]
  numa=NODE          from this NUMA node as long as it has room
  limit=LIMIT        what the pool keeps at most: a number of blocks,
                     a size such as 64M, or auto: a number that grows
                     with use, and never more bytes than were in use
                     at once [default: auto]
  region=SIZE[:MAX]  the region of bfc: its size, and what it may grow
                     to by doubling, such as 256M:4G; K, M, G, T are
                     powers of 1024, KB and so on of 1000 [default:
                     64M, growing to the machine's memory]" {
        numpy: Choice<ArrayAllocator>, "",
        numpy_align: Text<Alignment>, "align=N",
        numpy_huge_pages: Choice<HugePages>, "huge-pages=WHEN",
        numpy_numa: Number<u32>, "numa=NODE",
        numpy_limit: Text<PoolLimit>, "limit=LIMIT",
        numpy_region: Text<ArrayRegion>, "region=SIZE[:MAX]"
    }
    ["Devices"]
    "--region", "PYHOST_REGION", Form::Next("SIZE,..."), "\
Keep all heaps in one region, of SIZE at most
One range of addresses, of which never more than SIZE is committed,
such as 24M. A request that does not fit fails
  lock        lock what is committed of it in memory, as soon as it is
              touched
  huge-pages  ask for transparent huge pages for it; it then counts by
              2 MiB" {
        region: Text<Size>, "",
        region_lock: Flag, "lock",
        region_huge_pages: Flag, "huge-pages"
    }
    ["The host"]
    "--python", "", Form::Next("PATH"), "\
Run this interpreter; before all other options
The command of a wheel alone takes it" {
        python: Path, ""
    }
    "--help", "", Form::Optional("all", "short"), "\
Print this help; with all: every value and key" {
        help: Choice<Help>, ""
    }
    "--host-version", "", Form::Alone, "\
Print the version of the host and of its Python" {
        host_version: Flag, ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::words::STATUSES;
    use std::collections::BTreeSet;

    const DOCUMENT: &str = include_str!("../../../docs/options.md");

    fn rows_below(line: &str) -> Vec<&'static str> {
        let (_, rest) = DOCUMENT.split_once(line).unwrap();
        let rows = rest.lines().skip_while(|line| !line.starts_with("|---"));
        let rows = rows.skip(1).take_while(|line| line.starts_with("| "));
        rows.map(|row| &row[2..]).collect()
    }

    fn first_cells(line: &str) -> impl Iterator<Item = &'static str> {
        let rows = rows_below(line).into_iter();
        rows.map(|row| row.split(" | ").next().unwrap())
    }

    #[test]
    fn the_table_in_the_docs_has_every_option_with_its_keys_and_no_other() {
        let documented: BTreeSet<&str> = first_cells("# Options\n")
            .flat_map(|cell| cell.split('`'))
            .filter(|word| word.starts_with("--"))
            .map(|word| word.split([' ', '=', '[']).next().unwrap())
            .collect();
        let rows = ROWS.iter().filter(|row| !row.variable.is_empty());
        assert_eq!(documented, rows.clone().map(|row| row.option).collect());
        let lines = rows_below("# Options\n");
        for row in rows {
            let name = |line: &&&str| {
                line.split(['`', ' ', '=', '['])
                    .any(|word| word == row.option)
            };
            let line = lines.iter().find(name).unwrap();
            for Part { key, .. } in &row.parts[1..] {
                assert!(line.contains(key), "{} {key}: {line}", row.option);
            }
        }
    }

    #[test]
    fn the_table_in_the_docs_has_every_exit_status_and_no_other() {
        let documented = first_cells("## Exit statuses\n").filter_map(|cell| cell.parse().ok());
        let documented: Vec<i32> = documented.collect();
        assert_eq!(documented, STATUSES.map(|(status, _)| status));
    }

    #[test]
    fn a_variable_has_the_name_of_its_option_and_the_help_every_key() {
        for row in ROWS {
            let name = row.option.trim_start_matches("--").replace('-', "_");
            let variable = format!("PYHOST_{}", name.to_uppercase());
            assert!(row.variable == variable || row.variable.is_empty());
            let help = row.help;
            assert!(help.lines().all(|line| line.len() <= 70), "{help}");
            assert!(help.lines().next().unwrap().len() <= 51, "{help}");
            for Part { key, .. } in &row.parts[1..] {
                assert!(help.contains(&format!("\n  {key}")), "{key}");
            }
        }
    }
}
