//! `--junit`: the results of a sweep as a file that CI systems read.
//!
//! A test case is a place of the program: the account and the line of Python whose requests failed. Their numbers
//! change with every change of the program, and there are thousands of them; the places stay.

use super::run::Run;
use maud::{PreEscaped, html};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Cases(BTreeMap<(String, String), Case>);

#[derive(Default)]
struct Case {
    runs: u64,
    seconds: f64,
    /// How the runs ended that crashed, hung or leaked, with all that is known of each.
    findings: Vec<(String, String)>,
    /// Why it could not be tested.
    error: Option<String>,
}

impl Cases {
    /// Adds a run, with the log's line for the request of the sweep's that failed, if one did; `described` says all of a
    /// run that is a finding.
    pub fn add(&mut self, line: Option<&str>, run: &Run, described: &str) {
        let place = line.map_or_else(unfailed, place);
        let case = self.0.entry(place).or_default();
        case.runs += 1;
        case.seconds += run.seconds;
        if run.end.is_finding() {
            case.findings.push((run.end.text(), described.to_owned()));
        }
    }

    /// Records that nothing was tested.
    pub fn add_error(&mut self, reason: &str) {
        self.0.entry(unfailed()).or_default().error = Some(reason.to_owned());
    }

    pub fn text(&self, subject: &str) -> String {
        let title = clean(&format!("pyhostctl sweep of {subject}"));
        let cases = || self.0.values();
        let tests = cases().count();
        let failures = cases().filter(|case| !case.findings.is_empty()).count();
        let errors = cases().filter(|case| case.error.is_some()).count();
        let seconds = |seconds: f64| format!("{seconds:.3}");
        let time = seconds(cases().map(|case| case.seconds).sum());
        let text = html! {
            (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
            testsuites name=(title) tests=(tests) failures=(failures) errors=(errors) time=(time) {
                (PreEscaped("\n"))
                testsuite name=(title) tests=(tests) failures=(failures) errors=(errors) skipped="0" time=(time) {
                    (PreEscaped("\n"))
                    @for ((account, place), case) in &self.0 {
                        testcase classname=(clean(&format!("sweep.{account}"))) name=(clean(place)) time=(seconds(case.seconds)) {
                            @if let [(end, _), ..] = case.findings.as_slice() {
                                failure type=(end) message=(format!("{} of {} runs: {end}", case.findings.len(), case.runs)) {
                                    @for (_, described) in &case.findings { (clean(described)) }
                                }
                            }
                            @if let Some(reason) = &case.error {
                                error type="nothing was tested" message=(clean(reason)) {}
                            }
                        }
                        (PreEscaped("\n"))
                    }
                }
                (PreEscaped("\n"))
            }
            (PreEscaped("\n"))
        };
        text.into_string()
    }
}

/// The account and the innermost line of Python of the request that failed.
fn place(line: &str) -> (String, String) {
    let mut words = line.splitn(4, ' ').skip(1);
    let account = words.next().unwrap_or_default();
    let calls = words.nth(1).unwrap_or_default();
    let innermost = match calls.split(" < ").next() {
        None | Some("" | "-") => "no line of Python",
        Some(call) => call,
    };
    (account.to_owned(), innermost.to_owned())
}

/// The place of runs in which no request fails.
fn unfailed() -> (String, String) {
    ("program".to_owned(), "no request fails".to_owned())
}

/// Text as XML may hold it: of the controls, lines and tabs alone.
fn clean(text: &str) -> String {
    let is_forbidden = |letter: char| {
        letter.is_control() && !matches!(letter, '\n' | '\t')
            || matches!(letter, '\u{fffe}' | '\u{ffff}')
    };
    text.replace(is_forbidden, "\u{fffd}")
}
