//! The file of a timeline: lines of JSON, bounded.
//!
//! The first line says what it is and the interval; then come samples and events, by time. When it holds [`SAMPLES`]
//! samples every second one goes, the interval doubles, and the file is written anew beside its place and moved there.
//! Into a device, a FIFO or an open descriptor the lines are written as they come, and only the interval doubles; a
//! FIFO has lines while somebody reads it, each reader the first line first. Each line is whole: a full disk takes back
//! what it took of one. Nothing allocates but [`TimelineFile::create`].

use super::trouble::{self, Output};
use crate::descriptor::{Descriptor, format_into};
use crate::ledger::{HEADER, REPORTED, Scope, Snapshot};
use crate::output::{self, Draft, Target};
use crate::{errno::Errno, path_template::PathBuffer};
use pyhost_os::clock::Utc;
use pyhost_os::file::{self, Fd};
use pyhost_record::{describe::Sink, json::Json};
use std::{ffi::c_int, fmt::Write, os::fd::AsRawFd};
use std::{sync::atomic::Ordering::Relaxed, time::Duration};

/// How many samples a file holds at most.
pub const SAMPLES: u32 = 8192;
/// How many other lines.
const EVENTS: u32 = 4096;

/// Milliseconds that the reader of a pipe may take to make room: the sampler must see the host's end.
const PATIENCE: c_int = 200;

/// The begin of a sample's line, which an event's line does not have.
const SAMPLE: &[u8] = b"{\"s\":";

pub struct TimelineFile {
    path: PathBuffer,
    target: Target,
    /// Its descriptor; -1 for a FIFO that nobody reads.
    file: Option<Fd>,
    /// Bytes of whole lines.
    length: u64,
    command: String,
    started: String,
    pid: i32,
    pub interval: Duration,
    samples: u32,
    events: u32,
}

impl TimelineFile {
    /// Makes the file and writes its first line; `command` is what it says was run. `path` is what
    /// [`output::look`] found to be `target`.
    pub fn create(
        path: PathBuffer,
        target: Target,
        command: String,
        interval: Duration,
    ) -> Result<Self, Errno> {
        let mut timeline = TimelineFile {
            path,
            target,
            file: None,
            length: 0,
            command,
            started: Utc(HEADER.started.load(Relaxed)).to_string(),
            pid: crate::process::id(),
            interval,
            samples: 0,
            events: 0,
        };
        match target {
            Target::New | Target::Old => timeline.make_file()?,
            Target::Stream => match output::open_stream(timeline.path.as_c_str()) {
                Ok(file) => timeline.file = Some(file),
                Err(Errno(libc::ENXIO)) => return Ok(timeline),
                Err(error) => return Err(error),
            },
            Target::Descriptor(own) => {
                timeline.file = Some(Fd::copy(&own, 3)?);
            }
        }
        if !timeline.is_regular() {
            timeline.write_header(timeline.descriptor())?;
        }
        Ok(timeline)
    }

    /// Makes the regular file, with its first line.
    fn make_file(&mut self) -> Result<(), Errno> {
        let draft = Draft::begin(&self.path, self.target, libc::O_APPEND)?;
        self.length = self.write_header(draft.descriptor())?;
        self.file = Some(self.placed(draft)?);
        Ok(())
    }

    /// Moves a draft to its place; the file there, opened to append.
    fn placed(&self, draft: Draft<'_>) -> Result<Fd, Errno> {
        let flags = libc::O_RDWR | libc::O_APPEND | libc::O_NOFOLLOW;
        let opened = || Fd::open(self.path.as_c_str(), flags);
        draft.finish()?.map_or_else(opened, Ok)
    }

    fn is_regular(&self) -> bool {
        matches!(self.target, Target::New | Target::Old)
    }

    /// The descriptor, which a sampler keeps; -1 for a FIFO that nobody reads.
    pub fn descriptor(&self) -> c_int {
        self.file.as_ref().map_or(-1, Fd::as_raw_fd)
    }

    /// Writes the first line to a descriptor; its length.
    fn write_header(&self, file: c_int) -> Result<u64, Errno> {
        let mut out = Descriptor::new(file).with_patience(PATIENCE);
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
        out.finish()
    }

