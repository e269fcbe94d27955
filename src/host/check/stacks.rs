//! The native calls behind a line about a block: of its allocation, of its free, and of the code that has found what is
//! wrong with it (`--debug-hooks`, `--guard`).
//!
//! A text goes into a file in memory, with a library and an offset for each call. `pyhostctl symbolize` copies it to another
//! one, with functions and source lines: symbol tables need memory, which a process whose heap is damaged cannot trust. That
//! goes to the text's place, mostly standard error. If there is no `pyhostctl`, or it fails, or the process may write no
//! such files, the text goes there as it is. Nothing is allocated and no lock is taken but by [`start`]: the caller may be
//! inside an allocator or a signal handler.

use crate::cpython::{
    frames,
    native_calls::{self, Of, Place, place_of},
};
use crate::descriptor::{Descriptor, format_into, in_memory_of, notice};
use crate::heap::call_site::native_stacks::{self, CallsNumber, MOST};
use crate::observe::pyhostctl_process;
use pyhost_os::clock::{Utc, now};
use pyhost_os::file::{self, Fd};
use pyhost_os::{signals::SignalSet, terminal_text::Plain};
use std::ffi::{CStr, CString, c_int};
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{os::fd::AsRawFd, sync::OnceLock};

/// Nanoseconds that `pyhostctl` may take: the debug information of a large library needs seconds.
const PATIENCE: u64 = 30_000_000_000;

/// Bytes that a file in memory may need: a process that may not write them has its text as it is.
pub const ROOM: u64 = 16 << 20;

pyhost_os::state! {
    /// Who names native calls, and since when libraries count.
    static STATE: NativeStacks {
        /// The moment of [`start`], which a forked child keeps: its libraries were loaded since.
        started: AtomicU64 = AtomicU64::new(0),
        /// The program that names the calls; `None` if there is none.
        program: OnceLock<Option<CString>> = OnceLock::new(),
        /// A part of the path of the library whose requests are guarded.
        library: OnceLock<&'static str> = OnceLock::new(),
    }
}

/// Makes the blocks of `--debug-hooks` and `--guard` keep their native calls. Once, before Python starts; `main_frame` as for
/// [`native_calls::prepare`]. Does nothing on systems where these cannot be read.
/// `library`: see [`is_of_library`].
pub fn start(main_frame: usize, library: Option<&'static str>) {
    let _ = STATE.library.set(library.unwrap_or_default());
    let is_prepared = native_calls::prepare(main_frame).is_ok();
    if is_prepared && native_stacks::start(read, write_all, is_of_library) {
        STATE.started.store(now(), Relaxed);
        let _ = STATE.program.set(pyhostctl_process::find());
    } else if library.is_some() {
        notice(format_args!(
            "--guard=library: native calls are not known here, and nothing is guarded"
        ));
    }
}

fn read(addresses: &mut [usize; MOST]) -> usize {
    native_calls::find(addresses, Of::Call)
}

/// Whether one of some calls is of the library whose requests are guarded.
fn is_of_library(calls: &[usize]) -> bool {
    let part = STATE.library.get().copied().unwrap_or_default();
    calls
        .iter()
        .filter_map(|&call| place_of(call))
        .any(|place| {
            let mut parts = place.library().windows(part.len().max(1));
            parts.any(|piece| piece == part.as_bytes())
        })
}

/// Writes the calls of the calling thread, and those that have freed and allocated a block.
fn write_all(made: CallsNumber, freed: CallsNumber) {
    let mut addresses = [0; MOST];
    let count = read(&mut addresses);
    write_found(&addresses[..count], made, freed);
}

/// Writes calls that have found what is wrong with a block, and those that have freed and allocated it.
pub fn write_found(found: &[usize], made: CallsNumber, freed: CallsNumber) {
    let mut text = Text::begin(libc::STDERR_FILENO);
    let _ = write_calls(&mut text, "found in", found.iter().copied());
    let _ = write_origins(&mut text, made, freed);
    text.finish();
    write_python();
}

/// Writes the innermost calls of the calling thread's Python code. Last: they may be damaged, too.
fn write_python() {
    let mut room = [0; 2048];
    let used = frames::trace(&mut room);
    let text = str::from_utf8(&room[..used]).unwrap_or_default();
    let mut out = Descriptor::new(libc::STDERR_FILENO);
    for (index, line) in text.lines().take(5).enumerate() {
        let head = if index == 0 { "  in Python:\n" } else { "" };
        let _ = writeln!(out, "{head}  {line}");
    }
    out.flush();
}

