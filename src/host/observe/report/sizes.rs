//! Size classes in a report. Does not allocate.

use super::Sink;
use crate::heap::histogram::{Classes, Histogram};
use crate::ledger::Account;
use pyhost_record::figures;

/// Says each account's list, without the braces around them.
pub fn describe(histogram: &Histogram, sink: &mut impl Sink) {
    for account in Account::WITH_BLOCKS {
        sink.begin_list(account.name());
        describe_classes(histogram.of(account), sink);
        sink.end();
    }
}

/// Says the classes of one account, without the brackets around them.
pub fn describe_classes(classes: &Classes, sink: &mut impl Sink) {
    for class in classes.entries() {
        sink.begin("");
        figures!(sink, class: block_bytes live_blocks live_bytes capacity_bytes);
        sink.end();
    }
}
