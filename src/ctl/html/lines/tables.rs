//! The lines with the most bytes, a table a view; and those that changed most since a baseline, as `pyhostctl diff` finds them.

use super::super::figures::{bytes, count, scroll, swatch};
use super::super::{chart::account_class, text};
use super::{Baseline, text_of};
use crate::diff::{Change, LineChanges};
use crate::lines::{By, Row, Subject, Table};
use crate::stacks::{Amount, Stacks, View};
use crate::summary::command;
use maud::{Markup, html};

const LINES: usize = 10;

/// The tables of the first views, and the others folded.
pub fn section(stacks: &Stacks, views: &[View], open: usize) -> Markup {
    in_views("Lines with the most bytes", views, open, |view| {
        let table = Table::new(stacks, view, By::Line, None);
        table_of(&table)
    })
}

/// A part of the section with the same content for each view: that of the first `open` views in sight, the others' folded.
fn in_views(title: &str, views: &[View], open: usize, content: impl Fn(View) -> Markup) -> Markup {
    let (first, others) = views.split_at(open.min(views.len()));
    html! {
        @for view in first { h3 { (title) ": " (text_of(*view)) } (content(*view)) }
        @if !others.is_empty() {
            details {
                summary { (title) ": other views" }
                @for view in others { h4 { (text_of(*view)) } (content(*view)) }
            }
        }
    }
}

fn table_of(table: &Table) -> Markup {
    let stacks = table.stacks;
    let (shown, others) = table.rows.split_at(table.rows.len().min(LINES));
    let has_errors = stacks.interval > 1;
    let figures = |sum: Amount| {
        html! {
            td.number { (bytes(sum.bytes)) }
            @if has_errors { td.number { (bytes(stacks.error_bytes(sum))) } }
            td.number.spare { (text::share(sum.bytes, table.total)) }
            td.number.spare { (count(sum.blocks)) }
        }
    };
    let markup = html! {
        table data-view=(table.view.name()) {
            thead { tr {
                th scope="col" .number { "bytes" }
                @if has_errors { th scope="col" .number { "\u{b1} error" } }
                th scope="col" .number .spare { "share" }
                th scope="col" .number .spare { "blocks" }
                th.spare scope="col" { "account" }
                th scope="col" { "line" }
            } }
            tbody {
                @for row in shown { tr {
                    (figures(row.sum))
                    td.spare { (swatch(account_class(row.account()))) (text::clean(&row.accounts.join("+"))) }
                    td.words { (line_of(table, row)) }
                } }
            }
            @if !others.is_empty() {
                tfoot { tr {
                    (figures(Table::sum_of(others)))
                    td.spare {}
                    td { (lines(others.len())) " more" }
                } }
            }
        }
    };
    html! {
        @match table.rows.is_empty() {
            true => p { "No line that the report lists has bytes." }
            false => (scroll(&format!("Table of lines, {}", text_of(table.view)), &markup))
        }
        @if table.left_out > 0 {
            p.note { "The stacks that the report leaves out have " (bytes(table.left_out)) " of " (bytes(table.total)) "." }
        }
    }
}

fn line_of(table: &Table, row: &Row) -> Markup {
    html! {
        (subject(&row.subject))
        @if let Some(package) = table.package_of(row) { ", by " (text::clean(package)) }
    }
}

fn subject(subject: &Subject) -> Markup {
    match subject {
        Subject::Line { .. } => html! { code { (text::clean(&subject.to_string())) } },
        _ => html! { (text::clean(&subject.to_string())) },
    }
}

fn lines(count: usize) -> String {
    match count {
        1 => "1 line".to_owned(),
        count => format!("{} lines", text::count(count as i64)),
    }
}

pub fn changes(stacks: &Stacks, baseline: &Baseline, views: &[View], open: usize) -> Markup {
    let (report, before) = (&baseline.report, &baseline.stacks);
    let process = &report.process;
    html! {
        p #baseline {
            "Compared with a baseline: process " (process.pid.unwrap_or_default()) " (" code { (text::short(&command(report), 120)) } ")"
            @if let Some(started) = &process.started { ", since " (text::clean(started)) }
            @if let Some(seconds) = process.wall_seconds { ", " (text::seconds(seconds)) " after its start" }
            "."
        }
        (in_views("Lines that changed most", views, open, |view| {
            table_of_changes(&LineChanges::new(before, stacks, view))
        }))
    }
}

fn table_of_changes(changes: &LineChanges) -> Markup {
    let (largest, more) = changes.largest();
    let table = html! {
        table.changes {
            thead { tr {
                th scope="col" .number { "change" }
                th scope="col" .number { "\u{b1} error" }
                th scope="col" .number .spare { "before" }
                th scope="col" .number .spare { "now" }
                th scope="col" { "line" }
            } }
            tbody { @for change in &largest { (row_of(change)) } }
        }
    };
    let [before, now] = changes.left_out;
    html! {
        @match largest.is_empty() {
            true => p { "No line changed by more than the error." }
            false => (scroll("Table of lines that changed", &table))
        }
        p.note {
            @if more > 0 { (lines(more)) " more changed by more than the error. " }
            (lines(changes.within_error())) " changed by no more than the error."
            @if changes.left_out != [0, 0] {
                " The stacks that the reports leave out have " (bytes(before)) " before and " (bytes(now)) " now."
            }
        }
    }
}

fn row_of(change: &Change) -> Markup {
    let number = change.bytes();
    let direction = if number > 0 { "more" } else { "less" };
    html! {
        tr {
            td class={ "number " (direction) } { @if number > 0 { "+" } (bytes(number)) }
            td.number { (bytes(change.error)) }
            td.number.spare { (bytes(change.a)) }
            td.number.spare { (bytes(change.b)) }
            td.words { (subject(&change.subject)) }
        }
    }
}
