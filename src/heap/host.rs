//! What the layer above does for the heap: its functions, registered once.

use crate::ledger::{Account, Gils, Slot};
use crate::{bfc, mimalloc::pages::PageView};
use pyhost_os::{descriptor::notice, process::end_now};
use pyhost_sampler::{Step, UnitFigures, UnitNumber};
use std::{fmt, sync::OnceLock};

/// Is told of each page.
pub type PageVisitor<'a> = &'a mut dyn FnMut(&PageView);

/// The functions of the layer above. They are called inside the allocator, on any thread and from the first booking on, so each
/// of them decides itself whether there is anything to do. They neither allocate, panic nor wait.
pub struct Host {
    /// What becomes of a request under a ceiling.
    pub caps: CapDecisions,
    /// What becomes of a request of a unit of work.
    pub units: UnitDecisions,
    /// Looks at the process near its peak.
    pub peak: PeakWatcher,
    /// Finds the line of Python that the calling thread runs.
    pub lines: LineFinder,
    /// Gives the calls of the calling thread's Python code, outermost first.
    pub walk: Walk,
    /// Calls a function for each page of objects that is in no heap of the host's. Called inside and outside of the gate.
    pub objects: fn(PageVisitor<'_>),
    /// Answers another process that asks for samples. Called with the GIL, outside of the gate.
    pub answer: fn(),
    /// Whether several interpreters have a GIL of their own.
    pub several_gils: fn() -> bool,
    /// The region is too small for Python to start: the process ends.
    pub start_fails: fn(),
    /// Array data of so many bytes has no room in the region of bfc. Called once.
    pub bfc_is_full: fn(&bfc::Map, usize),
}

/// A request for a block, as the caps see it.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub account: Account,
    /// Booked bytes: the usable bytes if the block exists already.
    pub bytes: usize,
    /// Requested bytes.
    pub asked: usize,
    /// Gives back the block that was made, which is refused: before the refusal is reported, so that
    /// the block is not taken for live.
    pub undo: &'a dyn Fn(),
}

/// The decisions of the layer above.
pub struct CapDecisions {
    /// Whether a request for so many bytes may be tried, under a ceiling.
    pub fits: fn(&Slot, Account, usize) -> bool,
    /// Books a block that was made, under a ceiling. Returns false if a cap refuses the block: then
    /// nothing was booked, and the block was given back.
    pub book: fn(&Slot, &Request, &Gils) -> bool,
    /// Acts if live bytes have fallen or risen enough to matter.
    pub look: fn(),
    /// Records a request that the region of so many bytes has no room for, with its account and size,
    /// and whether the region had room before.
    pub region_is_full: fn(u64, Account, usize, bool),
    /// Raises the total's ceiling for so many bytes more, if it can; whether it is worth another try.
    pub make_room: fn(usize) -> bool,
}

/// Units of work that have a budget.
pub struct UnitDecisions {
    /// The unit that the calling thread runs; 0 for none.
    pub current: fn() -> UnitNumber,
    /// Whether a request for so many bytes is refused, which the exhausted unit has no room for, and which may be refused. Inside the gate.
    pub refuses: fn(&UnitFigures, Account, usize, bool) -> bool,
}

/// The looks at the process near its peak. They get the ledger's bound.
pub struct PeakWatcher {
    /// A big block is about to be freed while live bytes are near their highest. Outside the gate.
    pub before_big_free: fn(i64),
    /// Live bytes have reached a threshold. Inside the gate.
    pub threshold_is_reached: fn(i64),
    /// Memory is about to be given back to the system. Any thread at any moment, outside the gate.
    pub before_release: fn(),
}

/// Finds the line of Python that the calling thread runs.
pub struct LineFinder {
    /// Writes the file of the line; returns its length, the line, and how many frames were read for it.
    pub find: fn(&mut [u8]) -> (usize, i32, i32),
    /// A number of the innermost call and its instruction; 0 outside of Python code.
    pub spot: fn() -> u64,
}

/// Gives the calls of the calling thread's Python code, outermost first. By one thread at a time.
pub type Walk = fn(&mut dyn FnMut(Step<'_>));

static HOST: OnceLock<Host> = OnceLock::new();

/// Registers the functions. Once, while the process has one thread.
pub fn register(host: Host) {
    let _ = HOST.set(host);
}

/// The functions; `None` before [`register`], and in a process that is not hosted.
pub(super) fn host() -> Option<&'static Host> {
    HOST.get()
}

/// Ends a process in which Python cannot start for want of memory, with a line: Python would give up too, in one of many places and
/// words.
pub fn end_start(line: fmt::Arguments<'_>, status: libc::c_int) -> ! {
    notice(line);
    if let Some(host) = host() {
        (host.start_fails)();
    }
    // Nothing was run, and the host's own `_exit` would write a report.
    end_now(status)
}
