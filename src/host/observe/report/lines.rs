//! The sampled lines in a report. The samples are copied under their lock, which a signal handler may find taken for long: the
//! report then goes without them. Nothing is allocated from the heaps: text and tables are mappings of their own.

use super::{Json, Sink};
use crate::bytes::Bytes;
use crate::check::leaks;
use crate::cpython::objects::Gil;
use crate::descriptor::format_into;
use crate::heap::sampling::{self, FrameView, NativeView, Samples, Site, SpanView, Sum, View};
use crate::ledger::{ACCOUNTS, Account, Scope};
use pyhost_os::clock;
use pyhost_os::mmap_vec::MmapVec;
use pyhost_os::terminal_text::Plain;
use pyhost_record::origin::package;
use pyhost_record::rows::{Lines, Row};
use pyhost_record::threads::thread_name;
use std::cmp::Reverse;
use std::fmt::{self, Write};
use std::str::Utf8Error;

/// Lines of the table.
const LINES: usize = 10;
/// Types of a row, those with the most bytes.
const TYPES: usize = 8;

/// Why a report has no lines, though there are samples.
const MISSING: &str = "they were in use when the process was ended, or there was no memory";

/// Text in a mapping of its own. The samples are copied under their lock, under which nobody may wait: not for memory of the
/// heaps, not for a reader of the report, not for the GIL. The copy is rendered when others go on.
struct Rendered {
    text: MmapVec<u8>,
    /// There was no memory for all of it.
    is_cut: bool,
}

impl Rendered {
    const fn new() -> Self {
        Rendered {
            text: MmapVec::new(),
            is_cut: false,
        }
    }

    /// `render`s the samples with what `prepare` has found; None if that is nothing, without samples, in a signal handler that
    /// has interrupted their use, or without memory.
    fn of<T>(
        in_handler: bool,
        prepare: impl FnOnce(&mut Samples) -> Option<T>,
        render: impl Fn(&Samples, &T, &mut Self) -> fmt::Result,
    ) -> Option<Self> {
        let mut text = Rendered::new();
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

    fn text(&self) -> &str {
        str::from_utf8(&self.text).unwrap_or_default()
    }
}

impl Write for Rendered {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.is_cut |= !self.text.extend(text.as_bytes());
        if self.is_cut { Err(fmt::Error) } else { Ok(()) }
    }
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
        json.int("interval_bytes", samples.interval() as i64);
        let lines = Lines::new(samples).ok_or(fmt::Error)?;
        for (view, rows) in SpanView::ALL.iter().zip(views) {
            json.begin_list(view.name());
            describe_rows(samples, &lines, rows, None, &mut json)?;
            json.end();
        }
        json.finish();
        Ok(())
    };
    let text = Rendered::of(false, prepare, render);
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

fn as_json(in_handler: bool) -> Option<Rendered> {
    Rendered::of(in_handler, |_| Some(()), write_json)
}

fn write_json(samples: &Samples, (): &(), text: &mut Rendered) -> fmt::Result {
    let mut json = Json::new(text);
    describe_samples(samples, &mut json)?;
    json.finish();
    Ok(())
}

