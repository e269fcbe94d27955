//! Parts of reports: the schema's name, which `pyhostctl` reads, too, the receiver of the fields, and the accounts.
//!
//! Nothing here allocates, so that a signal handler can write a report.

#![deny(unsafe_code)]

use pyhost_ledger::{Account, Snapshot};

/// The schema's name, the first field of every JSON report.
pub const SCHEMA: &str = "pyhost-report/1";

/// Says counts to a sink, each by the name of its field.
#[macro_export]
macro_rules! figures {
    ($sink:ident, $of:ident: $($field:ident)+) => {
        $($sink.int(stringify!($field), $of.$field as i64);)+
    };
}

/// Takes the fields of a report, in order. Keys are unused inside lists.
pub trait Sink {
    fn begin(&mut self, key: &str);
    fn begin_list(&mut self, key: &str);
    /// Closes the innermost object or list.
    fn end(&mut self);
    fn text(&mut self, key: &str, value: &str);
    fn int(&mut self, key: &str, value: i64);
    /// A number of seconds, or a fraction.
    fn fraction(&mut self, key: &str, value: f64);
    fn flag(&mut self, key: &str, value: bool);
    fn null(&mut self, key: &str);
    /// A value that is JSON already; nothing, if the sink makes something else.
    fn json(&mut self, key: &str, _value: &str) {
        self.null(key);
    }

    /// A count, or bytes; at most the largest whole number.
    fn count(&mut self, key: &str, value: u64) {
        self.int(key, i64::try_from(value).unwrap_or(i64::MAX));
    }
    /// The same, or nothing if it is not known.
    fn known(&mut self, key: &str, value: Option<impl TryInto<i64>>) {
        match value {
            Some(value) => self.int(key, value.try_into().unwrap_or(i64::MAX)),
            None => self.null(key),
        }
    }
    /// A string, or nothing if it is not known.
    fn known_text(&mut self, key: &str, value: Option<&str>) {
        match value {
            Some(value) => self.text(key, value),
            None => self.null(key),
        }
    }
    /// An object that describes a value, or nothing without one.
    fn object<T>(&mut self, key: &str, value: Option<T>, describe: impl FnOnce(T, &mut Self)) {
        let Some(value) = value else {
            return self.null(key);
        };
        self.begin(key);
        describe(value, self);
        self.end();
    }
    /// A list of objects, one for each item.
    fn list<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut describe: impl FnMut(T, &mut Self),
    ) {
        self.begin_list(key);
        for item in items {
            self.begin("");
            describe(item, self);
            self.end();
        }
        self.end();
    }
}

/// The accounts and their total. `now` holds peaks and totals; live bytes and blocks too, unless
/// `at_end` has them as the script left them.
pub fn describe_accounts(
    now: &Snapshot,
    at_end: Option<&Snapshot>,
    is_active: impl Fn(Account) -> bool,
    sink: &mut impl Sink,
) {
    let live_figures = at_end.unwrap_or(now);
    sink.begin("accounts");
    for (account, figures) in now.accounts() {
        let live = live_figures.account(account);
        sink.begin(account.name());
        sink.flag("active", is_active(account));
        figures!(sink, live: live_bytes);
        figures!(sink, figures: peak_bytes);
        figures!(sink, live: live_blocks);
        figures!(sink, figures: total_blocks refused failed injected);
        if at_end.is_some() {
            sink.int("finalized_live_bytes", figures.live_bytes as i64);
            sink.int("finalized_live_blocks", figures.live_blocks as i64);
        }
        sink.end();
    }
    sink.end();
    sink.begin("total");
    sink.int("live_bytes", live_figures.total_live_bytes as i64);
    sink.int("peak_bytes", now.total_peak_bytes as i64);
    if at_end.is_some() {
        sink.int("finalized_live_bytes", now.total_live_bytes as i64);
    }
    sink.end();
}
