//! A host's file as a report in JSON, with the field names of the host's own; what its process alone
//! knows is null.

use crate::cli::ReportOptions;
use crate::process::{Usage, identity_of};
use crate::show::to_text;
use crate::stored::Document;
use crate::{Failure, find, print};
use pyhost_ledger::card::{Card, State};
use pyhost_os::moment::Utc;
use pyhost_os::signals::signal_name;
use pyhost_record::Record;
use pyhost_record::describe::{
    SCHEMA, Sink, describe_accounts, describe_cap, describe_last_refusal,
};
use pyhost_record::directory::Here;
use pyhost_record::json::Json;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// Reports on processes that run: what their ledgers and `/proc` have, a line of JSON or a table each.
///
/// # Errors
/// One does not run or is no host with `--live`, or standard output cannot be written.
pub fn run(options: &ReportOptions, directory: &Path) -> Result<(), Failure> {
    let mut text = String::new();
    for name in &options.pids {
        let document = Document::read(&find::of_process(name, directory)?)?;
        match &document {
            Document::Record(record, true) if !options.text => text += &to_json(record, true),
            Document::Record(_, true) => text += &to_text(&document.stored()),
            _ => {
                return Err(Failure(format!(
                    "process {name} runs no more; expected a host that runs, or `pyhostctl show \
                     {name}`"
                )));
            }
        }
    }
    print(&text)
}

/// Resident bytes of a process, now and at most: from `/proc` where it runs, else what its host had noted
/// when it ended. None for what is not known.
pub fn resident_of_record(card: &Card, alive: bool) -> (Option<u64>, Option<u64>) {
    match alive {
        true => {
            let usage = Usage::of(&identity_of(card), &Here::find());
            (usage.resident, usage.peak_resident)
        }
        false => card.last_resident(),
    }
}

/// The report of a record; `alive` where its process runs.
pub fn to_json(record: &Record, alive: bool) -> String {
    let mut text = String::new();
    let mut sink = Json::new(&mut text);
    let card = record.card();
    sink.text("schema", SCHEMA);
    sink.flag("partial", true);
    sink.begin("host");
    sink.text("version", &card.host.get());
    sink.text("mimalloc", &card.mimalloc.get());
    sink.text("native", &card.native.get());
    sink.text("profile", &card.profile.get());
    sink.end();
    sink.begin("python");
    sink.text("version", &card.python.get());
    sink.null("debug_build");
    sink.null("free_threaded");
    sink.end();
    describe_process(card, alive, &mut sink);
    sink.begin("children");
    sink.int("forks", card.forks.load(Relaxed) as i64);
    for unknown in [
        "largest_peak_resident_bytes",
        "largest_peak_resident_at_most_bytes",
    ] {
        sink.null(unknown);
    }
    sink.end();
    sink.text("allocator", &card.allocator.get());
    sink.null("left_to");
    sink.flag("debug_hooks", card.debug_hooks.load(Relaxed) == 1);
    for unknown in ["numpy", "region", "faults", "guards", "leaks"] {
        sink.null(unknown);
    }
    describe_accounts(
        &record.snapshot,
        None,
        |account| record.is_active(account),
        &mut sink,
    );
    sink.null("big_blocks_left_out");
    sink.begin("caps");
    for cap in &record.caps {
        describe_cap(cap.scope, cap.bytes, cap.reserve_from, &mut sink);
    }
    sink.null("dossier");
    let refusal = card.refusal();
    let last = refusal.as_ref().map(|(_, text)| text.as_str());
    describe_last_refusal(card.refusals(), last, &mut sink);
    sink.end();
    sink.null("balance");
    sink.null("size_classes");
    sink.null("big_blocks");
    sink.null("at_peak");
    sink.finish();
    text
}

fn describe_process(card: &Card, alive: bool, sink: &mut impl Sink) {
    let pid = card.pid.load(Relaxed);
    let started = card.started.load(Relaxed);
    sink.begin("process");
    sink.int("pid", i64::from(pid));
    sink.begin_list("argv");
    for word in card.argv() {
        sink.text("", &word);
    }
    sink.end();
    sink.text("command", &card.script.get());
    sink.text("started", &Utc(started).to_string());
    let is_forked = card.forked.load(Relaxed) == 1;
    sink.flag("forked", is_forked);
    match is_forked {
        true => sink.int("inherited_live_bytes", card.inherited.load(Relaxed) as i64),
        false => sink.null("inherited_live_bytes"),
    }
    let until = match card.ended() {
        0 if alive => pyhost_os::moment::now(),
        ended => ended,
    };
    match until {
        0 => sink.null("wall_seconds"),
        until => sink.fraction("wall_seconds", until.saturating_sub(started) as f64 / 1e9),
    }
    match card.state() {
        _ if alive => sink.null("ended_by"),
        (State::Running, _) => sink.text("ended_by", "kill"),
        (State::Exec, _) => sink.text("ended_by", "exec"),
        (State::Exited, _) => sink.text("ended_by", "exit"),
        (State::Exhausted, _) => sink.text("ended_by", "_exit"),
        (State::Signalled, signal) => sink.text("ended_by", signal_name(signal)),
    }
    match card.state() {
        (State::Exited | State::Exhausted, status) if !alive => {
            sink.int("exit_status", i64::from(status))
        }
        _ => sink.null("exit_status"),
    }
    let (now, peak) = resident_of_record(card, alive);
    for (name, bytes) in [("resident_bytes", now), ("peak_resident_bytes", peak)] {
        match bytes {
            Some(bytes) => sink.int(name, bytes as i64),
            None => sink.null(name),
        }
    }
    match (alive, peak) {
        (_, None) => sink.null("peak_resident_source"),
        (true, _) => sink.text("peak_resident_source", "VmHWM"),
        (false, _) => sink.text("peak_resident_source", "ledger"),
    }
    sink.end();
}
