//! Where the calling thread's Python code is, for callers inside an allocator: nothing is
//! allocated, locked or referenced. The reading itself is done by `frames.c`.

#![allow(unsafe_code)]

use super::objects::{Gil, Object, Returned};
use super::threads;
use crate::heap::LineFinder;
use crate::heap::sampling::{Call, Step};
use pyhost_os::{descriptor::format_into, terminal_text::Plain};
use pyo3::ffi::PyObject;
use std::ffi::{c_char, c_int, c_void};
use std::fmt;

/// Longest part of a file's and of a function's name in a traceback.
const NAME: usize = 120;
const LINES: i32 = 24;

// SAFETY: as `frames.c` defines them. All read the calling thread's own frames, which it cannot leave meanwhile, if its state
// is alive, or constants of the runtime.
unsafe extern "C" {
    safe fn pyhost_place_is_known() -> c_int;
    safe fn pyhost_is_fragile(libraries_count: c_int) -> c_int;
    safe fn pyhost_loses_errors() -> c_int;
    safe fn pyhost_handles_memory_error() -> c_int;
    safe fn pyhost_loop_frame() -> usize;
    safe fn pyhost_signal_is_due() -> c_int;
    safe fn pyhost_handler(frame: &mut usize, handler: &mut isize) -> c_int;
    safe fn pyhost_spot() -> u64;
    fn pyhost_line(file: *mut c_char, room: usize, line: *mut c_int, frames: *mut c_int) -> usize;
    safe fn pyhost_watch_codes();
    safe fn pyhost_read_calls() -> c_int;
    fn pyhost_give_calls(is_still: c_int, context: *mut c_void, take: TakeCall);
    fn pyhost_texts(
        code: *const c_void,
        offset: c_int,
        is_still: c_int,
        context: *mut c_void,
        take: TakeTexts,
    );
    safe fn pyhost_innermost(code: &mut usize, offset: &mut c_int, line: &mut c_int) -> usize;
    fn pyhost_watch_lines(code: *mut PyObject, event: extern "C" fn(c_int)) -> c_int;
    safe fn pyhost_main_instruction(is_caller: c_int) -> usize;
    fn pyhost_frame(
        depth: c_int,
        file: *mut c_char,
        file_length: *mut usize,
        name: *mut c_char,
        name_length: *mut usize,
        line: *mut c_int,
    ) -> c_int;

    /// How many calls of Python the calling thread is in: of another interpreter than the main one 1,000; 0 too if this Python's
    /// frames cannot be read.
    #[link_name = "pyhost_depth"]
    pub safe fn depth() -> c_int;
    #[link_name = "pyhost_is_finalizing"]
    pub safe fn is_finalizing() -> bool;
    /// Whether a frame object of the calling thread's innermost call takes so many bytes.
    #[link_name = "pyhost_is_frame"]
    pub safe fn is_frame(bytes: usize) -> bool;
    /// Something that changes C stacks is being loaded: what CPython keeps in them may be another stack's for a moment.
    #[link_name = "pyhost_stacks_change"]
    pub safe fn stacks_change();
    /// Where the function of the interpreter's loop begins; 0 if it is not known.
    #[link_name = "pyhost_loop_function"]
    pub safe fn loop_function() -> usize;
    /// An address in the interpreter's code.
    #[link_name = "pyhost_interpreter_function"]
    pub safe fn interpreter_function() -> usize;
    #[link_name = "pyhost_has_gil"]
    pub safe fn has_gil() -> bool;
}

/// Where a thread's Python code is, as far as it matters to who catches an error there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodePlace {
    /// The thread runs no Python code.
    Nowhere,
    /// Inside an import: no place for an error that can wait.
    Fragile,
    /// In the code that imports itself, which may hold a lock of an import: no place for an error that can be raised
    /// elsewhere.
    Machinery,
    /// In the code of an event loop, a server or a pool: an error there ends a connection or a thread,
    /// while one in the script's code that it calls ends a single request. Or while a traceback is printed. No place for an error.
    Serving,
    /// At a jump from which an error would leave past the handlers of its loop.
    Jump,
    /// Inside the handler with this identity; both are 0 without a handler.
    Within {
        /// The frame that has the handler.
        frame: usize,
        /// Where in the frame's code the handler is.
        handler: isize,
    },
    /// Unknown: this Python does not say.
    Unknown,
}

impl CodePlace {
    /// Whether an error that can wait is not raised here.
    pub fn is_fragile(self) -> bool {
        matches!(
            self,
            CodePlace::Fragile | CodePlace::Machinery | CodePlace::Serving
        )
    }

