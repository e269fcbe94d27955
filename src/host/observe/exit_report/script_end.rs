//! The figures that the script left: those of the moment after its `atexit` functions and before Python is finalised.
//! Every report of a finalised process shows them, since finalisation gives back what the script still had.
//!
//! Taken once a process, with the GIL; read by the writer of a report, also in a signal handler.

use crate::cpython::objects::{Gil, or_none};
use crate::heap::big_blocks::{self, BigBlocks};
use crate::heap::{bounded_heap, guards, histogram::Histogram, sampling};
use crate::ledger::{LEDGER, Snapshot};
use crate::observe::balance::{self, Balance};
use crate::{check::leaks, observe::resident_peak, python::numpy, resident::resident};
use pyhost_os::cell::{Exclusive, Held, Published};
use pyhost_os::forks::Child;

#[derive(Clone, Copy)]
pub struct Left {
    /// Nanoseconds since the host started, if somebody looks for the peak.
    pub time: u64,
    pub ledger: Snapshot,
    pub numpy: Option<numpy::ArrayFigures>,
    pub region: Option<bounded_heap::RegionFigures>,
    pub guards: Option<guards::GuardFigures>,
    pub resident: Option<u64>,
    pub big_blocks: BigBlocks,
    /// Whether code has run in `__main__`, or was code of the command line or of standard input.
    pub has_run: bool,
    /// The balance and the size classes, if they were taken.
    pub parts: Option<&'static ReportParts>,
}

pyhost_os::state! {
    /// The process as the script left it.
    static STATE: ScriptEnd {
        left: Published<Left> = Published::new(),
        /// The parts that a report shows of that moment.
        parts: Room = Room::new(),
    }
}

/// Takes the figures of this moment, and with them the balance and the size classes if a report
/// `shows` them. Once; later calls do nothing.
pub fn take(gil: Gil<'_>, shows: bool) {
    leaks::leave_out(&STATE);
    STATE.left.set_once(|| of_this_moment(gil, shows));
}

fn of_this_moment(gil: Gil<'_>, shows: bool) -> Left {
    if shows {
        sampling::with(|samples| leaks::look_at_types(gil, samples));
    }
    let has_run = has_run(gil);
    sampling::finish();
    let mut left = Left {
        time: resident_peak::time(),
        ledger: LEDGER.snapshot(),
        numpy: numpy::figures(),
        region: bounded_heap::figures(),
        guards: guards::figures(),
        resident: resident().now,
        big_blocks: big_blocks::big_blocks(),
        has_run,
        parts: None,
    };
    if shows && let Some(parts) = STATE.parts.take() {
        let parts: &'static ReportParts = parts.keep();
        left.parts = Some(parts);
        // The sheet and the headline are of one moment, and show one size: the kernel's files differ by some pages.
        let balance = parts.balance.as_ref();
        left.resident = balance.map(|balance| balance.resident).or(left.resident);
    }
    left
}

/// Whether a script or a module was found: CPython gives `__main__` the loader of its code, and keeps an error of an import before that.
fn has_run(gil: Gil<'_>) -> bool {
    // By its dictionary: a look for an attribute may leave the name's block in the interpreter's cache.
    let main = gil.loaded(c"__main__");
    let own = main.and_then(|main| or_none(main.module_dictionary()));
    let loader = own.and_then(|own| own.item(c"__loader__"));
    let loaders = loader.zip(gil.of_sys(c"__loader__"));
    gil.of_sys(c"last_type").is_some() || !loaders.is_some_and(|(own, first)| own.is(&first))
}

/// The figures; None before they are taken.
pub fn figures() -> Option<&'static Left> {
    STATE.left.get()
}

/// In a forked child: its script has not ended.
pub fn begin_child(child: &Child) {
    STATE.left.forget_in_child(child);
    STATE.parts.begin_child(child);
}

pub struct ReportParts {
    /// `None` if the kernel does not provide it.
    pub balance: Option<Balance>,
    pub classes: Histogram,
}

/// Room for the parts of one moment, one user at a time.
pub struct Room(Exclusive<ReportParts>);

impl Room {
    pub const fn new() -> Self {
        Room(Exclusive::new(ReportParts {
            balance: None,
            classes: Histogram::EMPTY,
        }))
    }

    /// Takes the parts of this moment. Returns `None` while somebody else has the room.
    pub fn take(&self) -> Option<Held<'_, ReportParts>> {
        let mut parts = self.0.try_hold()?;
        // First what must match the ledger that was read right before.
        parts.classes.take();
        parts.balance = balance::take();
        Some(parts)
    }

    /// Lets the room be taken again.
    pub fn begin_child(&self, child: &Child) {
        drop(self.0.take_in_child(child));
    }
}
