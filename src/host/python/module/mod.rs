//! The built-in module `pyhost`: the report's figures for the script.
//!
//! Multi-phase initialisation (PEP 489), so that sub-interpreters, also with a GIL of their own, can import it.

mod arguments;
mod budget;
mod buffer;
mod caps;
mod dictionary;
mod faults;
mod heap_check;
mod library;
mod limit;
mod lines;
mod profile;
mod repeats;
mod sizes;
mod track;
mod track_spans;
mod watches;

pub use profile::{FunctionName, profile_lines};
pub use watches::{answer_allocated_blocks, watch_script_end};

use crate::cpython::functions::{
    self, Arguments, Definition, Execute, Method, Module, Signature, Table, This,
};
use crate::cpython::objects::{Gil, Kind, Object, Returned};
use crate::heap::bfc::{BinStatistics, ChunkView};
use crate::heap::{self, region};
use crate::ledger::{HEADER, LEDGER};
use crate::observe::report::{self, Sink};
use crate::{heap::sampling::Samples, observe::exit_report};
use dictionary::Dictionary;
use pyhost_os::{clock, mmap_vec::MmapVec};
use pyhost_record::figures;
use std::{ffi::CStr, fmt};

pub const NAME: &CStr = c"pyhost";

const DOC: &CStr = c"Memory figures of this process, kept by the host that runs it.

Accounts: raw, mem and obj are CPython's allocator domains (PEP 445), arena is its arena
allocator, numpy is array data, native is the process's malloc family, mapped is what libraries
map themselves, beside the total. Sizes are bytes that the blocks really take.";

const MEMORY_STATS_DOC: &CStr = c"memory_stats()
--

Return the figures of this moment as a dictionary, as in a JSON report.

d['accounts'][name] holds live_bytes, peak_bytes, live_blocks, total_blocks, refused and failed;
d['total'] holds live_bytes and peak_bytes. Bytes are integers. d['lines'] is None: see lines(). May be called from any
thread.";

const MARK_DOC: &CStr = c"mark(name, /)
--

Name this moment: the timeline of --timeline and pyhostctl report show it, and lines()['grown'] begins here.

The first 48 bytes of the name are kept, in UTF-8, and the latest 64 marks until the sampler has
seen them. Costs well below a microsecond; may be called from any thread. Raises TypeError where
name is no str.";

const RESET_DOC: &CStr = c"reset_peak_memory_stats()
--

Start every account's peak anew from what is live now.";

const MAP_DOC: &CStr = c"numpy_memory_map(text=False)
--

Return the region of --numpy bfc at this moment, as a dictionary or as text.

d['region'] holds its sums, d['bins'] the sums of each of the 21 bins, d['chunks'] every chunk by
ascending address: address, bytes, requested_bytes, allocation (its number, None where free) and
bin. Bytes are integers. May be called from any thread. Raises RuntimeError where there is no
region.";

const SUMMARY_DOC: &CStr = c"memory_summary()
--

Return the figures of this moment as a table for people.";

fn memory_stats(module: This<'_, Module>) -> Returned<'_> {
    let gil = module.gil();
    // The figures are taken before anything is allocated for the dictionary.
    exit_report::with_report(|report| {
        Dictionary::build(gil, |dictionary| report.describe(dictionary))
    })
    .unwrap_or_else(|| gil.dictionary())
}

fn memory_summary(module: This<'_, Module>) -> Returned<'_> {
    let gil = module.gil();
    with_written(gil, |out| {
        exit_report::with_report(|report| report::table(report, out)).unwrap_or(Ok(()))
    })
}

/// What `write` writes, of any length.
fn with_written<'a>(
    gil: Gil<'a>,
    write: impl FnOnce(&mut MmapVec<u8>) -> fmt::Result,
) -> Returned<'a> {
    let mut text = MmapVec::new();
    write(&mut text).map_err(|_| gil.no_memory())?;
    gil.text(&String::from_utf8_lossy(&text))
}

