//! The sampled lines in a report. The samples are copied under their lock, which a signal handler may find taken for long: the
//! report then goes without them. Nothing is allocated from the heaps: text and tables are mappings of their own.

use super::{Json, Sink};
use crate::heap::sampling::{self, Samples, Site, SpanView, Sum, View};
use crate::ledger::{ACCOUNTS, Account, Scope};
use crate::{bytes::Bytes, check::leaks, cpython::objects::Gil, descriptor::Descriptor};
use pyhost_os::{clock, mmap_vec::MmapVec, terminal_text::Plain};
use pyhost_record::sampled::{Rendered, account_of, describe_rows, describe_samples};
use pyhost_record::{origin::package, rows::Lines};
use std::cmp::Reverse;
use std::fmt::{self, Write};

const LINES: usize = 10;

/// Why a report has no lines, though there are samples.
const MISSING: &str = "they were in use when the process was ended, or there was no memory";

/// `render`s the samples with what `prepare` has found; None if that is nothing, without samples, in a signal handler that has
/// interrupted their use, or without memory. The samples are copied under their lock, under which nobody may wait: not for
/// memory of the heaps, not for a reader of the report, not for the GIL. The copy is rendered when others go on.
fn rendered<T>(
    in_handler: bool,
    prepare: impl FnOnce(&mut Samples) -> Option<T>,
    render: impl Fn(&Samples, &T, &mut Rendered) -> fmt::Result,
) -> Option<Rendered> {
    let mut text = Rendered::default();
    let work = |samples: &mut Samples| {
        samples.look_at_clock(clock::monotonic_coarse());
        let found = prepare(samples)?;
        // Without memory for a copy the others wait.
        let rendered = match samples.copied() {
            Some(copy) => Ok((copy, found)),
            None => Err(render(samples, &found, &mut text)),
        };
        samples.forget_types();
        Some(rendered)
    };
    let rendered = match in_handler {
        true => sampling::with_in_handler(work),
        false => sampling::with(work),
    };
    let rendered = match rendered?? {
        Ok((copy, found)) => render(&copy, &found, &mut text),
        Err(rendered) => rendered,
    };
    (rendered.is_ok() && !text.is_cut).then_some(text)
}

/// Rows of a view or of a tracked block, those with the most bytes first.
type Rows = MmapVec<(Site, Sum)>;

/// Gives the object of the views of a tracked block to `take`, in JSON; None without samples of the whole block.
pub fn with_span_json<T>(number: u64, scope: Scope, take: impl FnOnce(&str) -> T) -> Option<T> {
    // The spans are in no copy.
    let prepare = |samples: &mut Samples| span_rows(samples, number);
    let render = |samples: &Samples, views: &[Rows; SPAN_VIEWS], text: &mut Rendered| {
        let mut json = Json::new(text);
        json.text("account", scope.name());
        json.int("interval_bytes", samples.interval as i64);
        let lines = Lines::new(samples).ok_or(fmt::Error)?;
        for (view, rows) in SpanView::ALL.iter().zip(views) {
            json.begin_list(view.name());
            describe_rows(samples, &lines, rows, None, &mut json)?;
            json.end();
        }
        json.finish();
        Ok(())
    };
    let text = rendered(false, prepare, render);
    text.map(|text| take(text.text()))
}

const SPAN_VIEWS: usize = SpanView::ALL.len();

/// The rows of each view of a tracked block; None without samples of the whole block, or without memory.
fn span_rows(samples: &Samples, number: u64) -> Option<[Rows; SPAN_VIEWS]> {
    let mut views = [const { MmapVec::new() }; SPAN_VIEWS];
    for (rows, view) in views.iter_mut().zip(SpanView::ALL) {
        for row in samples.span_sums(number, view)? {
            if !rows.push(row) {
                return None;
            }
        }
        rows.sort_unstable_by_key(|(_, sum)| Reverse(sum.bytes()));
    }
    Some(views)
}

fn write_json(samples: &Samples, (): &(), text: &mut Rendered) -> fmt::Result {
    let mut json = Json::new(text);
    describe_samples(samples, &mut json)?;
    json.finish();
    Ok(())
}

