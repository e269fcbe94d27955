//! Where in the script the calling thread is, read without allocating: from inside an allocator.
//!
//! What CPython offers differs by version. 3.9 and 3.10 keep frame objects, which the public
//! functions walk. 3.11 and 3.12 export `_Py_DumpTraceback`, made for signal handlers, which
//! writes to a descriptor: here a pipe, which is read back. 3.13 exports neither, but tells the
//! offsets of its structures to debuggers (`_Py_DebugOffsets`, first in `_PyRuntime`). Later
//! versions move them: there the place stays unknown.

#![allow(unsafe_code)]

use crate::faults::Line;

/// How many calls are told.
#[cfg(not(Py_3_14))]
const DEPTH: usize = 12;

/// Adds the calling thread's stack of Python calls to `line`, innermost first, as
/// `FILE:LINE in FUNCTION < FILE:LINE in FUNCTION`; `-` where there is none or none is known.
///
/// Any thread, with or without a GIL, once [`prepare`] has returned.
pub fn place(line: &mut Line) {
    if !by_version::place(line) {
        line.add(b"-");
    }
}

/// Prepares [`place`]. Once, while the process has one thread.
pub fn prepare() {
    by_version::prepare();
}

#[cfg(not(any(Py_3_14, all(Py_3_11, not(Py_3_13)))))]
mod code {
    use crate::faults::Line;
    use pyo3::ffi::{self, Py_ssize_t, PyObject};
    use std::ffi::{CStr, c_int};
    use std::fmt::Write;

    /// A member of a code object that is a string.
    ///
    /// # Safety
    /// `code` is a live code object.
    unsafe fn member(code: *mut PyObject, name: &CStr) -> Option<*mut PyObject> {
        // SAFETY: the type's members end with one without a name; an object member is a pointer.
        unsafe {
            let mut member = (*ffi::Py_TYPE(code)).tp_members;
            while !member.is_null() && !(*member).name.is_null() {
                if CStr::from_ptr((*member).name) == name {
                    let place = code.byte_offset((*member).offset as Py_ssize_t);
                    return Some(*place.cast::<*mut PyObject>());
                }
                member = member.add(1);
            }
            None
        }
    }

    /// Adds the text of a string object, if it is one of ASCII: others have no UTF-8 yet.
    ///
    /// # Safety
    /// Null or live.
    unsafe fn text(object: Option<*mut PyObject>, line: &mut Line) {
        // SAFETY: a compact string of ASCII has its bytes behind its header.
        unsafe {
            match object {
                Some(object)
                    if !object.is_null()
                        && ffi::PyUnicode_Check(object) != 0
                        && ffi::PyUnicode_IS_COMPACT_ASCII(object) != 0 =>
                {
                    let mut length = 0;
                    let start = ffi::PyUnicode_AsUTF8AndSize(object, &mut length);
                    line.add(std::slice::from_raw_parts(start.cast(), length as usize));
                }
                _ => line.add(b"?"),
            }
        }
    }

    /// Adds one call.
    ///
    /// # Safety
    /// `code` is a live code object.
    pub unsafe fn add(line: &mut Line, code: *mut PyObject, number: c_int, first: bool) {
        if !first {
            line.add(b" < ");
        }
        // SAFETY: the caller's duty.
        unsafe {
            text(member(code, c"co_filename"), line);
            let _ = write!(line, ":{number} in ");
            text(member(code, c"co_name"), line);
        }
    }
}

#[cfg(not(Py_3_11))]
mod by_version {
    use super::{DEPTH, Line, code};
    use pyo3::ffi;

    pub fn prepare() {}

