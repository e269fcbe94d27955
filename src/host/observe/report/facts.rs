//! Facts of a report that do not change while the process runs. Gathered once, at the start: a signal
//! handler may not gather them.

use crate::heap;
use crate::ledger::{Account, LEDGER};
use crate::libc_exports::native;
use crate::python::numpy;
use std::ffi::OsString;

/// The constant part of every report of a process.
#[derive(Debug)]
pub struct Facts {
    /// Python's version, such as `3.11.7`.
    pub python_version: String,
    pub mimalloc: String,
    /// All arguments of the process, bytes that are not UTF-8 replaced.
    pub argv: Vec<String>,
    /// The script's name, such as `job.py`.
    pub command: String,
    pub allocator: &'static str,
    pub debug_hooks: bool,
    /// The name of the native mode.
    pub native: &'static str,
    pub profile: &'static str,
}

/// mimalloc's version, such as `3.3.2`.
pub fn mimalloc_version() -> String {
    let number = heap::version();
    format!("{}.{}.{}", number / 10000, number / 100 % 100, number % 100)
}

impl Facts {
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
            // A tool or PYTHONMALLOC chooses another allocator only after the host's own start. Blocks
            // that were booked before stay booked.
            Account::Native | Account::Mapped => {
                let is_counted = self.native == native::Mode::Count.name();
                let figures = || *LEDGER.snapshot().account(account);
                is_counted && self.allocator != "system" || figures().total_blocks > 0
            }
            _ => true,
        }
    }
}
