//! The threads that allocated, by name. A server makes a thread for each request, so the table of names has a bound.

use crate::stacks::Stacks;
use pyhost_os::mmap_vec::MmapVec;

/// Names that are kept; threads with further ones are one.
pub const NAMES: usize = 250;

/// Whose the allocations of a site are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread<'a> {
    /// The process's first thread; in a forked child the one that lives on.
    Main,
    /// Threads without a name of their own.
    Unnamed,
    /// Threads of that name.
    Named(&'a str),
    /// Threads whose names have no place in the table.
    Others,
}

// The numbers of the threads without an entry.
pub const MAIN: u8 = u8::MAX;
const UNNAMED: u8 = u8::MAX - 1;
pub const OTHERS: u8 = u8::MAX - 2;
const _: () = assert!(NAMES <= OTHERS as usize);

#[derive(Default)]
pub struct Threads {
    /// For each the number of its text.
    pub names: MmapVec<u64>,
}

impl Threads {
    /// The number of a thread, whose name is entered if there is room.
    pub fn intern(&mut self, thread: Thread<'_>, stacks: &mut Stacks) -> u8 {
        let name = match thread {
            Thread::Main => return MAIN,
            Thread::Unnamed => return UNNAMED,
            Thread::Others => return OTHERS,
            Thread::Named(name) => name,
        };
        let is_it = |text: &u64| stacks.bytes(*text as u32) == name.as_bytes();
        if let Some(number) = self.names.iter().position(is_it) {
            return number as u8;
        }
        let number = self.names.len();
        let is_kept = number < NAMES
            && stacks
                .text(name.as_bytes())
                .is_some_and(|text| self.names.push(text.into()));
        if is_kept { number as u8 } else { OTHERS }
    }

    pub fn view<'a>(&self, number: u8, stacks: &'a Stacks) -> Thread<'a> {
        match (number, self.names.get(usize::from(number))) {
            (MAIN, _) => Thread::Main,
            (UNNAMED, _) => Thread::Unnamed,
            (_, Some(text)) => Thread::Named(stacks.text_at(*text as u32)),
            (_, None) => Thread::Others,
        }
    }

    /// Takes over the names of another process; false if they cannot be those of threads.
    pub fn fill(&mut self, names: &[u64], stacks: &Stacks) -> bool {
        let is_text = |&text: &u64| text < stacks.texts.len() as u64;
        names.len() <= NAMES && names.iter().all(is_text) && self.names.extend(names)
    }

    /// A copy. None if there is no memory for it.
    pub fn copied(&self) -> Option<Self> {
        let names = self.names.copied()?;
        Some(Threads { names })
    }
}