    pub fn place(line: &mut Line) -> bool {
        // SAFETY: with the GIL; a frame keeps its code and its callers, and the references taken
        // here are not the last, so that nothing is freed.
        unsafe {
            if ffi::PyGILState_GetThisThreadState().is_null() || ffi::PyGILState_Check() == 0 {
                return false;
            }
            let mut frame = ffi::PyEval_GetFrame();
            let any = !frame.is_null();
            ffi::Py_XINCREF(frame.cast());
            for count in 0..DEPTH {
                if frame.is_null() {
                    break;
                }
                let of = ffi::PyFrame_GetCode(frame);
                code::add(
                    line,
                    of.cast(),
                    ffi::PyFrame_GetLineNumber(frame),
                    count == 0,
                );
                ffi::Py_DECREF(of.cast());
                let caller = ffi::PyFrame_GetBack(frame);
                ffi::Py_DECREF(frame.cast());
                frame = caller;
            }
            ffi::Py_XDECREF(frame.cast());
            any
        }
    }
}

#[cfg(all(Py_3_11, not(Py_3_13)))]
mod by_version {
    use super::{DEPTH, Line};
    use crate::faults::out_of_the_way;
    use pyo3::ffi;
    use std::sync::OnceLock;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

    unsafe extern "C" {
        fn _Py_DumpTraceback(descriptor: libc::c_int, thread: *mut ffi::PyThreadState);
    }

    /// Both ends of the pipe.
    static PIPE: OnceLock<[libc::c_int; 2]> = OnceLock::new();
    /// The pipe is in use: another thread's place stays unknown rather than wait.
    static BUSY: AtomicBool = AtomicBool::new(false);