    /// Whether an error that was to be raised at `meant` is raised as well here.
    pub fn stands_for(self, meant: CodePlace) -> bool {
        if self == CodePlace::Serving || meant == CodePlace::Serving {
            // The next code that is called has it.
            return !self.is_fragile();
        }
        self == meant || self == CodePlace::Fragile && meant.is_fragile()
    }
}

/// Whether CPython loses a `MemoryError` of the calling thread's code: it is that of a sub-interpreter.
pub fn loses_errors() -> bool {
    pyhost_loses_errors() != 0
}

/// The instruction of its code that the main thread is at, as a number; 0 if that cannot be known: it is not the calling thread and
/// has the GIL. Any thread, also inside the allocator.
pub fn main_instruction() -> usize {
    pyhost_main_instruction(threads::is_main().into())
}

/// Whether the calling thread is inside a handler of a `MemoryError`.
pub fn handles_memory_error() -> bool {
    pyhost_handles_memory_error() != 0
}

/// Where an error that is raised now in the calling thread would be caught. `libraries_count`: whether a library that a
/// server calls counts as the server.
pub fn place(libraries_count: bool) -> CodePlace {
    let (mut frame, mut handler) = (0, 0);
    if pyhost_place_is_known() == 0 {
        return CodePlace::Unknown;
    }
    match (
        pyhost_handler(&mut frame, &mut handler),
        pyhost_is_fragile(libraries_count.into()),
    ) {
        (0, _) => CodePlace::Nowhere,
        (_, 1) => CodePlace::Fragile,
        (_, 2) => CodePlace::Machinery,
        (_, 3) => CodePlace::Serving,
        (2, _) => CodePlace::Jump,
        _ => CodePlace::Within { frame, handler },
    }
}

/// Writes the file of the line that the calling thread is at, its end if it is too long; its
/// length and the line. (0, 0) without Python code. Frames of NumPy's are passed over.
pub fn line(file: &mut [u8]) -> (usize, i32) {
    let (length, line, _) = line_and_frames(file);
    (length, line)
}

/// The line of Python that the calling thread runs. None before Python has started.
pub const LINE_FINDER: LineFinder = LineFinder {
    find: |file| match threads::has_main() {
        true => line_and_frames(file),
        false => (0, 0, 0),
    },
    spot: || match threads::has_main() {
        true => pyhost_spot(),
        false => 0,
    },
};

/// [`line()`], and how many frames were read for it.
fn line_and_frames(file: &mut [u8]) -> (usize, i32, i32) {
    let (mut line, mut frames) = (0, 0);
    let (room, start) = (file.len(), file.as_mut_ptr().cast());
    // SAFETY: the buffer has that room.
    let length = unsafe { pyhost_line(start, room, &mut line, &mut frames) };
    (length, line, frames)
}

/// Gives file, line and function of the calling thread's Python calls, as a line of text shows them, to `take`, innermost first,
/// until it returns false or `LINES` were given.
fn each_call(mut take: impl FnMut(Plain<'_>, i32, Plain<'_>) -> bool) {
    for depth in 0..LINES {
        let (mut file, mut name) = ([0u8; NAME], [0u8; NAME]);
        let (mut file_length, mut name_length, mut line) = (NAME, NAME, 0);
        // SAFETY: the lengths are those of the buffers.
        let found = unsafe {
            pyhost_frame(
                depth,
                file.as_mut_ptr().cast(),
                &mut file_length,
                name.as_mut_ptr().cast(),
                &mut name_length,
                &mut line,
            )
        };
        let text = |bytes| Plain(std::str::from_utf8(bytes).unwrap_or("?"));
        let (file, name) = (text(&file[..file_length]), text(&name[..name_length]));
        if found == 0 || !take(file, line, name) {
            break;
        }
    }
}

type TakeCall = unsafe extern "C" fn(*mut c_void, u64, *const c_void, c_int, c_int);
type TakeTexts =
    unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize, c_int);
