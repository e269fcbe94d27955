//! A host's file, read: the header and the ledger as plain data.
//!
//! The file may be torn, of another version or garbage: it is measured first, its first bytes are
//! compared, and whatever its counters say, nothing here panics. May allocate.

#![allow(unsafe_code)]

use derive_more::Display;
use pyhost_ledger::header::{Header, Magic, ProcessState};
pub use pyhost_ledger::own::SIZE;
use pyhost_ledger::{Account, Ledger, Scope, Snapshot, UNIT, Zeros, own::LARGEST_PAGE};
use pyhost_os::file::{self, Fd};
use pyhost_os::{bytes::Bytes, signals::signal_name, terminal_text::plain};
use std::fmt::{self, Write};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::{os::unix::fs::OpenOptionsExt, path::Path, sync::atomic::Ordering::Relaxed};

const HEADER: usize = size_of::<Header>();
const LEDGER: usize = size_of::<Ledger>();

/// The offset of the record in a file of `length` bytes. The record is the end of the file; before it is
/// the rest of a page of the machine that wrote it. Returns `None` for a length that no record has.
pub fn start_in_file(length: u64) -> Option<usize> {
    let start = usize::try_from(length.checked_sub(SIZE as u64)?).ok()?;
    (start.is_multiple_of(UNIT) && start < LARGEST_PAGE).then_some(start)
}

/// Opens a file to read, which may be anything: neither a pipe nor a terminal of that name does more than be refused later.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Opens a regular file, as [`open`] does. None for other files, and if it cannot be opened.
pub fn open_regular(path: &Path) -> Option<File> {
    let file = open(path).ok()?;
    file.metadata().is_ok_and(|it| it.is_file()).then_some(file)
}

/// The bytes of a regular file that has at most so many.
pub fn read_regular(path: &Path, most: u64) -> Result<Vec<u8>, Unreadable> {
    let file = open(path).map_err(Unreadable::System)?;
    let found = file.metadata().map_err(Unreadable::System)?;
    if !found.is_file() {
        return Err(Unreadable::NoFile);
    }
    if found.len() > most {
        return Err(Unreadable::Length(found.len()));
    }
    let mut bytes = Vec::new();
    let read = file.take(most).read_to_end(&mut bytes);
    read.map(|_| bytes).map_err(Unreadable::System)
}

/// Whether the bytes of a file begin as a record does, whole or not.
pub fn begins(file: &[u8]) -> bool {
    let start = start_in_file(file.len() as u64).unwrap_or(0);
    file[start..].starts_with(b"pyhcard")
}

/// Why a file is no record. Displays as the end of a line that begins with the file's name.
#[derive(Debug, Display)]
pub enum Unreadable {
    /// The system does not hand it over.
    #[display("cannot be read ({_0})")]
    System(io::Error),
    /// It is a directory, a pipe or the like.
    #[display("is not a regular file")]
    NoFile,
    #[display("has {_0} bytes; expected the {} of a ledger", SIZE)]
    Length(u64),
    /// Its header is of another version.
    #[display("is of version {}; expected version 1", _0.escape_default())]
    Version(char),
    /// It does not begin as a header or its ledger does not begin as a ledger.
    #[display("is no ledger; expected a file of --live")]
    Other,
}

/// A height over an account or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    pub scope: Scope,
    pub bytes: u64,
    /// Where its reserve begins, in bytes.
    pub reserve_from: u64,
}

/// A process's last word.
pub struct Record {
    header: Box<Header>,
    pub snapshot: Snapshot,
    pub caps: Vec<Cap>,
    /// Where in the ledger's bytes the bounds of its threads' cells lie; see [`Ledger::cells_to_close`].
    pub cells_to_close: Vec<usize>,
}

impl Record {
    pub fn read(path: &Path) -> Result<Self, Unreadable> {
        Record::of_bytes(&read_regular(path, (SIZE + LARGEST_PAGE) as u64)?)
    }

    pub fn of_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        let length = bytes.len() as u64;
        let start = start_in_file(length).ok_or(Unreadable::Length(length))?;
        let (of_header, of_ledger) = bytes[start..].split_at(HEADER);
        let mut header = Box::new(Header::ZEROS);
        let mut ledger = Box::new(Ledger::ZEROS);
        bytes_of(&mut *header).copy_from_slice(of_header);
        bytes_of(&mut *ledger).copy_from_slice(&of_ledger[..LEDGER]);
        match header.magic() {
            Magic::Known if ledger.has_magic() => {}
            Magic::Version(version) => return Err(Unreadable::Version(version as char)),
            _ => return Err(Unreadable::Other),
        }
        let caps = Scope::all().filter_map(|scope| {
            let bytes = ledger.cap(scope)?;
            Some(Cap {
                scope,
                bytes,
                reserve_from: ledger.hold(scope).unwrap_or(bytes),
            })
        });
        Ok(Record {
            snapshot: ledger.snapshot(),
            caps: caps.collect(),
            cells_to_close: ledger.cells_to_close().collect(),
            header,
        })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Whether anything is booked to `account` in the process.
    pub fn is_active(&self, account: Account) -> bool {
        self.header.active.load(Relaxed) & (1 << account as u32) != 0
    }

