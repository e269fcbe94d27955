//! `pyhostctl ps`: the hosts that run, a line each.

use crate::failure::{Failure, print};
use crate::find;
use crate::top::clock;
use pyhost_ledger::Scope;
use pyhost_os::bytes::Bytes;
use pyhost_os::moment;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// Lists the hosts of a directory.
///
/// # Errors
/// The directory cannot be read, or standard output cannot be written.
pub fn run(directory: &Path) -> Result<(), Failure> {
    let mut text = format!(
        "{:>8} {:>10} {:>11} {:>11} {:>11} {:>11} {:>8}  COMMAND\n",
        "PID", "TIME", "LIVE", "PEAK", "RESIDENT", "CAP", "REFUSED"
    );
    for host in find::running(directory)?.hosts {
        let record = &host.record;
        let seconds =
            moment::now().saturating_sub(record.card().started.load(Relaxed)) / 1_000_000_000;
        let cap = record.caps.iter().find(|cap| cap.scope == Scope::Total);
        let shown =
            |bytes: Option<u64>| bytes.map_or("-".to_owned(), |bytes| Bytes(bytes).to_string());
        let refused = record.snapshot.refused();
        text += &format!(
            "{:>8} {:>10} {:>11} {:>11} {:>11} {:>11} {:>8}  {}\n",
            host.identity.pid,
            clock(seconds),
            shown(Some(record.snapshot.total_live_bytes)),
            shown(Some(record.snapshot.total_peak_bytes)),
            shown(host.usage.resident),
            shown(cap.map(|cap| cap.bytes)),
            refused,
            record.card().command()
        );
    }
    print(&text)
}
