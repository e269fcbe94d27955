//! Which lines grew and shrank between two reports with sampled lines: the bytes live in each.

use super::listing::{Listing, error_of_change, interval_of};
use crate::lines::{By, Row, Subject, Table};
use crate::stacks::{Amount, Stacks, View};
use crate::summary::{bytes, signed};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;

/// Lines that grew, and lines that shrank, which the text has at most.
const SHOWN: usize = 10;

/// A line whose bytes changed by more than the error.
pub struct Change<'a> {
    pub subject: Subject<'a>,
    pub a: i64,
    pub b: i64,
    pub error: i64,
}

impl Change<'_> {
    /// B less A. Neither is below zero.
    pub fn bytes(&self) -> i64 {
        self.b - self.a
    }
}

pub struct LineChanges<'a> {
    view: View,
    /// Those that grew first, by the most bytes; those that shrank last.
    changes: Vec<Change<'a>>,
    /// Lines that changed by no more than the error.
    pub others: usize,
    /// Bytes of stacks that A and B do not list.
    pub left_out: [i64; 2],
}

impl<'a> LineChanges<'a> {
    /// Compares the lines of A and B.
    pub fn new(a: &'a Stacks, b: &'a Stacks, view: View) -> Self {
        let interval = interval_of(a, b);
        let (a, b) = (Side::new(a, view), Side::new(b, view));
        let mut subjects: Vec<Subject> = a.table.rows.iter().map(|row| row.subject).collect();
        let new = b
            .rows
            .keys()
            .filter(|subject| !a.rows.contains_key(*subject));
        subjects.extend(new);
        let all = subjects
            .into_iter()
            .map(|subject| change(subject, &a, &b, interval));
        let (mut changes, others): (Vec<Change>, Vec<Change>) =
            all.partition(|change| change.bytes().abs() > change.error);
        changes.sort_by_key(|change| (Reverse(change.bytes()), change.subject.to_string()));
        LineChanges {
            view,
            changes,
            others: others.len(),
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

    pub fn to_text(&self) -> String {
        let mut text = "lines        live A     live B      change     \u{b1} error\n".to_owned();
        let (largest, more) = self.largest();
        for change in largest {
            let [a, b, error] = [change.a, change.b, change.error].map(bytes);
            let difference = signed(change.bytes());
            let subject = change.subject;
            let _ = writeln!(text, "{a:>19}{b:>11}{difference:>12}{error:>12}  {subject}");
        }
        if more > 0 {
            let _ = writeln!(
                text,
                "        {more} more lines changed by more than the error"
            );
        }
        let others = self.others;
        let _ = writeln!(
            text,
            "        {others} lines changed by no more than the error"
        );
        if self.left_out != [0, 0] {
            let [a, b] = self.left_out.map(bytes);
            let _ = writeln!(
                text,
                "        stacks that the reports leave out: {a} in A, {b} in B"
            );
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
            row
        };
        let [a, b] = self.left_out;
        json!({
            "view": self.view.name(),
            "left_out_bytes": {"a": a, "b": b},
            "within_error": self.others,
            "changes": self.changes.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

/// One of the reports.
struct Side<'a> {
    table: Table<'a>,
    rows: HashMap<Subject<'a>, usize>,
    listing: Listing<'a>,
}

impl<'a> Side<'a> {
    fn new(stacks: &'a Stacks, view: View) -> Self {
        let table = Table::new(stacks, view, By::Line, None);
        let places = table.rows.iter().enumerate();
        let rows = places.map(|(place, row)| (row.subject, place)).collect();
        Side {
            rows,
            listing: Listing::new(stacks, view),
            table,
        }
    }

    fn row(&self, subject: &Subject) -> Option<&Row<'a>> {
        self.rows.get(subject).map(|place| &self.table.rows[*place])
    }

    fn sum(&self, subject: &Subject) -> Amount {
        self.row(subject).map_or(Amount::default(), |row| row.sum)
    }

    /// The bytes that a line may have here beside those of its row.
    fn may_lack(&self, subject: &Subject, other: &Side) -> i64 {
        let sites = other.row(subject).map_or(&[][..], |row| &row.sites);
        let stacks = other.table.stacks;
        let unlisted = sites.iter().filter(|site| !self.listing.has(stacks, site));
        self.listing.may_lack(unlisted.count(), self.table.left_out)
    }
}

fn change<'a>(subject: Subject<'a>, a: &Side<'a>, b: &Side<'a>, interval: i64) -> Change<'a> {
    let sums = [a.sum(&subject), b.sum(&subject)];
    let may_lack = [a.may_lack(&subject, b), b.may_lack(&subject, a)];
    Change {
        subject,
        a: sums[0].bytes,
        b: sums[1].bytes,
        error: error_of_change(sums, may_lack, interval),
    }
}
