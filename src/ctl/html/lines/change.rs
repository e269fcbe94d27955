//! The comparison with a baseline: the lines that changed most, as `pyhostctl diff` finds them.

use super::super::figures::{bytes, scroll};
use super::super::text;
use super::Baseline;
use super::tables::{in_views, lines, subject};
use crate::diff::{Change, LineChanges};
use crate::stacks::{Stacks, View};
use maud::{Markup, html};

pub fn section(stacks: &Stacks, baseline: &Baseline, views: &[View], open: usize) -> Markup {
    let Baseline {
        summary,
        stacks: before,
    } = baseline;
    let process = &summary.report.process;
    html! {
        p #baseline {
            "Compared with a baseline: process " (process.pid.unwrap_or_default()) " (" code { (text::short(&summary.command, 120)) } ")"
            @if let Some(started) = &process.started { ", since " (text::clean(started)) }
            @if let Some(seconds) = process.wall_seconds { ", " (text::seconds(seconds)) " after its start" }
            "."
        }
        (in_views("Lines that changed most", views, open, |view| {
            table_of(&LineChanges::new(before, stacks, view))
        }))
    }
}

fn table_of(changes: &LineChanges) -> Markup {
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
            tbody { @for change in &largest { (row(change)) } }
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

fn row(change: &Change) -> Markup {
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
