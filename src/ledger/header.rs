//! The header: facts about the ledger's process, its state, its marks and its last refusal.
//!
//! Header and ledger are mapped onto one file, the header first. So a reader of the file knows the process of
//! the counters, while it runs and after a kill. The layout is fixed, `repr(C)`, and consists of atomics
//! only, as in the ledger: the reader may see any pattern of bits.
//!
//! Written at the start, in a forked child, at a mark, at a refusal and at the end. Nothing here
//! allocates or locks; a signal handler may write it.

#![deny(unsafe_code)]

use crate::layout::{UNIT, Zeros, stored};
use pyhost_os::terminal_text::{leading_text, whole_letters};
use pyhost_os::{clock, process::cgroup, signals::signal_words};
use std::ffi::CStr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, fence};

/// First word of the stored layout; its last letter is the version.
const MAGIC: u64 = u64::from_le_bytes(*b"pyhcard1");

/// How many marks are kept: the latest.
pub const MARKS: usize = 64;

/// How a process stands, by its own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ProcessState {
    /// It runs, or it was killed.
    Running = 0,
    /// Its image is being replaced by another program's.
    Exec = 1,
    /// It has ended with an exit status.
    Exited = 2,
    /// It has ended by a signal that it could still act on.
    Signalled = 3,
    /// The host has ended it with an exit status: the reserve of a cap was used up.
    Exhausted = 4,
}

/// A string of at most `8 * WORDS` bytes, which ends with a zero byte if it is shorter.
#[repr(C)]
pub struct Text<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> Zeros for Text<WORDS> {
    const ZEROS: Self = Text(Zeros::ZEROS);
}

impl<const WORDS: usize> Text<WORDS> {
    /// Writes as much as fits, cut between characters.
    pub fn set(&self, text: &str) {
        let most = text.len().min(WORDS * 8);
        self.set_bytes(whole_letters(&text.as_bytes()[..most]).as_bytes());
    }

    fn set_bytes(&self, bytes: &[u8]) {
        let mut chunks = bytes.chunks(8);
        for word in &self.0 {
            let mut eight = [0; 8];
            if let Some(chunk) = chunks.next() {
                eight[..chunk.len()].copy_from_slice(chunk);
            }
            word.store(u64::from_le_bytes(eight), Relaxed);
        }
    }

    fn bytes(&self, room: &mut [u8]) -> usize {
        for (word, eight) in self.0.iter().zip(room.chunks_mut(8)) {
            let bytes = word.load(Relaxed).to_le_bytes();
            eight.copy_from_slice(&bytes[..eight.len()]);
        }
        room.len().min(WORDS * 8)
    }

    /// The text, up to the first zero byte. Bytes that are no UTF-8 are replaced. Allocates.
    pub fn get(&self) -> String {
        let mut room = vec![0; WORDS * 8];
        let length = self.bytes(&mut room);
        let text = room[..length].split(|&byte| byte == 0).next();
        String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
    }
}

/// Room for a mark's name, in words of eight bytes.
const NAME: usize = 6;

stored! {
    /// A moment that the script named.
    #[repr(C)]
    struct MarkCell {
        /// Its number, from 1 on; 0 while it is written.
        number: AtomicU64,
        /// Nanoseconds of `CLOCK_MONOTONIC`.
        nanoseconds: AtomicU64,
        name: Text<NAME>,
    }
}

/// A mark, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its number in the process, from 1 on.
    pub number: u64,
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub nanoseconds: u64,
    name: [u8; NAME * 8],
}

impl Mark {
    /// The name, as far as it is kept: 48 bytes.
    pub fn name(&self) -> &str {
        leading_text(&self.name)
    }
}

