//! Memory that libraries have mapped themselves, by library. The address of the call that asked for a map
//! lies in the library's code. Uses plain data and the linker's list; allocates nothing.

use super::rows::{LIBRARIES, Library, Row};
use super::scratch::{Extent, Extents, Owner};
use crate::ledger::Account;
use crate::libc_exports::native::mapped;
use crate::process::loaded::{self, LoadedObject};
use arrayvec::ArrayVec;

const OTHERS: usize = LIBRARIES - 1;

/// Places that libraries map from, and that are counted separately.
const CALLERS: usize = 256;

/// A place of some library that maps memory, and which library that is.
#[derive(Clone, Copy)]
struct Caller {
    address: usize,
    library: usize,
}

/// The libraries, and the places that they map from.
pub struct Libraries {
    /// Nothing is resident of them at first.
    pub all: [Library; LIBRARIES],
    callers: ArrayVec<Caller, CALLERS>,
}

impl Libraries {
    /// None, and no places.
    pub const NONE: Libraries = Libraries {
        all: [Library::NONE; LIBRARIES],
        callers: ArrayVec::new_const(),
    };

    /// Finds the library of each map. Takes the dynamic linker's lock, so the heap's gate must be open.
    pub fn look() -> Self {
        let mut found = Libraries::NONE;
        mapped::each(|range| found.note(range.caller));
        found.find();
        found
    }

    /// Notes a place that maps memory.
    pub fn note(&mut self, address: usize) {
        if self.callers.iter().all(|it| it.address != address) {
            let library = OTHERS;
            let _ = self.callers.try_push(Caller { address, library });
        }
    }

    /// Finds the libraries of the places. Takes the dynamic linker's lock.
    pub fn find(&mut self) {
        if !self.callers.is_empty() {
            loaded::each(|object| name_callers(self, object));
        }
    }

    pub fn add(&mut self, caller: usize, mapped: u64, resident: u64) {
        let library = &mut self.all[self.library_of(caller)];
        library.mapped += mapped;
        library.resident += resident;
    }

    /// Adds the addresses that they have mapped, as far as there is room. What may not be written is in no account.
    pub fn add_to(&mut self, extents: &mut Extents<'_>) {
        let most = extents.room() / 2;
        let mut added = 0;
        mapped::each(|range| {
            let library = self.library_of(range.caller);
            let row = match range.writable {
                true => {
                    self.all[library].mapped += (range.end - range.start) as u64;
                    Owner::Library(library)
                }
                false if mapped::LEFT_OUT(range) => Owner::Account(Account::Obj),
                false => Owner::Row(Row::LibraryMaps),
            };
            if added < most {
                extents.push(Extent {
                    start: range.start,
                    end: range.end,
                    row,
                });
                added += 1;
            }
        });
    }

    fn library_of(&self, caller: usize) -> usize {
        let found = self.callers.iter().find(|it| it.address == caller);
        found.map_or(OTHERS, |it| it.library)
    }

    /// The entry of the library of that path, made if need be.
    fn entry(&mut self, path: &[u8]) -> usize {
        let new = Library::of(path);
        let named = &mut self.all[..OTHERS];
        match named.iter().position(|it| it.can_hold(&new)) {
            Some(place) => {
                named[place] = new;
                place
            }
            None => OTHERS,
        }
    }
}

/// Gives each caller within an object that object's name.
fn name_callers(found: &mut Libraries, object: &LoadedObject<'_>) {
    for index in 0..found.callers.len() {
        if object.holds(found.callers[index].address) {
            // The executable has no name there: a Python that is linked into it.
            let has_name = !object.path.is_empty();
            let path = if has_name { object.path } else { b"python" };
            found.callers[index].library = found.entry(path);
        }
    }
}