/// Says the views, or null without samples, and to a sink that does not make JSON.
pub fn describe(sink: &mut impl Sink, in_handler: bool) {
    match rendered(in_handler, |_| Some(()), write_json) {
        Some(text) => sink.json("lines", text.text().trim_end()),
        None => {
            sink.null("lines");
            if sampling::have_begun() {
                sink.text("lines_missing", MISSING);
            }
        }
    }
}

/// Gives the object of the views to `take`, in JSON; None without samples.
pub fn with_json<T>(gil: Gil<'_>, take: impl FnOnce(&str) -> T) -> Option<T> {
    let prepare = |samples: &mut Samples| {
        leaks::look_at_types(gil, samples);
        Some(())
    };
    let text = rendered(false, prepare, write_json);
    text.map(|text| take(text.text()))
}

/// A line of the user's code, with the bytes that were allocated there or in what it calls.
#[derive(Clone, Copy, Default)]
struct LineSum {
    sum: Sum,
    accounts: [i64; ACCOUNTS],
    largest: Option<(Site, i64)>,
}

impl LineSum {
    fn add(&mut self, site: Site, sum: Sum) {
        self.sum += sum;
        self.accounts[usize::from(site.account)] += sum.bytes();
        if self.largest.is_none_or(|(_, bytes)| bytes < sum.bytes()) {
            self.largest = Some((site, sum.bytes()));
        }
    }

    /// The accounts that have a tenth of the bytes or more, the one with the most first: names, and what is between them.
    fn accounts(&self) -> impl Iterator<Item = &'static str> {
        let mut all = Account::ALL.map(|account| (self.accounts[account as usize], account));
        all.sort_unstable_by_key(|(bytes, _)| Reverse(*bytes));
        let least = (self.sum.bytes() / 10).max(1);
        let [(_, most), others @ ..] = all;
        let others = others
            .into_iter()
            .take_while(move |(bytes, _)| *bytes >= least);
        let others = others.flat_map(|(_, account)| ["+", account.name()]);
        std::iter::once(most.name()).chain(others)
    }

    fn width(&self) -> usize {
        self.accounts().map(str::len).sum()
    }
}

/// A number of bytes that is not below zero.
fn bytes(number: i64) -> Bytes {
    Bytes(number.max(0) as u64)
}

/// Writes the lines with the most bytes at the peak, and those at the highest resident size if the report shows that moment.
pub fn lines(out: &mut impl Write, in_handler: bool, shows_resident: bool) -> fmt::Result {
    let render = |samples: &Samples, (): &(), out: &mut Rendered| {
        write!(out, "lines at the peak (")?;
        write_counts(samples, out)?;
        writeln!(out, "):")?;
        write_lines(samples, View::AtPeak, LINES, out)?;
        if shows_resident && samples.views().any(|view| view == View::AtResidentPeak) {
            writeln!(
                out,
                "lines at the highest resident size, of maps what was resident:"
            )?;
            write_lines(samples, View::AtResidentPeak, LINES, out)?;
        }
        Ok(())
    };
    match rendered(in_handler, |_| Some(()), render) {
        None if sampling::have_begun() => writeln!(out, "no lines at the peak: {MISSING}"),
        text => write_rendered(text, out),
    }
}

/// Writes the lines with the most live bytes to stderr. Any thread, also inside the allocator.
pub fn show() {
    const LINES: usize = 5;
    let mut out = Descriptor::new(libc::STDERR_FILENO);
    let render = |samples: &Samples, (): &(), out: &mut Rendered| {
        writeln!(out, "  lines with the most live bytes:")?;
        write_lines(samples, View::Live, LINES, out)
    };
    let _ = write_rendered(rendered(true, |_| Some(()), render), &mut out);
    out.flush();
}

/// Says the lines with the most live bytes, or null without samples. Any thread, also inside the allocator.
pub fn describe_live(sink: &mut impl Sink) {
    let render = |samples: &Samples, (): &(), text: &mut Rendered| {
        let mut json = Json::new(text);
        json.begin_list("live");
        each_line(samples, View::Live, LINES, |lines, line, site, _| {
            json.begin("");
            let error = line.sum.error_bytes(samples.interval);
            json.int("bytes", line.sum.bytes());
            json.int("error_bytes", error);
            json.known_text("account", account_of(site).map(Account::name));
            let call = lines.line_of(site);
            json.known_text("file", call.map(|call| call.file));
            json.known("line", call.map(|call| call.line));
            json.known_text("function", call.map(|call| call.function));
            json.end();
            Ok(())
        })?;
        json.end();
        json.finish();
        Ok(())
    };
    match rendered(true, |_| Some(()), render) {
        Some(text) => sink.json("lines", text.text().trim_end()),
        None => sink.null("lines"),
    }
}

