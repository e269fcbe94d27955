//! The last refused request.
//!
//! Kept in static memory, written inside the allocator, on any thread; nothing is allocated.

use super::{limits, tree, watch};
use crate::bytes::Bytes;
use crate::heap;
use crate::heap::sampling::UnitFigures;
use crate::ledger::{Account, Scope};
use pyhost_os::cell::Latest;
use std::fmt;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Room for a traceback, in bytes of UTF-8.
pub const TRACE: usize = 2048;

/// Writes the calling thread's Python traceback, cut if the buffer is full, and returns its length. Any thread, also
/// inside the allocator.
pub type Trace = fn(&mut [u8]) -> usize;

/// How the thread that asked learns of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The request got null, of which CPython, NumPy or a library makes an error.
    Null,
    /// The host raised `MemoryError`.
    Raised,
    /// The process ends: the reserve is used up.
    Fatal,
    /// The process ends: the thread was refused time and again and does not stop.
    Vain,
    /// A thread was not made: it would have had no memory for its first steps.
    NoThread,
}

impl How {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            How::Null => "null",
            How::Raised => "raised",
            How::Fatal | How::Vain => "fatal",
            How::NoThread => "no thread",
        }
    }
}

/// One request that a cap refused.
#[derive(Clone, Copy)]
pub struct Refusal {
    /// Its number among the process's refusals, from 1 on.
    pub number: u64,
    pub scope: Scope,
    pub account: Account,
    pub bytes: u64,
    /// The scope's cap in bytes, or what the limit let be live.
    pub cap: u64,
    pub live: u64,
    /// The bytes of libraries' maps that the cap counts beside them.
    pub maps: u64,
    pub how: How,
    /// The block of code whose limit it was; None for a cap.
    pub limit: Option<limits::CodeBlockLimit>,
    /// The budget that was full, with what its unit had; or the unit that had most when the cap was.
    pub budget: Option<UnitFigures>,
    /// What the group's limit leaves this process, if it was a cap of `--cap auto`.
    pub group: Option<watch::Held>,
    /// What other processes have, if it was the cap of a tree.
    pub tree: Option<tree::Others>,
    /// Whether it was the region of `--region` that is full: `cap` is its size then.
    pub is_region: bool,
    trace: [u8; TRACE],
    trace_length: usize,
}

impl Refusal {
    /// The name of what was full, in reports.
    pub fn scope_name(&self) -> &'static str {
        match (self.is_region, &self.budget, self.tree) {
            (true, ..) => "region",
            (_, Some(unit), _) if unit.pays == 0 => "budget",
            (.., Some(_)) => "tree",
            _ => self.scope.name(),
        }
    }

    /// The Python traceback of the thread that asked, innermost line first.
    pub fn trace(&self) -> &str {
        std::str::from_utf8(&self.trace[..self.trace_length]).unwrap_or_default()
    }
}

/// Says what was refused, without a full stop.
impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = match self.how {
            How::NoThread => "a new thread",
            _ => self.account.name(),
        };
        let asked = format_args!("{who} asked for {} bytes", self.bytes);
        if self.is_region {
            let (size, live) = (Bytes(self.cap), Bytes(self.live));
            return write!(out, "region of {size} is full: {asked} with {live} live");
        }
        if let Some(unit) = self.budget.as_ref().filter(|unit| unit.pays == 0) {
            let (size, live, error) = (Bytes(unit.budget), Bytes(unit.live), Bytes(unit.error()));
            let name = unit.name.as_str();
            let space = if name.is_empty() { "" } else { " " };
            write!(out, "budget of {size}{space}{name} reached: ")?;
            if self.bytes > 0 {
                write!(out, "{asked} with ")?;
            }
            return write!(out, "{live} live, give or take {error}");
        }
        let scope = self.scope_name();
        match &self.limit {
            Some(limit) => {
                write!(out, "limit of {} ({scope}) of ", Bytes(limit.bytes))?;
                match limit.source.line {
                    0 => write!(out, "a block")?,
                    _ => write!(out, "the block at {}", limit.source)?,
                }
                let growth = Bytes((self.live + self.maps).saturating_sub(limit.base));
                write!(out, " reached: {asked} after {growth} of growth")
            }
            None if self.account == Account::Mapped && self.group.is_some() => write!(
                out,
                "limit of {} nearly reached: mapped asked for {} bytes with {} charged",
                Bytes(self.cap),
                self.bytes,
                Bytes(self.live)
            ),
            None => {
                let is_mapped = self.account == Account::Mapped && self.scope == Scope::Total;
                let nearly = match self.how {
                    How::Raised if is_mapped => "nearly ",
                    _ => "",
                };
                let (cap, live) = (Bytes(self.cap), Bytes(self.live));
                write!(out, "cap of {cap} ({scope}) {nearly}reached: ")?;
                if self.bytes > 0 {
                    write!(out, "{asked} with ")?;
                }
                write!(out, "{live} live")?;
                match self.maps {
                    0 => Ok(()),
                    maps => write!(out, " and {} of libraries' maps", Bytes(maps)),
                }
            }
        }?;
        if let Some(unit) = &self.budget {
            let (name, live) = (unit.name.as_str(), Bytes(unit.live));
            write!(out, ", most of a unit: {live} of '{name}'")?;
        }
        if let Some(others) = &self.tree {
            write!(out, "; {others}")?;
        }
        let tree = if tree::follows() { "tree=" } else { "" };
        let group = self.group.as_ref();
        group.map_or(Ok(()), |held| write!(out, "; --cap {tree}auto: {held}"))
    }
}