/// Says the views, or null without samples, and to a sink that does not make JSON.
pub fn describe(sink: &mut impl Sink, in_handler: bool) {
    match as_json(in_handler) {
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
    let text = Rendered::of(false, prepare, write_json);
    text.map(|text| take(text.text()))
}

fn describe_samples(samples: &Samples, sink: &mut impl Sink) -> fmt::Result {
    let (taken, dropped) = samples.counts();
    sink.int("interval_bytes", samples.interval() as i64);
    sink.int("samples", taken as i64);
    sink.int("dropped", dropped as i64);
    describe_libraries(samples, sink);
    sink.begin("sums");
    for view in samples.views() {
        sink.begin(view.name());
        describe_sums(samples, view, sink);
        sink.end();
    }
    sink.end();
    let lines = Lines::new(samples).ok_or(fmt::Error)?;
    for view in View::ALL {
        sink.begin_list(view.name());
        if samples.views().all(|one| one != view) {
            sink.end();
            continue;
        }
        describe_rows(samples, &lines, &sorted(samples, view), Some(view), sink)?;
        sink.end();
    }
    Ok(())
}

/// Says the rows that a report has.
///
/// # Errors
/// There is no memory for one of them.
fn describe_rows(
    samples: &Samples,
    lines: &Lines,
    rows: &[(Site, Sum)],
    view: Option<View>,
    sink: &mut impl Sink,
) -> fmt::Result {
    let mut text = Rendered::new();
    lines.each_row(rows, |row, room| {
        text.text.clear();
        let mut json = Json::new(&mut text);
        describe_row(samples, lines, row, view, &mut json);
        json.finish();
        if text.is_cut {
            return Err(fmt::Error);
        }
        let text = text.text();
        if text.len() <= room {
            sink.json("", text.trim_end()); // the end of its line is a comma in the list
        }
        Ok(text.len())
    })
}

/// The sums of a view by account, over all its stacks.
fn describe_sums(samples: &Samples, view: View, sink: &mut impl Sink) {
    let mut sums = [(Sum::NONE, 0); ACCOUNTS];
    for site in samples.sites() {
        let of_site = samples.sum(site, view);
        if of_site.bytes() != 0 {
            let (sum, stacks) = &mut sums[usize::from(site.account)];
            *sum += of_site;
            *stacks += 1;
        }
    }
    for (account, (sum, stacks)) in Account::ALL.iter().zip(sums) {
        if stacks > 0 {
            sink.begin(account.name());
            describe_sum(samples, sum, sink);
            sink.int("stacks", stacks);
            sink.end();
        }
    }
}

fn describe_sum(samples: &Samples, sum: Sum, sink: &mut impl Sink) {
    sink.int("bytes", sum.bytes());
    sink.int("blocks", sum.blocks());
    sink.int("error_bytes", sum.error_bytes(samples.interval()));
}

/// The fields of a row of a view, or of a tracked block.
fn describe_row(
    samples: &Samples,
    lines: &Lines,
    row: &Row,
    view: Option<View>,
    sink: &mut impl Sink,
) {
    sink.text("account", account_of(row.site).name());
    describe_sum(samples, row.sum, sink);
    if let Some(View::Live | View::Grown) = view {
        match row.age_seconds {
            Some(age) => sink.fraction("age_seconds", age),
            None => sink.null("age_seconds"),
        }
    }
    if view == Some(View::Live) {
        describe_types(samples, row, sink);
    }
    let mut room = [0; 1024];
    let thread = format_into(
        &mut room,
        format_args!("{}", thread_name(samples, row.site)),
    );
    sink.text(
        "thread",
        str::from_utf8(thread).unwrap_or_else(|cut| valid(thread, cut)),
    );
    sink.begin_list("stack");
    for call in lines.calls(row) {
        sink.begin("");
        sink.text("file", call.file);
        sink.int("line", i64::from(call.line));
        match call.native {
            Some(native) => {
                sink.text("function", FunctionName::of(&call, native).text());
                sink.int("offset", native.offset as i64);
            }
            None => sink.text("function", call.function),
        }
        sink.end();
    }
    sink.end();
}

/// The types of the live objects, if they were looked at: of one stack.
fn describe_types(samples: &Samples, row: &Row, sink: &mut impl Sink) {
    sink.begin_list("types");
    let types = samples.types(row.site).take(TYPES);
    for (name, sum) in types.filter(|_| !row.is_summed) {
        sink.begin("");
        sink.text("type", name);
        describe_sum(samples, sum, sink);
        sink.end();
    }
    sink.end();
}

/// The start of a text that was cut within a letter.
fn valid(text: &[u8], cut: Utf8Error) -> &str {
    str::from_utf8(&text[..cut.valid_up_to()]).unwrap_or_default()
}

/// The libraries of all native calls, each with its build id: a path may have named several.
fn describe_libraries(samples: &Samples, sink: &mut impl Sink) {
    let mut known: MmapVec<(&str, &str)> = MmapVec::new();
    sink.begin_list("libraries");
    for call in samples.all_frames() {
        let Some(native) = call.native else { continue };
        let library = (call.file, native.build_id);
        if known.contains(&library) || !known.push(library) {
            continue;
        }
        sink.begin("");
        sink.text("file", call.file);
        match native.build_id {
            "" => sink.null("build_id"),
            build_id => sink.text("build_id", build_id),
        }
        sink.end();
    }
    sink.end();
}

/// The name of a native call's function, or its offset.
struct FunctionName<'a> {
    name: &'a str,
    room: [u8; 24],
    length: usize,
}

