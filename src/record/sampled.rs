//! The section `lines` of a report: the samples of lines, as a host reports its own and `pyhostctl` those of a host's file.
//! Nothing is allocated from the heaps. The samples may be a damaged file's: sites of accounts that are not there are left out.

use crate::rows::{Lines, Row};
use crate::{describe::Sink, json::Json, threads::thread_name};
use pyhost_ledger::{ACCOUNTS, Account};
use pyhost_os::mmap_vec::MmapVec;
use pyhost_sampler::{Samples, Site, Sum, View};
use std::cmp::Reverse;
use std::fmt::{self, Write};

/// Types of a row, those with the most bytes.
const TYPES: usize = 8;

/// Text in a mapping of its own.
#[derive(Default)]
pub struct Rendered {
    text: MmapVec<u8>,
    /// There was no memory for all of it.
    pub is_cut: bool,
}

impl Rendered {
    pub fn text(&self) -> &str {
        str::from_utf8(&self.text).unwrap_or_default()
    }
}

impl Write for Rendered {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.is_cut |= !self.text.extend(text.as_bytes());
        if self.is_cut { Err(fmt::Error) } else { Ok(()) }
    }
}

pub fn describe_samples(samples: &Samples, sink: &mut impl Sink) -> fmt::Result {
    let (taken, dropped) = samples.counts();
    sink.count("interval_bytes", samples.interval);
    sink.count("samples", taken);
    sink.count("dropped", dropped);
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
        if samples.views().any(|one| one == view) {
            describe_rows(samples, &lines, &sorted(samples, view), Some(view), sink)?;
        }
        sink.end();
    }
    Ok(())
}

pub fn describe_rows(
    samples: &Samples,
    lines: &Lines,
    rows: &[(Site, Sum)],
    view: Option<View>,
    sink: &mut impl Sink,
) -> fmt::Result {
    let mut text = Rendered::default();
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
    let mut sums = [(Sum::default(), 0); ACCOUNTS];
    for site in samples.sites() {
        let of_site = samples.sum(site, view);
        if of_site.bytes() != 0
            && let Some((sum, stacks)) = sums.get_mut(usize::from(site.account))
        {
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
    sink.int("error_bytes", sum.error_bytes(samples.interval));
}

/// The fields of a row of a view, or of a tracked block.
fn describe_row(
    samples: &Samples,
    lines: &Lines,
    row: &Row,
    view: Option<View>,
    sink: &mut Json<'_, impl Write>,
) {
    sink.text("account", account_of(row.site).map_or("", Account::name));
    describe_sum(samples, row.sum, sink);
    if let Some(View::Live | View::Grown) = view {
        match row.age_seconds {
            Some(age) => sink.fraction("age_seconds", age),
            None => sink.null("age_seconds"),
        }
    }
    if view == Some(View::Live) {
        // If they were looked at: of one stack.
        let types = samples.types(row.site).take(TYPES);
        let types = types.filter(|_| !row.is_summed);
        sink.list("types", types, |(name, sum), sink| {
            sink.text("type", name);
            describe_sum(samples, sum, sink);
        });
    }
    sink.shown("thread", thread_name(samples, row.site));
    sink.list("stack", lines.calls(row), |call, sink| {
        sink.text("file", call.file);
        sink.int("line", i64::from(call.line));
        match call.native {
            Some(native) => {
                match call.function {
                    "" => sink.shown("function", format_args!("+{:#x}", native.offset)),
                    name => sink.text("function", name),
                }
                sink.int("offset", native.offset as i64);
            }
            None => sink.text("function", call.function),
        }
    });
}

/// The libraries of all native calls, each with its build id: a path may have named several.
fn describe_libraries(samples: &Samples, sink: &mut impl Sink) {
    let mut known: MmapVec<(&str, &str)> = MmapVec::new();
    let native = samples
        .all_frames()
        .filter_map(|call| Some((call.file, call.native?.build_id)));
    let new = native.filter(|library| !known.contains(library) && known.push(*library));
    sink.list("libraries", new, |(file, build_id), sink| {
        sink.text("file", file);
        sink.known_text("build_id", Some(build_id).filter(|id| !id.is_empty()));
    });
}

pub fn account_of(site: Site) -> Option<Account> {
    Account::ALL.get(usize::from(site.account)).copied()
}

/// The sites that a view has bytes of, most first; of `grown` also those that shrank, by how much they did. Those for which the
/// system has no memory are missing.
fn sorted(samples: &Samples, view: View) -> MmapVec<(Site, Sum)> {
    let mut found = MmapVec::new();
    for site in samples.sites() {
        let sum = samples.sum(site, view);
        let is_row = sum.bytes() != 0 && account_of(site).is_some();
        if is_row && !found.push((site, sum)) {
            break;
        }
    }
    found.sort_unstable_by_key(|(_, sum)| Reverse(sum.bytes().unsigned_abs()));
    found
}
