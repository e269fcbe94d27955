//! The spans that are being tracked: which are open, and the peaks of each so far.
//!
//! When any span begins or ends, the segment ends and its peaks are folded into every open
//! span, so that spans may overlap in any way: nested, in several threads, in several interpreters.
//! Under a lock, since interpreters may have GILs of their own; held for a few microseconds, in the
//! gate, so that no fork finds it held, and therefore without allocating.
//!
//! In a thread that holds the GIL of its interpreter. Not for signal handlers.

use crate::heap::{self, gate};
use crate::ledger::{LEDGER, Peaks, Snapshot};
use crate::observe::resident_peak;
use pyhost_os::mmap_vec::MmapVec;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Clone, Copy)]
struct Span {
    number: u64,
    peaks: SpanPeaks,
}

/// The ledger's peaks, and the highest resident size that was seen.
#[derive(Clone, Copy, Default)]
pub struct SpanPeaks {
    pub ledger: Peaks,
    pub resident: u64,
}

impl SpanPeaks {
    fn raise(&mut self, other: &SpanPeaks) {
        self.ledger.raise(&other.ledger);
        self.resident = self.resident.max(other.resident);
    }
}

struct Spans {
    /// In memory that is of no account.
    open: MmapVec<Span>,
    /// The number of the last one.
    latest: u64,
}

static SPANS: Mutex<Spans> = Mutex::new(Spans {
    open: MmapVec::new(),
    latest: 0,
});

/// Runs `work` on the spans. It must not allocate.
fn with_spans<T>(work: impl FnOnce(&mut Spans) -> T) -> T {
    let _inside = gate::enter(heap::slot(), heap::thread_number());
    let mut spans: MutexGuard<Spans> = SPANS.lock().unwrap_or_else(PoisonError::into_inner);
    work(&mut spans)
}

impl Spans {
    fn end_segment(&mut self) {
        self.fold(LEDGER.end_segment(heap::slot(), &heap::GILS));
    }

    fn fold(&mut self, ledger: Peaks) {
        let resident = resident_peak::segment(true);
        let ended = &SpanPeaks { ledger, resident };
        for span in self.open.iter_mut() {
            span.peaks.raise(ended);
        }
    }

    fn place(&self, number: u64) -> Option<usize> {
        self.open.iter().position(|span| span.number == number)
    }
}

pub fn number() -> u64 {
    with_spans(|spans| {
        spans.latest += 1;
        spans.latest
    })
}

/// Begins a span: the figures of its first moment. None if there is no memory.
pub fn begin(number: u64) -> Option<Snapshot> {
    let peaks = SpanPeaks::default();
    with_spans(|spans| {
        spans.end_segment();
        let is_open = spans.open.push(Span { number, peaks });
        is_open.then(|| LEDGER.snapshot())
    })
}

/// Ends a span: the figures of its last moment, and its peaks. Once a span.
pub fn end(number: u64) -> (Snapshot, SpanPeaks) {
    with_spans(|spans| {
        let snapshot = LEDGER.snapshot();
        spans.end_segment();
        let span = spans.place(number).map(|at| spans.open.swap_remove(at));
        (snapshot, span.map(|span| span.peaks).unwrap_or_default())
    })
}

/// The figures of this moment, and the peaks of an open span so far.
pub fn look(number: u64) -> (Snapshot, SpanPeaks) {
    with_spans(|spans| {
        let mut peaks = SpanPeaks {
            ledger: LEDGER.segment_peaks(),
            resident: resident_peak::segment(false),
        };
        if let Some(at) = spans.place(number) {
            peaks.raise(&spans.open[at].peaks);
        }
        (LEDGER.snapshot(), peaks)
    })
}

/// Starts the peaks of the process's life anew. Those of open spans stay.
pub fn reset_peaks() {
    with_spans(|spans| spans.fold(LEDGER.reset_peaks(heap::slot(), &heap::GILS)));
    crate::observe::peak::restart();
    heap::sampling::restart_peaks();
}