    pub fn prepare() {
        let mut ends = [0; 2];
        // SAFETY: an array for two descriptors. A dump that does not fit is cut, never waited for.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } == 0 {
            let _ = PIPE.set(ends.map(out_of_the_way));
        }
    }

    pub fn place(line: &mut Line) -> bool {
        let Some(&[reader, writer]) = PIPE.get() else {
            return false;
        };
        if BUSY
            .compare_exchange(false, true, Acquire, Relaxed)
            .is_err()
        {
            return false;
        }
        // SAFETY: the function is made for signal handlers, and the thread is the calling one.
        unsafe {
            let thread = ffi::PyGILState_GetThisThreadState();
            if !thread.is_null() {
                _Py_DumpTraceback(writer, thread);
            }
        }
        let mut calls = 0;
        let mut bytes = [0; 512];
        let mut dump = Dump::default();
        loop {
            // SAFETY: a buffer of ours and its length.
            let count = unsafe { libc::read(reader, bytes.as_mut_ptr().cast(), bytes.len()) };
            let Ok(count @ 1..) = usize::try_from(count) else {
                break;
            };
            for &byte in &bytes[..count] {
                dump.take(byte, line, &mut calls);
            }
        }
        BUSY.store(false, Release);
        calls > 0
    }

    /// Reads `  File "FILE", line LINE in FUNCTION`, a byte at a time.
    struct Dump {
        state: State,
        /// What of the text that is waited for has come.
        matched: usize,
    }

    impl Default for Dump {
        fn default() -> Self {
            Dump {
                state: State::Start,
                matched: 0,
            }
        }
    }

    #[derive(Clone, Copy, PartialEq)]
    enum State {
        /// At the start of a line.
        Start,
        File,
        /// Between the file and the line's number.
        Between,
        Rest,
        /// A line that is no call.
        Other,
    }

    const START: &[u8] = b"  File \"";
    const BETWEEN: &[u8] = b", line ";

    impl Dump {
        fn take(&mut self, byte: u8, line: &mut Line, calls: &mut usize) {
            if byte == b'\n' {
                *self = Dump::default();
                return;
            }
            match self.state {
                State::Start if byte == START[self.matched] => {
                    self.matched += 1;
                    if self.matched == START.len() {
                        let told = *calls < DEPTH;
                        self.state = if told { State::File } else { State::Other };
                        self.matched = 0;
                        if told && *calls > 0 {
                            line.add(b" < ");
                        }
                        *calls += usize::from(told);
                    }
                }
                State::Start => self.state = State::Other,
                State::File if byte == b'"' => self.state = State::Between,
                State::File | State::Rest => line.add(&[byte]),
                State::Between => {
                    self.matched += 1;
                    if self.matched == BETWEEN.len() {
                        line.add(b":");
                        self.state = State::Rest;
                    }
                }
                State::Other => {}
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_dump_becomes_one_line() {
            let dump = "Stack (most recent call first):\n  File \"/a b.py\", line 3 in f\n  File \
                        \"<string>\", line 1 in <module>\n  ...\n";
            let (mut reader, mut line, mut calls) = (Dump::default(), Line::new(), 0);
            for byte in dump.bytes() {
                reader.take(byte, &mut line, &mut calls);
            }
            assert_eq!(line.as_bytes(), b"/a b.py:3 in f < <string>:1 in <module>");
            assert_eq!(calls, 2);
        }
    }
}

#[cfg(all(Py_3_13, not(Py_3_14)))]
mod by_version {
    use super::{DEPTH, Line, code};
    use pyo3::ffi::{self, PyObject};
    use std::ffi::{c_char, c_int, c_void};
    use std::sync::OnceLock;

    /// The start of `_Py_DebugOffsets` of 3.13's `pycore_runtime.h`, as far as it is read here.
    #[repr(C)]
    struct Offsets {
        cookie: [u8; 8],
        version: u64,
        free_threaded: u64,
        runtime_state: [u64; 3],
        interpreter_state: [u64; 13],
        thread_state: ThreadState,
        interpreter_frame: Frame,
    }

    #[repr(C)]
    #[derive(Clone, Copy)]
    struct ThreadState {
        _size_to_interp: [u64; 4],
        current_frame: u64,
        _thread_id_to_status: [u64; 4],
    }

    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Frame {
        _size: u64,
        previous: u64,
        executable: u64,
        _instruction_and_locals: [u64; 2],
        owner: u64,
    }

    /// `FRAME_OWNED_BY_CSTACK`: no call of Python's, but a mark on the stack.
    const OWNED_BY_C: c_char = 3;

    unsafe extern "C" {
        static _PyRuntime: Offsets;
        fn PyUnstable_InterpreterFrame_GetLine(frame: *mut c_void) -> c_int;
    }

    static OFFSETS: OnceLock<(ThreadState, Frame)> = OnceLock::new();

    pub fn prepare() {
        // SAFETY: a static of libpython that begins with these offsets, which do not change.
        unsafe {
            let is_3_13 = _PyRuntime.version >> 16 == 0x030d;
            if _PyRuntime.cookie == *b"xdebugpy" && is_3_13 {
                let _ = OFFSETS.set((_PyRuntime.thread_state, _PyRuntime.interpreter_frame));
            }
        }
    }

    /// # Safety
    /// `base` has a `T` at that offset.
    unsafe fn at<T: Copy>(base: *mut c_void, offset: u64) -> T {
        // SAFETY: the caller's duty.
        unsafe { base.byte_add(offset as usize).cast::<T>().read() }
    }

    pub fn place(line: &mut Line) -> bool {
        let Some((thread_state, layout)) = OFFSETS.get() else {
            return false;
        };
        // SAFETY: the calling thread's own state and frames, which nobody changes meanwhile; the
        // offsets are CPython's own. A frame's code outlives it.
        unsafe {
            let thread: *mut c_void = ffi::PyGILState_GetThisThreadState().cast();
            if thread.is_null() {
                return false;
            }
            let mut frame: *mut c_void = at(thread, thread_state.current_frame);
            let mut calls = 0;
            while !frame.is_null() && calls < DEPTH {
                let executable: *mut PyObject = at(frame, layout.executable);
                let owner: c_char = at(frame, layout.owner);
                if owner != OWNED_BY_C
                    && !executable.is_null()
                    && ffi::Py_TYPE(executable) == &raw mut ffi::PyCode_Type
                {
                    let number = PyUnstable_InterpreterFrame_GetLine(frame);
                    code::add(line, executable, number, calls == 0);
                    calls += 1;
                }
                frame = at(frame, layout.previous);
            }
            calls > 0
        }
    }
}

#[cfg(Py_3_14)]
mod by_version {
    use super::Line;

    pub fn prepare() {}

    pub fn place(_line: &mut Line) -> bool {
        false
    }
}
