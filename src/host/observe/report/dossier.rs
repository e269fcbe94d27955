//! The dossier of a refusal: as text for standard error, and as a section of the report. Does not allocate.

use super::{Sink, lines};
use crate::descriptor::{Descriptor, Speaker, notice};
use crate::heap::big_blocks::{BigBlock, BigBlocks};
use crate::heap::{bfc, big_blocks, largest_classes, region};
use crate::ledger::{Account, HEADER, LEDGER, Snapshot};
use crate::{bytes::Bytes, heap::largest_classes::Class, limit::caps::Refusal};
use crate::{observe::at_exhausted, observe::timeline::brief, process};
use pyhost_os::clock::{self, Utc};
use pyhost_os::{cell::Latest, format::text_into};
use pyhost_record::figures;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The first refusal of a shortage with what surrounded it.
#[derive(Clone, Copy)]
pub struct Dossier {
    pub refusal: Refusal,
    pub snapshot: Snapshot,
    /// The live blocks of a mebibyte and more.
    pub big_blocks: BigBlocks,
    /// The size classes with the most live bytes, largest first.
    pub classes: [Option<Class>; CLASSES],
}

/// How many size classes a dossier names.
const CLASSES: usize = 6;

/// Writes a dossier for people; the region of `bfc` with it, if there is one.
pub fn dossier(dossier: &Dossier, region: Option<&bfc::Map>, out: &mut impl Write) -> fmt::Result {
    let refusal = &dossier.refusal;
    let (pid, now) = (process::id(), Utc(clock::now()));
    writeln!(out, "{Speaker}{refusal}")?;
    writeln!(out, "  process {pid}, {now}")?;
    if refusal.trace().is_empty() {
        writeln!(out, "  by a thread that runs no Python code")?;
    } else {
        writeln!(out, "  asked at, innermost first:")?;
        for line in refusal.trace().lines() {
            writeln!(out, "  {line}")?;
        }
    }
    write!(out, "  live (peak):")?;
    for (account, figures) in dossier.snapshot.accounts() {
        if figures.total_blocks > 0 {
            let [live, peak] = [figures.live_bytes, figures.peak_bytes].map(Bytes);
            write!(out, " {} {live} ({peak});", account.name())?;
        }
    }
    let all = &dossier.snapshot;
    let [live, peak] = [all.total_live_bytes, all.total_peak_bytes].map(Bytes);
    writeln!(out, " total {live} ({peak})")?;
    let mut separator = "  largest size classes:";
    for class in dossier.classes.iter().flatten() {
        let (bytes, of) = (Bytes(class.bytes()), class.account.name());
        let (count, size) = (class.blocks, class.block_bytes);
        write!(
            out,
            "{separator} {bytes} in {count} blocks of {size} B ({of})"
        )?;
        separator = ",";
    }
    writeln!(out)?;
    let BigBlocks { blocks, bytes, .. } = dossier.big_blocks;
    if blocks > 0 {
        let (all, noun) = (Bytes(bytes), if blocks == 1 { "block" } else { "blocks" });
        writeln!(out, "  {blocks} big {noun}, {all}; the largest:")?;
    }
    for block in dossier.big_blocks.largest.iter().flatten() {
        block_line(block, block.age(), out)?;
    }
    region.map_or(Ok(()), |map| map.write(&[], out))
}

pub fn block_line(block: &BigBlock, age: f64, out: &mut impl Write) -> fmt::Result {
    let (size, of) = (Bytes(block.bytes), block.account.name());
    write!(out, "    {size} of {of}, {age:.1} s old")?;
    match block.source.line {
        0 => writeln!(out),
        _ => writeln!(out, ", made at {}", block.source),
    }
}

/// Says a refusal to `sink`, without the braces around it.
pub fn describe_refusal(refusal: &Refusal, sink: &mut impl Sink) {
    sink.int("number", refusal.number as i64);
    sink.text("scope", refusal.scope_name());
    sink.text("account", refusal.account.name());
    sink.int("size_bytes", refusal.bytes as i64);
    sink.int("cap_bytes", refusal.cap as i64);
    sink.int("live_bytes", refusal.live as i64);
    sink.int("maps_bytes", refusal.maps as i64);
    sink.text("how", refusal.how.name());
    sink.object("limit", refusal.limit.as_ref(), |limit, sink| {
        sink.int("bytes", limit.bytes as i64);
        sink.int("base_bytes", limit.base as i64);
        sink.text("file", limit.source.file());
        sink.int("line", i64::from(limit.source.line));
    });
    sink.object("budget", refusal.budget.as_ref(), |unit, sink| {
        sink.text("name", unit.name.as_str());
        sink.int("bytes", unit.budget as i64);
        sink.int("error_bytes", unit.error() as i64);
    });
    sink.begin_list("traceback");
    for line in refusal.trace().lines() {
        sink.text("", line.trim_start());
    }
    sink.end();
}