/// Writes the calls that have freed and allocated a block.
pub fn write_origins(out: &mut impl Write, made: CallsNumber, freed: CallsNumber) -> fmt::Result {
    write_calls(out, "freed in", native_stacks::addresses(freed))?;
    write_calls(out, "allocated in", native_stacks::addresses(made))?;
    match native_stacks::is_full() && made == 0 {
        true => writeln!(
            out,
            "  the table of native calls is full: those of later blocks are not known"
        ),
        false => Ok(()),
    }
}

/// The calls of a stack whose libraries are loaded.
pub fn places(number: CallsNumber) -> impl Iterator<Item = Place> {
    native_stacks::addresses(number).filter_map(place_of)
}

/// A line for each call, the innermost first; nothing if there is none.
fn write_calls(out: &mut impl Write, how: &str, calls: impl Iterator<Item = usize>) -> fmt::Result {
    for (index, address) in calls.enumerate() {
        if index == 0 {
            writeln!(out, "  {how}:")?;
        }
        let Some(place) = place_of(address) else {
            writeln!(out, "    ? ({address:#x}, in no library any more)")?;
            continue;
        };
        let name = place.name().map_or(Plain("?"), shown);
        let (library, offset) = (shown(place.library()), place.offset);
        write!(out, "    {name} ({library}+{offset:#x}")?;
        if !place.build_id().is_empty() {
            out.write_str(", build id ")?;
        }
        for byte in place.build_id() {
            write!(out, "{byte:02x}")?;
        }
        out.write_str(")\n")?;
    }
    Ok(())
}

fn shown(name: &[u8]) -> Plain<'_> {
    Plain(str::from_utf8(name).unwrap_or("?"))
}

/// A text, some lines of which are of native calls.
pub struct Text {
    out: Descriptor,
    to: c_int,
    /// The file that it is written to before it is named, and the program; `None` if it goes to its descriptor as it is.
    kept: Option<(Fd, &'static CStr)>,
}

impl Text {
    /// Begins a text for an open descriptor.
    pub fn begin(to: c_int) -> Self {
        let program = STATE.program.get().and_then(Option::as_deref);
        let kept = program.and_then(|program| {
            let file = in_memory_of(c"pyhost-calls", ROOM).ok()?;
            Some((file, program))
        });
        let first = kept.as_ref().map_or(to, |(file, _)| file.as_raw_fd());
        Text {
            out: Descriptor::new(first),
            to,
            kept,
        }
    }

    pub fn finish(mut self) {
        let is_empty = self.out.finish() == Ok(0);
        if let Some((file, program)) = self.kept.filter(|_| !is_empty) {
            let named = named(&file, program);
            copy(named.as_ref().unwrap_or(&file), self.to);
        }
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_str(text)
    }
}

/// Makes the program copy a file to another one; `None` if it did not. It does not write to the text's place itself: only
/// what is complete goes there, and [`Descriptor`] waits for a slow reader.
fn named(file: &Fd, program: &CStr) -> Option<Fd> {
    let named = in_memory_of(c"pyhost-named", ROOM).ok()?;
    file::rewind(file);
    let mut started = [0; 32];
    let moment = Utc(STATE.started.load(Relaxed));
    format_into(&mut started[..31], format_args!("{moment}"));
    let started = CStr::from_bytes_until_nul(&started).unwrap_or_default();
    let arguments = [pyhostctl_process::NAME, c"symbolize", c"--started", started];
    let streams = [file.as_raw_fd(), named.as_raw_fd(), libc::STDERR_FILENO];
    let before = SignalSet::all().block();
    let copy = pyhostctl_process::start(program, &arguments, &[0], streams, 0);
    let status = copy.and_then(|copy| pyhostctl_process::wait(copy, PATIENCE));
    before.make_mask();
    (status == Some(0)).then_some(named)
}

fn copy(file: &Fd, to: c_int) {
    file::rewind(file);
    let mut out = Descriptor::new(to);
    let mut buffer = [0; 512];
    while let Ok(count @ 1..) = file::read(file, &mut buffer) {
        out.write_bytes(&buffer[..count]);
    }
    out.flush();
}
