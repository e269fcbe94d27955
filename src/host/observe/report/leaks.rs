//! Lost blocks in a report, and as lines on standard error.

use super::Sink;
use crate::check::leaks::{Findings, Group, Rule};
use crate::{bytes::Bytes, check::stacks};
use pyhost_os::terminal_text::Plain;
use pyhost_record::figures;
use std::fmt::{self, Write};

/// Kinds of lost blocks that are reported at most.
const MOST_LINES: usize = 20;

/// Says what the leak check found.
pub fn describe(findings: &Findings, sink: &mut impl Sink) {
    figures!(sink, findings: blocks bytes threads);
    sink.flag("interpreters", findings.interpreters);
    sink.flag("sure", findings.is_sure());
    sink.list("groups", findings.groups.iter(), |group, sink| {
        sink.text("account", group.account.name());
        sink.int("block_bytes", group.size as i64);
        sink.int("blocks", group.blocks as i64);
        let name = Some(group.type_name()).filter(|name| !name.is_empty());
        sink.known_text("type", name);
        let place = group.place();
        sink.known_text("file", place.map(|(file, _)| file));
        sink.known("line", place.map(|(_, line)| line));
        let calls = stacks::places(group.origin.calls);
        sink.list("calls", calls, |place, sink| {
            let text = |bytes| str::from_utf8(bytes).ok();
            sink.text("file", text(place.library()).unwrap_or("?"));
            sink.int("offset", place.offset as i64);
            sink.known_text("function", place.name().and_then(text));
        });
    });
    sink.list("suppressed", findings.suppressed(), |rule, sink| {
        let (file, line) = &rule.place;
        sink.text("rule", &rule.text);
        sink.text("file", file);
        sink.int("line", *line as i64);
        sink.int("blocks", rule.blocks() as i64);
        sink.int("bytes", rule.bytes() as i64);
    });
    sink.list("broken_pages", findings.broken.iter(), |broken, sink| {
        sink.text("account", broken.account.name());
        sink.int("block_bytes", broken.size as i64);
        sink.int("pages", broken.pages as i64);
    });
}

const UNSURE: &str = "of which CPython itself loses blocks: the exit status stays";

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Writes what was found: a line for all and one for each kind, and what was not reported.
pub fn write(findings: &Findings, out: &mut impl Write) -> fmt::Result {
    write_found(findings, out)?;
    write_suppressed(findings, out)
}

/// Writes one line for what the rules of `--leak-check suppressions` have matched, and one for each that matched nothing.
fn write_suppressed(findings: &Findings, out: &mut impl Write) -> fmt::Result {
    let sum = |figure: fn(&Rule) -> u64| findings.suppressed().map(figure).sum();
    let (blocks, bytes) = (sum(Rule::blocks), Bytes(sum(Rule::bytes)));
    if blocks > 0 {
        let plural = plural(blocks);
        write!(
            out,
            "pyhost: {blocks} leaked block{plural} not reported, {bytes}: "
        )?;
        for (index, rule) in findings.suppressed().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            let (file, line) = &rule.place;
            if index == MOST_LINES {
                write!(out, "{separator}and more")?;
                break;
            }
            let (blocks, text) = (rule.blocks(), &rule.text);
            write!(out, "{separator}{blocks} by '{text}' ({file}:{line})")?;
        }
        writeln!(out)?;
    }
    for rule in findings.unused() {
        let (file, line) = &rule.place;
        writeln!(
            out,
            "pyhost: --leak-check suppressions: '{}' ({file}:{line}) matched nothing",
            rule.text
        )?;
    }
    Ok(())
}

fn write_found(findings: &Findings, out: &mut impl Write) -> fmt::Result {
    for broken in findings.broken.iter().take(MOST_LINES) {
        writeln!(
            out,
            "pyhost: a block of {} bytes of the account {} was freed twice, or written to after it was \
             freed: the list of free blocks leads back to itself or away; what is lost there is not known",
            broken.size,
            broken.account.name()
        )?;
    }
    if findings.blocks == 0 {
        return Ok(());
    }
    let (blocks, bytes) = (findings.blocks, Bytes(findings.bytes));
    writeln!(
        out,
        "pyhost: {blocks} block{} leaked, {bytes}: allocated since the script's start, live after \
         finalisation, and nothing points there",
        plural(blocks)
    )?;
    for group in findings.groups.iter().take(MOST_LINES) {
        line(group, out)?;
    }
    match findings.groups.len().saturating_sub(MOST_LINES) {
        0 => {}
        more => writeln!(out, "  and {more} kinds more")?,
    }
    match findings.threads {
        0 => {}
        1 => writeln!(out, "  1 thread of Python still ran, {UNSURE}")?,
        threads => writeln!(out, "  {threads} threads of Python still ran, {UNSURE}")?,
    }
    match findings.interpreters {
        false => Ok(()),
        true => writeln!(out, "  there were further interpreters, {UNSURE}"),
    }
}

fn line(group: &Group, out: &mut impl Write) -> fmt::Result {
    let (account, blocks, size) = (group.account.name(), group.blocks, group.size);
    write!(out, "  {account:<7} {blocks} of {size} bytes")?;
    match group.type_name() {
        "" => {}
        name => write!(out, ", {}", Plain(name))?,
    }
    if let Some((file, line)) = group.place() {
        write!(out, ", allocated at {}:{line}", Plain(file))?;
    }
    writeln!(out)?;
    stacks::write_origins(out, group.origin.calls, 0)
}
