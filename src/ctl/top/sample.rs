//! A moment of the view: the running hosts, with their rates since the last moment.
//!
//! A process is identified by boot, pid namespace, process id and start time. So a process id that is used
//! again starts without rates; so does a program that replaces another by `exec`.

use crate::failure::Failure;
use crate::find;
use crate::find::Name;
use crate::process::Usage;
use pyhost_ledger::card::ProcessState;
use pyhost_ledger::{Account, Scope, Snapshot};
use pyhost_os::clock;
use pyhost_record::directory::{self, Entry, Here, Identity};
use pyhost_record::{Record, SIZE};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// A host at the moment.
pub struct SampledHost {
    pub identity: Identity,
    pub record: Record,
    pub resident: Option<u64>,
    pub seconds: u64,
    /// The last moment, for rates.
    pub since: Option<Since>,
}

/// An earlier moment of a host, and how long ago it was.
#[derive(Clone, Copy, Debug)]
pub struct Since {
    snapshot: Snapshot,
    seconds: f64,
}

/// Changes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    pub allocations: f64,
    /// Live bytes.
    pub growth: f64,
}

/// A cap and what is live below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    pub scope: Scope,
    pub cap: u64,
    /// Live bytes of its scope.
    pub live: u64,
}

impl Use {
    /// How much of the cap is live, in percent.
    pub fn percent(&self) -> u64 {
        let percent = u128::from(self.live) * 100 / u128::from(self.cap.max(1));
        percent.min(999) as u64
    }
}

impl SampledHost {
    /// A host of which nothing earlier is known.
    pub fn at_once(found: find::FoundHost) -> Self {
        let find::FoundHost {
            identity,
            record,
            usage,
        } = found;
        let until = match record.card().ended() {
            0 => clock::now(),
            ended => ended,
        };
        let started = record.card().started.load(Relaxed);
        SampledHost {
            resident: usage.resident,
            seconds: until.saturating_sub(started) / 1_000_000_000,
            identity,
            record,
            since: None,
        }
    }

    fn rates(&self, count: impl Fn(&Snapshot) -> (u64, u64)) -> Option<Rates> {
        let since = self.since?;
        let (blocks, bytes) = count(&self.record.snapshot);
        let (earlier_blocks, earlier_bytes) = count(&since.snapshot);
        let moved = bytes as i128 - earlier_bytes as i128;
        Some(Rates {
            allocations: blocks.checked_sub(earlier_blocks)? as f64 / since.seconds,
            growth: moved as f64 / since.seconds,
        })
    }

    pub fn total_rates(&self) -> Option<Rates> {
        let blocks = |snapshot: &Snapshot| {
            let all = snapshot.accounts().map(|(_, figures)| figures.total_blocks);
            all.fold(0, u64::wrapping_add)
        };
        self.rates(|snapshot| (blocks(snapshot), snapshot.total_live_bytes))
    }

    pub fn account_rates(&self, account: Account) -> Option<Rates> {
        self.rates(|snapshot| {
            let figures = snapshot.account(account);
            (figures.total_blocks, figures.live_bytes)
        })
    }

    pub fn cap(&self, scope: Scope) -> Option<Use> {
        let cap = self.record.caps.iter().find(|cap| cap.scope == scope)?;
        Some(Use {
            scope,
            cap: cap.bytes,
            live: match scope {
                Scope::Total => self.record.snapshot.total_live_bytes,
                Scope::Account(account) => self.record.snapshot.account(account).live_bytes,
            },
        })
    }

    pub fn fullest(&self) -> Option<Use> {
        let all = self
            .record
            .caps
            .iter()
            .filter_map(|cap| self.cap(cap.scope));
        all.max_by_key(Use::percent)
    }
}

struct Before {
    at: Instant,
    started: u64,
    snapshot: Snapshot,
}

pub struct Sampler {
    directory: PathBuf,
    before: HashMap<String, Before>,
    watched: Option<Watched>,
}

/// A process that is watched to its end. Its file stays open, so that its last counters can be read after
/// the name has gone.
struct Watched {
    entry: Entry,
    file: File,
}

/// The hosts at one moment.
pub struct Moment {
    /// The hosts that run, by process id; of the watched one, its last counters.
    pub hosts: Vec<SampledHost>,
    /// How the watched process ended, once it has.
    pub ended: Option<String>,
}

