//! `--ledger-file`: the ledger in a file that is mapped over it, so that a process that is killed
//! leaves its last counters; and `--read-ledger`, which shows such a file.
//!
//! The counters are updated as ever, by plain stores: a shared page costs no more. The kernel writes
//! the file, so it is there after SIGKILL and the OOM killer too. A forked child gets a copy of its
//! own and leaves the file to its parent.

#![allow(unsafe_code)]

use crate::bytes::Bytes;
use crate::error::Error;
use crate::ledger::{LEDGER, Ledger};
use crate::process;
use std::ffi::{OsStr, c_void};
use std::fmt::Write;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

const SIZE: usize = size_of::<Ledger>();

fn address() -> *mut c_void {
    (&raw const LEDGER).cast_mut().cast()
}

/// The file of a template, in which `%p` stands for the process id.
fn named(template: &OsStr) -> PathBuf {
    let text = template.to_string_lossy();
    PathBuf::from(text.replace("%p", &process::id().to_string()))
}

/// Puts the ledger into a file, which only its owner may read. While the process has one thread.
///
/// # Errors
/// The file cannot be made or mapped; the ledger stays where it is.
pub fn share(template: &OsStr) -> Result<(), Error> {
    let path = named(template);
    let refuse = || {
        Error::option(format!(
            "--ledger-file: '{}' cannot be written and mapped; expected a file that can",
            path.display()
        ))
    };
    if !SIZE.is_multiple_of(process::page_size() as usize) {
        return Err(refuse());
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    let file = options.mode(0o600).open(&path).map_err(|_| refuse())?;
    // SAFETY: the ledger is made of atomics alone and lies on pages of its own; the process has one
    // thread, which books nothing between the copy and the mapping.
    unsafe {
        let copied = libc::pwrite(file.as_raw_fd(), address(), SIZE, 0);
        let mapped = copied == SIZE as isize
            && libc::mmap(
                address(),
                SIZE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED,
                file.as_raw_fd(),
                0,
            ) != libc::MAP_FAILED;
        if !mapped {
            return Err(refuse());
        }
        libc::pthread_atfork(None, None, Some(part));
    }
    Ok(())
}

/// In a forked child: takes a copy of the ledger in place of the file.
unsafe extern "C" fn part() {
    // SAFETY: the child has one thread; the copy is mapped over the ledger in one step.
    unsafe {
        let copy = libc::mmap(
            null_mut(),
            SIZE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if copy == libc::MAP_FAILED {
            return; // it goes on in the parent's file, which is then wrong, but whole
        }
        std::ptr::copy_nonoverlapping(address().cast::<u8>(), copy.cast(), SIZE);
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        libc::mremap(copy, SIZE, SIZE, flags, address());
    }
}

/// Shows the counters of a file as a table.
///
/// # Errors
/// It is no ledger's file, or one of another version.
pub fn show(path: &OsStr) -> Result<String, Error> {
    let refuse = |what: &str| {
        let shown = Path::new(path).display();
        Error::option(format!("--read-ledger: '{shown}' {what}"))
    };
    let bytes = std::fs::read(path)
        .map_err(|_| refuse("cannot be read; expected a file of --ledger-file"))?;
    if bytes.len() != SIZE {
        return Err(refuse(&format!(
            "has {} bytes; expected the {SIZE} of a ledger of this version",
            bytes.len()
        )));
    }
    let ledger = Box::leak(Box::new(Ledger::new()));
    // SAFETY: a structure of atomics alone, for which every pattern of bits is a value.
    unsafe {
        let place: *mut u8 = (&raw mut *ledger).cast();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, SIZE);
    }
    if !ledger.has_magic() {
        return Err(refuse("is no ledger; expected a file of --ledger-file"));
    }
    let snapshot = ledger.snapshot();
    let mut text = format!(
        "{:<8}{:>12}{:>12}{:>13}{:>14}{:>9}{:>8}\n",
        "account", "live", "peak", "live blocks", "allocations", "refused", "failed"
    );
    for (account, figures) in snapshot.accounts() {
        let _ = writeln!(
            text,
            "{:<8}{:>12}{:>12}{:>13}{:>14}{:>9}{:>8}",
            account.name(),
            Bytes(figures.live_bytes).to_string(),
            Bytes(figures.peak_bytes).to_string(),
            figures.live_blocks,
            figures.total_blocks,
            figures.refused,
            figures.failed
        );
    }
    let _ = writeln!(
        text,
        "{:<8}{:>12}{:>12}",
        "total",
        Bytes(snapshot.total_live_bytes).to_string(),
        Bytes(snapshot.total_peak_bytes).to_string()
    );
    Ok(text)
}
