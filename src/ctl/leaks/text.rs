//! The result, for people and as JSON.

use super::verdict::{Rising, Verdict, an_hour, least_rate};
use super::watch::{LOOKS, Watched};
use crate::{model::escaped, summary::bytes};
use pyhost_os::{bytes::Bytes, terminal_text::plain};
use pyhost_record::output::format::NO_CALLS;
use serde_json::json;
use std::fmt::Write;

/// Whether the process was watched for long enough to tell.
pub fn is_enough(watched: &Watched) -> bool {
    watched.looks.len() as u32 >= LOOKS / 2
}

pub fn text(watched: &Watched, verdict: &Verdict) -> String {
    let (process, looks) = (plain(&watched.process), watched.looks.len());
    let (seconds, interval) = (watched.span.as_secs_f64(), Bytes(watched.last.interval));
    let mut text =
        format!("process {process}: {looks} looks in {seconds:.0} s, one sample in {interval}\n");
    if watched.has_ended {
        let _ = writeln!(text, "the process ended meanwhile");
    }
    if watched.are_over {
        text += "its samples ended meanwhile\n";
    }
    if watched.restarts > 0 {
        text += "its samples were begun anew meanwhile; the looks are those since then\n";
    }
    if !is_enough(watched) {
        text += "it was watched for too short a time to tell\n";
        return text;
    }
    if verdict.rising.is_empty() {
        let least = bytes(least_rate(watched));
        text += &format!(
            "no line rises all the time. In {seconds:.0} s a leak is found from {least} an hour on; \
             a longer --for finds a slower one\n"
        );
        if let Some(line) = &verdict.largest_other {
            text += "the line that has grown most, by chance or too short a time to tell:\n";
            rows(&mut text, watched, std::slice::from_ref(line));
        }
        return text;
    }
    text += "lines whose live bytes rise all the time:\n";
    rows(&mut text, watched, &verdict.rising);
    text
}

fn rows(text: &mut String, watched: &Watched, lines: &[Rising]) {
    *text += "     growth     \u{b1} error     an hour        live     age  account  line\n";
    for line in lines {
        let hourly = an_hour(line.growth, watched.span);
        let [growth, error, hourly, live] = [line.growth, line.error, hourly, line.live].map(bytes);
        let (age, account) = (line.age, line.account.name());
        let place = line.line.map_or(NO_CALLS[0].to_owned(), |call| {
            format!("{}:{} in {}", call.file, call.line, call.function)
        });
        let _ = writeln!(
            text,
            "{growth:>11}{error:>12}{hourly:>12}{live:>12}{age:>8}  {account:<9}{}",
            plain(&place)
        );
    }
}

pub fn json(watched: &Watched, verdict: &Verdict) -> String {
    let row = |line: &Rising| {
        json!({
            "file": line.line.map(|call| call.file),
            "line": line.line.map(|call| call.line),
            "function": line.line.map(|call| call.function),
            "account": line.account.name(),
            "growth_bytes": line.growth,
            "error_bytes": line.error,
            "bytes_an_hour": an_hour(line.growth, watched.span),
            "live_bytes": line.live,
            "age_seconds": line.age.seconds(),
        })
    };
    let value = json!({
        "schema": "pyhost-leaks/1",
        "process": watched.process,
        "seconds": watched.span.as_secs_f64(),
        "looks": watched.looks.len(),
        "ended": watched.has_ended,
        "samples_ended": watched.are_over,
        "restarts": watched.restarts,
        "interval_bytes": watched.last.interval,
        "is_enough": is_enough(watched),
        "found_from_bytes_an_hour": least_rate(watched),
        "rising": verdict.rising.iter().map(row).collect::<Vec<_>>(),
        "largest_other": verdict.largest_other.as_ref().map(row),
    });
    escaped(&value.to_string())
}
