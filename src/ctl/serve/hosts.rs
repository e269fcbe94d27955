//! Hosts as processes of the metrics.

use crate::find::{Found, FoundHost};
use pyhost_ledger::{REPORTED, Scope, header::Header};
use pyhost_os::clock;
use pyhost_record::directory;
use pyhost_record::metrics::{self, ABOUT, Form, Machine, Pid, Process};
use std::sync::atomic::Ordering::Relaxed;

/// The metrics of these hosts and of the machine, as text.
pub fn metrics_of(found: &Found, form: Form) -> String {
    let hosts = found.hosts.iter();
    let texts: Vec<_> = hosts.map(|host| texts(host.record.header())).collect();
    let namespace = directory::pid_namespace();
    let hosts = found.hosts.iter().zip(&texts);
    let processes = hosts.map(|(host, texts)| process(host, texts, namespace));
    let mut processes: Vec<Process<'_>> = processes.collect();
    processes.sort_by_key(|process| process.pid);
    let machine = Machine {
        hosts: found.hosts.len() as u64,
        unreadable_files: found.unreadable_files,
    };
    let mut text = String::new();
    let _ = metrics::write(form, &processes, Some(&machine), &mut text);
    text
}

/// The strings of a header: the script's name, and the values of [`ABOUT`].
fn texts(header: &Header) -> (String, [String; ABOUT.len()]) {
    let about = [
        &header.host,
        &header.python,
        &header.mimalloc,
        &header.allocator,
        &header.native,
        &header.profile,
    ];
    (header.script.get(), about.map(|text| text.get()))
}

/// A host as the metrics see it. `namespace` is this process's pid namespace: hosts of others are labelled with theirs.
fn process<'a>(
    host: &'a FoundHost,
    (command, about): &'a (String, [String; ABOUT.len()]),
    namespace: u64,
) -> Process<'a> {
    let (record, header) = (&host.record, host.record.header());
    let mut caps = [None; Scope::COUNT];
    for cap in &record.caps {
        caps[cap.scope.index()] = Some(cap.bytes);
    }
    let other = Some(host.entry.identity.pid_namespace).filter(|&other| other != namespace);
    Process {
        pid: Some(Pid {
            namespace: other,
            id: host.entry.identity.pid,
        }),
        command,
        about: about.each_ref().map(String::as_str),
        now: &record.snapshot,
        live: &record.snapshot,
        active: std::array::from_fn(|index| record.is_active(REPORTED[index])),
        caps,
        cap_age: header.cap_age(clock::monotonic()),
        inherited: (header.forked.load(Relaxed) == 1).then(|| header.inherited.load(Relaxed)),
        resident: host.usage.resident,
        peak_resident: host.usage.peak_resident,
        started: header.started.load(Relaxed),
        cpu_seconds: host.usage.cpu_seconds,
        wall_seconds: None,
        exit_status: None,
    }
}
