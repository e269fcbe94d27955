//! What the standard library has no words for: waiting for several sockets, and ending on a signal.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::time::Duration;

/// A socket to wait for, and what became of it.
pub type Wait = libc::pollfd;

/// Waits for a socket to have something to read, or room to write.
pub fn wait_for(descriptor: c_int, to_write: bool) -> Wait {
    Wait {
        fd: descriptor,
        events: if to_write {
            libc::POLLOUT
        } else {
            libc::POLLIN
        },
        revents: 0,
    }
}

/// Waits until a socket is ready, or until `timeout` has passed; None waits as long as it takes.
///
/// # Errors
/// The system's; a signal is none.
pub fn poll(waits: &mut [Wait], timeout: Option<Duration>) -> io::Result<()> {
    let milliseconds = timeout.map_or(-1, |time| {
        // Rounded up, so that a deadline has passed when this returns.
        c_int::try_from(time.as_millis() + 1).unwrap_or(c_int::MAX)
    });
    // SAFETY: a slice of structures and its length.
    let done = unsafe {
        libc::poll(
            waits.as_mut_ptr(),
            waits.len() as libc::nfds_t,
            milliseconds,
        )
    };
    match done {
        -1 => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            error => Err(error),
        },
        _ => Ok(()),
    }
}

extern "C" fn end(_signal: c_int) {
    // SAFETY: ends the process; allowed in a signal handler.
    unsafe { libc::_exit(0) }
}

/// From here on SIGTERM and SIGINT end the process at once, with status 0: there is nothing to put
/// in order.
pub fn end_on_signals() {
    let handler = end as extern "C" fn(c_int) as libc::sighandler_t;
    for signal in [libc::SIGTERM, libc::SIGINT] {
        // SAFETY: a handler that does nothing but end the process.
        unsafe { libc::signal(signal, handler) };
    }
}