/// Says the register of a moment to `sink`, as an object.
pub fn describe_big_blocks(found: &BigBlocks, sink: &mut impl Sink) {
    sink.begin("big_blocks");
    figures!(sink, found: blocks bytes);
    sink.list("largest", found.largest.iter().flatten(), |block, sink| {
        describe_members(block, (found.at - block.made).max(0.0), sink);
    });
    sink.end();
}

pub fn describe_block(block: &BigBlock, sink: &mut impl Sink) {
    sink.begin("");
    describe_members(block, block.age(), sink);
    sink.end();
}

fn describe_members(block: &BigBlock, age: f64, sink: &mut impl Sink) {
    sink.text("account", block.account.name());
    sink.int("size_bytes", block.bytes as i64);
    sink.fraction("age_seconds", age);
    let source = Some(&block.source).filter(|source| source.line > 0);
    sink.known_text("file", source.map(|source| source.file()));
    sink.known("line", source.map(|source| source.line));
}

/// Says a dossier to `sink`, without the braces around it.
pub fn describe_dossier(dossier: &Dossier, sink: &mut impl Sink) {
    describe_refusal(&dossier.refusal, sink);
    sink.begin("accounts");
    for (account, figures) in dossier.snapshot.accounts() {
        sink.begin(account.name());
        figures!(sink, figures: live_bytes peak_bytes);
        sink.end();
    }
    sink.end();
    let classes = dossier.classes.iter().flatten();
    sink.list("size_classes", classes, |class, sink| {
        sink.text("account", class.account.name());
        figures!(sink, class: block_bytes blocks);
    });
    sink.int("big_blocks", dossier.big_blocks.blocks as i64);
    sink.int("big_bytes", dossier.big_blocks.bytes as i64);
    let largest = dossier.big_blocks.largest.iter().flatten();
    sink.list("largest", largest, |block, sink| {
        describe_members(block, block.age(), sink);
    });
}

/// How many dossiers are written to standard error.
const MOST_WRITTEN: u32 = 10;

pyhost_os::state! {
    static STATE: Dossiers {
        latest: Latest<Dossier> = Latest::new(),
        written: AtomicU32 = AtomicU32::new(0),
    }
}

/// The dossier of the latest shortage. Any thread, also from a signal handler.
pub(super) fn latest() -> Option<Dossier> {
    STATE.latest.get()
}

/// Keeps and shows what surrounds the first refusal of a shortage. Called by the caps, inside the allocator.
#[cold]
pub fn first_refusal(refusal: &Refusal) {
    let dossier = Dossier {
        refusal: *refusal,
        snapshot: LEDGER.snapshot(),
        big_blocks: big_blocks::big_blocks(),
        classes: largest_classes::largest(),
    };
    STATE.latest.set(&dossier);
    let mut room = [0; 512];
    HEADER.set_refusal(text_into(&mut room, format_args!("{refusal}")));
    brief::write_refusal();
    write(&dossier);
    // A limit is a block's of the script, and no shortage of the process.
    if refusal.limit.is_none() {
        at_exhausted::start(|sink| {
            sink.text("schema", "pyhost-refusal/1");
            sink.int("pid", process::id().into());
            let time = format_args!("{}", Utc(clock::now()));
            sink.text("time", text_into(&mut room, time));
            describe_dossier(&dossier, sink);
            lines::describe_live(sink);
        });
    }
}

fn write(dossier: &Dossier) {
    let number = STATE.written.fetch_add(1, Relaxed);
    if number < MOST_WRITTEN {
        let mut out = Descriptor::new(libc::STDERR_FILENO);
        let region = match dossier.refusal.account {
            Account::Numpy => region::bins(),
            _ => None,
        };
        let _ = self::dossier(dossier, region.as_ref(), &mut out);
        out.flush();
        lines::show();
    } else if number == MOST_WRITTEN {
        notice(format_args!(
            "further dossiers are left to pyhost.last_refusal() and the report"
        ));
    }
}
