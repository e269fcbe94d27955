//! Which lines grew and shrank between two reports with sampled lines: the bytes live in each.

use super::signed;
use crate::lines::{By, Row, Subject, Table};
use crate::stacks::{Amount, Frame, Site, Stacks, View, error_bytes};
use pyhost_os::bytes::Bytes;
use pyhost_record::describe::Sink;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// Lines that grew, and lines that shrank, which the text has at most.
const SHOWN: usize = 10;
const VIEW: View = View::Live;

/// A line whose bytes changed by more than the error.
struct Change<'a> {
    subject: Subject<'a>,
    a: i64,
    b: i64,
    error: i64,
}

impl Change<'_> {
    /// B less A. Neither is below zero.
    fn bytes(&self) -> i64 {
        self.b - self.a
    }
}

/// The lines that changed.
pub struct LineChanges<'a> {
    /// Those that grew first, by the most bytes; those that shrank last.
    changes: Vec<Change<'a>>,
    /// Lines that changed by no more than the error.
    others: usize,
    /// Bytes of stacks that A and B do not list.
    left_out: [i64; 2],
}

impl<'a> LineChanges<'a> {
    /// Compares the lines of A and B.
    pub fn new(a: &'a Stacks, b: &'a Stacks) -> Self {
        let (a, b) = (Side::new(a), Side::new(b));
        let mut subjects: Vec<Subject> = a.table.rows.iter().map(|row| row.subject).collect();
        let new = b
            .rows
            .keys()
            .filter(|subject| !a.rows.contains_key(*subject));
        subjects.extend(new);
        let all = subjects.into_iter().map(|subject| change(subject, &a, &b));
        let (mut changes, others): (Vec<Change>, Vec<Change>) =
            all.partition(|change| change.bytes().abs() > change.error);
        changes.sort_by_key(|change| (Reverse(change.bytes()), change.subject.to_string()));
        LineChanges {
            changes,
            others: others.len(),
            left_out: [a.table.left_out, b.table.left_out],
        }
    }

    /// The section of the text.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "{:<8}{:>11}{:>11}{:>12}{:>12}\n",
            "lines", "live A", "live B", "change", "\u{b1} error"
        );
        let grew = self.changes.iter().filter(|change| change.bytes() > 0);
        let shrank = self
            .changes
            .iter()
            .rev()
            .filter(|change| change.bytes() < 0);
        let shown = grew.take(SHOWN).chain(shrank.take(SHOWN));
        let mut more = self.changes.len();
        for change in shown {
            let [a, b, error] = [change.a, change.b, change.error].map(shown_bytes);
            let difference = signed(change.a as u64, change.b as u64);
            let subject = change.subject;
            let _ = writeln!(text, "{a:>19}{b:>11}{difference:>12}{error:>12}  {subject}");
            more -= 1;
        }
        if more > 0 {
            let _ = writeln!(
                text,
                "{:>8}{more} more lines changed by more than the error",
                ""
            );
        }
        let others = self.others;
        let _ = writeln!(
            text,
            "{:>8}{others} lines changed by no more than the error",
            ""
        );
        if self.left_out != [0, 0] {
            let [a, b] = self.left_out.map(shown_bytes);
            let _ = writeln!(
                text,
                "{:>8}stacks that the reports leave out: {a} in A, {b} in B",
                ""
            );
        }
        text
    }

    /// The member `lines` of the JSON form.
    pub fn describe(&self, sink: &mut impl Sink) {
        sink.begin("lines");
        sink.text("view", VIEW.name());
        sink.begin("left_out_bytes");
        sink.int("a", self.left_out[0]);
        sink.int("b", self.left_out[1]);
        sink.end();
        sink.int("within_error", self.others as i64);
        sink.begin_list("changes");
        for change in &self.changes {
            sink.begin("");
            sink.text("name", &change.subject.to_string());
            if let Subject::Line {
                file,
                line,
                function,
            } = change.subject
            {
                sink.text("file", file);
                sink.int("line", line.into());
                sink.text("function", function);
            }
            sink.int("a", change.a);
            sink.int("b", change.b);
            sink.int("change", change.bytes());
            sink.int("error_bytes", change.error);
            sink.end();
        }
        sink.end();
        sink.end();
    }
}

fn shown_bytes(bytes: i64) -> String {
    Bytes(bytes.max(0) as u64).to_string()
}

/// An account and its calls, as both reports may have them.
type Key<'a> = (&'a str, Vec<&'a Frame>);

/// One of the reports.
struct Side<'a> {
    table: Table<'a>,
    rows: HashMap<Subject<'a>, usize>,
    /// The stacks that it lists.
    listed: HashSet<Key<'a>>,
    /// The fewest bytes of a stack that it lists.
    least: i64,
}

impl<'a> Side<'a> {
    fn new(stacks: &'a Stacks) -> Self {
        let table = Table::new(stacks, VIEW, By::Line, None);
        let places = table.rows.iter().enumerate();
        let rows = places.map(|(place, row)| (row.subject, place)).collect();
        let sites = stacks.of_view(VIEW).into_iter();
        let listed: Vec<&Site> = sites.filter(|site| site.is_listed).collect();
        let bytes = listed.iter().map(|site| site.amount(VIEW).bytes);
        Side {
            rows,
            least: bytes.min().unwrap_or(0),
            listed: listed.iter().map(|site| key(stacks, site)).collect(),
            table,
        }
    }

    fn row(&self, subject: &Subject) -> Option<&Row<'a>> {
        self.rows.get(subject).map(|place| &self.table.rows[*place])
    }

    fn sum(&self, subject: &Subject) -> Amount {
        self.row(subject).map_or(Amount::default(), |row| row.sum)
    }

    /// The bytes that a line may have here beside those of its row: of stacks that `other` lists, and this report may
    /// have left out. Each has fewer than the least that it lists.
    fn may_have_left_out(&self, subject: &Subject, other: &Side) -> i64 {
        if self.table.left_out == 0 {
            return 0;
        }
        let sites = other.row(subject).map_or(&[][..], |row| &row.sites);
        let stacks = other.table.stacks;
        let unlisted = sites
            .iter()
            .filter(|site| !self.listed.contains(&key(stacks, site)));
        let most = self.least.saturating_mul(unlisted.count() as i64);
        most.min(self.table.left_out)
    }
}

fn key<'a>(stacks: &'a Stacks, site: &'a Site) -> Key<'a> {
    (&site.account, stacks.calls_of(site).collect())
}

fn change<'a>(subject: Subject<'a>, a: &Side<'a>, b: &Side<'a>) -> Change<'a> {
    let (sum_a, sum_b) = (a.sum(&subject), b.sum(&subject));
    let interval = a.table.stacks.interval.max(b.table.stacks.interval);
    let error = error_bytes(sum_a.square + sum_b.square, interval);
    let left_out = match sum_a.bytes < sum_b.bytes {
        true => a.may_have_left_out(&subject, b),
        false => b.may_have_left_out(&subject, a),
    };
    Change {
        subject,
        a: sum_a.bytes,
        b: sum_b.bytes,
        error: error.saturating_add(left_out),
    }
}
