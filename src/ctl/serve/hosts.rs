//! Hosts as processes of the metrics.

use crate::find::{Found, FoundHost};
use pyhost_ledger::{REPORTED, Scope, header::Header};
use pyhost_os::clock;
use pyhost_record::directory::{self, Identity};
use pyhost_record::metrics::{self, ABOUT, Form, Machine, Member, Pid, Process};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, atomic::Ordering::Relaxed};

/// The processes of services: each has its place as long as it runs, the next then.
#[derive(Default)]
pub struct Workers(Mutex<HashMap<Kind, Vec<Option<Identity>>>>);

type Kind = (String, &'static str);

impl Workers {
    /// The kind and the place of each host; `None` of one without a service.
    fn places(&self, hosts: &[FoundHost]) -> Vec<Option<(Kind, usize)>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = |it: &Identity| hosts.iter().any(|host| host.entry.identity == *it);
        for place in all.values_mut().flatten() {
            *place = place.take().filter(runs);
        }
        let place = |host: &FoundHost| {
            let (identity, header) = (&host.entry.identity, host.record.header());
            let service = Some(header.service.get()).filter(|name| !name.is_empty())?;
            let kind = (service, header.role());
            let places = all.entry(kind.clone()).or_default();
            let own = places.iter().position(|it| it.as_ref() == Some(identity));
            let free = || places.iter().position(Option::is_none);
            let place = own.or_else(free).unwrap_or(places.len());
            places.resize(places.len().max(place + 1), None);
            places[place] = Some(identity.clone());
            Some((kind, place))
        };
        hosts.iter().map(place).collect()
    }
}

/// The metrics of these hosts and of the machine, as text.
pub fn metrics_of(found: &Found, form: Form, workers: &Workers) -> String {
    let hosts = found.hosts.iter();
    let texts: Vec<_> = hosts.map(|host| texts(host.record.header())).collect();
    let namespace = directory::pid_namespace();
    let members = workers.places(&found.hosts);
    let hosts = found.hosts.iter().zip(&texts).zip(&members);
    let processes = hosts.map(|((host, texts), member)| {
        let member = member.as_ref().map(|((service, role), worker)| Member {
            service,
            role,
            worker: *worker,
        });
        process(host, texts, member, namespace)
    });
    let processes: Vec<Process<'_>> = processes.collect();
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
    member: Option<Member<'a>>,
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
        member,
        command,
        about: about.each_ref().map(String::as_str),
        now: &record.snapshot,
        live: &record.snapshot,
        active: std::array::from_fn(|index| record.is_active(REPORTED[index])),
        caps,
        cap_age: header.cap_age(clock::monotonic()),
        inherited: header.inherited(),
        resident: host.usage.resident,
        peak_resident: host.usage.peak_resident,
        started: header.started.load(Relaxed),
        cpu_seconds: host.usage.cpu_seconds,
        wall_seconds: None,
        exit_status: None,
    }
}
