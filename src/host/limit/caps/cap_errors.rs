//! How refusals reach the script: the errors and the relief that the caps ask for, at safe points
//! of the main thread (`Py_AddPendingCall`), and of others if libraries have grown (as by `PyThreadState_SetAsyncExc`).
//!
//! The functions that the caps call run inside the allocator. `Py_AddPendingCall` takes a lock that CPython
//! holds for a few stores only, and may be called without the GIL.

use super::{self as caps, Notice, Refusal, Role};
use crate::cpython::contexts::post_error;
use crate::cpython::functions::{
    add_pending_call, sizes_of_function_and_traceback, watch_memory_errors,
};
use crate::cpython::layout::MODULES_OF_ERRORS;
use crate::cpython::objects::{Gil, Kept, Kind, Object, Raised, or_none};
use crate::cpython::{IS_FREE_THREADED, frames, threads, waiting};
use crate::heap;
use pyhost_os::format::c_text_into;
use std::sync::OnceLock;

pyhost_os::state! {
    /// What reaches the script at its main thread's safe points.
    static STATE: CapErrors {
        /// The list of functions that relieve memory.
        reliefs: OnceLock<Kept> = OnceLock::new(),
    }
}

/// Delivers refusals to the script from now on. After initialisation, in the main thread. `first_refusal` keeps and shows what
/// surrounds the first refusal of a shortage, `end` ends the process; both are called inside the allocator.
pub fn deliver(
    gil: Gil<'_>,
    another_pays: fn(u64) -> bool,
    first_refusal: fn(&Refusal),
    end: fn(&Refusal) -> !,
) {
    frames::watch_codes(gil);
    watch_memory_errors(gil, |is_passed| {
        if is_passed {
            caps::error_ended(heap::slot());
        }
    });
    caps::connect(caps::Python {
        place: frames::place,
        handles_error: frames::handles_memory_error,
        is_running: || !frames::is_finalizing(),
        post: || add_pending_call(surface),
        raise: || post_error(true),
        post_pressure: || add_pending_call(relieve),
        thread: waiting::own_number,
        calling_thread: waiting::number,
        calling_threads: waiting::count,
        has_gil: || frames::has_gil(),
        is_main: threads::is_main,
        main_instruction: frames::main_instruction,
        role,
        trace: frames::trace,
        loses_errors: frames::loses_errors,
        another_pays,
        first_refusal,
        end,
    });
}

/// The garbage collector's header before an object (`PyGC_Head`). Free-threaded builds have none, and what is known there of a small
/// request is the size of its block.
const COLLECTED: usize = 16;
/// The bytes that the debug hooks keep around a block.
const DEBUG_PADS: usize = 24;

/// The role of an object of so many bytes, as far as its size and the frames of the calling thread show,
/// and whether an error passes there.
pub fn role(asked: usize, error_passes: bool) -> Role {
    let [function, traceback] = sizes_of_function_and_traceback();
    let is = |bytes| match IS_FREE_THREADED {
        true => (bytes..=bytes + bytes / 4 + DEBUG_PADS).contains(&asked),
        false => asked == COLLECTED + bytes || asked == COLLECTED + bytes + DEBUG_PADS,
    };
    let is_frame = || frames::is_frame(asked) || frames::is_frame(asked.wrapping_sub(DEBUG_PADS));
    if error_passes && (is(traceback) || is_frame()) {
        Role::Unwinding
    } else if is(function) {
        Role::Function
    } else {
        Role::Plain
    }
}

/// Loads what Python would load to print an error, for which a script that is out of memory has no room.
pub fn prepare_errors(gil: Gil<'_>) {
    for module in MODULES_OF_ERRORS {
        or_none(gil.import(module));
    }
}

/// Raises the error that was posted for the main thread, if this is the place for it.
fn surface(gil: Gil<'_>) -> Result<(), Raised<'_>> {
    let notice = caps::notice(heap::slot());
    let (Notice::Now, Some(refusal)) = (notice, caps::last()) else {
        return Ok(());
    };
    let mut text = [0u8; 640];
    let text = c_text_into(&mut text, format_args!("{refusal}"));
    Err(gil.raise_text(Kind::Memory, text))
}

/// Registers `function`, called when a soft cap is passed. In the main interpreter.
pub fn add_relief<'a>(function: &Object<'a>) -> Result<(), Raised<'a>> {
    let gil = function.gil();
    if STATE.reliefs.get().is_none() {
        let _ = STATE.reliefs.set(gil.list()?.keep());
    }
    let reliefs = STATE.reliefs.get().ok_or_else(|| gil.no_memory())?;
    reliefs.get(gil).append(function)
}

/// Relieves memory for each scope that is past its soft cap.
fn relieve(gil: Gil<'_>) -> Result<(), Raised<'_>> {
    while let Some(scope) = caps::pressed() {
        gil.collect();
        heap::collect();
        call_reliefs(gil);
        let live = caps::live(scope);
        let soft = caps::soft(scope).unwrap_or(0);
        let mut text = [0u8; 200];
        let line = format_args!(
            "soft cap of {} ({}) passed: {} live after collecting",
            crate::bytes::Bytes(soft),
            scope.name(),
            crate::bytes::Bytes(live)
        );
        gil.warn(Kind::ResourceWarning, c_text_into(&mut text, line))?;
    }
    Ok(())
}

/// Calls the functions that relieve memory. No exception is set.
fn call_reliefs(gil: Gil<'_>) {
    let Some(reliefs) = STATE.reliefs.get() else {
        return;
    };
    let mut index = 0;
    while let Some(function) = reliefs.get(gil).at(index) {
        if let Err(raised) = function.call(&[]) {
            raised.write_unraisable(&function);
        }
        index += 1;
    }
}
