//! The section of sampled lines: the lines with the most bytes as tables for all, and the stacks as an icicle that the
//! page's script draws from [`drawing`].

mod drawing;
mod tables;
#[cfg(test)]
mod tests;

use super::figures::{count, swatch};
use super::text;
use crate::model::Report;
use crate::stacks::{Stacks, View};
use drawing::Drawing;
use maud::{Markup, html};

pub const SCRIPT: &str = include_str!("script.js");

/// The report that the page compares its own with.
pub struct Baseline {
    pub report: Box<Report>,
    pub stacks: Stacks,
}

impl Baseline {
    pub fn new(report: Box<Report>) -> Result<Self, String> {
        Ok(Baseline {
            stacks: Stacks::by_thread(&report)?,
            report,
        })
    }
}

/// The section, and the JSON that its script draws; no JSON if there is nothing to be drawn.
type Section = (Markup, Option<String>);

/// The section of a report; None if its host took no samples. Samples that are not valid are an error only if there is a
/// baseline to compare them with.
pub fn section(report: &Report, baseline: Option<&Baseline>) -> Result<Option<Section>, String> {
    let stacks = match Stacks::by_thread(report) {
        Ok(stacks) => stacks,
        Err(what) if baseline.is_some() => return Err(what),
        Err(_) if report.lines.is_none() => return Ok(None),
        Err(what) => {
            let body = html! { p.warning { "The samples cannot be shown: the report " (text::clean(&what)) "." } };
            return Ok(Some((body, None)));
        }
    };
    let drawing = Drawing::new(&stacks, baseline);
    let views = in_order(drawing.views(), baseline.is_some());
    if views.is_empty() {
        let body = html! { p { "No sample has bytes." } (facts(&stacks)) };
        return Ok(Some((body, None)));
    }
    let open = 1 + usize::from(report.highest_resident().is_some_and(|it| it.1));
    let body = html! {
        (facts(&stacks))
        @if let Some(baseline) = baseline { (tables::changes(&stacks, baseline, &views, open)) }
        (tables::section(&stacks, &views, open))
        (icicle(&views, baseline.is_some(), &legend(baseline.is_some(), drawing.has_native_calls())))
    };
    let json = serde_json::to_string(&drawing).map_err(|error| error.to_string())?;
    Ok(Some((body, Some(json))))
}

/// The view that is shown first comes first: the peak, or for a comparison the one that `pyhostctl diff` compares. The highest
/// resident size comes second.
fn in_order(mut views: Vec<View>, is_comparison: bool) -> Vec<View> {
    let first = match is_comparison {
        true => View::Live,
        false => View::AtPeak,
    };
    views.sort_by_key(|view| (*view != first, *view != View::AtResidentPeak));
    views
}

fn facts(stacks: &Stacks) -> Markup {
    html! {
        p.note {
            @match stacks.interval {
                ..=1 => { "Every allocation was sampled, so these are no estimates. " }
                interval => {
                    "One sample in " (text::bytes(interval)) " of what was allocated. The true number of bytes is within \
                    the error, either way, in 19 of 20 cases. "
                }
            }
            (count(stacks.samples)) " samples, " (count(stacks.dropped)) " dropped."
        }
    }
}

/// The place that the script draws in: hidden without it.
fn icicle(views: &[View], is_comparison: bool, legend: &[(&str, &str)]) -> Markup {
    html! {
        div #stacks hidden {
            h3 #stacks-title { "Stacks" }
            p.note {
                "The outermost call is at the top; a frame is as wide as the bytes that were allocated in it and in what it \
                called. A click on a frame, or Enter, zooms in. Arrow keys go from frame to frame, Escape goes back."
            }
            div.controls {
                label { span { "Bytes" } select #stacks-view {
                    @for view in views { option value=(*view as usize) { (text_of(*view)) } }
                } }
                label { span { "Account" } select #stacks-account { option value="0" { "all of the total" } } }
                @if is_comparison {
                    label { span { "Widths" } select #stacks-widths {
                        option value="bytes" { "this report" }
                        option value="before" { "the baseline" }
                    } }
                }
                label.search { span { "Search" } input #stacks-search type="search" placeholder="function, file or line" autocomplete="off" spellcheck="false"; }
                div.buttons {
                    button #stacks-back type="button" disabled { "Back" }
                    button #stacks-whole type="button" disabled { "Whole" }
                }
            }
            output #stacks-found for="stacks-search" aria-live="polite" {}
            div #stacks-at.readout { p {} p {} }
            div #stacks-box.scroll role="region" aria-label="Stacks" tabindex="0" {
                svg.icicle #icicle role="tree" aria-labelledby="stacks-title" {}
            }
            p #stacks-note.note {}
            ul.legend.tints {
                @for (class, name) in legend { li { (swatch(&format!("tint {class}"))) span { (name) } } }
            }
        }
    }
}

/// The classes of frames, and their names for people.
fn legend(is_comparison: bool, has_native_calls: bool) -> Vec<(&'static str, &'static str)> {
    let mut legend = match is_comparison {
        false => vec![
            ("mine", "your code"),
            ("package", "installed packages"),
            ("standard", "standard library"),
            ("library", "native calls"),
            ("outside", "no Python code"),
        ],
        true => vec![
            ("most-grew", "new, or more than twice as much"),
            ("grew", "grew"),
            ("same", "changed by no more than the error"),
            ("shrank", "shrank"),
            ("most-shrank", "shrank to less than half"),
        ],
    };
    legend.retain(|(class, _)| has_native_calls || *class != "library");
    legend.push(("found", "found by the search"));
    legend
}

fn text_of(view: View) -> &'static str {
    let title = view.title();
    title.strip_prefix("bytes ").unwrap_or(title)
}
