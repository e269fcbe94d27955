//! The file of a timeline: lines of JSON, bounded.
//!
//! The first line says what it is and the interval; then come samples and events, by time. When it
//! holds [`SAMPLES`] samples every second one goes, the interval doubles, and the file is written
//! anew beside its place and moved there. Nothing allocates but [`TimelineFile::create`].

#![allow(unsafe_code)]

use crate::descriptor::{Descriptor, errno, format_into};
use crate::ledger::{REPORTED, Scope, Snapshot};
use pyhost_shared::describe::Sink;
use pyhost_shared::json::Json;
use std::ffi::{CStr, CString, c_int};
use std::fmt::Write;
use std::io;
use std::time::Duration;

/// How many samples a file holds at most.
pub const SAMPLES: u32 = 8192;
/// How many other lines.
const EVENTS: u32 = 4096;

/// How a sample's line begins: by this it is told from an event's.
const SAMPLE: &[u8] = b"{\"s\":";

/// The file, open.
pub struct TimelineFile {
    path: CString,
    part: CString,
    file: c_int,
    command: String,
    started: String,
    pid: i32,
    interval: Duration,
    samples: u32,
    events: u32,
}

impl TimelineFile {
    /// Makes the file and writes its first line; `command` is what it says was run.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: CString, command: String, interval: Duration) -> io::Result<Self> {
        let part = [path.as_bytes(), b".part"].concat();
        let file = open(&path)?;
        let mut timeline = TimelineFile {
            part: CString::new(part)?,
            path,
            file,
            command,
            started: crate::report::utc_now(),
            pid: crate::process::id(),
            interval,
            samples: 0,
            events: 0,
        };
        timeline.write_header();
        Ok(timeline)
    }

    /// The descriptor, which a sampler keeps.
    pub fn descriptor(&self) -> c_int {
        self.file
    }

    /// The time between two samples.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    fn write_header(&mut self) {
        let mut out = Descriptor::new(self.file);
        let mut json = Json::new(&mut out);
        json.text("timeline", "pyhost-timeline/1");
        json.int("pid", i64::from(self.pid));
        json.text("started", &self.started);
        json.fraction("interval_seconds", self.interval.as_secs_f64());
        json.begin_list("accounts");
        for account in REPORTED {
            json.text("", account.name());
        }
        json.end();
        json.text("command", &self.command);
        json.finish();
        out.flush();
    }

    fn line(&mut self, write: impl FnOnce(&mut Json<'_, Descriptor>)) {
        let mut out = Descriptor::new(self.file);
        let mut json = Json::new(&mut out);
        write(&mut json);
        json.finish();
        out.flush();
    }

    /// Whether there is room for one event more; the end always has it.
    fn admits_event(&mut self) -> bool {
        self.events += 1;
        self.events < EVENTS
    }

    /// A sample: live bytes of each account, and the resident bytes where they are known.
    pub fn sample(&mut self, seconds: f64, snapshot: &Snapshot, resident: Option<u64>) {
        if self.samples >= SAMPLES {
            self.halve();
        }
        let number = self.samples;
        self.samples += 1;
        self.line(|json| {
            json.int("s", i64::from(number));
            json.fraction("t", seconds);
            match resident {
                Some(bytes) => json.int("resident", bytes as i64),
                None => json.null("resident"),
            }
            json.int("total", snapshot.total_live_bytes as i64);
            for (account, figures) in snapshot.accounts() {
                json.int(account.name(), figures.live_bytes as i64);
            }
        });
    }

    /// A mark of the script's.
    pub fn mark(&mut self, seconds: f64, name: &str) {
        if self.admits_event() {
            self.line(|json| {
                json.fraction("t", seconds);
                json.text("mark", name);
            });
        }
    }

    /// Refused requests: how many so far, and the last that was told of.
    pub fn refusal(&mut self, seconds: f64, count: u64, text: Option<&str>) {
        if self.admits_event() {
            self.line(|json| {
                json.fraction("t", seconds);
                json.int("refusals", count as i64);
                match text {
                    Some(text) => json.text("refusal", text),
                    None => json.null("refusal"),
                }
            });
        }
    }

    /// The caps in force.
    pub fn caps(&mut self, seconds: f64, caps: &[Option<u64>; Scope::COUNT]) {
        if self.admits_event() {
            self.line(|json| {
                json.fraction("t", seconds);
                json.begin("caps");
                for scope in Scope::all() {
                    if let Some(bytes) = caps[scope.index()] {
                        json.int(scope.name(), bytes as i64);
                    }
                }
                json.end();
            });
        }
    }

    /// The end.
    pub fn end(&mut self, seconds: f64, ended_by: &str, exit_status: Option<i32>) {
        let left_out = self.events.saturating_sub(EVENTS - 1);
        self.line(|json| {
            json.fraction("t", seconds);
            json.text("ended_by", ended_by);
            match exit_status {
                Some(status) => json.int("exit_status", i64::from(status)),
                None => json.null("exit_status"),
            }
            json.int("events_left_out", i64::from(left_out));
        });
    }

    /// Writes the file anew with every second sample; where that fails it goes on in the old one.
    fn halve(&mut self) {
        self.samples = 0;
        let Ok(part) = open(&self.part) else { return };
        let old = std::mem::replace(&mut self.file, part);
        self.interval *= 2;
        self.write_header();
        let kept = copy_half(old, part);
        // SAFETY: paths that end with a zero byte; descriptors of this structure's own.
        unsafe {
            match kept {
                Some(kept) if libc::rename(self.part.as_ptr(), self.path.as_ptr()) == 0 => {
                    self.samples = kept;
                    libc::close(old);
                }
                _ => {
                    self.interval /= 2;
                    self.file = old;
                    libc::close(part);
                    libc::unlink(self.part.as_ptr());
                }
            }
        }
    }
}

