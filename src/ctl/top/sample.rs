//! A moment of the view: the running hosts, with their rates since the last moment.
//!
//! A process is identified by boot, pid namespace, process id and start time. So a process id that is used
//! again starts without rates; so does a program that replaces another by `exec`.

use crate::find::Directories;
use crate::{find, output::Failure, process::Usage};
use derive_more::Deref;
use pyhost_ledger::{AccountFigures, Scope, Snapshot, header::ProcessState};
use pyhost_record::directory::{Entry, Here};
use pyhost_record::{Record, SIZE, metrics::Pid};
use std::{collections::HashMap, fs::File, io, os::unix::fs::FileExt};
use std::{sync::atomic::Ordering::Relaxed, time::Instant};

/// A host at the moment.
#[derive(Deref)]
pub struct SampledHost {
    #[deref]
    found: find::FoundHost,
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
        SampledHost {
            seconds: found.record.header().lasted(true).unwrap_or(0) / 1_000_000_000,
            found,
            since: None,
        }
    }

    pub fn figures(&self, scope: Scope) -> AccountFigures {
        figures(&self.record.snapshot, scope)
    }

    pub fn total(&self) -> AccountFigures {
        self.figures(Scope::Total)
    }

    pub fn rates(&self, scope: Scope) -> Option<Rates> {
        let since = self.since?;
        let (now, before) = (self.figures(scope), figures(&since.snapshot, scope));
        let blocks = now.total_blocks.checked_sub(before.total_blocks)?;
        let moved = now.live_bytes as i128 - before.live_bytes as i128;
        Some(Rates {
            allocations: blocks as f64 / since.seconds,
            growth: moved as f64 / since.seconds,
        })
    }

    pub fn cap(&self, scope: Scope) -> Option<Use> {
        let cap = self.record.caps.iter().find(|cap| cap.scope == scope)?;
        Some(Use {
            scope,
            cap: cap.bytes,
            live: self.figures(scope).live_bytes,
        })
    }

    pub fn fullest(&self) -> Option<Use> {
        let caps = self.record.caps.iter();
        let all = caps.filter_map(|cap| self.cap(cap.scope));
        all.max_by_key(Use::percent)
    }
}

/// The figures of an account or of all; blocks of all may lie in each other, so none are live.
fn figures(snapshot: &Snapshot, scope: Scope) -> AccountFigures {
    let blocks = snapshot.accounts().map(|(_, figures)| figures.total_blocks);
    match scope {
        Scope::Account(account) => *snapshot.account(account),
        Scope::Total => AccountFigures {
            live_bytes: snapshot.total_live_bytes,
            peak_bytes: snapshot.total_peak_bytes,
            total_blocks: blocks.fold(0, u64::wrapping_add),
            refused: snapshot.refused(),
            ..AccountFigures::default()
        },
    }
}

pub struct Sampler {
    directories: Directories,
    /// By file and start: a program that replaces another by `exec` has its file and another start.
    before: HashMap<(String, u64), (Instant, Snapshot)>,
    watched: Option<Watched>,
}

/// A process that is watched to its end. Its file stays open, so that its last counters can be read after
/// the name has gone.
struct Watched {
    entry: Entry,
    file: File,
}

pub struct Moment {
    /// The hosts that run, by process id; of the watched one, its last counters.
    pub hosts: Vec<SampledHost>,
    /// How the watched process ended, once it has.
    pub ended: Option<String>,
}

impl Sampler {
    /// Of all hosts of the directories, or of the one that is named.
    pub fn new(directories: &Directories, pid: Option<&Pid>) -> Result<Self, Failure> {
        let missing = |pid| match find::of_process(pid, directories) {
            Ok(_) => Failure(format!(
                "process {pid} runs no more; expected a host that runs, or `pyhostctl report --text {pid}`"
            )),
            Err(_) => Failure(format!(
                "no host with process id {pid} runs in {}; expected one that was started with --live",
                directories
            )),
        };
        let open = |pid| Watched::open(pid, directories)?.ok_or_else(|| missing(pid));
        let watched = pid.map(open).transpose()?;
        Ok(Sampler {
            directories: directories.clone(),
            before: HashMap::new(),
            watched,
        })
    }

    pub fn look(&mut self) -> Result<Moment, Failure> {
        let mut ended = None;
        let found = match &mut self.watched {
            None => find::running(&self.directories)?.hosts,
            Some(watched) => {
                let (record, end) = watched.look(&self.directories)?;
                ended = end;
                let entry = watched.entry.clone();
                vec![find::FoundHost {
                    name: Pid::of(&entry.identity),
                    usage: Usage::of(&entry.identity, &Here::find()),
                    entry,
                    record,
                }]
            }
        };
        let now = Instant::now();
        let mut before = std::mem::take(&mut self.before);
        let mut hosts = Vec::with_capacity(found.len());
        for host in found {
            let started = host.record.header().started.load(Relaxed);
            let process = (host.entry.identity.file_name(), started);
            let since = before.remove(&process).map(|(at, snapshot)| Since {
                snapshot,
                seconds: now.duration_since(at).as_secs_f64().max(0.001),
            });
            self.before.insert(process, (now, host.record.snapshot));
            hosts.push(SampledHost {
                since,
                ..SampledHost::at_once(host)
            });
        }
        Ok(Moment { hosts, ended })
    }
}

impl Watched {
    /// The file of a process that runs; None if no host of that name does.
    fn open(name: &Pid, directories: &Directories) -> Result<Option<Self>, Failure> {
        let here = Here::find();
        let is_one = |it: &Entry| name.fits(&it.identity) && it.is_alive(&here);
        let alive = directories.files().into_iter().filter(is_one);
        let Some(entry) = find::choose(name.id, alive.collect(), directories)? else {
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
    fn look(&mut self, directories: &Directories) -> Result<(Record, Option<String>), Failure> {
        let runs = self.entry.is_alive(&Here::find());
        let record = self.read()?;
        let name = Pid::of(&self.entry.identity);
        let state = record.header().state().0;
        if state == ProcessState::Running && runs {
            return Ok((record, None));
        }
        if state == ProcessState::Exec
            && let Ok(Some(next)) = Watched::open(&name, directories)
        {
            // The program that took its place is a host.
            *self = next;
            return Ok((self.read()?, None));
        }
        // A process writes its end into the file before it ends, and exists a moment longer.
        let mut how = record.header().ending();
        if state == ProcessState::Exec && !runs {
            how += ", which has ended";
        }
        Ok((record, Some(how)))
    }
}
