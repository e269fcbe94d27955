//! What a report says that does not change while the process runs. Gathered once, at the start,
//! since a signal handler may not ask.

#![allow(unsafe_code)]

use crate::heap;
use crate::ledger::Account;
use crate::native;
use crate::numpy;
use pyhost_shared::moment;
use std::ffi::OsString;
use std::time::Instant;

/// The constant part of every report of a process.
#[derive(Debug)]
pub struct Facts {
    /// Python's version, such as `3.11.7`.
    pub python_version: String,
    /// mimalloc's version.
    pub mimalloc: String,
    /// All arguments of the process, bytes that are not UTF-8 replaced.
    pub argv: Vec<String>,
    /// What the script is called, such as `job.py`.
    pub command: String,
    /// When the host started, in UTC, as RFC 3339.
    pub started: String,
    /// The same moment, in nanoseconds since the epoch.
    pub started_at: u64,
    /// The same moment, to measure from.
    pub clock: Instant,
    /// The allocator's name.
    pub allocator: &'static str,
    /// Whether CPython's debug hooks are in force.
    pub debug_hooks: bool,
    /// The name of the native mode.
    pub native: &'static str,
    /// The name of the profile.
    pub profile: &'static str,
}

/// mimalloc's version, such as `3.3.2`.
pub fn mimalloc_version() -> String {
    let number = heap::version();
    format!("{}.{}.{}", number / 10000, number / 100 % 100, number % 100)
}

impl Facts {
    /// Gathers the facts of this process.
    pub fn gather(
        argv: &[OsString],
        command: &str,
        python_version: &str,
        allocator: &'static str,
        debug_hooks: bool,
        profile: &'static str,
    ) -> Self {
        Facts {
            python_version: python_version.to_owned(),
            mimalloc: mimalloc_version(),
            argv: argv
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            command: command.to_owned(),
            started: utc_now(),
            started_at: moment::now(),
            clock: Instant::now(),
            allocator,
            debug_hooks,
            native: native::mode().name(),
            profile,
        }
    }

    /// Whether anything is booked to `account` in this process.
    pub fn is_active(&self, account: Account) -> bool {
        match account {
            Account::Numpy => numpy::is_active(),
            Account::Native | Account::Mapped => {
                self.native == native::Mode::Count.name() && self.allocator != "system"
            }
            _ => true,
        }
    }
}

/// Now, such as `2026-11-21T13:08:00Z`.
pub fn utc_now() -> String {
    // SAFETY: both calls fill structures of ours.
    let time = unsafe {
        let seconds = libc::time(std::ptr::null_mut());
        let mut time: libc::tm = std::mem::zeroed();
        libc::gmtime_r(&seconds, &mut time);
        time
    };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        time.tm_year + 1900,
        time.tm_mon + 1,
        time.tm_mday,
        time.tm_hour,
        time.tm_min,
        time.tm_sec
    )
}