stored! {
    /// A request to begin or to end the samples of lines. Another process writes it, then makes the host look: see
    /// [`crate::Ledger::cells_to_close`].
    #[repr(C)]
    pub struct LinesCell {
        /// The number of the request, from 1 on.
        pub asked: AtomicU64,
        /// The interval in bytes that is asked for; 0 to end.
        pub interval: AtomicU64,
        /// The number of the last request that the host has acted on.
        pub answered: AtomicU64,
        /// A [`LinesAnswer`].
        pub answer: AtomicU64,
        /// The system's error if the samples cannot be written if others read them, else 0.
        pub file_error: AtomicU64,
    }
}

/// The host's answer to a request about the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum LinesAnswer {
    /// It does as it was asked.
    Done = 1,
    /// It does so, but other hooks lie over the host's in Python's domains: what these pass on is sampled more slowly.
    BeneathHooks = 2,
    /// It cannot: malloc is left to another allocator, or there is no memory.
    Refused = 3,
}

stored! {
    /// The process that samples for `--timeline` and `--brief`. It has no standard error, since readers of the host's would wait for its
    /// end, too: so the host prints its errors, at its own end.
    #[repr(C)]
    pub struct SamplerCell {
        /// Its process id; 0 before it is made, and the system's error below 0 if that fails.
        pub id: AtomicI32,
        /// The first error of the timeline, and of the brief text: 0 for none, below 0 once it is printed.
        pub errors: [AtomicI32; 2],
        /// 1: its last lines are written. It may live on to have pages made.
        pub is_all_written: AtomicU32,
    }
}

stored! {
    /// Whose ledger it is. Two units of fixed layout.
    #[repr(C, align(4096))] // `UNIT`
    pub struct Header {
        magic: AtomicU64,
        pub ledger_bytes: AtomicU64,
        /// The process id, in the namespace of `pid_namespace`.
        pub pid: AtomicI32,
        /// The parent's.
        pub parent: AtomicI32,
        /// The effective user.
        pub user: AtomicU32,
        state: AtomicU32,
        status: AtomicI32,
        /// 1: CPython's debug hooks are in force.
        pub debug_hooks: AtomicU32,
        /// Bit n: something is booked to the account of index n.
        pub active: AtomicU32,
        /// 1: a forked child, whose counters go on from its parent's.
        pub forked: AtomicU32,
        /// Inode of `/proc/self/ns/pid`.
        pub pid_namespace: AtomicU64,
        /// Field 22 of `/proc/self/stat`: clock ticks from the boot to the start.
        pub start_ticks: AtomicU64,
        /// When the process started, in nanoseconds of `CLOCK_REALTIME`: a forked child, at the fork.
        pub started: AtomicU64,
        /// The same moment, in nanoseconds of `CLOCK_MONOTONIC`.
        pub started_monotonic: AtomicU64,
        /// When it ended, in nanoseconds of `CLOCK_REALTIME`.
        ended: AtomicU64,
        /// Refusals so far that were reported.
        pub refusals: AtomicU64,
        marks: AtomicU64,
        /// Identifies the boot of the machine.
        pub boot: Text<5>,
        pub python: Text<2>,
        pub host: Text<2>,
        pub mimalloc: Text<2>,
        pub allocator: Text<2>,
        /// The native mode's name.
        pub native: Text<2>,
        pub profile: Text<2>,
        refusal: Text<64>,
        argv_count: AtomicU32,
        argv_bytes: AtomicU32,
        argv: Text<256>,
        /// How many of the arguments are the host's own options.
        pub host_words: AtomicU64,
        /// The script's name, the same in all its runs.
        pub script: Text<8>,
        /// Processes that it has started.
        pub forks: AtomicU64,
        /// Live bytes of all accounts that a forked child began with, which are its parent's too.
        pub inherited: AtomicU64,
        /// Resident bytes at the process's end, or at the sampler's last look; 0 if there was neither.
        pub resident: AtomicU64,
        /// The highest resident size that was read; 0 if none was.
        pub resident_peak: AtomicU64,
        /// Requests of others for samples of lines, and the host's answer.
        pub lines: LinesCell,
        /// When the total's cap was last computed from what a limit leaves, in nanoseconds of `CLOCK_MONOTONIC`; 0 if it follows none.
        pub cap_computed: AtomicU64,
        /// The file that counts the out-of-memory kills of the process's control group, and how many there were when it started.
        group_events: Text<32>,
        earlier_kills: AtomicU64,
        /// The service's name; empty without one.
        pub service: Text<8>,
        pub sampler: SamplerCell,
        spare: [AtomicU64; 99],
        cells: [MarkCell; MARKS],
    }
}

