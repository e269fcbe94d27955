//! SIGUSR2 asks for the report of the moment, if a file for it was asked for and the script
//! leaves the signal at its default.
//!
//! Python's own machinery carries the signal: its C handler only notes it, and what is called for it
//! runs in the main thread between two instructions, also when that sleeps or waits. So nothing is
//! done in the signal handler, and no lock of CPython's is taken there, as `Py_AddPendingCall` would.
//!
//! The handler is an `int` of value 0 that can be called: `signal.getsignal` tells it as
//! `SIG_DFL`, and `signal.signal` gives that back as the handler of before. In the
//! main thread of the main interpreter. A script's own handler takes its place.

use super::functions::{Arguments, Module, Slot, This, subclass};
use super::objects::{Gil, Returned, or_none};
use std::sync::OnceLock;

/// Writes the report.
static WRITE: OnceLock<fn()> = OnceLock::new();

fn call<'a>(handler: This<'a, Module>, _: Arguments<'a>) -> Returned<'a> {
    if let Some(write) = WRITE.get() {
        write();
    }
    Ok(handler.gil().none())
}

/// Puts the handler in place, which calls `write`, if the signal is at its default. After initialisation, once;
/// returns false if it is not, or an error was raised.
pub fn watch(gil: Gil<'_>, write: fn()) -> bool {
    let _ = WRITE.set(write);
    or_none(replace_default(gil)).unwrap_or(false)
}

fn replace_default(gil: Gil<'_>) -> Returned<'_, bool> {
    let module = gil.import(c"_signal")?;
    let signal = gil.int(libc::SIGUSR2.into())?;
    let now = module.attribute(c"getsignal")?.call(&[&signal])?;
    if !now.equals(&*module.attribute(c"SIG_DFL")?)? {
        return Ok(false);
    }
    let int = signal.class()?;
    let class = subclass(&int, c"pyhost.SIG_DFL", [Slot::call(call)])?;
    let handler = class.call(&[&*gil.int(0)?])?;
    module.attribute(c"signal")?.call(&[&signal, &handler])?;
    Ok(true)
}
