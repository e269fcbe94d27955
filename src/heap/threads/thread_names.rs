//! The names of the threads whose allocations are samples, as the kernel has them.
//!
//! Reading one is a call of the system. A thread that begins may be named a moment later, so its first samples each read
//! the name anew; then one in each tick of the clock does.

use pyhost_os::process::{self, small_file::read_once};
use pyhost_os::terminal_text::leading_text;
use pyhost_sampler::{Samples, Thread};
use std::cell::Cell;

/// Samples of a thread that each read its name.
const FIRST: u8 = 64;
/// Names that `threading` gives to threads that have none begin like this, before a number. From CPython 3.14 on it
/// passes them to the kernel. There are as many as threads, and they say less than the calls.
const AUTOMATIC: &[&str] = &["Thread-", "Dummy-"];

/// The number of a thread's name, as the thread keeps it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Named {
    number: u8,
    readings: u8,
    /// Of the table that the number is of; 0 if there is none.
    epoch: u16,
    /// The tick of the last reading.
    tick: u32,
}

impl Named {
    /// A thread whose name was not read. All bits are zero.
    #[cfg(not(feature = "preloaded"))]
    pub const NOT: Named = Named {
        number: 0,
        readings: 0,
        epoch: 0,
        tick: 0,
    };
}

/// A name as the kernel gives it: 15 bytes at most.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Name([u8; 16]);

impl Name {
    fn of_bytes(name: &[u8]) -> Self {
        let mut kept = [0; 16];
        let end = name.iter().position(|&byte| byte == 0 || byte == b'\n');
        let name = &name[..end.unwrap_or(name.len()).min(15)];
        kept[..name.len()].copy_from_slice(name);
        Name(kept)
    }

    /// As text: up to the first byte that is none, since the kernel cuts a long name anywhere.
    fn text(&self) -> &str {
        leading_text(&self.0)
    }

    fn is_automatic(&self) -> bool {
        AUTOMATIC.iter().any(|begin| {
            let rest = self.text().strip_prefix(begin);
            rest.is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
        })
    }
}

/// What is known of the names.
pub struct Names {
    epoch: u16,
    /// The first thread's name at the start, and now. A thread begins with the name of the one that makes it, so one with a
    /// name of these has none of its own.
    of_main: [Name; 2],
}

impl Names {
    /// For a new table of numbers. `former` are the names that were used before, if any.
    pub fn new(former: Option<&Names>) -> Self {
        let mut buffer = [0; 16];
        let own = read_once(c"/proc/self/comm", &mut buffer).unwrap_or_default();
        Names {
            epoch: next(former.map_or(0, |names| names.epoch)),
            of_main: [Name::of_bytes(own); 2],
        }
    }

    /// In a forked child: its one thread is the first.
    pub fn forked(&mut self) {
        self.epoch = next(self.epoch);
    }

    /// The number of the calling thread's name, which keeps it in `named`. `tick` is the present one.
    pub fn number(&mut self, named: &Cell<Named>, samples: &mut Samples, tick: u32) -> u8 {
        let known = named.get();
        let is_known = known.epoch == self.epoch;
        if is_known && known.readings == FIRST && known.tick == tick {
            return known.number;
        }
        let readings = if is_known { known.readings } else { 0 };
        let number = self.read(samples);
        named.set(Named {
            number,
            readings: (readings + 1).min(FIRST),
            epoch: self.epoch,
            tick,
        });
        number
    }

    fn read(&mut self, samples: &mut Samples) -> u8 {
        let name = Name::of_bytes(&process::thread_name());
        if process::is_first_thread() {
            self.of_main[1] = name;
            return samples.thread(Thread::Main);
        }
        let has_own = !name.text().is_empty() && !self.of_main.contains(&name);
        match has_own && !name.is_automatic() {
            true => samples.thread(Thread::Named(name.text())),
            false => samples.thread(Thread::Unnamed),
        }
    }
}

fn next(epoch: u16) -> u16 {
    epoch.wrapping_add(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_at_their_last_letter_and_automatic_ones_are_known() {
        assert_eq!(Name::of_bytes(b"worker\0rest").text(), "worker");
        assert_eq!(Name::of_bytes(b"python3\n").text(), "python3");
        assert_eq!(Name::of_bytes("ääääääää".as_bytes()).text(), "äääääää");
        assert_eq!(Name::of_bytes(b"").text(), "");
        for (name, is_automatic) in [
            ("Thread-12 (work", true),
            ("Thread-1", true),
            ("Dummy-3", true),
            ("Thread-pool", false),
            ("ThreadPoolExecu", false),
        ] {
            assert_eq!(Name::of_bytes(name.as_bytes()).is_automatic(), is_automatic);
        }
    }
}
