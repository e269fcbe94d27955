//! Which lines grew and shrank between two reports with sampled lines: the bytes live in each.

use crate::lines::{By, Row, Subject, Table};
use crate::stacks::{Amount, Frame, Site, Stacks, View, error_bytes};
use crate::summary::{bytes, signed};
use indexmap::IndexMap;
use serde_json::{Value, json};
use std::{cmp::Reverse, collections::HashSet, fmt::Write};

/// Lines that grew, lines that shrank, and lines that changed within the error, which the text has at most.
const SHOWN: usize = 10;

/// A line whose bytes changed.
pub struct Change<'a> {
    pub subject: Subject<'a>,
    pub a: i64,
    pub b: i64,
    pub error: i64,
    /// The sum of the squares of its stacks' errors.
    square: f64,
}

impl Change<'_> {
    /// B less A. Neither is below zero.
    pub fn bytes(&self) -> i64 {
        self.b - self.a
    }

    fn is_within_error(&self) -> bool {
        self.bytes().abs() <= self.error
    }
}

pub struct LineChanges<'a> {
    view: View,
    interval: i64,
    /// By more than the error: those that grew first, by the most bytes; those that shrank last.
    changes: Vec<Change<'a>>,
    /// Within the error, the largest first; without those that did not change.
    within: Vec<Change<'a>>,
    /// No line has bytes, in A or in B.
    is_empty: bool,
    /// Bytes of stacks that A and B do not list.
    pub left_out: [i64; 2],
}

impl<'a> LineChanges<'a> {
    pub fn new(a: &'a Stacks, b: &'a Stacks, view: View) -> Self {
        let interval = interval_of(a, b);
        let (a, b) = (Side::new(a, view), Side::new(b, view));
        let mut rows: IndexMap<Subject, [Option<&Row>; 2]> = IndexMap::new();
        for (side, table) in [&a.table, &b.table].into_iter().enumerate() {
            for row in &table.rows {
                rows.entry(row.subject).or_default()[side] = Some(row);
            }
        }
        let all = rows.into_iter();
        let all = all.map(|(subject, rows)| change(subject, rows, [&a, &b], interval));
        let (mut within, mut changes): (Vec<Change>, Vec<Change>) =
            all.partition(Change::is_within_error);
        changes.sort_by_key(|change| (Reverse(change.bytes()), change.subject.to_string()));
        let is_empty = within.is_empty() && changes.is_empty();
        within.retain(|change| change.bytes() != 0);
        within.sort_by_key(|change| (Reverse(change.bytes().abs()), change.subject.to_string()));
        LineChanges {
            view,
            interval,
            changes,
            within,
            is_empty,
            left_out: [a.table.left_out, b.table.left_out],
        }
    }

    /// The lines that grew most, the most bytes first, then those that shrank most; and how many more changed.
    pub fn largest(&self) -> (Vec<&Change<'a>>, usize) {
        let grew = self.changes.iter().filter(|change| change.bytes() > 0);
        let shrank = self.changes.iter().rev();
        let shrank = shrank.filter(|change| change.bytes() < 0);
        let largest: Vec<&Change> = grew.take(SHOWN).chain(shrank.take(SHOWN)).collect();
        let more = self.changes.len() - largest.len();
        (largest, more)
    }

    /// The change of several lines together, and its error.
    fn sum(&self, changes: &[Change]) -> [i64; 2] {
        let bytes: i64 = changes.iter().map(Change::bytes).sum();
        let square = changes.iter().map(|change| change.square).sum();
        let error = error_bytes(square, self.interval);
        let may_lack = self.left_out[usize::from(bytes < 0)];
        match changes.is_empty() {
            true => [0, 0],
            false => [bytes, error.saturating_add(may_lack)],
        }
    }

    /// Lines that changed by no more than the error.
    pub fn within_error(&self) -> usize {
        self.within.len()
    }

    /// As a table. What is within the error is dim if `has_colours`, else its rows begin with `~`.
    pub fn to_text(&self, has_colours: bool) -> String {
        let name = self.view.name();
        let mut text =
            format!("lines             A          B      change     \u{b1} error  {name}\n");
        let (largest, more) = self.largest();
        let others = self.within.iter().take(SHOWN);
        for change in largest.into_iter().chain(others) {
            let [dim, mark, end] = match (change.is_within_error(), has_colours) {
                (false, _) => ["", " ", ""],
                (true, true) => ["\x1b[2m", " ", "\x1b[0m"],
                (true, false) => ["", "~", ""],
            };
            let [a, b, error] = [change.a, change.b, change.error].map(bytes);
            let (difference, subject) = (signed(change.bytes()), change.subject);
            let figures = format!("{a:>18}{b:>11}{difference:>12}{error:>12}");
            let _ = writeln!(text, "{dim}{mark}{figures}  {subject}{end}");
        }
        let ([change, error], [within, _]) = (self.sum(&self.changes), self.sum(&self.within));
        let (others, count) = (self.within.len(), self.changes.len());
        let (change, error, within) = (signed(change), bytes(error), signed(within));
        let rest = match more {
            0 => String::new(),
            more => format!(", {more} of them not shown"),
        };
        if count > 0 {
            let _ = writeln!(
                text,
                "        {count} lines changed by more than the error{rest}: {change} \u{b1} {error}"
            );
        }
        let _ = match self.is_empty {
            true => writeln!(text, "        {}", self.view.nothing()),
            false => writeln!(
                text,
                "        {others} lines changed by no more than the error: {within}"
            ),
        };
        if self.left_out != [0, 0] {
            let [a, b] = self.left_out.map(bytes);
            let gone = "stacks that the reports leave out";
            let _ = writeln!(text, "        {gone}: {a} in A, {b} in B");
        }
        text
    }

