//! Facts about a running process, from `/proc`.

use pyhost_ledger::header::Header;
use pyhost_os::{calls, clock, process::small_file, process::stat_fields};
use pyhost_record::directory::{self, Here, Identity};
use std::sync::atomic::Ordering::Relaxed;
use std::{collections::HashMap, ffi::OsString};

/// The memory and processor time of a process. None for what `/proc` does not say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub resident: Option<u64>,
    pub peak_resident: Option<u64>,
    pub cpu_seconds: Option<f64>,
}

impl Usage {
    /// Reads the usage of a process. Nothing is known of a process of another pid namespace: its
    /// process id belongs to a different process here.
    pub fn of(identity: &Identity, here: &Here) -> Self {
        if !here.sees(identity) {
            return Usage::default();
        }
        let path = format!("/proc/{}/status", identity.pid);
        let memory = kilobytes(&path, ["VmRSS:", "VmHWM:"]);
        let (resident, peak_resident) = memory.map(<(u64, u64)>::from).unzip();
        Usage {
            resident,
            peak_resident,
            cpu_seconds: cpu_seconds(identity.pid),
        }
    }
}

/// The process of a header: its file may have any name.
pub fn identity_of(header: &Header) -> Identity {
    Identity {
        boot: header.boot.get(),
        pid_namespace: header.pid_namespace.load(Relaxed),
        pid: header.pid.load(Relaxed),
        start_ticks: header.start_ticks.load(Relaxed),
    }
}

/// Figures of a file of `/proc`, in bytes, by the beginnings of their lines.
fn kilobytes<const N: usize>(path: &str, names: [&str; N]) -> Option<[u64; N]> {
    let text = std::fs::read_to_string(path).ok()?;
    let found = names.map(|name| {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        small_file::kilobytes(value?.as_bytes())
    });
    let all: Option<Vec<u64>> = found.into_iter().collect();
    all?.try_into().ok()
}

/// What is resident of a process, in bytes: of it alone, and with its part of each page that several processes have (`Pss` of proc(5)).
#[derive(Clone, Copy, Debug, Default)]
pub struct Proportional {
    pub resident: u64,
    pub private: u64,
    pub proportional: u64,
}

impl Proportional {
    /// Of a process of another user nothing may be known.
    pub fn of(pid: i32) -> Option<Self> {
        let names = ["Rss:", "Pss:", "Private_Clean:", "Private_Dirty:"];
        let path = format!("/proc/{pid}/smaps_rollup");
        let [resident, proportional, clean, dirty] = kilobytes(&path, names)?;
        Some(Proportional {
            resident,
            private: clean + dirty,
            proportional,
        })
    }
}

/// A process that `/proc` shows.
pub struct Process {
    pub parent: i32,
    /// Clock ticks from the boot to its start.
    pub start: u64,
    pub seconds: u64,
}

/// All processes that run, by their ids.
pub fn all() -> HashMap<i32, Process> {
    let uptime = clock::nanoseconds(libc::CLOCK_BOOTTIME) as f64 / 1e9;
    let ticks_per_second = calls::sysconf(libc::_SC_CLK_TCK) as f64;
    let process = |name: OsString| {
        let id = name.to_str()?.parse().ok()?;
        let stat = std::fs::read(format!("/proc/{id}/stat")).ok()?;
        let start = directory::start_if_it_runs(&stat)?;
        let seconds = (uptime - start as f64 / ticks_per_second) as u64;
        let parent = small_file::number(stat_fields(&stat).nth(1)?)?;
        let process = Process {
            parent,
            start,
            seconds,
        };
        Some((id, process))
    };
    let found = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = found.filter_map(|entry| process(entry.file_name()));
    processes.collect()
}

/// The id, in the caller's pid namespace, of the process of an identity, which may be of a namespace below that.
pub fn id_of(identity: &Identity, here: &Here, processes: &HashMap<i32, Process>) -> Option<i32> {
    if here.sees(identity) {
        return Some(identity.pid).filter(|id| processes.contains_key(id));
    }
    let is_it = |id: i32| {
        let text = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("NSpid:"));
        let own = line.and_then(|line| line.split_whitespace().last());
        own.is_some_and(|own| own == identity.pid.to_string())
    };
    let mut same = processes
        .iter()
        .filter(|(_, it)| it.start == identity.start_ticks);
    same.find(|(id, _)| identity.boot == directory::boot() && is_it(**id))
        .map(|(id, _)| *id)
}

/// The words of a process's command line.
pub fn words(pid: i32) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    let words = line.split('\0').filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// Seconds of processor time that a process has taken: fields 14 and 15 of `/proc/PID/stat`.
fn cpu_seconds(pid: i32) -> Option<f64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat_fields(&stat).skip(14 - 3);
    let mut ticks = || small_file::number::<u64>(fields.next()?);
    let ticks_per_second = calls::sysconf(libc::_SC_CLK_TCK) as f64;
    Some((ticks()? + ticks()?) as f64 / ticks_per_second)
}