// The stored layout: readers in other processes rely on these.
const _: () = {
    assert!(size_of::<MarkCell>() == 64);
    assert!(std::mem::offset_of!(Header, cells) == UNIT);
    assert!(size_of::<Header>() == 2 * UNIT && align_of::<Header>() == UNIT);
};

impl Header {
    /// Makes zeros a header that says nothing yet.
    pub fn open(&self) {
        let ledger = size_of::<crate::Ledger>() as u64;
        self.ledger_bytes.store(ledger, Relaxed);
        self.magic.store(MAGIC, Relaxed);
    }

    /// The first eight bytes: a header's, of this version or another, or anything.
    pub fn magic(&self) -> Magic {
        let bytes = self.magic.load(Relaxed).to_le_bytes();
        match &bytes {
            known if *known == MAGIC.to_le_bytes() => Magic::Known,
            [b'p', b'y', b'h', b'c', b'a', b'r', b'd', version] => Magic::Version(*version),
            _ => Magic::Other,
        }
    }

    /// Writes the arguments, as many whole bytes as there is room for.
    pub fn set_argv<'a>(&self, words: impl Iterator<Item = &'a [u8]>) {
        const ROOM: usize = 256 * 8;
        let mut room = [0; ROOM];
        let (mut length, mut count) = (0, 0);
        for word in words {
            count += 1;
            let kept = word.len().min((ROOM - length).saturating_sub(1));
            room[length..length + kept].copy_from_slice(&word[..kept]);
            length = (length + kept + 1).min(ROOM);
        }
        self.argv.set_bytes(&room[..length]);
        self.argv_bytes.store(length as u32, Relaxed);
        self.argv_count.store(count, Relaxed);
    }

    /// The arguments, as far as they were kept. Allocates.
    pub fn argv(&self) -> Vec<String> {
        let mut room = [0; 256 * 8];
        let length = self.argv.bytes(&mut room);
        let length = length.min(self.argv_bytes.load(Relaxed) as usize);
        let count = self.argv_count.load(Relaxed) as usize;
        let words = room[..length].split(|&byte| byte == 0);
        let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
        let mut words: Vec<String> = words.collect();
        words.truncate(count.min(words.len().saturating_sub(1)));
        words
    }

    /// The command line as a part of a line, and not too long: see [`Header::whole_command`]. Allocates.
    pub fn command(&self) -> String {
        shortened(&self.whole_command())
    }

    /// The command line as far as it was kept: the program without its folder and the host's options, and nothing that
    /// steers a terminal. Allocates.
    pub fn whole_command(&self) -> String {
        let mut words = self.argv();
        let skipped = self.host_words.load(Relaxed).saturating_add(1);
        let skipped = skipped.min(words.len() as u64) as usize;
        words.drain(1.min(skipped)..skipped);
        command_line(words, &self.script.get())
    }

    /// Says how the process stands: its state, the exit status or signal, and when, in nanoseconds of `CLOCK_REALTIME`.
    pub fn set_state(&self, state: ProcessState, status: i32, now: u64) {
        self.status.store(status, Relaxed);
        self.ended.store(now, Relaxed);
        self.state.store(state as u32, Release);
    }

    /// How the process stands by its own word, with the exit status or the signal.
    pub fn state(&self) -> (ProcessState, i32) {
        let state = match self.state.load(Acquire) {
            1 => ProcessState::Exec,
            2 => ProcessState::Exited,
            3 => ProcessState::Signalled,
            4 => ProcessState::Exhausted,
            _ => ProcessState::Running,
        };
        (state, self.status.load(Relaxed))
    }

    /// The process starts, or a forked child does: its group's out-of-memory kills are counted from here on, in the file `events`, or
    /// in its parent's.
    pub fn begin_group(&self, events: Option<&str>) {
        if let Some(events) = events {
            self.group_events.set(events);
        }
        self.earlier_kills.store(self.kills().unwrap_or(0), Relaxed);
    }

    /// How many processes of its control group the kernel has killed for want of memory since it started; None if it does not say.
    pub fn out_of_memory_kills(&self) -> Option<u64> {
        self.kills()?.checked_sub(self.earlier_kills.load(Relaxed))
    }

    fn kills(&self) -> Option<u64> {
        let mut path = [0; 32 * 8 + 1];
        self.group_events.bytes(&mut path[..32 * 8]);
        cgroup::out_of_memory_kills(CStr::from_bytes_until_nul(&path).ok()?)
    }

    /// How it ended, in words, if it runs no more.
    pub fn ending(&self) -> String {
        match self.state() {
            (ProcessState::Running, _) => "was killed".to_owned(),
            (ProcessState::Exec, _) => "became another program".to_owned(),
            (ProcessState::Exited, status) => format!("ended with status {status}"),
            (ProcessState::Signalled, signal) => format!("ended by {}", signal_words(signal)),
            (ProcessState::Exhausted, status) => {
                format!("ended with status {status}: the reserve of a cap was used up")
            }
        }
    }

    /// Seconds from the start to a moment of `CLOCK_MONOTONIC`.
    pub fn seconds_until(&self, monotonic: u64) -> f64 {
        monotonic.saturating_sub(self.started_monotonic.load(Relaxed)) as f64 / 1e9
    }

    /// Seconds from the moment when the total's cap was computed to one of `CLOCK_MONOTONIC`; `None` if it follows no limit.
    pub fn cap_age(&self, monotonic: u64) -> Option<f64> {
        let computed = self.cap_computed.load(Relaxed);
        (computed > 0).then(|| monotonic.saturating_sub(computed) as f64 / 1e9)
    }

    /// The resident size at the end, or at the sampler's last look, and the highest that was seen; None
    /// if there was none.
    pub fn last_resident(&self) -> (Option<u64>, Option<u64>) {
        let known = |bytes: &AtomicU64| Some(bytes.load(Relaxed)).filter(|&bytes| bytes > 0);
        (known(&self.resident), known(&self.resident_peak))
    }

    /// Nanoseconds from the start to the end, or to now if it `runs`; `None` if nobody noted its end.
    pub fn lasted(&self, runs: bool) -> Option<u64> {
        let until = match self.ended.load(Relaxed) {
            0 => runs.then(clock::now)?,
            ended => ended,
        };
        Some(until.saturating_sub(self.started.load(Relaxed)))
    }

    /// Live bytes that a forked child began with; `None` of another process.
    pub fn inherited(&self) -> Option<u64> {
        (self.forked.load(Relaxed) == 1).then(|| self.inherited.load(Relaxed))
    }

    /// `fork` of a forked child, else `host`.
    pub fn role(&self) -> &'static str {
        self.inherited().map_or("host", |_| "fork")
    }

    /// Records a refusal as a line, of which 512 bytes are kept.
    pub fn set_refusal(&self, text: &str) {
        self.refusal.set(text);
        self.refusals.fetch_add(1, Release);
    }

    /// The last refusal that was reported, and how many there were. Allocates.
    pub fn refusal(&self) -> Option<(u64, String)> {
        let count = self.refusals.load(Acquire);
        (count > 0).then(|| (count, self.refusal.get()))
    }

    /// The last refusal that was reported, in a buffer of the caller's; `None` if there was none.
    pub fn refusal_into<'a>(&self, room: &'a mut [u8; 512]) -> Option<&'a str> {
        if self.refusals.load(Relaxed) == 0 {
            return None;
        }
        self.refusal.bytes(room);
        Some(leading_text(room))
    }

    /// Adds a mark. Any thread; the oldest gives way.
    pub fn mark(&self, name: &str, nanoseconds: u64) {
        let index = self.marks.fetch_add(1, AcqRel);
        let cell = &self.cells[index as usize % MARKS];
        cell.number.store(0, Relaxed);
        fence(Release);
        cell.nanoseconds.store(nanoseconds, Relaxed);
        cell.name.set(name);
        cell.number.store(index.wrapping_add(1), Release);
    }

    /// How many marks were set.
    pub fn marks(&self) -> u64 {
        self.marks.load(Acquire)
    }

    /// The mark of a number, from 1 on; None if it has given way or is being written.
    pub fn mark_of(&self, number: u64) -> Option<Mark> {
        let cell = &self.cells[usize::try_from(number.checked_sub(1)?).ok()? % MARKS];
        if cell.number.load(Acquire) != number {
            return None;
        }
        let mut name = [0; NAME * 8];
        cell.name.bytes(&mut name);
        let nanoseconds = cell.nanoseconds.load(Relaxed);
        fence(Acquire);
        (cell.number.load(Relaxed) == number).then_some(Mark {
            number,
            nanoseconds,
            name,
        })
    }

    /// In a forked child: nothing has happened to it yet.
    pub fn begin_child(&self) {
        self.forked.store(1, Relaxed);
        self.forks.store(0, Relaxed);
        self.resident.store(0, Relaxed);
        self.resident_peak.store(0, Relaxed);
        self.refusals.store(0, Relaxed);
        self.marks.store(0, Relaxed);
        self.lines.file_error.store(0, Relaxed);
        (self.sampler.errors.iter()).for_each(|error| error.store(0, Relaxed));
        for cell in &self.cells {
            cell.number.store(0, Relaxed);
        }
        self.set_state(ProcessState::Running, 0, 0);
    }
}

