//! Size classes in a report. Does not allocate.

use super::Sink;
use crate::heap::histogram::{Classes, Histogram};
use crate::ledger::Account;

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
        sink.int("block_bytes", class.block_bytes as i64);
        sink.int("live_blocks", class.live_blocks as i64);
        sink.int("live_bytes", class.live_bytes as i64);
        sink.int("capacity_bytes", class.capacity_bytes as i64);
        sink.end();
    }
}
