//! The page as a whole: its head, its sections in order, its contents.
//!
//! The policy in the head lets no address be asked and no script or style act but the page's own, by
//! their digests: markup that came with a report and was not escaped would do nothing.

use super::lines::{self, Baseline};
use super::timeline::Timeline;
use super::{accounts, balance, heaps, over_time, peak, processes, refusal, summary, text};
use crate::model::{Report, escaped_where};
use crate::stacks::View;
use crate::tree::{Member, Sums};
use base64::prelude::{BASE64_STANDARD, Engine};
use flate2::{Compression, write::ZlibEncoder};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io::Write;

const STYLE: &str = concat!(include_str!("style.css"), include_str!("lines/style.css"));
const SCRIPT: &str = include_str!("script.js");
/// The type of an element that a browser does not run: JSON, deflated, in base 64.
const PACKED: &str = "application/json+deflate+base64";
/// Three columns, for the tab of a browser.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cg \
    fill='%233b5bdb'%3E%3Crect y='9' width='4' height='7'/%3E%3Crect x='6' y='5' width='4' height='11'/%3E%3Crect \
    x='12' width='4' height='16'/%3E%3C/g%3E%3C/svg%3E";

/// What a page shows beside a report.
#[derive(Default)]
pub struct Beside<'a> {
    pub timeline: Option<&'a Timeline>,
    /// The sampled lines are compared with its.
    pub baseline: Option<&'a Baseline>,
    /// The processes of the tree that begins with the report's.
    pub tree: Option<(Vec<Member>, Sums)>,
}

/// Makes the page of a report, whose text is `json`.
pub fn page(report: &Report, json: &str, beside: &Beside) -> Result<String, String> {
    let (timeline, baseline) = (beside.timeline, beside.baseline);
    let (lines, stacks) = lines::section(report, baseline)?.unzip();
    let stacks = stacks.flatten();
    let over_time = match timeline {
        Some(timeline) => html! {
            (over_time::foreign(timeline, report.process.pid))
            (over_time::section(timeline))
        },
        None => over_time::absent(),
    };
    let balance = report.balance.as_ref().map(|sheet| {
        html! {
            (balance::section(sheet, "balance-table", "Table of the balance sheet"))
            @if let Some(found) = &report.big_blocks {
                (peak::big_blocks(found, "Table of the big blocks"))
            }
        }
    });
    let most_resident = report.process.peak_resident_bytes;
    let at_peak = report.at_peak.as_ref();
    let at_peak = at_peak.map(|it| peak::section(it, report.total.peak_bytes, most_resident));
    let highest = report.at_resident_peak.as_ref().map(peak::resident_section);
    let details = Some(summary::details(report));
    let classes = report.size_classes.as_ref().map(heaps::sizes);
    let numpy = report.numpy.as_ref().map(heaps::members);
    let region = report.region.as_ref().map(heaps::region);
    let leaks = report.leaks.as_ref().map(heaps::leaks);
    let guards = report.guards.as_ref().map(heaps::members);
    let faults = report.faults.as_ref().map(heaps::members);
    let caps = refusal::section(&report.caps);
    let tree = beside.tree.as_ref().map(processes::section);
    let sections = [
        ("timeline", "Over time", Some(over_time)),
        ("accounts", "Accounts", Some(accounts::section(report))),
        ("processes", "Processes", tree),
        ("lines", "Lines", lines),
        ("refusal", "Caps and refusals", caps),
        ("balance", "Balance sheet", balance),
        ("peak", "At the peak", at_peak),
        ("resident-peak", "At the highest resident size", highest),
        ("sizes", "Blocks by size", classes),
        ("leaks", "Leaks", leaks),
        ("numpy", "NumPy", numpy),
        ("region", "Bounded heap", region),
        ("guards", "Guard pages", guards),
        ("faults", "Forced failures", faults),
        ("details", "Host and process", details),
        ("json", "The report itself", Some(raw(json)?)),
    ];
    let known = |(id, title, body): (_, _, Option<Markup>)| Some((id, title, body?));
    let sections: Vec<(&str, &str, Markup)> = sections.into_iter().filter_map(known).collect();
    let mut scripts = vec![SCRIPT];
    scripts.extend(stacks.as_ref().map(|_| lines::SCRIPT));
    let digests = scripts.iter().map(|text| digest(text));
    let digests: Vec<String> = digests.map(|it| format!("'sha256-{it}'")).collect();
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src {}; img-src data:; base-uri 'none'; form-action 'none'",
        digest(STYLE),
        digests.join(" ")
    );
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                meta name="generator" content={ "pyhostctl " (env!("CARGO_PKG_VERSION")) };
                title { "Memory of " (summary::title(report)) ": " (text::short(&summary::command(report).replace('\n', " "), 60)) }
                link rel="icon" href=(ICON);
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the figures" }
                (summary::header(report))
                nav aria-label="Sections" {
                    ul { @for (id, title, _) in &sections { li { a href={ "#" (id) } { (title) } } } }
                }
                main #main tabindex="-1" {
                    @for (id, title, body) in &sections {
                        section #(id) aria-labelledby={ (id) "-title" } {
                            h2 id={ (id) "-title" } { (title) }
                            (body)
                        }
                    }
                }
                footer { p { "Made by pyhostctl " (env!("CARGO_PKG_VERSION")) ". This page asks nothing of any network." } }
                script #report type=(PACKED) { (packed(json.trim())?) }
                @if let Some(stacks) = &stacks { script #stacks-data type=(PACKED) { (packed(stacks)?) } }
                @for text in scripts { script { (PreEscaped(text)) } }
            }
        }
    };
    Ok(page.into_string())
}