impl Sampler {
    /// Of all hosts of a directory, or of the one that is named.
    pub fn new(directory: &Path, pid: Option<&Name>) -> Result<Self, Failure> {
        let watched = match pid {
            None => None,
            Some(pid) => {
                let watched = Watched::open(pid, directory)?;
                let killed = || find::of_process(pid, directory).is_ok();
                Some(watched.ok_or_else(|| match killed() {
                    true => Failure(format!(
                        "process {pid} runs no more; expected a host that runs, or \
                         `pyhostctl report --text {pid}`"
                    )),
                    false => Failure(format!(
                        "no host with process id {pid} runs in '{}'; expected one that was started \
                         with --live",
                        directory.display()
                    )),
                })?)
            }
        };
        Ok(Sampler {
            directory: directory.to_owned(),
            before: HashMap::new(),
            watched,
        })
    }

    pub fn look(&mut self) -> Result<Moment, Failure> {
        let mut ended = None;
        let found = match &mut self.watched {
            None => find::running(&self.directory)?.hosts,
            Some(watched) => {
                let (record, end) = watched.look(&self.directory)?;
                ended = end;
                let identity = watched.entry.identity.clone();
                vec![find::FoundHost {
                    usage: Usage::of(&identity, &Here::find()),
                    identity,
                    record,
                }]
            }
        };
        let now = Instant::now();
        let mut before = std::mem::take(&mut self.before);
        let mut hosts = Vec::with_capacity(found.len());
        for host in found {
            let started = host.record.card().started.load(Relaxed);
            let name = host.identity.file_name();
            let earlier = before
                .remove(&name)
                .filter(|earlier| earlier.started == started);
            let since = earlier.map(|earlier| Since {
                snapshot: earlier.snapshot,
                seconds: now.duration_since(earlier.at).as_secs_f64().max(0.001),
            });
            let before = Before {
                at: now,
                started,
                snapshot: host.record.snapshot,
            };
            self.before.insert(name, before);
            let mut host = SampledHost::at_once(host);
            host.since = since;
            hosts.push(host);
        }
        Ok(Moment { hosts, ended })
    }
}

impl Watched {
    /// The file of a process that runs; None where no host of that name does.
    fn open(name: &Name, directory: &Path) -> Result<Option<Self>, Failure> {
        let here = Here::find();
        let entries = directory::entries(directory).unwrap_or_default();
        let alive = entries
            .into_iter()
            .filter(|entry| name.fits(&entry.identity) && entry.is_alive(&here));
        let Some(entry) = name.choose(alive.collect(), directory)? else {
            return Ok(None);
        };
        let file = match pyhost_record::open(&entry.path) {
            Ok(file) => file,
            // It has just ended.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(Failure::unreadable(&entry.path, &error));
            }
        };
        let watched = Watched { entry, file };
        Ok(watched.read()?.is_running().then_some(watched))
    }

    fn read(&self) -> Result<Record, Failure> {
        let cannot = |error| Failure::unreadable(&self.entry.path, &error);
        let length = self.file.metadata().map_err(cannot)?.len();
        let start = length.saturating_sub(SIZE as u64);
        let mut bytes = vec![0; SIZE];
        self.file.read_exact_at(&mut bytes, start).map_err(cannot)?;
        Record::of_bytes(&bytes).map_err(|error| Failure::of(&self.entry.path, error))
    }

    /// The counters, and how the process ended, if it has. Whether it runs is asked first: what is
    /// read after an end is the last word.
    fn look(&mut self, directory: &Path) -> Result<(Record, Option<String>), Failure> {
        let runs = self.entry.is_alive(&Here::find());
        let record = self.read()?;
        let name = Name::of(&self.entry.identity);
        let state = record.card().state().0;
        if state == ProcessState::Running && runs {
            return Ok((record, None));
        }
        if state == ProcessState::Exec
            && let Ok(Some(next)) = Watched::open(&name, directory)
        {
            // The program that took its place is a host.
            *self = next;
            return Ok((self.read()?, None));
        }
        // A process writes its end into the file before it ends, and exists a moment longer.
        let mut how = record.card().ending();
        if state == ProcessState::Exec && !runs {
            how += ", which has ended";
        }
        Ok((record, Some(how)))
    }
}
