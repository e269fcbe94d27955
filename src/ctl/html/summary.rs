//! The head of the page: what ran, when, how it ended, and its largest figures.

use super::{figures, figures::maybe_bytes, heaps, text};
use crate::model::Report;
use maud::{Markup, html};
use serde_json::json;

/// The title of the page: the script's name. Code of `-c`, and what comes from standard input, has none.
pub fn title(report: &Report) -> String {
    let process = &report.process;
    match (process.command.as_deref(), process.pid) {
        (Some(name), _) if !["", "-", "-c"].contains(&name) => text::short(name, 60),
        (_, Some(pid)) => format!("process {pid}"),
        _ => "a process".to_owned(),
    }
}

/// The command line, quoted as a shell would want it.
pub fn command(report: &Report) -> String {
    let words = report.process.argv.iter().map(|word| text::word(word));
    words.collect::<Vec<_>>().join(" ")
}

/// Characters of a command line that are shown at once.
const COMMAND: usize = 200;

/// The command line; one that is long or has several lines can be opened.
fn command_line(report: &Report) -> Markup {
    let whole = command(report);
    let line = whole.replace('\n', " ");
    html! {
        p.command { code { (text::short(&line, COMMAND)) } }
        @if whole.contains('\n') || whole.chars().nth(COMMAND).is_some() {
            details.command {
                summary { "The whole command" }
                (figures::scroll("The whole command", &html! { pre { code { (whole) } } }))
            }
        }
    }
}

/// How the process ended: a few words, and whether that is nothing to worry about.
fn ending(report: &Report) -> (String, bool) {
    let process = &report.process;
    match (process.ended_by.as_deref(), process.exit_status) {
        (None, _) => ("still running".to_owned(), true),
        (Some("exit"), Some(status)) => (format!("exit status {status}"), status == 0),
        (Some("_exit"), Some(status)) => (format!("_exit, status {status}"), status == 0),
        (Some("exec"), _) => ("became another program".to_owned(), true),
        (Some("kill"), _) => ("was killed".to_owned(), false),
        (Some(other), _) => (format!("ended by {}", text::short(other, 40)), false),
    }
}

/// A moment in UTC, such as `2026-11-22T02:46:29Z`, for people.
fn moment(text: &str) -> String {
    let text = text::short(text, 40);
    match text.strip_suffix('Z') {
        Some(text) => format!("{} UTC", text.replace('T', " ")),
        None => text,
    }
}

pub fn header(report: &Report) -> Markup {
    let (ending, is_fine) = ending(report);
    let process = &report.process;
    let card = |name: &str, field: &str, figure: Markup, beside: Markup| {
        html! { div.card { dt { (name) } dd { span.figure data-field=(field) { (figure) } span.beside { (beside) } } } }
    };
    html! {
        header.page {
            p.brand { "pyhost" }
            h1 { (title(report)) }
            (command_line(report))
            p.about {
                span.badge.fine[is_fine].bad[!is_fine] { (ending) }
                @if let Some(version) = &report.python.version { span { "Python " (text::clean(version)) } }
                @if let Some(started) = &process.started {
                    time datetime=(text::clean(started)) { (moment(started)) }
                }
                @if let Some(seconds) = process.wall_seconds { span { "ran " (text::seconds(seconds)) } }
                @if report.partial { span title="from a signal handler, or from outside" { "partial: other threads may have been booking" } }
            }
            dl.cards {
                (card("Resident", "resident_bytes", maybe_bytes(process.resident_bytes), html! {
                    "peak " @if process.peak_resident_source.as_deref() == Some("ru_maxrss") { "at most " }
                    span data-field="peak_resident_bytes" { (maybe_bytes(process.peak_resident_bytes)) }
                    @if let Some(after) = process.finalized_resident_bytes { ", " (figures::bytes(after)) " after finalisation" }
                }))
                (card("Live in all accounts", "total.live_bytes", figures::bytes(report.total.live_bytes), html! {
                    @match report.total.finalized_live_bytes {
                        Some(after) => { (figures::bytes(after)) " after finalisation" }
                        None => { "requested and not freed" }
                    }
                }))
                (card("Peak of all accounts", "total.peak_bytes", figures::bytes(report.total.peak_bytes), html! {
                    @match report.caps.of("total") {
                        Some(cap) => { "of a cap of " (figures::bytes(cap)) }
                        None => { "no cap in force" }
                    }
                }))
            }
        }
    }
}

/// The section of facts about host and process.
pub fn details(report: &Report) -> Markup {
    let facts = json!({
        "allocator": report.allocator,
        "left_to": report.left_to,
        "debug_hooks": report.debug_hooks,
        "big_blocks_left_out": report.big_blocks_left_out,
        "host": report.host,
        "python": report.python,
        "children, not in these figures": report.children,
    });
    heaps::members(facts.as_object().into_iter().flatten())
}
