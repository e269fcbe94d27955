//! The section of the timeline: the picture twice, for wide and narrow windows, a cursor for
//! browsers that run scripts, and the samples and events as tables for all.

use super::chart::{self, NARROW, Outline, Picture, STRETCHES, WIDE, account_class};
use super::figures::{head, maybe_bytes, scroll, swatch};
use super::text;
use super::timeline::{Event, Sample, Timeline};
use crate::stacks::is_in_total;
use maud::{Markup, html};

const MOST_EVENTS: usize = 500;
/// Events that the table shows before it is opened.
const FEW_EVENTS: usize = 8;

/// The section without a timeline.
pub fn absent() -> Markup {
    html! {
        p {
            "This report came without a timeline. " code { "pyhost --timeline=FILE \u{2026}" }
            " writes one while the program runs, and " code { "pyhostctl html REPORT --timeline FILE" } " draws it here."
        }
    }
}

pub fn section(timeline: &Timeline) -> Markup {
    let samples = timeline.thinned(STRETCHES);
    if samples.is_empty() {
        return html! { p { "The timeline has no samples." } (events(timeline)) };
    }
    let label = chart::sentence(timeline);
    let wide = chart::draw(timeline, &WIDE, &label);
    let narrow = chart::draw(timeline, &NARROW, &label);
    let places = (0..samples.len()).rev();
    let highest = places.max_by_key(|&index| samples[index].total);
    let highest = highest.unwrap_or(0);
    html! {
        p.note { (label) "." }
        figure #timeline-figure {
            (wide.svg)
            (narrow.svg)
            input #cursor hidden type="range" min=(timeline.span().0) max=(timeline.span().1) value=(samples[highest].time) step="any"
                aria-label="Moment of the timeline" {}
            (legend(timeline, &wide, samples[highest]))
            output #readout.unseen for="cursor" aria-live="polite" {}
        }
        @if !wide.out_of_sight.is_empty() {
            p.note { "Too high to be drawn: the cap of " (text::clean(&wide.out_of_sight.join(", "))) "." }
        }
        @if let Outline::TooHigh(top) = wide.outline {
            p.note { "Too high to be drawn: what is live and not resident, with which the stack is " (text::bytes(top)) " high." }
        }
        (events(timeline))
        (table(timeline, &samples))
    }
}

/// The legend: colours, with the figures at the cursor.
fn legend(timeline: &Timeline, picture: &Picture, at: &Sample) -> Markup {
    let line = |class: &str| {
        html! {
            svg class={ "swatch " (class) } viewBox="0 0 20 10" aria-hidden="true" { line x1="0" y1="5" x2="20" y2="5" {} }
        }
    };
    html! {
        figcaption {
            p.moment { "at " strong data-legend="time" { (text::seconds(at.time)) } span #moment-note { ", where the total is highest" } }
            ul.legend {
                @for (name, &live) in timeline.accounts.iter().zip(&at.accounts) {
                    li {
                        (swatch(account_class(name)))
                        span { (text::clean(name)) @if !is_in_total(name) { ", reserved" } } b data-legend=(name) { (text::bytes(live)) }
                    }
                }
                li { (line("none")) span { "total" } b data-legend="total" { (text::bytes(at.total)) } }
                li { (swatch("other")) span { "stacks, free blocks" } }
                li { (swatch("file")) span { "files, shared memory" } b data-legend="files" { (maybe_bytes(at.files)) } }
                li { (line("resident")) span { "resident" } b data-legend="resident" { (maybe_bytes(at.resident)) } }
                @if picture.outline == Outline::Drawn {
                    li { (line("outline")) span { "live, not resident" } }
                }
                @for scope in &picture.caps {
                    @let class = match timeline.accounts.contains(scope) { true => account_class(scope), false => "total" };
                    li { (line(&format!("cap {class}"))) span { "cap of " (text::clean(scope)) } }
                }
            }
        }
    }
}

fn events(timeline: &Timeline) -> Markup {
    let events = &timeline.events;
    let row = |event: &Event| {
        html! {
            tr class=(event.kind.name()) {
                th scope="row" .number { (text::seconds(event.time)) }
                td { (event.kind.name()) }
                td.words { (text::short(&event.text, 400)) }
            }
        }
    };
    let more = (events.len().saturating_sub(MOST_EVENTS)) as i64 + timeline.events_left_out;
    let table = html! {
        table #events {
            (head([&[], &["time"], &["event", "what"]]))
            tbody { @for event in events.iter().take(MOST_EVENTS) { (row(event)) } }
        }
    };
    html! {
        @if !events.is_empty() {
            details open[events.len() <= FEW_EVENTS] {
                summary { "Marks, refusals and the end (" (text::count(events.len() as i64)) ")" }
                (scroll("Table of marks and refusals", &table))
                @if more > 0 { p.note { "And " (text::count(more)) " more." } }
            }
        }
    }
}

fn table(timeline: &Timeline, samples: &[&Sample]) -> Markup {
    let table = html! {
        table #samples {
            thead { tr {
                th scope="col" .number data-name="time" { "time" }
                th scope="col" .number data-name="resident" { "resident" }
                th scope="col" .number data-name="files" { "files" }
                th scope="col" .number data-name="total" { "total" }
                @for name in &timeline.accounts { th scope="col" .number data-name=(name) { (text::clean(name)) } }
            } }
            tbody {
                @for sample in samples {
                    tr {
                        th scope="row" .number { data value=(sample.time) { (text::seconds(sample.time)) } }
                        @for figure in [sample.resident, sample.files] {
                            td { @match figure { Some(bytes) => (plain(bytes)), None => "\u{2013}" } }
                        }
                        td { (plain(sample.total)) }
                        @for &live in &sample.accounts { td { (plain(live)) } }
                    }
                }
            }
        }
    };
    let (all, kept) = (timeline.samples.len(), samples.len());
    html! {
        details {
            summary { "The samples as a table (" (text::count(kept as i64)) ")" }
            p.note {
                @if kept < all {
                    "Of " (text::count(all as i64)) " samples, these: of each " (text::count(STRETCHES as i64))
                    "th of the time the first, the one with the highest total and the one with the highest resident size. "
                }
                @if let Some(interval) = timeline.interval { "A sample each " (text::seconds(interval)) ". " }
                @if let Some(started) = &timeline.started { "Time counts from " (text::clean(started)) "." }
            }
            (scroll("Table of samples", &table))
        }
    }
}

/// Bytes without a title: there are thousands.
fn plain(number: i64) -> Markup {
    match number {
        0 => html! { data value="0" { "0" } },
        _ => html! { data value=(number) { (text::bytes(number)) } },
    }
}

/// A line if a timeline is of another process than the report, as far as both say.
pub fn foreign(timeline: &Timeline, pid: Option<i64>) -> Markup {
    html! {
        @match (timeline.pid, pid) {
            (Some(other), Some(pid)) if other != pid => {
                p.warning { "This timeline is of process " (other) ", the report of another." }
            }
            _ => {}
        }
    }
}