impl<'a> FunctionName<'a> {
    fn of(call: &FrameView<'a>, native: NativeView<'_>) -> Self {
        let mut room = [0; 24];
        let length = format_into(&mut room, format_args!("+{:#x}", native.offset)).len();
        FunctionName {
            name: call.function,
            room,
            length,
        }
    }

    fn text(&self) -> &str {
        match self.name {
            "" => str::from_utf8(&self.room[..self.length]).unwrap_or("?"),
            name => name,
        }
    }
}

fn account_of(site: Site) -> Account {
    Account::ALL[usize::from(site.account)]
}

/// The sites that a view has bytes of, most first; of `grown` also those that shrank, by how much they did. None if the
/// system has no memory for the list.
fn sorted(samples: &Samples, view: View) -> Rows {
    let mut found = MmapVec::new();
    for site in samples.sites() {
        let sum = samples.sum(site, view);
        if sum.bytes() != 0 && !found.push((site, sum)) {
            break;
        }
    }
    found.sort_unstable_by_key(|(_, sum)| Reverse(sum.bytes().unsigned_abs()));
    found
}

/// A line of the user's code, with the bytes that were allocated there or in what it calls.
#[derive(Clone, Copy)]
struct LineSum {
    sum: Sum,
    /// Bytes of each account.
    accounts: [i64; ACCOUNTS],
    /// The site with the most bytes.
    largest: Option<(Site, i64)>,
}

impl LineSum {
    const NONE: LineSum = LineSum {
        sum: Sum::NONE,
        accounts: [0; ACCOUNTS],
        largest: None,
    };

    fn add(&mut self, site: Site, sum: Sum) {
        self.sum += sum;
        self.accounts[usize::from(site.account)] += sum.bytes();
        if self.largest.is_none_or(|(_, bytes)| bytes < sum.bytes()) {
            self.largest = Some((site, sum.bytes()));
        }
    }

    /// Writes the accounts that have a tenth of the bytes or more, the one with the most first; how many letters.
    fn write_accounts(&self, out: &mut impl Write) -> Result<usize, fmt::Error> {
        let mut all = Account::ALL.map(|account| (self.accounts[account as usize], account));
        all.sort_unstable_by_key(|(bytes, _)| Reverse(*bytes));
        let mut letters = 0;
        for (bytes, account) in all {
            if letters > 0 && (bytes <= 0 || bytes < self.sum.bytes() / 10) {
                break;
            }
            let separator = if letters > 0 { "+" } else { "" };
            write!(out, "{separator}{}", account.name())?;
            letters += separator.len() + account.name().len();
        }
        Ok(letters)
    }
}

/// A number of bytes as text, which can be padded.
struct Padded([u8; 16], usize);

impl Padded {
    fn new(bytes: i64) -> Self {
        let mut room = [0; 16];
        let length = format_into(&mut room, format_args!("{}", Bytes(bytes.max(0) as u64))).len();
        Padded(room, length)
    }

    fn text(&self) -> &str {
        str::from_utf8(&self.0[..self.1]).unwrap_or("?")
    }
}

/// Writes the lines with the most bytes at the peak.
pub fn lines(out: &mut impl Write, in_handler: bool) -> fmt::Result {
    let render = |samples: &Samples, (): &(), out: &mut Rendered| {
        write!(out, "lines at the peak (")?;
        write_counts(samples, out)?;
        writeln!(out, "):")?;
        write_lines(samples, View::AtPeak, LINES, out)
    };
    match Rendered::of(in_handler, |_| Some(()), render) {
        None if sampling::have_begun() => writeln!(out, "no lines at the peak: {MISSING}"),
        text => write_rendered(text, out),
    }
}