fn write_rendered(text: Option<Rendered>, out: &mut impl Write) -> fmt::Result {
    text.map_or(Ok(()), |text| out.write_str(text.text()))
}

/// How the samples were taken, in words.
fn write_counts(samples: &Samples, out: &mut impl Write) -> fmt::Result {
    let (taken, dropped) = samples.counts();
    match samples.interval {
        1 => write!(out, "every allocation")?,
        interval => write!(out, "one sample in {}, {taken} samples", Bytes(interval))?,
    }
    match dropped {
        0 => Ok(()),
        dropped => write!(out, ", {dropped} lost"),
    }
}

/// Calls `each` for the lines with the most bytes, with the largest site of each and the width of their accounts. False if the system has
/// no memory to sort them.
fn each_line(
    samples: &Samples,
    view: View,
    count: usize,
    mut each: impl FnMut(&Lines, &LineSum, Site, usize) -> fmt::Result,
) -> Result<bool, fmt::Error> {
    let lines = Lines::new(samples);
    let sums = lines
        .as_ref()
        .and_then(|lines| by_line(samples, lines, view));
    let (Some(lines), Some(mut sums)) = (&lines, sums) else {
        return Ok(false);
    };
    sums.sort_unstable_by_key(|line| Reverse(line.sum.bytes()));
    let has_bytes = |line: &&LineSum| line.sum.bytes() > 0;
    let sums = sums.iter().take(count).take_while(has_bytes);
    let width = sums.clone().map(LineSum::width).max().unwrap_or(0).max(6);
    for line in sums {
        if let Some((site, _)) = line.largest {
            each(lines, line, site, width)?;
        }
    }
    Ok(true)
}

fn write_lines(samples: &Samples, view: View, count: usize, out: &mut impl Write) -> fmt::Result {
    let is_sorted = each_line(samples, view, count, |lines, line, site, width| {
        write!(out, "  {:>10}", bytes(line.sum.bytes()))?;
        if samples.interval > 1 {
            let error = line.sum.error_bytes(samples.interval);
            write!(out, " \u{b1} {:<10}", bytes(error))?;
        }
        out.write_str("  ")?;
        line.accounts().try_for_each(|part| out.write_str(part))?;
        write!(out, "{:1$}  ", "", width - line.width())?;
        write_line(lines, site, out)
    })?;
    match is_sorted {
        true => Ok(()),
        false => writeln!(out, "  no memory to sort them"),
    }
}

/// Writes the line that a site is given to, whose code it was that allocated, and whether it only waited.
fn write_line(lines: &Lines, site: Site, out: &mut impl Write) -> fmt::Result {
    let Some(call) = lines.line_of(site) else {
        return writeln!(out, "outside of Python code");
    };
    let (file, function) = (Plain(call.file), Plain(call.function));
    match call.native {
        Some(native) if call.function.is_empty() => write!(out, "{file} in +{:#x}", native.offset),
        Some(_) => write!(out, "{file} in {function}"),
        None => write!(out, "{file}:{} in {function}", call.line),
    }?;
    let [innermost, of_host] = lines.innermost(site);
    if let Some(innermost) = innermost
        && innermost.number != call.number
        && let Some(package) = package(innermost.file)
    {
        write!(out, ", by {}", Plain(package))?;
    }
    if let Some(waiting) = of_host {
        write!(out, ", {}", waiting.function)?;
    }
    writeln!(out)
}

/// The sum of each line, see [`Lines::line_of`]. None if the system has no memory for the table.
fn by_line(samples: &Samples, lines: &Lines, view: View) -> Option<MmapVec<LineSum>> {
    let mut sums = MmapVec::filled(samples.frames() + 1, LineSum::default())?;
    let counts = |site: &Site| {
        view == View::AtResidentPeak || account_of(*site).is_some_and(Account::is_in_total)
    };
    for site in samples.sites().filter(counts) {
        let place = lines
            .line_of(site)
            .map_or(0, |call| call.number as usize + 1);
        sums[place].add(site, samples.sum(site, view));
    }
    Some(sums)
}
