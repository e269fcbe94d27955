//! Waits for keys, signals or a moment, and reads what was pressed.
//!
//! crossterm's own event source goes round in circles once the terminal is gone, so keys are read
//! here: from a descriptor of the terminal, beside a pipe that signals write to.

#![allow(unsafe_code)]

use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::flag;
use signal_hook::low_level::{emulate_default_handler, pipe};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A letter, a digit, a sign.
    Letter(char),
    /// An arrow upwards.
    Up,
    /// An arrow downwards.
    Down,
    /// Home.
    First,
    /// End.
    Last,
    /// Ctrl-C, or Escape alone.
    Leave,
    /// Ctrl-L.
    Redraw,
}

/// What ended a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Keys.
    Keys(Vec<Key>),
    /// The moment has come, or the terminal's size has changed.
    Look,
    /// The process goes on after a stop, in a terminal that others have used.
    Continued,
    /// A signal that ends the program has come.
    Ended,
    /// The terminal is gone.
    Gone,
}

/// Where keys and signals come from.
pub struct Keys {
    terminal: File,
    bell: UnixStream,
    ending: Arc<AtomicUsize>,
    continued: Arc<AtomicBool>,
    /// The start of a sequence whose end has not come yet.
    begun: Vec<u8>,
}

impl Keys {
    /// Listens to standard input and to signals, which from now on only wake.
    ///
    /// # Errors
    /// The system refuses.
    pub fn listen() -> io::Result<Self> {
        let (bell, rung) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let ending = Arc::new(AtomicUsize::new(0));
        let continued = Arc::new(AtomicBool::new(false));
        let second = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            // Where a terminal that takes nothing holds the program up, a second one ends it.
            flag::register_conditional_default(signal, Arc::clone(&second))?;
            flag::register(signal, Arc::clone(&second))?;
            flag::register_usize(signal, Arc::clone(&ending), signal as usize)?;
            pipe::register(signal, rung.try_clone()?)?;
        }
        flag::register(SIGCONT, Arc::clone(&continued))?;
        for signal in [SIGCONT, SIGWINCH] {
            pipe::register(signal, rung.try_clone()?)?;
        }
        Ok(Keys {
            terminal: File::from(io::stdin().as_fd().try_clone_to_owned()?),
            bell,
            ending,
            continued,
            begun: Vec::new(),
        })
    }

    /// Waits for `time`, or for good.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn wait(&mut self, time: Option<Duration>) -> io::Result<Woken> {
        let time = match self.begun.is_empty() {
            true => time,
            false => Some(time.map_or(REST, |time| time.min(REST))),
        };
        let milliseconds = |time: Duration| time.as_micros().div_ceil(1000);
        let time = time.map_or(-1, |time| milliseconds(time).min(i32::MAX as u128) as i32);
        let wanted = |descriptor| libc::pollfd {
            fd: descriptor,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut polled = [
            wanted(self.terminal.as_raw_fd()),
            wanted(self.bell.as_raw_fd()),
        ];
        // SAFETY: two structures of ours, with open descriptors.
        if unsafe { libc::poll(polled.as_mut_ptr(), 2, time) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        if self.ending.load(Relaxed) != 0 {
            return Ok(Woken::Ended);
        }
        if polled[1].revents != 0 {
            let _ = self.bell.read(&mut [0; 64]);
            return Ok(match self.continued.swap(false, Relaxed) {
                true => Woken::Continued,
                false => Woken::Look,
            });
        }
        if polled[0].revents == 0 {
            // Nothing followed: Escape was pressed, and no key that begins with it.
            let escaped = std::mem::take(&mut self.begun) == [ESCAPE];
            return Ok(match escaped {
                true => Woken::Keys(vec![Key::Leave]),
                false => Woken::Look,
            });
        }
        let mut bytes = [0; 256];
        match self.terminal.read(&mut bytes) {
            Ok(0) => Ok(Woken::Gone),
            Ok(length) => {
                self.begun.extend_from_slice(&bytes[..length]);
                Ok(Woken::Keys(decode(&mut self.begun)))
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Woken::Look),
            Err(_) => Ok(Woken::Gone),
        }
    }

    /// Ends as the signal ends that has come, if one has.
    pub fn follow_signal(&self) {
        let signal = self.ending.load(Relaxed);
        if signal != 0 {
            let _ = emulate_default_handler(signal as i32);
        }
    }
}

const ESCAPE: u8 = 0x1b;
/// How long the rest of a sequence is waited for.
const REST: Duration = Duration::from_millis(100);

/// Takes the keys from the front of `bytes`; the start of a sequence stays.
fn decode(bytes: &mut Vec<u8>) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut rest = bytes.as_slice();
    while let Some((&first, after)) = rest.split_first() {
        if first != ESCAPE {
            keys.extend(match first {
                0x03 => Some(Key::Leave),
                0x0c => Some(Key::Redraw),
                b' '..=b'~' => Some(Key::Letter(first as char)),
                _ => None,
            });
            rest = after;
            continue;
        }
        match after {
            [] | [b'[' | b'O'] => break,
            [b'[' | b'O', sequence @ ..] => {
                let Some(end) = sequence
                    .iter()
                    .position(|byte| (b'@'..=b'~').contains(byte))
                else {
                    break;
                };
                keys.extend(match &sequence[..=end] {
                    b"A" => Some(Key::Up),
                    b"B" => Some(Key::Down),
                    b"H" | b"1~" | b"7~" => Some(Key::First),
                    b"F" | b"4~" | b"8~" => Some(Key::Last),
                    _ => None,
                });
                rest = &sequence[end + 1..];
            }
            // Escape, then something else: both pressed, or Alt held; neither says anything.
            [_, others @ ..] => rest = others,
        }
    }
    // Bytes without an end after 32 are not an escape sequence: drop them.
    *bytes = if rest.len() > 32 {
        Vec::new()
    } else {
        rest.to_vec()
    };
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(pieces: &[&[u8]]) -> Vec<Key> {
        let mut begun = Vec::new();
        let mut keys = Vec::new();
        for piece in pieces {
            begun.extend_from_slice(piece);
            keys.extend(decode(&mut begun));
        }
        keys
    }

    #[test]
    fn sequences_are_read_however_they_are_cut() {
        use Key::{Down, First, Last, Leave, Letter, Redraw, Up};
        assert_eq!(keys(&[b"sq"]), [Letter('s'), Letter('q')]);
        assert_eq!(keys(&[b"\x1b[A\x1bOBx"]), [Up, Down, Letter('x')]);
        assert_eq!(keys(&[b"\x1b", b"[", b"A"]), [Up]);
        assert_eq!(keys(&[b"\x1b[1~\x1b[F"]), [First, Last]);
        assert_eq!(keys(&[b"\x1b[200;5~\x1bs\xc3\xa9r"]), [Letter('r')]);
        assert_eq!(keys(&[b"\x03\x0c"]), [Leave, Redraw]);
        assert_eq!(keys(&[b"\x1b[", &[b'0'; 60], b"q"]), [Letter('q')]);
    }
}