    fn line(&mut self, write: impl FnOnce(&mut Json<'_, Descriptor>)) {
        if self.file.is_none() && !self.finds_reader() {
            return;
        }
        let mut out = Descriptor::new(self.descriptor()).with_patience(PATIENCE);
        let mut json = Json::new(&mut out);
        write(&mut json);
        json.finish();
        match out.finish() {
            Ok(written) => self.length += written,
            Err(error) => self.has_failed(error),
        }
    }

    /// Opens the FIFO once somebody reads it.
    fn finds_reader(&mut self) -> bool {
        let Ok(file) = output::open_stream(self.path.as_c_str()) else {
            return false;
        };
        self.file = Some(file);
        let begun = self.write_header(self.descriptor());
        begun.map_err(|error| self.has_failed(error)).is_ok()
    }

    /// A line was not written whole.
    fn has_failed(&mut self, error: Errno) {
        match (self.target, error.0) {
            (Target::New | Target::Old, _) => {
                let _ = file::truncate(&self.descriptor(), self.length);
            }
            // The reader has gone, or takes nothing: the next one begins with a whole line.
            (Target::Stream, libc::EPIPE | libc::EAGAIN) => {
                self.file = None;
                return;
            }
            _ => {}
        }
        trouble::remember(Output::Timeline, error);
    }

    /// An event, if there is room for one more; the end always has it.
    fn event(&mut self, seconds: f64, write: impl FnOnce(&mut Json<'_, Descriptor>)) {
        self.events += 1;
        if self.events < EVENTS {
            self.line(|json| {
                json.fraction("t", seconds);
                write(json);
            });
        }
    }

    /// A sample: live bytes of each account, and the resident bytes if they are known.
    pub fn sample(&mut self, seconds: f64, snapshot: &Snapshot, resident: Option<(u64, u64)>) {
        if self.samples > 0 && self.samples.is_multiple_of(SAMPLES) {
            match self.is_regular() {
                true => self.halve(),
                false => self.interval *= 2,
            }
        }
        let number = self.samples;
        self.samples += 1;
        self.line(|json| {
            json.int("s", i64::from(number));
            json.fraction("t", seconds);
            json.known("resident", resident.map(|it| it.0));
            json.known("files", resident.map(|it| it.1));
            json.int("total", snapshot.total_live_bytes as i64);
            for (account, figures) in snapshot.accounts() {
                json.int(account.name(), figures.live_bytes as i64);
            }
        });
    }

    pub fn mark(&mut self, seconds: f64, name: &str) {
        self.event(seconds, |json| json.text("mark", name));
    }

    /// Refused requests: how many so far, and the last that was reported.
    pub fn refusal(&mut self, seconds: f64, count: u64, text: Option<&str>) {
        self.event(seconds, |json| {
            json.int("refusals", count as i64);
            json.known_text("refusal", text);
        });
    }

    pub fn caps(&mut self, seconds: f64, caps: &[Option<u64>; Scope::COUNT]) {
        self.event(seconds, |json| {
            json.begin("caps");
            for scope in Scope::all() {
                if let Some(bytes) = caps[scope.index()] {
                    json.int(scope.name(), bytes as i64);
                }
            }
            json.end();
        });
    }

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

    /// Writes the file anew with every second sample; if that fails it goes on in the old one.
    fn halve(&mut self) {
        self.samples = 0;
        let Ok(draft) = Draft::apart(&self.path, Target::Old, libc::O_APPEND) else {
            return;
        };
        let part = draft.descriptor();
        self.interval *= 2;
        let placed = || {
            let header = self.write_header(part).ok()?;
            let (samples, length) = copy_half(self.descriptor(), part)?;
            Some((self.placed(draft).ok(), samples, header + length))
        };
        match placed() {
            Some((Some(file), samples, length)) => {
                (self.file, self.samples, self.length) = (Some(file), samples, length);
            }
            _ => self.interval /= 2,
        }
    }
}

/// Copies all events and every second sample, renumbered, but not the first line; how many samples
/// were kept and how many bytes that makes, or None if the file cannot be read or written.
fn copy_half(from: c_int, to: c_int) -> Option<(u32, u64)> {
    let mut out = Descriptor::new(to);
    let mut room = [0u8; 4096];
    let mut offset = 0;
    let read = |room: &mut [u8]| {
        let read = file::read_at(&from, room, offset).ok()?;
        offset += read as u64;
        Some(read)
    };
    let (mut seen, mut kept) = (0u32, 0u32);
    let mut is_first = true;
    file::each_line(&mut room, read, |line| {
        if std::mem::take(&mut is_first) {
            return Some(());
        }
        if let Some(numbered) = line.strip_prefix(SAMPLE) {
            seen += 1;
            if seen % 2 == 0 {
                return Some(());
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
        Some(())
    })?;
    Some((kept, out.finish().ok()?))
}
