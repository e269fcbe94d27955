//! Memory that libraries have mapped themselves, by library. The address of the call that asked for a map
//! lies in the library's code. Uses plain data and the linker's list; allocates nothing.

#![allow(unsafe_code)]

use super::rows::Row;
use super::scratch::{Array, Extent, Owner};
use crate::native::mapped;
use std::ffi::{CStr, c_int, c_void};

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
            // SAFETY: `each_object` has the type that is called, and gets what it casts to.
            unsafe { libc::dl_iterate_phdr(Some(each_object), (&raw mut found).cast()) };
        }
        found
    }

    /// Adds the addresses that they have mapped, as far as there is room. What may not be written is
    /// in no account.
    pub fn add_to(&mut self, extents: &mut Array<'_, Extent>) {
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
unsafe extern "C" fn each_object(
    object: *mut libc::dl_phdr_info,
    _size: usize,
    found: *mut c_void,
) -> c_int {
    // SAFETY: the linker passes a description of an object, and what `look` passed.
    let (object, found) = unsafe { (&*object, &mut *found.cast::<Libraries>()) };
    // SAFETY: a table of so many headers, in memory that is mapped.
    let headers =
        unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    let holds = |address: usize| {
        let segments = headers.iter().filter(|it| it.p_type == libc::PT_LOAD);
        segments.into_iter().any(|it| {
            let start = object.dlpi_addr as usize + it.p_vaddr as usize;
            (start..start + it.p_memsz as usize).contains(&address)
        })
    };
    for index in 0..found.count {
        if holds(found.callers[index].address) {
            let path = match object.dlpi_name.is_null() {
                true => b"",
                // SAFETY: a string of the linker's, while it has its lock.
                false => unsafe { CStr::from_ptr(object.dlpi_name) }.to_bytes(),
            };
            // The executable has no name there: a Python that is linked into it.
            let path = if path.is_empty() { b"python" } else { path };
            found.callers[index].library = found.entry(path);
        }
    }
    0
}
