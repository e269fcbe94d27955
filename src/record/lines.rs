//! The samples of lines of a process that runs or was killed: read from the file beside its ledger's; and requests to begin
//! or to end them, which are the only thing that anybody else writes into a host's file.
//!
//! A request is a number in the header. The host looks for it in its slow path; so that it gets there soon, the upper bounds of
//! its threads' cells are closed, as the host itself does when an account changes hands.

use crate::{directory::lines_beside, open_regular, start_in_file};
use pyhost_ledger::CLOSED;
use pyhost_ledger::header::{Header, LinesAnswer, LinesCell};
use pyhost_os::{errno::Errno, file::lock_region};
use pyhost_sampler::Samples;
use pyhost_sampler::published::{is_whole, read};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs::OpenOptions, mem::offset_of, path::Path, sync::atomic::Ordering::Relaxed};

/// The largest file of samples that is read, in bytes.
const LARGEST: u64 = 1 << 30;
/// How often a reader tries to read a file that is being written.
const TRIES: u32 = 20;

/// The samples of the process whose ledger is in the file `path`. None without any, and if the file is not one that this
/// version of a host wrote. A copy of a file that is written all the time, or was when the process was killed, may have rows
/// of two moments. Ages are those at the last sample.
pub fn samples_of(path: &Path) -> Option<Samples> {
    let path = lines_beside(path);
    let mut words = words_of(&path, LARGEST)?;
    for _ in 0..TRIES {
        let again = words_of(&path, 64)?;
        if is_whole(&words, &again) {
            break;
        }
        sleep(Duration::from_millis(1));
        words = words_of(&path, LARGEST)?;
    }
    read(&words)
}

/// Why the samples of a process cannot be read, as the end of a sentence about them; None if nothing is known to keep it from
/// writing them.
pub fn unwritten_samples(header: &Header) -> Option<String> {
    let error = i32::try_from(header.lines.file_error.load(Relaxed)).unwrap_or(i32::MAX);
    let error = Some(Errno(error)).filter(|Errno(error)| *error != 0)?;
    Some(format!(
        "the process cannot write them beside its ledger ({error}); it tries again while it allocates, after pauses of 64 s at most"
    ))
}

/// The words of a file, or those of its first bytes.
fn words_of(path: &Path, most: u64) -> Option<Vec<u64>> {
    let mut bytes = Vec::new();
    let mut input = open_regular(path)?.take(most);
    input.read_to_end(&mut bytes).ok()?;
    let words = bytes.as_chunks().0.iter();
    Some(words.map(|word| u64::from_ne_bytes(*word)).collect())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The host does as it was asked.
    Done,
    /// It does so, but other hooks lie over the host's in Python's domains: what these pass on is sampled more slowly.
    BeneathHooks,
    /// The host leaves malloc to another allocator, or has no memory for samples.
    Refused,
    /// It has not allocated since.
    Silent,
    /// Other controllers were asking it all the time.
    Busy,
}

/// Asks the host of the file `path` to sample one of every `interval` bytes, or with 0 to end, and waits for its answer,
/// `patience` at most. Before that it waits at most three times as long for others that ask: one asks at a time, so that each
/// answer is to its own request. The host knows nothing of that lock.
pub fn ask(path: &Path, interval: u64, patience: Duration) -> io::Result<Answer> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
    let no_host = || io::Error::new(io::ErrorKind::InvalidData, "it is no ledger");
    let header = start_in_file(file.metadata()?.len()).ok_or_else(no_host)? as u64;
    let ledger = header + size_of::<Header>() as u64;
    let place = |field: usize| header + (offset_of!(Header, lines) + field) as u64;
    let load = |offset: u64| -> io::Result<u64> {
        let mut word = [0; 8];
        file.read_exact_at(&mut word, offset)?;
        Ok(u64::from_ne_bytes(word))
    };
    let store = |offset: u64, word: u64| file.write_all_at(&word.to_ne_bytes(), offset);
    let until = Instant::now() + 3 * patience;
    while let Err(Errno(error)) = lock_region(&file) {
        if !matches!(error, libc::EAGAIN | libc::EACCES | libc::EINTR) {
            return Err(io::Error::from_raw_os_error(error));
        }
        if Instant::now() > until {
            return Ok(Answer::Busy);
        }
        sleep(Duration::from_millis(5));
    }
    let number = load(place(offset_of!(LinesCell, asked)))?.wrapping_add(1);
    store(place(offset_of!(LinesCell, interval)), interval)?;
    store(place(offset_of!(LinesCell, asked)), number)?;
    let until = Instant::now() + patience;
    while load(place(offset_of!(LinesCell, answered)))? != number {
        let record = crate::Record::read(path);
        let bounds = record.map_err(|_| no_host())?.cells_to_close;
        for bound in bounds {
            store(ledger + bound as u64, CLOSED as u64)?;
        }
        if Instant::now() > until {
            return Ok(Answer::Silent);
        }
        sleep(Duration::from_millis(10));
    }
    let answer = load(place(offset_of!(LinesCell, answer)))?;
    Ok(match answer {
        done if done == LinesAnswer::Done as u64 => Answer::Done,
        beneath if beneath == LinesAnswer::BeneathHooks as u64 => Answer::BeneathHooks,
        _ => Answer::Refused,
    })
}