/// Writes the lines with the most live bytes, for a dossier; inside the allocator.
pub fn lines_of_dossier(out: &mut impl Write) -> fmt::Result {
    const LINES: usize = 5;
    let render = |samples: &Samples, (): &(), out: &mut Rendered| {
        writeln!(out, "  lines with the most live bytes:")?;
        write_lines(samples, View::Live, LINES, out)
    };
    write_rendered(Rendered::of(true, |_| Some(()), render), out)
}

fn write_rendered(text: Option<Rendered>, out: &mut impl Write) -> fmt::Result {
    text.map_or(Ok(()), |text| out.write_str(text.text()))
}

/// How the samples were taken, in words.
fn write_counts(samples: &Samples, out: &mut impl Write) -> fmt::Result {
    let (taken, dropped) = samples.counts();
    match samples.interval() {
        1 => write!(out, "every allocation")?,
        interval => write!(out, "one sample in {}, {taken} samples", Bytes(interval))?,
    }
    match dropped {
        0 => Ok(()),
        dropped => write!(out, ", {dropped} lost"),
    }
}

fn write_lines(samples: &Samples, view: View, count: usize, out: &mut impl Write) -> fmt::Result {
    let lines = Lines::new(samples);
    let sums = lines
        .as_ref()
        .and_then(|lines| by_line(samples, lines, view));
    let (Some(lines), Some(mut sums)) = (&lines, sums) else {
        return writeln!(out, "  no memory to sort them");
    };
    sums.sort_unstable_by_key(|line| Reverse(line.sum.bytes()));
    for line in sums.iter().take(count) {
        let Some((site, _)) = line.largest.filter(|_| line.sum.bytes() > 0) else {
            break;
        };
        let bytes = Padded::new(line.sum.bytes());
        write!(out, "  {:>10}", bytes.text())?;
        if samples.interval() > 1 {
            let error = Padded::new(line.sum.error_bytes(samples.interval()));
            write!(out, " \u{b1} {:<10}", error.text())?;
        }
        out.write_str("  ")?;
        let letters = line.write_accounts(out)?;
        write!(out, "{:1$}  ", "", 6_usize.saturating_sub(letters))?;
        write_line(samples, lines.line_of(site), site, out)?;
    }
    Ok(())
}

/// Writes the line that a site is given to, and whose code it was that allocated.
fn write_line(
    samples: &Samples,
    line: Option<FrameView<'_>>,
    site: Site,
    out: &mut impl Write,
) -> fmt::Result {
    let Some(call) = line else {
        return writeln!(out, "outside of Python code");
    };
    match call.native {
        Some(native) => {
            let name = FunctionName::of(&call, native);
            write!(out, "{} in {}", Plain(call.file), Plain(name.text()))?;
        }
        None => {
            let (file, function) = (Plain(call.file), Plain(call.function));
            write!(out, "{file}:{} in {function}", call.line)?;
        }
    }
    let innermost = samples.calls(site).next();
    if let Some(innermost) = innermost
        && innermost.number != call.number
        && let Some(package) = package(innermost.file)
    {
        write!(out, ", by {}", Plain(package))?;
    }
    writeln!(out)
}

/// The sum of each line, see [`Lines::line_of`]. None if the system has no memory for the table.
fn by_line(samples: &Samples, lines: &Lines, view: View) -> Option<MmapVec<LineSum>> {
    let mut sums = MmapVec::filled(samples.frames() + 1, LineSum::NONE)?;
    let in_total = |site: &Site| account_of(*site).is_in_total();
    for site in samples.sites().filter(in_total) {
        let place = lines
            .line_of(site)
            .map_or(0, |call| call.number as usize + 1);
        sums[place].add(site, samples.sum(site, view));
    }
    Some(sums)
}
