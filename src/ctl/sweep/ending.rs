//! How a run ended, by its status and its standard error.

use pyhost_os::signals::signal_name;
use serde::{Deserialize, Serialize};
use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Status(i32),
    /// With an exit status, after a `MemoryError` that nothing caught.
    MemoryError(i32),
    /// With an exit status, after a function in C returned a null without an exception, or a result with one.
    SystemError(i32),
    /// With an exit status, and `--leak-check` found a leak.
    Leak(i32),
    Signal(i32),
    /// By a fatal error of CPython's.
    Fatal,
    Hang,
}

impl End {
    /// Whether the program crashed, hung, leaked or broke the rules of the C API.
    pub fn is_finding(self) -> bool {
        !matches!(self, End::Status(_) | End::MemoryError(_))
    }

    /// The end of a process; without a status it took too long.
    pub fn of(status: Option<ExitStatus>, errors: &str) -> Self {
        let Some(status) = status else {
            return End::Hang;
        };
        let says = |words: &str| errors.contains(words);
        let is_fatal = says("Fatal Python error: ") && !says("Fatal Python error: Aborted");
        match (status.code(), status.signal()) {
            (Some(status), _) if has_leak(errors) => End::Leak(status),
            (Some(status), _) if errors.lines().any(has_system_error) => End::SystemError(status),
            (Some(0), _) => End::Status(0),
            (Some(status), _) if ends_with_memory_error(errors) => End::MemoryError(status),
            (Some(status), _) => End::Status(status),
            (None, Some(libc::SIGABRT)) if is_fatal => End::Fatal,
            (None, signal) => End::Signal(signal.unwrap_or_default()),
        }
    }

    /// For people: `crash by SIGSEGV`.
    pub fn text(self) -> String {
        match self {
            End::Status(status) => format!("status {status}"),
            End::MemoryError(status) => format!("MemoryError, status {status}"),
            End::SystemError(status) => format!("SystemError, status {status}"),
            End::Leak(status) => format!("leak, status {status}"),
            End::Signal(signal) => format!("crash by {}", signal_name(signal)),
            End::Fatal => "fatal error".to_owned(),
            End::Hang => "hang".to_owned(),
        }
    }
}

/// Whether a `MemoryError` is the last thing on standard error before a report of `--leak-check`.
fn ends_with_memory_error(errors: &str) -> bool {
    let own = errors.lines().take_while(|line| !is_of_leaks(line));
    let own: Vec<&str> = own.collect();
    own.iter().rev().take(3).any(|line| {
        let kind = line.split(':').next().unwrap_or_default();
        let name = kind.rsplit('.').next().unwrap_or_default();
        name.ends_with("MemoryError")
    })
}

/// CPython's words for a null without an exception, or a result with one.
fn has_system_error(line: &str) -> bool {
    let (is_error, says) = (line.starts_with("SystemError: "), |words| {
        line.contains(words)
    });
    is_error && (says(" without setting an exception") || says(" with an exception set"))
}

/// Whether a line begins a report of `--leak-check`.
fn is_of_leaks(line: &str) -> bool {
    line.starts_with("pyhost")
        && (line.contains(" leaked, ") || line.contains(" was freed twice, or written to after"))
}

/// Whether `--leak-check` reports a leak that is certain.
fn has_leak(errors: &str) -> bool {
    const UNSURE: &str = ": the exit status stays";
    // Each process of the run may have a report: a line, and indented ones that may say that it is not certain.
    let mut lines = errors.lines().peekable();
    while let Some(line) = lines.next() {
        let mut is_sure = is_of_leaks(line);
        while let Some(more) = lines.next_if(|line| line.starts_with(' ')) {
            is_sure &= !more.ends_with(UNSURE);
        }
        if is_sure {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use End::{Fatal, Hang, Leak, MemoryError, Signal, Status, SystemError};
    use libc::{SIGABRT, SIGSEGV};

    const LEAK: &str = "pyhost: 1 block leaked, 112 B: allocated since the script's start\n";
    const FREED_TWICE: &str = "pyhost: a block of 64 bytes of the account mem was freed twice, or written to after it was freed: x\n";
    const ROW: &str = "  mem     1 of 112 bytes\n";
    const UNSURE: &str = "ROW  1 thread of Python still ran: the exit status stays\n";

    #[test]
    fn a_run_is_known_by_its_status_and_its_last_lines() {
        let text = |errors: &str| {
            let errors = errors.replace("LEAK", LEAK).replace("TWICE", FREED_TWICE);
            let errors = errors.replace("UNSURE", UNSURE).replace("ROW", ROW);
            let errors = errors.replace("NULL", "SystemError: <f> returned");
            errors.replace("FATAL", "Fatal Python error:")
        };
        for (raw, errors, end) in [
            (0, "", Status(0)),
            (0, "Exception ignored in x\nMemoryError\n", Status(0)),
            (1 << 8, "Traceback\nMemoryError\n", MemoryError(1)),
            (1 << 8, "numpy._ArrayMemoryError: Unable\n", MemoryError(1)),
            (1 << 8, "ValueError: MemoryError\n", Status(1)),
            (3 << 8, "", Status(3)),
            (SIGSEGV, "FATAL Segmentation fault\n", Signal(SIGSEGV)),
            (SIGABRT, "FATAL Aborted\n", Signal(SIGABRT)),
            (SIGABRT, "FATAL f: no memory\n", Fatal),
            (23 << 8, "LEAK", Leak(23)),
            (0, "LEAK", Leak(0)),
            (1 << 8, "Traceback\nMemoryError\nLEAK", Leak(1)),
            (23 << 8, "", Status(23)),
            (
                1 << 8,
                "NULL without setting an exception\n",
                SystemError(1),
            ),
            (0, "NULL with an exception set\n", SystemError(0)),
            (1 << 8, "NULL bad argument\n", Status(1)),
            (0, "LEAKUNSURE", Status(0)),
            (1 << 8, "Traceback\nMemoryError\nLEAKUNSURE", MemoryError(1)),
            // Of two processes, one of which is certain.
            (23 << 8, "LEAKUNSURELEAKROW", Leak(23)),
            (23 << 8, "LEAKROWLEAKUNSURE", Leak(23)),
            (0, "LEAKUNSUREtext\nLEAKUNSURE", Status(0)),
            // A block that was freed twice is a finding, also beside a daemon thread.
            (0, "TWICELEAKUNSURE", Leak(0)),
        ] {
            let status = Some(ExitStatus::from_raw(raw));
            assert_eq!(End::of(status, &text(errors)), end, "{errors}");
        }
        assert_eq!(End::of(None, ""), Hang);
    }
}