fn reset_peak_memory_stats(module: This<'_, Module>) -> Returned<'_> {
    track_spans::reset_peaks();
    Ok(module.gil().none())
}

fn mark<'a>(module: This<'a, Module>, name: &Object<'a>) -> Returned<'a> {
    let marked = name.with_text(|text| {
        HEADER.mark(&String::from_utf8_lossy(text), clock::monotonic());
        heap::sampling::with(Samples::mark);
    });
    let text = "expected the name of a mark, a str";
    marked.ok_or_else(|| module.gil().raise(Kind::Type, text))?;
    Ok(module.gil().none())
}

/// For tests of the ledger: its live bytes and blocks of an account, and those that are counted in the account's heap. No other
/// thread may be allocating.
fn walk<'a>(module: This<'a, Module>, name: &Object<'a>) -> Returned<'a> {
    let gil = module.gil();
    let account = arguments::account("_walk", "", name)?;
    // Nothing allocates in the walked heap between the two counts.
    let ledger = LEDGER.snapshot();
    let text = "expected an account with a heap of its own: 'raw', 'mem', 'obj', 'numpy'";
    let found = heap::walk(account).ok_or_else(|| gil.raise(Kind::Value, text))?;
    let booked = ledger.account(account);
    let booked = [booked.live_bytes, booked.live_blocks];
    library::numbers(gil, [booked[0], booked[1], found.bytes, found.blocks])
}

fn numpy_memory_map<'a>(_: This<'a, Module>, arguments: Arguments<'a>) -> Returned<'a> {
    const SIGNATURE: Signature<1> = Signature::new(c"|O:numpy_memory_map", [c"text"]);
    let gil = arguments.gil();
    let [as_text] = arguments.parse(&SIGNATURE)?;
    let as_text = as_text.map_or(Ok(false), Object::truth)?;
    let text = "numpy_memory_map: there is no region; expected --numpy bfc";
    let (map, chunks) = region::map().ok_or_else(|| gil.raise(Kind::Runtime, text))?;
    let chunks = chunks.ok_or_else(|| gil.no_memory())?;
    if as_text {
        return with_written(gil, |out| map.write(&chunks, out));
    }
    Dictionary::build(gil, |dictionary| {
        report::describe_region(Some(&map.statistics), dictionary);
        dictionary.list("bins", &map.bins, describe_bin);
        dictionary.list("chunks", chunks.iter(), describe_chunk);
    })
}

fn describe_bin(bin: &BinStatistics, sink: &mut impl Sink) {
    figures!(sink, bin: from_bytes);
    sink.known("to_bytes", bin.to_bytes);
    figures!(sink, bin: total_chunks total_bytes live_chunks live_bytes requested_bytes);
    figures!(sink, bin: free_chunks free_bytes);
}

fn describe_chunk(chunk: &ChunkView, sink: &mut impl Sink) {
    sink.int("address", chunk.address as i64);
    sink.int("bytes", chunk.size as i64);
    sink.int("requested_bytes", chunk.requested as i64);
    sink.known("allocation", chunk.allocation);
    sink.int("bin", chunk.bin as i64);
}

/// The functions of this file.
static FUNCTIONS: Table<Method<Module>, 6> = Table::new([
    Method::plain(c"memory_stats", memory_stats, MEMORY_STATS_DOC),
    Method::plain(
        c"reset_peak_memory_stats",
        reset_peak_memory_stats,
        RESET_DOC,
    ),
    Method::plain(c"memory_summary", memory_summary, SUMMARY_DOC),
    Method::named(c"numpy_memory_map", numpy_memory_map, MAP_DOC),
    Method::one(c"mark", mark, MARK_DOC),
    Method::one(c"_walk", walk, c""),
]);

fn fill<'a>(module: &'a Object<'a>) -> Returned<'a, ()> {
    let active = module.gil().bool(true)?;
    module.module_dictionary()?.set(c"active", &active)?;
    module.add_functions(&FUNCTIONS)?;
    module.add_functions(&budget::METHODS)?;
    module.add_functions(&caps::METHODS)?;
    module.add_functions(&heap_check::METHODS)?;
    module.add_functions(&library::METHODS)?;
    module.add_functions(&lines::METHODS)?;
    module.add_functions(&profile::METHODS)?;
    module.add_functions(&repeats::METHODS)?;
    module.add_functions(&sizes::METHODS)?;
    budget::add(module)?;
    buffer::add(module)?;
    limit::add(module)?;
    faults::add(module)?;
    library::add(module)?;
    track::add(module)
}

static FILL: Execute = Execute::new(fill);
static MODULE: Definition = Definition::new(NAME, DOC, &FILL);

/// Makes `import pyhost` work. Before initialisation.
pub fn register() {
    functions::register(NAME, || &MODULE);
    library::register();
}
