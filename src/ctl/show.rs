//! `pyhostctl show`: the accounts of a process that runs or was killed.

use crate::cli::ShowOptions;
use crate::report::{resident, rfc3339, to_json};
use crate::{Failure, find, print};
use pyhost_shared::bytes::Bytes;
use pyhost_shared::card::State;
use pyhost_shared::directory::{Entry, Here, Identity};
use pyhost_shared::record::Record;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

/// Shows what was asked for.
///
/// # Errors
/// It is not there or no host's, or standard output cannot be written.
pub fn run(options: &ShowOptions, directory: &Path) -> Result<(), Failure> {
    let path = match options.what.parse::<i32>() {
        Ok(pid) => find::of_process(pid, directory)?,
        Err(_) => PathBuf::from(&options.what),
    };
    let record =
        Record::read(&path).map_err(|error| Failure(format!("'{}' {error}", path.display())))?;
    let alive = is_alive(&path, &record);
    let text = match options.json {
        true => to_json(&record, alive),
        false => to_text(&record, alive),
    };
    print(&text)
}

/// Whether a record's process runs: by its card, since the file may have another name.
fn is_alive(path: &Path, record: &Record) -> bool {
    let card = record.card();
    let identity = Identity {
        boot: card.boot.get(),
        pid_namespace: card.pid_namespace.load(Relaxed),
        pid: card.pid.load(Relaxed),
        start_ticks: card.start_ticks.load(Relaxed),
    };
    let path = path.to_owned();
    record.is_running() && Entry { path, identity }.is_alive(&Here::find())
}

fn to_text(record: &Record, alive: bool) -> String {
    let card = record.card();
    let pid = card.pid.load(Relaxed);
    let how = match card.state() {
        _ if alive => "runs".to_owned(),
        (State::Running, _) => "was killed".to_owned(),
        (State::Exec, _) => "became another program".to_owned(),
        (State::Exited, status) => format!("ended with status {status}"),
        (State::Signalled, signal) => format!("ended by signal {signal}"),
    };
    let mut text = format!(
        "process {pid} ({}), Python {}, since {}: {how}\n{}",
        record.card().command(),
        card.python.get(),
        rfc3339(card.started.load(Relaxed)),
        record.table()
    );
    if let Some((now, peak)) = resident(pid).filter(|_| alive) {
        text += &format!("resident {}, peak {}\n", Bytes(now), Bytes(peak));
    }
    for cap in &record.caps {
        text += &format!("cap of {} ({})\n", Bytes(cap.bytes), cap.scope.name());
    }
    if let Some((count, refusal)) = card.refusal() {
        text += &format!("refusals told of: {count}; the last: {refusal}\n");
    }
    text
}
