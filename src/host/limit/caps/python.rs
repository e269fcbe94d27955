//! What the caps ask of Python: where a thread's code is, what a request is for, how a thread is notified. Python
//! lies above the caps and hands its functions over ([`connect`]).
//!
//! Any thread, also inside the allocator.

use super::refusal::{Refusal, Trace};
use crate::cpython::frames::CodePlace;
use std::sync::OnceLock;

/// The use that CPython makes of a small request, as far as it decides whether it may be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An error of the innermost `try`.
    Plain,
    /// A line of a traceback, or a frame object for one or for the caller of a call that ends: the
    /// error that passes is lost without it.
    Unwinding,
    /// A function object, whose parts are released once too often without it (3.12.1).
    Function,
}

/// Whether the calling thread is to have its error now.
pub enum Notice {
    /// No: what it asked for has been freed, or it has its error already.
    No,
    /// Not here: another handler would catch it.
    Elsewhere,
    /// Yes: it is the last refusal now.
    Now,
}

/// The functions of Python and of the report that the caps call. Each may be called inside the allocator,
/// on any thread.
pub struct Python {
    /// Where the calling thread's Python code is, and whether a library that a server calls counts as the server.
    pub place: fn(bool) -> CodePlace,
    /// Whether the calling thread is inside a handler of a `MemoryError`.
    pub handles_error: fn() -> bool,
    /// Whether Python runs and is not being finalised.
    pub is_running: fn() -> bool,
    /// Notifies the calling thread, the main thread, at its next safe point; returns false if that is
    /// impossible.
    pub post: fn() -> bool,
    /// Has an error raised in the calling thread at its next safe point; returns false if that is impossible.
    pub raise: fn() -> bool,
    /// Makes the main thread free memory at its next safe point.
    pub post_pressure: fn() -> bool,
    /// The calling thread's number, 0 of the main thread; `None` if it runs no Python code.
    pub thread: fn() -> Option<usize>,
    /// The number of the thread that is in a call of a library: one, if they are several; `None` if that cannot be known.
    pub calling_thread: fn() -> Option<usize>,
    /// How many threads are in a call of a library.
    pub calling_threads: fn() -> usize,
    /// Whether the calling thread has the GIL: others cannot go on while it waits.
    pub has_gil: fn() -> bool,
    /// Whether the calling thread is the main thread, whose safe points Python finds.
    pub is_main: fn() -> bool,
    /// The instruction that the main thread's Python code is at; 0 if that cannot be known.
    pub main_instruction: fn() -> usize,
    /// The use of a small request, guessed from its bytes and from whether an error is being raised in the
    /// calling thread.
    pub role: fn(usize, bool) -> Role,
    /// Writes the traceback of the calling thread's Python code.
    pub trace: Trace,
    /// Whether Python loses the error of the calling thread: each refusal has a dossier then.
    pub loses_errors: fn() -> bool,
    /// Whether the error of the shortage with this number goes to another unit than the calling thread's.
    pub another_pays: fn(u64) -> bool,
    /// Keeps and shows what surrounds the first refusal of a shortage.
    pub first_refusal: fn(&Refusal),
    /// Ends the process: the reserve is used up.
    pub end: fn(&Refusal) -> !,
}

static PYTHON: OnceLock<Python> = OnceLock::new();

/// Starts notifications of refusals, by these functions. After Python has initialised.
pub fn connect(python: Python) {
    let _ = PYTHON.set(python);
}

/// Whether [`connect`] was called. Before that every request is met, whatever the caps say.
pub(super) fn is_connected() -> bool {
    PYTHON.get().is_some()
}

/// The functions; `None` before [`connect`], and once Python is being finalised: from then on requests are met up to the
/// cap, and no thread is notified.
pub(super) fn python() -> Option<&'static Python> {
    PYTHON.get().filter(|python| (python.is_running)())
}