/// The report's text in a box, without the stacks of its lines: they may have a hundred thousand calls.
fn raw(json: &str) -> Result<Markup, String> {
    let mut value: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let lines = value.get_mut("lines").and_then(Value::as_object_mut);
    let has_stacks = lines.is_some_and(|lines| {
        let gone = View::ALL.map(|view| lines.remove(view.name()).is_some());
        gone.contains(&true)
    });
    let pretty = serde_json::to_string_pretty(&value).map_err(|error| error.to_string())?;
    Ok(html! {
        details {
            summary { "As JSON" }
            @if has_stacks {
                p.note {
                    "The stacks of " code { "lines" } " are left out here. The page has them: scripts find the whole report by "
                    code { "id=\"report\"" } "."
                }
            }
            div.scroll role="region" aria-label="The report as JSON" tabindex="0" { pre { code { (escaped_where(&pretty, text::is_unseen)) } } }
        }
    })
}

/// JSON as the page holds it: deflated (RFC 1950), in base 64. A report with thousands of stacks is a tenth as long so.
fn packed(json: &str) -> Result<String, String> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(json.as_bytes());
    let bytes = written.and_then(|()| encoder.finish());
    let bytes = bytes.map_err(|error| format!("cannot be deflated ({error})"))?;
    Ok(BASE64_STANDARD.encode(bytes))
}

/// The digest of a policy: SHA-256 in base 64.
fn digest(text: &str) -> String {
    BASE64_STANDARD.encode(Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full report whose values were changed, and its text.
    fn changed(change: &mut dyn FnMut(&mut Value)) -> (Report, String) {
        let mut value = serde_json::from_str(super::super::SAMPLE).unwrap();
        each(&mut value, change);
        let json = value.to_string();
        (serde_json::from_str(&json).unwrap(), json)
    }

    /// Changes a value and all that are in it.
    fn each(value: &mut Value, change: &mut dyn FnMut(&mut Value)) {
        change(value);
        match value {
            Value::Array(members) => members.iter_mut().for_each(|member| each(member, change)),
            Value::Object(members) => members.values_mut().for_each(|member| each(member, change)),
            _ => {}
        }
    }

    #[test]
    fn text_of_others_is_escaped_wherever_it_stands() {
        let evil = "<img src=x onerror=alert(1)>'\"&</script><!--<script>alert(1)</script>\u{2028}\u{202e}\u{1f600}\0";
        let (report, json) = changed(&mut |value| {
            if let Value::String(text) = value {
                *text = evil.to_owned();
            }
        });
        let beside = |baseline| Beside {
            baseline,
            ..Beside::default()
        };
        let baseline = Baseline::new(Box::new(serde_json::from_str(&json).unwrap())).unwrap();
        let page = page(&report, &json, &beside(Some(&baseline))).unwrap();
        assert_eq!(page.matches("<script").count(), 4);
        assert_eq!(page.matches("</script>").count(), 4);
        for bad in ["<img", "<!--", "\0", "\u{202e}"] {
            assert!(!page.contains(bad), "{bad:?}");
        }
        assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;") && page.contains("\u{1f600}"));
    }

    #[test]
    fn figures_may_be_as_large_as_they_can() {
        for number in [i64::MAX, i64::MIN, -1] {
            let (report, json) = changed(&mut |value| {
                if value.is_number() {
                    *value = number.into();
                }
            });
            let sample = format!(
                "{{\"t\":0.5,\"resident\":{number},\"total\":{number},\"a\":{number},\"b\":{number}}}"
            );
            let text = format!(
                "{{\"timeline\":\"pyhost-timeline/1\",\"accounts\":[\"a\",\"b\"]}}\n{sample}\n{{\"t\":0,\"caps\":{{\"a\":{number}}}}}\n"
            );
            let timeline = Timeline::of_text(&text).unwrap();
            let beside = Beside {
                timeline: Some(&timeline),
                ..Beside::default()
            };
            let page = page(&report, &json, &beside).unwrap();
            assert!(page.contains(&format!("value=\"{number}\"")));
            assert!(!page.contains("NaN") && !page.contains("inf"), "{number}");
        }
    }

    #[test]
    fn a_report_of_nothing_still_makes_a_page() {
        let json = r#"{"schema":"pyhost-report/1"}"#;
        let report: Report = serde_json::from_str(json).unwrap();
        let page = page(&report, json, &Beside::default()).unwrap();
        assert!(page.contains("Memory of a process") && page.contains("--timeline FILE"));
    }
}
