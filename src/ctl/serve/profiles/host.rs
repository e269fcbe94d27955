//! The host that a request means.

use crate::find::{self, Directories, FoundHost};
use crate::serve::response::{BAD_REQUEST, NOT_FOUND, Response};
use crate::{lines::unwritten, output::Failure, stacks::Stacks};
use pyhost_os::bytes::Bytes;
use pyhost_os::clock::{Utc, now};
use pyhost_record::{directory::lines_beside, lines::samples_of, metrics::Pid};
use std::{fmt::Write, sync::atomic::Ordering::Relaxed};

impl FoundHost {
    /// The host of that name that runs; without a name, the only one that has samples.
    pub fn sampled(name: Option<&Pid>, directories: &Directories) -> Result<Self, Response> {
        let hosts = all(directories)?;
        match name {
            Some(name) => FoundHost::named(name, hosts, directories),
            None => FoundHost::only(hosts, directories),
        }
    }

    fn named(
        name: &Pid,
        mut hosts: Vec<Self>,
        directories: &Directories,
    ) -> Result<Self, Response> {
        hosts.retain(|host| name.fits(&host.entry.identity));
        let entries = hosts.iter().map(|host| host.entry.clone()).collect();
        let chosen = find::choose(name.id, entries, directories);
        let chosen = chosen.map_err(|Failure(text)| Response::no_profile(BAD_REQUEST, &text))?;
        let identity = chosen.map(|entry| entry.identity);
        let mut hosts = hosts.into_iter();
        let found = hosts.find(|host| identity.as_ref() == Some(&host.entry.identity));
        found.ok_or_else(|| {
            let text = format!(
                "no host with process id {name} runs in {directories}; expected one that was started with --live \
                 (/debug/pprof/ lists them)"
            );
            Response::no_profile(NOT_FOUND, &text)
        })
    }

    fn only(mut hosts: Vec<Self>, directories: &Directories) -> Result<Self, Response> {
        let count = hosts.len();
        hosts.retain(FoundHost::has_samples);
        let text = match (hosts.len(), hosts.pop()) {
            (1, Some(host)) => return Ok(host),
            (0, _) if count == 0 => {
                format!(
                    "no host runs in {directories}; expected one that was started with --live --lines"
                )
            }
            (0, _) => format!(
                "none of the {count} hosts in {directories} takes samples; start one with --lines, or \
                 `pyhostctl lines --start PID` (/debug/pprof/ lists them)"
            ),
            (several, _) => {
                let text = format!(
                    "{several} hosts take samples; expected ?pid=PID, or the path /hosts/PID/debug/pprof/heap \
                     (/debug/pprof/ lists them)"
                );
                return Err(Response::no_profile(BAD_REQUEST, &text));
            }
        };
        Err(Response::no_profile(NOT_FOUND, &text))
    }

    /// The same process, later.
    pub fn again(&self, directories: &Directories) -> Result<Self, Response> {
        let mut hosts = all(directories)?.into_iter();
        let found = hosts.find(|host| host.entry.identity == self.entry.identity);
        found.ok_or_else(|| {
            let text = format!("process {} has ended meanwhile", self.name);
            Response::no_profile(NOT_FOUND, &text)
        })
    }

    /// The stacks of its samples, as a profile of this moment.
    pub fn stacks(&self) -> Result<Stacks, Response> {
        let samples = samples_of(&self.entry.path);
        let samples =
            samples.ok_or_else(|| Response::no_profile(NOT_FOUND, &self.without_samples()))?;
        let command = self.record.header().script.get();
        let stacks = Stacks::of_samples(&command, &samples);
        let stacks = stacks.map_err(|what| {
            let file = lines_beside(&self.entry.path);
            Response::failed(&format!("'{}' {what}", file.display()))
        })?;
        Ok(Stacks {
            started: Some(Utc(now())),
            ..stacks.in_total()
        })
    }

    /// Why it has no profile, and what to do.
    pub fn without_samples(&self) -> String {
        let name = self.name;
        unwritten(&name, self.record.header()).unwrap_or_else(|| {
            format!(
                "process {name} takes no samples; start it with --lines, or `pyhostctl lines --start {name}`"
            )
        })
    }

    pub fn command(&self) -> String {
        crate::stacks::named(&self.record.header().script.get())
    }

    /// How often other processes began or ended its samples.
    pub fn requests(&self) -> u64 {
        self.record.header().lines.answered.load(Relaxed)
    }

    /// Whether the host takes samples, or has taken some.
    pub fn has_samples(&self) -> bool {
        lines_beside(&self.entry.path).is_file()
    }
}

fn all(directories: &Directories) -> Result<Vec<FoundHost>, Response> {
    let found = find::running(directories).map_err(|Failure(text)| Response::failed(&text))?;
    Ok(found.hosts)
}

/// How to ask for a profile.
const HELP: &str = "
heap          bytes live now first, and those allocated so far
allocs        the same, those allocated so far first
?seconds=N    the change in N seconds, 1 to 300
?debug=1      as a table, for people
";

pub fn index(directories: &Directories) -> Result<String, Response> {
    let hosts = all(directories)?;
    let mut text = match hosts.len() {
        1 => "heap profiles of the host that runs here".to_owned(),
        count => format!("heap profiles of the {count} hosts that run here"),
    };
    text += ", of the samples of --lines\n\n";
    for host in &hosts {
        text += &line(host);
    }
    let sampled = hosts.iter().filter(|host| host.has_samples()).count();
    text += HELP;
    text += match sampled {
        0 => "no host takes samples: expected --lines, or pyhostctl lines --start PID\n",
        1 => "/debug/pprof/heap is that of the one host that takes samples\n",
        _ => "?pid=PID       the host, since several take samples\n",
    };
    Ok(text)
}

fn line(host: &FoundHost) -> String {
    let (name, command) = (host.name, host.command());
    let _one = super::MAKING.lock();
    let Some(samples) = samples_of(&host.entry.path) else {
        return format!("{command}: {}\n", host.without_samples());
    };
    let (taken, _) = samples.counts();
    let mut line = format!("/hosts/{name}/debug/pprof/heap  {command}, ");
    let ended = match samples.is_over {
        true => ", which have ended",
        false => "",
    };
    let of = match samples.interval {
        ..=1 => "every allocation".to_owned(),
        interval => format!("one sample in {}", Bytes(interval)),
    };
    let _ = writeln!(line, "{of}, {taken} samples{ended}");
    line
}
