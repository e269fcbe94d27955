//! The report: what a process's memory was, as plain data, and its forms.
//!
//! [`Report::describe`] walks a report once for every form; a [`Sink`] takes what it says. Neither it
//! nor the renderers allocate, so that a signal handler can write a report.

mod balance;
pub mod command;
mod dossier;
mod heaps;
mod leaks;
mod lines;
mod metrics;
mod peak;
mod text;

use crate::check::{faults, leaks::Findings};
use crate::heap::big_blocks::{self, BigBlocks};
use crate::heap::{self, bfc, bounded_heap, guards::GuardFigures, histogram::Histogram};
use crate::ledger::{Account, HEADER, LEDGER, Scope, Snapshot};
use crate::observe::{balance::Balance, resident_peak::ResidentSample, timeline::pages::Renderer};
use crate::resident::{LargestChild, Resident};
use crate::{libc_exports::native, python::numpy};
pub use balance::describe as describe_balance;
use derive_more::Display;
pub use dossier::{describe_block, describe_refusal, first_refusal};
pub use heaps::{describe_classes, describe_histogram, write_crowded_out};
pub use leaks::write as write_leaks;
pub use lines::show as show_lines;
pub use lines::{with_json as with_lines, with_span_json as with_lines_of_span};
pub use metrics::metrics;
pub use peak::AtPeak;
pub use pyhost_os::signals::signal_name;
use pyhost_os::{cell::HeldLatest, clock::Utc, format::text_into};
pub use pyhost_record::describe::{SCHEMA, Sink};
pub use pyhost_record::json::Json;
use pyhost_record::{describe::describe_accounts, figures};
use std::sync::atomic::Ordering::Relaxed;
pub use text::{closing_line, table};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
    /// A page for a browser, which `pyhostctl` makes of the JSON.
    Html,
    /// Metrics, as OpenMetrics and Prometheus both read them.
    OpenMetrics,
    Off,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    Stderr,
    Descriptor(i32),
    /// A file: an absolute path, in which `%p` stands for the process id and `%%` for `%`.
    File(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Its format, not [`Format::Off`].
    pub format: Format,
    pub to: Destination,
    /// How the page of [`Format::Html`] is made.
    pub page: Option<Renderer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
pub enum Ending {
    /// It has not: the script asks for its own figures.
    #[display("running")]
    Running,
    /// `exit`, with this status, after Python was finalised or not.
    #[display("exit status {}", _0 & 0xff)]
    Exit(i32),
    /// `_exit` or `os._exit`, with this status.
    #[display("_exit, status {}", _0 & 0xff)]
    QuickExit(i32),
    #[display("ended by {}", signal_name(*_0))]
    Signal(i32),
    /// The process image is replaced.
    #[display("exec")]
    Exec,
}

pub struct Report<'a> {
    /// Facts that do not change while the process runs.
    pub facts: &'a Facts,
    /// Peaks and totals; also live bytes and blocks if Python was not finalised.
    pub now: Snapshot,
    /// Live bytes and blocks as the script left them, before Python was finalised.
    pub at_end: Option<Snapshot>,
    /// When the process started, in nanoseconds since the epoch: a forked child, at the fork.
    pub started: u64,
    /// Seconds since then.
    pub wall_seconds: f64,
    /// Live bytes that a forked child began with; None in any other process.
    pub inherited: Option<u64>,
    pub ending: Ending,
    /// Made inside a signal handler, while another thread may be booking.
    pub partial: bool,
    /// The allocator of array data; `None` if no NumPy is counted.
    pub numpy: Option<numpy::ArrayFigures>,
    pub region: Option<bounded_heap::RegionFigures>,
    /// The figures of guard pages; `None` if guards are off.
    pub guards: Option<GuardFigures>,
    /// The findings of the leak check; `None` if it has not run.
    pub leaks: Option<&'static Findings>,
    /// The resident size explained, of the moment of the live figures; None if it was not taken.
    pub balance: Option<&'a Balance>,
    /// The live blocks by size, of that moment too.
    pub size_classes: Option<&'a Histogram>,
    /// The blocks of 1 MiB and more, of that moment too.
    pub big_blocks: BigBlocks,
    /// The highest moment that was seen; None if nobody looked.
    pub at_peak: Option<AtPeak>,
    /// The moment with the most resident memory that was seen; None if nobody looked.
    pub at_resident_peak: Option<HeldLatest<'static, ResidentSample>>,
    /// Memory as the kernel sees it: of that moment; the peak is that of the whole run.
    pub resident: Resident,
    /// Resident bytes after Python was finalised; None if it was not.
    pub finalized_resident: Option<u64>,
    pub largest_child: LargestChild,
    /// Forks of this process, `vfork` included.
    pub forks: u64,
    pub pid: i32,
}

