//! Where blocks were allocated, as far as tracemalloc knows.
//!
//! Its own tables are gone when Python has been finalised, so the innermost line of each block that
//! lives at the script's end is copied then. Of CPython's debug hooks nothing can be had: they keep
//! a serial number only if CPython was built with `PYMEM_DEBUG_SERIALNO`.

use super::reach::Readable;
use super::table::{Table, table_of_blocks};
use crate::cpython::layout::objects_in_blocks::looks_like_traceback;
use crate::cpython::objects::{Gil, Owned, Returned, or_none};
use crate::heap::{self, leak_mark, live_objects::Age, region};
use crate::ledger::Account;
use crate::python::{hooks, numpy};
use std::ffi::{c_int, c_uint};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Index into the names.
    file: (usize, usize),
    pub line: i32,
}

impl Site {
    pub fn file(&self) -> &'static str {
        let (start, length) = self.file;
        let sites = STATE.sites.get();
        let bytes = sites.map(|sites| &sites.names[start..start + length]);
        str::from_utf8(bytes.unwrap_or_default()).unwrap_or("?")
    }
}

struct Sites {
    /// Of blocks, by address.
    sites: Table<(usize, Site)>,
    names: Table<u8>,
}

pyhost_os::state! {
    /// The lines that lost blocks come from.
    static STATE: LeakSites {
        sites: OnceLock<Sites> = OnceLock::new(),
        /// Whether the script loaded or used tracemalloc.
        loaded: AtomicBool = AtomicBool::new(false),
    }
}

/// Keeps the site of each live block of `accounts`. No exception is set; once.
pub fn keep(gil: Gil<'_>, accounts: &[Account]) {
    leak_mark::enter_before();
    let is_tracing = is_tracing(gil);
    leak_mark::leave_before();
    if is_tracing && STATE.sites.get().is_none() {
        let kept = collect(gil, accounts);
        let _ = kept.map(|sites| STATE.sites.set(sites));
    }
}

fn is_tracing(gil: Gil<'_>) -> bool {
    let is_loaded = gil.loaded(c"_tracemalloc").is_some();
    // Built in; -X tracemalloc starts it without importing it.
    let Some(module) = or_none(gil.import(c"_tracemalloc")) else {
        return false;
    };
    let answer = module
        .attribute(c"is_tracing")
        .and_then(|function| function.call(&[])?.truth());
    let is_tracing = or_none(answer).unwrap_or(false);
    STATE.loaded.store(is_tracing || is_loaded, Relaxed);
    is_tracing
}

/// tracemalloc's domain of NumPy's array data (`NPY_TRACE_DOMAIN`), to which NumPy reports itself.
const NUMPY_DOMAIN: c_uint = 389_047;

/// Frames of the block at `address`; None if tracemalloc knows of none.
fn frames_of(gil: Gil<'_>, account: Account, address: usize) -> Option<Owned<'_>> {
    let look = |domain, pointer| {
        or_none(gil.traceback_of(domain, pointer)).filter(|frames| frames.is_tuple())
    };
    let mut leads = numpy::leads().into_iter();
    match account {
        Account::Numpy => leads.find_map(|lead| look(NUMPY_DOMAIN, address + lead)),
        _ => look(0, address + super::front(address)),
    }
}

fn collect(gil: Gil<'_>, accounts: &[Account]) -> Option<Sites> {
    let mut blocks = table_of_blocks()?;
    heap::alone(|closed| {
        for &account in accounts {
            let mut add = |start: *mut u8, _: usize| {
                blocks.push((start.addr(), account));
            };
            leak_mark::visit_since(closed, account, &mut add, &mut |_, _| {});
        }
    });
    hooks::each_object(Age::Younger, |start, _| {
        _ = blocks.push((start, Account::Obj))
    });
    // The arrays of `bfc` are in no heap.
    for &(start, _) in region::live_chunks()?.iter() {
        blocks.push((start, Account::Numpy));
    }
    blocks.sort_unstable_by_key(|&(start, _)| start);
    let mut sites = Sites {
        sites: table_of_blocks()?,
        names: table_of_blocks()?,
    };
    let mut latest: Option<(Owned<'_>, (usize, usize))> = None;
    for &(start, account) in blocks.iter() {
        let Some(frames) = frames_of(gil, account, start) else {
            continue;
        };
        let mut add = || -> Returned<'_, ()> {
            let frame = frames.tuple_item(0)?;
            let (name, line) = (frame.tuple_item(0)?, frame.tuple_item(1)?.number()?);
            // tracemalloc keeps one object a name up to 3.14. 3.15 may make a new one each time, so the
            // last is held: else another name could have its address.
            let file = match &latest {
                Some((held, file)) if held.pointer() == name.pointer() => *file,
                _ => {
                    let file = name.with_text(|text| sites.add_name(text));
                    latest.insert((name.to_owned(), file.unwrap_or((0, 0)))).1
                }
            };
            let line = line as c_int;
            sites
                .sites
                .push((start + super::front(start), Site { file, line }));
            Ok(())
        };
        or_none(add());
    }
    Some(sites)
}

impl Sites {
    fn add_name(&mut self, text: &[u8]) -> (usize, usize) {
        // The names are few, and mostly asked for one after the other.
        let known = self.sites.iter().rev().take(512).map(|(_, site)| site.file);
        for (start, length) in known {
            if &self.names[start..start + length] == text {
                return (start, length);
            }
        }
        let start = self.names.len();
        self.names.extend(text.iter().copied());
        (start, text.len())
    }
}

/// Whether a live block may belong to tracemalloc, which loses some of its own on 3.9 to 3.12. While it runs it
/// knows every block of RAW except its own. If it was stopped, the block's content decides.
pub fn may_be_tracemallocs(
    memory: &Readable<'_>,
    account: Account,
    address: usize,
    size: usize,
) -> bool {
    let is_possible = account == Account::Raw && STATE.loaded.load(Relaxed);
    is_possible
        && match STATE.sites.get() {
            Some(_) => site_of(address).is_none(),
            None => looks_like_traceback(memory, address, size),
        }
}

/// Where the block at `address` was allocated.
pub fn site_of(address: usize) -> Option<Site> {
    let sites = &STATE.sites.get()?.sites;
    let index = sites.binary_search_by_key(&address, |&(address, _)| address);
    index.ok().map(|index| sites[index].1)
}
