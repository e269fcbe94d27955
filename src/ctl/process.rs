//! Facts about a running process, from `/proc`.

use pyhost_ledger::header::Header;
use pyhost_os::{calls, process::small_file, process::stat_fields};
use pyhost_record::directory::{Here, Identity};
use std::sync::atomic::Ordering::Relaxed;

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
        let (resident, peak_resident) = resident(identity.pid).unzip();
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

/// Resident bytes of a process, now and at most.
fn resident(pid: i32) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kilobytes = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name))?;
        small_file::kilobytes(value.as_bytes())
    };
    Some((kilobytes("VmRSS:")?, kilobytes("VmHWM:")?))
}

/// Seconds of processor time that a process has taken: fields 14 and 15 of `/proc/PID/stat`.
fn cpu_seconds(pid: i32) -> Option<f64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat_fields(&stat).skip(14 - 3);
    let mut ticks = || small_file::number::<u64>(fields.next()?);
    let ticks_per_second = calls::sysconf(libc::_SC_CLK_TCK) as f64;
    Some((ticks()? + ticks()?) as f64 / ticks_per_second)
}