impl Report<'_> {
    /// The snapshot that live bytes and blocks are shown from.
    fn live(&self) -> &Snapshot {
        self.at_end.as_ref().unwrap_or(&self.now)
    }

    /// Says the whole report to `sink`, without the braces around it.
    pub fn describe(&self, sink: &mut impl Sink) {
        let facts = self.facts;
        sink.text("schema", SCHEMA);
        sink.flag("partial", self.partial);
        sink.begin("host");
        sink.text("version", env!("CARGO_PKG_VERSION"));
        sink.text("mimalloc", facts.mimalloc.as_str());
        sink.text("native", native::mode().name());
        sink.text("profile", facts.profile);
        sink.end();
        sink.begin("python");
        sink.text("version", &facts.python_version);
        sink.flag("debug_build", cfg!(py_sys_config = "Py_DEBUG"));
        sink.flag("free_threaded", cfg!(Py_GIL_DISABLED));
        sink.end();
        self.describe_process(sink);
        sink.begin("children");
        sink.int("forks", self.forks as i64);
        sink.known("largest_peak_resident_bytes", self.largest_child.peak);
        let at_most = self.largest_child.at_most as i64;
        sink.int("largest_peak_resident_at_most_bytes", at_most);
        sink.end();
        sink.text("allocator", facts.allocator);
        sink.known_text("left_to", native::left_to());
        sink.flag("debug_hooks", facts.debug_hooks);
        sink.object("numpy", self.numpy.as_ref(), describe_numpy);
        sink.object("region", self.region.as_ref(), heaps::describe_bounded);
        sink.object("faults", faults::figures(), |rules, sink| {
            sink.list("rules", rules, |(rule, (requests, injected)), sink| {
                sink.text("rule", rule);
                sink.int("requests", requests as i64);
                sink.int("injected", injected as i64);
            });
        });
        sink.object("guards", self.guards.as_ref(), |guards, sink| {
            figures!(sink, guards: min_bytes every guarded_blocks live_blocks missed_blocks);
        });
        sink.object("leaks", self.leaks, leaks::describe);
        let is_active = |account| facts.is_active(account);
        describe_accounts(&self.now, self.at_end.as_ref(), is_active, sink);
        self.describe_caps(sink);
        sink.object("balance", self.balance, balance::describe);
        sink.object("size_classes", self.size_classes, heaps::describe_histogram);
        dossier::describe_big_blocks(&self.big_blocks, sink);
        peak::describe(self, sink);
        peak::describe_resident(self, sink);
        lines::describe(sink, self.partial);
    }

    fn describe_caps(&self, sink: &mut impl Sink) {
        sink.int("big_blocks_left_out", big_blocks::left_out() as i64);
        sink.begin("caps");
        for scope in Scope::all() {
            if let Some(cap) = LEDGER.cap(scope) {
                let reserve_from = LEDGER.hold(scope).unwrap_or(cap);
                sink.begin(scope.name());
                sink.int("cap_bytes", cap as i64);
                sink.int("reserve_from_bytes", reserve_from as i64);
                sink.end();
            }
        }
        let latest = dossier::latest();
        sink.object("dossier", latest.as_ref(), dossier::describe_dossier);
        let mut room = [0; 512];
        sink.int("told_refusals", HEADER.refusals.load(Relaxed) as i64);
        sink.known_text("last_refusal", HEADER.refusal_into(&mut room));
        sink.end();
    }

    fn describe_process(&self, sink: &mut impl Sink) {
        sink.begin("process");
        sink.int("pid", i64::from(self.pid));
        sink.begin_list("argv");
        for argument in &self.facts.argv {
            sink.text("", argument);
        }
        sink.end();
        sink.text("command", &self.facts.command);
        let mut room = [0; 32];
        let started = text_into(&mut room, format_args!("{}", Utc(self.started)));
        sink.text("started", started);
        sink.flag("forked", self.inherited.is_some());
        sink.known("inherited_live_bytes", self.inherited);
        sink.fraction("wall_seconds", self.wall_seconds);
        let ended_by = match self.ending {
            Ending::Running => None,
            Ending::Exit(_) => Some("exit"),
            Ending::QuickExit(_) => Some("_exit"),
            Ending::Signal(signal) => Some(signal_name(signal)),
            Ending::Exec => Some("exec"),
        };
        sink.known_text("ended_by", ended_by);
        match self.ending {
            Ending::Exit(status) | Ending::QuickExit(status) => {
                sink.int("exit_status", i64::from(status & 0xff));
            }
            _ => sink.null("exit_status"),
        }
        sink.known("resident_bytes", self.resident.now);
        sink.int("peak_resident_bytes", self.resident.peak as i64);
        sink.text("peak_resident_source", self.resident.source.name());
        if let Some(bytes) = self.finalized_resident {
            sink.int("finalized_resident_bytes", bytes as i64);
        }
        sink.end();
    }
}