/// The words of a process in a line: the program without its folder, and nothing that steers a terminal. `script` is the
/// script's name.
pub fn command_line(mut words: Vec<String>, script: &str) -> String {
    if let Some(program) = words.first_mut() {
        *program = program.rsplit('/').next().unwrap_or_default().to_owned();
    }
    // The code by which `multiprocessing` starts a process names no service; the script's name does.
    if script.starts_with("multiprocessing: ") {
        words.truncate(1);
        words.push(script.to_owned());
    }
    pyhost_os::terminal_text::plain(&words.join(" "))
}

/// The beginning of a text as a part of a line.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The meaning of the first eight bytes of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Magic {
    Known,
    Version(u8),
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        let text = Text::<2>::ZEROS;
        text.set("abc");
        assert_eq!(text.get(), "abc");
        text.set("0123456789abcd\u{e9}\u{e9}");
        assert_eq!(text.get(), "0123456789abcd\u{e9}");
        text.set("");
        assert_eq!(text.get(), "");
    }

    #[test]
    #[cfg_attr(miri, ignore = "many bytes, and nothing unsafe")]
    fn arguments_come_back_as_far_as_there_is_room() {
        let header = Header::ZEROS;
        header.set_argv([&b"pyhost"[..], b"", b"a b"].into_iter());
        assert_eq!(header.argv(), ["pyhost", "", "a b"]);
        let long = vec![b'x'; 3000];
        header.set_argv([&b"pyhost"[..], &long, b"last"].into_iter());
        let words = header.argv();
        assert_eq!(words[0], "pyhost");
        assert_eq!(words[1].len(), 2048 - 8);
    }

    #[test]
    fn the_latest_marks_are_kept() {
        let header = Header::ZEROS;
        for number in 1..=100 {
            header.mark(&format!("phase {number}"), number);
        }
        assert_eq!(header.marks(), 100);
        assert_eq!(header.mark_of(36), None);
        assert_eq!(header.mark_of(37).unwrap().name(), "phase 37");
        assert_eq!(header.mark_of(100).unwrap().nanoseconds, 100);
        assert_eq!(header.mark_of(101), None);
        assert_eq!(header.mark_of(0), None);
    }
}