/// Opens an empty file to read and append to.
fn open(path: &CStr) -> io::Result<c_int> {
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND | libc::O_CLOEXEC;
    // SAFETY: a path that ends with a zero byte.
    match unsafe { libc::open(path.as_ptr(), flags, 0o666) } {
        -1 => Err(io::Error::from_raw_os_error(errno())),
        file => Ok(file),
    }
}

/// Copies all events and every second sample, renumbered, but not the first line; how many samples
/// were kept, or None where the file cannot be read or written.
fn copy_half(from: c_int, to: c_int) -> Option<u32> {
    let mut out = Descriptor::new(to);
    let mut room = [0u8; 4096];
    let (mut held, mut offset) = (0, 0);
    let (mut seen, mut kept) = (0u32, 0u32);
    let mut is_first = true;
    loop {
        // SAFETY: the part of a buffer of ours that is free.
        let read = unsafe {
            let free = &mut room[held..];
            libc::pread(from, free.as_mut_ptr().cast(), free.len(), offset)
        };
        let read = usize::try_from(read).ok()?;
        offset += read as libc::off_t;
        held += read;
        let mut begin = 0;
        while let Some(length) = room[begin..held].iter().position(|&byte| byte == b'\n') {
            let line = &room[begin..begin + length];
            begin += length + 1;
            if std::mem::take(&mut is_first) {
                continue;
            }
            if let Some(numbered) = line.strip_prefix(SAMPLE) {
                seen += 1;
                if seen % 2 == 0 {
                    continue;
                }
                let rest = numbered.iter().position(|&byte| byte == b',')?;
                let mut digits = [0; 16];
                let number = format_into(&mut digits, format_args!("{kept}"));
                kept += 1;
                for piece in [SAMPLE, number, &numbered[rest..], b"\n"] {
                    let _ = out.write_str(std::str::from_utf8(piece).ok()?);
                }
            } else {
                let _ = out.write_str(std::str::from_utf8(line).ok()?);
                let _ = out.write_str("\n");
            }
        }
        if read == 0 {
            break;
        }
        if begin == 0 && held == room.len() {
            return None; // a line longer than any that this writes
        }
        room.copy_within(begin..held, 0);
        held -= begin;
    }
    out.flush();
    out.error().is_none().then_some(kept)
}