fn describe_numpy(figures: &numpy::ArrayFigures, sink: &mut impl Sink) {
    sink.known_text("version", figures.version);
    sink.text("allocator", figures.allocator);
    sink.int("align", figures.alignment as i64);
    sink.text("huge_pages", figures.huge_pages);
    sink.known("numa_node", figures.node.map(u64::from));
    sink.object("pool", figures.pool.as_ref(), |pool, sink| {
        figures!(sink, pool: hits misses evictions kept_blocks kept_bytes);
        sink.known("limit_blocks", pool.limit_blocks);
        sink.known("limit_bytes", pool.limit_bytes);
    });
    describe_region(figures.region.as_ref(), sink);
}

pub fn describe_region(region: Option<&bfc::Statistics>, sink: &mut impl Sink) {
    sink.object("region", region, |region, sink| {
        figures!(sink, region: region_bytes reserved_bytes live_bytes requested_bytes);
        figures!(sink, region: peak_live_bytes live_chunks free_bytes free_chunks largest_free_bytes);
        sink.fraction("fragmentation", region.fragmentation());
        figures!(sink, region: allocations growths failures);
    });
}

/// The constant part of every report of a process.
#[derive(Debug)]
pub struct Facts {
    /// Python's version, such as `3.11.7`.
    pub python_version: String,
    pub mimalloc: String,
    /// All arguments of the process, bytes that are not UTF-8 replaced.
    pub argv: Vec<String>,
    /// The script's name, such as `job.py`.
    pub command: String,
    pub allocator: &'static str,
    pub debug_hooks: bool,
    pub native: &'static str,
    pub profile: &'static str,
}

/// mimalloc's version, such as `3.3.2`.
pub fn mimalloc_version() -> String {
    let number = heap::version();
    format!("{}.{}.{}", number / 10000, number / 100 % 100, number % 100)
}

impl Facts {
    /// Whether anything is booked to `account` in this process.
    pub fn is_active(&self, account: Account) -> bool {
        match account {
            Account::Numpy => numpy::is_active(),
            // A tool or PYTHONMALLOC chooses another allocator only after the host's own start. Blocks
            // that were booked before stay booked.
            Account::Native | Account::Mapped => {
                let is_counted = self.native == native::Mode::Count.name();
                let figures = || *LEDGER.snapshot().account(account);
                is_counted && self.allocator != "system" || figures().total_blocks > 0
            }
            _ => true,
        }
    }
}