    pub fn to_json(&self) -> Value {
        let row = |change: &Change| {
            let mut row = change.subject.to_json();
            row["a"] = change.a.into();
            row["b"] = change.b.into();
            row["change"] = change.bytes().into();
            row["error_bytes"] = change.error.into();
            row["within_error"] = change.is_within_error().into();
            row
        };
        let [a, b] = self.left_out;
        let [change, error] = self.sum(&self.changes);
        let all = self.changes.iter().chain(&self.within);
        json!({
            "view": self.view.name(),
            "left_out_bytes": {"a": a, "b": b},
            "within_error": self.within.len(),
            "change": change,
            "error_bytes": error,
            "changes": all.map(row).collect::<Vec<_>>(),
        })
    }
}

/// One of the reports.
struct Side<'a> {
    table: Table<'a>,
    listing: Listing<'a>,
}

impl<'a> Side<'a> {
    fn new(stacks: &'a Stacks, view: View) -> Self {
        Side {
            table: Table::new(stacks, view, By::Line, None),
            listing: Listing::new(stacks, view),
        }
    }

    /// The bytes that a line may have here beside those of its row, by its row in the other report.
    fn may_lack(&self, row: Option<&Row>, other: &Side) -> i64 {
        let sites = row.map_or(&[][..], |row| &row.sites);
        let stacks = other.table.stacks;
        let unlisted = sites.iter().filter(|site| !self.listing.has(stacks, site));
        self.listing.may_lack(unlisted.count(), self.table.left_out)
    }
}

fn change<'a>(
    subject: Subject<'a>,
    rows: [Option<&Row>; 2],
    [a, b]: [&Side; 2],
    interval: i64,
) -> Change<'a> {
    let sums = rows.map(|row| row.map_or(Amount::default(), |row| row.sum));
    let may_lack = [a.may_lack(rows[1], b), b.may_lack(rows[0], a)];
    Change {
        subject,
        a: sums[0].bytes,
        b: sums[1].bytes,
        error: error_of_change(sums, may_lack, interval),
        square: sums[0].square + sums[1].square,
    }
}

/// An account, a thread and its calls, as both reports may have them.
type Key<'a> = (&'a str, Option<&'a str>, Vec<&'a Frame>);

/// The stacks that a report lists of a view.
pub struct Listing<'a> {
    stacks: HashSet<Key<'a>>,
    /// The fewest bytes of a stack that it lists.
    pub least: i64,
}

impl<'a> Listing<'a> {
    pub fn new(stacks: &'a Stacks, view: View) -> Self {
        let sites = stacks.of_view(view).into_iter();
        let listed: Vec<&Site> = sites.filter(|site| site.is_listed).collect();
        let bytes = listed.iter().map(|site| site.amount(view).bytes);
        Listing {
            least: bytes.min().unwrap_or(0),
            stacks: listed.iter().map(|site| key(stacks, site)).collect(),
        }
    }

    /// Whether the report lists the stack of a site of `stacks`, which may be another report's.
    pub fn has(&self, stacks: &Stacks, site: &Site) -> bool {
        self.stacks.contains(&key(stacks, site))
    }

    /// The bytes that a sum of this report may lack, of `unlisted` stacks that only the other report lists. Each has fewer
    /// than the least that this one lists, and all together at most `left_out`, the bytes of stacks that it leaves out.
    fn may_lack(&self, unlisted: usize, left_out: i64) -> i64 {
        self.least.saturating_mul(unlisted as i64).min(left_out)
    }
}

fn key<'a>(stacks: &'a Stacks, site: &'a Site) -> Key<'a> {
    let calls = stacks.calls_of(site).collect();
    (&site.account, site.thread.as_deref(), calls)
}

/// The error of the difference of A and B, of which each may lack so many bytes.
fn error_of_change([a, b]: [Amount; 2], may_lack: [i64; 2], interval: i64) -> i64 {
    let lacks = may_lack[usize::from(a.bytes >= b.bytes)];
    error_bytes(a.square + b.square, interval).saturating_add(lacks)
}

/// The interval of a comparison: the larger one.
pub fn interval_of(a: &Stacks, b: &Stacks) -> i64 {
    a.interval.max(b.interval)
}