pub(super) type Taker<'a> = &'a mut dyn FnMut(Step<'_>);
type Reader<'a> = &'a mut dyn FnMut(&Call<'_>);

/// Gives the calls of the calling thread's Python code to `take`, outermost first. False if there are none. By one thread at a
/// time, after [`watch_codes`].
pub fn calls(take: Taker<'_>) -> bool {
    let has_calls = pyhost_read_calls() != 0;
    if has_calls {
        // SAFETY: they are the calling thread's, which stay as they are meanwhile.
        unsafe { give_calls(true, take) };
    }
    has_calls
}

/// Gives the calls that were read by `frames.c`.
///
/// # Safety
/// If `are_still`, those of a thread that does not go on meanwhile.
pub(super) unsafe fn give_calls(are_still: bool, mut take: Taker<'_>) {
    // SAFETY: the taker lasts for the call; and the caller's promise.
    unsafe { pyhost_give_calls(are_still.into(), (&raw mut take).cast(), give) };
}

/// Gives a call to a `Taker`.
///
/// # Safety
/// `taker` points to one. If `is_still`, the code is that of a frame of a thread that does not go on meanwhile.
unsafe extern "C" fn give(
    taker: *mut c_void,
    number: u64,
    code: *const c_void,
    offset: c_int,
    is_still: c_int,
) {
    /// # Safety
    /// As [`pyhost_texts`] passes them on.
    unsafe extern "C" fn give_texts(
        reader: *mut c_void,
        file: *const c_char,
        file_length: usize,
        name: *const c_char,
        name_length: usize,
        line: c_int,
    ) {
        // SAFETY: the reader that `give` passed, and texts of that length that last for the call.
        unsafe {
            let reader = &mut *reader.cast::<Reader<'_>>();
            reader(&Call {
                file: std::slice::from_raw_parts(file.cast(), file_length),
                function: std::slice::from_raw_parts(name.cast(), name_length),
                line: line.max(0) as u32,
                native: None,
            });
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        let taker = &mut *taker.cast::<Taker<'_>>();
        taker(Step::Numbered(number, &|mut read| {
            pyhost_texts(code, offset, is_still, (&raw mut read).cast(), give_texts);
        }));
    }
}

/// Notes the ends of code objects from now on, so that the numbers of calls are right: another object may get the address.
/// A second call does nothing.
pub fn watch_codes(_gil: Gil<'_>) {
    pyhost_watch_codes();
}

/// The innermost call of a thread.
#[derive(Default)]
pub struct Innermost {
    /// The address of its frame, which stays while it runs, a generator's also from one step to the next.
    pub frame: usize,
    /// The address of its code object.
    pub code: usize,
    /// Where in the code it is, in bytes.
    pub offset: i32,
    pub line: i32,
}

/// The calling thread's innermost call.
pub fn innermost() -> Innermost {
    let mut it = Innermost::default();
    it.frame = pyhost_innermost(&mut it.code, &mut it.offset, &mut it.line);
    it
}

/// Calls `event` in a code object, in calls that start from now on: with 1 at a line, with 0 if a call ends or yields, with -1 if
/// it starts or goes on. Returns false if this Python has `sys.monitoring` for it.
pub fn watch_lines<'a>(code: &Object<'a>, event: extern "C" fn(c_int)) -> Returned<'a, bool> {
    // SAFETY: attached; the functions that are called check that it is a code object.
    match unsafe { pyhost_watch_lines(code.pointer(), event) } {
        -1 => Err(code.gil().raised()),
        is_watched => Ok(is_watched != 0),
    }
}

/// An address in the C stack of the interpreter's innermost loop, in which the calling thread's innermost Python code
/// runs. None without Python code, or if this Python does not say it (3.9).
pub fn loop_frame() -> Option<usize> {
    Some(pyhost_loop_frame()).filter(|&address| address != 0)
}

/// The function that says whether a signal has come whose handler in Python has not run yet; `None` if this Python's state
/// is not known. It may be called by any thread, without the GIL.
pub fn signal_is_due() -> Option<fn() -> bool> {
    (pyhost_signal_is_due() >= 0).then_some(|| pyhost_signal_is_due() > 0)
}

/// Writes the calling thread's traceback as lines `  file:line in function`, innermost first, as
/// many as there is room for; the length. One line that says so if this Python's frames cannot be read, or the error is
/// lost.
pub fn trace(out: &mut [u8]) -> usize {
    if pyhost_place_is_known() == 0 {
        let line = format_args!("  (calls not read: the frames of this Python are not known)\n");
        return format_into(out, line).len();
    }
    let mut used = 0;
    if loses_errors() {
        let line = format_args!(
            "  (in a sub-interpreter: CPython 3.14 and 3.15 lose its MemoryError; the call may return None)\n"
        );
        used = format_into(out, line).len();
    }
    each_call(|file, line, name| {
        let text = format_args!("  {file}:{line} in {name}\n");
        let written = format_into(&mut out[used..], text).len();
        let whole = written > 0 && out[used + written - 1] == b'\n';
        used += if whole { written } else { 0 };
        whole
    });
    used
}

/// The calling thread's calls in one line, innermost first, as `file:line in function < ...`; `-` without Python code.
pub struct CallsInALine;

impl fmt::Display for CallsInALine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        each_call(|file, line, name| {
            let written = write!(out, "{separator}{file}:{line} in {name}");
            separator = " < ";
            written.is_ok()
        });
        out.write_str(if separator.is_empty() { "-" } else { "" })
    }
}
