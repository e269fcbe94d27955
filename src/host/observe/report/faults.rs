//! The rules of `--fail` in a report: what each saw. Does not allocate.

use super::Sink;
use crate::check::faults;

/// Says `faults`: null without `--fail`, else the list of its rules.
pub fn describe(sink: &mut impl Sink) {
    sink.object("faults", faults::figures(), |rules, sink| {
        sink.list("rules", rules, |rule, sink| {
            sink.text("rule", rule.text);
            sink.int("requests", rule.requests as i64);
            sink.int("injected", rule.injected as i64);
        });
    });
}
