//! Memory that libraries have mapped themselves, by library. The address of the call that asked for a map
//! lies in the library's code. Uses plain data and the linker's list; allocates nothing.

use super::rows::Row;
use super::scratch::{Extent, Extents, Owner};
use crate::native::mapped;
use crate::process::loaded::{self, LoadedObject};

/// Libraries that are named; the last entry stands for all others.
pub const LIBRARIES: usize = 24;
const OTHERS: usize = LIBRARIES - 1;

/// Places that libraries map from, and that are counted separately.
const CALLERS: usize = 256;

const NAME: usize = 64;

/// The maps of one library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library {
    name: [u8; NAME],
    length: usize,
    /// Bytes that it has mapped and may write.
    pub mapped: u64,
    /// Resident bytes of them.
    pub resident: u64,
}

impl Library {
    /// A library that has mapped nothing.
    pub const NONE: Library = Library {
        name: [0; NAME],
        length: 0,
        mapped: 0,
        resident: 0,
    };

    /// The file's name, or what stands for the libraries that are no longer loaded.
    pub fn name(&self) -> &str {
        match std::str::from_utf8(&self.name[..self.length]) {
            Ok("") | Err(_) => "others",
            Ok(name) => name,
        }
    }

    fn set_name(&mut self, path: &[u8]) {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        self.length = name.len().min(NAME);
        self.name[..self.length].copy_from_slice(&name[..self.length]);
    }
}

/// A place of some library that maps memory, and which library that is.
#[derive(Clone, Copy)]
struct Caller {
    address: usize,
    library: usize,
}

/// The libraries, and the places that they map from.
pub struct Libraries {
    all: [Library; LIBRARIES],
    callers: [Caller; CALLERS],
    count: usize,
}

impl Libraries {
    /// Finds the library of each map. Takes the dynamic linker's lock, so the heap's gate must be open.
    pub fn look() -> Self {
        let nobody = Caller {
            address: 0,
            library: OTHERS,
        };
        let mut found = Libraries {
            all: [Library::NONE; LIBRARIES],
            callers: [nobody; CALLERS],
            count: 0,
        };
        mapped::each(|range| {
            let known = &found.callers[..found.count];
            if found.count < CALLERS && known.iter().all(|it| it.address != range.caller) {
                found.callers[found.count].address = range.caller;
                found.count += 1;
            }
        });
        if found.count > 0 {
            loaded::each(|object| name_callers(&mut found, object));
        }
        found
    }

    /// Adds the addresses that they have mapped, as far as there is room. What may not be written is
    /// in no account.
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

    /// All of them; nothing is resident of them so far.
    pub fn all(&self) -> [Library; LIBRARIES] {
        self.all
    }

    fn library_of(&self, caller: usize) -> usize {
        let known = &self.callers[..self.count];
        let found = known.iter().find(|it| it.address == caller);
        found.map_or(OTHERS, |it| it.library)
    }

    /// The entry of the library of that path, made if need be.
    fn entry(&mut self, path: &[u8]) -> usize {
        let mut new = Library::NONE;
        new.set_name(path);
        let named = &mut self.all[..OTHERS];
        let place = named
            .iter()
            .position(|it| it.length == 0 || it.name == new.name);
        match place {
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
    let holds = |address: usize| {
        let mut segments = object.segments().filter(|it| it.kind == libc::PT_LOAD);
        segments.any(|segment| segment.addresses.contains(&address))
    };
    for index in 0..found.count {
        if holds(found.callers[index].address) {
            // The executable has no name there: a Python that is linked into it.
            let path = if object.path.is_empty() {
                b"python"
            } else {
                object.path
            };
            found.callers[index].library = found.entry(path);
        }
    }
}
