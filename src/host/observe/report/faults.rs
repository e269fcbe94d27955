//! The rules of `--fail` in a report: what each saw. Does not allocate.

use super::Sink;
use crate::check::faults;

/// Says `faults`: null without `--fail`, else the list of its rules.
pub fn describe(sink: &mut impl Sink) {
    let Some(rules) = faults::figures() else {
        return sink.null("faults");
    };
    sink.begin("faults");
    sink.begin_list("rules");
    for rule in rules {
        sink.begin("");
        sink.text("rule", rule.text);
        sink.int("requests", rule.requests as i64);
        sink.int("injected", rule.injected as i64);
        sink.end();
    }
    sink.end();
    sink.end();
}