pyhost_os::state! {
    static STATE: Refusals {
        /// A thread that the region had no room for has left its dossier.
        of_threads: AtomicBool = AtomicBool::new(false),
        last: Latest<Refusal> = Latest::new(),
        count: AtomicU64 = AtomicU64::new(0),
    }
}

/// Whether this is the first thread of the process that the region had no room for.
pub(super) fn is_first_thread() -> bool {
    !STATE.of_threads.swap(true, Relaxed)
}

/// The last refusal. Any thread, also from a signal handler.
pub fn last() -> Option<Refusal> {
    STATE.last.get()
}

/// The number of the next refusal.
pub(super) fn next() -> u64 {
    STATE.count.fetch_add(1, AcqRel) + 1
}

/// What has no room for a request.
#[derive(Clone, Copy)]
pub enum Full<'a> {
    /// The cap of a scope; with the unit that has most, if that pays for it.
    Cap(Scope, Option<&'a UnitFigures>),
    /// The region, of so many bytes.
    Region(u64),
    /// A unit's budget.
    Budget(&'a UnitFigures),
    /// The limit that `--cap auto` follows, or a cap that counts maps: libraries have grown close to it. An error that is raised
    /// for a refused map has its number.
    Limit {
        number: u64,
        limit: u64,
        charged: u64,
    },
}

/// Keeps a refusal of this moment as the last one.
pub fn record(full: Full<'_>, account: Account, bytes: usize, how: How, trace: Trace) -> Refusal {
    let (number, scope) = match full {
        Full::Cap(scope, _) => (next(), scope),
        Full::Limit { number, .. } => (number, Scope::Total),
        Full::Region(_) | Full::Budget(_) => (next(), Scope::Total),
    };
    let mut refusal = now(number, scope, account, bytes, how);
    match full {
        Full::Cap(_, payer) => refusal.budget = payer.copied(),
        Full::Limit { limit, charged, .. } => {
            if let group @ Some(_) = watch::held() {
                (refusal.cap, refusal.live) = (limit, charged);
                (refusal.limit, refusal.group) = (None, group);
            }
        }
        Full::Region(size) => {
            (refusal.cap, refusal.is_region) = (size, true);
            (refusal.limit, refusal.group, refusal.tree) = (None, None, None);
        }
        Full::Budget(unit) => {
            (refusal.cap, refusal.live, refusal.maps) = (unit.budget, unit.live, 0);
            (refusal.budget, refusal.is_region) = (Some(*unit), false);
            (refusal.limit, refusal.group, refusal.tree) = (None, None, None);
        }
    }
    refusal.trace_length = trace(&mut refusal.trace).min(TRACE);
    STATE.last.set(&refusal);
    refusal
}

/// A refusal of this moment, without a traceback.
fn now(number: u64, scope: Scope, account: Account, bytes: usize, how: How) -> Refusal {
    let limit = limits::binding(scope);
    let region =
        heap::bounded_heap::size().filter(|_| scope == Scope::Total && limits::is_followed());
    let (cap, maps) = limits::cap_and_maps(scope);
    let tree = tree::others().filter(|_| scope == Scope::Total && limits::is_trees());
    let cap = match (&limit, region) {
        (Some(limit), _) => limit.base.saturating_add(limit.bytes),
        (None, Some(size)) => size,
        (None, None) => tree.and_then(|_| tree::size()).unwrap_or(cap),
    };
    Refusal {
        number,
        scope,
        account,
        bytes: bytes as u64,
        cap,
        live: limits::live(scope),
        maps,
        how,
        is_region: region.is_some() && limit.is_none(),
        limit,
        budget: None,
        tree,
        group: watch::held().filter(|_| scope == Scope::Total && limit.is_none()),
        trace: [0; TRACE],
        trace_length: 0,
    }
}