    /// Whether the process, as far as it knows, goes on.
    pub fn is_running(&self) -> bool {
        self.header.state().0 == ProcessState::Running
    }

    /// One line about a process that was killed: its id and command, the signal if the file has it, live
    /// and peak bytes, the largest accounts, the caps, the last refusal.
    pub fn last_words(&self) -> String {
        let header = &self.header;
        let pid = header.pid.load(Relaxed);
        let mut text = format!("process {pid} ({}) ", header.command());
        let total = self.snapshot;
        let [live, peak] = [total.total_live_bytes, total.total_peak_bytes].map(Bytes);
        let _ = write!(text, "{} with {live} live, peak {peak}", Killed(header));
        let mut rows: Vec<_> = total.accounts().collect();
        rows.sort_by_key(|(_, figures)| std::cmp::Reverse(figures.live_bytes));
        for (account, figures) in rows.iter().take(3).filter(|row| row.1.live_bytes > 0) {
            let _ = write!(text, ", {} {}", account.name(), Bytes(figures.live_bytes));
        }
        if let (_, Some(peak)) = header.last_resident() {
            let _ = write!(text, "; resident peak {}", Bytes(peak));
        }
        for cap in &self.caps {
            let _ = write!(text, "; cap of {} ({})", Bytes(cap.bytes), cap.scope.name());
        }
        if let Some((count, refusal)) = header.refusal() {
            let _ = write!(text, "; {count} refusals, the last: {}", plain(&refusal));
        }
        text
    }
}

/// Whether a process that runs no more did not end by itself: by a signal, without a word or with one, or by the host,
/// since a cap was used up.
pub fn was_killed(header: &Header) -> bool {
    matches!(
        header.state().0,
        ProcessState::Running | ProcessState::Signalled | ProcessState::Exhausted
    )
}

/// Displays how the process of a header was killed. Does not allocate.
pub struct Killed<'a>(pub &'a Header);

impl fmt::Display for Killed<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.state() {
            (ProcessState::Exhausted, status) => {
                write!(out, "ended with status {status}, its cap used up,")
            }
            (ProcessState::Signalled, signal) => match signal_name(signal) {
                "signal" => write!(out, "was killed by signal {signal}"),
                name => write!(out, "was killed by {name}"),
            },
            _ => {
                out.write_str("was killed")?;
                let kills = self.0.out_of_memory_kills().filter(|&kills| kills > 0);
                kills.map_or(Ok(()), |kills| {
                    write!(
                        out,
                        " (out-of-memory kills in its control group since it started: {kills})"
                    )
                })
            }
        }
    }
}

/// The bytes of a record that nothing was booked to: what tests of readers begin with.
pub fn blank() -> Vec<u8> {
    let (mut header, mut ledger) = (Box::new(Header::ZEROS), Box::new(Ledger::ZEROS));
    header.open();
    ledger.open();
    let mut bytes = vec![0; SIZE];
    bytes[..HEADER].copy_from_slice(bytes_of(&mut *header));
    bytes[HEADER..][..LEDGER].copy_from_slice(bytes_of(&mut *ledger));
    bytes
}

/// The header and the ledger: atomics alone, for which every pattern of bits is a value, without padding.
trait Atomics {}
impl Atomics for Header {}
impl Atomics for Ledger {}

fn bytes_of<T: Atomics>(value: &mut T) -> &mut [u8] {
    // SAFETY: its own bytes, of which every pattern is a value, as its trait says.
    unsafe { std::slice::from_raw_parts_mut((&raw mut *value).cast(), size_of::<T>()) }
}

/// Reads the header that begins at a place of a file.
pub(crate) fn read_header(file: &Fd, start: u64) -> Option<Header> {
    let mut header = Header::ZEROS;
    let read = file::read_at(file, bytes_of(&mut header), start).ok()?;
    (read == HEADER).then_some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_larger_pages_is_the_end_of_its_file() {
        for lead in [0, UNIT, 3 * UNIT, LARGEST_PAGE - UNIT] {
            let file = [vec![0; lead], blank()].concat();
            assert!(Record::of_bytes(&file).is_ok(), "{lead}");
        }
        for lead in [1, UNIT + 8, LARGEST_PAGE] {
            let file = [vec![0; lead], blank()].concat();
            let found = Record::of_bytes(&file);
            assert!(matches!(found, Err(Unreadable::Length(_))), "{lead}");
        }
    }

    /// `pyhostctl`'s `no_mutated_record_harms_its_reader` shows records of random bytes; this one is Miri's.
    #[test]
    fn no_pattern_of_bits_makes_the_reader_panic() {
        for byte in [0, 0x7f, 0x80, 0xff] {
            let mut bytes = blank();
            bytes[8..HEADER].fill(byte);
            bytes[HEADER + 8..].fill(byte);
            let record = Record::of_bytes(&bytes).unwrap();
            assert!(!record.last_words().is_empty());
            let mark = record.header().mark_of(u64::MAX);
            let _ = mark.map(|mark| mark.name().len());
        }
    }
}
