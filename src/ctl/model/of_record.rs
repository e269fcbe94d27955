//! The report of a host's file. What only the process itself knows is `None`.

use super::{Caps, Children, HostFacts, OfHeader, Process, Python, Report};
use crate::process::{Usage, identity_of};
use pyhost_ledger::header::{Header, ProcessState};
use pyhost_os::{clock::Utc, signals::signal_name};
use pyhost_record::describe::{SCHEMA, describe_accounts};
use pyhost_record::{Record, directory::Here, json::Json};
use serde_json::json;
use std::sync::atomic::Ordering::Relaxed;

/// A count as a report has it. Only a damaged file has more than fits.
pub fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Report {
    /// The report of a record; `alive` if its process runs.
    pub fn of_record(record: &Record, alive: bool) -> Self {
        let header = record.header();
        let mut text = String::new();
        let mut json = Json::new(&mut text);
        describe_accounts(&record.snapshot, None, |it| record.is_active(it), &mut json);
        json.finish();
        let caps = record.caps.iter().map(|cap| {
            let [bytes, reserve_from] = [cap.bytes, cap.reserve_from].map(whole);
            let height = json!({"cap_bytes": bytes, "reserve_from_bytes": reserve_from});
            (cap.scope.name().to_owned(), height)
        });
        Report {
            schema: SCHEMA.to_owned(),
            partial: true,
            host: HostFacts {
                version: Some(header.host.get()),
                mimalloc: Some(header.mimalloc.get()),
                native: Some(header.native.get()),
                profile: Some(header.profile.get()),
            },
            python: Python {
                version: Some(header.python.get()),
                ..Python::default()
            },
            process: process(header, alive),
            children: Some(Children {
                forks: whole(header.forks.load(Relaxed)),
                ..Children::default()
            }),
            allocator: Some(header.allocator.get()),
            debug_hooks: Some(header.debug_hooks.load(Relaxed) == 1),
            caps: Caps {
                scopes: caps.collect(),
                dossier: None,
                told_refusals: Some(whole(header.refusals.load(Relaxed))),
                last_refusal: header.refusal().map(|(_, text)| text),
            },
            of_header: Some(OfHeader {
                command: header.command(),
                status: match alive {
                    true => "runs".to_owned(),
                    false => header.ending(),
                },
            }),
            // The accounts and the total.
            ..serde_json::from_str(&text).unwrap_or_default()
        }
    }
}

fn process(header: &Header, alive: bool) -> Process {
    let (ended_by, status) = match header.state() {
        (ProcessState::Running, _) => ("kill", None),
        (ProcessState::Exec, _) => ("exec", None),
        (ProcessState::Exited, status) => ("exit", Some(status)),
        (ProcessState::Exhausted, status) => ("_exit", Some(status)),
        (ProcessState::Signalled, signal) => (signal_name(signal), None),
    };
    let (resident, peak, source) = match alive {
        true => {
            let usage = Usage::of(&identity_of(header), &Here::find());
            (usage.resident, usage.peak_resident, "VmHWM")
        }
        false => {
            // As its host had noted when it ended.
            let (resident, peak) = header.last_resident();
            (resident, peak, "ledger")
        }
    };
    Process {
        pid: Some(header.pid.load(Relaxed).into()),
        argv: header.argv(),
        command: Some(header.script.get()),
        started: Some(Utc(header.started.load(Relaxed)).to_string()),
        forked: Some(header.inherited().is_some()),
        inherited_live_bytes: header.inherited().map(whole),
        wall_seconds: header.lasted(alive).map(|it| it as f64 / 1e9),
        ended_by: (!alive).then(|| ended_by.to_owned()),
        exit_status: status.filter(|_| !alive).map(i64::from),
        resident_bytes: resident.map(whole),
        peak_resident_bytes: peak.map(whole),
        peak_resident_source: peak.map(|_| source.to_owned()),
        finalized_resident_bytes: None,
    }
}
